"""Clocks whose hands are the pairs of sinusoidal and rotary encodings, turning as position moves.

The browser moves the hands by itself, from float64 frequencies and without a rerun. As with the
matrices, the code is a component of its own whose message never changes, so it is sent once.
"""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from dashboard.components.clock.payload import MOST_HANDS, Face, encode

__all__ = ["MOST_HANDS", "Face", "clock_row"]

# Hands the data to the code, or leaves it where the code looks on arrival: the newest wins.
HAND_OVER = """
export default (component) => {
  const shared = (globalThis[Symbol.for("posenc.clock")] ??= { waiting: new Map() });
  if (shared.draw) shared.draw(component);
  else shared.waiting.set(component.parentElement, component);
};
"""

FOLDER = Path(__file__).parent

_row = st.components.v2.component("posenc_clock_row", js=HAND_OVER)
_code = st.components.v2.component(
    "posenc_clock_code", js=(FOLDER / "clock.js").read_text(encoding="utf-8")
)
_style = (FOLDER / "clock.css").read_text(encoding="utf-8")


def clock_row(
    faces: Sequence[Face], *, key: str, last: int, trained: int, text_alternative: str
) -> None:
    """Draw `faces` side by side under one play button, one speed and one position slider.

    last: the slider's last position; trained: the training length, marked on it. With the same `key` a
    rerun changes the hands and leaves the position where it is.
    Raises SchemeArgumentError for an empty row or positions outside 1 to 2^31 - 1.
    """
    data = encode(faces, last=last, trained=trained, text_alternative=text_alternative)
    with st.container(gap=None):
        _row(key=key, data=data)
        _code(key=f"{key}-code", data={"style": _style})
