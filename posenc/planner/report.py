"""A plan as a record of plain values, and as the rows of a table.

The columns of the ranked table: what each is called, its number, and how a cell writes it.

The one source of the page, the command line, the record as JSON and the scripts that the page emits.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from posenc.models.model_config import ModelConfig, cache_gib
from posenc.planner.layer_notes import layer_notes
from posenc.planner.methods import RANKING
from posenc.planner.paste import emit
from posenc.planner.plan import ContextPlan, MethodPlan
from posenc.planner.scaling_effects import BLENDED, DIVIDED, KEPT
from posenc.planner.warnings import bound_said, cautions, verdict

Value = str | int | float | None

# Two tables that fit a page each; every one of them begins with the method.
COSTS, SEES = "What it costs", "What it sees"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column. title: for people. key: in a record. part: the table that has it.

    of: the number, or words, of one method. form: how a number is written, as in a format string.
    never: what is written where there is no such number. help: what it is, where the title is too short.
    """

    title: str
    key: str
    part: str
    of: Callable[[MethodPlan], Value]
    form: str = ""
    never: str = "never"
    help: str = ""

    def cell(self, one: MethodPlan, plan: ContextPlan) -> str:
        """Return what a cell says."""
        value = self.of(one)
        if value is not None:
            return self.written(value)
        if self.key == "first_negative" and plan.scanned < plan.reach:
            return f"not below {plan.scanned:,}"
        return self.never

    def written(self, value: Value) -> str:
        """Return a number as a cell has it."""
        return value if isinstance(value, str) else format(value, self.form)

    def change(self, now: Value, then: Value) -> str:
        """Return what changed from `then` to `now`, "" where either is no number."""
        if isinstance(now, str | None) or isinstance(then, str | None):
            return ""
        return format(now - then, f"+{self.form}") if now != then else "0"


def _count(state: str) -> Callable[[MethodPlan], int]:
    return lambda one: one.pairs.count(state)


def _kernel(share: float) -> Callable[[MethodPlan], float]:
    """Return the kernel at a quarter, half or the end; a target of few tokens has fewer distances."""

    def read(one: MethodPlan) -> float:
        values = [*one.kernel.values()]
        return values[round(share * (len(values) - 1))]

    return read


_ROUNDED = (
    "Largest error of a cosine below the target, angles made in float32 of the exact frequencies, each "
    "rounded to float32 once."
)
_COMPUTED = (
    "The same error of the frequencies that transformers computes, in float32 from the start."
)

COLUMNS = (
    Column(title="method", key="label", part="", of=lambda one: one.method.label),
    Column(title="training", key="training", part=COSTS, of=lambda one: one.usable),
    Column(
        title="short texts, mean", key="short_mean", part=COSTS, form=".3f",
        of=lambda one: one.short.mean,
    ),
    Column(
        title="short texts, worst", key="short_worst", part=COSTS, form=".3f",
        of=lambda one: one.short.worst,
    ),
    Column(
        title="attention factor", key="attention_factor", part=COSTS, form=".4f",
        of=lambda one: one.attention_factor,
    ),
    Column(
        title="stale keys from", key="stale_from", part=COSTS, form=",",
        of=lambda one: one.stale_from,
    ),
    Column(
        title="float32 cosine error", key="float32_cosine_error", part=COSTS, form=".1e",
        of=lambda one: one.cosine_error, help=_ROUNDED,
    ),
    Column(
        title="in transformers", key="float32_cosine_error_transformers", part=COSTS,
        form=".1e", of=lambda one: one.code_cosine_error, never="none there",
        help=_COMPUTED,
    ),
    Column(
        title="unseen pairs", key="unseen_pairs", part=SEES, form=",",
        of=lambda one: int(one.pairs.unseen.sum()),
    ),
    Column(title="kept", key="kept", part=SEES, form=",", of=_count(KEPT)),
    Column(title="blended", key="blended", part=SEES, form=",", of=_count(BLENDED)),
    Column(title="divided", key="divided", part=SEES, form=",", of=_count(DIVIDED)),
    Column(
        title="B(k) < 0 at", key="first_negative", part=SEES, form=",",
        of=lambda one: one.first_negative,
    ),
    Column(title="K at 1/4", key="kernel_quarter", part=SEES, form=".3f", of=_kernel(0)),
    Column(title="K at 1/2", key="kernel_half", part=SEES, form=".3f", of=_kernel(0.5)),
    Column(title="K at the end", key="kernel_end", part=SEES, form=".3f", of=_kernel(1)),
)  # fmt: skip

EXPLAINED = (
    "Short texts: change of the expected logit of unit content within the trained length, against the "
    "model as it is read now. Stale keys: "
    "the length from which keys that were rotated and cached no longer fit. Unseen pairs: they made less "
    "than a turn in training and turn farther at the target. Float32 cosine error: of angles made in "
    "float32 of exact frequencies rounded once; in transformers: of those that it computes in float32. "
    "Kept: frequency as trained; divided: by the whole factor; blended: between. K: that "
    "logit at a quarter, half and the end of what a query sees."
)


def columns_of(part: str) -> tuple[Column, ...]:
    """Return the columns of one of the two tables, the method first."""
    return tuple(column for column in COLUMNS if column.part in ("", part))


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
