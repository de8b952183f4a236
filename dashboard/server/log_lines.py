"""The log as JSON lines: one event a line, and nothing in it that a visitor or a file wrote.

Of this project's own loggers the message stands in it, which holds names of runs and incidents alone.
Of others only the constant part does, and whole numbers where nothing else was put into it: a word that
was, and what an exception says, may quote a link, a file name or a text. The place in the code tells the
rest.
"""

import contextlib
import json
import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

VARIABLE = "POSENC_LOGS"  # "lines", or text
OWN = ("posenc", "dashboard")  # what a logger of this project is called, or begins with
_FRAMES = 16  # of a trace
_ROOT = Path(__file__).parents[2]
_PACKAGES = ("site-packages/", "dist-packages/")


def event(log: logging.Logger, name: str, **facts: str | float | bool | list[str] | None) -> None:
    """Write an event: its name, and facts of which none is a visitor's words."""
    told = "".join(f" {key}={value}" for key, value in facts.items())
    log.info("%s%s", name, told, extra={"event": name, "facts": facts})


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a line feed at its end."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said: dict[str, Any] = {"at": at, "level": record.levelname, "logger": record.name}
        name = getattr(record, "event", None)
        if name is not None:
            said |= {"event": str(name), **getattr(record, "facts", {})}
        elif record.name.split(".")[0] in OWN:
            said["event"] = record.getMessage()
        else:
            place = f"{_place(record.pathname)}:{record.lineno}"
            said |= {"event": _constant(record), "place": place}
        fault = getattr(record, "fault", None)
        if fault is None and record.exc_info:
            fault = record.exc_info[1]
        if fault is not None:
            said |= _fault(fault)
        return json.dumps(said, default=str)


def install(kind: str) -> None:
    """Make this process log as `kind` says: "lines" as JSON lines, anything else as text for people."""
    if kind != "lines":
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(True)
    # A warning is formatted as text before it is logged: only its kind and place are kept.
    warnings.showwarning = _warned
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    place = f"{_place(filename)}:{lineno}"
    event(logging.getLogger("posenc.warnings"), "warning", kind=category.__name__, place=place)


def _uncaught(kind: type[BaseException], fault: BaseException | None, trace: object) -> None:
    if fault is not None and issubclass(kind, Exception):
        known = (kind, fault, fault.__traceback__)
        logging.getLogger("posenc").error("uncaught", exc_info=known)


def _fault(error: BaseException | None) -> Mapping[str, Any]:
    """Return what kind of exception it was, and where; not what it says."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    kinds: list[str] = []
    while error is not None and len(kinds) < 8:
        kinds.append(type(error).__name__)
        error = error.__cause__ or error.__context__
    where = [f"{_place(one.filename)}:{one.lineno} {one.name}" for one in frames[-_FRAMES:]]
    return {"fault": kinds, "where": where}


def _constant(record: logging.LogRecord) -> str:
    """Return what another's code says without what was put into it, unless that is whole numbers alone."""
    given = record.args
    if not given:
        return "log"  # its text may have been put together
    numbers = isinstance(given, tuple) and all(
        type(one) is int and abs(one) < 2**64 for one in given
    )
    if numbers:
        with contextlib.suppress(TypeError, ValueError):
            return record.getMessage()[:200]
    return str(record.msg)[:200]


def _place(path: str) -> str:
    """Return a file of ours, or of a package, without the folders above."""
    path = path.replace("\\", "/")
    for part in (*_PACKAGES, f"{_ROOT.as_posix()}/"):
        if part in path:
            return path.rpartition(part)[2]
    return Path(path).name
