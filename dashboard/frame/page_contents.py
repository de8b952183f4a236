"""What a page has drawn in this run: text, pictures and numbers, as export reads them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.charts.theme import Spec
from dashboard.components.matrix import Row


@dataclass(frozen=True)
class Picture:
    """One chart: its specification and the frame in it."""

    spec: Spec
    frame: pd.DataFrame


@dataclass
class PageContents:
    """The page as far as it is drawn."""

    heading: DeltaGenerator | None = None  # where the title stands, beside the tools
    title: str = ""
    sentences: list[str] = field(default_factory=list)
    pinned: list[str] = field(default_factory=list)  # the same of A
    pictures: dict[str, Picture | Row] = field(default_factory=dict)
    tables: dict[str, Callable[[], pd.DataFrame]] = field(default_factory=dict)  # made when asked
    table_keys: dict[str, str] = field(default_factory=dict)  # where a table's name may change
    drawers: dict[str, Callable[[], object]] = field(default_factory=dict)  # drawn when opened
    script: str | None = None


def begin() -> None:
    """Start empty contents for this run."""
    st.session_state["page_contents"] = PageContents()


def current() -> PageContents:
    """Return the contents of this run."""
    contents: PageContents = st.session_state.setdefault("page_contents", PageContents())
    return contents
