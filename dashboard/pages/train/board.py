"""Jobs that are queued or running on this server, and links to what was trained."""

import contextlib

import pandas as pd
import streamlit as st

from dashboard.charts.theme import COLOURS
from dashboard.compute import run_descriptions, run_labels, runs
from dashboard.controls.widgets import pressed
from dashboard.frame import page
from dashboard.server import incidents, settings
from dashboard.server.logs import event
from dashboard.server.workers import server_workers
from dashboard.text import duration, listed, plain
from posenc.errors import QueueUnwritable
from posenc.lab.jobs import Job, JobState, Queue
from posenc.lab.specification import Specification
from posenc.schemes import SCHEMES

SHELF = 20  # links to what was trained here
POLL = 2.0  # seconds between two looks of an open page at what is being trained
IDLE_POLL = 10.0  # while nothing is, so that another visitor's start shows


def board() -> bool:
    """Draw every job, the same for every visitor; return whether there is one."""
    crew = server_workers()
    with contextlib.suppress(QueueUnwritable):  # the panel says so
        crew.start_if_needed()
    entries = crew.queue.jobs()
    active = any(entry.state is not JobState.FAILED for entry in entries)
    shown = tuple(entry.name for entry in entries)

    @st.fragment(run_every=POLL if active else IDLE_POLL)
    def panel() -> None:
        with incidents.show_errors():  # a fragment by itself has none around it
            draw()

    def draw() -> None:
        try:
            crew.start_if_needed()
        except QueueUnwritable as error:
            st.warning(
                plain(f"{error} No job starts until the queue can be written."),
                icon=":material/warning:",
            )
        now = crew.queue.jobs()
        if tuple(entry.name for entry in now) != shown:
            st.rerun()  # one that ended or began: the page around knows of it, too
        if not now:
            st.caption("Nothing is being trained on this server.")
        if crew.unwritable:
            st.caption(
                "Results could not be written, for example because the disk is full. Queued jobs are "
                "tried again in a minute."
            )
        elif crew.failed:
            st.caption(
                "The background process ended with an error, which is in the log of the server. A new "
                "one starts in a minute."
            )
        for entry in now:
            _row(crew.queue, entry)

    st.subheader("In training", anchor=False)
    panel()
    return bool(entries)


def _row(queue: Queue, entry: Job) -> None:
    """Draw one entry: what it is, how far it is, its loss, and how to stop it."""
    specs = entry.specifications
    progress = queue.progress(entry.name)
    one = specs[min(progress.run, len(specs) - 1)]
    kinds = tuple(dict.fromkeys(spec.scheme.label for spec in specs))
    with st.container(border=True):
        st.markdown(f"**{listed(kinds)}.** {plain(run_descriptions.description(one))}")
        if entry.state is JobState.FAILED:
            st.error(plain(entry.error or ""), icon=":material/error:")
        elif entry.state is JobState.QUEUED:
            st.caption(f"Queued; about {duration(entry.estimate)} to run.")
        else:
            share = 1 - entry.planned_seconds(progress) / max(entry.estimate, 1e-9)
            place = f"run {progress.run + 1} of {len(specs)}, " if len(specs) > 1 else ""
            text = f"{place}{one.scheme.label}, seed {one.seed}: step {progress.step:,} of {one.steps:,}"
            st.progress(min(max(share, 0.0), 1.0), text=text)
            phase = "Evaluating past the training length. " if progress.evaluating else ""
            st.caption(f"{phase}About {duration(entry.remaining_seconds(progress))} left.")
        if progress.points:
            frame = pd.DataFrame(progress.points, columns=["step", "training loss (nats)"])
            st.line_chart(frame, x="step", y="training loss (nats)", color=COLOURS[one.scheme.kind])
        stopping = entry.state is JobState.RUNNING and queue.is_cancelled(entry.name)
        if name := run_labels.names_with_owners([*specs]):
            st.caption(plain(f"{name}."))
        if not (settings.current().training and run_labels.may_stop(entry)):
            return
        word = "Remove" if entry.state is JobState.FAILED else "Stopping" if stopping else "Stop"
        if pressed(st, word, key=f"stop_{entry.name}", disabled=stopping, icon=":material/stop:"):
            queue.cancel(entry.name)
            event("start_stopped", job=entry.name)
            if entry.state is JobState.RUNNING:
                st.toast("Stopping. The same job started again continues from here.")
            st.rerun()


def finished(name: str, asked: list[Specification], label: str = "") -> None:
    """Draw the link to a comparison. label: of the link, else the task and the schemes."""
    trained = {one.scheme.kind for one in asked}
    kinds = tuple(kind for kind in SCHEMES if kind in trained)
    st.page_link(
        "pages/extrapolation/page.py",
        label=label or f"{run_descriptions.title(asked[0])}: {page.names(kinds)}",
        icon=":material/trending_up:",
        query_params=[("half", "measured"), ("comparison", name)]
        + [("schemes", page.label(kind)) for kind in kinds],
    )
    names = run_labels.names_with_owners(asked)
    lead = f"{names}. " if names else ""
    st.caption(plain(f"{lead}{run_descriptions.description(asked[0])}"))


def shelf(linked: str | None) -> None:
    """Draw a link to every comparison made here, but those that ship and the one linked to above."""
    names = runs.listed()
    shipped = set(runs.shipped())
    own = {
        name: [run.specification for run in found]
        for name, found in runs.comparisons(names).items()
        if name != linked and any(run.run_id not in shipped for run in found)
    }
    if not own:
        return
    st.subheader("Finished on this server", anchor=False)
    for name, specs in [*own.items()][:SHELF]:
        finished(name, specs)
    if len(own) > SHELF:
        st.caption(f"And {len(own) - SHELF:,} more, on Extrapolation.")
