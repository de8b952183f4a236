"""A row of matrices side by side on canvases: one colour scale, one crosshair, exact values.

The browser code lies in the .js files beside this one, joined to one module, and in matrix.css. It
is mounted as a component of its own whose message never changes, so Streamlit sends it once per session
and a short reference afterwards; a rerun then costs the values alone. (An asset directory would need
this folder to lie inside the package named like the distribution, `posenc`, which knows nothing of
the dashboard.)
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.components.matrix.colours import KINDS, shades
from dashboard.components.matrix.payload import Row, encode

ROW_COMPONENT = "posenc_matrix_row"
CODE_COMPONENT = "posenc_matrix_code"

# Hands the data to the code, or leaves it where the code looks on arrival: the newest wins.
HAND_OVER = """
export default (component) => {
  const shared = (globalThis[Symbol.for("posenc.matrix")] ??= { waiting: new Map() });
  if (shared.draw) shared.draw(component);
  else shared.waiting.set(component.parentElement, component);
};
"""

FOLDER = Path(__file__).parent

# One file per noun. Streamlit takes the code as one text, so they are joined; a file uses names of
# those before it as it is read, and of any other once all are.
SCRIPTS = (
    "data", "colour", "axes", "region", "markup", "legend", "layout", "export", "input", "row", "matrix"
)  # fmt: skip

SCRIPT = "\n".join(
    [
        f"const SHADE_BYTES = {json.dumps({kind: shades(kind).tobytes().hex() for kind in KINDS})};",
        *((FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS),
    ]
)
STYLE = (FOLDER / "matrix.css").read_text(encoding="utf-8")

# Registered once, at import; a definition made here follows into every later runtime.
_row = st.components.v2.component(ROW_COMPONENT, js=HAND_OVER)
_code = st.components.v2.component(CODE_COMPONENT, js=SCRIPT)


def matrix_row(row: Row, on_cell: Callable[[], None] | None = None) -> None:
    """Draw a row of matrices.

    With the same key a rerun repaints in place, crosshair and zoom stay, and its PNG is called
    posenc-<key>.png. on_cell: called when a visitor pins a cell, which is then
    `st.session_state[key].cell`, query and key.
    """
    # No gap: the code's element has no height and must not add a blank line.
    with st.container(gap=None):
        watched: dict[str, Any] = {} if on_cell is None else {"on_cell_change": on_cell}
        _row(key=row.key, data=encode(row), **watched)
        _code(key=f"{row.key}-code", data={"style": STYLE})
