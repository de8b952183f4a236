"""A kill at every step of whatever is done to the queue: what was there is there, and it works on."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from posenc.lab.entry import Progress, State
from posenc.lab.queue import Queue
from tests.small_runs import small
from tests.test_lab_faults import die_at

OLD, NEW = b"an old text " * 50, b"a new text " * 50


def first(queue: Queue) -> str:
    return queue.entries()[0].name


def add(queue: Queue) -> None:
    queue.add([small(steps=9)], text=NEW)


def stop(queue: Queue) -> None:
    queue.stop(first(queue))


def fail(queue: Queue) -> None:
    queue.fail(queue.entries()[0], "it failed on purpose")


def give_back(queue: Queue) -> None:
    queue.give_back(replace(queue.entries()[0], attempts=1))


def tell(queue: Queue) -> None:
    queue.tell(first(queue), Progress(step=7, points=((7, 1.5),)))


def take_and_end(queue: Queue) -> None:
    with queue.taken() as entry:
        assert entry is not None
        queue.remove(entry.name)


@pytest.mark.parametrize("call", ["open", "fsync", "replace", "unlink"])
@pytest.mark.parametrize("done", [add, stop, fail, give_back, tell, take_and_end])
def test_a_kill_at_every_step_loses_no_other_entry(
    done: Callable[[Queue], None], call: str, tmp_path: Path
) -> None:
    count, killed = 0, True
    while killed:
        count += 1
        folder = tmp_path / str(count)
        before = Queue(folder, waiting=5)
        names = [before.add([small(steps=5 + n)], text=OLD) for n in range(2)]
        child = os.fork()
        if child == 0:
            die_at(call, count)
            done(Queue(folder, waiting=5))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        assert killed or status == 0
        after = Queue(folder, waiting=5)
        found = {entry.name: entry for entry in after.entries()}
        assert names[1] in found
        assert names[0] in found or done in (stop, take_and_end)
        for name, entry in found.items():
            assert entry.state in (State.WAITING, State.FAILED)
            assert after.text(entry) == (OLD if name in names else NEW)
        assert after.progress(names[0]).step in (0, 7)
        assert len(found) <= 3
        # Whatever was left half done, the same is done now, and the next start is taken.
        again = after.add([small(steps=9)], text=NEW)
        assert [one.name for one in after.entries()][-1] == again
        with after.taken() as entry:
            assert entry is not None
            assert entry.name == next(n for n, one in found.items() if one.state is State.WAITING)


def test_every_kind_of_step_was_killed_at_least_once(tmp_path: Path) -> None:
    """The counts that the test above ends with, of one step that writes and one that removes."""
    for done, call, least in ((add, "fsync", 4), (stop, "unlink", 5)):
        folder = tmp_path / call
        Queue(folder, waiting=5).add([small(steps=5)], text=OLD)
        child = os.fork()
        if child == 0:
            die_at(call, least)
            done(Queue(folder, waiting=5))
            os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
