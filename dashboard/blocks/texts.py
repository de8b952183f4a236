"""Texts, formulas, drawings and tables as blocks of a page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from dashboard.charts import frames

Look = Literal["plain", "caption", "heading", "info", "warning", "error"]


@dataclass(frozen=True, eq=False)
class Text:
    """A text in Markdown. both: what it says, in a word, where that of A stands under it."""

    text: str
    look: Look = "plain"
    help: str = ""
    icon: str = ""
    both: str = ""


@dataclass(frozen=True, eq=False)
class Formula:
    """A formula in LaTeX."""

    latex: str


@dataclass(frozen=True, eq=False)
class Code:
    """Text to copy. language: whose colours it has; None: without colours, for the best contrast."""

    code: str
    language: str | None = None


@dataclass(frozen=True, eq=False)
class Metric:
    """One number, large, under its name."""

    label: str
    value: str


@dataclass(frozen=True, eq=False)
class Drawing:
    """An SVG as text, what it shows in words, and its width in CSS pixels."""

    svg: str
    alt: str
    width: int


@dataclass(frozen=True, eq=False)
class Table:
    """A small table of words in Markdown, with a column for each row of its frame.

    The first column of the frame names the columns drawn. key: where that of A stands under it.
    """

    frame: pd.DataFrame
    key: str = ""


@dataclass(frozen=True, eq=False)
class Findings:
    """A small table that stands open: numbers with three significant digits, no empty column.

    The first column names each row. With A, its rows and the change stand under those of B. help: what
    columns hold, by heading.
    """

    key: str
    frame: pd.DataFrame
    help: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class Data:
    """Numbers that no picture shows, for the drawer Data and the export. columns: as for a Chart."""

    title: str
    frame: pd.DataFrame
    columns: Mapping[str, str] = field(default_factory=dict)

    def numbers(self) -> pd.DataFrame:
        """The rows in full, under the names that people read."""
        return frames.plotless(self.frame, self.columns)
