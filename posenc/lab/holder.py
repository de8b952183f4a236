"""Which process does an entry of the queue: it holds a lock, and a file beside it says its number.

The lock ends with its process, however that ends; the file may stay, and then means nothing.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from posenc.errors import QueueUnwritable
from posenc.run_files import reason

ENDING = ".working"  # of the file with the number
ENDINGS = (".progress", ".progress-new", ".stop", ENDING, ".lock")  # of what is beside an entry


@dataclass(frozen=True)
class Holder:
    """Whoever does the entry `name` in the folder of a queue."""

    folder: Path
    name: str

    def lock(self) -> FileLock:
        """Return the lock of the entry, not yet taken."""
        return FileLock(self.folder / f"{self.name}.lock")

    def is_there(self) -> bool:
        """Whether a living process has the lock; it may where that cannot be told."""
        try:
            return not is_free(self.folder / f"{self.name}.lock")
        except QueueUnwritable:
            return True

    def process(self) -> int | None:
        """Return the number of the process, None for one among other processes than these."""
        try:
            pid, _, numbering = self._file.read_text().partition(" ")
            return int(pid) if numbering in ("", _numbering()) else None  # before, a number alone
        except (OSError, ValueError):
            return None

    def come(self) -> None:
        """Write that this process does it; it has the lock."""
        self._file.write_text(f"{os.getpid()} {_numbering()}")

    def leave(self) -> None:
        """Write that this process does it no more."""
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.name}{ENDING}"


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock at `path`; a look takes it for a moment. Raises QueueUnwritable."""
    lock = FileLock(path)
    try:
        with writing():
            lock.acquire(timeout=0)
    except Timeout:
        return False
    lock.release()
    return True


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Change what is in the folder of a queue. Raises QueueUnwritable where the system refuses."""
    try:
        yield
    except Timeout:  # an OSError, too, though all that it says is that somebody holds a lock
        raise
    except OSError as error:
        raise QueueUnwritable(f"The queue cannot be written: {reason(error)}.") from error


def _numbering() -> str:
    """Return what tells this machine's process numbers from those of others and of containers."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:  # a system that has one numbering
        space = ""
    return f"{socket.gethostname()} {space}".strip()
