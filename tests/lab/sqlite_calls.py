"""The system calls of SQLite, for tests that refuse one of them or kill the process at it."""

import _sqlite3
import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from typing import Any

_GET = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_SET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_INT, _SIZE, _PATH = ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p
_CALLS: dict[bytes, Any] = {  # name: what it is called here, and its result and arguments
    b"open": ("open", _INT, _PATH, _INT, _INT),
    b"write": ("write", ctypes.c_ssize_t, _INT, ctypes.c_void_p, _SIZE),
    b"pwrite": ("write", ctypes.c_ssize_t, _INT, ctypes.c_void_p, _SIZE, ctypes.c_int64),
    b"pwrite64": ("write", ctypes.c_ssize_t, _INT, ctypes.c_void_p, _SIZE, ctypes.c_int64),
    b"ftruncate": ("truncate", _INT, _INT, ctypes.c_int64),
    b"unlink": ("unlink", _INT, _PATH),
}


class _System(ctypes.Structure):
    """The start of sqlite3_vfs, version 3: https://sqlite.org/c3ref/vfs.html."""

    _fields_ = (
        ("version", _INT), ("size", _INT), ("longest", _INT), ("next", ctypes.c_void_p),
        ("name", _PATH), ("data", ctypes.c_void_p), ("methods", ctypes.c_void_p * 13),
        ("set_call", _SET), ("get_call", _GET),
    )  # fmt: skip


@contextlib.contextmanager
def sqlite_calls(check: Callable[[str, str, int], int]) -> Iterator[None]:
    """Ask `check(call, path, flags)` before each call: it returns an errno, 0 to go on.

    call: "open", "write", "truncate" or "unlink". flags: of an "open"; 0 otherwise.
    """
    find = ctypes.CDLL(_sqlite3.__file__).sqlite3_vfs_find
    find.restype, find.argtypes = ctypes.POINTER(_System), [_PATH]
    system = find(None)
    before: dict[bytes, int] = {}
    hooks: list[Any] = []
    for name, (call, *types) in _CALLS.items():
        address = system.contents.get_call(system, name)
        if address:
            before[name] = address
            hook = _hook(call, ctypes.CFUNCTYPE(*types, use_errno=True), address, check)
            hooks.append(hook)  # or it would be freed
            system.contents.set_call(system, name, ctypes.cast(hook, ctypes.c_void_p))
    try:
        yield
    finally:
        for name, address in before.items():
            system.contents.set_call(system, name, address)


def _hook(call: str, kind: Any, address: int, check: Callable[[str, str, int], int]) -> Any:
    real = kind(address)

    def hook(*arguments: Any) -> int:
        place = arguments[0]
        path = (
            os.fsdecode(place)
            if isinstance(place, bytes)
            else os.readlink(f"/proc/self/fd/{place}")
        )
        error = check(call, path, arguments[1] if call == "open" else 0)
        if error:
            ctypes.set_errno(error)
            return -1
        return int(real(*arguments))

    return kind(hook)
