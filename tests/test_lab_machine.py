"""The queue as a machine: whatever is started, stopped, killed, left and swept up, in any order."""

import os
import tempfile
import time
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

from posenc import limits
from posenc.errors import QueueFull
from posenc.lab.entry import Progress, State
from posenc.lab.holder import ENDINGS
from posenc.lab.making import checkpoint_of
from posenc.lab.queue import ATTEMPTS, Queue
from posenc.lab.upkeep import ABANDONED, CHECKPOINTS, DAY, sweep_up
from tests.held_entries import REASON, Holders
from tests.small_runs import small

RUNNING, WAITING, ENDED_KEPT = 2, 3, 8
STARTS = st.integers(0, 5)
ANY = st.integers(0, 63)
HALF = "0" * 32  # of the name of a file that was being written


@dataclass
class Known:
    """What the model knows of an entry."""

    name: str
    start: int
    attempts: int = 0
    holder: int | None = None
    stopping: bool = False
    error: bool = False
    progress: bool = False  # whether it told how far it is
    old: frozenset[str] = frozenset()  # which of its files were written long ago

    @property
    def state(self) -> State:
        if self.error:
            return State.FAILED
        return State.WAITING if self.holder is None else State.RUNNING

    @property
    def hangs(self) -> bool:
        """Whether its process has told nothing for long, or not heard a stop."""
        told = self.progress and "progress" not in self.old
        silent = "working" in self.old and not told
        return self.holder is not None and (silent or (self.stopping and "stop" in self.old))


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


class QueueMachine(RuleBasedStateMachine):
    """Every rule does one thing to the queue and to a list that stands for it."""

    holders: Holders

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.folder = Path(self.place.name) / "queue"
        self.queue = Queue(self.folder, running=RUNNING, waiting=WAITING)
        self.known: list[Known] = []
        self.work = Path(self.place.name) / CHECKPOINTS
        self.work.mkdir()
        self.checkpoints: dict[int, int] = {}  # of a start, and how many days old
        self.left: set[Path] = set()  # of a kill
        self.finished = Path(self.place.name) / "runs" / f"{'0' * 20}.parquet"
        self.finished.parent.mkdir()
        self.finished.write_bytes(b"a run")
        age(self.finished, 2 * ABANDONED)

    def teardown(self) -> None:
        for one in self.held():
            self.holders.end(one.holder, "killed")
        self.place.cleanup()

    def held(self) -> list[Known]:
        return [one for one in self.known if one.holder is not None]

    @rule(start=STARTS, began=st.booleans())
    def add(self, start: int, began: bool) -> None:
        if began:  # a command line, or the same start before it was stopped
            path = checkpoint_of(small(steps=5 + start).run_id, self.work)
            path.write_bytes(f"state of {start}".encode())
            self.checkpoints[start] = 0
        same = [one for one in self.known if one.start == start and not one.error]
        here = [one for one in self.known if not one.error]
        wanted = [small(steps=5 + start)]
        text = f"text {start % 2} ".encode() * 100
        alive = [one for one in same if not one.stopping]
        if alive:
            assert self.queue.add(wanted, text=text) == alive[0].name
            return
        if len(here) >= RUNNING + WAITING:
            with pytest.raises(QueueFull, match=f"{WAITING} starts wait already"):
                self.queue.add(wanted, text=text)
            return
        name = self.queue.add(wanted, text=text)
        assert name not in [one.name for one in self.known]
        self.known = [one for one in self.known if not (one.start == start and one.error)]
        self.known.append(Known(name, start))

    @precondition(lambda self: len(self.held()) < RUNNING)
    @rule()
    def take(self) -> None:
        expected = ""
        for one in self.known:
            if one.state is not State.WAITING:
                continue
            if one.attempts < ATTEMPTS:
                expected = one.name
                break
            one.error = True
            self.forget_old_failures()
        pid, name = self.holders.take(self.folder)
        assert name == expected
        if not name:
            return
        (one,) = [one for one in self.known if one.name == name]
        one.holder, one.attempts, one.old = pid, one.attempts + 1, one.old - {"working"}

    @precondition(lambda self: self.held())
    @rule(which=ANY, how=st.sampled_from(("done", "left", "failed", "killed")))
    def end(self, which: int, how: str) -> None:
        one = self.held()[which % len(self.held())]
        assert one.holder is not None
        self.holders.end(one.holder, how)
        one.holder = None
        if how == "done":
            self.known.remove(one)
        elif how == "left":
            one.attempts -= 1
        elif how == "failed":
            one.error = True
            self.forget_old_failures()

    @precondition(lambda self: self.known)
    @rule(which=ANY, times=st.integers(1, 2))
    def stop(self, which: int, times: int) -> None:
        one = self.known[which % len(self.known)]
        for _ in range(times):  # twice is once
            self.queue.stop(one.name)
        if one.holder is None:
            self.known.remove(one)
        else:
            one.stopping, one.old = True, one.old - {"stop"}

    @precondition(lambda self: self.held())
    @rule(which=ANY)
    def tell(self, which: int) -> None:
        one = self.held()[which % len(self.held())]
        self.queue.tell(one.name, Progress(step=1))
        one.progress, one.old = True, one.old - {"progress"}

    @precondition(lambda self: self.held())
    @rule(which=ANY, files=st.sampled_from((("working",), ("working", "progress"), ("stop",))))
    def expire(self, which: int, files: tuple[str, ...]) -> None:
        """Time passes; then a server that watches its processes ends those that hang."""
        one = self.held()[which % len(self.held())]
        if "stop" in files:  # which it does not hear
            self.queue.stop(one.name)
            one.stopping = True
        for ending in files:
            path = self.folder / f"{one.name}.{ending}"
            if path.exists():
                age(path, limits.MAX_SILENCE + 60)
                one.old |= {ending}
        for one in self.held():
            assert one.holder is not None
            assert self.queue.hung(one.holder) == (one.name if one.hangs else None)
            if not one.hangs:
                continue
            self.holders.end(one.holder, "killed")
            one.holder = None
            if one.stopping:
                self.queue.stop(one.name)
                self.known.remove(one)
        assert self.queue.hung(os.getpid()) is None

    @rule()
    def stop_of_what_is_not_there(self) -> None:
        self.queue.stop(f"{time.time_ns():020d}-{'0' * 12}")

    @rule(days=st.sampled_from((0, 2, 31)), left=st.integers(0, 3))
    def sweep(self, days: int, left: int) -> None:
        """Something is killed amid its writes, days pass, and an entry waits on; then a worker starts."""
        entry = f"{left:020d}-{'0' * 12}"
        for path in (
            self.work / f".{left}.safetensors.{HALF}",
            self.work / f"{left}.lock",
            self.folder / f".{entry}.json.{HALF}",
            *(self.folder / f"{entry}{ending}" for ending in ENDINGS),
        ):
            path.parent.mkdir(exist_ok=True)
            path.touch()
            self.left.add(path)
        if days:
            for path in (*self.work.iterdir(), *self.left, *self.folder.glob("*.json")):
                age(path, days * DAY + 60)
            self.left.clear()
            self.checkpoints = dict.fromkeys(self.checkpoints, days)
        sweep_up(self.queue, Path(self.place.name))
        living = {one.start for one in self.known if not one.error}
        for start, old in [*self.checkpoints.items()]:
            if old * DAY >= ABANDONED and start not in living:
                del self.checkpoints[start]

    @rule()
    def another_server_looks(self) -> None:
        self.queue = Queue(self.folder, running=RUNNING, waiting=WAITING)

    def forget_old_failures(self) -> None:
        failed = [one for one in self.known if one.error]
        for old in failed[:-ENDED_KEPT]:
            self.known.remove(old)

    @invariant()
    def the_queue_is_the_list(self) -> None:
        found = self.queue.entries()
        assert [(one.name, one.state, one.attempts) for one in found] == [
            (one.name, one.state, one.attempts) for one in self.known
        ]
        assert self.queue.working() == {one.name for one in self.held()}
        for entry, one in zip(found, self.known, strict=True):
            assert entry.specifications[0].steps == 5 + one.start
            assert self.queue.text(entry) == f"text {one.start % 2} ".encode() * 100
            assert self.queue.stopping(entry.name) == one.stopping
            if entry.error:
                assert entry.error in (
                    REASON,
                    f"Its process ended {ATTEMPTS} times before it was done.",
                )

    @invariant()
    def nothing_is_left_over(self) -> None:
        names = {one.name for one in self.known}
        for path in self.folder.glob("*"):
            if path in self.left:
                continue
            assert path.suffix in (".txt", ".json", *ENDINGS), path.name
            if path.suffix not in (".txt", ".lock"):
                assert path.stem in names, path.name
        assert len(list(self.folder.glob("*.txt"))) == len({one.start % 2 for one in self.known})

    @invariant()
    def what_is_needed_or_finished_or_young_is_there_and_nothing_else(self) -> None:
        runs = {checkpoint_of(small(steps=5 + n).run_id, self.work): n for n in self.checkpoints}
        assert set(self.work.glob("*.safetensors")) == set(runs)
        for path, start in runs.items():
            assert path.read_bytes() == f"state of {start}".encode()
        assert [path for path in self.left if not path.exists()] == []
        assert [path.name for path in self.work.glob(f".*.{HALF}") if path not in self.left] == []
        assert self.finished.read_bytes() == b"a run"


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("examples", [25, pytest.param(400, marks=pytest.mark.long)])
def test_no_order_of_starts_stops_kills_and_ends_loses_or_doubles_an_entry(examples: int) -> None:
    QueueMachine.holders = Holders()
    try:
        run_state_machine_as_test(
            QueueMachine,
            settings=settings(max_examples=examples, stateful_step_count=30, deadline=None),
        )
    finally:
        QueueMachine.holders.close()
