"""What classes of transformers do with position, by their source, for types that posenc does not read."""

import importlib.util
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path

from transformers.models.auto.configuration_auto import (
    CONFIG_MAPPING,
    CONFIG_MAPPING_NAMES,
    AutoConfig,
    model_type_to_module_name,
)

MODELS = Path(importlib.util.find_spec("transformers").origin).parent / "models"  # type: ignore
# What the source of a class without RoPE has: the first that matches counts.
KINDS = {
    "buckets": r"def _?relative_position_bucket|def _compute_bias",
    "relative": r"\brel_shift|relative_shift|disentangled|relative_key\b|def relative_attn|rel_pos_emb"
    r"|class \w*RelativeLogits",
    "added": r"(?i)sinusoid|(embed_positions|position\w*_embeddings?|wpe|pos_embed\w*) = nn\."
    r"(Embedding|Parameter)|LearnedPositionalEmbedding|AxialPositionEmbeddings|positions_embed = ",
}
ROPE = r"(?<![pP])rope|RoPE|Rope|(?i:rotary|rotate_(?:half|every))"
# The classes and functions of the pictures of a model whose text model is asked for.
PICTURES = (
    r"(?ms)^(?:class|def) \w*(?:(?i:vision|audio|speech)|Image(?!GPT))\w*.*?(?=^(?:class|def|@|\w))"
)
# The text model of a model of several parts, made by what its own config says.
TEXT_PART = (
    r"(AutoModel\w*|\w+Model|\w+ForCausalLM)(\._?from_config)?"
    r"\(\s*(config=)?(self\.)?(config\.)?text_config"
)


@cache
def source(model_type: str, part: str) -> str:
    """Return the source of a type's class; a type without a folder of its own is that of its config."""
    folder = MODELS / model_type_to_module_name(model_type)
    if not (files := sorted(folder.glob(f"{part}_*.py"))):
        folder = MODELS / CONFIG_MAPPING[model_type].__module__.split(".")[-2]
        files = sorted(folder.glob(f"{part}_*.py"))
    return "\n".join(path.read_text("utf-8") for path in files)


def config_fields(model_type: str) -> set[str]:
    """Return the names that the body of a configuration class annotates."""
    parts = re.split(r"(?m)^class ", source(model_type, "configuration"))
    name = CONFIG_MAPPING_NAMES[model_type]
    body = next((part for part in parts if re.match(rf"{name}\b", part)), "")
    return set(re.findall(r"(?m)^    (\w+)(?=:| =)", body))


def kind_of(model_type: str) -> str:
    """Return what the class of a type does with position, as its source shows."""
    fields, code = config_fields(model_type), source(model_type, "modeling")
    parts = {
        name: part
        for name, part in CONFIG_MAPPING[model_type].sub_configs.items()
        if part is AutoConfig or part.model_type in CONFIG_MAPPING_NAMES
    }
    if "text_config" in parts and re.search(TEXT_PART, code):
        return "text_part"
    if not fields & {"vocab_size", "text_config"} and {"patch_size", "image_size"} <= fields:
        return "image"
    if any(re.match("feat_extract_|speech_|num_mel_bins|input_feat_per", name) for name in fields):
        return "audio"
    if parts:
        return "parts"
    borrowed = {MODELS / name for name in re.findall(r"from \.\.(\w+)", code)}
    files = (path for folder in borrowed for path in sorted(folder.glob("modeling_*.py")))
    whole = "\n".join((code, *(path.read_text("utf-8") for path in files)))
    if "vocab_size" in fields:
        whole = re.sub(PICTURES, "", whole)
    if re.search(ROPE, whole):
        return "rope" if "vocab_size" in fields else "rope_part"
    return text_kind(fields, model_type, whole) or "no_rope"


def text_kind(fields: set[str], model_type: str, code: str) -> str:
    """Return what a model of text does with position where that is clear, else ""."""
    # A type of several parts has the source of all of them: nothing more is said of it.
    if "vocab_size" not in fields or any("config" in name for name in fields - {"base_config_key"}):
        return ""
    kind = next((kind for kind, pattern in KINDS.items() if re.search(pattern, code)), "")
    return kind or ("" if re.search(r"class \w*(Attention|Attn)|softmax\(", code) else "none")


def kinds(read: Collection[str]) -> dict[str, str]:
    """Return the kind of every type of the installed transformers but those that are read."""
    return {name: kind_of(name) for name in sorted(CONFIG_MAPPING_NAMES) if name not in read}
