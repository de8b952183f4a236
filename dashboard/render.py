"""Blocks in Streamlit: one function for each kind of block, and the only place that draws a page."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import controls, pickers, session, state
from dashboard.all_pages import kind_of
from dashboard.blocks import (
    Block,
    Button,
    Cards,
    Changes,
    Chart,
    Clocks,
    Code,
    Columns,
    Controls,
    Data,
    Download,
    Drawer,
    Drawing,
    Findings,
    Formula,
    Lines,
    Link,
    Live,
    Matrices,
    Metric,
    Page,
    Row,
    Table,
    Tabs,
    Text,
)  # fmt: skip
from dashboard.charts import theme
from dashboard.charts.frames import filled
from dashboard.components.clock.component import clock_row
from dashboard.components.matrix.component import matrix_row
from dashboard.live import checking, model_files, other_config, training
from dashboard.server import incidents
from dashboard.settings import record
from dashboard.settings.stops import STOPS
from dashboard.text import number, plain

DIAL = 135  # CSS pixels of a slider beside others
PICTURES = (Chart, Matrices, Clocks, Table)
MENU = 340  # of a closed menu of models in a page, whose name must not be cut
END = 8  # pixels at the right of a chart, where its own menu would cut the last letter of a line's name
WHOLE_ROWS = 25  # rows of a table up to which it is drawn whole, without scrolling inside it
LONG_NAME = (
    18  # letters of a name that needs a wide column, of LETTER pixels each and MARGINS for all
)
LETTER, MARGINS = 5.5, 18
SMALLEST_IN_FULL, THOUSAND = 1e-4, 1e3  # of numbers that a table writes with three digits
# What a `Live` block draws: functions of a place, of what changes options of the page, and of its values.
LIVE: dict[str, Callable[..., None]] = {
    "training_text": training.text,
    "start_training": training.start,
    "jobs": training.board,
    "upload_table": checking.upload_table,
    "upload_vectors": checking.upload_vectors,
    "upload_logits": checking.upload_logits,
    "other_config": other_config.paste,
    "upload_captured": model_files.upload_captured,
    "upload_weights": model_files.upload_weights,
}


@dataclass(frozen=True)
class Renderer:
    """Draws the blocks of one page for one visitor.

    title: of the page. pages: all pages by folder, for links. presenting: whether type is larger. apart:
    fields whose controls stand elsewhere. in_line: those whose controls stand under the first picture.
    drawn: what was drawn so far, that of open drawers too.
    """

    title: str
    pages: Mapping[str, Any]
    presenting: bool
    apart: Sequence[str] = ()
    in_line: Sequence[str] = ()
    drawn: list[Block] = field(default_factory=list)

    def page(self, page: Page) -> None:
        """Draw the headline of a page and its blocks."""
        self.blocks(page.above, st)
        if page.beside:
            st.caption(page.beside)
        if page.headline:
            st.markdown(f"**{page.headline}**")
        for reason in dict.fromkeys(page.reasons.values()):
            st.info(plain(reason), icon=":material/info:")
        self.blocks(staged(page.blocks) if self.presenting else page.blocks, st)

    def blocks(self, blocks: Sequence[Block], place: Any) -> None:
        """Draw blocks under each other; a fault in one leaves the others, and is said in its place."""
        for block in blocks:
            with incidents.show_errors(place=place):
                self.block(block, place)
            pictures = [one for one in self.drawn if isinstance(one, PICTURES)]
            if self.in_line and pictures == [block]:
                self._controls(Controls(self.in_line), place)

    def block(self, block: Block, place: Any) -> None:
        """Draw a block."""
        self.drawn.append(block)
        match block:
            case Text():
                _text(block, place)
            case Chart():
                self._chart(block, place)
            case Matrices():
                watch = block.takes_cell and functools.partial(
                    take_cell, block.key, block.takes_cell
                )
                with place.container(gap=None):
                    matrix_row(block.row(self.title), watch or None)
            case Clocks():
                with place.container(gap=None):
                    clock_row(block.key, block.sent)
            case Formula():
                place.latex(block.latex)
            case Code():
                place.code(block.code, language=block.language, wrap_lines=True)
            case Metric():
                place.metric(block.label, block.value, width="content")
            case Drawing():
                place.image(block.svg, width=block.width, alt=block.alt)
            case Button():
                place.button(
                    block.label, key=block.key, on_click=session.change, args=(block.changes,),
                    disabled=block.disabled, shortcut=block.shortcut or None,
                    icon=_icon(block.icon), help=block.help or None,
                )  # fmt: skip
            case Download():
                place.download_button(
                    block.label, block.make, file_name=block.file_name, key=block.key,
                    on_click="ignore", icon=":material/download:", help=block.help or None,
                )  # fmt: skip
            case Tabs():
                session.show(block.option, block.opened)
                tabs = place.tabs(
                    block.labels, default=block.opened, key=block.option, on_change=session.take,
                    args=(block.option, block.option),
                )  # fmt: skip
                self.blocks(block.blocks, tabs[list(block.labels).index(block.opened)])
            case Drawer() if block.shown:
                self._drawer(block, place)
            case Lines():
                lines = place.container(gap="xsmall")
                for drawer in block.drawers:
                    self._drawer(drawer, lines, type="compact")
            case Link():
                place.page_link(
                    self.pages[block.page], label=block.label, query_params=self._query(block)
                )
            case Live():
                LIVE[block.name](place, session.change, **block.values)
            case Row():
                row = place.container(
                    horizontal=True, vertical_alignment=block.align, border=block.border,
                    key=block.key or None,
                    width="content" if block.narrow else "stretch",
                    horizontal_alignment="distribute" if block.spread else "left",
                )  # fmt: skip
                self.blocks(block.blocks, row)
            case Cards():
                stage = self.presenting and block.presented
                grid = place.grid(
                    block.presented if stage else block.across,
                    gap="xsmall" if block.border else "small", key=block.key,
                    min_column_width=theme.STAGE_CELL if stage else block.least or "auto",
                )  # fmt: skip
                look: Any = {"border": True, "height": "stretch"} if block.border else {}
                for cell in block.drawn.values():
                    self.blocks(cell, grid.container(gap=None, **look))
            case Table():
                place.table(block.frame.set_index(str(block.frame.columns[0])).T)
            case Findings():
                findings(block.frame, place, block.help)
            case Data():
                pass  # of the drawer and the export
            case Controls():
                self._controls(block, place)
            case Columns(stage=True) if self.presenting:
                for part in block.parts:
                    self.blocks(part, place)
            case Columns():
                columns = place.columns(list(block.widths) or len(block.parts), gap="medium")
                for column, part in zip(columns, block.parts, strict=True):
                    self.blocks(part, column)

    def _chart(self, chart: Chart, place: Any) -> None:
        spec = theme.for_projector(chart.spec, chart.stage) if self.presenting else chart.spec
        # What differs from stop to stop is in the rows, or beside the chart: for another specification or
        # `alt` Streamlit makes a new chart, while rows are poured into the one that is there.
        spec = theme.titled(spec, chart.title, theme.OF_FIRST_ROW, projected=self.presenting)
        # A line under the title that is wider than the plot would make the picture smaller.
        if spec.get("autosize") == "pad":
            spec["title"]["limit"] = spec["width"]
        spec |= {"data": {"name": "source"} | spec.get("data", {})}
        rows = chart.sent
        subtitles = [chart.subtitle(self.title), *[""] * len(rows)][: len(rows)]
        width = "content" if "width" in chart.spec else "stretch"
        if width == "stretch":
            spec |= {"padding": {"right": END}}
        # By this key a preview finds the chart (components/preview/charts.js).
        box = place.container(gap=None, key=f"chart_{chart.key}")
        box.vega_lite_chart(
            rows.append_column("subtitle", [subtitles]), spec, key=chart.key, width=width,
            alt=chart.title,
        )  # fmt: skip
        if chart.spoken:
            box.text(chart.spoken)

    def _drawer(self, drawer: Drawer, place: Any, **look: Any) -> None:
        toggle: Any = "rerun"
        if drawer.changes is not None:
            session.show(drawer.key, drawer.opened)
            toggle = functools.partial(take_toggle, drawer.key, *drawer.changes)
        draw = place.popover if drawer.menu else place.expander
        opened = draw(
            drawer.title, key=drawer.key, on_change=toggle, icon=_icon(drawer.icon), **look
        )
        if opened.open:
            self.blocks(drawer.make(), opened)

    def _controls(self, block: Controls, place: Any) -> None:
        """Draw controls beside each other; one alone takes the place that it has."""
        row, names = place, [name for name in block.names if name not in self.apart]
        if len(names) > 1:
            row = place.container(horizontal=True, vertical_alignment="bottom")
        values = record(session.current().setting) | session.options()
        for name in names:
            if name in controls.PICKED:
                setting = session.current().setting
                none = block.empty.get(name, "none")
                pickers.draw(name, setting, row, none, MENU, has_panels=False)
                continue
            dial = name in STOPS and row is not place
            controls.control(
                row.container(width=DIAL) if dial else row,
                name,
                values[name],
                offered=block.narrowed.get(name),
                empty=block.empty.get(name, ""),
            )

    def _query(self, link: Link) -> dict[str, list[str]] | None:
        """Return the parameters of a link; one that changes nothing leads to what is chosen anyway."""
        if not link.changes:
            return None
        kind = kind_of(link.page)
        changed = session.current().changed(link.page, kind, link.changes)
        return state.to_query(changed, link.page, kind) or {state.VERSIONED: [state.VERSION]}


def staged(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks of a page in the order in which they are presented."""
    return sorted(blocks, key=lambda block: not (isinstance(block, Columns) and block.stage))


def findings(
    frame: pd.DataFrame, place: Any, help: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Draw a small table of findings; names without a number are none. help: by heading."""
    frame = filled(frame)
    if frame.shape[1] < 2:
        return
    # The browser's format would write 2e-08 and 1.2e+4.
    words = {
        str(name): values.map(number, na_action="ignore")
        for name, values in frame.items()
        if values.dtype.kind == "f" and _needs_words(values)
    }
    frame = frame.assign(**words)
    columns: dict[str, Any] = {
        str(name): st.column_config.NumberColumn(
            format=_format(frame[name]), help=help.get(str(name)) or None
        )
        for name, kind in frame.dtypes.items()
        if kind.kind in "fi"
    }
    texts = [name for name in help if help[name] and name in frame and name not in columns]
    columns |= {name: st.column_config.Column(help=help[name]) for name in texts}
    columns |= {
        name: st.column_config.TextColumn(alignment="right", help=help.get(name) or None)
        for name in words
    }
    names = frame.iloc[:, 0]
    if names.dtype.kind not in "fi" and (longest := names.str.len().max()) > LONG_NAME:
        width = math.ceil(LETTER * longest) + MARGINS  # else they are cut
        columns[str(names.name)] = st.column_config.Column(width=width)
    place.dataframe(
        frame, hide_index=True, column_config=columns, placeholder="–",
        height="content" if len(frame) <= WHOLE_ROWS else "auto",
    )  # fmt: skip


def _needs_words(numbers: "pd.Series[float]") -> bool:
    """Whether some numbers of a column are written with a power of ten, or with thousands."""
    sizes = numbers[numbers != 0].abs()
    return bool(((sizes < SMALLEST_IN_FULL) | (sizes >= THOUSAND)).any())


def _format(numbers: "pd.Series[Any]") -> str:
    """Return how the browser writes a column: with three digits, and equal decimals where that is possible.

    The browser's `%.3g` leaves zeros out at the end, so that 3.30 stands as 3.3 under 3.58.
    """
    if numbers.dtype.kind != "f":
        return "%,d"
    sizes = numbers[numbers != 0].abs().dropna()
    if (sizes % 1 == 0).all():
        return "%.3g"
    places = max(0, 2 - math.floor(math.log10(sizes.max())))
    has_three_digits = sizes.min() >= 10.0 ** (2 - places)
    return f"%.{places}f" if has_three_digits else "%.3g"


def _icon(name: str) -> str | None:
    return f":material/{name}:" if name else None


def _text(text: Text, place: Any) -> None:
    help = text.help or None
    match text.look:
        case "heading":
            place.header(text.text, anchor=False, help=help)
        case "caption":
            place.caption(text.text, help=help)
        case "info":
            place.info(text.text, icon=f":material/{text.icon or 'info'}:")
        case "warning":
            place.warning(text.text, icon=f":material/{text.icon or 'warning'}:")
        case "error":
            place.error(text.text, icon=f":material/{text.icon or 'block'}:")
        case _:
            place.markdown(text.text, help=help)


@session.callback
def take_toggle(key: str, opening: Changes, closing: Changes) -> None:
    """Change what opening, or closing, a drawer changes, as the callback of that drawer."""
    session.change(opening if st.session_state[key] else closing)


@session.callback
def take_cell(key: str, names: tuple[str, str]) -> None:
    """Take the cell that a visitor pinned in a row of matrices as two options of the page."""
    cell = st.session_state[key].cell
    if cell:
        session.change(dict(zip(names, cell, strict=True)))
