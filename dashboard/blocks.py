"""Blocks of a page, as values: a page is a function of a Setting and of its options to a `Page`.

Nothing here draws and nothing imports Streamlit. `render` draws blocks in Streamlit; `compare` joins the
blocks of two settings.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from dashboard.charts import frames, lines, overlay
from dashboard.charts.theme import Spec
from dashboard.components.clock import Face, encode
from dashboard.components.matrix import Panel, Scale
from dashboard.components.matrix import Row as MatrixRow

Look = Literal["plain", "caption", "heading", "info", "warning", "error"]
Names = Mapping[str, str]  # what A and B are called
Narrowed = int | Sequence[str] | Mapping[str, str]
Changes = Mapping[str, Any]  # of shared fields and of options, by name


# Text -----------------------------------------------------------------------------------------


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


# Pictures and numbers -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Chart:
    """A chart: a specification that its names alone decide, and the frame that is poured into it.

    key: of no other chart of the page; A has the same. names: of its lines or bars. draw: returns the
    specification of these names. columns: what the data call columns of the frame; one that is called ""
    is only drawn. x: the column whose values are thinned to what a screen shows, "" for none. labels:
    whether lines are named at their ends. alt: what a screen reader says in place of the title and the
    ends of the lines. sizes: what made it, for a saved picture. pinned: the names of A and B where both
    are in it. listed: whether its numbers are in the data; not where a `Data` has them in full.
    """

    key: str
    title: str
    frame: pd.DataFrame
    names: tuple[str, ...]
    draw: Callable[[tuple[str, ...]], Spec]
    columns: Mapping[str, str] = field(default_factory=dict)
    x: str = "x"
    labels: bool = False
    alt: str | None = None
    sizes: str = ""
    pinned: Names | None = None
    listed: bool = True

    @cached_property
    def spec(self) -> Spec:
        """The specification, of both settings where they are compared."""
        spec = self.draw(self.names)
        return spec if self.pinned is None else overlay.of_both(spec, self.pinned)

    @cached_property
    def drawn(self) -> pd.DataFrame:
        """The frame as it is drawn: thinned and narrow."""
        return self.thinned(frames.MOST_POINTS)

    def thinned(self, most: int) -> pd.DataFrame:
        """Return the frame as it is drawn with so many values of `x` at most."""
        drawn = frames.drawn(self.frame, self.x, most) if self.x else frames.named(self.frame)
        return lines.labelled(drawn) if self.labels and self.pinned is None else drawn

    @cached_property
    def sent(self) -> pa.Table | pd.DataFrame:
        """The drawn frame as it travels."""
        return frames.arrow(self.drawn)

    @cached_property
    def spoken(self) -> str:
        """The words of a screen reader: `alt`, or the title and the ends of the lines."""
        return self.alt or f"{self.title}. {lines.ends(self.drawn)}".strip()

    def subtitle(self, page: str) -> str:
        """Return the line under the title of a saved picture. page: the title of its page."""
        if self.pinned is None or not self.sizes:
            return "; ".join(filter(None, (page, self.sizes)))
        return f"{page}; B: {self.sizes}; {self.pinned['A']}"

    def numbers(self) -> pd.DataFrame:
        """The rows in full, under the names that people read."""
        return frames.plotless(self.frame, self.columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class Matrices:
    """A row of matrices under one crosshair and one colour scale; see `components.matrix.Row`.

    scale: the colours, or how they follow from all panels that share them. unit: what a value is, in the
    plural. text: what a reader hears instead. cell: the pinned query and key. takes_cell: the options that
    a click on a cell sets. name: of its setting, beside another.
    """

    key: str
    panels: Sequence[Panel]
    scale: Scale | Callable[[Sequence[Panel]], Scale]
    unit: str
    text: str
    row_label: str = "query position"
    column_label: str = "key position"
    height: int | None = None
    together: int = 1
    cell: tuple[int, int] | None = None
    takes_cell: tuple[str, str] | None = None
    name: str = ""

    def row(self, title: str) -> MatrixRow:
        """Return the row as its component draws it. title: of the page, over a saved picture."""
        return MatrixRow(
            panels=self.panels,
            key=self.key,
            scale=self.scale if isinstance(self.scale, Scale) else self.scale(self.panels),
            text_alternative=self.text,
            title=", ".join(filter(None, (title, self.name))),
            row_label=self.row_label,
            column_label=self.column_label,
            height=self.height,
            together=self.together,
            cell=self.cell,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Clocks:
    """Clocks under one slider of positions.

    first: where the slider stands at first; last: its last position. trained: the training length. text:
    what a reader hears instead. two: whether no more than two stand in a line.
    """

    key: str
    faces: Sequence[Face]
    first: int
    last: int
    trained: int
    text: str
    two: bool = False

    @cached_property
    def sent(self) -> Mapping[str, Any]:
        """The clocks as they travel to the browser."""
        return encode(self.faces, self.last, self.trained, self.text, self.first, two=self.two)


@dataclass(frozen=True, eq=False)
class Drawing:
    """An SVG as text, what it shows in words, and its width in CSS pixels."""

    svg: str
    alt: str
    width: int


@dataclass(frozen=True, eq=False)
class Table:
    """A small table of words in Markdown, with a column for each row of its frame.

    The first column of the frame names the columns drawn. key: where that of A stands under it. It is not
    in the data; a `Data` of its frame is.
    """

    frame: pd.DataFrame
    key: str = ""


@dataclass(frozen=True, eq=False)
class Findings:
    """A small table that stands open: numbers with three significant digits, no empty column.

    The first column names each row. With A, its rows and the change stand under those of B. help: what
    columns hold, by heading. It is not in the data; a `Data` of its frame is.
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


# What a visitor changes -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Controls:
    """The controls of these fields, shared or of the page, in a row.

    narrowed: the largest number, or the choices, that are offered now; of a word, titles by word, where a
    word without a title stands for the default. empty: what a number's field says
    while it is empty, which stands for its default; of the model, what its choice calls none.
    """

    names: Sequence[str]
    narrowed: Mapping[str, Narrowed] = field(default_factory=dict)
    empty: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Button:
    """A button that changes options of the page. key: its name among those of the page.

    changes: a function that makes them at the press where making them takes long. shortcut: a key that
    presses it.
    """

    key: str
    label: str
    changes: Changes | Callable[[], Changes]
    shortcut: str = ""
    disabled: bool = False
    icon: str = ""
    help: str = ""


@dataclass(frozen=True, eq=False)
class Link:
    """A link to a page by its folder. label: by default its name in the menu.

    changes: of what is shown there.
    """

    page: str
    label: str | None = None
    changes: Changes = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Live:
    """A part that only a running server can draw, by the name that the renderer has for it.

    values: the arguments that its function takes by name. Of two settings that of B alone is drawn.
    """

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class Download:
    """A button that gives a file, which is made when it is pressed."""

    key: str
    label: str
    file_name: str
    make: Callable[[], bytes]
    help: str = ""


# What holds other blocks ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Columns:
    """Blocks beside each other, under each other on a phone. widths: of the columns, one another."""

    parts: Sequence[Sequence["Block"]]
    widths: Sequence[float] = ()


@dataclass(frozen=True, eq=False)
class Row:
    """Blocks in a line that wraps.

    border: around them. spread: over the whole width, not from the left. narrow: no wider than its blocks.
    align: on which height they stand. key: by which a style sheet knows it.
    """

    blocks: Sequence["Block"]
    border: bool = False
    spread: bool = False
    narrow: bool = False
    align: Literal["top", "center", "bottom"] = "center"
    key: str = ""


@dataclass(frozen=True, eq=False)
class Cards:
    """Blocks in cells of equal width, by the name of each cell.

    across: most in a line, presented while the page is presented, where that is not 0. least: the narrowest
    cell in CSS pixels, 0 for as narrow as the line makes it.
    border: around each cell, all equally high. each: whether those of A stand beside those of B in cells of
    their own. lay_out: returns the cells as they are drawn, for pictures that share a scale; of all cells.
    """

    key: str
    cells: Mapping[str, Sequence["Block"]]
    across: int = 4
    presented: int = 0
    least: int = 0
    border: bool = True
    each: bool = False
    lay_out: Callable[[Mapping[str, Sequence["Block"]]], Mapping[str, Sequence["Block"]]] | None = (
        None
    )

    @cached_property
    def drawn(self) -> Mapping[str, Sequence["Block"]]:
        """The cells as they are drawn."""
        return self.cells if self.lay_out is None else self.lay_out(self.cells)


@dataclass(frozen=True, eq=False)
class Tabs:
    """Tabs of which one is open, so that its blocks alone are made.

    option: a choice of the page among these labels, whose default is the first. opened: its label now.
    """

    option: str
    labels: Sequence[str]
    opened: str
    blocks: Sequence["Block"]


@dataclass(frozen=True, eq=False)
class Drawer:
    """Blocks that are made and sent once somebody opens them.

    mark: a word that is compared with that of A. changes: what opening and what closing it changes, where
    the page wants to know; then `opened` counts. menu: whether it opens over the page. shown: whether
    the options of the page leave it.
    """

    key: str
    title: str
    make: Callable[[], Sequence["Block"]]
    mark: str = ""
    icon: str = ""
    changes: tuple[Changes, Changes] | None = None
    opened: bool = False
    menu: bool = False
    shown: bool = True


@dataclass(frozen=True, eq=False)
class Lines:
    """Drawers close under each other, like the lines of a list."""

    drawers: Sequence[Drawer]


Block = (
    Text | Formula | Code | Metric | Chart | Matrices | Clocks | Drawing | Table | Findings | Data
    | Controls | Button | Link | Download | Live | Columns | Row | Cards | Tabs | Drawer | Lines
)  # fmt: skip


# A page ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Uses:
    """The part of a setting that a page reads; a control of anything else is not drawn.

    itself: the fields that it reads whatever schemes are chosen. schemes: whether it reads what the chosen
    schemes are made of, too. never: what it does not read even where a scheme could. drawn: what it draws
    itself, so that the sidebar has its exact value alone.
    """

    itself: tuple[str, ...] = ()
    schemes: bool = True
    never: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()


SHOWN = ("schemes", "length", "train_length", "device")  # of pages that draw positions


@dataclass(frozen=True, eq=False)
class Definition:
    """A formula in LaTeX, words on it, and the functions that compute it."""

    latex: str
    words: str
    functions: tuple[Callable[..., Any], ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Page:
    """A title, the sentence that answers the page's question, and what is under it.

    above: what stands over the sentence. reasons: why schemes have no place on it, by scheme. beside: the
    sentence of A. guide: how to read it. script: returns the same as Python; None where there is nothing
    to reproduce.
    """

    title: str
    headline: str
    blocks: Sequence[Block] = ()
    above: Sequence[Block] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    beside: str = ""
    guide: str = ""
    definition: Definition | None = None
    script: Callable[[], str] | None = None

    @property
    def all_blocks(self) -> tuple[Block, ...]:
        """Every block that is made, those inside others too."""
        return tuple(walk((*self.above, *self.blocks)))


def walk(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks and those inside them; what a closed drawer would hold is not made."""
    for block in blocks:
        yield block
        yield from walk(inside(block))


def inside(block: Block) -> Sequence[Block]:
    """Return the blocks that a block holds as they are drawn."""
    match block:
        case Columns():
            return [inner for part in block.parts for inner in part]
        case Row() | Tabs():
            return block.blocks
        case Cards():
            return [inner for cell in block.drawn.values() for inner in cell]
        case Lines():
            return block.drawers
    return ()


def tables_of(blocks: Sequence[Block]) -> list[Chart | Data]:
    """Return the blocks that have numbers, for the drawer Data and the export."""
    return [
        block
        for block in blocks
        if isinstance(block, Data) or (isinstance(block, Chart) and block.listed)
        if len(block.frame)
    ]


def pictures_of(blocks: Sequence[Block]) -> list[Chart | Matrices]:
    """Return the blocks that can be saved as pictures."""
    return [block for block in blocks if isinstance(block, Chart | Matrices)]


def line_chart(*, y: str = "y", log: bool = False, **chart: Any) -> list[Block]:
    """Return a chart of lines, and a sentence on which of them coincide.

    y: the column of the heights. log: whether it is drawn on a log scale. chart: the fields of a `Chart`.
    """
    lines_of_all = Chart(**chart)
    sentence = lines.coinciding(lines_of_all.drawn, lines_of_all.x, y, log=log)
    return [lines_of_all, Text(sentence, "caption")] if sentence else [lines_of_all]


def has_values(panel: Panel) -> bool:
    """Whether any number of a matrix is not 0."""
    values = panel.values.dense()
    numbers = values[~np.isnan(values)]
    return not numbers.size or bool(numbers.any())
