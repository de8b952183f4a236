"""Charts, matrices and clocks as blocks of a page: what they draw, what they send, how they are told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dashboard.blocks.texts import Text
from dashboard.charts import frames, lines, overlay
from dashboard.charts.theme import Spec
from dashboard.components.clock import Face, encode
from dashboard.components.matrix import Panel, Scale
from dashboard.components.matrix import Row as MatrixRow

Names = Mapping[str, str]  # what A and B are called


@dataclass(frozen=True, eq=False, kw_only=True)
class Chart:
    """A chart: a specification that its names alone decide, and the frame that is poured into it.

    names: of its lines or bars. draw: returns the specification of these names. columns: what the data
    call columns of the frame; one that is called "" is only drawn. x: the column whose values are thinned
    to what a screen shows, "" for none. labels: how far apart names at the ends of lines stand, as a share
    of the range of all values; 0 for no names. alt: what a screen reader says after the title in place of
    the ends of the lines. sizes: what made it, for a saved picture. pinned: the names of A and B where both
    are in it. listed: whether its numbers are in the data;
    not where a `Data` has them in full. stage: its height in CSS pixels while the page is presented, 0 for
    what its larger text takes beside its usual one.
    """

    key: str
    title: str
    frame: pd.DataFrame
    names: tuple[str, ...]
    draw: Callable[[tuple[str, ...]], Spec]
    columns: Mapping[str, str] = field(default_factory=dict)
    x: str = "x"
    labels: float = 0.0
    alt: str | None = None
    sizes: str = ""
    pinned: Names | None = None
    listed: bool = True
    stage: int = 0

    @cached_property
    def spec(self) -> Spec:
        """The specification, of both settings where they are compared."""
        spec = self.draw(self.names)
        return spec if self.pinned is None else overlay.of_both(spec, self.pinned)

    @cached_property
    def drawn(self) -> pd.DataFrame:
        """The frame as it is drawn: thinned."""
        return self.thinned(frames.MOST_POINTS)

    def thinned(self, most: int) -> pd.DataFrame:
        """Return the frame as it is drawn with so many values of `x` at most."""
        drawn = frames.drawn(self.frame, self.x, most) if self.x else self.frame
        if self.pinned:
            drawn = overlay.marked(drawn)
        if not self.labels:
            return drawn
        if self.pinned is None:
            return lines.labelled(drawn, self.labels)
        of_b = lines.labelled(drawn[drawn["setting"] == "B"], self.labels)
        return drawn.assign(label_y=of_b["label_y"]) if "label_y" in of_b else drawn

    @cached_property
    def sent(self) -> pa.Table:
        """The same rows as they travel to the browser: made once for all runs that draw this page."""
        return pa.Table.from_pandas(self.drawn, preserve_index=False)

    @cached_property
    def spoken(self) -> str:
        """The words of a screen reader after the title: `alt`, or the ends of the lines."""
        return self.alt or lines.ends(self.drawn)

    def subtitle(self, page: str) -> str:
        """Return the line under the title of a saved picture. page: the title of its page.

        What made the picture comes first, because a narrow picture cuts the end of the line.
        """
        if self.pinned is None or not self.sizes:
            return "; ".join(filter(None, (self.sizes, page)))
        return f"B: {self.sizes}; {self.pinned['A']}; {page}"

    def numbers(self) -> pd.DataFrame:
        """The rows in full, under the names that people read."""
        return frames.plotless(self.frame, self.columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class Matrices:
    """A row of matrices under one crosshair and one colour scale; see `components.matrix.Row`.

    scale: the colours, or how they follow from all panels that share them. unit: what a value is, in the
    plural. text: what a reader hears instead. cell: the pinned query and key. takes_cell: the options that
    a click on a cell sets. name: of its setting, beside another. beside: keys of the rows that one picture
    saves with this one, that of B first.
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
    beside: tuple[str, ...] = ()

    def row(self, title: str) -> MatrixRow:
        """Return the row as its component draws it. title: of the page, over a saved picture."""
        return MatrixRow(
            panels=self.panels,
            key=self.key,
            scale=self.scale if isinstance(self.scale, Scale) else self.scale(self.panels),
            text_alternative=self.text,
            title=title,
            heading=self.name,
            beside=self.beside,
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


def line_chart(*, y: str = "y", log: bool = False, **chart: Any) -> list[Chart | Text]:
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
