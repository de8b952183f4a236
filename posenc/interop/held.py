"""What visitors gave, in memory by name: bounded in number and in bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Held(Generic[Value]):
    """Values by name; the least recently used go first, the one just put in always stays.

    most: their number. most_bytes: of all together, unless the last one is larger by itself. size: the
    bytes of one. Threads may share it.
    """

    def __init__(self, most: int, most_bytes: int, size: Callable[[Value], int]) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._size = size
        self._values: OrderedDict[str, Value] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __contains__(self, name: str) -> bool:
        """Whether a value of this name is held now; asking is no use of it."""
        with self._lock:
            return name in self._values

    def put(self, name: str, value: Value) -> None:
        """Hold a value under a name, instead of what was held under it."""
        with self._lock:
            before = self._values.pop(name, None)
            self._bytes -= 0 if before is None else self._size(before)
            self._values[name] = value
            self._bytes += self._size(value)
            while len(self._values) > 1 and (
                len(self._values) > self._most or self._bytes > self._most_bytes
            ):
                self._bytes -= self._size(self._values.popitem(last=False)[1])

    def get(self, name: str) -> Value | None:
        """Return the value of a name, None where there is none."""
        with self._lock:
            if name not in self._values:
                return None
            self._values.move_to_end(name)
            return self._values[name]

    def size(self) -> int:
        """Return the bytes held."""
        with self._lock:
            return self._bytes
