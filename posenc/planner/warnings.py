"""Warnings about a plan, as facts."""

import math
from collections.abc import Iterator

import numpy as np

from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.evidence import IN_CODE
from posenc.planner.facts import Fact
from posenc.planner.methods import CONFIGURED, UNSCALED, scaled_length
from posenc.schemes.rope import RopeConfig

_COSINE_LIMIT = 0.01  # errors of cosines below this are no warning


def warnings(plan: ContextPlan) -> tuple[Fact, ...]:
    """Return the warnings about a plan beside its assumptions and layers, the most important first."""
    return (
        *_of_model(plan),
        *_of_original_length(plan),
        *_of_bound(plan),
        *(fact for method in plan.methods for fact in _of_method(method, plan)),
        *_of_layers(plan),
        *_of_precision(plan),
    )


def _of_model(plan: ContextPlan) -> Iterator[Fact]:
    """Yield what is published of the model, unless a method's statements have it."""
    past = plan.trained_length is not None and plan.target > plan.trained_length
    if plan.evidence and past and all(method.advice is None for method in plan.methods):
        yield Fact(
            "published",
            {"statement": plan.evidence.statement, "source": plan.evidence.source},
        )


def _of_original_length(plan: ContextPlan) -> Iterator[Fact]:
    """Yield what is wrong where a scaling starts from a context that it may be the result of."""
    model, scheme = plan.model, plan.kind.scheme
    if model.trained_length is not None or not isinstance(scheme, RopeConfig):
        return
    reached, start = scaled_length(scheme), model.context
    if start is None or getattr(scheme, "trained_length", None) != start or reached <= start:
        return
    published = None if plan.evidence is None else plan.evidence.preset.trained_length
    if published == start:
        return
    yield Fact(
        "original_length" if published is None else "original_length_published",
        {
            "scheme": scheme.words,
            "start": start,
            "reached": reached,
            "original": published or round(start * start / reached),
            "models": plan.evidence.models if plan.evidence else "",
        },
    )


def _of_bound(plan: ContextPlan) -> Iterator[Fact]:
    if plan.first_negative is None or plan.trained is None or plan.trained_length is None:
        return
    if plan.first_negative < plan.trained_length:
        yield Fact(
            "bound_inside",
            {
                "base": plan.trained.base,
                "distance": plan.first_negative,
                "trained": plan.trained_length,
            },
        )
    window = plan.base_window
    if window is not None and window.narrow and window.end is not None:
        yield Fact(
            "bound_narrow", {"first": math.ceil(window.base), "last": math.floor(window.end)}
        )


def _of_method(method: MethodPlan, plan: ContextPlan) -> Iterator[Fact]:
    label = method.method.label
    if method.stale_from is not None:
        yield Fact("stale_keys", {"label": label, "from": method.stale_from})
    elif method.attention_factor != 1 and method.short.worst > 0:
        yield Fact("attention_factor", {"label": label, "square": method.attention_factor**2})
    if method.changes_softmax:
        yield Fact("softmax_scale", {"label": label, "ratio": method.softmax_scale})
    unseen = method.pairs.unseen_count
    if unseen and method.method.name != UNSCALED.name and plan.longer:
        configured = method.method.name == CONFIGURED
        length = (
            plan.own_length if configured and plan.trained_with_scaling else plan.trained_length
        )
        pairs = len(method.pairs.before)
        yield Fact("unseen", {"label": label, "unseen": unseen, "pairs": pairs, "length": length})
    kind = IN_CODE.get(method.config.kind)
    code = next((other for other in plan.methods if other.config.kind == kind), None)
    if code is not None:
        excess = code.pairs.after / method.pairs.after - 1
        pair = int(np.abs(excess).argmax())
        yield Fact("other_ramp", {"excess": float(excess[pair]), "pair": pair})


def _of_layers(plan: ContextPlan) -> Iterator[Fact]:
    for kind in plan.model.layer_kinds:
        for note in kind.notes:
            yield Fact("layers", {"count": len(kind.layers), "name": kind.name, "note": note})


def _of_precision(plan: ContextPlan) -> Iterator[Fact]:
    if plan.trained is not None and plan.distinct_bfloat16 < plan.target:
        yield Fact(
            "bfloat16",
            {
                "target": plan.target,
                "bfloat16": plan.distinct_bfloat16,
                "float32": plan.distinct_float32,
            },
        )
    worst = max(plan.methods, key=_float32_error, default=None)
    if worst is not None and _float32_error(worst) > _COSINE_LIMIT:
        yield Fact(
            "float32" if worst.code_cosine_error is None else "float32_in_code",
            {
                "label": worst.method.label,
                "exact": worst.cosine_error,
                "code": worst.code_cosine_error,
            },
        )


def _float32_error(method: MethodPlan) -> float:
    return max(method.cosine_error, method.code_cosine_error or 0.0)
