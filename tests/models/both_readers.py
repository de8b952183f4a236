"""What the reader of rows, posenc.models, reads otherwise than the readers of posenc.models.

It stands beside them until it takes their place; this file goes with them.
"""

from dataclasses import dataclass, fields
from typing import Any

from posenc.errors import ConfigFileError
from posenc.models import LayerKind, ModelConfig
from posenc.models import read_config as read_by_models
from posenc.models.family import FAMILIES
from posenc.models.row_reader import read_config as read_by_rows
from posenc.models.vision_models import VISION_FAMILIES
from tests.models.configs import Config

# Types that are refused by name from now on, each with its reason.
REFUSED_TYPES = {
    "deepseek_v4": "its layers cache several tokens as one entry",
    "dots3_note_text": "its layers with a window have other sizes",
    "qwen4_exp_text": "its layers add embeddings of the last tokens",
    "step3p5": "its base and its share are listed by layer",
    **dict.fromkeys(VISION_FAMILIES, "its positions are those of patches of an image"),
}
# Values of keys with which a class is refused, which was described as unsupported.
REFUSED_KEYS = {
    ("bert", "position_embedding_type"): "relative keys",
    (
        "distilbert",
        "sinusoidal_pos_embds",
    ): "sines of which only the rows in a checkpoint are known",
    ("mpt", "attn_config.alibi"): "a learned table, or no positions",
    ("mpt", "attn_config.alibi_bias_max"): "another largest slope",
    ("mpt", "attn_config.rope"): "RoPE, which the class of transformers does not build",
    ("roformer", "rotary_value"): "values are rotated",
}
# Keys that a class has and of which no layer of some configs makes use; the readers of posenc.models refuse
# such a config, or its value, although it changes nothing.
WITHOUT_USE = (
    "_sliding_window_pattern", "max_window_layers", "rope_interleave", "sliding_window",
    "sliding_window_pattern", "use_sliding_window",
)  # fmt: skip
# Keys of types that the readers of posenc.models read otherwise than the classes do.
CORRECTED = {
    "attention_layers": ("gpt_neo",),
    "is_decoder": ("albert", "distilbert", "longformer", "splinter"),
    "num_hidden_layers": ("olmo_hybrid",),  # fewer than four
    "rope_interleave": tuple(
        name for name, row in FAMILIES.items() if "rope_interleave" in row.get("defaults", {})
    ),
}
# Sentences are compared by their own tests. Of keys that are not read only the first is compared: their
# order, and the path of a key inside one of them, differ.
_SENTENCES = ("notes", "assumed", "unsupported", "assumption", "ignored")
OF_MODEL = [f.name for f in fields(ModelConfig) if f.name not in (*_SENTENCES, "layer_kinds")]
OF_KIND = [f.name for f in fields(LayerKind) if f.name not in _SENTENCES]


@dataclass(frozen=True)
class Outcome:
    """What became of a config: same, refused (by both), refused now, read now, corrected, differs."""

    word: str
    why: str = ""


def compare(config: Any, assume: str | None = None) -> Outcome:
    """Read a config by both readers."""
    outcome = _compare(config, assume)
    of_type = config.get("model_type") if isinstance(config, dict) else None
    corrected = [key for key, types in CORRECTED.items() if of_type in types and key in config]
    return Outcome("corrected") if corrected and outcome.word == "differs" else outcome


def _compare(config: Any, assume: str | None) -> Outcome:
    before, after = _read(read_by_models, config, assume), _read(read_by_rows, config, assume)
    if isinstance(before, ModelConfig):
        if isinstance(after, ModelConfig):
            found = differences(before, after)
            return Outcome("differs", "; ".join(found)) if found else Outcome("same")
        why = reason_of_refusal(before, after)
        return Outcome("refused now", why) if why else Outcome("differs", f"refused: {after}")
    if not isinstance(after, ModelConfig):
        return Outcome("refused")
    if says_nothing(config, before, after, assume):
        return Outcome("read now", f"{before.key} has no use here")
    return Outcome("differs", f"read, in place of: {before}")


def _read(read: Any, config: Any, assume: str | None) -> ModelConfig | ConfigFileError:
    try:
        model: ModelConfig = read(config, assume)
    except ConfigFileError as error:
        return error
    except KeyError:  # of a Beam config without a window, which posenc.models does not expect
        return ConfigFileError("it cannot be read")
    return model


def differences(before: ModelConfig, after: ModelConfig) -> list[str]:
    """Every field in which the models differ."""
    found = [
        f"{name} {getattr(before, name)!r}, now {getattr(after, name)!r}"
        for name in OF_MODEL
        if getattr(before, name) != getattr(after, name)
    ]
    names = [[kind.name for kind in model.layer_kinds] for model in (before, after)]
    if names[0] != names[1]:
        return [*found, f"kinds {names[0]}, now {names[1]}"]
    for one, other in zip(before.layer_kinds, after.layer_kinds, strict=True):
        found += [
            f"{one.name}.{name} {getattr(one, name)!r}, now {getattr(other, name)!r}"
            for name in OF_KIND
            if getattr(one, name) != getattr(other, name)
        ]
    return found


def reason_of_refusal(before: ModelConfig, error: ConfigFileError) -> str:
    """Why a model that was read is refused now, by name; "" where no reason is known."""
    read_as = before.read_as or "llama"
    for model_type in (before.model_type, read_as):
        if model_type in REFUSED_TYPES:
            return REFUSED_TYPES[model_type]
    return REFUSED_KEYS.get((read_as, error.key.removeprefix("text_config.")), "")


def says_nothing(
    config: Config, before: ConfigFileError, after: ModelConfig, assume: str | None
) -> bool:
    """Whether a refused config has the model that it has without the key for which it was refused."""
    *path, key = before.key.split(".")
    if key not in WITHOUT_USE or path not in ([], ["text_config"]):
        return False
    inner = config["text_config"] if path else config
    rest = {name: value for name, value in inner.items() if name != key}
    without = _read(read_by_models, config | {"text_config": rest} if path else rest, assume)
    return isinstance(without, ModelConfig) and not differences(without, after)
