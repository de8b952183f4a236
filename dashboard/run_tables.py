"""The table of trained schemes with paired differences and intervals, the one that `posenc runs` prints."""

from collections.abc import Sequence

import pandas as pd

from dashboard.blocks import Block, Code, Drawer, Findings, Text
from dashboard.text import plain
from posenc.errors import RunError
from posenc.lab.best_rates import TriedRates
from posenc.lab.evaluate import TRAINED
from posenc.lab.result_table import ResultTable, comparison_table
from posenc.lab.summary import Curve
from posenc.lab.tasks import Language


def table_of(
    curves: Sequence[Curve], rates: Sequence[TriedRates], *, fine_tuned: bool = False
) -> ResultTable | None:
    """Return the table of one comparison, None where nothing is compared by its loss.

    Differences are from RoPE, or from the first scheme where there is no RoPE.
    """
    kinds = [
        curve.specification.scheme.kind
        for curve in curves
        if curve.variant == TRAINED and curve.specification.fine_tuning is None
    ]
    if not kinds or curves[0].specification.task != Language.kind:
        return None
    try:
        table = comparison_table(
            curves, "rope" if "rope" in kinds else kinds[0], rates, fine_tuned=fine_tuned
        )
    except RunError:  # two models of the reference
        return None
    return table if len(table.rows) > 1 else None


def blocks(key: str, table: ResultTable) -> list[Block]:
    """Return the table, what its numbers are, and a drawer with its files."""
    frame = pd.DataFrame([*table.short_rows()], columns=table.short_header())
    return [
        Findings(f"{key}_table", frame),
        Text(plain(" ".join(table.notes())), "caption"),
        Drawer(
            f"{key}_files",
            "The table as CSV and LaTeX",
            lambda: [Code(table.to_csv()), Code(table.to_latex())],
            icon="article",
        ),
    ]
