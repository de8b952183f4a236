"""Finished runs for the pages: those that ship with the library, and those of this server's store."""

import contextlib
from collections.abc import Iterable

import streamlit as st

from dashboard.compute import run_labels
from posenc.checkpoints.file_store import store_url
from posenc.checkpoints.sources import RESULTS, named_table
from posenc.errors import CheckpointError, RunError, RunMissing, RunOfAnotherVersion
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED
from posenc.lab.runs import Run, RunInfo, Store
from posenc.lab.summary import Curve
from posenc.lab.tasks import TASKS, Language
from posenc.schemes import SCHEMES

SHIPPED = str(RESULTS)
RETRY_SECONDS = 60.0  # until a run that could not be read is tried again
LIST_SECONDS = 5.0  # until the runs of a bucket, or of what ships, are listed again


@st.cache_resource(max_entries=4, show_spinner=False)
def _open(url: str) -> Store:
    return Store(url)


@st.cache_data(max_entries=4, ttl=LIST_SECONDS, show_spinner=False)
def _cached_ids(url: str) -> list[str]:
    return _open(url).ids()


def _ids(url: str) -> list[str]:
    """Return the ids of a store's runs, of this server's own folder without a cache.

    Looking at every file that ships took a tenth of a rerun. Raises RunError where it cannot be listed.
    """
    store = _open(url)
    return store.ids() if store.local and url != SHIPPED else _cached_ids(url)


def all_ids() -> tuple[str, ...]:
    """Return the ids of all runs that can be listed, sorted."""
    ids = set[str]()
    for url in (SHIPPED, store_url()):
        with contextlib.suppress(RunError):
            ids.update(_ids(url))
    return tuple(sorted(ids))


def listed(asked: str = "") -> tuple[str, ...]:
    """Return the ids of the runs that lists show: without those that their owners hid.

    asked: the comparison of a link, which is shown with its hidden runs.
    """
    ids, hidden = all_ids(), run_labels.hidden_runs()
    compared = {info.run_id for info in comparisons(ids).get(asked, ())}
    return tuple(run_id for run_id in ids if run_id not in hidden or run_id in compared)


def shipped() -> tuple[str, ...]:
    """Return the ids of the runs that ship."""
    return tuple(_ids(SHIPPED))


# A run never changes, so what was read of it stays valid; errors are not cached.
@st.cache_resource(max_entries=16_384, show_spinner=False)
def _info(run_id: str, url: str) -> RunInfo:
    return _open(url).info(run_id)


@st.cache_resource(max_entries=512, show_spinner=False)
def _run(run_id: str, url: str) -> Run:
    return _open(url).read(run_id)


@st.cache_resource(max_entries=64, ttl=RETRY_SECONDS, show_spinner=False)
def _infos_or_errors(run_ids: tuple[str, ...]) -> dict[str, RunInfo | RunError]:
    """Return what each run is, or why it cannot be read."""
    results: dict[str, RunInfo | RunError] = {}
    for run_id in run_ids:
        results[run_id] = RunMissing(f"There is no run {run_id}.")
        for url in (SHIPPED, store_url()):
            try:
                results[run_id] = _info(run_id, url)
                break
            except RunMissing:
                continue
            except RunError as error:
                results[run_id] = error
    return results


def read_infos(run_ids: Iterable[str]) -> list[RunInfo]:
    """Return what the runs of these ids are, of those that can be read."""
    results = _infos_or_errors(tuple(run_ids)).values()
    return [info for info in results if isinstance(info, RunInfo)]


def run(run_id: str) -> Run | None:
    """Return a run, None where it cannot be read now."""
    for url in (SHIPPED, store_url()):
        with contextlib.suppress(RunError):
            return _run(run_id, url)
    return None


def unreadable() -> str:
    """Return a sentence on the runs of this server's store that cannot be shown, "" for none."""
    try:
        store, ids = _open(store_url()), _ids(store_url())
    except RunError:
        return (
            "The models trained on this server cannot be read now; only those that come with the "
            "workbench are shown."
        )
    results = _infos_or_errors(tuple(ids))
    errors = {name: result for name, result in results.items() if isinstance(result, RunError)}
    store.foreign = [name for name in errors if isinstance(errors[name], RunOfAnotherVersion)]
    store.broken = [f"run {name}" for name in errors if name not in store.foreign]
    return "; ".join(store.left_out()) + "." if errors else ""


@st.cache_resource(max_entries=8, ttl=RETRY_SECONDS, show_spinner=False)
def with_learned_table(run_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ids of the finished runs among these whose learned table can be read."""
    readable = []
    for info in of_kinds(read_infos(run_ids), ["learned"]):
        if info.stopped is None:
            with contextlib.suppress(CheckpointError):
                named_table(f"run-{info.run_id}")
                readable.append(info.run_id)
    return tuple(readable)


@st.cache_resource(max_entries=8, ttl=RETRY_SECONDS, show_spinner=False)
def comparisons(run_ids: tuple[str, ...]) -> dict[str, list[RunInfo]]:
    """Return the runs by comparison: language first, what ships first, short lengths first."""
    groups: dict[str, list[RunInfo]] = {}
    for info in read_infos(run_ids):
        groups.setdefault(summary.comparison(info.specification), []).append(info)
    tasks, first = list(TASKS), set(shipped())

    def order(name: str) -> tuple[int, bool, int, str]:
        specification = groups[name][0].specification
        own = not any(info.run_id in first for info in groups[name])
        return tasks.index(specification.task), own, specification.train_length, name

    return {name: groups[name] for name in sorted(groups, key=order)}


def curves(infos: Iterable[RunInfo], measure: str) -> list[Curve]:
    """Return the curves of one measure of these runs, schemes in their fixed order.

    A run that cannot be read now is left out.
    """
    readable = [whole for info in infos if (whole := run(info.run_id)) is not None]
    return _curves(tuple(whole.run_id for whole in readable), measure, readable)


@st.cache_data(max_entries=64, show_spinner=False)
def _curves(run_ids: tuple[str, ...], measure: str, _runs: list[Run]) -> list[Curve]:
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


def of_kinds(infos: Iterable[RunInfo], kinds: Iterable[str]) -> list[RunInfo]:
    """Return the runs of these schemes."""
    wanted = {*kinds}
    return [info for info in infos if info.specification.scheme.kind in wanted]


@st.cache_resource(max_entries=64, ttl=RETRY_SECONDS, show_spinner=False)
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


@st.cache_resource(max_entries=64, ttl=RETRY_SECONDS, show_spinner=False)
def shipped_loss(kinds: tuple[str, ...]) -> list[Curve]:
    """Return loss by context length of shipped models, a curve per scheme that was measured."""
    infos = comparisons(shipped()).get(shipped_comparison(kinds), [])
    return as_trained(curves(of_kinds(infos, kinds), "context"))


def as_trained(curves: list[Curve]) -> list[Curve]:
    """Return the curves of models that are evaluated as they were trained."""
    return [curve for curve in curves if curve.variant == TRAINED]
