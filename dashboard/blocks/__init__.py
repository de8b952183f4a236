"""Blocks of a page, as values: a page is a function of a Setting and of its options to a `Page`.

Nothing here draws and nothing imports Streamlit. `render` draws blocks in Streamlit; `compare` joins the
blocks of two settings.
"""

from dashboard.blocks.inputs import Button, Changes, Controls, Download, Link, Live, Narrowed
from dashboard.blocks.page import (
    SHOWN,
    Block,
    Cards,
    Columns,
    Definition,
    Drawer,
    Lines,
    Page,
    Row,
    Tabs,
    Uses,
    inside,
    pictures_of,
    tables_of,
    walk,
)
from dashboard.blocks.pictures import Chart, Clocks, Matrices, Names, has_values, line_chart
from dashboard.blocks.texts import Code, Data, Drawing, Findings, Formula, Look, Metric, Table, Text

__all__ = [
    "SHOWN",
    "Block",
    "Button",
    "Cards",
    "Changes",
    "Chart",
    "Clocks",
    "Code",
    "Columns",
    "Controls",
    "Data",
    "Definition",
    "Download",
    "Drawer",
    "Drawing",
    "Findings",
    "Formula",
    "Lines",
    "Link",
    "Live",
    "Look",
    "Matrices",
    "Metric",
    "Names",
    "Narrowed",
    "Page",
    "Row",
    "Table",
    "Tabs",
    "Text",
    "Uses",
    "has_values",
    "inside",
    "line_chart",
    "pictures_of",
    "tables_of",
    "walk",
]
