"""The background process of one server: begun once, ended when it has saved."""

import contextlib
import logging
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import streamlit as st

from dashboard.server import jobs, training_process
from dashboard.server.jobs import add
from dashboard.server.training_process import (
    RESUME_EVERY,
    TrainingProcess,
    resume,
    server_process,
    stop_all,
)
from dashboard.server.training_worker import NICE
from posenc.lab import Store
from posenc.lab.run_once import checkpoint_of
from tests.dashboard.pages import visit
from tests.lab.small_runs import small_spec
from tests.lab.worker_processes import PATIENCE, own_place, wait

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.usefixtures("no_shape_checks")]
LONG = small_spec("none", task="copy", steps=100_000)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of jobs."""
    st.cache_resource.clear()
    for found in own_place(tmp_path, monkeypatch):
        yield found / "work" / "jobs"
    st.cache_resource.clear()


def process_of(training: TrainingProcess) -> subprocess.Popen[bytes]:
    assert training._process is not None
    return training._process


def ended(training: TrainingProcess, process: subprocess.Popen[bytes]) -> None:
    """End a process, and start none in its place."""
    training._stopping = True
    process.kill()
    process.wait()


def test_process_that_fails_is_followed_by_another_after_a_pause(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    codes, begun = iter([75, 0]), Mock()
    begun.side_effect = lambda *_, **__: SimpleNamespace(
        pid=0, wait=lambda: next(codes), stdin=None
    )
    pauses: list[float] = []
    own_time = SimpleNamespace(monotonic=lambda: 1e9 + sum(pauses), sleep=pauses.append)
    monkeypatch.setattr(training_process, "time", own_time)
    monkeypatch.setattr(training_process, "_lower_priority", Mock())
    monkeypatch.setattr(subprocess, "Popen", begun)
    add(place, [LONG], waiting=8)
    training = TrainingProcess(place)
    monkeypatch.setattr(
        jobs, "jobs", lambda _: [SimpleNamespace(error="")] * (begun.call_count < 2)
    )
    training.start_if_needed()
    wait(lambda: begun.call_count == 2)
    wait(lambda: training._process is None)
    assert pauses == [training_process.PAUSE]


def test_fault_of_the_folder_after_the_end_of_a_process_is_logged(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    training = TrainingProcess(place)
    monkeypatch.setattr(training, "start_if_needed", Mock(side_effect=OSError(5, "no disk")))
    with caplog.at_level(logging.ERROR):
        training._await(Mock(wait=lambda: 0))
    assert "no process can be started for the jobs that wait" in caplog.messages
    assert not training.failed


def test_starts_at_once_begin_one_process(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over, begin = threading.Event(), Mock()
    begin.return_value.wait = lambda: int(not over.wait(PATIENCE))
    monkeypatch.setattr(subprocess, "Popen", begin)
    monkeypatch.setattr(training_process, "_lower_priority", Mock())
    training = TrainingProcess(place)

    def press(_: int) -> str:
        name = add(place, [LONG], waiting=8)
        training.start_if_needed()
        return name

    with ThreadPoolExecutor(25) as crowd:
        assert len(set(crowd.map(press, range(25)))) == begin.call_count == 1
    training._stopping = True
    over.set()


def test_opening_any_page_starts_jobs_of_another_server(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_process, "RESUME_EVERY", 0.0)
    at = visit("pca")
    training = server_process()
    assert training._process is None
    one = small_spec("none", task="copy", steps=3)
    add(place, [one], waiting=8)  # as a replica does that is then killed
    at.run()
    assert server_process() is training
    process = process_of(training)
    try:
        wait(lambda: Store().ids() == [one.run_id])
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()


def test_pages_check_the_folder_at_intervals_and_survive_its_faults(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    training, looks, clock = server_process(), list[float](), [1e9]
    # Only this test's process fails, and only it has this clock: threads of earlier tests may still wait.
    own_time = SimpleNamespace(monotonic=lambda: clock[0], sleep=time.sleep)
    monkeypatch.setattr(training_process, "time", own_time)

    def start_if_needed() -> None:
        looks.append(clock[0])
        resume()  # of another visitor meanwhile: it goes on at once
        raise OSError(5, "no disk")

    monkeypatch.setattr(training, "start_if_needed", start_if_needed)
    for _ in range(2):
        for _ in range(10):
            resume()
        clock[0] += RESUME_EVERY
    assert looks == [1e9, 1e9 + RESUME_EVERY]
    assert caplog.messages.count("the folder of jobs cannot be used") == 2


def test_server_ends_when_training_is_saved(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = add(place, [LONG], waiting=8)
    training = TrainingProcess(place)
    training.start_if_needed()
    process = process_of(training)
    try:
        wait(lambda: jobs.progress(place, name).step >= 1)
        # Beside other tests it would wait for a core for longer than it has to save in.
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, process.pid, 0)
        monkeypatch.setattr(training_process, "GRACE", PATIENCE)
        stop_all()
        assert process.poll() == 0
        assert [(job.name, job.error) for job in jobs.jobs(place)] == [(name, "")]
        assert (place / f"{name}.tries").read_text() == "0"  # it was no fault of the job
        assert checkpoint_of(LONG.run_id).exists()
        training.start_if_needed()
        assert training._process in (None, process)  # none is begun by a server that ends
    finally:
        process.kill()


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="of Linux alone")
@pytest.mark.parametrize("shared", [False, True])
def test_training_runs_at_lower_priority_than_pages(
    place: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    monkeypatch.setenv("POSENC_PROFILE", "shared" if shared else "private")
    monkeypatch.setenv("POSENC_RUNNING", "1")
    add(place, [LONG], waiting=8)
    training = TrainingProcess(place)
    training.start_if_needed()
    process = process_of(training)
    try:
        policy = os.SCHED_IDLE if shared else os.SCHED_OTHER
        assert os.sched_getscheduler(process.pid) == policy
        assert os.getpriority(os.PRIO_PROCESS, process.pid) >= NICE
        # A group of its own, so that no Ctrl-C reaches it, in the session in which niceness counts.
        assert os.getpgid(process.pid) == process.pid
        assert os.getsid(process.pid) == os.getsid(0)
    finally:
        ended(training, process)


def test_no_process_is_started_where_training_is_off_or_another_server_trains(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", begin := Mock())
    monkeypatch.setattr(training_process, "_lower_priority", Mock())
    add(place, [LONG], waiting=8)
    with jobs.taken(place):
        TrainingProcess(place).start_if_needed()
    monkeypatch.setenv("POSENC_RUNNING", "0")
    TrainingProcess(place).start_if_needed()
    assert not begin.called
