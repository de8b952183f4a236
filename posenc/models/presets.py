"""Well-known models by name: the part of their config.json that bears on position, with its source.

A context is what the config says the model takes; it is not the length of training. That is
`original_max_position_embeddings`, or else the `trained_length` of a preset whose makers published it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from posenc.models.families import VERSION
from posenc.models.layers import Sizes
from posenc.models.model_config import ModelConfig, uniform_model
from posenc.models.read_config import read_config
from posenc.schemes.base import SchemeConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.schemes.transformer_xl import TransformerXLConfig

# LongRoPE factors of the 48 pairs of Phi-3-mini-128k, found by search on it (Ding et al. 2024, arXiv
# 2402.13753). As in its config.json since June 2024; an evaluation script of its makers has both lists.
_PHI_3_MINI_LONG = torch.tensor((
    1.07, 1.12, 1.15, 1.42, 1.5699999, 1.8, 2.1299999, 2.1299999, 3.01, 5.9100003, 6.9500003,
    9.070001, 9.93, 10.71, 11.13, 14.61, 15.409999, 19.81, 37.28, 38.28, 38.6, 40.120003, 46.200005,
    50.940006, 53.660007, 54.93739, 56.89739, 57.287388, 59.987385, 60.867386, 60.887386, 61.717392,
    62.917393, 62.957394, 63.417393, 63.817394, 63.837395, 63.897396, 63.937397, 64.0674, 64.11435,
    64.12435, 64.15435, 64.19435, 64.244354, 64.574356, 64.69, 64.76,
), dtype=torch.float32, device="cpu").tolist()  # fmt: skip
_PHI_3_MINI_SHORT = (
    1.1, 1.1, 1.1, 1.3000000000000003, 1.3500000000000003, 1.3500000000000003,
    1.4000000000000004, 1.5500000000000005, *(17 * (2.000000000000001,)),
    *(6 * (2.0500000000000007,)), 2.1000000000000005, 2.1000000000000005, 2.1500000000000004,
    *(5 * (2.25,)), 2.3999999999999995, 2.4499999999999993, 2.499999999999999,
    2.6999999999999984, 2.6999999999999984, 2.7499999999999982, 2.799999999999998,
    2.8999999999999977, 3.049999999999997,
)  # fmt: skip


PUBLISHED = Path(__file__).with_name("presets.json")  # written from published config.json files
_TRANSFORMERS = f"the defaults of Hugging Face transformers {VERSION}"
_LITGPT = "LitGPT's list of models"
_FILE = "the model's config.json"
# Of presets whose numbers agree with a default or a quotation, while no copy of the file was compared.
_NO_FILE: Mapping[str, Any] = {"unverified": "its numbers against its own config.json"}


@dataclass(frozen=True, kw_only=True)
class ModelPreset:
    """One model.

    year: of its release, 0 for a visitor's own model.
    source: where its numbers were checked. unverified: which of them were not, "" where all were.
    config: what its config.json says of position. model: the model itself, where there is no such file.
    optional: whether the config's scaling is one that its makers recommend for long texts only, and
    that the published file leaves out. note: what else to know, "" for nothing.
    trained_length: tokens of the longest training texts, where the makers published it and the config
    does not have it. trained_source: where they did.
    """

    label: str
    year: int = 0
    source: str
    unverified: str = ""
    config: Mapping[str, Any] | None = None
    optional: bool = False
    note: str = ""
    trained_length: int | None = None
    trained_source: str = ""
    model: ModelConfig | None = None

    def read(self, *, scaled: bool = True) -> ModelConfig:
        """Return the model; without its optional scaling if not `scaled`."""
        if self.model is not None:
            return self.model
        config = dict(self.config or {})
        if self.optional and not scaled:
            del config["rope_scaling"]
        return read_config(config)


def _model(
    label: str, year: int, source: str, /, *, about: Mapping[str, Any] | None = None, **config: Any
) -> ModelPreset:
    return ModelPreset(label=label, year=year, source=source, config=config, **(about or {}))


def _paper(
    label: str,
    year: int,
    source: str,
    scheme: SchemeConfig,
    sizes: Sizes,
    unverified: str = "",
    notes: tuple[str, ...] = (),
) -> ModelPreset:
    """Return a model that is known from a paper and its code, not from a config.json."""
    note = "This model has no config.json; its numbers are those of its paper and code."
    model = uniform_model("", sizes, scheme, layer_notes=notes, notes=(note,))
    return ModelPreset(label=label, year=year, source=source, unverified=unverified, model=model)


_KEYS = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "max_position_embeddings", "rope_theta",
)  # fmt: skip


def _llama(model_type: str, *sizes: float, **more: Any) -> dict[str, Any]:
    """Return a config with Llama's keys. sizes: in the order of _KEYS."""
    return {"model_type": model_type, **dict(zip(_KEYS, sizes, strict=True)), **more}


_QWEN_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
_OPTIONAL = (
    "Its makers recommend the scaling for texts past 32,768 tokens; the published file has none."
)

MODELS: Mapping[str, ModelPreset] = {
    "transformer": _paper(
        "Transformer base 2017", 2017, "Vaswani et al. 2017, arXiv 1706.03762, sections 3.1, 3.2.2, 3.5",
        SinusoidalConfig(dim=512),
        Sizes(hidden_size=512, layers=6, heads=8, kv_heads=8, head_dim=64),
    ),
    "bert-base": _model(
        "BERT-base", 2018, _TRANSFORMERS, about=_NO_FILE, model_type="bert", hidden_size=768,
        num_hidden_layers=12, num_attention_heads=12, max_position_embeddings=512,
    ),
    "gpt-2": _model(
        "GPT-2 small", 2019, _TRANSFORMERS, about=_NO_FILE, model_type="gpt2", n_embd=768, n_layer=12,
        n_head=12, n_positions=1_024,
    ),
    "t5-base": _model(
        "T5-base", 2020, f"{_TRANSFORMERS}, for the buckets and the distance",
        about={"unverified": "its sizes: width, heads and layers"},
        model_type="t5", d_model=768, d_kv=64, num_heads=12, num_layers=12,
        num_decoder_layers=12, relative_attention_num_buckets=32,
        relative_attention_max_distance=128,
    ),
    "transformer-xl": _paper(
        "Transformer-XL WT103 large", 2019, "the original repository (Dai et al. 2019, arXiv 1901.02860)",
        TransformerXLConfig(dim=1_024, heads=16),
        Sizes(hidden_size=1_024, layers=18, heads=16, kv_heads=16, head_dim=64),
        unverified="its number of layers",
        notes=(
            "Every layer has a projection of its own; one, drawn at random, is shown.",
            "Its evaluation clamps distances at 1,000; here none is.",
        ),
    ),
    "llama-1-7b": _model(
        "LLaMA-1-7B", 2023, _TRANSFORMERS, about=_NO_FILE,
        **_llama("llama", 4_096, 32, 32, 32, 2_048, 1e4),
    ),
    "mistral-7b-v0.1": _model(
        "Mistral-7B-v0.1", 2023, _LITGPT,
        about={
            "unverified": "its context, for which LitGPT gives the window of 4,096",
            "note": "Its config.json says 32,768 tokens, which is not what it was trained on.",
            "trained_length": 8_192,
            "trained_source": "Jiang et al. 2023, arXiv 2310.06825, table 1",
        },
        **_llama("mistral", 4_096, 32, 32, 8, 32_768, 1e4, sliding_window=4_096),
    ),
    "qwen2.5-7b": _model(
        "Qwen2.5-7B", 2024, f"{_LITGPT}, without the scaling",
        about={
            "optional": True, "note": _OPTIONAL, "unverified": "the scaling, YaRN by 4",
            "trained_length": 32_768,
            "trained_source": "Qwen team 2024, arXiv 2412.15115, section 3.3",
        },
        **_llama("qwen2", 3_584, 28, 28, 4, 131_072, 1e6, rope_scaling=_QWEN_YARN),
    ),
    "qwen3-8b": _model(
        "Qwen3-8B", 2025, f"{_LITGPT}; {_TRANSFORMERS}",
        about={
            "optional": True, "note": _OPTIONAL, "trained_length": 32_768,
            "trained_source": "Qwen team 2025, arXiv 2505.09388, section 3.2",
        },
        **_llama("qwen3", 4_096, 36, 32, 8, 40_960, 1e6, head_dim=128,
                 rope_scaling=_QWEN_YARN),
    ),
    "phi-3-mini-128k": _model(
        "Phi-3-mini-128k", 2024, f"{_FILE}, as quoted by others; {_LITGPT}, for the sizes", about=_NO_FILE,
        **_llama("phi3", 3_072, 32, 32, 32, 131_072, 1e4, sliding_window=262_144,
                 original_max_position_embeddings=4_096, rope_scaling={
                     "type": "longrope", "short_factor": list(_PHI_3_MINI_SHORT),
                     "long_factor": _PHI_3_MINI_LONG}),
    ),
    "bloom-176b": _model(
        "BLOOM-176B", 2022, f"{_FILE}; {_TRANSFORMERS}", about=_NO_FILE, model_type="bloom",
        n_embed=14_336, n_layer=70, num_attention_heads=112, seq_length=2_048,
    ),
    **{
        name: ModelPreset(**preset) for name, preset in json.loads(PUBLISHED.read_text("utf-8")).items()
    },
}  # fmt: skip
