"""The row of drawers under a page: how to read it, definition, data, code and the glossary."""

import inspect
import textwrap
from collections.abc import Sequence

import streamlit as st

from dashboard.blocks import Block, Chart, Data, Page, tables_of
from dashboard.charts import csv_file
from dashboard.export import file_name
from dashboard.glossary import TERMS
from dashboard.server import incidents

HOW_TO_READ, DEFINITION, DATA, CODE, GLOSSARY = (
    "How to read", "Definition", "Data", "Code", "Glossary",
)  # fmt: skip
ICONS = {
    HOW_TO_READ: "visibility", DEFINITION: "function", DATA: "table", CODE: "code",
    GLOSSARY: "menu_book",
}  # fmt: skip
KEY = "drawers"


@st.fragment
@incidents.show_errors()  # a fragment by itself has none around it
def draw(page: Page, blocks: Sequence[Block]) -> None:
    """Draw the row and what is open of it; to open a drawer does not run the page again.

    blocks: what was drawn, that of open drawers too.
    """
    tables = tables_of(blocks)
    definition = page.definition
    has = {
        HOW_TO_READ: bool(page.guide), DEFINITION: definition is not None, DATA: bool(tables),
        CODE: definition is not None and bool(definition.functions), GLOSSARY: True,
    }  # fmt: skip
    names = [name for name in ICONS if has[name]]
    open_before = st.session_state.get(KEY, [])
    if not {*open_before} <= {*names}:  # another page has other drawers
        st.session_state[KEY] = [name for name in open_before if name in names]
    opened = st.pills(
        "About this page", names, selection_mode="multi", key=KEY, label_visibility="collapsed",
        format_func=lambda name: f":material/{ICONS[name]}: {name}",
    )  # fmt: skip
    for name in names:
        if name in opened:
            with st.container(border=True):
                _draw(name, page, tables)


def _draw(name: str, page: Page, tables: Sequence[Chart | Data]) -> None:
    definition = page.definition
    if name == HOW_TO_READ:
        st.markdown(page.guide)
    elif name == GLOSSARY:
        st.markdown("\n".join(f"- **{term}**: {meaning}" for term, meaning in TERMS.items()))
    elif name == DATA:
        for table in tables:
            _numbers(table, alone=len(tables) == 1)
    elif definition is not None and name == DEFINITION:
        st.latex(definition.latex)
        st.markdown(definition.words)
    elif definition is not None:
        for function in definition.functions:
            st.code(textwrap.dedent(inspect.getsource(function)), language="python")


def _numbers(table: Chart | Data, *, alone: bool) -> None:
    """Draw the numbers behind a picture and their CSV once somebody opens them.

    The key is that of the picture: its title may change with an option.
    """
    key = file_name(table.key if isinstance(table, Chart) else table.title)
    drawer = st.expander(
        table.title, alone, key=f"numbers_{key}", on_change="rerun", type="compact"
    )
    if not drawer.open:
        return
    with drawer:
        frame = table.numbers()
        st.dataframe(frame, hide_index=True, height=260)
        st.download_button(
            "Download CSV", csv_file.written(frame), file_name=f"posenc-{file_name(table.title)}.csv",
            mime="text/csv", key=f"csv_{key}", on_click="ignore", icon=":material/download:",
        )  # fmt: skip
