"""What to paste: config blocks of two generations, and options of three servers.

vLLM: `vllm serve` as in docs.vllm.ai, stable, "Context Extension". Its --rope-scaling is
gone since 0.11.1 (vllm-project/vllm pull request 28006); --hf-overrides stays.
SGLang: python/sglang/srt/utils/hf_transformers of sgl-project/sglang at 0067b4fe: overrides replace keys of
the config (config.py); get_context_length multiplies by a factor only without the original length.
Both compute LongRoPE's attention factor from their own context unless short_mscale and long_mscale name it:
vllm/model_executor/layers/rotary_embedding of vllm-project/vllm at 17d618b0, and of SGLang at 108c36c0.
llama.cpp: tools/server/README.md of ggml-org/llama.cpp at commit 00dc8057, its list of options.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from posenc.errors import SchemeArgumentError
from posenc.models.family import FAMILIES
from posenc.models.model_config import ModelConfig
from posenc.models.record import key_names
from posenc.models.rope_bases import bases_of
from posenc.models.rope_writing import type_block
from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.methods import CONFIGURED
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import RopeLinearConfig
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig
from posenc.text import count_of

SERVER_SOURCES = (
    "vLLM: docs.vllm.ai, stable, Context Extension; 0.11.1 and later. SGLang: sgl-project/sglang, "
    "hf_transformers/config.py at 0067b4fe. llama.cpp: ggml-org/llama.cpp, tools/server/README.md at "
    "00dc8057. Read on 26 November 2026."
)
_IN_GGUF = ("linear", "yarn", "llama3", "longrope")  # rope_types that convert_hf_to_gguf.py writes
_LONGROPE_IN_GGUF = ("phi3", "phimoe")  # whose attention factor it writes, too
# Classes that vLLM's models/deepseek_v2.py serves, which makes YaRN of every rope_type but default.
_YARN_IN_VLLM = ("DeepseekV2Config", "DeepseekV3Config", "DeepseekV32Config")
# Types whose class leaves an absent head_dim null, which fails in some of transformers' scalings.
_HEAD_DIM_UNSET = ("minimax", "ministral", "mixtral")
_VLLM_COUNTS_FACTOR = ("rope_linear", "rope_yarn")  # vLLM multiplies the context by their factor


@dataclass(frozen=True)
class Paste:
    """One method, written for config.json and servers; a part that does not exist is empty.

    rope_parameters: keys of config.json for transformers 5. rope_scaling: for transformers 4 and before.
    vllm, sglang, llama_cpp: command lines, with MODEL for the user's own. why: why a part is empty, and
    what becomes of the softmax scale.
    where: where the keys belong and which they replace; layers that they rescale needlessly.
    """

    rope_parameters: dict[str, Any] = field(default_factory=dict)
    rope_scaling: dict[str, Any] = field(default_factory=dict)
    vllm: str = ""
    sglang: str = ""
    llama_cpp: str = ""
    why: tuple[str, ...] = ()
    where: str = ""


def paste(plan: ContextPlan, method: MethodPlan) -> Paste:
    """Return what to paste to read the plan's target by one method."""
    config = method.config
    type_keys = type_block(config)
    if type_keys is None:
        if config.kind == "rope_yarn_paper":
            return _nothing(
                "transformers has no rope_type for YaRN as printed: at equal numbers its frequencies are "
                "those of Llama 3's scaling, which has no attention factor"
            )
        return _nothing(f"transformers has no rope_type for {config.label}")
    rope_type = type_keys["rope_type"]
    row = FAMILIES.get(plan.model.read_as, {})
    takes = row.get("rope", {}).get("takes", ())
    if takes and rope_type not in takes:
        return _nothing(f"transformers' {row['class']} takes no rope_type but {', '.join(takes)}")
    dynamic = config.kind == "rope_dynamic"  # starts at max_position_embeddings in public code
    context = plan.trained_length if dynamic else plan.target
    block, old_block = _blocks(plan, config, context)
    if "rope_theta" not in json.dumps(block):
        return _nothing(
            "rope_parameters do not set the RoPE of this model: its base is fixed, or its bases stand in "
            "another key, such as layer_rope_theta"
        )
    # Of two names of the length, transformers' classes take their own.
    sizes: dict[str, Any] = {}
    if plan.model.context is not None:
        sizes[key_names(row, "max_position_embeddings")[0]] = context
    if plan.model.read_as in _HEAD_DIM_UNSET:
        sizes["head_dim"] = plan.kind.head_dim
    why = [] if old_block else ["transformers 4 has no keys for these layers."]
    if weight := method.softmax_weight:
        block["mscale_all_dim"] = weight
        if old_block:
            old_block["rope_scaling"]["mscale_all_dim"] = weight
    if note := softmax_note(method):
        why.append(note)
    parameters = {"rope_parameters": block}
    served: dict[str, Any] = {"rope_parameters": block}
    if rope_type == "longrope":
        served["rope_parameters"] = _with_factor(block, method.attention_factor)
    vllm = sglang = ""
    if dynamic:
        why.append(
            "No vLLM or SGLang flags: it was not verified that their dynamic NTK grows with the text as "
            "it does here."
        )
    elif row.get("class") in _YARN_IN_VLLM and rope_type not in ("default", "yarn"):
        why.append(
            "No vLLM or SGLang flags: vLLM reads every rope_type of this model but default as YaRN "
            "(vllm-project/vllm, models/deepseek_v2.py at 002d6073), and SGLang was not verified."
        )
    else:
        counted = config.kind in _VLLM_COUNTS_FACTOR
        overrides = _overrides(plan, served if counted else served | sizes)
        vllm = f"vllm serve MODEL --hf-overrides '{overrides}' --max-model-len {plan.target}"
        if len(plan.model.layer_kinds) == 1:
            counted = config.kind == "rope_linear"
            overrides = _overrides(plan, served if counted else served | sizes)
            sglang = (
                f"python -m sglang.launch_server --model-path MODEL --json-model-override-args "
                f"'{overrides}' --context-length {plan.target}"
            )
        else:
            why.append(
                "No SGLang flags: it was not verified how it reads blocks of several kinds of layers."
            )
    llama_cpp, reason = _llama_cpp(plan, method, rope_type)
    return Paste(
        rope_parameters=parameters | sizes,
        rope_scaling=old_block | sizes if old_block else {},
        vllm=vllm,
        sglang=sglang,
        llama_cpp=llama_cpp,
        why=(*why, reason) if reason else tuple(why),
        where=_where(plan, rescales=config != plan.kind.scheme),
    )


def softmax_note(method: MethodPlan) -> str:
    """Say that a block changes the softmax scale, or which key beside its own keeps it; else ""."""
    if method.changes_softmax:
        return (
            f"With this block the softmax scale is {method.softmax_scale:.3f} of the configured one, in "
            "short texts, too: the model's class makes a part of it from mscale_all_dim and factor."
        )
    if method.softmax_weight and not isinstance(method.config, RopeYarnConfig):
        return (
            f"mscale_all_dim {method.softmax_weight:.4g} keeps the softmax scale of the configured block; "
            "transformers logs that this rope_type does not know the key, and its attention reads it."
        )
    return ""


def _with_factor(block: dict[str, Any], factor: float) -> dict[str, Any]:
    """Return a block, or a block per kind of layer, with the attention factor that servers take."""
    if block.get("rope_type") == "longrope":
        return block | {"short_mscale": factor, "long_mscale": factor}
    return {
        key: _with_factor(value, factor) if isinstance(value, dict) else value
        for key, value in block.items()
    }


def _nothing(reason: str) -> Paste:
    return Paste(why=(f"{reason}, so there is nothing to paste.",))


def _overrides(plan: ContextPlan, keys: dict[str, Any]) -> str:
    """Return keys of a config as JSON, inside the section of the text model where it has one."""
    return json.dumps({plan.model.section: keys} if plan.model.section else keys)


def _llama_cpp(plan: ContextPlan, method: MethodPlan, rope_type: str) -> tuple[str, str]:
    """Return the command line of llama.cpp, "" where there is none, and why it has no options."""
    scheme, size = plan.kind.scheme, f"-c {plan.target}"
    if method.method.name == CONFIGURED and rope_type in _IN_GGUF:
        holds_factor = rope_type != "longrope" or plan.model.read_as in _LONGROPE_IN_GGUF
        if method.attention_factor != 1 and not holds_factor:
            return "", (
                "No llama.cpp options: it was not verified that a GGUF file of this model holds the "
                f"attention factor {method.attention_factor:.4f}. A file of MiniCPM3 holds only the "
                "factors of the pairs (ggml-org/llama.cpp, conversion/minicpm.py at 32e9e044)."
            )
        reason = "llama.cpp needs no option for it: a GGUF file of this model holds this scaling."
        return f"llama-server -m MODEL {size}", reason
    if len(plan.model.layer_kinds) > 1:
        return "", (
            "No llama.cpp options: it was not verified on which of this model's kinds of layers they act."
        )
    flags = llama_cpp_flags(method.config)
    if not flags:
        scaling = method.method.scaling
        label = scaling.scaling_name if scaling else method.method.label.lower()
        return "", f"llama.cpp has no option for {label} with these numbers."
    if isinstance(scheme, RopeConfig) and scheme != plan.trained and not llama_cpp_flags(scheme):
        return "", (
            "No llama.cpp options: a GGUF file of this model holds its own scaling, which they are "
            "applied on top of (ggml-org/llama.cpp, pull request 8676)."
        )
    return f"llama-server -m MODEL {flags} {size}", ""


def llama_cpp_flags(config: RopeConfig) -> str:
    """Return the options of llama.cpp for a scaling, "" where it has none."""
    if type(config) is RopeConfig:
        return f"--rope-scaling none --rope-freq-base {config.base!r}"
    if type(config) is RopeNtkConfig:
        return f"--rope-scaling none --rope-freq-base {config.larger_base!r}"
    if isinstance(config, RopeLinearConfig):
        return f"--rope-scaling linear --rope-scale {config.factor:.10g}"
    if not isinstance(config, RopeYarnConfig) or not config.truncate:
        return ""
    if config.mscale or config.mscale_all_dim or config.attention_factor:
        return ""
    return (
        f"--rope-scaling yarn --rope-scale {config.factor:.10g} "
        f"--yarn-orig-ctx {config.trained_length} --yarn-beta-fast {config.beta_fast:g} "
        f"--yarn-beta-slow {config.beta_slow:g}"
    )


def _where(plan: ContextPlan, *, rescales: bool) -> str:
    """Say where the keys belong: transformers takes an old rope_scaling rather than the new keys."""
    inside = f"Inside {plan.model.section}, they" if plan.model.section else "They"
    needless = needless_layers(plan) if rescales else ""
    return (
        f"{inside} replace all RoPE keys of the config, such as rope_theta and rope_scaling: with both, "
        "transformers reads an old rope_scaling and ignores rope_parameters."
        + (f" The block also rescales {needless}" if needless else "")
    )


def needless_layers(plan: ContextPlan) -> str:
    """Name the layers that share the block though their window shows no new distance; "" if none."""
    trained = plan.trained_length or 0
    spared = [
        kind
        for kind in plan.model.layer_kinds
        if kind is not plan.kind and kind.scheme == plan.kind.scheme
        if kind.window is not None and kind.window <= trained
    ]
    if not spared or not _share_block(plan.model):
        return ""
    layers = sum(len(kind.layers) for kind in spared)
    window = max(kind.window or 0 for kind in spared)
    row = FAMILIES.get(plan.model.read_as)
    config_class = f"transformers' {row['class']}" if row else "its class"
    return (
        f"{count_of(layers, f'{spared[0].name} layer')} that meet no new distance: their window is "
        f"{window:,} tokens, and {config_class} has one RoPE for all layers."
    )


def _share_block(model: ModelConfig) -> bool:
    """Whether one block of the model's config is for all kinds of layers."""
    rope = FAMILIES.get(model.read_as, {}).get("rope")
    return not rope or "" in bases_of(rope)


def _blocks(
    plan: ContextPlan, config: RopeConfig, context: int | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the RoPE keys of both generations, each empty where the config has none."""
    models, own = [], plan.kind.block_name
    # A block of its own for each kind of layer is tried first, where the config may have them; then
    # one for all kinds with the planned scheme.
    for alike in (True,) if _share_block(plan.model) else (False, True):
        kinds = (
            replace(kind, scheme=config)
            if kind.block_name == own or (alike and kind.scheme == plan.kind.scheme)
            else kind
            for kind in plan.model.layer_kinds
        )
        models.append(replace(plan.model, layer_kinds=tuple(kinds), context=context))
    return (
        _first_accepted([model.to_rope_parameters for model in models]),
        _first_accepted([model.to_rope_scaling for model in models]),
    )


def _first_accepted(writers: list[Callable[[], dict[str, Any]]]) -> dict[str, Any]:
    """Return the keys of the first writer that does not refuse; nothing if all do."""
    for write in writers:
        try:
            return write()
        except SchemeArgumentError:
            continue
    return {}
