"""One run of the script for a visitor: the state, the page that it means, and all that is drawn of it."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType

import streamlit as st

from dashboard import compare, controls, drawers, results, session, state, tools
from dashboard.blocks import Page, Text, Uses
from dashboard.components import browser
from dashboard.render import Renderer
from dashboard.script import uploaded
from dashboard.server import incidents, run_queue, settings, training_process
from dashboard.settings import Setting
from dashboard.state import State
from dashboard.text import plain

# One colour and one file for both themes: a picture takes no colour from the page around it.
LOGO = """<svg xmlns="http://www.w3.org/2000/svg" width="116" height="32" viewBox="0 0 116 32">
<g fill="none" stroke="#2f86c6" stroke-width="2.5" stroke-linecap="round">
<path d="M2 16q3.5-16 7 0t7 0 7 0" /><path d="M2 26q10.5-8 21 0" opacity="0.55" /></g>
<text x="31" y="22" font-family="sans-serif" font-size="20" font-weight="600" fill="#2f86c6">posenc</text>
</svg>"""


def draw(
    sections: Mapping[str, Sequence[tuple[str, str, str]]], addresses: Mapping[str, str]
) -> None:
    """Draw the page of the address. A fault is told by `server.incidents.tell`.

    sections: folder, title and icon of every page, by the section of the menu. addresses: by folder, of the
    pages whose address is not their folder.
    """
    st.set_page_config(page_icon="📐", layout="wide")
    pages = {
        folder: st.Page(
            f"pages/{folder}/page.py", title=title, icon=f":material/{icon}:",
            url_path=addresses.get(folder, folder), default=folder == "start",
        )
        for entries in sections.values()
        for folder, title, icon in entries
    }  # fmt: skip
    menu = {
        section: [pages[folder] for folder, *_ in entries] for section, entries in sections.items()
    }
    chosen = st.navigation(menu, position="top", expanded=True)  # expanded: on a phone
    (folder,) = (name for name, entry in pages.items() if entry.url_path == chosen.url_path)
    settings.current()  # a setting that cannot be used is all that there is to say
    with run_queue.server.turn():
        module = module_of(folder)
        now = session.begin(folder, module.Options)
        uses = uses_of(module, now, folder)
        page = page_of(module, now, folder, chosen.title)
        has_controls = bool(controls.used(uses, now.setting) - {*uses.drawn})
        # Streamlit else leaves it open, and the logo in it, on the way from a page that has controls.
        closed = now.presenting or not has_controls
        st.set_page_config(
            page_title=f"{chosen.title} - posenc",
            initial_sidebar_state="collapsed" if closed else "auto",
        )
        st.logo(LOGO, size="large")
        training_process.resume()
        renderer = Renderer(page.title, pages, kind_of, now.presenting)
        link = tools.address(
            st.context.url or "", chosen.url_path, [entry.url_path for entry in pages.values()]
        )
        texts = session.to_address(state.to_query(now, folder, module.Options))
        link = f"{link}?{texts}" if texts else link
        place = tools.draw(page, now, renderer.drawn, link, controls=has_controls)
        if place is None and not now.presenting:
            controls.draw(st.sidebar, now.setting, uses)
        elif place is not None and place.open:
            controls.draw(place, now.setting, uses)
        _tell(now.setting)
        renderer.page(page)
        drawers.draw(page, renderer.drawn)
        # Not `chosen.run()`: it gives each page its own widgets, and a control that two pages share
        # would lose its value on the way between them.
        browser.keep_one_step_per_page(session.address_to_write(), folder)


def module_of(folder: str) -> ModuleType:
    """Return the module of a page."""
    return importlib.import_module(f"dashboard.pages.{folder}.page")


def kind_of(folder: str) -> type:
    """Return the class of a page's options."""
    kind: type = module_of(folder).Options
    return kind


def uses_of(module: ModuleType, now: State, folder: str) -> Uses:
    """Return what a page reads of a setting, which may depend on its options."""
    uses: Uses = (
        module.USES(now.of(folder, module.Options)) if callable(module.USES) else module.USES
    )
    return uses


def page_of(module: ModuleType, now: State, folder: str, title: str) -> Page:
    """Return the page that a state means, of both settings where one is pinned; a fault is its sentence."""
    options, uses = now.of(folder, module.Options), uses_of(module, now, folder)
    b, a = now.setting, now.a
    if not (uses.schemes or {*uses.itself} - {"schemes"}):  # which A and B share
        a = None
    try:
        with st.spinner("Computing"):  # shown after half a second
            page: Page = module.page(b, options)
            of_a = None if a is None else module.page(a, options)
        if a is not None and of_a is not None:
            changed = [label for label, *_ in state.differences(b, a)]
            page = compare.pages(page, of_a, state.names(b, a), changed)
    except incidents.ANY_FAULT as error:
        told = plain(incidents.sentence(error))
        return Page(title=title, headline="", blocks=(Text(told, "error"),))
    lead, above = _assumption(b, uses), []
    if lead:
        above.append(Text(plain(lead), "warning"))
    if a is not None and (other := _assumption(a, uses)) and other != lead:
        above.append(Text(f"Pinned setting, A: {plain(other)}", "warning"))
    if page.script:
        comment = f"# {lead}\n" if lead else ""
        page = replace(page, script=comment + uploaded(b) + page.script)
    return replace(page, above=(*above, *page.above))


def _assumption(setting: Setting, uses: Uses) -> str:
    """Return the sentence on what a setting's model rests on, "" where this page uses no such model."""
    if "model" not in controls.used(uses, setting) or setting.real_model is None:
        return ""
    return setting.real_model.config.assumption


def _tell(setting: Setting) -> None:
    """Say what of the link or a control was not taken as it is."""
    notices = session.take_notices()
    device = results.device(setting.device)
    if setting.device not in ("auto", device):
        notices.append(
            f"There is no working {setting.device} device here: the numbers come from {device}."
        )
    place = st.container()  # without a notice too: else the page below moves and is drawn anew
    for text in notices:
        place.warning(plain(text), icon=":material/info:")
