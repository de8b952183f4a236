"""Labels of runs: the names that visitors gave them, their owners, and which runs are hidden."""

import streamlit as st

from dashboard import runs
from dashboard.server import identity
from dashboard.text import listed
from posenc.checkpoints.file_store import store_url
from posenc.errors import RunError
from posenc.lab.jobs import Job
from posenc.lab.labels import Label, Labels, hidden, names
from posenc.lab.specification import Specification
from posenc.text import printable_name

LIST_SECONDS = 5.0  # until the labels are read again
OWNER_SHOWN = 40  # characters


@st.cache_resource(max_entries=4, show_spinner=False)
def _open(url: str) -> Labels:
    return Labels(url)


@st.cache_data(max_entries=4, ttl=LIST_SECONDS, show_spinner=False)
def _labels(url: str) -> dict[str, tuple[Label, ...]]:
    return _open(url).all()


def all_labels() -> dict[str, tuple[Label, ...]]:
    """Return the labels of this server's runs by run; none while they cannot be read."""
    try:
        return _labels(store_url())
    except RunError:
        return {}


def hidden_runs() -> frozenset[str]:
    """Return the runs that their owners hid."""
    return frozenset(run for run, labels in all_labels().items() if hidden(labels))


def shown_runs(asked: str = "") -> tuple[str, ...]:
    """Return the ids of the runs that lists show: without those that their owners hid.

    asked: the comparison of a link, which is shown with its hidden runs.
    """
    ids, hidden_ids = runs.all_ids(), hidden_runs()
    compared = {info.run_id for info in runs.comparisons(ids).get(asked, ())}
    return tuple(run_id for run_id in ids if run_id not in hidden_ids or run_id in compared)


def label_started(specifications: list[Specification], name: str) -> None:
    """Label the runs that a visitor has just started; labels by other visitors stay.

    Raises RunError where the labels cannot be written.
    """
    store, owner = _open(store_url()), identity.name()
    for specification in specifications:
        label = Label(specification.run_id, owner, name)
        if identity.may_own() and name:
            store.put(label)
        elif owner or name:  # an unknown visitor does not replace the first name
            store.add(label)
    _labels.clear()


def names_with_owners(specifications: list[Specification]) -> str:
    """Return the names of these runs, each with its owners, as a list in words; "" without a name."""
    by_run = all_labels()
    labels = [label for run in specifications for label in by_run.get(run.run_id, ())]
    words = []
    for name in names(labels):
        owners = [label.owner for label in labels if label.name == name and not label.hidden]
        people = dict.fromkeys(printable_name(owner, OWNER_SHOWN) for owner in owners if owner)
        words.append(f"{name} ({listed([*people])})" if people else name)
    return listed(words) if words else ""


def may_stop(job: Job) -> bool:
    """Whether this visitor may stop a job: its owner, or anybody where its owner is unknown."""
    return job.owner in ("", identity.name())
