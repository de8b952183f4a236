"""The drawer of Extend with the tokens that fit in a memory, and its part of the script."""

import pandas as pd

from dashboard.blocks import Block, Controls, Data, Drawer, Findings, Text
from dashboard.pages.extend_context.options import Options
from dashboard.text import plain
from posenc.planner import ContextPlan, MemoryBudget, budget_rows, budget_sentence, memory_budget
from posenc.planner.memory import RESERVATION_HELP, not_counted

TITLE = "How many tokens fit in a memory?"
NUMBERS = "Tokens that fit in a memory"

_SCRIPT = """
from posenc.planner import budget_rows, budget_sentence, memory_budget

budget = memory_budget(
    model.config, {memory!r}, weights={weights!r}, batch={batch}, context={context},
)
print(budget_sentence(budget), file=sys.stderr)
fits = budget_rows(budget)
rows.writerow([])
rows.writerow(fits[0].keys())
rows.writerows(row.values() for row in fits)
"""


def budget_of(planned: ContextPlan, options: Options) -> MemoryBudget:
    """Return how many tokens fit in the memory that a visitor states, for the model of a plan."""
    return memory_budget(
        planned.model,
        options.memory,
        weights=options.weights,
        batch=options.batch,
        context=planned.target,
    )


def drawer(planned: ContextPlan, options: Options) -> Drawer:
    """Return the drawer, whose numbers are computed once it is open."""

    def make() -> list[Block]:
        budget = budget_of(planned, options)
        frame = pd.DataFrame(budget_rows(budget))
        return [
            Controls(("memory", "weights", "batch")),
            Text(plain(budget_sentence(budget)), both="memory"),
            Findings("memory", frame, RESERVATION_HELP),
            Text(not_counted(budget), "caption", both="not counted"),
            Data(title=NUMBERS, frame=frame),
        ]

    changes = {"fits_memory": True}, {"fits_memory": False}
    return Drawer(
        "plan_memory", TITLE, make, icon="memory", changes=changes, opened=options.fits_memory
    )


def script(options: Options) -> str:
    """Return the lines that print the numbers of the drawer, "" while it is closed."""
    if not options.fits_memory:
        return ""
    return _SCRIPT.format(
        memory=options.memory,
        weights=options.weights,
        batch=options.batch,
        context=options.context,
    )
