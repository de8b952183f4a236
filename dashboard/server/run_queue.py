"""Turns of this server's page scripts: one after the other, so that all are done sooner.

Python runs one thread at a time. Twenty scripts that take turns of some milliseconds each are all done
when the last one is, and what is sent of them waits for each of them; in the order in which they came, the
first is done after its own time, and on average they wait for half as long.

Scripts that take long would keep the others waiting for nothing. One gives up its turn after a while and
goes on beside the others, and the next one of its session is not in the queue at all.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import streamlit as st
from streamlit.runtime.scriptrunner import RerunException

LONGEST = 0.25  # seconds: several times what a page takes of whose numbers none are there yet


@dataclass
class Standing:
    """How the last script of a session went. long: longer than a turn. anew: only to begin again."""

    long: bool = False
    anew: bool = False


class Turns:
    """One turn after the other. longest: seconds after which the next one begins all the same."""

    def __init__(self, longest: float = LONGEST) -> None:
        self._longest = longest
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._now: threading.Event | None = None
        self._began = 0.0

    @contextmanager
    def turn(self, session: Standing) -> Iterator[None]:
        """Wait for a turn, first come, first served, and have it until the context ends.

        A session whose last script took longer than a turn does not wait, and takes none. One whose script
        was called off, because its visitor has turned the next control, keeps its place.
        """
        if session.long:
            worked = time.thread_time()  # not the time that others took meanwhile
            try:
                yield
            finally:
                session.long = time.thread_time() - worked > self._longest
            return
        mine = threading.Event()
        with self._lock:
            (self._waiting.appendleft if session.anew else self._waiting.append)(mine)
        session.anew = False
        try:
            while not mine.wait(self._call()):
                pass
            began = time.monotonic()
            try:
                yield
            except RerunException:
                session.anew = True
                raise
            finally:
                session.long = time.monotonic() - began > self._longest
        finally:
            with self._lock:
                if self._now is mine:
                    self._now = None
                elif mine in self._waiting:
                    self._waiting.remove(mine)
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


def standing() -> Standing:
    """Return how the last script of this session went."""
    found: Standing = st.session_state.setdefault("standing", Standing())
    return found
