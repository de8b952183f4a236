"""A plan as tables, and plans and models as records of plain values for JSON."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from posenc.models.model_config import ModelConfig, cache_gib
from posenc.planner.context_plan import ContextPlan, MethodPlan, at_inference
from posenc.planner.facts import Fact, say
from posenc.planner.paste import Paste, paste
from posenc.planner.ranking import Compared
from posenc.planner.recommendation import bound_sentence, recommendation
from posenc.planner.scaling_effects import BLENDED, DIVIDED, UNCHANGED
from posenc.planner.sentences import (
    RANKING_RULES,
    advice_of,
    assumed_sentences,
    layer_notes,
    left_out_sentences,
    warnings_of,
)

Value = str | int | float | None

TRADE_OFFS, COVERAGE = "Trade-offs", "Frequency coverage"  # titles of the two tables


@dataclass(frozen=True)
class Column:
    """One column of a table of methods.

    title: heading. key: name in a record. part: the table it is in, "" for both. form: format of a
    number. value: of one method. missing: text where there is no number. help: explanation.
    """

    title: str
    key: str
    part: str
    form: str
    value: Callable[[MethodPlan], Value]
    missing: str = "never"
    help: str = ""

    def cell(self, method: MethodPlan, plan: ContextPlan) -> str:
        """Return the text of a cell."""
        value = self.value(method)
        if value is None and self.key == "first_negative" and plan.scanned < plan.reach:
            return f"not below {plan.scanned:,}"
        return self.missing if value is None else format(value, self.form)


COLUMNS = (
    Column("method", "label", "", "", lambda x: x.method.label),
    Column(
        "rank", "rank", "", ",", lambda x: x.rank,
        help="Methods that no source puts in order share a rank.",
    ),
    Column("training", "training", TRADE_OFFS, "", lambda x: x.readiness_text),
    Column("short texts, mean", "short_mean", TRADE_OFFS, ".3f", lambda x: x.short.mean),
    Column("short texts, worst", "short_worst", TRADE_OFFS, ".3f", lambda x: x.short.worst),
    Column("attention factor", "attention_factor", TRADE_OFFS, ".4f", lambda x: x.attention_factor),
    Column(
        "softmax scale", "softmax_scale", TRADE_OFFS, ".3f", lambda x: x.softmax_scale, missing="no block",
        help="Softmax scale with the block to paste over that of the model's own block.",
    ),
    Column("stale keys from", "stale_from", TRADE_OFFS, ",", lambda x: x.stale_from),
    Column(
        "float32 cosine error", "float32_cosine_error", TRADE_OFFS, ".1e", lambda x: x.cosine_error,
        help="Largest error of a cosine below the target where float32 angles are computed from exact "
        "frequencies, each rounded to float32 once.",
    ),
    Column(
        "error in transformers", "float32_cosine_error_transformers", TRADE_OFFS, ".1e",
        lambda x: x.code_cosine_error, missing="none there",
        help="The same error with the frequencies that transformers computes in float32.",
    ),
    Column("unseen pairs", "unseen_pairs", COVERAGE, ",", lambda x: x.pairs.unseen_count),
    Column("kept", "kept", COVERAGE, ",", lambda x: x.pairs.count(UNCHANGED)),
    Column("blended", "blended", COVERAGE, ",", lambda x: x.pairs.count(BLENDED)),
    Column("divided", "divided", COVERAGE, ",", lambda x: x.pairs.count(DIVIDED)),
    Column("B(k) first below 0 at", "first_negative", COVERAGE, ",", lambda x: x.first_negative),
    Column(
        "expected logit at 1/4", "kernel_quarter", COVERAGE, ".3f",
        lambda x: next(iter(x.kernel.values())),
    ),
    Column(
        "expected logit at 1/2", "kernel_half", COVERAGE, ".3f",
        lambda x: [*x.kernel.values()][(len(x.kernel) - 1) // 2],
    ),
    Column("expected logit at the end", "kernel_end", COVERAGE, ".3f", lambda x: [*x.kernel.values()][-1]),
)  # fmt: skip

EXPLAINED = (
    "Short texts: the change of the expected logit within the trained length, against the model as it is "
    "read now. Softmax scale: with the block to paste, over that of the model's own block. Stale keys: the "
    "length from which rotated keys in the cache no longer fit. Unseen pairs: "
    "pairs that made less than one turn in training and turn farther at the target. Float32 cosine error: "
    "of float32 angles with exact frequencies, each rounded once; error in transformers: with the "
    "frequencies that it computes in float32. Kept: pairs with the frequency of training. Divided: pairs "
    "whose frequency is divided by the full factor or more. Blended: pairs between the two. Expected "
    "logit: that of unit content at a quarter, at half and at the end of what a query sees."
)


def ranked(plan: ContextPlan) -> dict[str, list[dict[str, str]]]:
    """Return the two tables of ranked methods by title; a row is the cells by column title."""
    return {
        part: [
            {column.title: column.cell(x, plan) for column in COLUMNS if column.part in ("", part)}
            for x in plan.methods
        ]
        for part in (TRADE_OFFS, COVERAGE)
    }


def plan_record(plan: ContextPlan) -> dict[str, Any]:
    """Return a plan as JSON, numbers in full."""
    notes = layer_notes(plan.model, plan.target, plan.trained_length)
    window = plan.base_window
    return {
        "assumption": plan.model.assumption,
        "name": plan.name,
        "verdict": recommendation(plan),
        "bound": bound_sentence(plan),
        "target": plan.target,
        "trained_length": plan.trained_length,
        "factor": plan.factor,
        "lengths": _lengths_record(plan),
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
        "ranking": RANKING_RULES,
        "comparisons": [_compared_record(each, plan) for each in plan.comparisons],
        "advice": [advice._asdict() for advice in advice_of(plan)],
        "at_inference": [dataclasses.asdict(method) for method in at_inference(plan)],
        "methods": [_method_record(method, plan) for method in plan.methods],
        "left_out": left_out_sentences(plan),
        "warnings": [dataclasses.asdict(warning) for warning in warnings_of(plan)],
        "layers": [dataclasses.asdict(note) for note in notes],
        "assumed": [*assumed_sentences(plan), *plan.model.assumed],
    }


def _method_record(method: MethodPlan, plan: ContextPlan) -> dict[str, Any]:
    return {
        "method": method.method.name,
        **{column.key: column.value(method) for column in COLUMNS},
        "readiness": say("readiness", Fact(method.readiness.value, {})),
        "factor": method.factor,
        "measured": [dataclasses.asdict(ratio) for ratio in method.measured],
        "statements": [
            {"statement": statement, "source": source} for statement, source in method.statements
        ],
        "config": dataclasses.asdict(method.config),
        "short_compared": method.short.compared,
        "kernel": {str(offset): value for offset, value in method.kernel.items()},
        "emitted": _pasted_record(paste(plan, method)),
    }


def _pasted_record(pasted: Paste) -> dict[str, Any]:
    facts = ("notes", "places")
    parts = {
        field.name: getattr(pasted, field.name)
        for field in dataclasses.fields(pasted)
        if field.name not in facts
    }
    return parts | {"why": pasted.why, "where": pasted.where}


def _lengths_record(plan: ContextPlan) -> dict[str, Any]:
    known = plan.known_lengths
    return {
        "trained": plan.longest_trained,
        "claimed": known.claimed if known else plan.model.context,
        "effective": [dataclasses.asdict(one) for one in (known.effective if known else ())],
    }


def _compared_record(compared: Compared, plan: ContextPlan) -> dict[str, Any]:
    names = {method.method.kind: method.method.name for method in plan.methods}
    kinds = {"first": compared.first, "second": compared.second}
    return {
        **{place: names[kind] for place, kind in kinds.items()},
        "training": compared.training,
        "verdict": compared.verdict,
        "sources": [
            dataclasses.asdict(each)
            | {
                "values": {
                    measure: {place: by_kind[kind] for place, kind in kinds.items()}
                    for measure, by_kind in each.values.items()
                    if {*kinds.values()} <= {*by_kind}
                }
            }
            for each in compared.comparisons
        ],
    }


def model_record(model: ModelConfig) -> dict[str, Any]:
    """Return what a config says of position as JSON."""
    record = {"assumption": model.assumption} | dataclasses.asdict(model)
    for kind, values in zip(model.layer_kinds, record["layer_kinds"], strict=True):
        values["rotary_dim"] = kind.rotary_dim
    return record


def layer_rows(model: ModelConfig) -> list[dict[str, str]]:
    """Return a table of the kinds of layers of a model."""
    rows = []
    for kind in model.layer_kinds:
        scheme = kind.scheme
        base = getattr(scheme, "base", None)
        window = "all" if kind.window is None else f"{kind.window:,}"
        rows.append(
            {
                "layers": f"{len(kind.layers)} {kind.name}",
                "scheme": scheme.label if scheme else kind.unsupported,
                "heads": f"{kind.heads}/{kind.kv_heads}" if kind.heads else "-",
                "head width": str(kind.head_dim) if kind.heads else "-",
                "rotated": "-" if kind.rotary_dim is None else str(kind.rotary_dim),
                "base": "-" if base is None else f"{base:,.10g}",
                "window": window if kind.heads else "-",
                "cached a token": f"{kind.cache_width:,}",
                "scale": _scale(kind.softmax_scale) if kind.heads else "-",
            }
        )
    return rows


def _scale(value: float) -> str:
    """Return a softmax scale as one over a root where the number below it is whole."""
    square = 1 / value / value if value else math.inf
    whole = math.isfinite(square) and math.isclose(square, round(square), rel_tol=1e-12)
    return f"1/sqrt({square:.10g})" if whole else f"{value:.6g}"
