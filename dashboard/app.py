"""The dashboard's frame: page list, shared controls, toolbar, and the page that was asked for."""

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from dashboard.components import history
from dashboard.controls import link, model_picker, pin, uploads
from dashboard.frame import login, page_contents
from dashboard.frame.toolbar import Toolbar, follow_link, presenting
from dashboard.server import counters, identity, incidents, run_queue, sockets, workers

follow_link()
st.set_page_config(
    page_icon="📐", layout="wide", initial_sidebar_state="collapsed" if presenting() else "auto"
)


def _page(folder: str, title: str, icon: str, address: str = "") -> StreamlitPage:
    """Return a page of `pages/`; its address is its folder unless older links name another."""
    return st.Page(
        f"pages/{folder}/page.py",
        title=title,
        icon=f":material/{icon}:",
        url_path=address or folder,
        default=folder == "start",
    )


PAGES = {
    "": [_page("start", "Start", "home")],
    "Understand": [
        _page("why_order_matters", "Why position", "swap_horiz", "why_position"),
        _page("encoding", "Encoding", "waves"),
        _page("claims", "Claims, tested", "fact_check"),
    ],
    "Compare": [
        _page("at_a_glance", "Overview", "grid_view", "overview"),
        _page("similarity", "Similarity", "join_inner"),
        _page("pca", "PCA", "scatter_plot"),
        _page("relative_offsets", "Relative offsets", "moving"),
        _page("extrapolation", "Extrapolation", "trending_up"),
        _page("train", "Train", "model_training"),
    ],
    "Your model": [
        _page("extend_context", "Context planner", "straighten", "context_planner"),
        _page("check_my_encoding", "Check my encoding", "troubleshoot"),
    ],
}

begun = False
with incidents.kind_errors():
    uploads.bound()
    identity.offered()  # a setting that cannot be used is all that there is to say
    sockets.send_at_once()
    counters.visited()
    link.keep()
    begun = True
chosen = st.navigation(PAGES, position="top" if presenting() else "sidebar")
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
        chosen.run()
    toolbar.after(setting)
    history.in_place()
