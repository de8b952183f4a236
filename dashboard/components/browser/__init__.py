"""Components that act in the browser: history, readers, focus and touch, clipboard and larger type."""

import json
from pathlib import Path

import streamlit as st

from dashboard.menu import PATHS


def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


_history = st.components.v2.component(
    "posenc_history",
    css=_read("keyboard.css"),
    js=f"const PATHS = {json.dumps([*PATHS.values()])};\n{_read('reader.js')}{_read('history.js')}",
    isolate_styles=False,
)
_copy_link = st.components.v2.component(
    "posenc_copy_link",
    html='<button type="button" title="Reopens exactly this view."></button>',
    css=_read("copy_link.css"),
    js=_read("copy_link.js"),
)
_larger_type = st.components.v2.component(
    "posenc_larger_type", css=_read("larger_type.css"), isolate_styles=False
)

_uploading = st.components.v2.component(
    "posenc_uploading", css=_read("uploading.css"), isolate_styles=False
)


def keep_one_step_per_page(query: str | None, page: str) -> None:
    """Let a change of the address replace a page's step in the browser's history.

    Streamlit adds a step for every change of the address that the server asks for. Back would then undo
    a dragged slider stop by stop, or lead to an address that was never drawn. query: of a page that was
    just chosen, which is written into the address once its path is there. The same script darkens the
    tags of lists, hides an empty sidebar, keeps light or dark for all pages, and turns the steps of Learn
    by Page Up and Page Down.
    """
    _history(key="history", data=None if query is None else {"query": query, "page": page})


def copy_link() -> None:
    """Draw the button that copies the link of what is shown with one click."""
    _copy_link(key="copy_link", width="content", height="content")


def larger_type() -> None:
    """Enlarge all type, for a projector."""
    _larger_type(key="larger_type")


def pale_while_uploading() -> None:
    """Draw what is shown of the file before pale while the next one travels, on a page with an uploader."""
    _uploading(key="uploading")
