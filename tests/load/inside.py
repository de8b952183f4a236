"""The app as an operator starts it, with a socket that counts what its containers hold.

`python -m tests.load.inside SOCKET ...` takes the arguments of `python -m dashboard` after the socket.
For the load test alone: a server that people reach has no such thing.
"""

import collections
import gc
import json
import socket
import sys
import threading
from pathlib import Path

from pandas._libs.internals import BlockValuesRefs

LEAST = 4  # held by a container that is counted
_CONTAINERS = (dict, list, set, collections.deque)


def census() -> dict[str, tuple[str, int]]:
    """Return the containers of this process by their address: type with a hint, and length."""
    gc.collect()
    found = {}
    objects = gc.get_objects()
    # Weak references to the views of a frame's block: pandas drops the dead ones past 500.
    views = {
        id(part)
        for one in objects
        if isinstance(one, BlockValuesRefs)
        for part in gc.get_referents(one)
    }
    for one in objects:
        bounded = isinstance(one, collections.deque) and one.maxlen is not None
        bounded = bounded or id(one) in views
        if isinstance(one, _CONTAINERS) and len(one) >= LEAST and not bounded:
            found[str(id(one))] = (_told(one), len(one))
    return found


def _told(one: object) -> str:
    kind = type(one).__name__
    try:
        first = next(iter(one))  # type: ignore[call-overload]
    except (StopIteration, RuntimeError):  # it changes while it is read
        return kind
    return f"{kind} of {type(first).__name__} {str(first)[:60] if isinstance(first, str) else ''}"


def answer(place: Path) -> None:
    """Answer everyone who connects with one census."""
    place.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(place))
        door.listen()
        while True:
            asked, _ = door.accept()
            with asked:
                asked.sendall(json.dumps(census()).encode())


if __name__ == "__main__":
    threading.Thread(target=answer, args=(Path(sys.argv[1]),), daemon=True).start()
    from dashboard.__main__ import main

    sys.exit(main(sys.argv[2:]))
