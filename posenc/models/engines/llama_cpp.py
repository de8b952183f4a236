"""llama.cpp: what its converter writes into a GGUF file, and what the program computes from it.

At commit 0c1e57098: conversion/base.py and the converters of the models; llama_context's constructor in
src/llama-context.cpp; get_rope_factors in src/llama-model.cpp; rope_yarn in ggml/src/ggml-cpu/ops.cpp;
n_ctx_slot in tools/server/server-context.cpp, which caps every context at the file's context_length.
"""

import math
from dataclasses import replace

from posenc.models.engines import formulas
from posenc.models.engines.config_view import SERVED_BY_TYPE, Block, ConfigView
from posenc.models.engines.reading import EngineReading, Refusal
from posenc.models.rope_types import DEFAULT, FACTOR_LISTS, THETA, TRAINED

_LLAMA3_WRITTEN = ("llama", "mistral", "mixtral")  # whose converter writes the factors of llama3
_LONGROPE_WRITTEN = ("phi3",)  # whose converter writes LongRoPE's lists and attention factor
_LAYERS_OF_27B = 62  # by which Gemma 3's softmax scale is chosen


def llama_cpp(view: ConfigView) -> EngineReading:
    """Return what llama.cpp makes of a config once it is converted."""
    block, rope_type = view.standard_block, view.rope_type
    if rope_type not in SERVED_BY_TYPE:
        return EngineReading(engine="llama.cpp", kind=view.kind, is_read=False)
    given = {*view.content, *(_new_keys(view) or view.old_block or view.own_block)}
    if rope_type == "yarn" and TRAINED not in given:
        return EngineReading(
            engine="llama.cpp", kind=view.kind, refused=Refusal("missing", TRAINED)
        )
    scaling = _written_type(view)
    base, dim = block[THETA], view.scheme.rotary_dim
    attention, adjusted = _attention(view, block, scaling)
    reading = EngineReading(
        engine="llama.cpp",
        kind=view.kind,
        rope_type=scaling,
        base=base,
        attention_factor=attention,
        softmax_scale=_softmax(view, block, scaling, adjusted),
        context=view.context,
        growth="none" if rope_type == "dynamic" else "",
    )
    if scaling != "longrope":
        trained = formulas.trained_of(block, view.context)
        keys = {**block, "truncate": True}  # a key that the converter does not read
        return replace(reading, inv_freq=formulas.by_type(scaling, base, dim, keys, trained))
    # The context that the program is started with decides, by default all of the file's.
    served = view.started or max(view.context, view.length)
    is_long = served > block[TRAINED]
    return replace(
        reading,
        inv_freq=formulas.longrope(base, dim, block[FACTOR_LISTS[is_long]]),
        factors="long" if is_long else "short",
        chosen_by="served",
        served=served,
    )


def _new_keys(view: ConfigView) -> Block:
    new = view.content.get("rope_parameters") or {}
    return new.get(view.kind.block_name) or new


def _written_type(view: ConfigView) -> str:
    """Return the scaling that a converter writes; others it drops, so that plain RoPE is left."""
    written = {
        "linear": True,
        "yarn": True,
        "llama3": view.model_type in _LLAMA3_WRITTEN,
        "longrope": view.model_type in _LONGROPE_WRITTEN,
    }
    return view.rope_type if written.get(view.rope_type) else DEFAULT


def _attention(view: ConfigView, block: Block, scaling: str) -> tuple[float, float]:
    """Return the factor of cosines and sines, and yarn_attn_factor, which ggml multiplies for YaRN."""
    if scaling == "longrope":
        factor = formulas.longrope_attention(view.context, block[TRAINED])
        return factor, factor
    if scaling != "yarn":
        return 1.0, 1.0
    # attention_factor is written to the file and overwritten here; mscale is not read.
    factor, weight = block["factor"], _log_weight(view, block)
    own = weight if view.is_latent and weight != 1 else 1.0
    adjusted = formulas.scale_of(factor)
    if weight:
        adjusted = formulas.scale_of(factor, own) / formulas.scale_of(factor, weight)
    correction = 1.0 + 0.1 * math.log(factor)
    return adjusted, adjusted / correction


def _log_weight(view: ConfigView, block: Block) -> float:
    """Return rope_yarn_log_mul, which only DeepSeek's converter writes."""
    return float(block.get("mscale_all_dim") or 0.0) if view.is_latent else 0.0


def _softmax(view: ConfigView, block: Block, scaling: str, adjusted: float) -> float:
    if view.model_type == "gemma3_text":
        if view.model.layers == _LAYERS_OF_27B:
            return float((view.model.hidden_size / view.kind.heads) ** -0.5)
        return float(view.kind.head_dim**-0.5)
    if not view.is_latent or scaling not in ("yarn", "linear"):
        return view.plain_scale
    stretch = math.log(block["factor"])
    original = adjusted * (1.0 + 0.1 * stretch)
    scale = original * (1.0 + 0.1 * _log_weight(view, block) * stretch)
    return view.plain_scale * scale**2
