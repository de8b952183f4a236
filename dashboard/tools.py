"""The row of the title: A/B, copy link, Python, export, present; a menu is made when it is opened."""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlparse

import streamlit as st

from dashboard import all_pages, export, session, state
from dashboard.blocks import Block, Page, pictures_of, tables_of
from dashboard.components import browser
from dashboard.gallery import write
from dashboard.menu import PATHS
from dashboard.state import State
from dashboard.text import listed, plain

PRESENTING = "presenting"  # key of the toggle


def draw(page: Page, now: State, blocks: Sequence[Block], folder: str, *, controls: bool) -> Any:
    """Draw the title and the tools; return the menu of controls where a class is presented to.

    blocks: what is drawn of the page, known once the run has ended. folder: of the page. controls: whether
    the page has some.
    """
    row = st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", gap="small"
    )
    row.container(width="content").title(page.title, anchor=False)
    tools = row.container(horizontal=True, vertical_alignment="center", width="content")
    menu = _menu(tools, "Controls", "tune") if now.presenting and controls else None
    pinned = _menu(tools, "A/B: pinned" if now.pinned else "A/B", "compare", "menu_compare")
    if pinned.open:
        with pinned:
            _compare(now)
    with tools.container(width="content"):
        browser.copy_link()
    python = _menu(tools, "Python", "code")
    if python.open:
        with python:
            _python(page.script)
    exported = _menu(tools, "Export", "download")
    if exported.open:
        with exported:
            _export(page, now, blocks, folder)
    session.show(PRESENTING, now.presenting)
    tools.toggle(
        "Present", now.presenting, key=PRESENTING, on_change=session.present, args=(PRESENTING,),
        help="Present in class: larger type. Base and dimension stand at the bottom edge, all other "
        "controls in a menu instead of a sidebar. The menu \u22ee at the top right has light and dark.",
    )  # fmt: skip
    if now.presenting:
        browser.larger_type()
    return menu


def _menu(tools: Any, name: str, icon: str, key: str = "") -> Any:
    return tools.popover(
        name, type="tertiary", icon=f":material/{icon}:", key=key or f"menu_{name.lower()}",
        on_change="rerun",
    )  # fmt: skip


def _compare(now: State) -> None:
    """Draw what pins the setting at hand and lets go of it."""
    row = st.container(horizontal=True)
    row.button("Pin this setting as A", key="pin", on_click=session.pin, icon=":material/keep:")
    row.button(
        "Unpin", key="unpin", on_click=session.change, args=({"pinned": None},),
        disabled=now.pinned is None, icon=":material/keep_off:",
    )  # fmt: skip
    if now.a is None:
        st.caption("Nothing is pinned.")
        return
    parts = [f"{label} {of_a}" for label, _, of_a in state.differences(now.setting, now.a)]
    equal = "A and B are equal. Change a control to compare."
    st.caption(plain(f"A has {listed(parts)}." if parts else equal))


def _python(script: Callable[[], str] | None) -> None:
    if script is None:
        st.caption("Nothing to reproduce on this page.")
        return
    st.caption("Reproduce these numbers in Python. Needs the package posenc; prints CSV.")
    st.code(script(), language="python", wrap_lines=True)


def _export(page: Page, now: State, blocks: Sequence[Block], folder: str) -> None:
    if not (pictures_of(page.all_blocks) or tables_of(page.all_blocks)):
        st.caption("Nothing to export on this page.")
        return
    st.caption(
        "This page as one zip: the figures, the tables as CSV, the settings, the script and the link. "
        "Drawing the figures takes up to 3 seconds."
    )
    st.download_button(
        "Download this page",
        # Drawn at the press of the button, from what is shown then.
        functools.partial(export.archive, page, blocks, now.setting, now.a, link_of(now, folder)),
        file_name=f"posenc-{export.file_name(page.title.split(',')[0])}.zip",
        mime="application/zip", key="export", on_click="ignore", icon=":material/folder_zip:",
    )  # fmt: skip
    st.caption(
        "All pages as one zip: HTML that opens without a server or a network, from index.html. Takes up to "
        "half a minute."
    )
    st.download_button(
        "Download all pages", lambda: write.zipped(all_pages.files(now)), file_name="posenc-pages.zip",
        mime="application/zip", key="export_all", on_click="ignore", icon=":material/folder_zip:",
    )  # fmt: skip


def link_of(now: State, folder: str) -> str:
    """Return the link of a page at a state."""
    page = address(st.context.url or "", PATHS[folder])
    query = session.to_address(state.to_query(now, folder, all_pages.kind_of(folder)))
    return f"{page}?{query}" if query else page


def address(url: str, path: str) -> str:
    """Return the address of a page, without the repetition that Streamlit's has for some pages.

    Streamlit removes the path of any page from the end of the address before it adds this page's. Of
    check_my_encoding it removes "encoding" and leaves "check_my_".
    """
    for ending in PATHS.values():
        if ending and ending != path and path.endswith(ending):
            url = re.sub(rf"/{path.removesuffix(ending)}/{path}$", f"/{path}", url)
    return f"{url}/" if url and urlparse(url).path == "" else url
