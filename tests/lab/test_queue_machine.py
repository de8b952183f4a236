"""The queue under random sequences of adds, takes, stops and kills, against a plain list."""

import contextlib
import os
import signal
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from posenc.errors import QueueFull
from posenc.lab.jobs import ATTEMPTS, JobState, Queue
from tests.lab.small_runs import small_spec
from tests.lab.worker_processes import in_fork

RUNNING, WAITING, FAILURES_KEPT = 2, 3, 8
ANY = st.integers(0, 63)
REASON = "it failed on purpose"
ENDS = {"done": signal.SIGTERM, "left": signal.SIGUSR1, "failed": signal.SIGUSR2}


@dataclass
class Job:
    name: str
    seed: int
    attempts: int = 0
    holder: int | None = None
    stopping: bool = False
    failed: bool = False

    @property
    def state(self) -> JobState:
        held = JobState.QUEUED if self.holder is None else JobState.RUNNING
        return JobState.FAILED if self.failed else held


def take_in_fork(folder: Path) -> tuple[int, str]:
    """Start a process that takes a job and ends as a signal says; its number and the job's name, or ""."""
    reader, writer = os.pipe()

    def hold() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDS.values())
        queue = Queue(folder, running=RUNNING, waiting=WAITING)
        with queue.take() as entry:
            os.write(writer, (entry.name if entry else "none").encode())
            if entry is None:
                return
            got = signal.sigwait(ENDS.values())
            if got == ENDS["done"]:
                queue.remove(entry.name)
            elif got == ENDS["left"]:
                queue.requeue(entry.name)
            else:
                queue.fail(entry.name, REASON)

    child = in_fork(hold)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        name = pipe.read(32).decode().removeprefix("none")
    if not name:
        os.waitpid(child, 0)
    return child, name


def end_holder(child: int, how: str) -> None:
    os.kill(child, ENDS.get(how, signal.SIGKILL))
    os.waitpid(child, 0)


class QueueMachine(RuleBasedStateMachine):
    """Every rule does one thing to the queue and to a list that stands for it."""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.folder = Path(self.place.name) / "queue"
        self.queue = Queue(self.folder, running=RUNNING, waiting=WAITING)
        self.jobs: list[Job] = []

    def teardown(self) -> None:
        for job in self.jobs:
            if job.holder is not None:
                end_holder(job.holder, "killed")
        self.place.cleanup()

    def held(self) -> list[Job]:
        return [job for job in self.jobs if job.holder is not None]

    def fail(self, job: Job) -> None:
        if job.stopping:
            self.jobs.remove(job)
            return
        job.failed = True
        failed = [job for job in self.jobs if job.failed]
        for old in failed[:-FAILURES_KEPT]:
            self.jobs.remove(old)

    @rule(seed=st.integers(0, 5))
    def add(self, seed: int) -> None:
        wanted, text = [small_spec(steps=5 + seed)], f"text {seed % 2} ".encode() * 100
        here = [job for job in self.jobs if not job.failed]
        same = [job for job in here if job.seed == seed and not job.stopping]
        if same:
            assert self.queue.add(wanted, text=text) == same[0].name
        elif len(here) >= RUNNING + WAITING:
            with pytest.raises(QueueFull, match=f"{WAITING} jobs wait already"):
                self.queue.add(wanted, text=text)
        else:
            name = self.queue.add(wanted, text=text)
            assert name not in [job.name for job in self.jobs]
            self.jobs = [job for job in self.jobs if not (job.seed == seed and job.failed)]
            self.jobs.append(Job(name, seed))

    @precondition(lambda self: len(self.held()) < RUNNING)
    @rule()
    def take(self) -> None:
        expected = ""
        for job in [job for job in self.jobs if job.state is JobState.QUEUED]:
            if job.attempts < ATTEMPTS:
                expected = job.name
                break
            self.fail(job)
        child, name = take_in_fork(self.folder)
        assert name == expected
        for job in self.jobs:
            if job.name == name:
                job.holder, job.attempts = child, job.attempts + 1

    @precondition(lambda self: self.held())
    @rule(which=ANY, how=st.sampled_from(("done", "left", "failed", "killed")))
    def end(self, which: int, how: str) -> None:
        job = self.held()[which % len(self.held())]
        assert job.holder is not None
        end_holder(job.holder, how)
        job.holder = None
        if how == "done":
            self.jobs.remove(job)
        elif how == "left":
            job.attempts -= 1
        elif how == "failed":
            self.fail(job)

    @precondition(lambda self: self.jobs)
    @rule(which=ANY, times=st.integers(1, 2))
    def stop(self, which: int, times: int) -> None:
        job = self.jobs[which % len(self.jobs)]
        for _ in range(times):
            self.queue.cancel(job.name)
        if job.holder is None:
            self.jobs.remove(job)
        else:
            job.stopping = True

    @rule()
    def another_server_looks(self) -> None:
        self.queue = Queue(self.folder, running=RUNNING, waiting=WAITING)

    @invariant()
    def the_queue_is_the_list(self) -> None:
        found = self.queue.jobs()
        assert [(one.name, one.state, one.attempts) for one in found] == [
            (job.name, job.state, job.attempts) for job in self.jobs
        ]
        for entry, job in zip(found, self.jobs, strict=True):
            assert entry.specifications[0].steps == 5 + job.seed
            assert self.queue.text(entry.name) == f"text {job.seed % 2} ".encode() * 100
            assert self.queue.is_cancelled(entry.name) == job.stopping
            assert not entry.error or entry.error == REASON or f"{ATTEMPTS} times" in entry.error

    @invariant()
    def nothing_is_left_over(self) -> None:
        names = {path.name for path in self.folder.glob("*")}
        assert names <= {"jobs.sqlite", *(f"worker-{slot}.lock" for slot in range(RUNNING))}
        if "jobs.sqlite" in names:
            with contextlib.closing(sqlite3.connect(self.folder / "jobs.sqlite")) as db:
                assert db.execute("SELECT count(*) FROM jobs").fetchone() == (len(self.jobs),)


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("examples", [8, pytest.param(200, marks=pytest.mark.long)])
def test_no_sequence_loses_or_doubles_a_job(examples: int) -> None:
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(max_examples=examples, stateful_step_count=25, deadline=None),
    )
