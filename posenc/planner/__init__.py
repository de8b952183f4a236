"""Reading a longer context with a real model: methods, their costs, and what to paste.

`plan(model, context)` compares the scalings of RoPE that can extend a model from its trained length to
a longer context, with the source of every statement.
"""

from posenc.planner.context_plan import ContextPlan, MethodPlan, at_inference
from posenc.planner.measuring import loss_by_position_script
from posenc.planner.memory import (
    MemoryBudget,
    budget_record,
    budget_rows,
    budget_sentence,
    memory_budget,
)
from posenc.planner.methods import METHODS, Method
from posenc.planner.order import order_sentences, study_tables
from posenc.planner.paste import Paste, paste
from posenc.planner.plan import plan
from posenc.planner.ranking import Readiness
from posenc.planner.recommendation import how_far, recommendation, to_do
from posenc.planner.record import model_record, plan_record
from posenc.planner.sentences import (
    RANKING,
    RANKING_RULES,
    Advice,
    LayerNote,
    PlanWarning,
    advice_of,
    assumed_sentences,
    layer_notes,
    left_out_sentences,
    length_rows,
    nearest_factor,
    warnings_of,
)
from posenc.planner.tables import (
    COLUMNS,
    COVERAGE,
    EXPLAINED,
    TRADE_OFFS,
    Column,
    layer_rows,
    ranked,
)

__all__ = [
    "COLUMNS",
    "COVERAGE",
    "EXPLAINED",
    "METHODS",
    "RANKING",
    "RANKING_RULES",
    "TRADE_OFFS",
    "Advice",
    "Column",
    "ContextPlan",
    "LayerNote",
    "MemoryBudget",
    "Method",
    "MethodPlan",
    "Paste",
    "PlanWarning",
    "Readiness",
    "advice_of",
    "assumed_sentences",
    "at_inference",
    "budget_record",
    "budget_rows",
    "budget_sentence",
    "how_far",
    "layer_notes",
    "layer_rows",
    "left_out_sentences",
    "length_rows",
    "loss_by_position_script",
    "memory_budget",
    "model_record",
    "nearest_factor",
    "order_sentences",
    "paste",
    "plan",
    "plan_record",
    "ranked",
    "recommendation",
    "study_tables",
    "to_do",
    "warnings_of",
]
