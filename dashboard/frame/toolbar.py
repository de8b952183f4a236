"""The tools at the right of the title: A/B, copy link, Python, export, present."""

import functools
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode, urlparse

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from dashboard.components import browser
from dashboard.controls import link as links
from dashboard.controls import page_controls, pin, sidebar
from dashboard.frame import export, page_contents
from dashboard.frame.page import PRESENT, presenting
from dashboard.frame.page_contents import PageContents
from dashboard.settings import Setting


def follow_link() -> None:
    """Present where a link within the app asks for it; the toggle, once drawn, ignores links.

    After a run that presented, the visitor has switched the toggle off and the address is not updated yet.
    """
    in_address = st.query_params.get(PRESENT) == "true"
    off = st.session_state.get(PRESENT) is False
    if in_address and off and not st.session_state.get("presented"):
        st.session_state[PRESENT] = True
    run = get_script_run_ctx()
    back = run is not None and run.is_history_navigation  # the toggle still has its old value
    st.session_state["presented"] = in_address if back else presenting()


class Toolbar:
    """The places of the title and the tools; drawn above the page, filled before and after it."""

    def __init__(self) -> None:
        row = st.container(
            horizontal=True,
            horizontal_alignment="distribute",
            vertical_alignment="center",
            gap="small",
        )
        page_contents.current().heading = row.container(width="content")
        tools = row.container(horizontal=True, vertical_alignment="center", width="content")
        self.controls = None
        if presenting() and page_controls.any_here():
            self.controls = _menu(tools, "Controls", "tune")
        compare = "A/B: pinned" if pin.token() else "A/B"
        self.compare = _menu(tools, compare, "compare", "menu_compare")
        self.link = tools.container(width="content")
        self.python = _menu(tools, "Python", "code")
        self.export = _menu(tools, "Export", "download")
        tools.toggle(
            "Present",
            key=PRESENT,
            bind="query-params",
            help="Present in class: larger type, and the controls in a menu instead of a sidebar. The menu "
            "\u22ee at the top right has light and dark.",
        )
        if presenting():
            browser.larger_type()

    def shared(self) -> Setting:
        """Draw the shared controls, in the sidebar or while presenting in a menu; return the setting."""
        if self.controls is None:
            return sidebar.shared(st.sidebar, drawn=not presenting())
        return sidebar.shared(self.controls, drawn=bool(self.controls.open))

    def before(self, setting: Setting) -> None:
        """Fill the tool on which the page depends: A/B."""
        if self.compare.open:
            with self.compare:
                pin.control(setting)

    def after(self, setting: Setting) -> None:
        """Fill the tools that depend on the page: its link, script and export."""
        contents, address = page_contents.current(), link(setting)
        with self.link:
            browser.copy_link(address)
        if self.python.open:
            with self.python:
                _python(contents)
        if self.export.open:
            with self.export:
                _export(contents, setting, address)


def _menu(tools: Any, name: str, icon: str, key: str = "") -> Any:
    """Draw a menu, which is filled while it is open."""
    return tools.popover(
        name,
        type="tertiary",
        icon=f":material/{icon}:",
        key=key or f"menu_{name.lower()}",
        on_change="rerun",
    )


def _python(contents: PageContents) -> None:
    if contents.script is None:
        st.caption("Nothing to reproduce on this page.")
        return
    st.caption("Reproduce these numbers in Python. Needs the package posenc; prints CSV.")
    st.code(contents.script, language="python", wrap_lines=True)


def _export(contents: PageContents, setting: Setting, address: str) -> None:
    if not (contents.pictures or contents.tables):
        st.caption("Nothing to export on this page.")
        return
    st.caption(
        "One zip: the figures, the tables as CSV, the settings, the script and the link. "
        "Drawing the figures takes up to 3 seconds."
    )
    st.download_button(
        "Download this page",
        # Drawn at the press of the button, from what is shown then.
        functools.partial(export.archive, contents, pin.ab(setting), address),
        file_name=f"posenc-{export.file_name(contents.title.split(',')[0] or 'page')}.zip",
        mime="application/zip",
        key="export",
        on_click="ignore",
        icon=":material/folder_zip:",
    )


def address(url: str, path: str, endings: Iterable[str]) -> str:
    """Return the address of a page, without the repetition that Streamlit's has for some pages.

    Streamlit removes the path of any page from the end of the address before it adds this page's. Of
    check_my_encoding it removes "encoding" and leaves "check_my_". endings: the paths of all pages.
    """
    for ending in endings:
        if ending and ending != path and path.endswith(ending):
            url = re.sub(rf"/{path.removesuffix(ending)}/{path}$", f"/{path}", url)
    return url


def link(setting: Setting) -> str:
    """Return the address of what is shown, with every control written out."""
    query = links.to_query(setting)
    if token := pin.token():
        query[pin.KEY] = [token]
    if presenting():
        query[PRESENT] = ["true"]
    paths = [page.url_path for page in st.session_state["pages"].values()]
    url = address(st.context.url or "", st.session_state["page"], paths)
    if url and urlparse(url).path == "":
        url += "/"
    return f"{url}?{urlencode(query, doseq=True, safe=',~')}"
