"""What of Train runs on this server: the board of jobs that are queued or in training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.blocks import Changes
from dashboard.charts.theme import COLOURS
from dashboard.controls.widgets import button
from dashboard.run_descriptions import description
from dashboard.server import incidents, jobs, settings
from dashboard.server.jobs import Job, Progress
from dashboard.server.training_process import server_process
from dashboard.text import duration, listed, plain
from posenc.errors import QueueUnwritable

POLL = 2.0  # seconds until an open page draws the jobs again
IDLE_POLL = 10.0  # without a job, so that another visitor's start shows


def board(place: Any, _change: Callable[[Changes], None]) -> None:
    """Draw every job, the same for every visitor."""
    known = jobs.jobs(server_process().place)
    active = any(not job.error for job in known)
    place.subheader("In training", anchor=False)
    panel = st.fragment(_panel, run_every=POLL if active else IDLE_POLL)
    with place.container():
        panel([job.name for job in known])


@incidents.show_errors()  # a fragment by itself has none around it
def _panel(names: list[str]) -> None:
    """Draw the jobs and how their process does. names: the jobs that the page around knows."""
    process = server_process()
    try:
        process.start_if_needed()
    except QueueUnwritable as error:
        st.warning(
            plain(f"{error} No job starts until the queue can be written."),
            icon=":material/warning:",
        )
    known = jobs.jobs(process.place)
    if [job.name for job in known] != names:
        st.rerun()  # a job ended or began: the page around draws its results
    if not known:
        st.caption("Nothing is being trained on this server.")
    if process.unwritable:
        st.caption(
            "Results could not be written, for example because the disk is full. Queued jobs are "
            "tried again in a minute."
        )
    elif process.failed:
        st.caption(
            "The background process ended with an error, which is in the log of the server. A new "
            "one starts in a minute."
        )
    for job in known:
        _draw_job(process.place, job)


def _draw_job(place: Path, job: Job) -> None:
    """Draw a job: what it trains, how far it is, its loss, and how to stop it."""
    progress = jobs.progress(place, job.name)
    planned = job.specifications
    run = planned[min(progress.run, len(planned) - 1)]
    labels = tuple(dict.fromkeys(each.scheme.label for each in planned))
    with st.container(border=True):
        st.markdown(f"**{listed(labels)}.** {plain(description(run))}")
        if job.error:
            st.error(plain(job.error), icon=":material/error:")
        elif progress == Progress():
            st.caption(f"Queued; about {duration(job.estimate)} to run.")
        else:
            done = 1 - job.planned_seconds(progress) / max(job.estimate, 1e-9)
            number = f"run {progress.run + 1} of {len(planned)}, " if len(planned) > 1 else ""
            text = f"{number}{run.scheme.label}, seed {run.seed}: step {progress.step:,} of {run.steps:,}"
            st.progress(min(max(done, 0.0), 1.0), text=text)
            phase = "Evaluating past the training length. " if progress.step == run.steps else ""
            st.caption(f"{phase}About {duration(job.remaining_seconds(progress))} left.")
        if progress.points:
            frame = pd.DataFrame(progress.points, columns=["step", "training loss (nats)"])
            st.line_chart(frame, x="step", y="training loss (nats)", color=COLOURS[run.scheme.kind])
        if job.owner:
            st.caption(plain(f"Started by {job.owner}."))
        if settings.current().training:
            _draw_stop(place, job, begun=progress != Progress())


def _draw_stop(place: Path, job: Job, *, begun: bool) -> None:
    """Draw the button that stops a job, or removes one that failed. begun: it has trained some steps."""
    word = "Remove" if job.error else "Stop"
    if button(st, word, key=f"stop_{job.name}", icon=":material/stop:"):
        jobs.cancel(place, job.name)
        if begun and not job.error:
            st.toast("Stopped. The same job started again continues from here.")
        st.rerun()
