"""The browser's history: a tweak changes the address in place, another page is a step to go back from.

Streamlit adds a step for every change of the address that the server asks for. Back would then undo a
dragged slider stop by stop, or lead to an address that was never shown, instead of to the page before.
"""

import streamlit as st

_in_place = st.components.v2.component(
    "posenc_history",
    js="""
export default () => {
  const patched = Symbol.for("posenc.history");
  if (history[patched]) return;
  history[patched] = true;
  const push = history.pushState.bind(history);
  history.pushState = (state, unused, url) => {
    const same = new URL(url ?? location.href, location.href).pathname === location.pathname;
    if (same) history.replaceState(state, unused, url);
    else push(state, unused, url);
  };
};
""",
)


def in_place() -> None:
    """Make this visitor's browser keep one step for each page, however often the address changes."""
    _in_place(key="history")
