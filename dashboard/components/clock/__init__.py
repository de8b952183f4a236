"""Clocks whose hands are the pairs of sinusoidal and rotary encodings, turning as position moves.

The browser moves the hands by itself, from float64 frequencies and without a rerun. As with the
matrices, the code is a component of its own whose message never changes, so it is sent once.
"""

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

Array = npt.NDArray[np.float64]
MOST_HANDS = 8  # of one face: more cannot be told apart

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Face:
    """One clock: a hand per chosen pair of one scheme, MOST_HANDS at most.

    pairs: the number of each hand's pair. inv_freq: (hands,) float64, radians per position. color: #rrggbb.
    offset: how many positions the hands are ahead of the slider. trained: the training length, None for
    that of the row. waves: (hands, 2, positions) sine and cosine of every pair, drawn beside the clock;
    None draws the clock alone.
    """

    title: str
    subtitle: str
    color: str
    pairs: tuple[int, ...]
    inv_freq: Array
    offset: int = 0
    trained: int | None = None
    waves: Array | None = None


def clock_row(
    faces: Sequence[Face],
    *,
    key: str,
    last: int,
    trained: int,
    text_alternative: str,
    first: int = 0,
    two: bool = False,
) -> None:
    """Draw `faces` side by side under one play button, one speed and one position slider.

    first: where the slider stands at first; last: its last position; trained: the training length, marked
    on it. two: whether no more than two stand in a line. With the same `key` a rerun changes the hands and
    leaves the position where it is.
    """
    data = encode(faces, last, trained, text_alternative, first) | {"two": two}
    with st.container(gap=None):
        _row(key=key, data=data)
        _code(key=f"{key}-code", data={"style": _style})


def encode(
    faces: Sequence[Face], last: int, trained: int, text: str, first: int = 0
) -> dict[str, Any]:
    """Return what the browser draws: hands in float64, waves in float32.

    The period of a hand is in positions per turn, null where it never turns; turns are those in training.
    """
    return {
        "text": text,
        "first": first,
        "last": last,
        "trained": trained,
        "faces": [
            {
                "title": face.title,
                "subtitle": face.subtitle,
                "color": face.color,
                "offset": face.offset,
                "trained": trained if face.trained is None else face.trained,
                "waves": None if face.waves is None else _as_text(face.waves),
                "hands": [
                    {
                        "pair": pair,
                        "frequency": frequency,
                        "period": 2 * math.pi / frequency if frequency else None,
                        "turns": frequency * (face.trained or trained) / (2 * math.pi),
                    }
                    for pair, frequency in zip(face.pairs, face.inv_freq.tolist(), strict=True)
                ],
            }
            for face in faces
        ],
    }


def _as_text(waves: Array) -> str:
    """Return the waves as float32 in base64: numbers as JSON would be five times as long."""
    return base64.b64encode(waves.astype("<f4").tobytes()).decode()
