"""The parts of Train that need a running server: an own text, a start, and the board of jobs."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import session, training_text, training_time
from dashboard.blocks import Changes
from dashboard.charts.theme import COLOURS
from dashboard.run_descriptions import description
from dashboard.runs import all_ids
from dashboard.server import identity, incidents, jobs, settings, uploaders
from dashboard.server.jobs import Job, Progress
from dashboard.server.training_process import server_process
from dashboard.text import duration, listed, plain
from posenc.errors import QueueUnwritable
from posenc.lab.specification import Specification
from posenc.text import count_of, printable_name

NAME_LETTERS = 60  # of a file's name
POLL = 2.0  # seconds until an open page draws the jobs again
IDLE_POLL = 10.0  # without a job, so that another visitor's start shows


def text(place: Any, change: Callable[[Changes], None], *, held: str) -> None:
    """Draw the choice of an own text and tell the page its key, "" for none. held: what the page has."""
    if not settings.current().training:
        return
    with place.expander("Text to learn: the source of Python's standard library, or your own"):
        file = uploaders.uploader(
            st,
            "Your own text",
            key="text_upload",
            most_mb=settings.current().text_mb,
            help="UTF-8. The server deletes it when its runs are done. Every visitor sees its name.",
        )
    own = None
    if file is not None:
        # In quotes: a file may be called what the default text is called.
        own = training_text.hold(file.getvalue(), f'"{printable_name(file.name, NAME_LETTERS)}"')
    st.session_state["_training_text"] = own  # held as long as this session holds it
    key = "" if own is None else own.key
    if key != held:
        change({"training_text": key})
        st.rerun()


def start(
    place: Any,
    _change: Callable[[Changes], None],
    *,
    runs: Sequence[Specification],
    planned: int,
    text: str,
) -> None:
    """Draw how long these runs take, and the button that starts those that are not in training.

    planned: number of runs of the plan, finished ones too. text: the key of an own text, "" for none.
    """
    allowed = settings.current()
    if not allowed.training:
        place.info("Training is switched off on this server.", icon=":material/info:")
        return
    known = jobs.jobs(server_process().place)
    in_training = {run.run_id for job in known if not job.error for run in job.specifications}
    new = [run for run in runs if run.run_id not in in_training]
    if len(new) < len(runs):
        count = count_of(planned, "run")
        place.caption(f"{len(runs) - len(new)} of these {count} are queued or in training.")
    if not new:
        return
    with place.container():
        with st.spinner("Timing a small model"):
            steps = training_time.seconds_of_steps(new)
            evaluations = training_time.seconds_of_evaluations(new)
        seconds = training_time.LOADING_SECONDS + steps + evaluations
        st.markdown(
            f"{count_of(len(new), 'run')} of {count_of(new[0].steps, 'step')}: "
            f"**about {duration(seconds)}** at the speed that this machine has now."
        )
        if seconds > allowed.run_seconds:
            st.warning(
                f"A job may take at most {duration(allowed.run_seconds)}. Choose fewer steps, seeds or "
                "schemes, or a smaller model.",
                icon=":material/block:",
            )
        st.button(
            "Start", key="start_training", icon=":material/play_arrow:", on_click=_start,
            args=(new, text, steps, evaluations), disabled=seconds > allowed.run_seconds,
        )  # fmt: skip


@session.callback
def _start(runs: Sequence[Specification], key: str, steps: float, evaluations: float) -> None:
    """Add a job for these runs, on a server that trains.

    key: of an own text. steps, evaluations: the seconds that they take.
    """
    if not settings.current().training:
        return
    process = server_process()
    own = training_text.held(key) if key else None
    jobs.add(
        process.place,
        runs,
        waiting=settings.current().waiting,
        text=own.content if own else None,
        text_name=own.name if own else "",
        estimate=steps + evaluations,
        evaluation_seconds=evaluations,
        owner=identity.name(),
    )
    with contextlib.suppress(QueueUnwritable):  # the board says so
        process.start_if_needed()


def board(place: Any, _change: Callable[[Changes], None], *, finished: tuple[str, ...]) -> None:
    """Draw every job, the same for every visitor. finished: ids of the runs that the page knows."""
    known = jobs.jobs(server_process().place)
    active = any(not job.error for job in known)
    place.header("In training", anchor=False)
    panel = st.fragment(_panel, run_every=POLL if active else IDLE_POLL)
    with place.container():
        panel([job.name for job in known], finished)


@incidents.show_errors()  # a fragment by itself has none around it
def _panel(names: list[str], finished: tuple[str, ...]) -> None:
    """Draw the jobs and how their process does. names, finished: jobs and runs that the page knows."""
    process = server_process()
    try:
        process.start_if_needed()
    except QueueUnwritable as error:
        st.warning(
            plain(f"{error} No job starts until the queue can be written."),
            icon=":material/warning:",
        )
    known = jobs.jobs(process.place)
    # A short job begins and ends between two looks at the jobs; its runs are there all the same.
    if [job.name for job in known] != names or all_ids() != finished:
        st.rerun()  # the page around draws its results
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
    ahead = 0
    for job in known:
        _draw_job(process.place, job, ahead)
        ahead += not job.error


def _draw_job(place: Path, job: Job, ahead: int) -> None:
    """Draw a job: what it trains, how far it is, its loss, and how to stop it. ahead: jobs before it."""
    progress = jobs.progress(place, job.name)
    planned = job.specifications
    run = planned[min(progress.run, len(planned) - 1)]
    labels = tuple(dict.fromkeys(each.scheme.label for each in planned))
    with st.container(border=True):
        st.markdown(f"**{listed(labels)}.** {plain(description(run))}")
        if job.error:
            st.error(plain(job.error), icon=":material/error:")
        elif progress == Progress():
            waits = f"{count_of(ahead, 'job')} before it" if ahead else "its process to start"
            st.caption(f"Queued; waits for {waits}, then runs about {duration(job.estimate)}.")
        else:
            done = 1 - job.planned_seconds(progress) / max(job.estimate, 1e-9)
            number = f"run {progress.run + 1} of {len(planned)}, " if len(planned) > 1 else ""
            text = f"{number}{run.scheme.label}, seed {run.seed}: {_phase(progress, run.steps)}"
            st.progress(min(max(done, 0.0), 1.0), text=text)
            st.caption(f"About {duration(job.remaining_seconds(progress))} left.")
        if progress.points:
            frame = pd.DataFrame(progress.points, columns=["step", "training loss (nats)"])
            st.line_chart(frame, x="step", y="training loss (nats)", color=COLOURS[run.scheme.kind])
        if job.owner:
            st.caption(plain(f"Started by {job.owner}."))
        if settings.current().training:
            _draw_stop(place, job, begun=progress != Progress())


def _phase(progress: Progress, steps: int) -> str:
    """Return the step of the training, or the length that is evaluated after it."""
    if progress.step < steps:
        return f"step {progress.step:,} of {steps:,}"
    if not progress.reached:
        return "trained, now evaluating"
    return (
        f"evaluating at {progress.length:,} tokens, length {progress.reached} of {progress.lengths}"
    )


def _draw_stop(place: Path, job: Job, *, begun: bool) -> None:
    """Draw the button that stops a job, or removes one that failed. begun: it has trained some steps."""
    word = "Remove" if job.error else "Stop"
    st.button(
        word,
        key=f"stop_{job.name}",
        icon=":material/stop:",
        on_click=_stop,
        args=(place, job, begun),
    )


@session.callback
def _stop(place: Path, job: Job, begun: bool) -> None:
    if not settings.current().training:
        return
    jobs.cancel(place, job.name)
    if job.error:
        return
    st.toast(
        "Stopped. The same job started again continues from here."
        if begun
        else "Stopped before it began."
    )
