"""The log of a server: one line for each event, of this code and of Streamlit's alike."""

import logging
from functools import partial

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
        for one in streamlit.logger._loggers.values():
            _plain(one)
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
