"""Output of a server: Python's log, without a word of what visitors wrote, and Streamlit's prints."""

import contextlib
import logging
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

OWN = ("posenc", "dashboard")  # what a logger of this project is called, or begins with
MOST_FRAMES = 16  # of a trace, the last ones
MOST_KINDS = 8  # of an exception and what caused it
_ROOTS = ("site-packages/", "dist-packages/", f"{Path(__file__).parents[2].as_posix()}/")


def begin_log(*, quotes: bool) -> None:
    """Write this process's log to stderr, with uncaught exceptions and warnings.

    quotes: whether it may hold what visitors wrote, as on a server of one person; see `without_quotes`.
    """
    if not quotes:
        logging.setLogRecordFactory(without_quotes)
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, force=True)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)


def without_quotes(*given: Any, **named: Any) -> logging.LogRecord:
    """Return a record, of the arguments of LogRecord, without what may quote a link, a file or a text.

    Of this project's own loggers the message stays: it holds names of jobs, runs and incidents alone. Of
    others its constant part stays, or the place where there is none; of an exception its kind, that of its
    causes, and where it was raised.
    """
    record = logging.LogRecord(*given, **named)
    if record.name.partition(".")[0] not in OWN:
        place = f"{_place(record.pathname)}:{record.lineno}"
        record.msg, record.args = (str(record.msg)[:200] if record.args else place), ()
    if record.exc_info and record.exc_info[1] is not None:
        record.exc_text = kinds_and_places(record.exc_info[1])  # a formatter takes it as it is
    return record


def kinds_and_places(error: BaseException) -> str:
    """Return what kind an exception and its causes are, and where it was raised; not what they say."""
    kinds: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(kinds) < MOST_KINDS:
        kinds.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    frames = traceback.extract_tb(error.__traceback__)[-MOST_FRAMES:]
    places = [f"  {_place(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]
    return "\n".join([" from ".join(kinds), *places])


def _place(path: str) -> str:
    """Return a file of this project, or of a package, without the folders above."""
    path = path.replace("\\", "/")
    for root in _ROOTS:
        if root in path:
            return path.rpartition(root)[2]
    return Path(path).name


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: object) -> None:
    if error is not None and issubclass(kind, Exception):
        known = (kind, error, error.__traceback__)
        logging.getLogger("posenc").error("uncaught", exc_info=known)


class SafeOutput:
    """A stream that drops what it cannot write.

    Streamlit 1.67 prints its addresses once it serves, and that it stops before it does: a pipe that its
    reader has closed, a terminal that is gone or a full disk would end the one and prevent the other.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what can be written, and say that it was all."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()
        return len(text)

    def flush(self) -> None:
        """Do nothing: every text is written at once."""

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the stream."""
        return getattr(self._stream, name)


def make_output_safe() -> None:
    """Let nothing that this process prints fail, whatever has become of where it goes."""
    sys.stdout, sys.stderr = SafeOutput(sys.stdout), SafeOutput(sys.stderr)
