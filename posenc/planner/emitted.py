"""What to paste where: config blocks of both generations, and flags of two inference servers.

vLLM: the names of `vllm serve` as in docs.vllm.ai, stable, "Context Extension", read in 2026: its
--rope-scaling is gone since 0.11.1 (vllm-project/vllm pull request 28006), --hf-overrides stays.
llama.cpp: tools/server/README.md of ggml-org/llama.cpp at commit 00dc8057, its list of options.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from posenc.errors import SchemeArgumentError
from posenc.interop.models.families import FAMILIES
from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.methods import CONFIGURED
from posenc.schemes.rope import RopeConfig
from posenc.schemes.scheme import SchemeConfig
from posenc.words import counted

VLLM_SOURCE = "docs.vllm.ai, stable, Context Extension; vLLM 0.11.1 and later"
LLAMA_CPP_FACTORS = "ggml-org/llama.cpp, pull request 8676"
_IN_GGUF = ("linear", "yarn", "llama3", "longrope")  # that its convert_hf_to_gguf.py writes
_STAYS = "a GGUF file of this model holds its own scaling, which they are applied on top of"
LLAMA_CPP_SOURCE = "ggml-org/llama.cpp, tools/server/README.md at 00dc8057"


@dataclass(frozen=True)
class Emitted:
    """What one method is written as. Each part is "" or empty where there is none, and `why` says why.

    rope_parameters: keys of config.json that transformers 5 reads. rope_scaling: those of 4 and before.
    vllm, llama_cpp: command lines, MODEL standing for the user's own.
    where: says where the keys belong, and instead of which; then which layers they rescale needlessly.
    """

    rope_parameters: dict[str, Any]
    rope_scaling: dict[str, Any]
    vllm: str
    llama_cpp: str
    why: tuple[str, ...]
    where: str = ""


def emit(plan: ContextPlan, one: MethodPlan) -> Emitted:
    """Return what reads the plan's target by one method."""
    config = one.config
    if config.to_block() is None:
        known = f"No public code computes {one.method.label}"
        if config.in_code is None:
            known = f"transformers has no rope_type for {config.label}"
        return Emitted({}, {}, "", "", (f"{known}, so there is nothing to paste.",))
    context = plan.trained_length if config.starts_at_context else plan.target
    why: list[str] = []
    block, old = _blocks(plan, config, context, why)
    if not block:
        return Emitted({}, {}, "", "", tuple(why))
    parameters = {"rope_parameters": block}
    longer: dict[str, Any] = {"max_position_embeddings": context}
    family = FAMILIES.get(plan.model.read_as)
    if family is not None and family.head_dim_unset:
        longer["head_dim"] = plan.kind.head_dim
    vllm = ""
    if config.vllm_doubt:
        why.append(config.vllm_doubt)
    else:
        overrides = parameters if config.vllm_counts_factor else parameters | longer
        if plan.model.section:
            overrides = {plan.model.section: overrides}
        vllm = (
            f"vllm serve MODEL --hf-overrides '{json.dumps(overrides)}' "
            f"--max-model-len {plan.target}"
        )
    several = len(plan.model.layer_kinds) > 1
    in_file = one.method.name == CONFIGURED and (config.to_block() or {})["rope_type"] in _IN_GGUF
    flags = "" if several or in_file else config.llama_cpp()
    if in_file:
        why.append(
            "llama.cpp needs no option for it: a GGUF file of this model holds this scaling."
        )
    elif several:
        why.append(
            "No llama.cpp options: which of this model's kinds of layers they act on was not verified."
        )
    elif not flags:
        what = f"{one.method.label[:1].lower()}{one.method.label[1:]}"
        why.append(f"llama.cpp has no option for {what} with these numbers.")
    elif _stays_in_file(plan.kind.scheme, plan.trained):
        flags = ""
        why.append(f"No llama.cpp options: {_STAYS} ({LLAMA_CPP_FACTORS}).")
    return Emitted(
        rope_parameters=parameters | longer,
        rope_scaling=old | longer if old else {},
        vllm=vllm,
        llama_cpp=" ".join(filter(None, ("llama-server -m MODEL", flags, f"-c {plan.target}")))
        if flags or in_file
        else "",
        why=tuple(why),
        where=_where(plan, rescales=config != plan.kind.scheme),
    )


def _where(plan: ContextPlan, *, rescales: bool) -> str:
    """Say where the keys belong: an old rope_scaling left beside them is what transformers takes."""
    inside = f"Inside {plan.model.section}, in" if plan.model.section else "In"
    needless = needless_layers(plan) if rescales else ""
    return (
        f"{inside} place of all keys of RoPE that the config has, such as rope_theta and rope_scaling: "
        "transformers takes an old rope_scaling rather than new rope_parameters beside it."
        + (f" The block also rescales {needless}" if needless else "")
    )


def needless_layers(plan: ContextPlan) -> str:
    """Name the layers that share the block though their window shows no new distance; "" without any."""
    trained = plan.trained_length or 0
    shared = [
        kind
        for kind in plan.model.layer_kinds
        if _shares_block(plan) and kind is not plan.kind and kind.scheme == plan.kind.scheme
    ]
    spared = [kind for kind in shared if kind.window is not None and kind.window <= trained]
    if not spared:
        return ""
    layers = sum(len(kind.layers) for kind in spared)
    window = max(kind.window or 0 for kind in spared)
    return (
        f"{counted(layers, f'{spared[0].name} layer')} to which no distance is new: they see {window:,} "
        f"tokens at most, and {_class(plan)} has one RoPE for all layers."
    )


def _shares_block(plan: ContextPlan) -> bool:
    """Whether all kinds of layers of the model are turned by one block of its config."""
    family = FAMILIES.get(plan.model.read_as)
    return family is None or "" in family.bases


def _class(plan: ContextPlan) -> str:
    family = FAMILIES.get(plan.model.read_as)
    return "its class" if family is None else f"transformers' {family.config_class}"


def _stays_in_file(scheme: SchemeConfig | None, trained: RopeConfig | None) -> bool:
    """Whether a model's own scaling is no option of llama.cpp, and so none that an option replaces."""
    return isinstance(scheme, RopeConfig) and scheme != trained and not scheme.llama_cpp()


def _blocks(
    plan: ContextPlan, config: RopeConfig, context: int | None, why: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what both generations have for RoPE, each empty where it has nothing; `why` says why.

    Layers of another kind keep their scheme where the config has a block for each kind; where all share
    one block, those that had the same scheme are read with the new one, too.
    """
    kinds = plan.model.layer_kinds
    family = FAMILIES.get(plan.model.read_as)
    words = config.to_block() or {}
    if family is not None and family.takes and words["rope_type"] not in family.takes:
        why.append(
            f"transformers' {family.config_class} takes no rope_type but {', '.join(family.takes)}, so "
            "there is nothing to paste."
        )
        return {}, {}
    own = tuple(replace(one, scheme=config) if one is plan.kind else one for one in kinds)
    alike = tuple(
        replace(one, scheme=config) if one.scheme == plan.kind.scheme else one for one in kinds
    )
    apart, together = (
        replace(plan.model, layer_kinds=found, context=context) for found in (own, alike)
    )
    models = (together,) if _shares_block(plan) else (apart, together)
    block = _first(*(model.to_rope_parameters for model in models))
    old = _first(*(model.to_rope_scaling for model in models))
    if not block or "rope_theta" not in json.dumps(block):
        why.append("This model's config has no keys for its RoPE, so there is nothing to paste.")
        return {}, {}
    if not old:
        why.append("transformers 4 has no keys for these layers.")
    return block, old


def _first(*writers: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what the first writer writes that does not refuse; nothing if all do."""
    for write in writers:
        try:
            return write()
        except SchemeArgumentError:
            continue
    return {}
