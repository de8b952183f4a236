"""Tensors that were made once and are kept for the next call with the same arguments.

functools.lru_cache counts calls, not bytes: a few long windows in float64 would fill the memory.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from torch import Tensor


class KeptTensors:
    """Results of functions by their arguments; those not asked for the longest leave first.

    most_bytes: of all tensors together; a result that is larger by itself is not kept.
    most_results: their number, because a small tensor takes more memory than its numbers do.
    Threads may share it: two that miss at once both make the result, and one of them is kept.
    """

    def __init__(self, most_bytes: int, most_results: int) -> None:
        self.most_bytes = most_bytes
        self.most_results = most_results
        self._results: OrderedDict[Hashable, tuple[Tensor, ...]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._results)

    def get(
        self, make: Callable[..., tuple[Tensor, ...]], *arguments: Hashable
    ) -> tuple[Tensor, ...]:
        """Return make(*arguments), kept from an earlier call if it still is."""
        key = (make, *arguments)
        with self._lock:
            found = self._results.get(key)
            if found is not None:
                self._results.move_to_end(key)
                return found
        made = make(*arguments)  # not under the lock: others need not wait for it
        size = _bytes_of(made)
        with self._lock:
            if key not in self._results and size <= self.most_bytes:
                self._results[key] = made
                self._bytes += size
                while self._bytes > self.most_bytes or len(self._results) > self.most_results:
                    _, oldest = self._results.popitem(last=False)
                    self._bytes -= _bytes_of(oldest)
        return made


def _bytes_of(tensors: tuple[Tensor, ...]) -> int:
    return sum(x.nbytes for x in tensors)
