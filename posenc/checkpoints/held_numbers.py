"""Tables of numbers that visitors gave, in memory under names made of their content and its source."""

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posenc.checkpoints.array_files import NumberTable
from posenc.checkpoints.held import Held
from posenc.errors import CheckpointError

NUMBERS_HELD = 32
MOST_NUMBERS = 2**22  # of one table that is held; rows past them are left out
MOST_COLUMNS = 16_384
MOST_BYTES = 128 * 2**20  # of all together
NAME = r"array-[0-9a-f]{12}"


@dataclass(frozen=True, slots=True, eq=False)
class HeldNumbers:
    """A table, or cosines and sines. source: its file, for people. notes: what was taken for granted.

    files: names of the file, or of those of cosines and of sines. tensor: its name in the file, or None.
    """

    table: Tensor
    sines: Tensor | None
    source: str
    notes: tuple[str, ...]
    files: tuple[str, ...] = ()
    tensor: str | None = None

    @property
    def size(self) -> int:
        """Bytes of its numbers."""
        parts = [self.table] if self.sines is None else [self.table, self.sines]
        return sum(part.numel() * part.element_size() for part in parts)


_held: Held[HeldNumbers] = Held(NUMBERS_HELD, MOST_BYTES, lambda one: one.size)


def shortened(table: Tensor, sines: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """Return the rows of a table, or of cosines and sines, that are held: the first 2^22 numbers of each.

    Axes of size 1 are dropped. Raises CheckpointError for more than 16,384 columns, for what has no rows
    and columns, and for cosines and sines of two shapes.
    """
    found, beside = _matrix(table), None if sines is None else _matrix(sines)
    width = found.shape[1]
    if beside is not None and beside.shape != found.shape:
        raise CheckpointError(
            f"Cosines and sines must have one shape, these have {tuple(found.shape)} and "
            f"{tuple(beside.shape)}."
        )
    if width > MOST_COLUMNS:
        raise CheckpointError(f"A table may have {MOST_COLUMNS:,} columns, this one has {width:,}.")
    most = max(2, MOST_NUMBERS // width)
    return found[:most].clone(), None if beside is None else beside[:most].clone()


def cut(read: NumberTable) -> NumberTable:
    """Return what is held of a table that was read, with a note of what is left out; see `shortened`."""
    table, sines = shortened(read.table, read.sines)
    kept, rows, notes = len(table), len(_matrix(read.table)), read.notes
    if kept < rows:
        notes = (*notes, f"Only the first {kept:,} of {rows:,} rows are looked at.")
    return replace(read, table=table, sines=sines, notes=notes)


def hold_numbers(
    read: NumberTable, source: str, *, files: tuple[str, ...] = (), tensor: str | None = None,
    owner: str | None = None,
) -> str:  # fmt: skip
    """Keep a table of two axes and return its name: the same file gives the same name everywhere.

    Equal numbers that came otherwise have another name, so that nobody is shown the name of somebody
    else's file. Rows past 2^22 numbers are left out, which is noted. The least recently used go first, also
    of one owner's that take more than a quarter of the room.
    source: the file as people are shown it; files, tensor: as their owner reads them again. Raises
    CheckpointError as `shortened` does.
    """
    held = cut(read)
    table, sines = held.table, held.sines
    one = HeldNumbers(table, sines, source, held.notes, files, tensor)
    # Everything that a visitor is shown of it: results are cached by the name.
    shown = (table.shape, table.dtype, source, held.notes, files, tensor)
    content = hashlib.sha256(repr(shown).encode())
    for part in (table, sines):
        if part is not None:
            content.update(b"\0")
            content.update(part.contiguous().view(torch.uint8).numpy().tobytes())
    name = f"array-{content.hexdigest()[:12]}"
    _held.put(name, one, owner)
    return name


def are_held(name: str) -> bool:
    """Whether the numbers of this name are in memory now."""
    return name in _held


def held_numbers(name: str) -> HeldNumbers:
    """Return what is held under a name; raises CheckpointError where nothing is."""
    found = _held.get(name)
    if found is None:
        raise CheckpointError(
            f"The uploaded table {name} is not held by this server; upload its file again."
        )
    return found


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
