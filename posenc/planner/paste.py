"""Text to paste: config blocks of two generations, and options of three servers.

vLLM: `vllm serve` as in docs.vllm.ai, stable, "Context Extension". Its --rope-scaling is
gone since 0.11.1 (vllm-project/vllm pull request 28006); --hf-overrides stays. Its context: config/model.py
of 0.33.0, where YaRN's factor no longer multiplies max_position_embeddings, which must be the target; nor
does any factor of a type with gemma3 in its name.
SGLang: python/sglang/srt/utils/hf_transformers of sgl-project/sglang at 0067b4fe: overrides replace keys of
the config (config.py); get_context_length multiplies by a factor only without the original length.
Both compute LongRoPE's attention factor from their own context unless short_mscale and long_mscale name it:
vllm/model_executor/layers/rotary_embedding of vllm-project/vllm at 17d618b0, and of SGLang at 108c36c0.
llama.cpp: tools/server/README.md of ggml-org/llama.cpp at commit 00dc8057, its list of options.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from posenc.errors import SchemeArgumentError
from posenc.models.family import FAMILIES
from posenc.models.model_config import ModelConfig
from posenc.models.record import key_names
from posenc.models.rope_bases import bases_of
from posenc.models.rope_writing import type_block
from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.facts import Fact, say
from posenc.planner.methods import CONFIGURED, LARGER_BASE
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import RopeLinearConfig, factor_reaching
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig

SERVER_SOURCES = (
    "vLLM: docs.vllm.ai, stable, Context Extension; 0.11.1 and later. SGLang: sgl-project/sglang, "
    "hf_transformers/config.py at 0067b4fe. llama.cpp: ggml-org/llama.cpp, tools/server/README.md at "
    "00dc8057. Read on 26 November 2026."
)
_IN_GGUF = ("linear", "yarn", "llama3", "longrope")  # rope_types that convert_hf_to_gguf.py writes
_LONGROPE_IN_GGUF = ("phi3", "phimoe")  # whose attention factor it writes, too
# Classes that vLLM's models/deepseek_v2.py serves, which makes YaRN of every rope_type but default.
_YARN_IN_VLLM = ("DeepseekV2Config", "DeepseekV3Config", "DeepseekV32Config")
# Types whose context vLLM's _get_and_verify_max_len does not multiply by a factor.
_NOT_MULTIPLIED_IN_VLLM = ("gemma3_text",)
# Types whose class leaves an absent head_dim null, which fails in some of transformers' scalings.
_HEAD_DIM_UNSET = ("minimax", "ministral", "mixtral")


@dataclass(frozen=True)
class Paste:
    """One method, written for config.json and servers; a part that does not exist is empty.

    rope_parameters: keys of config.json for transformers 5. rope_scaling: for transformers 4 and before.
    vllm, sglang, llama_cpp: command lines, with MODEL for the user's own. notes: why a part is empty, what
    becomes of the softmax scale, and which base was compared. places: where the keys belong and which
    they replace; layers that they rescale needlessly.
    """

    rope_parameters: dict[str, Any] = field(default_factory=dict)
    rope_scaling: dict[str, Any] = field(default_factory=dict)
    vllm: str = ""
    sglang: str = ""
    llama_cpp: str = ""
    notes: tuple[Fact, ...] = ()
    places: tuple[Fact, ...] = ()

    @property
    def why(self) -> tuple[str, ...]:
        """The notes, a sentence each."""
        return tuple(say("paste", note) for note in self.notes)

    @property
    def where(self) -> str:
        """The places, in sentences."""
        return " ".join(say("paste", place) for place in self.places)


def paste(plan: ContextPlan, method: MethodPlan) -> Paste:
    """Return what to paste to read the plan's target by one method."""
    config = method.config
    row = FAMILIES.get(plan.model.read_as, {})
    type_keys = type_block(config)
    refused = _refused(config, type_keys, row)
    if refused is not None or type_keys is None:
        return Paste(notes=(refused,) if refused else ())
    rope_type = type_keys["rope_type"]
    dynamic = config.kind == "rope_dynamic"  # starts at max_position_embeddings in public code
    context = plan.trained_length if dynamic else plan.target
    block, old_block = _blocks(plan, config, context)
    if "rope_theta" not in json.dumps(block):
        return Paste(notes=(Fact("base_elsewhere", {}),))
    # Of two names of the length, transformers' classes take their own.
    sizes: dict[str, Any] = {}
    if plan.model.context is not None:
        sizes[key_names(row, "max_position_embeddings")[0]] = context
    if plan.model.read_as in _HEAD_DIM_UNSET:
        sizes["head_dim"] = plan.kind.head_dim
    if weight := method.softmax_weight:
        block["mscale_all_dim"] = weight
        if old_block:
            old_block["rope_scaling"]["mscale_all_dim"] = weight
    served = block
    if rope_type == "longrope":
        served = _with_factor(block, method.attention_factor)
    servers, not_served = _servers(plan, config, rope_type, served, sizes)
    llama_cpp, not_in_llama_cpp = _llama_cpp(plan, method, rope_type)
    notes = (
        None if old_block else Fact("no_old_keys", {}),
        _compared_base(plan, method),
        softmax_note(method),
        static_cost(plan, method),
        not_served,
        not_in_llama_cpp,
    )
    return Paste(
        rope_parameters={"rope_parameters": block} | sizes,
        rope_scaling=old_block | sizes if old_block else {},
        **servers,
        llama_cpp=llama_cpp,
        notes=tuple(note for note in notes if note is not None),
        places=_places(plan, rescales=config != plan.kind.scheme),
    )


def _refused(
    config: RopeConfig, type_keys: dict[str, Any] | None, row: Mapping[str, Any]
) -> Fact | None:
    """Return why transformers reads no block of a config, None where it does."""
    if type_keys is None:
        word = "printed_yarn" if config.kind == "rope_yarn_paper" else "no_rope_type"
        return Fact(word, {"label": config.label})
    takes = row.get("rope", {}).get("takes", ())
    if takes and type_keys["rope_type"] not in takes:
        return Fact("other_rope_types", {"class": row["class"], "takes": [*takes]})
    return None


def _servers(
    plan: ContextPlan,
    config: RopeConfig,
    rope_type: str,
    block: dict[str, Any],
    sizes: dict[str, Any],
) -> tuple[dict[str, str], Fact | None]:
    """Return the command lines of vLLM and SGLang, those that there are, and why one is missing.

    block: for rope_parameters. sizes: keys of the config beside it.
    """
    if config.kind == "rope_dynamic":
        return {}, Fact("dynamic_not_served", {})
    row_class = FAMILIES.get(plan.model.read_as, {}).get("class")
    if row_class in _YARN_IN_VLLM and rope_type not in ("default", "yarn"):
        return {}, Fact("read_as_yarn", {})
    keys = {"rope_parameters": block}
    # Both multiply the context by the factor of linear scaling.
    counted = config.kind == "rope_linear" and plan.model.read_as not in _NOT_MULTIPLIED_IN_VLLM
    overrides = _overrides(plan, keys if counted else keys | sizes)
    vllm = f"vllm serve MODEL --hf-overrides '{overrides}' --max-model-len {plan.target}"
    if len(plan.model.layer_kinds) > 1:
        return {"vllm": vllm}, Fact("kinds_not_in_sglang", {})
    sglang = (
        f"python -m sglang.launch_server --model-path MODEL --json-model-override-args "
        f"'{overrides}' --context-length {plan.target}"
    )
    return {"vllm": vllm, "sglang": sglang}, None


def _compared_base(plan: ContextPlan, method: MethodPlan) -> Fact | None:
    """Return which larger base the plan's comparisons had, where the block has another one."""
    if method.method.name != LARGER_BASE.name:
        return None
    studies = [
        study for pair in plan.comparisons for study in pair.comparisons
        if LARGER_BASE.kind in (pair.first, pair.second) and study.base
    ]  # fmt: skip
    if not studies:
        return None
    study = studies[0]
    numbers = {"planned": method.config.base, "compared": study.base, "factor": study.factor}
    return Fact("compared_base", numbers | {"source": study.source})


def softmax_note(method: MethodPlan) -> Fact | None:
    """Return that a block changes the softmax scale, or which key beside its own keeps it."""
    if method.changes_softmax:
        return Fact("softmax_changed", {"ratio": method.softmax_scale})
    if method.softmax_weight and not isinstance(method.config, RopeYarnConfig):
        return Fact("softmax_kept", {"weight": method.softmax_weight})
    return None


def static_cost(plan: ContextPlan, method: MethodPlan) -> Fact | None:
    """Return how static YaRN multiplies logits of short texts, and the smallest factor for the target.

    logits: (0.1 ln factor + 1)^2, the square of the attention factor (Peng et al. 2023, arXiv 2309.00071,
    eq. 22). least, least_logits: the same at the smallest factor, the target over the trained length. None
    without an attention factor, or where the model was trained with it.
    """
    config = method.config
    was_trained = config == plan.kind.scheme and plan.trained_with_scaling
    if not isinstance(config, RopeYarnConfig) or method.attention_factor == 1 or was_trained:
        return None
    least = max(1.0, factor_reaching(plan.reach, config.trained_length))
    numbers = {
        "logits": method.attention_factor**2,
        "factor": config.factor,
        "target": plan.reach,
        "least": least,
        "least_logits": config.replace(factor=least).attention_scaling() ** 2,
    }
    return Fact("static_cost_less" if config.factor > least else "static_cost", numbers)


def _with_factor(block: dict[str, Any], factor: float) -> dict[str, Any]:
    """Return a block, or a block per kind of layer, with the attention factor that servers take."""
    if block.get("rope_type") == "longrope":
        return block | {"short_mscale": factor, "long_mscale": factor}
    return {
        key: _with_factor(value, factor) if isinstance(value, dict) else value
        for key, value in block.items()
    }


def _overrides(plan: ContextPlan, keys: dict[str, Any]) -> str:
    """Return keys of a config as JSON, inside the section of the text model where it has one."""
    return json.dumps({plan.model.section: keys} if plan.model.section else keys)


def _llama_cpp(plan: ContextPlan, method: MethodPlan, rope_type: str) -> tuple[str, Fact | None]:
    """Return the command line of llama.cpp, "" where there is none, and why it has no options."""
    scheme, size = plan.kind.scheme, f"-c {plan.target}"
    if method.method.name == CONFIGURED and rope_type in _IN_GGUF:
        holds_factor = rope_type != "longrope" or plan.model.read_as in _LONGROPE_IN_GGUF
        if method.attention_factor != 1 and not holds_factor:
            return "", Fact("factor_not_in_gguf", {"factor": method.attention_factor})
        return f"llama-server -m MODEL {size}", Fact("in_gguf", {})
    if len(plan.model.layer_kinds) > 1:
        return "", Fact("kinds_not_in_llama_cpp", {})
    flags = llama_cpp_flags(method.config)
    if not flags:
        scaling = method.method.scaling
        label = scaling.scaling_name if scaling else method.method.label.lower()
        return "", Fact("not_in_llama_cpp", {"label": label})
    if isinstance(scheme, RopeConfig) and scheme != plan.trained and not llama_cpp_flags(scheme):
        return "", Fact("own_scaling_in_gguf", {})
    return f"llama-server -m MODEL {flags} {size}", None


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


def _places(plan: ContextPlan, *, rescales: bool) -> tuple[Fact, ...]:
    """Return where the keys belong: transformers takes an old rope_scaling rather than the new keys."""
    section = plan.model.section
    place = Fact("inside" if section else "replace", {"section": section})
    needless = needless_layers(plan) if rescales else None
    return (place,) if needless is None else (place, needless)


def needless_layers(plan: ContextPlan) -> Fact | None:
    """Return the layers that share the block though their window shows no new distance; None for none."""
    trained = plan.trained_length or 0
    spared = [
        kind
        for kind in plan.model.layer_kinds
        if kind is not plan.kind and kind.scheme == plan.kind.scheme
        if kind.window is not None and kind.window <= trained
    ]
    if not spared or not _share_block(plan.model):
        return None
    row = FAMILIES.get(plan.model.read_as)
    numbers = {
        "count": sum(len(kind.layers) for kind in spared),
        "name": spared[0].name,
        "window": max(kind.window or 0 for kind in spared),
        "class": row["class"] if row else "",
    }
    return Fact("needless" if row else "needless_in_class", numbers)


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
