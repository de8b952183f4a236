"""What may go wrong on a page: a library error is its sentence, a fault of ours an incident."""

import logging
import traceback
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from dashboard.server import counters
from dashboard.server.settings import ServerSettingError
from dashboard.text import plain
from posenc import PosencError

log = logging.getLogger("dashboard")

MOST_CHARACTERS = 2_000  # of one line of the log
MOST_LINES = 200  # of one fault, the last ones, which say what happened

# Whatever it is: readers of files have errors that derive from nothing narrower. Streamlit's control
# flow (rerun, stop) is no Exception and passes through.
_ANY_FAULT = (Exception,)


class PageEnded(Exception):
    """A page has said all it can; what stands around it is still drawn."""


@contextmanager
def show_errors(what: str = "This page could not be computed.") -> Iterator[None]:
    """Turn a library error into its sentence, anything else into an incident with an id in the log."""
    try:
        yield
    except PageEnded:
        pass
    except ServerSettingError as error:
        # Its operator's affair, and it quotes what is set, which may be a place or a password.
        incident = _log_incident(error, said=str(error))
        st.error(
            f"This server is not set up so that it can show pages; its log names the reason as incident "
            f"{incident}.",
            icon=":material/error:",
        )
    except PosencError as error:
        # A visitor's file or tensor may be named in it.
        st.error(plain(str(error)), icon=":material/block:")
    except _ANY_FAULT as error:
        incident = _log_incident(error)
        st.error(
            f"{what} The log of the server names the fault as incident {incident}; other pages and "
            f"settings still work.",
            icon=":material/error:",
        )


# Decorates what a widget calls before the page is run; else Streamlit says in a box of its own that
# something failed, without an id, and draws no page.
show_callback_errors = show_errors("What was asked for could not be done.")


def _log_incident(error: Exception, **facts: str) -> str:
    """Log a fault and return the incident's id. facts: for the log of JSON lines, no visitor's words."""
    incident = uuid.uuid4().hex[:8]
    counters.here.count("incidents")
    known = {"event": "incident", "facts": {"incident": incident, **facts}, "fault": error}
    log.error("%s", of_fault(incident, error), extra=known)
    return incident


def of_fault(incident: str, error: BaseException) -> str:
    """Return a fault with its trace, every line under the incident's id.

    A message may quote what a visitor wrote: no line of it can pass for a record of its own.
    """
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    trace = "".join(traceback.format_exception(error, limit=-MOST_LINES)).splitlines()
    return "\n".join(
        f"incident {incident}: {one_line(line)}" for line in [kind, *trace[-MOST_LINES:]]
    )


def one_line(text: str) -> str:
    """Return a text as one printable line: controls, line ends and lone surrogates as escapes."""
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text[:MOST_CHARACTERS]
    )
    return shown if len(text) <= MOST_CHARACTERS else shown + "…"
