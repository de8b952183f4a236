"""Names and owners of this server's runs and jobs, and the runs that their owners hid."""

import streamlit as st

from dashboard.compute import runs
from dashboard.server import identity
from dashboard.text import listed
from posenc.checkpoints.file_store import store_url
from posenc.errors import RunError
from posenc.lab.jobs import Job
from posenc.lab.labels import Label, Labels, hidden, names
from posenc.lab.specification import Specification
from posenc.text import printable_name

OWNER_SHOWN = 40  # characters


@st.cache_resource(max_entries=4, show_spinner=False)
def _opened(url: str) -> Labels:
    return Labels(url)


@st.cache_data(max_entries=4, ttl=runs.LISTED_FOR, show_spinner=False)
def _labels(url: str) -> dict[str, tuple[Label, ...]]:
    return _opened(url).all()


def known() -> dict[str, tuple[Label, ...]]:
    """Return the labels of this server's runs; none while they cannot be read."""
    try:
        return _labels(store_url())
    except RunError:
        return {}


def hidden_runs() -> frozenset[str]:
    """Return the runs that their owners hid."""
    return frozenset(run for run, labels in known().items() if hidden(labels))


def started(asked: list[Specification], name: str) -> None:
    """Label what a visitor has just started; what others called the same runs stays as it is.

    Raises RunError where that cannot be written.
    """
    found, owner = _opened(store_url()), identity.name()
    for one in asked:
        label = Label(one.run_id, owner, name)
        if identity.may_own() and name:
            found.put(label)
        elif owner or name:  # of nobody known: the first to name it did
            found.add(label)
    _labels.clear()


def called(asked: list[Specification]) -> str:
    """Return what people call these runs, "" where nobody called any of them anything."""
    everything = known()
    found = [label for one in asked for label in everything.get(one.run_id, ())]
    words = []
    for name in names(found):
        owners = [one.owner for one in found if one.name == name and one.owner and not one.hidden]
        people = [*dict.fromkeys(printable_name(owner, OWNER_SHOWN) for owner in owners)]
        words.append(f"{name} ({listed(people)})" if people else name)
    return listed(words) if words else ""


def may_stop(entry: Job) -> bool:
    """Whether this visitor may stop a start: its owner alone, anybody where that is nobody known."""
    return entry.owner in ("", identity.name())
