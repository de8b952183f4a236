"""Faults of a page in words: a library error is its sentence, a fault of ours an incident."""

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import streamlit as st

from dashboard.server.settings import ServerSettingError
from dashboard.text import plain
from posenc import PosencError

log = logging.getLogger("dashboard")

# Whatever it is: readers of files have errors that derive from nothing narrower. Streamlit's control
# flow (rerun, stop) is no Exception and passes through.
ANY_FAULT = (Exception,)


def sentence(error: Exception) -> str:
    """Return what a visitor is told of an error; what is no library error is logged with an id."""
    if isinstance(error, PosencError) and not isinstance(error, ServerSettingError):
        return str(error)
    incident = uuid.uuid4().hex[:8]
    if isinstance(error, ServerSettingError):
        # Its operator's affair, and it quotes what is set, which may be a place or a password.
        log.error("incident %s: %s", incident, error)
        return (
            f"This server is not set up so that it can show pages; its log names the reason as incident "
            f"{incident}."
        )
    log.error("incident %s", incident, exc_info=error)
    return (
        f"This could not be computed. The log of the server names the fault as incident {incident}; other "
        "pages and settings still work."
    )


def tell(error: Exception, place: Any = st) -> bool:
    """Draw the sentence of an error that ended a run; return that nothing else is said of it.

    Streamlit calls this; else it would say in a box of its own that something failed, without an id.
    """
    # A visitor's file or tensor may be named in it.
    place.error(plain(sentence(error)), icon=":material/block:")
    return True


@contextmanager
def show_errors(place: Any = st) -> Iterator[None]:
    """Turn an error into its sentence in a place; what stands around it is drawn all the same."""
    try:
        yield
    except ANY_FAULT as error:
        tell(error, place)
