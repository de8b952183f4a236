"""The log as JSON lines: one event a line, and nothing in it that a visitor or a file wrote.

Of this project's own loggers the message stands in it, which holds names of runs and incidents alone.
Of others only the constant part does: a word that was put into it, and what an exception says, may quote a
link, a file name or a text. The place in the code tells the rest.
"""

import json
import logging
import sys
import threading
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

VARIABLE = "POSENC_LOGS"  # "lines", or text
OWN = ("posenc", "dashboard")  # what a logger of this project is called, or begins with
_FRAMES = 16  # of a trace
_ROOTS = ("site-packages/", "dist-packages/", f"{Path(__file__).parents[2].as_posix()}/")


def event(log: logging.Logger, name: str, **facts: str | float | bool | list[str] | None) -> None:
    """Write an event: its name, and facts of which none is a visitor's words."""
    text = "".join(f" {key}={value}" for key, value in facts.items())
    log.info("%s%s", name, text, extra={"event": name, "facts": facts})


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a line feed at its end."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"at": at, "level": record.levelname, "logger": record.name}
        name = getattr(record, "event", None)
        if name is not None:
            line |= {"event": str(name), **getattr(record, "facts", {})}
        elif record.name.split(".")[0] in OWN:
            line["event"] = record.getMessage()
        else:  # a text without arguments may have been put together
            line["event"] = str(record.msg)[:200] if record.args else "log"
            line["place"] = f"{_place(record.pathname)}:{record.lineno}"
        fault = getattr(record, "fault", None)
        if fault is None and record.exc_info:
            fault = record.exc_info[1]
        if fault is not None:
            line |= _fault(fault)
        return json.dumps(line, default=str)


def install(kind: str) -> None:
    """Make this process log as `kind` says: "lines" as JSON lines, anything else as text for people."""
    if kind != "lines":
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)


def _uncaught(kind: type[BaseException], fault: BaseException | None, trace: object) -> None:
    if fault is not None and issubclass(kind, Exception):
        known = (kind, fault, fault.__traceback__)
        logging.getLogger("posenc").error("uncaught", exc_info=known)


def _fault(error: BaseException) -> dict[str, Any]:
    """Return what kind of exception it was, and where; not what it says."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    kinds: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(kinds) < 8:
        kinds.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    where = [f"{_place(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]
    return {"fault": kinds, "where": where}


def _place(path: str) -> str:
    """Return a file of ours, or of a package, without the folders above."""
    path = path.replace("\\", "/")
    for root in _ROOTS:
        if root in path:
            return path.rpartition(root)[2]
    return Path(path).name
