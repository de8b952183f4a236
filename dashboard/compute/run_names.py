"""What people call the runs of this server, and which of them they hid; only their owner changes it."""

import streamlit as st

from dashboard.compute import run_words, runs
from dashboard.controls.widgets import pressed
from dashboard.server import visitor
from dashboard.server.logs import event
from dashboard.text import listed, plain
from posenc.checkpoints.file_store import store_url
from posenc.errors import PosencError, RunError
from posenc.lab.jobs import Job
from posenc.lab.labels import MAX_NAME, Label, Labels, check_name, hidden, names
from posenc.lab.specification import Specification
from posenc.text import printable_name

OWNER_SHOWN = 40  # characters
_MOST_CHOICES = 200  # of one's own runs


@st.cache_resource(max_entries=4, show_spinner=False)
def _opened(url: str) -> Labels:
    return Labels(url)


@st.cache_data(max_entries=4, ttl=runs.LISTED_FOR, show_spinner=False)
def _labels(url: str) -> dict[str, tuple[Label, ...]]:
    return _opened(url).all()


def _read() -> dict[str, tuple[Label, ...]]:
    """Return the labels of this server's runs. Raises RunError while they cannot be read."""
    return _labels(store_url())


def known() -> dict[str, tuple[Label, ...]]:
    """Return the labels of this server's runs; none while they cannot be read."""
    try:
        return _read()
    except RunError:
        return {}


def hidden_runs() -> frozenset[str]:
    """Return the runs that their owners hid."""
    return frozenset(run for run, labels in known().items() if hidden(labels))


def name_field() -> str | None:
    """Draw the field for the name of a start; None where what it holds can be no name."""
    said: str = st.text_input(
        "Name, if you like",
        key="run_name",
        max_chars=MAX_NAME,
        help="Every visitor sees it. "
        + ("You can change it later." if visitor.may_own() else "It cannot be changed later."),
        width=400,
    )
    try:
        return check_name(said.strip()) if said.strip() else ""
    except RunError as error:
        st.error(plain(str(error)), icon=":material/block:")
        return None


def started(asked: list[Specification], name: str) -> None:
    """Label what a visitor has just started; what others called the same runs stays as it is.

    Raises RunError where that cannot be written.
    """
    found, owner = _opened(store_url()), visitor.name()
    for one in asked:
        label = Label(one.run_id, owner, name)
        if visitor.may_own() and name:
            found.put(label)
        elif owner or name:  # of nobody known: the first to name it did
            found.add(label)
    _labels.clear()


def called(asked: list[Specification]) -> str:
    """Return what people call these runs, "" where nobody called any of them anything."""
    everything = known()
    found = [label for one in asked for label in everything.get(one.run_id, ())]
    words = [
        f"{name} ({listed(people)})" if (people := _people(found, name)) else name
        for name in names(found)
    ]
    return listed(words) if words else ""


def _people(found: list[Label], name: str) -> list[str]:
    shown = (one for one in found if one.name == name and one.owner and not one.hidden)
    return list(dict.fromkeys(printable_name(one.owner, OWNER_SHOWN) for one in shown))


def may_stop(entry: Job) -> bool:
    """Whether this visitor may stop a start: its owner alone, anybody where that is nobody known."""
    return entry.owner in ("", visitor.name())


def own() -> None:
    """Draw what renames, hides and shows this visitor's own runs; nothing for somebody unknown."""
    if not visitor.may_own():
        return
    mine = _mine(visitor.name())
    if not mine:
        return
    drawer = st.expander(
        "Name and hide what you trained", key="own_runs", on_change="rerun", icon=":material/label:"
    )
    if not drawer.open:
        return
    with drawer:
        _editor(mine, visitor.name())


def _mine(owner: str) -> dict[str, Label]:
    """Return the runs of an owner that are finished; all of this server's where nobody is known."""
    everything = known()
    made = [run for run in runs.known() if run not in set(runs.shipped())]
    own = {run: [one for one in everything.get(run, ()) if one.owner == owner] for run in made}
    if not owner:
        own = {run: labels or [Label(run)] for run, labels in own.items()}
    return {run: labels[0] for run, labels in own.items() if labels}


def _editor(mine: dict[str, Label], owner: str) -> None:
    about = {one.run_id: one.specification for one in runs.headings(tuple(mine))}
    offered = [run for run in mine if run in about][:_MOST_CHOICES]
    if not offered:
        return

    def told(run: str) -> str:
        one = about[run]
        state = ", hidden" if mine[run].hidden else ""
        name = mine[run].name or run
        return f"{name}: {one.scheme.label}, seed {one.seed}{state}. {run_words.whole(one)}"

    run = st.selectbox("Run", offered, format_func=told, key="own_run")
    name = st.text_input(
        "Its name", mine[run].name, key=f"own_name_{run}", max_chars=MAX_NAME, width=400
    )
    row = st.container(horizontal=True)
    rename = pressed(row, "Rename", key="own_rename", icon=":material/edit:")
    # Each word has a key of its own: what was pressed is done, whatever another tab has done meanwhile.
    hide = not mine[run].hidden
    word, key, icon = (
        ("Hide", "own_hide", "visibility_off") if hide else ("Show again", "own_show", "visibility")
    )
    st.session_state.pop("own_show_asked" if hide else "own_hide_asked", None)
    toggle = pressed(row, word, key=key, icon=f":material/{icon}:")
    st.caption(
        "Hidden runs are in no list. Nothing is deleted: their links still work, and the same start is "
        "not trained again."
    )
    if not (rename or toggle):
        return
    try:
        labels = _opened(store_url())
        if not owner:
            labels.add(Label(run))
        if rename:
            labels.change(run, owner, name=check_name(name.strip()) if name.strip() else "")
        if toggle:
            labels.change(run, owner, hidden=hide)
    except PosencError as error:
        st.error(plain(str(error)), icon=":material/block:")
        return
    event("label_changed", run=run, renamed=rename, hidden=toggle != mine[run].hidden)
    _labels.clear()
    st.rerun()
