"""The dashboard's frame: page list, shared controls, toolbar, and the page that was asked for."""

import importlib

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from dashboard.components import history
from dashboard.controls import link, model_picker, pin, uploads
from dashboard.frame import drawers, login, page_contents
from dashboard.frame.toolbar import Toolbar, follow_link, presenting
from dashboard.server import counters, identity, incidents, run_queue, sockets, workers

follow_link()
st.set_page_config(
    page_icon="📐", layout="wide", initial_sidebar_state="collapsed" if presenting() else "auto"
)


# Folder, title and icon of every page, by the section of the menu. The address of a page is its folder,
# but for the pages that links of earlier versions name otherwise.
SECTIONS = {
    "": [("start", "Start", "home")],
    "Understand": [
        ("lessons", "Learn in five steps", "school"),
        ("why_order_matters", "Why order matters", "swap_horiz"),
        ("encoding", "Encoding", "waves"),
        ("claims", "Claims", "fact_check"),
    ],
    "Compare": [
        ("at_a_glance", "At a glance", "grid_view"),
        ("similarity", "Similarity", "join_inner"),
        ("pca", "PCA", "scatter_plot"),
        ("relative_offsets", "Relative offsets", "moving"),
        ("extrapolation", "Extrapolation", "trending_up"),
        ("train", "Train", "model_training"),
    ],
    "Your model": [
        ("extend_context", "Extend a model's context", "straighten"),
        ("check_my_encoding", "Check my encoding", "troubleshoot"),
    ],
}
# One colour and one file for both themes: a picture takes no colour from the page around it.
LOGO = """<svg xmlns="http://www.w3.org/2000/svg" width="116" height="32" viewBox="0 0 116 32">
<g fill="none" stroke="#2f86c6" stroke-width="2.5" stroke-linecap="round">
<path d="M2 16q3.5-16 7 0t7 0 7 0" /><path d="M2 26q10.5-8 21 0" opacity="0.55" /></g>
<text x="31" y="22" font-family="sans-serif" font-size="20" font-weight="600" fill="#2f86c6">posenc</text>
</svg>"""
ADDRESSES = {
    "start": "",
    "lessons": "learn",
    "why_order_matters": "why_position",
    "at_a_glance": "overview",
    "extend_context": "context_planner",
}
FOLDERS = {
    ADDRESSES.get(folder, folder): folder for pages in SECTIONS.values() for folder, *_ in pages
}


def _page(folder: str, title: str, icon: str) -> StreamlitPage:
    return st.Page(
        f"pages/{folder}/page.py",
        title=title,
        icon=f":material/{icon}:",
        url_path=ADDRESSES.get(folder, folder),
        default=folder == "start",
    )


begun = False
with incidents.kind_errors():
    uploads.bound()
    identity.offered()  # a setting that cannot be used is all that there is to say
    sockets.send_at_once()
    counters.visited()
    link.keep()
    begun = True
chosen = st.navigation(
    {section: [_page(*page) for page in pages] for section, pages in SECTIONS.items()},
    position="top",
)
st.set_page_config(page_title=f"{chosen.title} - posenc")
st.logo(LOGO, size="large")
# After the navigation: a rerun before it would forget which page the link named.
with run_queue.server.turn(run_queue.standing()), incidents.kind_errors():
    if not begun:
        raise incidents.Ended
    counters.here.count("reruns", chosen.url_path or "start")
    link.turn_to(chosen.url_path)
    page_contents.begin()
    link.restore()
    toolbar = Toolbar()
    if not presenting():
        with st.sidebar:
            login.draw()
    setting = toolbar.shared()
    st.session_state["setting"] = setting
    toolbar.before(setting)
    model_picker.tell_assumption(pin.pair(setting))
    workers.resume()
    with incidents.kind_errors():
        # Not `chosen.run()`: it gives each page its own widgets, and a control that two pages share would
        # lose its value on the way between them.
        importlib.import_module(f"dashboard.pages.{FOLDERS[chosen.url_path]}.page").draw()
    with incidents.kind_errors():
        drawers.draw()
    toolbar.after(setting)
    history.in_place()
