"""Disks that are full or read-only, for tests: calls that change what is below a folder fail."""

import contextlib
import errno
import io
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FULL = errno.ENOSPC
CALLS = ("mkdir", "open", "write", "fsync", "link", "replace", "unlink")
TAKING_SPACE = CALLS[:-1]  # what a full disk refuses


class BadDisk:
    """Refuses calls number `first` to `last`, counted from 1, of those in `calls` below a folder.

    "open" is of a file to be made or written. A "write" that is refused has written half.
    """

    def __init__(
        self, folder: Path, error: int, calls: tuple[str, ...], first: int, last: float
    ) -> None:
        self.folder, self.error, self.calls = os.path.realpath(folder), error, calls
        self.first, self.last = first, last
        self.met = 0  # calls so far
        self.refused: list[str] = []

    def check(self, call: str, path: object) -> None:
        """Raise OSError if the call is to be refused. path: of what it changes."""
        place = os.path.realpath(os.fspath(path))  # type: ignore[call-overload]
        if call not in self.calls or os.path.commonpath([place, self.folder]) != self.folder:
            return
        self.met += 1
        if self.first <= self.met <= self.last:
            self.refused.append(call)
            raise OSError(self.error, os.strerror(self.error))


class _File:
    """A file that is being written on a bad disk."""

    def __init__(self, file: Any, disk: BadDisk) -> None:
        self.file, self.disk = file, disk

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, content: Any) -> int:
        """Write all, or half of it and fail."""
        try:
            self.disk.check("write", self.file.name)
        except OSError:
            self.file.write(content[: len(content) // 2])
            self.file.flush()
            raise
        return int(self.file.write(content))


@contextlib.contextmanager
def bad_disk(
    folder: Path,
    error: int,
    calls: tuple[str, ...] = CALLS,
    *,
    first: int = 1,
    last: float = math.inf,
) -> Iterator[BadDisk]:
    """Let a folder be on a bad disk for as long as the context lasts."""
    disk = BadDisk(folder, error, calls, first, last)
    opened, opened_path, synced = os.open, io.open, os.fsync

    def open_number(path: Any, flags: int, *more: Any, **named: Any) -> int:
        changes = flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)
        if changes and (disk.error != FULL or not os.path.exists(path)):  # full: new files alone
            disk.check("open", path)
        return opened(path, flags, *more, **named)

    def open_file(path: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
        if isinstance(path, int) or not set(mode) & set("wax+"):
            return opened_path(path, mode, *more, **named)
        disk.check("open", path)
        return _File(opened_path(path, mode, *more, **named), disk)

    def sync(number: int) -> None:
        disk.check("fsync", f"/proc/self/fd/{number}")
        synced(number)

    def of(call: str, real: Callable[..., Any], place: int) -> Callable[..., Any]:
        def checked(*paths: Any, **named: Any) -> Any:
            disk.check(call, paths[place])
            return real(*paths, **named)

        return checked

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "open", open_number)
        patched.setattr(io, "open", open_file)
        patched.setattr(os, "fsync", sync)
        for call, place in (("mkdir", 0), ("link", 1), ("replace", 1), ("unlink", 0)):
            patched.setattr(os, call, of(call, getattr(os, call), place))
        yield disk
