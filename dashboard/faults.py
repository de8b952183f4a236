"""What may go wrong on a page: a library error is its sentence, a fault of ours an incident."""

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st
import streamlit.errors

from dashboard import counters
from posenc import PosencError

log = logging.getLogger("dashboard")

# What a fault in our own code can raise; Streamlit's control flow (rerun, stop) passes through.
_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    StopIteration,
    streamlit.errors.Error,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


class Ended(Exception):
    """A page has said all it can; what stands around it is still drawn."""


@contextmanager
def kind_errors() -> Iterator[None]:
    """Turn a library error into its sentence, anything else into an incident with an id in the log."""
    try:
        yield
    except Ended:
        pass
    except PosencError as error:
        st.error(str(error), icon=":material/block:")
    except _FAULTS as error:
        incident = uuid.uuid4().hex[:8]
        counters.here.count("incidents")
        known = {"event": "incident", "facts": {"incident": incident}}
        log.exception("incident %s: %s", incident, type(error).__name__, extra=known)
        st.error(
            f"This page could not be computed. The log of the server names the fault as incident "
            f"{incident}; other pages and settings still work.",
            icon=":material/error:",
        )
