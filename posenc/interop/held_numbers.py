"""Tables of numbers that visitors gave, in memory under names made of their content."""

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.errors import CheckpointError
from posenc.interop.number_tables import NumberTable

NUMBERS_HELD = 32
MOST_NUMBERS = 2**22  # of one table that is held; rows past them are left out
MOST_COLUMNS = 16_384
MOST_BYTES = 128 * 2**20  # of all together
NAME = r"array-[0-9a-f]{12}"


@dataclass(frozen=True, slots=True, eq=False)
class HeldNumbers:
    """A table, or cosines and sines. source: its file, for people. notes: what was taken for granted."""

    table: Tensor
    sines: Tensor | None
    source: str
    notes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of its numbers."""
        parts = [self.table] if self.sines is None else [self.table, self.sines]
        return sum(part.numel() * part.element_size() for part in parts)


_held: OrderedDict[str, HeldNumbers] = OrderedDict()
_lock = threading.Lock()


def hold_numbers(read: NumberTable, source: str) -> str:
    """Keep a table of two axes and return its name; equal content gives equal names everywhere.

    Rows past 2^22 numbers are left out, which is noted. The least recently used tables go first.
    source: the file as people are shown it. Raises CheckpointError for more than 16,384 columns.
    """
    table, sines = _matrix(read.table), None if read.sines is None else _matrix(read.sines)
    rows, width = table.shape
    if sines is not None and sines.shape != table.shape:
        raise CheckpointError(
            f"Cosines and sines must have one shape, these have {tuple(table.shape)} and "
            f"{tuple(sines.shape)}."
        )
    if width > MOST_COLUMNS:
        raise CheckpointError(f"A table may have {MOST_COLUMNS:,} columns, this one has {width:,}.")
    most = max(2, MOST_NUMBERS // width)
    notes = read.notes
    if rows > most:
        notes = (*notes, f"Only the first {most:,} of {rows:,} rows are looked at.")
    table = table[:most].clone()
    sines = None if sines is None else sines[:most].clone()
    one = HeldNumbers(table, sines, source, notes)
    content = hashlib.sha256(repr((table.shape, table.dtype)).encode())
    for part in (table, sines):
        if part is not None:
            content.update(b"\0")
            content.update(part.contiguous().view(torch.uint8).numpy().tobytes())
    name = f"array-{content.hexdigest()[:12]}"
    with _lock:
        _held[name] = one
        _held.move_to_end(name)
        while len(_held) > NUMBERS_HELD or sum(each.size for each in _held.values()) > MOST_BYTES:
            _held.popitem(last=False)
    return name


def are_held(name: str) -> bool:
    """Whether the numbers of this name are in memory now."""
    with _lock:
        return name in _held


def held_numbers(name: str) -> HeldNumbers:
    """Return what is held under a name; raises CheckpointError where nothing is."""
    with _lock:
        if name in _held:
            _held.move_to_end(name)
            return _held[name]
    raise CheckpointError(
        f"The uploaded table {name} is not held by this server; upload its file again."
    )


def _matrix(table: Tensor) -> Tensor:
    """Return a table without its axes of size 1."""
    found = table
    while found.ndim > 2 and 1 in found.shape:
        found = found.squeeze(found.shape.index(1))
    if found.ndim != 2 or 0 in found.shape:
        raise CheckpointError(
            f"A table has rows and columns; this array has the shape {tuple(table.shape)}."
        )
    return found
