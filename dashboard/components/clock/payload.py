"""What the clocks show, and its encoding to bytes: a JSON header, then three float64 per hand.

Layout: uint32 header length | header, space-padded so that values start 8-aligned | values, for every
hand of every face: radians per position, positions per turn, turns within the training length.
Everything is little-endian. The browser multiplies the first with a position and with nothing else.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from posenc.errors import SchemeArgumentError
from posenc.limits import MAX_POSITION, check_count

Array = npt.NDArray[np.float64]
COLOR = re.compile(r"#[0-9a-fA-F]{6}")
MOST_HANDS = 8  # of one face: more cannot be told apart


@dataclass(frozen=True, eq=False, kw_only=True)
class Face:
    """One clock: a hand per chosen pair of one scheme.

    pairs: the number of each hand's pair. inv_freq, wavelengths, turns: (hands,) float64: radians per
    position, positions per full turn, turns within the training length. color: #rrggbb.
    Raises SchemeArgumentError where lengths differ, a hand is missing or there are more than 8.
    """

    title: str
    subtitle: str
    color: str
    pairs: tuple[int, ...]
    inv_freq: Array
    wavelengths: Array
    turns: Array

    def __post_init__(self) -> None:
        check_count("hands of a face", len(self.pairs), 1, MOST_HANDS)
        if not COLOR.fullmatch(self.color):
            raise SchemeArgumentError(f"color must be written #rrggbb, got {self.color!r}.")
        for name in ("inv_freq", "wavelengths", "turns"):
            values = np.array(getattr(self, name), dtype=np.float64)
            if values.shape != (len(self.pairs),):
                raise SchemeArgumentError(
                    f"{name} needs one number for each of {len(self.pairs)} hands, "
                    f"got shape {values.shape}."
                )
            object.__setattr__(self, name, values)


def encode(faces: Sequence[Face], *, last: int, trained: int, text_alternative: str) -> bytes:
    """Return the bytes that the browser decodes. last: the last position of the slider."""
    if not faces:
        raise SchemeArgumentError("a row of clocks needs at least one face, got none.")
    check_count("last", last, 1, MAX_POSITION)
    check_count("trained", trained, 1, MAX_POSITION)
    header = {
        "text": text_alternative,
        "last": last,
        "trained": trained,
        "faces": [
            {
                "title": face.title,
                "subtitle": face.subtitle,
                "color": face.color,
                "pairs": list(face.pairs),
            }
            for face in faces
        ],
    }
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-(4 + len(text)) % 8)
    values = np.concatenate(
        [np.stack([face.inv_freq, face.wavelengths, face.turns], axis=1).ravel() for face in faces]
    )
    return len(text).to_bytes(4, "little") + text + values.astype("<f8").tobytes()
