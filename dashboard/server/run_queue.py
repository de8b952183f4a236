"""Turns of this server's page scripts: one after the other, so that all are done sooner.

Python runs one thread at a time. Twenty scripts at once are all done when the last one is. In the order in
which they came, they wait for half as long on average. A script that takes long goes on beside the next.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 0.25  # seconds: several times what a page takes of whose numbers none are there yet


class RunQueue:
    """One turn after the other. longest: seconds after which the next one begins all the same."""

    def __init__(self, longest: float = LONGEST) -> None:
        self._longest = longest
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._running: object | None = None
        self._began = 0.0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, first come, first served; the context is the turn."""
        mine = object()
        with self._changed:
            self._waiting.append(mine)
            try:
                while self._waiting[0] is not mine or self._time_left() > 0:
                    self._changed.wait(self._time_left() or self._longest)
                self._running, self._began = mine, time.monotonic()
            finally:
                self._waiting.remove(mine)
        try:
            yield
        finally:
            with self._changed:
                if self._running is mine:
                    self._running = None
                self._changed.notify_all()

    def _time_left(self) -> float:
        """Return the seconds that the running script has left of its turn, 0 if none runs."""
        if self._running is None:
            return 0.0
        return max(0.0, self._began + self._longest - time.monotonic())


server = RunQueue()
