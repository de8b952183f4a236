"""`posenc plan --memory`: how many tokens fit in a memory."""

import click

from posenc.cli.models import print_table
from posenc.planner import MemoryBudget, budget_rows, budget_sentence
from posenc.planner.memory import not_counted


def print_budget(budget: MemoryBudget | None) -> None:
    """Print how many tokens fit in a memory, in one sentence and by number type, if it is asked for."""
    if budget is None:
        return
    click.echo(f"{budget_sentence(budget)}\n")
    print_table(
        [
            {name: f"{value:,}" if isinstance(value, int) else value for name, value in row.items()}
            for row in budget_rows(budget)
        ]
    )
    click.echo(f"\n{not_counted(budget)}")
