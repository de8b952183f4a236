"""Jobs that are queued or running on this server, and links to what was trained."""

from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard import runs
from dashboard.charts.theme import COLOURS
from dashboard.controls.widgets import button
from dashboard.frame import page
from dashboard.run_descriptions import description, title
from dashboard.server import incidents, jobs, settings
from dashboard.server.jobs import Job, Progress
from dashboard.server.training_process import server_process
from dashboard.text import duration, listed, plain
from posenc.errors import QueueUnwritable
from posenc.lab import summary
from posenc.lab.specification import Specification
from posenc.schemes import SCHEMES

MAX_LINKS = 20  # to comparisons trained here
POLL = 2.0  # seconds until an open page draws the jobs again
IDLE_POLL = 10.0  # without a job, so that another visitor's start shows


def draw_jobs() -> bool:
    """Draw every job, the same for every visitor; return whether there is one."""
    known = jobs.jobs(server_process().place)
    active = any(not job.error for job in known)
    st.subheader("In training", anchor=False)
    panel = st.fragment(_panel, run_every=POLL if active else IDLE_POLL)
    panel([job.name for job in known])
    return bool(known)


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


def draw_link(specifications: list[Specification], label: str = "") -> None:
    """Draw the link to the comparison of these runs. label: its text, else the task and the schemes."""
    trained = {specification.scheme.kind for specification in specifications}
    kinds = tuple(kind for kind in SCHEMES if kind in trained)
    page.link(
        st,
        "extrapolation",
        label or f"{title(specifications[0])}: {page.names(kinds)}",
        half="measured",
        comparison=summary.comparison(specifications[0]),
        own_runs="true",
        schemes=[page.label(kind) for kind in kinds],
    )
    st.caption(plain(description(specifications[0])))


def draw_finished(linked: str | None) -> None:
    """Draw a link to every comparison trained on this server, without the one linked to above."""
    shipped = set(runs.shipped())
    own = [
        [info.specification for info in infos]
        for name, infos in runs.comparisons(runs.all_ids()).items()
        if name != linked and any(info.run_id not in shipped for info in infos)
    ]
    if not own:
        return
    st.subheader("Finished on this server", anchor=False)
    for specifications in own[:MAX_LINKS]:
        draw_link(specifications)
    if len(own) > MAX_LINKS:
        st.caption(f"And {len(own) - MAX_LINKS:,} more, on Extrapolation.")
