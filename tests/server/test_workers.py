"""The background processes of one server: begun once, watched, ended when they have saved."""

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest
import streamlit as st

from dashboard.server import workers as workers_module
from dashboard.server.workers import RESUME_EVERY, Workers, resume, server_workers, stop_all
from posenc.errors import QueueBusy
from posenc.lab import Store, jobs
from posenc.lab.jobs import JobState, Queue
from posenc.lab.run_once import checkpoint_of
from posenc.lab.worker import NICE
from tests.dashboard.pages import visit
from tests.lab.small_runs import CORPUS, sentences, small_spec
from tests.lab.worker_processes import PATIENCE, alive, own_place, running_at, wait

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.usefixtures("no_shape_checks")]
LONG = small_spec("none", task="copy", steps=100_000)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    st.cache_resource.clear()
    yield from own_place(tmp_path, monkeypatch)
    st.cache_resource.clear()


@pytest.fixture
def watched(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    """Workers with one process, which does nothing for a minute and is looked at all the time."""
    monkeypatch.setattr(workers_module, "LOOK_EVERY", 0.02)
    monkeypatch.setattr(workers_module, "PAUSE", 0.0)
    workers = Workers(Queue(place / "queue"))
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    process = subprocess.Popen(command, start_new_session=True)
    workers._processes.append(process)
    yield workers
    process.kill()
    process.wait()


@pytest.mark.parametrize("error", [QueueBusy("held"), OSError(5, "no disk")])
def test_watch_survives_a_queue_that_cannot_be_read_or_changed(
    watched: Workers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:  # fmt: skip
    (process,) = watched._processes
    hung = Mock(side_effect=[OSError(5, "no disk")] * 5 + [None, None, "an entry"])
    monkeypatch.setattr(watched.queue, "hung_job", hung)
    monkeypatch.setattr(watched.queue, "is_cancelled", lambda name: True)
    monkeypatch.setattr(watched.queue, "cancel", Mock(side_effect=error))
    monkeypatch.setattr(watched, "start_if_needed", Mock(side_effect=error))
    with caplog.at_level(logging.ERROR):
        watched._await(process)
    assert hung.call_args_list == [call(process.pid)] * 8
    assert watched._processes == []
    assert process.returncode != 0
    assert caplog.messages.count(f"whether process {process.pid} hangs cannot be read") == 1
    assert "an entry cannot be removed now" in caplog.messages
    assert "no process can be started for the queued jobs" in caplog.messages


def test_unexpected_fault_frees_the_place_for_the_next_process(
    watched: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "PAUSE", 60.0)
    monkeypatch.setattr(watched.queue, "hung_job", Mock(side_effect=KeyError("unforeseen")))
    with pytest.raises(KeyError):
        watched._await(watched._processes[0])
    assert watched._processes == []
    assert watched.failed


@pytest.fixture
def hanging(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Workers, str, int]]:
    """Workers, their job and their one process, which waits for a checkpoint to be read for ever."""
    monkeypatch.setattr(workers_module, "PAUSE", 3_600.0)  # no other process is started meanwhile
    monkeypatch.setattr(workers_module, "LOOK_EVERY", 0.2)
    monkeypatch.setattr(workers_module, "GRACE", 0.0)  # so long it may go on when it is told to end
    monkeypatch.setattr(workers_module, "STOP_WITHIN", 0.0)
    queue = Queue(place / "queue")
    wanted = small_spec(steps=12)
    name = queue.add([wanted], text=sentences(), text_name=CORPUS.name)
    checkpoint_of(wanted.run_id).parent.mkdir(parents=True)
    os.mkfifo(checkpoint_of(wanted.run_id))
    workers = Workers(queue)
    workers.start_if_needed()
    (process,) = workers._processes
    try:
        wait(lambda: [one.state for one in queue.jobs()] == [JobState.RUNNING])
        assert queue.hung_job(process.pid) is None
        yield workers, name, process.pid
    finally:
        process.kill()
        process.wait()


def test_worker_deaf_to_a_stop_is_killed_and_its_job_removed(
    hanging: tuple[Workers, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, name, pid = hanging
    monkeypatch.setattr(jobs, "MAX_STOPPING", 0.5)
    workers.queue.cancel(name)
    wait(lambda: not alive(pid))
    wait(lambda: workers.queue.jobs() == [])


def test_silent_worker_is_killed_and_its_job_requeued(
    hanging: tuple[Workers, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, name, pid = hanging
    monkeypatch.setattr(jobs, "MAX_SILENCE", 0.5)
    wait(lambda: not alive(pid))
    # A look at whether a lock is held takes it for a moment, and the workers look, too.
    wait(lambda: [one.state for one in workers.queue.jobs()] == [JobState.QUEUED])
    (entry,) = workers.queue.jobs()
    assert (entry.name, entry.attempts) == (name, 1)
    wait(lambda: workers.failed)  # no other is started at once
    assert workers.queue.hung_job(pid) is None


def test_starts_at_once_begin_one_process(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, begin = threading.Event(), Mock()
    begin.return_value.wait = lambda seconds: 0 if ended.wait(PATIENCE) else None
    monkeypatch.setattr(subprocess, "Popen", begin)
    monkeypatch.setattr(workers_module, "_lower_priority", Mock())
    workers = Workers(Queue(place / "queue", running=1))

    def press(_: int) -> str:
        name = Queue(place / "queue", running=1).add([LONG])
        workers.start_if_needed()
        return name

    with ThreadPoolExecutor(25) as crowd:
        assert len(set(crowd.map(press, range(25)))) == begin.call_count == 1
    workers._stopping = True
    ended.set()


def test_opening_any_page_starts_jobs_queued_by_another_server(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "RESUME_EVERY", 0.0)
    at = visit("pca")
    workers = server_workers()
    assert workers._processes == []
    one = small_spec("none", task="copy", steps=3)
    Queue().add([one])  # as a replica does that is then killed
    at.run()
    assert server_workers() is workers
    (process,) = workers._processes
    try:
        wait(lambda: Store().ids() == [one.run_id])
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()


def test_pages_check_the_queue_at_intervals_and_survive_its_faults(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    workers, looks, clock = server_workers(), list[float](), [1e9]
    # Only this test's workers fail, and only they have this clock: threads of earlier tests may still wait.
    own_time = SimpleNamespace(monotonic=lambda: clock[0], sleep=time.sleep)
    monkeypatch.setattr(workers_module, "time", own_time)

    def start_if_needed() -> None:
        looks.append(clock[0])
        resume()  # of another visitor meanwhile: it goes on at once
        raise OSError(5, "no disk")

    monkeypatch.setattr(workers, "start_if_needed", start_if_needed)
    for _ in range(2):
        for _ in range(10):
            resume()
        clock[0] += RESUME_EVERY
    assert looks == [1e9, 1e9 + RESUME_EVERY]
    assert caplog.messages.count("the queue of jobs cannot be used") == 2


def test_server_ends_when_training_is_saved(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(place / "queue")
    name = queue.add([LONG])
    workers = Workers(queue)
    workers.start_if_needed()
    (process,) = workers._processes
    try:
        running_at(queue, name, 1)
        assert queue.hung_job(process.pid) is None
        # Beside other tests it would wait for a core for longer than it has to save in.
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, process.pid, 0)
        monkeypatch.setattr(workers_module, "GRACE", PATIENCE)
        stop_all()
        assert process.poll() == 0
        assert [entry.state for entry in queue.jobs()] == [JobState.QUEUED]
        assert queue.jobs()[0].attempts == 0  # it was no fault of the start
        assert checkpoint_of(LONG.run_id).exists()
        workers.start_if_needed()
        assert workers._processes in ([], [process])  # none is begun by a server that ends
    finally:
        process.kill()


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="of Linux alone")
@pytest.mark.parametrize("shared", [False, True])
def test_training_runs_at_lower_priority_than_pages(
    place: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    monkeypatch.setenv("POSENC_PROFILE", "shared" if shared else "private")
    queue = Queue(place / "queue")
    queue.add([LONG])
    workers = Workers(queue)
    workers.start_if_needed()
    (process,) = workers._processes
    workers._stopping = True  # none is begun in its place
    try:
        policy = os.SCHED_IDLE if shared else os.SCHED_OTHER
        assert os.sched_getscheduler(process.pid) == policy
        assert os.getpriority(os.PRIO_PROCESS, process.pid) >= NICE
        # A group of its own, so that no Ctrl-C reaches it, in the session in which niceness counts.
        assert os.getpgid(process.pid) == process.pid
        assert os.getsid(process.pid) == os.getsid(0)
    finally:
        process.kill()
        process.wait()
