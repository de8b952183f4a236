"""The queue of starts: each once, in order, bounded, and whole whatever is killed or broken."""

import json
import math
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from posenc import limits
from posenc.errors import QueueBusy, QueueFull, RunError
from posenc.lab import Store, worker
from posenc.lab.entry import Progress, State
from posenc.lab.loss_curve import Curve
from posenc.lab.making import checkpoint_of
from posenc.lab.queue import ATTEMPTS, Queue
from posenc.lab.specification import Specification
from tests.small_runs import sentences, small


def start(seed: int = 0, count: int = 1) -> list[Specification]:
    return [replace(small(), seed=seed + n) for n in range(count)]


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    return Queue(tmp_path / "queue", waiting=2)


def test_a_start_comes_back_as_it_was_put_in(queue: Queue) -> None:
    assert queue.entries() == []
    asked = start(count=3)
    name = queue.add(asked, store="s3://runs", text=b"abc", text_name="my text", estimate=12.5)
    (entry,) = Queue(queue.folder).entries()
    assert entry.specifications == tuple(asked)
    assert (entry.name, entry.store, entry.text_name, entry.estimate) == (
        name, "s3://runs", "my text", 12.5,
    )  # fmt: skip
    assert (entry.state, entry.attempts, entry.error) == (State.WAITING, 0, None)
    assert queue.text(entry) == b"abc"
    assert queue.text(replace(entry, text=None)) is None


def test_starts_keep_their_order_and_their_number_is_bounded(queue: Queue) -> None:
    names = [queue.add(start(seed)) for seed in range(3)]  # one to be done, two that wait
    assert [entry.name for entry in queue.entries()] == names
    with pytest.raises(QueueFull, match=r"^2 starts wait already; try again"):
        queue.add(start(3))
    assert queue.add(start(1)) == names[1]  # the same start is no new one
    queue.stop(names[0])
    assert [entry.name for entry in queue.entries()] == names[1:]
    queue.stop(names[0])  # twice is once
    queue.add(start(3))
    with pytest.raises(RunError, match="nothing to train"):
        queue.add([])


def test_the_same_start_from_two_processes_at_once_is_one_entry(tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from posenc.lab.queue import Queue
from tests.small_runs import small
queue = Queue(Path({str(tmp_path)!r}), waiting=50)
print("ready", flush=True)
sys.stdin.readline()
for steps in range(5, 25):
    queue.add([small(steps=steps)])
"""
    root = Path(__file__).parents[1]
    pair = [
        subprocess.Popen(
            [sys.executable, "-c", script], cwd=root, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in pair:
        assert process.stdout.readline() == "ready\n"
    for process in pair:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in pair:
        process.communicate(timeout=120)
        assert process.returncode == 0
    entries = Queue(tmp_path).entries()
    assert [entry.specifications[0].steps for entry in entries] == list(range(5, 25))


def test_a_text_is_kept_as_long_as_an_entry_needs_it(queue: Queue) -> None:
    first = queue.add(start(0), text=sentences(), text_name="a")
    second = queue.add(start(1), text=sentences(), text_name="a")
    assert len(list(queue.folder.glob("*.txt"))) == 1
    queue.stop(first)
    assert queue.text(queue.entries()[0]) == sentences()
    queue.stop(second)
    assert [path.name for path in queue.folder.iterdir()] == ["queue.lock"]


def test_one_entry_is_done_at_a_time_and_is_known_to_be(queue: Queue) -> None:
    names = [queue.add(start(seed)) for seed in range(2)]
    with queue.taken() as entry:
        assert entry is not None
        assert (entry.name, entry.attempts) == (names[0], 1)
        assert [one.state for one in queue.entries()] == [State.RUNNING, State.WAITING]
        with Queue(queue.folder).taken() as other:
            assert other is not None
            assert other.name == names[1]
        queue.stop(names[0])  # only asks: its worker ends it
        assert queue.stopping(names[0])
        assert len(queue.entries()) == 2
    assert [one.state for one in queue.entries()] == [State.WAITING] * 2
    assert [one.attempts for one in queue.entries()] == [1, 1]


def test_an_entry_that_keeps_killing_its_worker_is_given_up(queue: Queue) -> None:
    first, second = (queue.add(start(seed)) for seed in range(2))
    for _ in range(ATTEMPTS):
        with queue.taken() as entry:
            assert entry is not None
            assert entry.name == first
    with queue.taken() as entry:
        assert entry is not None
        assert entry.name == second
    failed = queue.entries()[0]
    assert failed.state is State.FAILED
    assert failed.error == f"Its process ended {ATTEMPTS} times before it was done."


def test_a_clean_end_of_the_worker_counts_as_no_attempt(queue: Queue) -> None:
    name = queue.add(start())
    for _ in range(2 * ATTEMPTS):
        with queue.taken() as entry:
            assert entry is not None
            assert (entry.name, entry.attempts) == (name, 1)
            queue.give_back(entry)
    assert queue.entries()[0].attempts == 0


def test_a_stop_that_meets_a_worker_on_its_way_is_heard_by_it(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker takes the entry after whoever stops it has seen it waiting."""
    name = queue.add(start())
    with queue.taken():
        (queue.folder / f"{name}.working").unlink()  # as it is before the worker says so
        assert queue.entries()[0].state is State.WAITING
        queue.stop(name)
        assert queue.stopping(name)
        assert len(queue.entries()) == 1


def test_the_same_start_after_a_stop_comes_again(queue: Queue) -> None:
    first = queue.add(start())
    with queue.taken():
        queue.stop(first)
        second = queue.add(start())
        assert second != first
        queue.remove(first)  # as its worker does
    assert [entry.name for entry in queue.entries()] == [second]


def test_the_text_of_an_entry_of_another_version_stays(queue: Queue) -> None:
    name = queue.add(start(), text=b"a text", text_name="a")
    path = queue.folder / f"{name}.json"
    values = json.loads(path.read_text())
    values["records"][0]["protocol"] = 99
    path.write_text(json.dumps(values))
    other = queue.add(start(1))
    queue.stop(other)
    assert [path.read_bytes() for path in queue.folder.glob("*.txt")] == [b"a text"]


def test_a_stop_of_what_waits_leaves_the_checkpoint_of_whoever_made_it(queue: Queue) -> None:
    name = queue.add(start())
    checkpoint = checkpoint_of(start()[0].run_id)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write_bytes(b"of a command line that was stopped")
    queue.stop(name)
    assert queue.entries() == []
    assert checkpoint.exists()


def test_attempts_count_anew_once_a_run_is_done(queue: Queue) -> None:
    queue.add(start())
    for _ in range(5):
        with queue.taken() as entry:
            assert entry is not None
            assert queue.got_on(entry).attempts == 1
    assert queue.entries()[0].error is None


def test_failures_are_kept_for_a_while_and_do_not_fill_the_queue(queue: Queue) -> None:
    for seed in range(12):
        queue.add(start(seed))
        with queue.taken() as entry:
            assert entry is not None
            queue.fail(entry, f"reason {seed}")
    assert [entry.error for entry in queue.entries()] == [f"reason {n}" for n in range(4, 12)]
    name = queue.add(start(11))  # started again: the failure makes room
    assert [entry.error for entry in queue.entries()][-1] is None
    assert queue.entries()[-1].name == name
    queue.stop(queue.entries()[0].name)
    assert len(queue.entries()) == 7
    with queue.taken() as entry:
        assert entry is not None
        assert entry.name == name


def test_files_that_are_no_entries_are_passed_over(queue: Queue) -> None:
    name = queue.add(start())
    good = (queue.folder / f"{name}.json").read_text()
    values = json.loads(good)
    odd = ["", "{", "[]", "7", "{}", good[:-20], json.dumps(values | {"records": []})]
    odd += [json.dumps(values | {"records": [{"protocol": 99}]}), json.dumps(values | {"new": 1})]
    odd += [
        "[" * 50_000,
        json.dumps(values | {"records": 7}),
        json.dumps(values | {"records": ["a"]}),
    ]
    odd += [json.dumps(values | {name: "x"}) for name in ("attempts", "estimate", "reading")]
    for n, content in enumerate(odd):
        (queue.folder / f"{n}-odd.json").write_text(content)
    assert [entry.name for entry in queue.entries()] == [name]


def test_progress_is_the_last_one_told_or_the_beginning(queue: Queue) -> None:
    name = queue.add(start())
    assert queue.progress(name) == Progress()
    told = Progress(run=1, step=7, began=2, seconds=1.5, points=((3, 0.5), (7, math.inf)))
    queue.tell(name, told)
    assert queue.progress(name) == told
    path = queue.folder / f"{name}.progress"
    content = path.read_text()
    for cut in range(0, len(content), 7):
        path.write_text(content[:cut])
        assert queue.progress(name) == Progress()
    for odd in ("7", '"a"', "null", "[]", '{"points": 1}', content.replace("1.5", '"x"')):
        path.write_text(odd)
        assert queue.progress(name) == Progress()


def test_a_curve_of_any_length_has_few_points_with_the_true_means() -> None:
    curve, losses = Curve(), [math.sin(n) + 2 for n in range(5_003)]
    for step, loss in enumerate(losses, start=1):
        curve.add(step, loss)
        assert len(curve.points) < 200
    steps = [step for step, _ in curve.points]
    each = steps[0]
    assert steps == list(range(each, 5_003 + 1, each))
    for step, mean in curve.points:
        assert mean == pytest.approx(sum(losses[step - each : step]) / each)


def test_a_curve_goes_on_from_the_points_of_an_earlier_sitting() -> None:
    whole, first = Curve(), Curve()
    losses = [1 / n for n in range(1, 1_001)]
    for step, loss in enumerate(losses, start=1):
        whole.add(step, loss)
        if step <= 600:
            first.add(step, loss)
    second = Curve(first.points)
    for step in range(601, 1_001):
        second.add(step, losses[step - 1])
    assert second.points[-1][0] == whole.points[-1][0]
    assert np.array(second.points) == pytest.approx(np.array(whole.points))


def test_training_can_be_switched_off(tmp_path: Path) -> None:
    with pytest.raises(QueueFull, match="switched off"):
        Queue(tmp_path, running=0).add(start())


def test_a_folder_that_cannot_be_written_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match=r"^The queue cannot be written: .+\.$"):
        Queue(tmp_path / "file" / "below").add(start())


def test_a_place_that_ends_with_the_process_is_refused(queue: Queue) -> None:
    with pytest.raises(RunError, match="this process's memory"):
        queue.add(start(), store="memory://runs")


def test_odd_numbers_in_a_file_are_no_entry_and_no_progress(queue: Queue) -> None:
    name = queue.add(start())
    path = queue.folder / f"{name}.json"
    whole = path.read_text()
    for odd in ("Infinity", "-1", "1" + "0" * 400, "NaN", '"x"'):
        path.write_text(whole.replace('"attempts": 0', f'"attempts": {odd}'))
        assert queue.entries() == []
    path.write_text(whole.replace('"estimate": 0.0', '"estimate": 1' + "0" * 400))
    assert queue.entries() == []
    path.write_text(whole)
    queue.tell(name, Progress(run=0, step=7, points=((3, 1.0),)))
    told = queue.folder / f"{name}.progress"
    whole = told.read_text()
    assert '"step": 7' in whole
    for odd in ("Infinity", "-10", "1" + "0" * 400):
        told.write_text(whole.replace('"step": 7', f'"step": {odd}'))
        assert queue.progress(name) == Progress()
    (queue.folder / "a-b.json").mkdir()
    queue.remove(name)
    assert queue.entries() == []


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


def test_a_start_is_its_first_owner_s_until_it_ends(queue: Queue) -> None:
    name = queue.add(start(), owner="ann")
    assert queue.add(start(), owner="bob") == name
    queue.add(start(1))
    assert [entry.owner for entry in Queue(queue.folder).entries()] == ["ann", ""]
    with queue.taken() as entry:
        assert entry is not None
        entry = queue.got_on(entry)
        queue.give_back(entry)
    assert [entry.owner for entry in queue.entries()] == ["ann", ""]
    path = queue.folder / f"{name}.json"  # as it was written before entries named an owner
    values = json.loads(path.read_text())
    del values["owner"]
    path.write_text(json.dumps(values))
    assert [entry.owner for entry in queue.entries()] == [None, ""]
    queue.stop(name)
    queue.add(start(), owner="bob")
    assert [entry.owner for entry in queue.entries()] == ["", "bob"]


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


@pytest.mark.parametrize("ahead", [-300, 300])
def test_two_servers_whose_clocks_differ_by_minutes_lose_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    ours, theirs = Queue(tmp_path, waiting=9), Queue(tmp_path, waiting=9)
    now = time.time_ns()
    clocks = {ours: now, theirs: now + ahead * 10**9}

    def add(queue: Queue, seed: int) -> str:
        clocks[queue] += 10**9
        monkeypatch.setattr("posenc.lab.queue.time.time_ns", lambda: clocks[queue])
        return queue.add(start(seed))

    names = [add(queue, seed) for seed in range(3) for queue in (ours, theirs)]
    assert names[::2] == names[1::2]  # the same start of both is one
    mine = [add(ours, 3), add(ours, 4)]
    other = [add(theirs, 5), add(theirs, 6)]
    monkeypatch.undo()
    waiting = [entry.name for entry in ours.entries()]
    assert sorted(waiting) == sorted({*names, *mine, *other})
    assert [name for name in waiting if name in mine] == mine  # each server's own order stays
    assert [name for name in waiting if name in other] == other
    begun = []
    for _ in waiting:
        with theirs.taken() as one, ours.taken() as two:
            begun += [entry.name for entry in (one, two) if entry is not None]
            assert len({*begun}) == len(begun)
            for entry in (one, two):
                if entry is not None:
                    ours.remove(entry.name)
    assert sorted(begun) == sorted(waiting)
    assert theirs.entries() == []
