"""One cache for what pages compute, bounded by bytes: equal questions share one read-only result."""

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import cachetools
import numpy as np
import pandas as pd
import torch

from dashboard.settings import Setting
from dashboard.visitor_files import is_evicted
from posenc.schemes.base import Request

Result = TypeVar("Result")

MAX_BYTES = 160 * 2**20  # of all results; what is derived of blocks takes as much again
_SMALL = 64  # bytes of an object beside its arrays
_PLAIN = frozenset({float, int, bool, type(None)})  # a run has thousands, a table as many words


def size_in_bytes(result: Any) -> int:
    """Return about how many bytes a result takes: its arrays and frames, and a little for the rest."""
    if type(result) in _PLAIN:
        return _SMALL
    if isinstance(result, str | bytes):
        return len(result)
    if isinstance(result, pd.DataFrame):
        return result.size * 8  # pandas' own count takes longer than the numbers of many pages
    if isinstance(result, np.ndarray | torch.Tensor):
        return result.nbytes
    return _SMALL + sum(map(size_in_bytes, _parts(result)))


def make_read_only(result: Any) -> None:
    """Forbid writing into every NumPy array of a result; a page that writes into one fails at once.

    Frames and tensors have no such switch and stay as they are.
    """
    if type(result) in _PLAIN or isinstance(result, str):
        return
    if isinstance(result, np.ndarray):
        result.flags.writeable = False
    elif not isinstance(result, pd.DataFrame | torch.Tensor):
        for part in _parts(result):
            make_read_only(part)


def _parts(result: Any) -> Iterable[Any]:
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return [getattr(result, field.name) for field in dataclasses.fields(result)]
    if isinstance(result, Mapping):
        return result.values()
    return result if isinstance(result, list | tuple) else ()


class ResultCache(cachetools.LRUCache[Any, Any]):
    """Read-only results by key, the least recently used evicted first."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, getsizeof=size_in_bytes)
        self.lock = threading.Lock()

    def store(self, key: Any, result: Any) -> None:
        """Store a result unless it takes more than a quarter of the cache, 40 MB.

        A kernel of 2,048 positions takes 32 MB.
        """
        if size_in_bytes(result) > self.maxsize // 4:
            return
        make_read_only(result)
        with self.lock:
            self[key] = result


RESULTS = ResultCache(MAX_BYTES)
_AGING: list[cachetools.TTLCache[Any, Any]] = []  # of `cached_for`


def cached(function: Callable[..., Result]) -> Callable[..., Result]:
    """Cache a function of settings, queries, options and plain values; its result depends on them alone.

    A result that leaves out a scheme is computed anew each time, because a missing table may be uploaded.
    The result of an uploaded table is computed anew after the upload was evicted. Errors are not cached.
    """

    @functools.wraps(function)
    def looked_up(*arguments: Any) -> Result:
        sources = filter(is_evicted, map(_table_source, arguments))
        key = function.__module__, function.__qualname__, *arguments, *sources
        with RESULTS.lock:
            result: Result | None = RESULTS.get(key)
        if result is None:
            result = function(*arguments)
            if not getattr(result, "reasons", None):
                RESULTS.store(key, result)
        return result

    return looked_up


def cached_for(
    seconds: float, most: int = 64
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Cache a function of plain values for some seconds, because what it reads may change elsewhere."""

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        results: cachetools.TTLCache[Any, Any] = cachetools.TTLCache(most, seconds)
        _AGING.append(results)
        looked_up: Callable[..., Result] = cachetools.cached(results, lock=threading.Lock())(
            function
        )
        return looked_up

    return decorate


def clear() -> None:
    """Forget every result, as a server that starts."""
    for results in (RESULTS, *_AGING):
        results.clear()


def _table_source(argument: Any) -> str:
    """Return the name of the table that a setting or query reads, "" for none."""
    if isinstance(argument, Setting):
        return argument.learned_source
    return getattr(argument.config, "source", "") if isinstance(argument, Request) else ""
