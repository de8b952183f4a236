"""What to paste where: config blocks of both generations, and flags of two inference servers.

vLLM: the names of `vllm serve` as in docs.vllm.ai, stable, "Context Extension", read in 2026: its
--rope-scaling is gone since 0.11.1 (vllm-project/vllm pull request 28006), --hf-overrides stays.
llama.cpp: tools/server/README.md of ggml-org/llama.cpp at commit 00dc8057, its list of options.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from posenc.errors import SchemeArgumentError
from posenc.interop.models.model_config import ModelConfig
from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.dynamic import RopeDynamicConfig
from posenc.schemes.rope_scaling.linear import RopeLinearConfig
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig
from posenc.schemes.rope_scaling.yarn_paper import RopeYarnPaperConfig

VLLM_SOURCE = "docs.vllm.ai, stable, Context Extension; vLLM 0.11.1 and later"
LLAMA_CPP_SOURCE = "ggml-org/llama.cpp, tools/server/README.md at 00dc8057"


@dataclass(frozen=True)
class Emitted:
    """What one method is written as. Each part is "" or empty where there is none, and `why` says why.

    rope_parameters: keys of config.json that transformers 5 reads. rope_scaling: those of 4 and before.
    vllm, llama_cpp: command lines, MODEL standing for the user's own.
    """

    rope_parameters: dict[str, Any]
    rope_scaling: dict[str, Any]
    vllm: str
    llama_cpp: str
    why: tuple[str, ...]


def emit(plan: ContextPlan, one: MethodPlan) -> Emitted:
    """Return what reads the plan's target by one method."""
    if isinstance(one.config, RopeYarnPaperConfig):
        reason = "No public code computes YaRN as printed, so there is nothing to paste."
        return Emitted({}, {}, "", "", (reason,))
    config = one.config
    dynamic = isinstance(config, RopeDynamicConfig)
    # transformers takes the trained length of dynamic NTK from max_position_embeddings.
    context = plan.trained_length if dynamic else plan.target
    model = _with_scheme(plan, config, context)
    parameters = {"rope_parameters": model.to_rope_parameters()}
    longer = {"max_position_embeddings": context}
    why: list[str] = []
    vllm = ""
    if dynamic:
        why.append(
            "No vLLM flags: that its dynamic NTK grows with the text as here was not verified."
        )
    else:
        # Factors of linear and YaRN tell vLLM the longer context; other types do not.
        told = isinstance(config, RopeLinearConfig | RopeYarnConfig)
        overrides = parameters if told else parameters | longer
        vllm = (
            f"vllm serve MODEL --hf-overrides '{json.dumps(overrides)}' "
            f"--max-model-len {plan.target}"
        )
    flags = _llama_cpp(config, parameters["rope_parameters"], plan)
    if not flags:
        why.append(f"llama.cpp has no option for {one.method.label.lower()} as planned here.")
    return Emitted(
        rope_parameters=parameters | longer,
        rope_scaling=model.to_rope_scaling() | longer,
        vllm=vllm,
        llama_cpp=f"llama-server -m MODEL {flags} -c {plan.target}" if flags else "",
        why=tuple(why),
    )


def _with_scheme(plan: ContextPlan, config: RopeConfig, context: int | None) -> ModelConfig:
    """Return the model with another scheme in the layers planned for.

    Layers with a window keep theirs where the config has a block for each kind; where all share one
    block, they are read with the new scheme, too.
    """
    kinds = plan.model.layer_kinds
    own = tuple(replace(one, scheme=config) if one is plan.kind else one for one in kinds)
    model = replace(plan.model, layer_kinds=own, context=context)
    try:
        model.to_rope_parameters()
    except SchemeArgumentError:
        alike = tuple(
            replace(one, scheme=config) if one.scheme == plan.kind.scheme else one for one in kinds
        )
        return replace(model, layer_kinds=alike)
    return model


def _llama_cpp(config: RopeConfig, block: dict[str, Any], plan: ContextPlan) -> str:
    if len(plan.model.layer_kinds) > 1:
        return ""  # its options are those of all layers
    if type(config) in (RopeConfig, RopeNtkConfig):  # NTK-aware scaling is a larger base
        return f"--rope-scaling none --rope-freq-base {block['rope_theta']!r}"
    if isinstance(config, RopeLinearConfig):
        return f"--rope-scaling linear --rope-scale {config.factor:.10g}"
    plain = isinstance(config, RopeYarnConfig) and not (
        config.mscale or config.mscale_all_dim or config.attention_factor
    )
    if isinstance(config, RopeYarnConfig) and plain and config.truncate:
        return (
            f"--rope-scaling yarn --rope-scale {config.factor:.10g} "
            f"--yarn-orig-ctx {config.trained_length} --yarn-beta-fast {config.beta_fast:g} "
            f"--yarn-beta-slow {config.beta_slow:g}"
        )
    return ""
