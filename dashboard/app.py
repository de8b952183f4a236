"""The dashboard's frame: page list, shared sidebar, and the page that was asked for."""

import streamlit as st

from dashboard import controls, page, workers

st.set_page_config(page_icon="📐", layout="wide", initial_sidebar_state="auto")

PAGES = {
    "": [
        st.Page("views/overview.py", title="Overview", icon=":material/grid_view:", default=True),
    ],
    "Understand": [
        st.Page("views/claims.py", title="Claims, tested", icon=":material/fact_check:"),
    ],
    "Compare": [
        st.Page("views/similarity.py", title="Similarity", icon=":material/join_inner:"),
        st.Page("views/pca.py", title="PCA", icon=":material/scatter_plot:"),
        st.Page("views/relative_offsets.py", title="Relative offsets", icon=":material/moving:"),
        st.Page("views/extrapolation.py", title="Extrapolation", icon=":material/trending_up:"),
        st.Page("views/train.py", title="Train", icon=":material/model_training:"),
    ],
}

chosen = st.navigation(PAGES)
# After the navigation: a rerun before it would forget which page the link named.
with page.kind_errors():
    controls.restore_link()
    st.session_state["setting"] = controls.sidebar()
    workers.resume()
    chosen.run()
