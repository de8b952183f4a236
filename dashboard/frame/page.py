"""Title, guide, definition and script of a page in the frame around it, and the settings it shows."""

import functools
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard.ab import AB
from dashboard.controls import model_picker, pin
from dashboard.frame import drawers, page_contents
from dashboard.render import PRESENT as PRESENT
from dashboard.script import uploaded
from dashboard.settings import Setting
from dashboard.text import plain
from posenc import fields as config_fields


@dataclass(frozen=True, kw_only=True)
class PresentChoice:
    """Whether a page is presented; the toggle is drawn among the tools."""

    present: bool = config_fields.Flag(label="Present").field(False)


def setting() -> Setting:
    """Return the setting that the sidebar of this run means."""
    current: Setting = st.session_state["setting"]
    return current


def settings() -> AB[Setting]:
    """Return the setting of this run, B, beside the pinned one, A."""
    return pin.ab(setting())


def presenting() -> bool:
    """Whether this visitor presents: no sidebar, larger type."""
    return bool(st.session_state.get(PRESENT, st.query_params.get(PRESENT) == "true"))


def title(text: str) -> None:
    """Draw the page's title, once in a run, at its place beside the tools."""
    contents = page_contents.current()
    if contents.title != text:
        contents.title = text
        (contents.heading or st).title(text, anchor=False)


def show_assumption(settings: AB[Setting]) -> None:
    """Warn above a page on which assumption its model was read, if a visitor made one."""
    sentence, contents = settings.map(model_picker.assumption), page_contents.current()
    if sentence.current:
        st.warning(plain(sentence.current), icon=":material/warning:")
        contents.sentences.append(sentence.current)
    if sentence.pinned and sentence.pinned != sentence.current:
        st.warning(f"Pinned setting, A: {plain(sentence.pinned)}", icon=":material/warning:")
        contents.pinned.append(f"Pinned setting, A: {sentence.pinned}")


def how_to_read(text: str) -> None:
    """Put the guide to the pictures of this page into its drawer."""
    page_contents.current().drawers[drawers.HOW_TO_READ] = functools.partial(st.markdown, text)


def definition(formula: str, words: str, *functions: Callable[..., Any]) -> None:
    """Put the definition, and the source of the functions that compute it, into their drawers."""

    def define() -> None:
        st.latex(formula)
        st.markdown(words)

    def code() -> None:
        for function in functions:
            st.code(textwrap.dedent(inspect.getsource(function)), language="python")

    page_contents.current().drawers |= {drawers.DEFINITION: define, drawers.CODE: code}


def script(text: str) -> None:
    """Give the page its script: this as Python, in the toolbar."""
    assumption = model_picker.assumption(setting())
    lead = f"# {assumption}\n" if assumption else ""
    page_contents.current().script = lead + uploaded(setting()) + text
