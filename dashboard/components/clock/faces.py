"""Faces of clocks whose hands are pairs of an encoding, and what travels of them to the browser."""

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
MOST_HANDS = 8  # of one face: more cannot be told apart


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


def encode(
    faces: Sequence[Face], last: int, trained: int, text: str, first: int = 0, *, two: bool = False
) -> dict[str, Any]:
    """Return what the browser draws: hands in float64, waves in float32.

    first: where the slider stands at first; last: its last position; trained: the training length, marked
    on it; text: what a reader hears instead. two: whether no more than two faces stand in a line. The
    period of a hand is in positions per turn, null where it never turns; turns are those in training.
    """
    return {
        "text": text,
        "two": two,
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
