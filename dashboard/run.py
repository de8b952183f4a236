"""One run of the script for a visitor: the state, the page that it means, and all that is drawn of it."""

from collections.abc import Collection

import streamlit as st

from dashboard import controls, drawers, pickers, previews, results, session, tools
from dashboard.all_pages import kind_of, page_at, uses_of
from dashboard.blocks import Page, Text
from dashboard.components import browser, preview
from dashboard.menu import PATHS, SECTIONS
from dashboard.render import PICTURES, Renderer
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


def draw() -> None:
    """Draw the page of the address. A fault is told by `server.incidents.tell`."""
    st.set_page_config(page_icon="📐", layout="wide")
    # Of a page's file Streamlit would ask the system at every run: at 25 people a fifth of their time.
    pages = {
        folder: st.Page(
            draw, title=title, icon=f":material/{icon}:", url_path=PATHS[folder],
            default=folder == "start",
        )
        for entries in SECTIONS.values()
        for folder, title, icon in entries
    }  # fmt: skip
    menu = {
        section: [pages[folder] for folder, *_ in entries] for section, entries in SECTIONS.items()
    }
    chosen = st.navigation(menu, position="top", expanded=True)  # expanded: on a phone
    (folder,) = (name for name, entry in pages.items() if entry.url_path == chosen.url_path)
    settings.current()  # a setting that cannot be used is all that there is to say
    with run_queue.server.turn():
        now, address = session.begin(folder, kind_of(folder))
        uses = uses_of(now, folder)
        page = page_of(now, folder, chosen.title)
        used = controls.used(uses, now.setting)
        on_bar = [name for name in controls.ON_BAR if name in used and now.presenting]
        in_line = [] if now.presenting else _in_line(page, used - {*uses.drawn})
        has_controls = bool(used - {*uses.drawn, *on_bar, *in_line})
        # Streamlit else leaves it open, and the logo in it, on the way from a page that has controls.
        closed = now.presenting or not has_controls
        st.set_page_config(
            page_title=f"{chosen.title} - posenc",
            initial_sidebar_state="collapsed" if closed else "auto",
        )
        st.logo(LOGO, size="large")
        training_process.resume()
        renderer = Renderer(page.title, pages, now.presenting, on_bar, in_line)
        place = tools.draw(page, now, renderer.drawn, folder, controls=has_controls)
        if place is None and not now.presenting:
            controls.draw(st.sidebar, now.setting, uses, in_line)
        elif place is not None and place.open:
            controls.draw(place, now.setting, uses, on_bar)
        if on_bar:
            controls.draw_bar(on_bar, now.setting)
        _tell(now.setting)
        renderer.page(page)
        drawers.draw(page, renderer.drawn)
        if followed := previews.following(now, folder, renderer.drawn):
            preview.follow(followed)
        # Not `chosen.run()`: it gives each page its own widgets, and a control that two pages share
        # would lose its value on the way between them.
        browser.keep_one_step_per_page(address, folder)


def _in_line(page: Page, names: Collection[str]) -> list[str]:
    """Return which controls stand under the first picture: on a phone the sidebar would cover it."""
    phone = "Mobi" in st.context.headers.get("User-Agent", "")
    pictured = any(isinstance(block, PICTURES) for block in page.all_blocks)
    return [name for name in controls.ON_BAR if name in names and phone and pictured]


def page_of(now: State, folder: str, title: str) -> Page:
    """Return the page that a state means, of both settings where one is pinned; a fault is its sentence."""
    try:
        with st.spinner("Computing"):  # shown after half a second
            return page_at(now, folder)
    except incidents.ANY_FAULT as error:
        told = plain(incidents.sentence(error))
        return Page(title=title, headline="", blocks=(Text(told, "error"),))


def _tell(setting: Setting) -> None:
    """Say what of the link, a control or a config was not taken as it is."""
    notices = [*filter(None, [pickers.refused_config()]), *session.take_notices()]
    device = results.device(setting.device)
    if setting.device not in ("auto", device):
        notices.append(
            f"There is no working {setting.device} device here: the numbers come from {device}."
        )
    place = st.container()  # without a notice too: else the page below moves and is drawn anew
    for text in notices:
        place.warning(plain(text), icon=":material/info:")
