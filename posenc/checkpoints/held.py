"""What visitors gave, in memory by name: bounded in number and in bytes, of all and of each of them."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")
SHARE = 4  # owners that may take all the room together


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
        self._owners: dict[str, str] = {}  # "" of those that several have put in
        self._bytes = 0
        self._lock = threading.Lock()

    def __contains__(self, name: str) -> bool:
        """Whether a value of this name is held now; asking is no use of it."""
        with self._lock:
            return name in self._values

    def put(self, name: str, value: Value, owner: str | None = None) -> None:
        """Hold a value under a name, instead of what was held under it.

        owner: who puts it in. What one alone has put in takes at most a quarter of the number and of the
        bytes: their own least recently used go first, the one just put in stays. What several have put in
        is nobody's: no one of them takes it from the others.
        """
        with self._lock:
            if name in self._values:
                self._bytes -= self._size(self._values.pop(name))
            self._values[name] = value
            self._bytes += self._size(value)
            if owner is not None:
                if self._owners.setdefault(name, owner) == owner:
                    self._within_share(name, owner)
                else:
                    self._owners[name] = ""
            while len(self._values) > 1 and (
                len(self._values) > self._most or self._bytes > self._most_bytes
            ):
                self._drop(next(iter(self._values)))

    def _within_share(self, last: str, owner: str) -> None:
        own = [one for one in self._values if self._owners.get(one) == owner]
        taken = sum(self._size(self._values[one]) for one in own)
        while own[0] != last and (
            len(own) > self._most // SHARE or taken > self._most_bytes // SHARE
        ):
            taken -= self._size(self._values[own[0]])
            self._drop(own.pop(0))

    def _drop(self, name: str) -> None:
        self._bytes -= self._size(self._values.pop(name))
        self._owners.pop(name, None)

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
