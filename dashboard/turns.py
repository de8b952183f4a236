"""Turns of this server's page scripts: one after the other, so that all are done sooner.

Python runs one thread at a time. Twenty scripts that take turns of some milliseconds each are all done
when the last one is, and what is sent of them waits for each of them; in the order in which they came, the
first is done after its own time, and on average they wait for half as long. Who takes long gives up the
turn and goes on beside the others.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 0.25  # seconds: several times what a page takes of whose numbers none are there yet


class Turns:
    """One turn after the other. longest: seconds after which the next one begins all the same."""

    def __init__(self, longest: float = LONGEST) -> None:
        self._longest = longest
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._now: threading.Event | None = None
        self._began = 0.0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, first come, first served, and have it until the context ends."""
        mine = threading.Event()
        with self._lock:
            self._waiting.append(mine)
        while not mine.wait(self._call()):
            pass
        try:
            yield
        finally:
            with self._lock:
                if self._now is mine:
                    self._now = None
            self._call()

    def _call(self) -> float:
        """Call the next one if it is time; return the seconds until that may be so."""
        with self._lock:
            left = self._began + self._longest - time.monotonic()
            if self._now is not None and left > 0:
                return left
            self._now = self._waiting.popleft() if self._waiting else None
            if self._now is not None:
                self._began = time.monotonic()
                self._now.set()
            return self._longest


server = Turns()
