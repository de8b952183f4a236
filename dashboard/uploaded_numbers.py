"""Number tables that visitors uploaded to be identified, cached under names made of their content."""

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dashboard.upload_cache import UploadCache
from posenc.checkpoints.array_files import NumberTable
from posenc.errors import CheckpointError

MAX_TABLES = 32
MAX_NUMBERS = 2**22  # of one cached table; rows beyond them are left out
MAX_COLUMNS = 16_384
MAX_BYTES = 128 * 2**20  # of all together
NAME = r"array-[0-9a-f]{12}"


@dataclass(frozen=True, slots=True, eq=False)
class UploadedNumbers:
    """A table of one file, or cosines and sines of two.

    source: its file, for people. files: names of the file, or of the two. tensor: its name where the file
    has several tables, of which another may be chosen.
    """

    table: NumberTable
    source: str
    files: tuple[str, ...] = ()
    tensor: str | None = None


def _size(numbers: UploadedNumbers) -> int:
    table = numbers.table
    return table.table.nbytes + (0 if table.sines is None else table.sines.nbytes)


cached_numbers: UploadCache[UploadedNumbers] = UploadCache(MAX_TABLES, MAX_BYTES, _size)


def max_rows(width: int) -> int:
    """Return how many rows of a table of this width are cached."""
    return max(2, MAX_NUMBERS // width)


def without_extra_rows(table: NumberTable) -> NumberTable:
    """Return a table of two axes with the rows that are cached, and a note of the rows left out.

    Raises CheckpointError for more than 16,384 columns, for an array without rows and columns, and for
    cosines and sines of different shapes.
    """
    matrix = _matrix(table.table)
    sines = None if table.sines is None else _matrix(table.sines)
    rows, width = matrix.shape
    if sines is not None and sines.shape != matrix.shape:
        raise CheckpointError(
            f"Cosines and sines must have one shape, these have {tuple(matrix.shape)} and "
            f"{tuple(sines.shape)}."
        )
    if width > MAX_COLUMNS:
        raise CheckpointError(
            f"A table may have at most {MAX_COLUMNS:,} columns; this table has {width:,}."
        )
    cached, notes = min(rows, max_rows(width)), table.notes
    if cached < rows:
        notes = (*notes, f"Only the first {cached:,} of {rows:,} rows are checked.")
    return replace(
        table,
        table=matrix[:cached].clone(),
        sines=None if sines is None else sines[:cached].clone(),
        notes=notes,
    )


def cache_numbers(numbers: UploadedNumbers, owner: str | None = None) -> str:
    """Cache a table without extra rows and return its name, which is the same in every process.

    Equal numbers from another file have another name, so that nobody sees the name of somebody else's
    file.
    """
    table = numbers.table
    # Everything that a visitor sees of it: results are cached by the name.
    visible = (
        table.table.shape,
        table.table.dtype,
        numbers.source,
        table.notes,
        numbers.files,
        numbers.tensor,
    )
    content = hashlib.sha256(repr(visible).encode())
    for part in (table.table, table.sines):
        if part is not None:
            content.update(b"\0")
            content.update(part.contiguous().view(torch.uint8).numpy().tobytes())
    name = f"array-{content.hexdigest()[:12]}"
    cached_numbers.put(name, numbers, owner)
    return name


def _matrix(table: Tensor) -> Tensor:
    matrix = table
    while matrix.ndim > 2 and 1 in matrix.shape:
        matrix = matrix.squeeze(matrix.shape.index(1))
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise CheckpointError(
            f"A table has rows and columns; this array has the shape {tuple(table.shape)}."
        )
    return matrix
