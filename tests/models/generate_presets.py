"""Write the presets whose config.json is published, with the keys of it that bear on position.

`python -m tests.models.generate_presets` writes them into posenc/models/data/presets.json from
published_models, after those that are written by hand.
"""

import json
import re

from posenc.models.config_token import kept_part
from posenc.models.presets import PRESETS
from posenc.models.read_config import read_record
from tests.models.published_models.establish import published

# Label and year of release, the best known first.
CHOSEN = {
    "llama-2-7b": ("Llama-2-7B", 2023), "llama-3-8b": ("Llama-3-8B", 2024),
    "llama-3.1-8b": ("Llama-3.1-8B", 2024), "gpt-oss-20b": ("gpt-oss-20b", 2025),
    "mixtral-8x7b": ("Mixtral-8x7B", 2023), "gemma-2-9b": ("Gemma-2-9B", 2024),
    "gemma-3-4b": ("Gemma-3-4B", 2025), "deepseek-v3": ("DeepSeek-V3", 2024),
    "phi-2": ("Phi-2", 2023), "gpt-j-6b": ("GPT-J-6B", 2021), "gpt-neox-20b": ("GPT-NeoX-20B", 2022),
    "codellama-7b": ("CodeLlama-7B", 2023), "mpt-7b": ("MPT-7B", 2023), "falcon-7b": ("Falcon-7B", 2023),
    "olmo-2-7b": ("OLMo-2-7B", 2024), "smollm3-3b": ("SmolLM3-3B", 2025),
    "modernbert-base": ("ModernBERT-base", 2024), "llama-3.3-70b": ("Llama-3.3-70B", 2024),
    "llama-4-scout-instruct": ("Llama-4-Scout", 2025), "olmo-3-7b": ("Olmo-3-7B", 2025),
    "command-a": ("Command A", 2025), "command-r7b": ("Command R7B", 2024),
    "apertus-70b": ("Apertus-70B", 2025), "exaone-4.0-1.2b": ("EXAONE-4.0-1.2B", 2025),
    "exaone-4.0-32b": ("EXAONE-4.0-32B", 2025), "glm-4-9b-0414": ("GLM-4-9B-0414", 2025),
    "granite-3.3-8b": ("Granite-3.3-8B", 2025), "seed-oss-36b": ("Seed-OSS-36B", 2025),
    "solar-open-100b": ("Solar-Open-100B", 2025), "trinity-mini": ("Trinity-Mini", 2025),
    "afm-4.5b": ("AFM-4.5B", 2025), "ernie-4.5-0.3b": ("ERNIE-4.5-0.3B", 2025),
    "ernie-4.5-21b-a3b": ("ERNIE-4.5-21B-A3B", 2025), "helium-1-preview": ("Helium-1-preview", 2025),
    "nanochat-d20": ("nanochat-d20", 2025), "mistral-nemo": ("Mistral-Nemo", 2024),
    "deepseek-v2-lite": ("DeepSeek-V2-Lite", 2024), "starcoder2-15b": ("StarCoder2-15B", 2024),
    "olmoe-1b-7b": ("OLMoE-1B-7B", 2024), "gemma-2b": ("Gemma-2B", 2024),
    "tinyllama-1.1b": ("TinyLlama-1.1B", 2024), "pythia-12b": ("Pythia-12B", 2023),
    "stablelm-3b-4e1t": ("StableLM-3B-4E1T", 2023), "falcon-rw-1b": ("Falcon-RW-1B", 2023),
}  # fmt: skip


def main() -> None:
    """Write the presets, one a line."""
    files = published()
    presets = json.loads(PRESETS.read_text("utf-8"))
    presets = {name: preset for name, preset in presets.items() if name not in CHOSEN}
    for name, (label, year) in CHOSEN.items():
        # The path inside the repository stays in the published file.
        source = re.sub(r"( at [0-9a-f]{7}),.*", r"\1", files[name]["source"])
        config = kept_part(files[name]["config"], read_record(files[name]["config"]))
        presets[name] = {"label": label, "year": year, "source": source, "config": config}
    lines = [f"{json.dumps(name)}: {json.dumps(preset)}" for name, preset in presets.items()]
    PRESETS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
