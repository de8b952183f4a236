"""The queue of starts: each once, in order, bounded, and whole whatever is killed or broken."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from posenc.errors import QueueFull, RunError
from posenc.lab.entry import State
from posenc.lab.making import checkpoint_of
from posenc.lab.queue import ATTEMPTS, Queue
from tests.queued import own_queue, start
from tests.small_runs import sentences


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    return own_queue(tmp_path, monkeypatch)


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
