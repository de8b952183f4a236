"""Plans and models as records of plain values for JSON."""

import dataclasses
from typing import Any

from posenc.models.model_config import ModelConfig, cache_gib
from posenc.planner.context_plan import ContextPlan, MethodPlan, at_inference
from posenc.planner.facts import Fact, say
from posenc.planner.paste import Paste, paste
from posenc.planner.ranking import Compared
from posenc.planner.recommendation import bound_sentence, recommendation
from posenc.planner.sentences import (
    RANKING_RULES,
    advice_of,
    assumed_sentences,
    layer_notes,
    left_out_sentences,
    warnings_of,
)
from posenc.planner.tables import COLUMNS


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
        "fine_tuned": method.fine_tuned and dataclasses.asdict(method.fine_tuned),
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
        del values["facts"]  # the name and the sentences are made of them
        values |= {
            "name": kind.name,
            "block_name": kind.block_name,
            "unsupported": kind.unsupported,
            "notes": kind.notes,
            "rotary_dim": kind.rotary_dim,
        }
    return record
