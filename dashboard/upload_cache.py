"""Tables that visitors uploaded, cached in memory: bounded for all visitors and for each of them."""

import hashlib
import re
import threading
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from posenc import limits
from posenc.checkpoints.position_table import PositionTable
from posenc.checkpoints.sources import add_finder
from posenc.errors import CheckpointError

Value = TypeVar("Value")
MAX_TABLES = 32
MAX_BYTES = 256 * 2**20  # of all tables together, as many as the largest table has


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


cached_tables: UploadCache[PositionTable] = UploadCache(
    MAX_TABLES, MAX_BYTES, lambda table: table.table.nbytes
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
