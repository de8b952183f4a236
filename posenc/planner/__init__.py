"""What it takes to read a longer context with a real model: formulas alone, nothing measured.

`plan(model, context)` compares the scalings of RoPE that could carry a model from the length it was
trained on to a longer one, and says what each costs and where the statement comes from.
"""

from posenc.planner.context_plan import ContextPlan, MethodPlan, plan
from posenc.planner.methods import METHODS, Method

__all__ = [
    "METHODS",
    "ContextPlan",
    "Emitted",
    "Method",
    "MethodPlan",
    "emit",
    "loss_by_position_script",
    "plan",
]
