"""What may go wrong on a page: a library error is its sentence, a fault of ours an incident."""

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
_ANY_FAULT = (Exception,)


class PageEnded(Exception):
    """A page has said all it can; what stands around it is still drawn."""


@contextmanager
def show_errors(what: str = "This page could not be computed.", place: Any = st) -> Iterator[None]:
    """Turn a library error into its sentence, anything else into an incident with an id in the log.

    what: what failed. place: where the sentence stands.
    """
    try:
        yield
    except PageEnded:
        pass
    except ServerSettingError as error:
        # Its operator's affair, and it quotes what is set, which may be a place or a password.
        incident = uuid.uuid4().hex[:8]
        log.error("incident %s: %s", incident, error)
        place.error(
            f"This server is not set up so that it can show pages; its log names the reason as incident "
            f"{incident}.",
            icon=":material/error:",
        )
    except PosencError as error:
        # A visitor's file or tensor may be named in it.
        place.error(plain(str(error)), icon=":material/block:")
    except _ANY_FAULT as error:
        incident = uuid.uuid4().hex[:8]
        log.error("incident %s", incident, exc_info=error)
        place.error(
            f"{what} The log of the server names the fault as incident {incident}; other pages and "
            f"settings still work.",
            icon=":material/error:",
        )


# Decorates what a widget calls before the page is run; else Streamlit says in a box of its own that
# something failed, without an id, and draws no page.
show_callback_errors = show_errors("What was asked for could not be done.")
