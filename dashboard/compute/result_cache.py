"""What pages read of a setting, kept: visitors who ask for the same share it, and nobody changes it.

The caches of single results hand out copies and are asked some twenty times for a page; under load that
and the frames made of them are what a rerun costs. A page's whole reading is asked for once.
"""

import dataclasses
import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch

from dashboard.compute.read_only import make_read_only
from dashboard.compute.upload_cache import is_evicted
from posenc.settings import Setting

Result = TypeVar("Result")

_LITTLE = 64
_ITSELF = object()

MOST_BYTES = (
    64 * 2**20
)  # of all readings; what is made of them to be drawn takes up to twice as much


class Kept:
    """Results by their key, those asked for least lately dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._held: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: Any) -> Any:
        """Return the result of a key, None for none."""
        with self._lock:
            if key not in self._held:
                return None
            self._held.move_to_end(key)
            return self._held[key][0]

    def put(self, key: Any, result: Any) -> None:
        """Keep a result; one that takes more than a tenth of the room is not kept."""
        size = weight(result)
        if size > self._most // 10:
            return
        make_read_only(result)
        with self._lock:
            if key in self._held:
                return
            self._held[key] = result, size
            self._bytes += size
            while self._bytes > self._most:
                self._bytes -= self._held.popitem(last=False)[1][1]

    def size(self) -> int:
        """Return the bytes held."""
        with self._lock:
            return self._bytes

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._held.clear()
            self._bytes = 0


def weight(one: Any) -> int:
    """Return about how many bytes a result takes: its arrays and frames, and a little for all else."""
    if isinstance(one, pd.DataFrame):
        return (
            one.size * 8
        )  # what pandas counts to the byte takes longer than many a page's numbers
    if isinstance(one, np.ndarray | torch.Tensor):
        return one.nbytes
    if isinstance(one, str | bytes):
        return len(one)
    if dataclasses.is_dataclass(one):
        parts: Any = [getattr(one, part.name) for part in dataclasses.fields(one)]
    elif isinstance(one, Mapping):
        parts = one.values()
    else:
        parts = one if isinstance(one, list | tuple) else ()
    return _LITTLE + sum(map(weight, parts))


readings = Kept(MOST_BYTES)


def kept(read: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate a page's `read`, a function of a setting and choices alone, whose results are kept.

    One that gives reasons why a scheme is left out is read anew: a table that is missing may be uploaded.
    What was read of an uploaded table is no answer once that has left the memory.
    """

    @functools.wraps(read)
    def reading(*asked: Any) -> Result:
        sources = [one.learned_source for one in asked if isinstance(one, Setting)]
        key = read.__module__, read.__qualname__, *asked, *filter(is_evicted, sources)
        found = readings.get(key)
        if found is None:
            found = read(*asked)
            if not getattr(found, "reasons", None):
                readings.put(key, found)
        return found

    return reading


def once(make: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate what makes something of a reading or a frame, and words, to be drawn: made once for each."""

    @functools.wraps(make)
    def made(reading: Any, *asked: Any, **named: Any) -> Result:
        held: dict[Any, Any] = vars(reading).setdefault("_made", {})
        key = make.__module__, make.__qualname__, *asked, *named.items()
        if key not in held:
            result = make(reading, *asked, **named)
            held[key] = (
                _ITSELF if result is reading else result
            )  # held by itself it would stay longer
        found: Result = reading if held[key] is _ITSELF else held[key]
        return found

    return made
