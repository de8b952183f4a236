"""The dashboard's frame: page list, shared controls, toolbar, and the page that was asked for."""

import streamlit as st

from dashboard import (
    counters,
    faults,
    history,
    identity_providers,
    links,
    login,
    pinned,
    real_model,
    sheet,
    sockets,
    turns,
    uploads,
    workers,
)
from dashboard.toolbar import Toolbar, follow_link, presenting

follow_link()
st.set_page_config(
    page_icon="📐", layout="wide", initial_sidebar_state="collapsed" if presenting() else "auto"
)

PAGES = {
    "": [
        st.Page("views/start.py", title="Start", icon=":material/home:", default=True),
    ],
    "Understand": [
        st.Page("views/why_position.py", title="Why position", icon=":material/swap_horiz:"),
        st.Page("views/encoding.py", title="Encoding", icon=":material/waves:"),
        st.Page("views/claims.py", title="Claims, tested", icon=":material/fact_check:"),
    ],
    "Compare": [
        st.Page("views/overview.py", title="Overview", icon=":material/grid_view:"),
        st.Page("views/similarity.py", title="Similarity", icon=":material/join_inner:"),
        st.Page("views/pca.py", title="PCA", icon=":material/scatter_plot:"),
        st.Page("views/relative_offsets.py", title="Relative offsets", icon=":material/moving:"),
        st.Page("views/extrapolation.py", title="Extrapolation", icon=":material/trending_up:"),
        st.Page("views/train.py", title="Train", icon=":material/model_training:"),
    ],
    "Your model": [
        st.Page("views/context_planner.py", title="Context planner", icon=":material/straighten:"),
        st.Page(
            "views/check_my_encoding.py", title="Check my encoding", icon=":material/troubleshoot:"
        ),
    ],
}

begun = False
with faults.kind_errors():
    uploads.bound()
    identity_providers.offered()  # a setting that cannot be used is all that there is to say
    sockets.send_at_once()
    counters.visited()
    links.keep()
    begun = True
chosen = st.navigation(PAGES, position="top" if presenting() else "sidebar")
# After the navigation: a rerun before it would forget which page the link named.
with turns.server.turn(turns.standing()), faults.kind_errors():
    if not begun:
        raise faults.Ended
    counters.here.count("reruns", chosen.url_path or "start")
    links.turn_to(chosen.url_path)
    sheet.begin()
    links.restore()
    toolbar = Toolbar()
    if not presenting():
        with st.sidebar:
            login.draw()
    setting = toolbar.shared()
    st.session_state["setting"] = setting
    toolbar.before(setting)
    real_model.tell_assumption(pinned.pair(setting))
    workers.resume()
    with faults.kind_errors():
        chosen.run()
    toolbar.after(setting)
    history.in_place()
