"""A page: blocks that hold others, the page that holds them all, and the walk through its blocks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from dashboard.blocks.inputs import Button, Changes, Controls, Download, Link, Live
from dashboard.blocks.pictures import Chart, Clocks, Matrices
from dashboard.blocks.texts import Code, Data, Drawing, Findings, Formula, Metric, Table, Text


@dataclass(frozen=True, eq=False)
class Columns:
    """Blocks beside each other, under each other on a phone. widths: of the columns, one another.

    stage: whether they come first while the page is presented, each as wide as the page.
    """

    parts: Sequence[Sequence["Block"]]
    widths: Sequence[float] = ()
    stage: bool = False


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
