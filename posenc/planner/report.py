"""A plan as a record of plain values, and as the rows of a table."""

import dataclasses
import math
from typing import Any

from posenc.interop.models.model_config import ModelConfig
from posenc.planner.cache import cache_gib
from posenc.planner.columns import COLUMNS, COSTS, SEES, columns_of
from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.emitted import emit
from posenc.planner.layer_notes import layer_notes
from posenc.planner.readiness import RANKING
from posenc.planner.verdict import bound_said, cautions, verdict


def plan_record(plan: ContextPlan) -> dict[str, Any]:
    """Return the whole plan as JSON has it, numbers in full."""
    window = plan.base_window
    return {
        "assumption": plan.model.assumption,
        "name": plan.name,
        "verdict": verdict(plan),
        "bound": bound_said(plan),
        "target": plan.target,
        "trained_length": plan.trained_length,
        "factor": plan.factor,
        "reach": plan.reach,
        "scanned": plan.scanned,
        "base": None if plan.trained is None else plan.trained.base,
        "first_negative": plan.first_negative,
        "smallest_base": None if window is None else window.base,
        "smallest_base_until": None if window is None else window.end,
        "suggested_base": None if window is None else window.rounded,
        "cache_gib": plan.cache,
        "cache_gib_without_windows": cache_gib(plan.model, plan.target, windows=False),
        "distinct_bfloat16_positions": plan.distinct_bfloat16,
        "distinct_float32_positions": plan.distinct_float32,
        "ranking": RANKING,
        "methods": [_method_record(one, plan) for one in plan.methods],
        "left_out": list(plan.left_out),
        "cautions": [dataclasses.asdict(caution) for caution in cautions(plan)],
        "layers": [
            dataclasses.asdict(note)
            for note in layer_notes(plan.model, plan.target, plan.trained_length)
        ],
        "assumed": [*plan.assumed, *plan.model.assumed],
    }


def _method_record(one: MethodPlan, plan: ContextPlan) -> dict[str, Any]:
    emitted = emit(plan, one)
    return {
        "method": one.method.name,
        **{column.key: column.of(one) for column in COLUMNS},
        "readiness": one.readiness.value,
        "factor": one.factor,
        "measured": [dataclasses.asdict(ratio) for ratio in one.measured],
        "statements": [{"statement": said, "source": source} for said, source in one.statements],
        "config": dataclasses.asdict(one.config),
        "short_compared": one.short.compared,
        "kernel": {str(offset): value for offset, value in one.kernel.items()},
        "emitted": dataclasses.asdict(emitted),
    }


def ranked(plan: ContextPlan) -> dict[str, list[dict[str, str]]]:
    """Return the ranked methods as two tables have them, by the title of each: cells by column."""
    return {
        part: [
            {column.title: column.cell(one, plan) for column in columns_of(part)}
            for one in plan.methods
        ]
        for part in (COSTS, SEES)
    }


def model_record(model: ModelConfig) -> dict[str, Any]:
    """Return what a config says of position, as JSON has it."""
    record = {"assumption": model.assumption} | dataclasses.asdict(model)
    for kind, written in zip(model.layer_kinds, record["layer_kinds"], strict=True):
        written["rotary_dim"] = kind.rotary_dim
    return record


def layer_rows(model: ModelConfig) -> list[dict[str, str]]:
    """Return the kinds of layers of a model as a table has them."""
    rows = []
    for kind in model.layer_kinds:
        scheme = kind.scheme
        base = getattr(scheme, "base", None)
        rows.append(
            {
                "layers": f"{len(kind.layers)} {kind.name}",
                "scheme": scheme.label if scheme else kind.unsupported,
                "heads": f"{kind.heads}/{kind.kv_heads}",
                "head width": str(kind.head_dim),
                "rotated": "-" if kind.rotary_dim is None else str(kind.rotary_dim),
                "base": "-" if base is None else f"{base:,.10g}",
                "window": "all" if kind.window is None else f"{kind.window:,}",
                "cached a token": f"{kind.cache_width:,}",
                "scale": _scale(kind.softmax_scale),
            }
        )
    return rows


def _scale(value: float) -> str:
    inverse = 1 / value**2 if value else math.inf
    whole = math.isfinite(inverse) and math.isclose(inverse, round(inverse), rel_tol=1e-12)
    return f"1/sqrt({inverse:.10g})" if whole else f"{value:.6g}"
