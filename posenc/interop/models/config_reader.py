"""`read_config`: a model's config.json, of either generation, as its position encoding."""

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from posenc.interop.models import bias_models, learned_models
from posenc.interop.models.families import FAMILIES
from posenc.interop.models.gptj import read_gptj
from posenc.interop.models.json_text import Source, read_object
from posenc.interop.models.keys import Keys
from posenc.interop.models.model_config import ModelConfig
from posenc.interop.models.rope_models import read_rope_model

Reader = Callable[[str, Keys], ModelConfig]


def _falcon(model_type: str, keys: Keys) -> ModelConfig:
    if keys.flag("alibi", False, ""):
        return bias_models.read_falcon_alibi(model_type, keys)
    return read_rope_model(model_type, keys)


READERS: Mapping[str, Reader] = MappingProxyType(
    dict.fromkeys(FAMILIES, read_rope_model)
    | dict.fromkeys(learned_models.FAMILIES, learned_models.read_learned_model)
    | {
        "bloom": bias_models.read_bloom,
        "mpt": bias_models.read_mpt,
        "falcon": _falcon,
        "gptj": read_gptj,
        "t5": bias_models.read_t5,
        "mt5": bias_models.read_t5,
    }
)
# A model of pictures and text, by the type of its text model where that is not written.
_TEXT_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "gemma3": "gemma3_text",
        "gemma4": "gemma4_text",
        "qwen2_vl": "qwen2_vl_text",
        "qwen2_5_vl": "qwen2_5_vl_text",
        "RefinedWeb": "falcon",
        "RefinedWebModel": "falcon",
    }
)
_ROPE = ("rope_parameters", "rope_theta", "rope_scaling", "rotary_emb_base")


def model_types() -> tuple[str, ...]:
    """Return the model types whose defaults are known; others are read by their rope keys."""
    return tuple(sorted({*READERS, *_TEXT_TYPES}))


def read_config(source: Source) -> ModelConfig:
    """Read what a Hugging Face config.json says of position, per kind of layer.

    source: a mapping, JSON text, bytes (always JSON), or the path of a config.json of at most 1 MiB. Both
    generations of rope keys are read, as transformers 5.23 reads them, and `text_config` where the
    model is nested. Keys that are absent take transformers' default, and the result's `assumed` says
    so. Raises ConfigFileError, which names the key, what it holds and what is accepted, where the config
    is unknown, contradictory or out of range.
    """
    return read_keys(read_object(source))[0]


def read_keys(record: dict[str, Any]) -> tuple[ModelConfig, Keys]:
    """Return what a config's object says, and its keys, which know by now what was read of them."""
    top = Keys(record)
    outer = top.text("model_type")
    keys = top.section("text_config") or top
    model_type = keys.text("model_type") or outer
    if model_type is None:
        raise keys.error("model_type", f"is missing; it must be one such as {_examples()}")
    model_type = _TEXT_TYPES.get(model_type, model_type)
    reader = READERS.get(model_type)
    if reader is None:
        if not any(keys.record.get(name) is not None for name in _ROPE):
            raise keys.error(
                "model_type",
                f"{model_type!r:.60} is not known and none of {', '.join(_ROPE[:3])} is there; known are "
                f"{', '.join(model_types())}",
            )
        reader = read_rope_model
    found = reader(model_type, keys)
    found = dataclasses.replace(
        found, assumed=tuple(keys.assumed), ignored=top.ignored(), section=keys.path
    )
    return found, top


def _examples() -> str:
    return ", ".join(("llama", "qwen3", "gemma3_text", "bert", "bloom"))
