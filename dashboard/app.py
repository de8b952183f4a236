"""The dashboard: its server, and a visitor's run of a page.

`streamlit run dashboard/app.py` imports this file once as the server and runs it for every visitor.
`streamlit run dashboard/app.py -- --plugin FILE` registers the schemes of a Python file first.
"""

import argparse
import sys

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

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

    from dashboard import previews  # pages offer the schemes that are there when they are loaded

    app = st.App(
        __file__,
        lifespan=hosting.lifespan,
        routes=[previews.route()],
        middleware=[Middleware(UploadLimit)],
        on_script_error=incidents.tell,
    )
else:
    from dashboard import run

    run.draw()
