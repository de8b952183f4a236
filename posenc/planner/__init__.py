"""What it takes to read a longer context with a real model: formulas, sources and measured small models.

`plan(model, context)` compares the scalings of RoPE that could carry a model from the length it was
trained on to a longer one, and says what each costs and where the statement comes from.
"""

from posenc.planner.layer_notes import LayerNote, layer_notes
from posenc.planner.methods import METHODS, RANKING, Method, Readiness
from posenc.planner.paste import Emitted, emit, loss_by_position_script
from posenc.planner.plan import ContextPlan, MethodPlan, plan
from posenc.planner.report import COLUMNS, Column
from posenc.planner.warnings import Caution, cautions, verdict

__all__ = [
    "COLUMNS",
    "METHODS",
    "RANKING",
    "Caution",
    "Column",
    "ContextPlan",
    "Emitted",
    "LayerNote",
    "Method",
    "MethodPlan",
    "Readiness",
    "cautions",
    "emit",
    "layer_notes",
    "loss_by_position_script",
    "plan",
    "verdict",
]
