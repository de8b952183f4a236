"""What a server prints: one whose output nobody can take serves and ends all the same.

Streamlit 1.67 prints its addresses once it serves, and that it stops before it does: a pipe that its
reader has closed, a terminal that is gone or a full disk would end the one and prevent the other.
"""

import contextlib
import io
import sys
from typing import Any


class Lenient(io.FileIO):
    """A file of the system that forgets what it cannot write."""

    def write(self, data: Any, /) -> int:
        """Write what can be written, and say that it was all."""
        left = memoryview(data).cast("B")
        size = left.nbytes
        with contextlib.suppress(OSError):
            while left and (written := super().write(left)):  # None: nobody takes it just now
                left = left[written:]
        return size


def install() -> None:
    """Let nothing that this process prints fail, whatever has become of where it goes."""
    for name in ("stdout", "stderr"):
        now = getattr(sys, name)
        try:
            file = Lenient(now.fileno(), "w", closefd=False)
        except (AttributeError, OSError):  # there is none, or it is no file of the system
            continue
        with contextlib.suppress(OSError):
            now.flush()
        written = io.TextIOWrapper(
            io.BufferedWriter(file), encoding=now.encoding, errors=now.errors, line_buffering=True
        )
        setattr(sys, name, written)
