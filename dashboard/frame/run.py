"""One run of the script for a visitor: navigation, shared controls, toolbar and the chosen page."""

import functools
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass

import streamlit as st

from dashboard.components import browser
from dashboard.controls import link, page_controls, pin
from dashboard.frame import bridge, drawers, page, page_contents
from dashboard.frame.page import PresentChoice, presenting
from dashboard.frame.toolbar import Toolbar, follow_link
from dashboard.server import incidents, run_queue, settings, training_process

# One colour and one file for both themes: a picture takes no colour from the page around it.
LOGO = """<svg xmlns="http://www.w3.org/2000/svg" width="116" height="32" viewBox="0 0 116 32">
<g fill="none" stroke="#2f86c6" stroke-width="2.5" stroke-linecap="round">
<path d="M2 16q3.5-16 7 0t7 0 7 0" /><path d="M2 26q10.5-8 21 0" opacity="0.55" /></g>
<text x="31" y="22" font-family="sans-serif" font-size="20" font-weight="600" fill="#2f86c6">posenc</text>
</svg>"""


def draw(
    sections: Mapping[str, Sequence[tuple[str, str, str]]], addresses: Mapping[str, str]
) -> None:
    """Draw the page of the address.

    sections: folder, title and icon of every page, by the section of the menu. addresses: by folder, of the
    pages whose address is not their folder.
    """
    follow_link()
    st.set_page_config(page_icon="📐", layout="wide")
    pages = {
        folder: st.Page(
            f"pages/{folder}/page.py",
            title=title,
            icon=f":material/{icon}:",
            url_path=addresses.get(folder, folder),
            default=folder == "start",
        )
        for entries in sections.values()
        for folder, title, icon in entries
    }
    menu = {
        section: [pages[folder] for folder, *_ in entries] for section, entries in sections.items()
    }
    ready = False
    with incidents.show_errors():
        settings.current()  # a setting that cannot be used is all that there is to say
        link.keep()
        ready = True
    chosen = st.navigation(menu, position="top", expanded=True)  # expanded: on a phone
    st.session_state["page"] = chosen.url_path
    (folder,) = (name for name, entry in pages.items() if entry.url_path == chosen.url_path)
    page_module = importlib.import_module(f"dashboard.pages.{folder}.page")
    is_function = hasattr(page_module, "Options")
    page_controls.note(bridge.uses(page_module) if is_function else page_module.used_controls)
    # Streamlit else leaves it open, and the logo in it, on the way from a page that has controls.
    closed = presenting() or not page_controls.any_here()
    st.set_page_config(
        page_title=f"{chosen.title} - posenc",
        initial_sidebar_state="collapsed" if closed else "auto",
    )
    st.logo(LOGO, size="large")
    # After the navigation: a rerun before it would forget which page the link named.
    with run_queue.server.turn(), incidents.show_errors():
        if not ready:
            raise incidents.PageEnded
        st.session_state["owners"] = []
        page_contents.begin()
        st.session_state["pages"] = pages
        link.restore(lambda: _options(tuple(pages)))
        toolbar = Toolbar()
        setting = toolbar.shared()
        st.session_state["setting"] = setting
        toolbar.before(setting)
        page.show_assumption(pin.ab(setting))
        training_process.resume()
        with incidents.show_errors():
            # Not `chosen.run()`: it gives each page its own widgets, and a control that two pages share
            # would lose its value on the way between them.
            if is_function:
                bridge.draw(page_module)
            else:
                page_module.draw()
        drawers.draw()
        toolbar.after(setting)
        st.session_state["link_notices"] = []  # now: a page may run again before it is drawn
        browser.keep_one_step_per_page()


@functools.cache
def _options(folders: tuple[str, ...]) -> tuple[type, ...]:
    """Return the classes of the options of all pages, drawn or not, as links name them."""
    names = (
        f"dashboard.pages.{folder}.{module}" for folder in folders for module in ("options", "page")
    )
    modules = [importlib.import_module(name) for name in names if importlib.util.find_spec(name)]
    members = [
        member
        for module in modules
        # What else a page that is a function imports may have rules of its own.
        for member in ([module.Options] if hasattr(module, "Options") else vars(module).values())
    ]
    owners = [member for member in members if isinstance(member, type) and is_dataclass(member)]
    return (PresentChoice, *dict.fromkeys(owners))
