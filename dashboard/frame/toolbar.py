"""The row above every page: pin a setting, copy the link, take the page away, present it."""

import functools
import re
from typing import Any
from urllib.parse import urlencode, urlparse

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.controls import link as links
from dashboard.controls import page_controls, pin, sidebar
from dashboard.frame import export, page_contents
from dashboard.frame.page_contents import Sheet
from posenc.settings import Setting
from posenc.text import count_of

PRESENT = "present"

# The one thing that Streamlit's own theme cannot do for one visitor: larger type for a projector.
# Everything is sized in rem, so the root decides.
_larger = st.components.v2.component(
    "posenc_larger_type", css=":root { font-size: 130% !important; }", isolate_styles=False
)


def presenting() -> bool:
    """Whether this visitor presents: no sidebar, larger type."""
    asked = st.query_params.get(PRESENT) == "true"
    return bool(st.session_state.get(PRESENT, asked))


def follow_link() -> None:
    """Present where a link within the app asks for it: the toggle, once drawn, does not follow one.

    Where this session presented just before, its visitor has switched it off and the address is late.
    """
    asked = st.query_params.get(PRESENT) == "true"
    if asked and st.session_state.get(PRESENT) is False and not st.session_state.get("presented"):
        st.session_state[PRESENT] = True
    st.session_state["presented"] = presenting()


class Toolbar:
    """The row's places; drawn above the page, filled before and after it."""

    def __init__(self) -> None:
        row = st.container(
            horizontal=True, horizontal_alignment="right", vertical_alignment="center", gap="small"
        )
        self.controls = _menu(row, "Controls", "tune") if presenting() else None
        self.compare = _menu(row, "Compare A/B", "compare")
        self.share = _menu(row, "Copy link", "link")
        self.python = _menu(row, "Python", "code")
        self.export = _menu(row, "Export", "download")
        row.toggle(
            "Present",
            key=PRESENT,
            bind="query-params",
            help="For a projector: larger type, and the controls in a menu instead of a sidebar.",
        )
        if presenting():
            _larger(key="larger_type")

    def shared(self) -> Setting:
        """Draw the shared controls, in the sidebar or while presenting in a menu; what they mean."""
        if self.controls is None:
            return sidebar.shared(st.sidebar)
        return sidebar.shared(self.controls, drawn=bool(self.controls.open))

    def before(self, setting: Setting) -> None:
        """Fill what the page depends on."""
        if self.compare.open:
            with self.compare:
                pin.control(setting)

    def after(self, setting: Setting) -> None:
        """Fill what depends on the page."""
        shown = page_contents.current()
        if self.python.open:
            with self.python:
                _python(shown)
        if self.export.open:
            with self.export:
                _export(shown, setting, link(setting))
        if self.share.open:
            with self.share:
                st.caption("Every control is in it, defaults too, so it shows the same later.")
                st.code(link(setting), language=None, wrap_lines=True)


def _menu(row: DeltaGenerator, name: str, icon: str) -> Any:
    """Draw a menu; what it holds is made once somebody opens it."""
    key = f"menu_{name.split()[0].lower()}"
    return row.popover(name, icon=f":material/{icon}:", type="tertiary", key=key, on_change="rerun")


def _python(shown: Sheet) -> None:
    if shown.script is None:
        st.caption("This page has no numbers of its own right now.")
        return
    st.caption(
        "This as Python: prints the page's main numbers as CSV. It needs the package posenc."
    )
    st.code(shown.script, language="python")


def _export(shown: Sheet, setting: Setting, address: str) -> None:
    if not (shown.pictures or shown.tables):
        st.caption("This page has nothing to take away right now.")
        return
    st.caption(
        f"One zip: {count_of(len(shown.pictures), 'figure')} as PNG and SVG, "
        f"{count_of(len(shown.tables), 'table')} as CSV, the settings, the script and the "
        "link. It takes some seconds to draw."
    )
    st.download_button(
        "Download this page",
        # Drawn once somebody asks, from what is shown now.
        functools.partial(export.archive, shown, pin.pair(setting), address),
        file_name=f"posenc-{export.file_name(shown.title.split(',')[0] or 'page')}.zip",
        mime="application/zip",
        key="take_away",
        on_click="ignore",
        icon=":material/folder_zip:",
    )


def address(url: str, path: str) -> str:
    """Return the address of a page from what Streamlit says it is.

    Streamlit takes any page's path off its end before it adds this page's: of check_my_encoding the page
    called encoding, so that its own beginning stands there twice.
    """
    for other in page_controls.PAGES:
        if other and other != path and path.endswith(other):
            url = re.sub(rf"/{path.removesuffix(other)}/{path}$", f"/{path}", url)
    return url


def link(setting: Setting) -> str:
    """Return the address of what is shown, with every control written out."""
    said = links.written(setting)
    if pin.word():
        said[pin.KEY] = [pin.word()]
    if presenting():
        said[PRESENT] = ["true"]
    url = address(st.context.url or "", st.session_state.get("page", ""))
    if url and urlparse(url).path == "":
        url += "/"
    return f"{url}?{urlencode(said, doseq=True, safe=',~')}"
