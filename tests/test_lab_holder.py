"""Who holds the queue or an entry of it: a process that hangs, is busy, or runs elsewhere."""

import os
import socket
import time
from pathlib import Path

import pytest

from posenc import limits
from posenc.errors import QueueBusy
from posenc.lab import Store, worker
from posenc.lab.entry import Progress, State
from posenc.lab.queue import ATTEMPTS, Queue
from tests.queued import own_queue, start
from tests.small_runs import sentences


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    return own_queue(tmp_path, monkeypatch)


def test_a_process_hangs_that_tells_nothing_or_does_not_hear_a_stop(queue: Queue) -> None:
    name, old = queue.add(start()), time.time() - limits.MAX_SILENCE - 60

    def aged(ending: str) -> None:
        os.utime(queue.folder / f"{name}.{ending}", (old, old))

    assert queue.hung(os.getpid()) is None  # nobody has it
    with queue.taken():
        assert queue.hung(os.getpid()) is None
        aged("working")
        assert queue.hung(os.getpid()) == name
        assert queue.hung(os.getppid()) is None
        queue.tell(name, Progress(step=1))
        assert queue.hung(os.getpid()) is None  # it tells how far it is
        queue.stop(name)
        assert queue.hung(os.getpid()) is None  # it may still hear it
        aged("stop")
        assert queue.hung(os.getpid()) == name
    assert queue.hung(os.getpid()) is None


def test_a_queue_that_another_process_holds_is_read_and_says_so_when_changed(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = queue.add(start())
    other = Queue(queue.folder)
    monkeypatch.setattr(other._lock, "timeout", 0.2)
    said = (
        r"^Another process has held the queue of trainings for 0\.2 s: nothing was changed\. "
        r"Try again\.$"
    )
    with queue._lock:
        assert [entry.name for entry in other.entries()] == [name]
        with pytest.raises(QueueBusy, match=said):
            other.add(start(1))
        with pytest.raises(QueueBusy, match=said):
            other.stop(name)
        assert [entry.name for entry in other.entries()] == [name]
    second = other.add(start(1))
    other.stop(name)
    assert [entry.name for entry in queue.entries()] == [second]


def busy(*_: object) -> None:
    raise QueueBusy("held")


def test_a_worker_that_cannot_forget_what_it_has_made_leaves_it_to_the_next(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))  # other tests spoil checkpoints
    store = str(tmp_path / "runs")
    queue.add(start(), store=store, text=sentences(), text_name="a")
    with monkeypatch.context() as held:
        held.setattr(Queue, "remove", busy)
        for _ in range(ATTEMPTS + 1):
            with queue.taken() as entry:
                assert entry is not None
                worker.do(queue, entry)
            (entry,) = queue.entries()
            assert (entry.state, entry.error, entry.attempts) == (State.WAITING, None, 0)
    (made,) = Store(store).ids()
    at = next((tmp_path / "runs").rglob(f"{made}*")).stat().st_mtime_ns
    with queue.taken() as entry:
        assert entry is not None
        worker.do(queue, entry)
    assert queue.entries() == []
    assert next((tmp_path / "runs").rglob(f"{made}*")).stat().st_mtime_ns == at  # not made again


def test_a_stop_that_cannot_be_done_yet_is_no_attempt_and_no_end_of_the_worker(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = queue.add(start(), text=sentences(), text_name="a")
    with monkeypatch.context() as held:
        held.setattr(Queue, "remove", busy)
        for _ in range(ATTEMPTS + 1):
            with queue.taken() as entry:
                assert entry is not None
                queue.stop(name)
                worker.do(queue, entry)
            (entry,) = queue.entries()
            assert (entry.state, entry.error, entry.attempts) == (State.WAITING, None, 0)
    worker.main(queue.folder, 1)
    assert queue.entries() == []


def test_a_failure_is_kept_while_an_older_one_cannot_be_forgotten(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(seed: int) -> None:
        queue.add(start(seed))
        with queue.taken() as entry:
            assert entry is not None
            queue.fail(entry, f"reason {seed}")

    with monkeypatch.context() as held:
        held.setattr(Queue, "remove", busy)
        for seed in range(10):
            fail(seed)
    assert [entry.error for entry in queue.entries()] == [f"reason {seed}" for seed in range(10)]
    fail(10)
    assert [entry.error for entry in queue.entries()] == [f"reason {n}" for n in range(3, 11)]


def test_a_worker_that_may_sweep_nothing_up_does_what_waits(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(tmp_path / "runs")
    queue.add(start(), store=store, text=sentences(), text_name="a")
    monkeypatch.setattr(worker, "sweep_up", busy)
    worker.main(queue.folder, 1)
    assert len(Store(store).ids()) == 1
    assert queue.entries() == []


def test_a_process_of_the_same_number_elsewhere_does_not_hang_here(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, pid = queue.add(start()), os.getpid()
    old = time.time() - limits.MAX_SILENCE - 60
    with queue.taken():
        path = queue.folder / f"{name}.working"
        ours = path.read_text()
        assert ours.split(" ")[:2] == [str(pid), socket.gethostname()]
        for text, found in (
            (ours, name),
            (str(pid), name),  # as it was written before it named a host
            (f"{pid} another-host", None),
            (f"{pid} {socket.gethostname()} pid:[1]", None),  # a container of the same host name
            (ours.replace(str(pid), str(pid + 1), 1), None),
            ("", None),
        ):
            path.write_text(text)
            os.utime(path, (old, old))
            assert queue.hung(pid) == found, text
        path.write_text(ours)
        os.utime(path, (old, old))
        monkeypatch.setattr("posenc.lab.holder.socket.gethostname", lambda: "another-host")
        assert queue.hung(pid) is None
