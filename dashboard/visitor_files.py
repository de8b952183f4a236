"""Files of visitors, cached in memory under names made of their content, bounded for all and for each.

A learned table is for the panels of Learned; a table of numbers is for identification. The options of a
page that takes files hold their names.
"""

import hashlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from posenc import fields, limits
from posenc.checkpoints.array_files import NumberTable
from posenc.checkpoints.position_table import PositionTable
from posenc.checkpoints.sources import add_finder
from posenc.errors import CheckpointError

Value = TypeVar("Value")
MAX_TABLES = 32  # of each kind
MAX_TABLE_BYTES = 256 * 2**20  # of all learned tables, as many as the largest one has
MAX_NUMBER_BYTES = 128 * 2**20  # of all tables of numbers
MAX_NUMBERS = 2**22  # of one cached table of numbers; rows beyond them are left out
MAX_COLUMNS = 16_384
NUMBERS_NAME = r"array-[0-9a-f]{12}"


class _Entry(NamedTuple, Generic[Value]):
    value: Value
    owner: str | None


class UploadCache(Generic[Value]):
    """Values by name, the least recently used evicted first; threads may share it.

    max_items: number of values. max_bytes: of all values together. size: returns the bytes of a value.
    """

    def __init__(self, max_items: int, max_bytes: int, size: Callable[[Value], int]) -> None:
        self.max_items = max_items
        self.max_bytes = max_bytes
        self.size = size
        self._entries: dict[str, _Entry[Value]] = {}  # from the least to the most recently used
        self._lock = threading.Lock()

    def __contains__(self, name: str) -> bool:
        """Whether there is a value of this name; asking does not count as use."""
        with self._lock:
            return name in self._entries

    def put(self, name: str, value: Value, owner: str | None = None) -> None:
        """Store a value; it replaces another of the same name and is not evicted now.

        owner: whose upload it is. The values of one owner take at most a quarter of the number and of
        the bytes. A value that several owners uploaded counts for none of them.
        """
        with self._lock:
            previous = self._entries.pop(name, None)
            if previous is not None and previous.owner != owner:
                owner = None
            self._entries[name] = _Entry(value, owner)
            if owner is not None:
                own = [name for name, entry in self._entries.items() if entry.owner == owner]
                self._evict(own, self.max_items // 4, self.max_bytes // 4)
            self._evict([*self._entries], self.max_items, self.max_bytes)

    def _evict(self, names: list[str], max_items: int, max_bytes: int) -> None:
        sizes = [self.size(self._entries[name].value) for name in names]
        while len(names) > 1 and (len(names) > max_items or sum(sizes) > max_bytes):
            del self._entries[names.pop(0)]
            sizes.pop(0)

    def get(self, name: str) -> Value:
        """Return the value of a name; raises CheckpointError where it is not in memory."""
        with self._lock:
            entry = self._entries.pop(name, None)
            if entry is None:
                raise CheckpointError(
                    f"The uploaded table {name} is not on this server. Upload its file again."
                )
            self._entries[name] = entry
            return entry.value


# Learned tables -------------------------------------------------------------------------------


cached_tables: UploadCache[PositionTable] = UploadCache(
    MAX_TABLES, MAX_TABLE_BYTES, lambda table: table.table.nbytes
)


def cache_table(table: PositionTable, owner: str | None = None) -> str:
    """Cache an uploaded table and return its name, which is the same in every process."""
    # Everything a visitor sees of it: equal bytes may be another dtype, shape, tensor or file.
    content = repr((table.sha256, table.first_row, table.table.shape, table.source_dtype))
    content += repr((table.tensor, table.provenance))
    name = f"table-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    cached_tables.put(name, table, owner)
    return name


def is_evicted(source: str) -> bool:
    """Whether this names an uploaded table that is not in memory."""
    return re.fullmatch(limits.TABLE, source) is not None and source not in cached_tables


add_finder(lambda source: cached_tables.get(source) if re.fullmatch(limits.TABLE, source) else None)


# Tables of numbers -----------------------------------------------------------------------------


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


cached_numbers: UploadCache[UploadedNumbers] = UploadCache(MAX_TABLES, MAX_NUMBER_BYTES, _size)


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


# Options of pages ------------------------------------------------------------------------------


def upload_field(label: str, pattern: str = NUMBERS_NAME) -> Any:
    """Return the field of a page's option that holds the name of an upload, "" for none."""
    rule = fields.Word(pattern=f"({pattern})?", in_words="the name of an upload", label=label)
    return rule.field("")


@dataclass(frozen=True, kw_only=True)
class UploadOptions:
    """The options of a page that takes queries and keys, and that says which file it refused.

    MARKED: the options that say what is open; a refused file counts while they stay as they are.
    """

    UNLINKED: ClassVar[tuple[str, ...]] = ("queries", "keys", "refused")
    MARKED: ClassVar[tuple[str, ...]] = ("part",)

    queries: str = upload_field("Queries")
    keys: str = upload_field("Keys")
    refused: str = fields.Word(
        pattern="(?s).*", in_words="what is open and a file", label="Refused"
    ).field("")

    @property
    def mark(self) -> str:
        """The beginning of the option `refused` while a file is refused in what is open."""
        return f"{', '.join(getattr(self, name) for name in self.MARKED)}: "

    @property
    def refused_file(self) -> str:
        """The file that cannot be read, "" for none, and once something else was opened."""
        return self.refused.removeprefix(self.mark) if self.refused.startswith(self.mark) else ""
