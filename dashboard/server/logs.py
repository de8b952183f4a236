"""What a server writes: its log, of this code and of Streamlit's alike, and what Streamlit prints."""

import contextlib
import logging
import sys
from functools import partial
from typing import Any

import streamlit.logger
import uvicorn.config

from dashboard.server import log_lines, settings

log = logging.getLogger("dashboard")
event = partial(log_lines.event, log)


def install() -> None:
    """Make this process log as its settings say, once, before it serves."""
    allowed = settings.current()
    log_lines.install(allowed.logs)
    if allowed.logs == "lines":
        # Streamlit gives every logger of its own, and of its server, a handler that writes text.
        streamlit.logger.setup_formatter = _plain
        for logger in streamlit.logger._loggers.values():
            _plain(logger)
        # The same for its web server, which takes this up whenever it starts.
        quiet = {"handlers": [], "level": "INFO", "propagate": True}
        uvicorn.config.LOGGING_CONFIG["loggers"] = {
            "uvicorn": quiet,
            "uvicorn.error": quiet,
            "uvicorn.access": quiet
            | {"level": "WARNING"},  # no line for each request: it quotes links
        }
    event(
        "server_started",
        profile=allowed.profile,
        uploads=allowed.uploads,
        training=allowed.training,
        hub=allowed.hub,
    )


def _plain(logger: logging.Logger) -> None:
    """Take a logger's own handlers away, so that what it says goes where all goes."""
    for handler in [*logger.handlers]:
        logger.removeHandler(handler)
    logger.propagate = True


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
