"""A script on torch and transformers that measures one method of a plan on the user's own checkpoint."""

import json
import string
from pathlib import Path

from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.methods import CONFIGURED
from posenc.planner.paste import Paste, paste

_TEMPLATE = Path(__file__).with_name("loss_by_position.template")


def loss_by_position_script(plan: ContextPlan, method: MethodPlan | None = None) -> str:
    """Return a Python script on torch and transformers that measures one method of a plan.

    It measures a checkpoint as it is, and as planned; as it is alone for no method and for the scaling of
    the config. "" where the method has no block that transformers reads.
    """
    blocks, how, columns = Paste(), "read as it is", "as it is (before)"
    if method is not None and method.method.name != CONFIGURED:
        blocks = paste(plan, method)
        if not blocks.rope_parameters:
            return ""
        how = f"read as it is and as planned, by {method.method.label}"
        columns = "as it is (before)\nand as planned (after), of the same tokens"
    title = "".join(letter for letter in plan.name if letter.isalnum() or letter in " .-_")
    template = string.Template(_TEMPLATE.read_text("utf-8"))
    assumption = f"# {plan.model.assumption}\n" if plan.model.assumption else ""
    return assumption + template.substitute(
        title=f"{how}: {title} at {plan.target:,} tokens",
        columns=columns,
        context=plan.target,
        parameters=json.dumps(blocks.rope_parameters, indent=4),
        scaling=json.dumps(blocks.rope_scaling, indent=4),
    )
