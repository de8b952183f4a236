"""The background processes of one server: no fault of the queue keeps what waits from being done."""

import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import streamlit as st

from dashboard import workers
from dashboard.workers import Workers, resume, server_workers
from posenc.errors import QueueBusy
from posenc.lab import Store
from posenc.lab.entry import State
from posenc.lab.making import checkpoint_of
from posenc.lab.queue import Queue
from posenc.lab.worker import NICE
from tests.pages import visit
from tests.small_runs import small
from tests.worker_processes import PATIENCE, own_place, running_at, wait

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.usefixtures("no_shape_checks")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    st.cache_resource.clear()
    yield from own_place(tmp_path, monkeypatch)
    st.cache_resource.clear()


@pytest.fixture
def asleep() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Start processes that do nothing for a minute."""
    made: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        code = "import time; time.sleep(60)"
        made.append(subprocess.Popen([sys.executable, "-c", code], start_new_session=True))
        return made[-1]

    yield start
    for one in made:
        one.kill()
        one.wait()


def raising(error: Exception, times: int = 1_000) -> Callable[..., None]:
    left = [error] * times

    def fail(*_: object) -> None:
        if left:
            raise left.pop()

    return fail


@pytest.mark.parametrize("error", [QueueBusy("held"), OSError(5, "no disk")])
def test_a_queue_that_cannot_be_changed_does_not_end_the_watch(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    asleep: Callable[[], subprocess.Popen[bytes]], error: Exception,
) -> None:  # fmt: skip
    monkeypatch.setattr(workers, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(workers, "PAUSE", 0.0)
    crew, process = Workers(Queue(place / "queue")), asleep()
    crew._processes.append(process)
    monkeypatch.setattr(crew.queue, "hung", lambda pid: "an entry")
    monkeypatch.setattr(crew.queue, "stopping", lambda name: True)
    monkeypatch.setattr(crew.queue, "stop", raising(error))
    monkeypatch.setattr(crew, "ensure", raising(error))
    with caplog.at_level(logging.ERROR):
        crew._await(process)
    assert crew._processes == []
    assert process.returncode != 0
    said = [record.getMessage() for record in caplog.records]
    assert "an entry cannot be removed now" in said
    assert "no process can be started for what waits" in said


def test_a_queue_that_cannot_be_read_is_looked_at_again_and_named_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    asleep: Callable[[], subprocess.Popen[bytes]],
) -> None:  # fmt: skip
    monkeypatch.setattr(workers, "LOOK_EVERY", 0.02)
    monkeypatch.setattr(workers, "PAUSE", 0.0)
    crew, process = Workers(Queue(place / "queue")), asleep()
    crew._processes.append(process)
    unread = raising(OSError(5, "no disk"), times=5)
    looks: list[int] = []

    def hung(pid: int) -> str | None:
        looks.append(pid)
        unread()
        return "an entry" if len(looks) > 7 else None

    monkeypatch.setattr(crew.queue, "hung", hung)
    with caplog.at_level(logging.ERROR):
        crew._await(process)
    assert looks == [process.pid] * 8
    assert crew._processes == []
    said = [record.getMessage() for record in caplog.records]
    assert said.count(f"whether process {process.pid} hangs cannot be read") == 1


def test_a_fault_that_nobody_foresaw_leaves_the_place_to_the_next_process(
    place: Path, monkeypatch: pytest.MonkeyPatch, asleep: Callable[[], subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setattr(workers, "LOOK_EVERY", 0.02)
    crew, process = Workers(Queue(place / "queue")), asleep()
    crew._processes.append(process)
    monkeypatch.setattr(crew.queue, "hung", raising(KeyError("unforeseen")))
    with pytest.raises(KeyError):
        crew._await(process)
    assert crew._processes == []
    assert crew.failed


def test_what_begins_to_wait_while_a_server_serves_is_done_whichever_page_is_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "RESUME_EVERY", 0.0)
    at = visit("pca")
    crew = server_workers()
    assert crew._processes == []
    one = small("none", task="copy", steps=3)
    Queue().add([one])  # as a replica does that is then killed
    at.run()
    assert server_workers() is crew
    (process,) = crew._processes
    try:
        wait(lambda: Store().ids() == [one.run_id])
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()


def test_pages_look_now_and_then_and_no_page_fails_or_waits_for_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crew = server_workers()
    looks: list[float] = []
    clock = [1e9]
    # Only this test's crew fails, and only it has this clock: threads of earlier tests may still wait.
    monkeypatch.setattr(
        workers, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=time.sleep)
    )

    def ensure() -> None:
        looks.append(clock[0])
        resume()  # of another visitor meanwhile: it goes on at once
        raise OSError(5, "no disk")

    monkeypatch.setattr(crew, "ensure", ensure)
    for _ in range(10):
        resume()
    assert looks == [1e9]
    clock[0] += workers.RESUME_EVERY
    for _ in range(10):
        resume()
    assert looks == [1e9, 1e9 + workers.RESUME_EVERY]
    said = [
        one for one in caplog.records if "queue of trainings cannot be used" in one.getMessage()
    ]
    assert len(said) == 2


def test_a_look_at_a_queue_in_which_nothing_waits_takes_less_than_a_millisecond(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds() -> float:
        began = time.perf_counter()
        resume()
        return time.perf_counter() - began

    Queue().folder.mkdir(parents=True)
    resume()
    assert min(seconds() for _ in range(50)) < 1e-3  # between two looks
    monkeypatch.setattr(workers, "RESUME_EVERY", 0.0)
    assert min(seconds() for _ in range(50)) < 1e-3  # that look, too


def test_a_server_that_ends_waits_until_its_processes_have_saved(place: Path) -> None:
    queue = Queue(place / "queue")
    one = small("none", task="copy", steps=100_000)
    name = queue.add([one])
    crew = Workers(queue)
    crew.ensure()
    (process,) = crew._processes
    try:
        running_at(queue, name, 1)
        # Beside other tests it would wait for a core for longer than it has to save in.
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, process.pid, 0)
        began = time.monotonic()
        workers.leave()
        assert process.poll() == 0
        assert time.monotonic() - began < 10
        assert [entry.state for entry in queue.entries()] == [State.WAITING]
        assert queue.entries()[0].attempts == 0  # it was no fault of the start
        assert checkpoint_of(one.run_id).exists()
        crew.ensure()
        assert crew._processes in ([], [process])  # none is begun by a server that ends
    finally:
        process.kill()


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="of Linux alone")
@pytest.mark.parametrize(
    ("profile", "policy"), [("private", "SCHED_OTHER"), ("shared", "SCHED_IDLE")]
)
def test_a_training_gives_way_to_pages_wholly_on_a_shared_server(
    place: Path, monkeypatch: pytest.MonkeyPatch, profile: str, policy: str
) -> None:
    monkeypatch.setenv("POSENC_PROFILE", profile)
    queue = Queue(place / "queue")
    queue.add([small("none", task="copy", steps=100_000)])
    crew = Workers(queue)
    crew.ensure()
    (process,) = crew._processes
    try:
        assert os.sched_getscheduler(process.pid) == getattr(os, policy)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) >= NICE
        # A group of its own, so that no Ctrl-C reaches it, in the session in which niceness counts.
        assert os.getpgid(process.pid) == process.pid
        assert os.getsid(process.pid) == os.getsid(0)
    finally:
        crew.leave()
