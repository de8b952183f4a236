"""A class of transformers as the oracle of its configs: every fact that was read and that it has otherwise.

A class is asked in three ways: its config object for sizes, its rotary module for the bits of frequencies,
and a run of the whole model for rotations, masks, caches, heads, softmax scales and states.
"""

import importlib
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from posenc import rope_frequencies
from posenc.models import LayerKind, ModelConfig, read_config
from posenc.models.family import FAMILIES
from posenc.models.layer_words import INDEXED
from posenc.models.rope_bases import bases_of
from posenc.models.rope_types import ROPE_TYPES
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.base import NoneConfig
from posenc.schemes.rope import RopeConfig
from tests.models.configs import Config
from tests.models.generate_families import RUN_WITH
from tests.models.published_models.establish import LENGTHS, sampled

ROPE = {name: row for name, row in FAMILIES.items() if "rope" in row}
# Kinds of layers whose cache is counted by their window and the numbers of a token.
COUNTED = ("full", "window", "chunk", "state", "sparse")
# Sizes of a small model with every sort of layer that keeps a state, in the words of every class.
SMALL: Config = {
    "vocab_size": 64, "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0, "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8,
    "num_local_experts": 2, "head_dim": 16, "num_expert_group": 1, "topk_group": 1,
    "num_experts_per_token": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 6, "linear_value_head_dim": 10, "linear_conv_kernel_dim": 3, "lru_width": 40,
    "conv1d_width": 3, "mamba_n_heads": 8, "mamba_d_state": 6, "mamba_d_conv": 3, "mamba_n_groups": 2,
    "n_mamba_heads": 4, "mamba_ngroups": 2, "mamba_num_heads": 8, "mamba_head_dim": 10,
    "ssm_state_size": 6, "n_groups": 2, "conv_kernel": 3, "use_mamba_kernels": False, "conv_L_cache": 5,
}  # fmt: skip


def config_of(model_type: str, changes: Config) -> Any:
    """The config object of a class with some keys."""
    return transformers.CONFIG_MAPPING[model_type](**json.loads(json.dumps(changes)))


def saved(config: Any) -> Config:
    """The keys of a config object as they stand in its file."""
    record: Config = json.loads(json.dumps(config.to_dict(), default=str))
    return record


def module_of(model_type: str) -> Any:
    module = transformers.CONFIG_MAPPING[model_type].__module__
    return importlib.import_module(module.replace("configuration_", "modeling_"))


def class_of(model_type: str, part: str) -> Any:
    """A class of the code of a type by its last word, such as RotaryEmbedding."""
    prefix = transformers.CONFIG_MAPPING[model_type].__name__.removesuffix("Config")
    names = [prefix + part, prefix.replace("Text", "") + part]
    module = module_of(model_type)
    return next(getattr(module, name) for name in names if hasattr(module, name))


def rotary_of(config: Any) -> Any:
    """The module of a class that makes frequencies; None where it fails or there is none.

    A class with a list of bases makes one for each; this is that of their only one.
    """
    if bases := {base for base in getattr(config, "layer_rope_theta", None) or () if base}:
        if len(bases) > 1:
            return None
        config.rope_parameters["rope_theta"] = bases.pop()
    try:
        return class_of(config.model_type, "RotaryEmbedding")(config)
    except Exception:
        return None


def rope_kinds(model: ModelConfig) -> list[tuple[LayerKind, RopeConfig]]:
    return [(k, k.scheme) for k in model.layer_kinds if isinstance(k.scheme, RopeConfig)]


def attribute(rotary: Any, kind: str, name: str) -> Any:
    """An attribute of a rotary module, which some classes have once per kind of layer."""
    own = f"{kind}_{name}"
    return getattr(rotary, own) if hasattr(rotary, own) else getattr(rotary, name)


def frequency_differences(model: ModelConfig, rotary: Any) -> Iterator[str]:
    """Every kind of layer whose frequencies, or attention factor, the rotary module has otherwise.

    The mode "transformers" runs the operations of theirs on the same numbers, so that bits are compared.
    """
    for kind, scheme in rope_kinds(model):
        frequencies, factor = rope_frequencies(scheme, mode="transformers")
        theirs = attribute(rotary, kind.block_name, "inv_freq")
        if type(rotary).__name__.startswith("Ernie4_5_VL"):  # in the order of axes, not of pairs
            theirs = rotary.recomposition_frequencies(theirs.expand(3, -1))[::2]
        if frequencies.shape != theirs.shape or not torch.equal(frequencies.float(), theirs):
            yield f"{kind.name}: {scheme}, but {theirs[:3].tolist()} of {len(theirs)} pairs"
        elif factor != pytest.approx(attribute(rotary, kind.block_name, "attention_scaling")):
            yield f"{kind.name}: attention factor {factor}"


def size_differences(model: ModelConfig, config: Any, row: Any) -> Iterator[str]:
    """Every size that was read and that the config object has otherwise.

    row: of the type; what it says by an expression of its own has no plain attribute of that name.
    """
    config.allow_global_per_layer_attribute_access = True  # of Gemma 3n and its like
    kinds = [kind for kind in model.layer_kinds if kind.heads]
    own = {*row, *(name for kind in row.get("kinds", {}).values() for name in kind)}
    if "count" in row.get("layers", {}) or config.model_type == "nomic_bert":  # its key is n_layer
        own.add("num_hidden_layers")
    if "context" in row:
        own.add("max_position_embeddings")
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    context = getattr(config, "max_position_embeddings", model.context)
    for name, numbers, theirs in (
        ("hidden_size", {model.hidden_size}, config.hidden_size),
        ("max_position_embeddings", {model.context}, context),
        ("num_hidden_layers", {model.layers}, config.num_hidden_layers),
        ("heads", {kind.heads for kind in kinds}, config.num_attention_heads),
        ("head_dim", {kind.head_dim for kind in kinds}, width),
    ):  # fmt: skip
        if name not in own and numbers != {theirs}:
            yield f"{name} {numbers}, not {theirs}"
    words = getattr(config, "layer_types", None)
    if words and len(words) == model.layers:
        windowed = {index for kind in kinds if kind.window for index in kind.layers}
        said = {
            index for index, word in enumerate(words) if word.startswith(("sliding", "chunked"))
        }
        if windowed != said:
            yield f"windows in layers {sorted(windowed)}, not {sorted(said)}"


def block_differences(model: ModelConfig, config: Any) -> Iterator[str]:
    """Every block of both generations that, written back, transformers does not take for the same bits."""
    record = {key: value for key, value in saved(config).items() if key != "rope_parameters"}
    blocks = [{"rope_parameters": model.to_rope_parameters()}]
    row = FAMILIES[config.model_type]["rope"]
    if all(base.names for base in bases_of(row).values()) and config.model_type != "olmo3":
        blocks.append(model.to_rope_scaling())  # of OLMo 3, half of one
    for block in blocks:
        if read_config(record | block).layer_kinds != model.layer_kinds:
            yield f"read otherwise: {block}"
        rotary = rotary_of(config_of(config.model_type, record | block))
        yield from (f"{problem} of {block}" for problem in frequency_differences(model, rotary))


def differences(model: ModelConfig, real: dict[str, Any]) -> Iterator[str]:
    """Every fact that was read and that the layers have otherwise, as `establish` observed them."""
    if model.layers != real["layers"]:
        yield f"{model.layers} layers, not {real['layers']}"
        return
    by_layer = {index: kind for kind in model.layer_kinds for index in kind.layers}
    for real_kind in real["kinds"]:
        for kind in {by_layer[i].name: by_layer[i] for i in real_kind["layers"]}.values():
            yield from _kind_differences(kind, real_kind)
    for length in LENGTHS:
        numbers = model.cache_numbers(length) - model.cache_numbers(0)  # without states
        if _cached(real, length) not in (None, numbers):
            yield f"cache of {length}: {numbers}, not {_cached(real, length)}"


def _kind_differences(kind: LayerKind, real: dict[str, Any]) -> Iterator[str]:
    attention = "chunk" if "chunk" in kind.name else "full" if kind.window is None else "window"
    attention = attention if kind.heads else "state"
    attention = "sparse" if kind.name.startswith(INDEXED) else attention
    fields: dict[str, object] = {
        "attention": attention, "window": kind.window, "cached": kind.cache_width,
        "heads": kind.heads, "kv_heads": kind.kv_heads, "head_dim": kind.head_dim,
    }  # fmt: skip
    if not kind.unsupported:
        schemes = {RopeConfig: "rope", NoneConfig: "none", AlibiConfig: "alibi"}
        position = (name for type_, name in schemes.items() if isinstance(kind.scheme, type_))
        fields["position"] = next(position, "")
    if isinstance(kind.scheme, RopeConfig) and real.get("position") == "rope":
        fields |= {
            "rotated": 2 * len(_rotating(kind.scheme, LENGTHS[0])),
            "layout": kind.scheme.layout,
            "clockwise": kind.scheme.clockwise,
            "base": kind.scheme.base,
            "scaling": ROPE_TYPES[kind.scheme.kind].words[0],
        }
        # What is observed of float32 cosines has about five digits.
        factor = rope_frequencies(kind.scheme)[1]
        if not math.isclose(factor, real.get("attention_factor", factor), rel_tol=2e-5):
            yield f"attention factor {factor}, not {real['attention_factor']}"
        for length, numbers in real.get("frequencies", {}).items():
            if sampled(_rotating(kind.scheme, int(length))) != pytest.approx(numbers, rel=1e-4):
                yield f"frequencies at {length} tokens, not {numbers}"
    scale = real.get("scale", kind.softmax_scale)
    if kind.heads and not math.isclose(kind.softmax_scale, scale, rel_tol=1e-12):
        yield f"{kind.name}: softmax scale {kind.softmax_scale}, not {scale}"
    if "layout" in real:
        real = {"clockwise": False} | real
    for field, value in fields.items():
        if real.get(field, value) != value and not (field == "cached" and real[field] is None):
            yield f"{kind.name}: {field} {value}, not {real[field]}"


def _rotating(scheme: RopeConfig, length: int) -> list[float]:
    """Frequencies of the features that are rotated; those of the others are 0."""
    return [value for value in rope_frequencies(scheme, length=length)[0].tolist() if value]


def _cached(real: dict[str, Any], length: int) -> int | None:
    """Numbers that the caches of all layers hold; None where that is not established."""
    total = 0
    for kind in real["kinds"]:
        if kind.get("cached") is None or kind["attention"] not in COUNTED:
            return None
        total += len(kind["layers"]) * kind["cached"] * min(length, kind["window"] or length)
    return total


def state_differences(model_type: str) -> Iterator[str]:
    """Every layer of a small model whose cache keeps other numbers, whatever the length, than was read."""
    sizes = SMALL | RUN_WITH.get(model_type, {})
    if "kv_lora_rank" in FAMILIES[model_type]["defaults"]:
        sizes["num_key_value_heads"] = sizes["num_attention_heads"]
    known = vars(transformers.CONFIG_MAPPING[model_type]()).keys()
    config = config_of(model_type, {key: sizes[key] for key in sizes if key in known})
    model = transformers.AutoModel.from_config(config).eval()
    with torch.no_grad():
        result = model(input_ids=torch.ones(1, 7, dtype=torch.long), use_cache=True)
    cache = getattr(result, "past_key_values", transformers.DynamicCache())
    kinds = {i: k for k in read_config(saved(config)).layer_kinds for i in k.layers}
    assert any(kind.state for kind in kinds.values())
    for index, kind in kinds.items():
        layer = cache.layers[index] if index < len(cache.layers) else None
        states = [getattr(layer, name, None) or {} for name in ("conv_states", "recurrent_states")]
        tensors = [one for state in states for one in state.values()]
        if model_type == "recurrent_gemma":  # which keeps them itself
            block = model.layers[index].temporal_block
            tensors = [getattr(block, "conv1d_state", None)]
            tensors.append(getattr(getattr(block, "rg_lru", None), "recurrent_states", None))
        tensors += getattr(cache, "linear_cache", [])[
            index : index + 1
        ]  # MiniMax has its own class
        numbers = sum(one.numel() for one in tensors if isinstance(one, Tensor))
        if kind.state != numbers:
            yield f"state of layer {index}: {kind.state}, not {numbers}"
