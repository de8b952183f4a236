"""Blocks as HTML: one function for each kind of block, as `dashboard.render` has them for Streamlit.

Charts, matrices and clocks are data that gallery.js draws. Controls, buttons and what only a server draws
are left out: a file answers nobody.
"""

import base64
import html
import inspect
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from dashboard.blocks import (
    Block,
    Cards,
    Chart,
    Clocks,
    Code,
    Columns,
    Data,
    Drawer,
    Drawing,
    Findings,
    Formula,
    Lines,
    Link,
    Matrices,
    Metric,
    Page,
    Row,
    Table,
    Tabs,
    Text,
)  # fmt: skip
from dashboard.charts import theme
from dashboard.components.matrix.payload import encode
from dashboard.gallery.markdown import inline, paragraphs
from dashboard.mathml import mathml
from posenc.text import significant

MAX_ROWS = 50  # of a table of data in a page
_DIGITS = 6  # significant, of numbers in charts and tables


@dataclass(frozen=True)
class Writer:
    """Writes the blocks of one page.

    title: of the page. titles: in the menu, of all pages that are written, by their names. pictures:
    charts and data that were written, whose numbers follow under the page. opened: returns the page with
    these tabs open, labels by option; None where only the open tabs are written. open: those of its own.
    """

    title: str
    titles: Mapping[str, str]
    pictures: list[Chart | Data] = field(default_factory=list)
    opened: Callable[[Mapping[str, str]], Page] | None = None
    open: Mapping[str, str] = field(default_factory=dict)

    def page(self, page: Page) -> str:
        """Return a page without what stands around it in a file."""
        parts = [f"<h1>{html.escape(page.title)}</h1>", self.blocks(page.above)]
        headlines = filter(None, (page.beside, page.headline))  # of A, then of B
        parts += [f"<p><strong>{inline(text)}</strong></p>" for text in headlines]
        parts += [
            f'<p class="note">{inline(text)}</p>' for text in dict.fromkeys(page.reasons.values())
        ]
        parts.append(self.blocks(page.blocks))
        if page.guide:
            parts.append(details("How to read", paragraphs(page.guide)))
        if page.definition is not None:
            words = paragraphs(page.definition.words)
            code = "".join(
                _code(textwrap.dedent(inspect.getsource(function)))
                for function in page.definition.functions
            )
            formula = f'<div class="scroll">{mathml(page.definition.latex)}</div>'
            parts.append(details("Definition", formula + words + code))
        shown = {one.title: one for one in self.pictures}  # tabs may share a picture
        parts += [details(f"Data: {title}", _frame(one.numbers())) for title, one in shown.items()]
        if page.script is not None:
            parts.append(details("Python", _code(page.script())))
        return "\n".join(filter(None, parts))

    def blocks(self, blocks: Iterable[Block]) -> str:
        """Return blocks under each other."""
        return "\n".join(filter(None, map(self.block, blocks)))

    def block(self, block: Block) -> str:
        """Return a block, "" for one that a file does not have."""
        match block:
            case Text():
                return _text(block)
            case Formula():
                return f'<div class="scroll">{mathml(block.latex)}</div>'
            case Code():
                return _code(block.code)
            case Metric():
                value = f'<span class="number">{inline(block.value)}</span>'
                return f"<p>{inline(block.label)}<br>{value}</p>"
            case Chart():
                return self.chart(block)
            case Matrices():
                content = base64.b64encode(encode(block.row(self.title))).decode()
                return _data("matrix", content, block.text)
            case Clocks():
                return _data("clocks", block.sent, block.text)
            case Drawing():
                label, size = html.escape(block.alt), f"width:{block.width}px"
                image = base64.b64encode(block.svg.encode()).decode()
                return f'<img alt="{label}" style="{size}" src="data:image/svg+xml;base64,{image}">'
            case Table():
                return _frame(
                    block.frame.set_index(str(block.frame.columns[0])).T.reset_index(names="")
                )
            case Findings():
                return _frame(block.frame.dropna(axis="columns", how="all"))
            case Data():
                self.pictures.append(block)
                return ""
            # A file is presented like any other.
            case Link() if block.page in self.titles and "presenting" not in block.changes:
                label = block.label or self.titles[block.page]
                return f'<a href="{block.page}.html">{inline(label)}</a>'
            case Columns():
                return _parts(map(self.blocks, block.parts))
            case Row():
                return f'<div class="line">{self.blocks(block.blocks)}</div>'
            case Cards():
                name = "card" if block.border else ""
                return _parts(map(self.blocks, block.drawn.values()), name)
            case Tabs():
                return "\n".join(map(self.tab, self.every_tab(block)))
            case Drawer() if block.shown:
                return details(block.title, self.blocks(block.make()), opened=block.opened)
            case Lines():
                return self.blocks(block.drawers)
        return ""

    def tab(self, tabs: Tabs) -> str:
        """Return the open tab under its label."""
        inside = replace(self, open={**self.open, tabs.option: tabs.opened})
        return f"<h2>{html.escape(tabs.opened)}</h2>{inside.blocks(tabs.blocks)}"

    def every_tab(self, tabs: Tabs) -> list[Tabs]:
        """Return tabs with each of them open in turn."""
        if self.opened is None:
            return [tabs]
        pages = [self.opened({**self.open, tabs.option: label}) for label in tabs.labels]
        return [
            block
            for page in pages
            for block in page.all_blocks
            if isinstance(block, Tabs) and block.option == tabs.option
        ]

    def chart(self, chart: Chart) -> str:
        """Return the specification of a chart with its rows, for gallery.js."""
        self.pictures.append(chart)
        spec = theme.titled(chart.spec, chart.title, [chart.subtitle(self.title)], projected=False)
        rows = [
            {name: _short(value) for name, value in row.items() if not pd.isna(value)}
            for row in chart.drawn.astype(object).to_dict("records")
        ]
        label = f"{chart.title}. {chart.alt}" if chart.alt else chart.title
        width = {} if "width" in spec or "facet" in spec else {"width": "container"}
        return _data("chart", {**width, **spec, "data": {"values": rows}}, label)


def _short(value: Any) -> Any:
    """Return a number with six significant digits, as a chart needs them; anything else as it is."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def _data(kind: str, content: Any, label: str) -> str:
    """Return an element with data that a script reads; no text of them ends the element."""
    text = json.dumps(content, allow_nan=False, default=_plain).replace("<", "\\u003c")
    label = html.escape(label)
    return (
        f'<div class="{kind}" role="group" aria-label="{label}">'
        f'<script type="application/json">{text}</script></div>'
    )


def _plain(value: Any) -> Any:
    return value.item()  # of NumPy


def _text(text: Text) -> str:
    match text.look:
        case "heading":
            return f"<h2>{inline(text.text)}</h2>"
        case "info" | "warning":
            return f'<div class="note">{paragraphs(text.text)}</div>'
        case "caption":
            return f'<div class="caption">{paragraphs(text.text)}</div>'
    return paragraphs(text.text)


def _frame(frame: pd.DataFrame) -> str:
    """Return the first rows of a frame as a table."""
    head = "".join(f"<th>{inline(str(name))}</th>" for name in frame.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>"
        for row in frame.head(MAX_ROWS).itertuples(index=False)
    )
    more = f"<p>{len(frame) - MAX_ROWS:,} more rows.</p>" if len(frame) > MAX_ROWS else ""
    return f'<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>{more}'


def _cell(value: Any) -> str:
    if pd.isna(value):
        return ""
    is_number = pd.api.types.is_number(value) and not isinstance(value, bool)
    return significant(float(value), _DIGITS) if is_number else inline(str(value))


def _code(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def _parts(parts: Iterable[str], name: str = "") -> str:
    inside = "".join(f'<div class="{name}">{part}</div>' for part in parts)
    return f'<div class="parts">{inside}</div>'


def details(title: str, inside: str, *, opened: bool = False) -> str:
    """Return what opens under its title."""
    return (
        f"<details{' open' if opened else ''}><summary>{inline(title)}</summary>{inside}</details>"
    )
