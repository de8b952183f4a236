"""Results that show themselves in a notebook, and become a frame of pandas or a chart of Altair.

A result derives from `Shown` and says in `view` what there is to show. This is the only module of posenc
that loads pandas or Altair, when `to_frame` or `plot` is called: the extra `plot` installs both.
"""

import html
import importlib.util
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc.errors import NothingToShow
from posenc.inline_svg import line_picture, matrix_picture
from posenc.text import install_command, significant

if TYPE_CHECKING:
    import altair
    import pandas

Value = float | int | str | bool | tuple[int, ...] | None
Column = Tensor | Sequence[Value]

MAX_POINTS = 512  # of a line in a picture or chart: more than its pixels show
MAX_CELLS = 96  # of a matrix in a picture or chart, per side
MAX_ROWS = 12  # of a table in a notebook


@dataclass(frozen=True, eq=False, kw_only=True)
class View:
    """What a result shows of itself.

    title: what it is. numbers: key numbers by name; None is left out. columns: of equal length, by name.
    x: the column along which `lines`, names of other columns, are drawn; dots: as points that are not
    joined. matrix (n, m): drawn where there are no lines.
    """

    title: str
    numbers: Mapping[str, Value] = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)
    x: str = ""
    lines: tuple[str, ...] = ()
    dots: bool = False
    matrix: Tensor | None = None


class Shown:
    """A result that a notebook shows: as key numbers and a picture, a frame, or a chart."""

    def view(self) -> View:
        """Return what the result shows of itself: by default what it is, and its single numbers."""
        return View(title=title_of(self), numbers=numbers_of(self))

    def to_frame(self) -> "pandas.DataFrame":
        """Return the columns as a frame of pandas; without columns the matrix, else one row of numbers.

        Raises NothingToShow where pandas is not installed.
        """
        _require("pandas")
        import pandas as pd

        view = self.view()
        if view.columns:
            return pd.DataFrame({name: _values(column) for name, column in view.columns.items()})
        if view.matrix is not None:
            return pd.DataFrame(_dense(view.matrix).numpy())
        return pd.DataFrame([dict(view.numbers)])

    def plot(self) -> "altair.Chart":
        """Return a chart of Altair with the lines or the matrix, at most 512 points or 96 x 96 cells.

        Raises NothingToShow for a result of single numbers, or where Altair is not installed.
        """
        _require("altair", "pandas")
        import altair as alt
        import pandas as pd

        view = self.view()
        if view.lines:
            rows = [
                {view.x: x, "value": y, "line": name}
                for name in view.lines
                for x, y in _points(view, name)
                if math.isfinite(y)
            ]
            chart = alt.Chart(pd.DataFrame(rows, columns=[view.x, "value", "line"]))
            drawn = (chart.mark_point() if view.dots else chart.mark_line()).encode(
                x=alt.X(view.x, type="quantitative"), y="value:Q", color="line:N"
            )
            if not view.dots:
                drawn = drawn.encode(strokeDash="line:N")
        elif view.matrix is not None:
            rows = [
                {"row": row, "column": column, "value": value}
                for row, values in enumerate(_small(view.matrix).tolist())
                for column, value in enumerate(values)
            ]
            chart = alt.Chart(pd.DataFrame(rows)).mark_rect()
            drawn = chart.encode(x="column:O", y="row:O", color="value:Q")
        else:
            raise NothingToShow(
                f"{type(self).__name__} has single numbers only, which cannot be drawn; to_frame() "
                "has them."
            )
        return drawn.properties(title=view.title)

    def _repr_html_(self) -> str:
        """Return the key numbers, and the picture or the first rows, as HTML without a script."""
        view = self.view()
        numbers = {name: [value] for name, value in view.numbers.items() if value is not None}
        parts = [f"<p><strong>{html.escape(view.title)}</strong></p>"]
        if numbers:
            parts.append(_table(numbers))
        if view.lines:
            lines = {name: list(_points(view, name)) for name in view.lines}
            parts.append(line_picture(view.title, view.x, lines, dots=view.dots))
        elif view.matrix is not None:
            parts.append(matrix_picture(view.title, _small(view.matrix)))
        elif view.columns:
            parts.append(_table(view.columns))
        return f"<div>{''.join(parts)}</div>"


def title_of(result: Shown) -> str:
    """Return the first sentence of the docstring of a result's class, without the full stop."""
    lines = (type(result).__doc__ or type(result).__name__).splitlines()
    return lines[0].removesuffix(".").replace("`", "")


def numbers_of(result: Shown) -> dict[str, Value]:
    """Return the fields of a result that are a number, a word or a tuple, by their names in words."""
    return {
        name.replace("_", " "): value
        for name, value in vars(result).items()
        if isinstance(value, int | float | str | tuple)
    }


def _require(*names: str) -> None:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise NothingToShow(
            f"{' and '.join(missing)} must be installed for this: {install_command('plot')}"
        )


def _values(column: Column) -> list[Value]:
    return column.detach().cpu().tolist() if isinstance(column, Tensor) else list(column)


def _dense(matrix: Tensor) -> Tensor:
    return matrix.detach().to_dense().cpu().double()


def _small(matrix: Tensor) -> Tensor:
    """Return evenly spaced rows and columns of a matrix, at most MAX_CELLS each."""
    dense = _dense(matrix)
    rows, columns = (
        torch.linspace(0, count - 1, min(count, MAX_CELLS)).round().long() for count in dense.shape
    )
    return dense[rows][:, columns]


def _points(view: View, line: str) -> Iterator[tuple[float, float]]:
    """Iterate over evenly spaced points of a line; a missing value is NaN."""
    x, y = (_values(view.columns[name]) for name in (view.x, line))
    count = min(len(x), MAX_POINTS)
    for step in range(count):
        at = step * (len(x) - 1) // max(count - 1, 1)
        yield _float(x[at]), _float(y[at])


def _float(value: Value) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _cell(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return significant(value, 4) if isinstance(value, float) else html.escape(str(value))


def _table(columns: Mapping[str, Column]) -> str:
    """Return the first rows of columns as a table, and how many more there are."""
    values = {name: _values(column) for name, column in columns.items()}
    count = max(map(len, values.values()))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in values)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(column[row])}</td>" for column in values.values()) + "</tr>"
        for row in range(min(count, MAX_ROWS))
    )
    more = f"<p>{count - MAX_ROWS:,} more: to_frame()</p>" if count > MAX_ROWS else ""
    return f"<table><tr>{head}</tr>{rows}</table>{more}"
