"""The dashboard: the list of its pages, its server, and a visitor's run of a page.

`streamlit run dashboard/app.py` imports this file once as the server and runs it for every visitor.
`streamlit run dashboard/app.py -- --plugin FILE` registers the schemes of a Python file first.
"""

import argparse
import sys

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

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
        ("relative_offsets", "Relative offsets", "arrow_range"),
        ("extrapolation", "Extrapolation", "trending_up"),
        ("train", "Train", "model_training"),
    ],
    "Your model": [
        ("extend_context", "Extend a model's context", "straighten"),
        ("check_my_encoding", "Check my encoding", "troubleshoot"),
    ],
}
ADDRESSES = {
    "start": "",
    "lessons": "learn",
    "why_order_matters": "why_position",
    "at_a_glance": "overview",
    "extend_context": "context_planner",
}

# Each branch imports its own part: Streamlit warns about caches that are made before the server runs.
if get_script_run_ctx(suppress_warning=True) is None:
    from starlette.middleware import Middleware

    from dashboard.server import hosting, incidents
    from dashboard.server.upload_limit import UploadLimit
    from posenc.errors import PluginError
    from posenc.plugins import load_plugin

    parser = argparse.ArgumentParser(prog="dashboard/app.py", allow_abbrev=False)
    parser.add_argument("--plugin", metavar="FILE", action="append", default=[])
    try:
        for file in parser.parse_known_args()[0].plugin:
            load_plugin(file)
    except PluginError as error:
        sys.exit(f"posenc: {error}")
    app = st.App(
        __file__,
        lifespan=hosting.lifespan,
        middleware=[Middleware(UploadLimit)],
        on_script_error=incidents.tell,
    )
else:
    from dashboard import run

    run.draw(SECTIONS, ADDRESSES)
