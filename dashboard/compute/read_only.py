"""What several visitors are shown of, made read-only: a page that writes into it fails, at once."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np


def make_read_only(one: Any) -> None:
    """Forbid writing into every NumPy array of a result, in its parts and theirs; nothing is copied.

    Frames and tensors have no such switch and stay as they are.
    """
    if isinstance(one, np.ndarray):
        one.flags.writeable = False
    elif dataclasses.is_dataclass(one):
        for part in dataclasses.fields(one):
            make_read_only(getattr(one, part.name))
    elif isinstance(one, Mapping):
        for value in one.values():
            make_read_only(value)
    elif isinstance(one, list | tuple):
        for value in one:
            make_read_only(value)
