"""Learned tables on Inside a model: of a model that ships, or the chosen one, an upload too."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch

from dashboard.blocks import Block, Columns, Definition, Findings, Link, Text, line_chart
from dashboard.cache import cached
from dashboard.charts import frames, lines
from dashboard.script import whole_script
from dashboard.settings import Setting
from dashboard.text import number, plain
from posenc.analysis import TableComparison, compare_with_sinusoidal
from posenc.checkpoints import named_table
from posenc.errors import PosencError
from posenc.lab.shipped_models import shipped_model
from posenc.schemes import SCHEMES
from posenc.schemes.learned import Learned

PURPOSE = (
    "Choose a trained position table, or upload a checkpoint that has one. You learn how its rows differ "
    "from the sines and cosines of the same width."
)
GUIDE = (
    "Left: the norm of each row; sinusoidal rows all have the same. Right: the mean cosine of two rows by "
    "their distance, as Wang and Chen 2020, arXiv 2010.04903, compare position embeddings. Below: the "
    "share of the variance that the first principal components explain. A table whose first ones explain "
    "much is smooth in the position."
)
DEFINITION = Definition(
    r"n_p = \|x_p\|, \qquad s(k) = \operatorname{mean}_p \frac{x_p^\top x_{p+k}}{\|x_p\|\,\|x_{p+k}\|}",
    "$x_p$ is the row of position p. The sinusoidal table beside it has as many rows and columns, and the "
    "base 10,000.",
    (compare_with_sinusoidal,),
)
MOST_ROWS = 1_024  # that are compared: the similarity of all pairs of rows takes 8 MiB
RANDOM = "A random start has learned nothing: choose a trained table."
IMPORTS = """
from posenc.analysis import compare_with_sinusoidal
from posenc.checkpoints import named_table
"""
SCRIPT = """
found = compare_with_sinusoidal(named_table(source).table[:most])
print("position,norm,sinusoidal norm,similarity at this distance,sinusoidal similarity")
shapes = found.table, found.sinusoidal
columns = [values for shape in shapes for values in (shape.norms, shape.similarity)]
for position, (norm, mean, wave, waves) in enumerate(zip(*columns)):
    print(position, *(value.item() for value in (norm, wave, mean, waves)), sep=",")
"""


@dataclass(frozen=True, eq=False)
class Compared:
    """A table beside the sinusoidal one of its width. rows, width: of the whole table."""

    comparison: TableComparison
    rows: int
    width: int


def blocks(setting: Setting) -> tuple[str, list[Block]]:
    """Return what the learned table of a setting is like, beside the sinusoidal one."""
    if setting.learned_source == "random":
        return RANDOM, []
    try:
        found = compared(named_table(setting.learned_source).table)
    except PosencError as error:
        return "This table cannot be compared.", [Text(plain(str(error)), "error", both="refusal")]
    explained = 100 * float(found.comparison.table.explained[:3].sum())
    waves = 100 * float(found.comparison.sinusoidal.explained[:3].sum())
    size = f"{found.rows:,} rows of {found.width:,} numbers"
    headline = (
        f"Three components explain {number(explained)}% of the variance of this table, {size}, and "
        f"{number(waves)}% of that of the sinusoidal table of its width."
    )
    notes: list[Block] = []
    if found.rows > MOST_ROWS:
        notes = [Text(f"The first {MOST_ROWS:,} rows are compared.", "caption", both="size")]
    return headline, [*notes, *pictures(found.comparison, size)]


def compared(table: torch.Tensor) -> Compared:
    """Return the first rows of a table beside the sinusoidal one. Raises SchemeArgumentError."""
    return Compared(compare_with_sinusoidal(table[:MOST_ROWS]), *table.shape)


@cached
def of_model(run_id: str) -> TableComparison | None:
    """Return a shipped model's learned table beside the sinusoidal one, None for one without a table."""
    scheme = shipped_model(run_id).model.scheme
    return compare_with_sinusoidal(scheme.weight) if isinstance(scheme, Learned) else None


def pictures(comparison: TableComparison, sizes: str) -> list[Block]:
    """Return norms, similarity and components of a learned table beside those of the sinusoidal table."""
    parts: list[list[Block]] = [
        [
            Text(title, "heading"),
            *line_chart(
                key=column,
                title=title,
                frame=table_frame(comparison, column),
                names=("learned", "sinusoidal"),
                draw=partial(lines.by_offset, x_title=x_title, y_title=y_title, band=False),
                columns={"x": x_title, "y": y_title},
                sizes=sizes,
            ),
        ]
        for column, title, x_title, y_title in (
            ("norms", "Norm of each row", "position", "norm"),
            ("similarity", "Similarity of rows", "distance", "mean cosine"),
        )
    ]
    return [
        Columns(parts),
        Text("Variance that components explain", "heading"),
        Findings("components", components_table(comparison)),
        Link("pca"),
    ]


def table_frame(comparison: TableComparison, column: str) -> pd.DataFrame:
    """Return a line of the learned and one of the sinusoidal table. column: norms or similarity."""
    shapes = {"learned": comparison.table, "sinusoidal": comparison.sinusoidal}
    curves = {
        kind: shape.norms if column == "norms" else shape.similarity
        for kind, shape in shapes.items()
    }
    return frames.lines(
        {kind: (np.arange(len(values)), values.numpy()) for kind, values in curves.items()}
    )


def components_table(comparison: TableComparison) -> pd.DataFrame:
    """Return how much of the variance of each table its first components explain."""
    shapes = {"learned": comparison.table, "sinusoidal": comparison.sinusoidal}
    return pd.DataFrame(
        [
            {
                "table": SCHEMES[kind].label,
                **{
                    f"PC{n + 1} (%)": 100 * float(value)
                    for n, value in enumerate(shape.explained[:3])
                },
                "mean norm": float(shape.norms.mean()),
            }
            for kind, shape in shapes.items()
        ]
    )


def script(setting: Setting) -> str:
    """Return the script that prints norms and similarities of the table."""
    values = f"source, most = {setting.learned_source!r}, {MOST_ROWS}"
    return whole_script(IMPORTS, values, SCRIPT)
