"""A longer context for one model: every method compared and ranked, and what each costs.

Numbers are computed from formulas; measured ones are those of this project's small models.
`loss_by_position_script` writes a script that measures a plan on the user's own model.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from posenc.analysis import BaseWindow, first_negative_offset, known_base, smallest_base
from posenc.analysis.base_search import MAX_LENGTH
from posenc.errors import SchemeArgumentError, quoted
from posenc.limits import check_count
from posenc.models.model_config import MAX_CONTEXT, ModelConfig, cache_gib
from posenc.planner.context_plan import ContextPlan
from posenc.planner.evidence import ModelEvidence, evidence_of, lengths_of
from posenc.planner.facts import Fact
from posenc.planner.method_plans import Extension, method_plans
from posenc.planner.methods import DEFAULT_METHODS, METHODS
from posenc.planner.ranking import pairs_compared
from posenc.planner.scaling_effects import distinct_positions
from posenc.planner.warnings import warnings
from posenc.schemes.rope import RopeConfig, rope_frequencies


def plan(
    model: ModelConfig,
    context: int,
    *,
    name: str = "",
    trained_length: int | None = None,
    methods: Sequence[str] | None = None,
    search_base: bool = True,
    scan: int | None = None,
) -> ContextPlan:
    """Return a plan to read `context` tokens with a model; no method fits one that sees images.

    name: of the model, for sentences. trained_length: tokens of its training texts, where the config is
    silent. methods: keys of METHODS, by default DEFAULT_METHODS. search_base: whether to search the base
    that satisfies B(k) where it is not known, which takes seconds at 131,072. scan: at how many distances,
    from 0, the sign of B(k) is computed; None for all.
    Raises SchemeArgumentError for a context or scan outside 1 .. 2^24, or an unknown method.
    """
    _check(model, context, scan)
    names = _names(methods)
    evidence = evidence_of(model)
    length, assumed = _trained_length(model, trained_length, evidence)
    kind = model.rotary_kind
    reach = context if kind.window is None else min(context, kind.window)
    scanned = reach if scan is None else min(reach, scan)
    trained = kind.scheme.as_trained() if isinstance(kind.scheme, RopeConfig) else None
    window, searched = _base_window(trained, reach, search_base)
    without_methods = ContextPlan(
        name=name or model.model_type,
        model=model,
        target=context,
        trained_length=length,
        reach=reach,
        scanned=scanned,
        trained=trained,
        first_negative=_first_negative(trained, scanned),
        base_window=window,
        base_searched=searched,
        cache=cache_gib(model, context),
        distinct_bfloat16=distinct_positions(context),
        distinct_float32=distinct_positions(context, torch.float32),
        assumed=assumed,
        evidence=evidence,
        known_lengths=lengths_of(model),
    )
    planned = _with_methods(without_methods, names)
    return replace(planned, warnings=warnings(planned))


def _with_methods(plan: ContextPlan, names: Sequence[str]) -> ContextPlan:
    """Return a plan with its methods, ranked and compared; none fits without RoPE or a trained length."""
    scheme, length = plan.kind.scheme, plan.trained_length
    if not isinstance(scheme, RopeConfig) or length is None:
        return plan
    methods, left_out = method_plans(Extension(plan, scheme, length), names)
    standings = [method.standing for method in methods]
    comparisons = pairs_compared(standings, plan.reach / length)
    return replace(plan, methods=tuple(methods), left_out=left_out, comparisons=comparisons)


def _check(model: ModelConfig, context: int, scan: int | None) -> None:
    """Raise SchemeArgumentError for no model, or for lengths outside of their range."""
    if not isinstance(model, ModelConfig):
        raise SchemeArgumentError(
            f"model must be what read_config returns, got {type(model).__name__}."
        )
    check_count("context", context, 1, MAX_CONTEXT)
    if scan is not None:
        check_count("scan", scan, 1, MAX_CONTEXT)


def _names(methods: Sequence[str] | None) -> list[str]:
    """Return the keys of the methods to compare, each once."""
    names = list(DEFAULT_METHODS if methods is None else dict.fromkeys(methods))
    for word in names:
        if word not in METHODS:
            raise SchemeArgumentError(
                f"methods must be of {', '.join(METHODS)}, got {quoted(word)}."
            )
    return names


def _first_negative(trained: RopeConfig | None, scanned: int) -> int | None:
    """Return the first of the scanned distances with B(k) < 0, None where there is none."""
    if trained is None:
        return None
    return first_negative_offset(rope_frequencies(trained)[0], scanned)


def _base_window(
    trained: RopeConfig | None, reach: int, search_base: bool
) -> tuple[BaseWindow | None, bool]:
    """Return the smallest base that satisfies B(k), and whether it was searched; of plain RoPE only."""
    if trained is None or type(trained) is not RopeConfig:
        return None, False
    known = known_base(trained.rotary_dim, reach)
    if known is not None or not search_base or reach > MAX_LENGTH:
        return known, known is not None
    return smallest_base(trained.rotary_dim, reach), True


def _trained_length(
    model: ModelConfig, known: int | None, evidence: ModelEvidence | None
) -> tuple[int | None, tuple[Fact, ...]]:
    """Return the trained length, and the assumption behind it if there is one."""
    if known is not None:
        length, written = check_count("trained_length", known, 2, MAX_CONTEXT), model.trained_length
        if written in (None, length):
            return length, ()
        return length, (Fact("contradicts", {"length": length, "written": written}),)
    if model.trained_length is not None or model.context is None:
        return model.trained_length, ()
    scheme = model.rotary_kind.scheme
    is_rope = isinstance(scheme, RopeConfig)
    start: int | None = getattr(scheme, "trained_length", None) if is_rope else None
    factor: float = getattr(scheme, "factor", 1.0) if is_rope else 1.0
    published = None if evidence is None else evidence.preset.trained_length
    numbers: dict[str, Any] = {"context": model.context, "factor": factor}
    if evidence is not None and published is not None and published <= model.context:
        word, length = "published", published
        numbers |= {"models": evidence.models, "source": evidence.preset.trained_source}
    elif start is not None:  # dynamic NTK's, whose factor is not in the context yet
        word, length = "scaling_start", start
    elif factor > 1:
        word, length = "unscaled_context", max(2, round(model.context / factor))
    else:
        word, length = "context", model.context
    return length, (Fact(word, numbers | {"length": length}),)
