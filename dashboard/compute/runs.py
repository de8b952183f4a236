"""Finished runs for the pages: those that ship with the library, and those of this server's store."""

import contextlib
from collections.abc import Iterable, Iterator

import streamlit as st

from posenc.checkpoints.file_store import store_url
from posenc.checkpoints.sources import RESULTS, named_table
from posenc.errors import (
    CheckpointError,
    RunError,
    RunMissing,
    RunOfAnotherVersion,
    StoreUnavailable,
)
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED
from posenc.lab.runs import Run, RunInfo, Store
from posenc.lab.summary import Curve
from posenc.lab.tasks import TASKS, Language
from posenc.schemes import SCHEMES

SHIPPED = str(RESULTS)
BELIEVED_FOR = 60.0  # seconds until a run that could not be read is tried again
LISTED_FOR = 5.0  # seconds that the list of a bucket, or of what ships, is believed


@st.cache_resource(max_entries=4, show_spinner=False)
def _opened(url: str) -> Store:
    return Store(url)


def own_store() -> Store | None:
    """Return this server's store, None where it cannot be opened."""
    try:
        return _opened(store_url())
    except RunError:
        return None


def _stores() -> Iterator[Store]:
    """Return the stores that can be opened: what ships, then this server's own."""
    for store in (_opened(SHIPPED), own_store()):
        if store is not None:
            yield store


@st.cache_data(max_entries=4, ttl=LISTED_FOR, show_spinner=False)
def _listed(url: str) -> list[str]:
    return _opened(url).ids()


def _names(store: Store) -> list[str]:
    """Return the names of a store's runs, read every time from this server's folder alone.

    To look at every file that ships took a tenth of a rerun.
    """
    return store.ids() if store.local and store.url != SHIPPED else _listed(store.url)


def _ids(store: Store) -> list[str]:
    """Return the names of a store's runs, none of a store that cannot be read now.

    No page but those of runs has to do with it.
    """
    try:
        return _names(store)
    except RunError:
        return []


def unreadable() -> str:
    """Say what of this server's store is not shown, "" if nothing."""
    store = own_store()
    try:
        ids = None if store is None else _names(store)
    except RunError:
        ids = None
    if store is None or ids is None:
        return (
            "The models trained on this server cannot be read now; only those that come with the "
            "workbench are shown."
        )
    infos = {name: _read_info(name) for name in ids}
    store.foreign = [name for name in ids if isinstance(infos[name], RunOfAnotherVersion)]
    store.broken = [f"{name}.parquet" for name in ids if type(infos[name]) is RunError]
    faults = store.left_out()
    faults += [
        f"run {name} cannot be read now"
        for name, info in infos.items()
        if isinstance(info, StoreUnavailable)
    ]
    return "; ".join(faults) + "." if faults else ""


def known() -> tuple[str, ...]:
    """Return the names of all runs there are now, the key of what is read of them."""
    return tuple(sorted({name for store in _stores() for name in _ids(store)}))


def listed(hidden: frozenset[str], asked: str = "") -> tuple[str, ...]:
    """Return the names of the runs that lists show, without those that are hidden.

    asked: the comparison of a link; it is shown whole, whoever hid what of it.
    """
    names = known()
    every = comparisons(names)
    whole = {info.run_id for info in every.get(asked, ())}
    return tuple(name for name in names if name not in hidden or name in whole)


def shipped() -> tuple[str, ...]:
    """Return the names of the runs that ship."""
    return tuple(_ids(_opened(SHIPPED)))


# A run never changes, so what was read of one is kept; a fault is believed for a while.
@st.cache_resource(max_entries=16_384, show_spinner=False)
def _heading(name: str, url: str) -> RunInfo:
    return _opened(url).info(name)


@st.cache_resource(max_entries=512, show_spinner=False)
def _whole(name: str, url: str) -> Run:
    return _opened(url).read(name)


@st.cache_resource(max_entries=16_384, ttl=BELIEVED_FOR, show_spinner=False)
def _judged(name: str, url: str) -> RunInfo | RunError:
    """Return what a run is, or what is wrong with its file."""
    try:
        return _heading(name, url)
    except StoreUnavailable:
        raise  # nothing is known of the file
    except RunError as fault:
        return fault


def _read_info(name: str) -> RunInfo | RunError:
    """Return what a run is, or why that cannot be told."""
    fault: RunError = RunMissing(f"There is no run {name}.")
    for store in _stores():
        info: RunInfo | RunError
        try:
            info = _judged(name, store.url)
        except StoreUnavailable as error:
            info = error
        if isinstance(info, RunInfo):
            return info
        if not isinstance(info, RunMissing):
            fault = info
    return fault


def headings(names: tuple[str, ...]) -> list[RunInfo]:
    """Return what the runs of these names are, those that can be read."""
    return [info for info in map(_read_info, names) if isinstance(info, RunInfo)]


def run(name: str) -> Run | None:
    """Return the run of this name, None where it cannot be read now."""
    for store in _stores():
        with contextlib.suppress(RunError):
            return _whole(name, store.url)
    return None


@st.cache_resource(max_entries=8, ttl=BELIEVED_FOR, show_spinner=False)
def with_learned_table(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the finished runs among these whose learned table can be read."""
    return tuple(
        info.run_id
        for info in headings(names)
        if info.stopped is None
        and info.specification.scheme.kind == "learned"
        and _has_table(info.run_id)
    )


def _has_table(name: str) -> bool:
    try:
        named_table(f"run-{name}")
    except CheckpointError:
        return False
    return True


@st.cache_resource(max_entries=8, ttl=BELIEVED_FOR, show_spinner=False)
def comparisons(names: tuple[str, ...]) -> dict[str, list[RunInfo]]:
    """Return the runs by comparison: language first, what ships first, short lengths first."""
    groups: dict[str, list[RunInfo]] = {}
    for info in headings(names):
        groups.setdefault(summary.comparison(info.specification), []).append(info)
    tasks, first = list(TASKS), set(shipped())

    def order(name: str) -> tuple[int, bool, int, str]:
        specification = groups[name][0].specification
        own = not any(heading.run_id in first for heading in groups[name])
        return tasks.index(specification.task), own, specification.train_length, name

    return {name: groups[name] for name in sorted(groups, key=order)}


def curves(infos: list[RunInfo], measure: str) -> list[Curve]:
    """Return the curves of one measure of these runs, schemes in their fixed order.

    A run that cannot be read now is left out, and is there again when it can.
    """
    read = [whole for info in infos if (whole := run(info.run_id)) is not None]
    return _curves(tuple(whole.run_id for whole in read), measure, read)


@st.cache_data(max_entries=64, show_spinner=False)
def _curves(names: tuple[str, ...], measure: str, _runs: list[Run]) -> list[Curve]:
    order = list(SCHEMES)
    return sorted(
        summary.curves(_runs, measure),
        key=lambda curve: (
            order.index(curve.specification.scheme.kind),
            repr(curve.specification.scheme),
            curve.variant != TRAINED,
            curve.variant,
        ),
    )


def of_kinds(infos: list[RunInfo], kinds: Iterable[str]) -> list[RunInfo]:
    """Return the runs of these schemes."""
    wanted = {*kinds}
    return [info for info in infos if info.specification.scheme.kind in wanted]


@st.cache_resource(max_entries=64, ttl=BELIEVED_FOR, show_spinner=False)
def shipped_comparison(kinds: tuple[str, ...]) -> str:
    """Return the comparison that pages show of these schemes, "" where none ships.

    It is that of texts with the most of these schemes, of several that with the longest texts.
    """

    def order(name: str) -> tuple[int, int]:
        present = {info.specification.scheme.kind for info in of_kinds(every[name], kinds)}
        return len(present), every[name][0].specification.train_length

    every = comparisons(shipped())
    texts = [name for name in every if every[name][0].specification.task == Language.kind]
    return max(texts, key=order, default="")


@st.cache_resource(max_entries=64, ttl=BELIEVED_FOR, show_spinner=False)
def shipped_loss(kinds: tuple[str, ...]) -> list[Curve]:
    """Return loss by context length of shipped models, a curve per scheme that was measured."""
    infos = comparisons(shipped()).get(shipped_comparison(kinds), [])
    return as_trained(curves(of_kinds(infos, kinds), "context"))


def as_trained(curves: list[Curve]) -> list[Curve]:
    """Return the curves of models that are evaluated as they were trained."""
    return [curve for curve in curves if curve.variant == TRAINED]
