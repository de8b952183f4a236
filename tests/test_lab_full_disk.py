"""A full disk under the worker: a sentence or a start that waits, nothing half, and all of it later."""

import math
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from posenc.errors import QueueUnwritable
from posenc.lab import Run, Store, make_run
from posenc.lab import worker as work
from posenc.lab.entry import State
from posenc.lab.making import checkpoint_of
from posenc.lab.queue import ATTEMPTS, Queue
from tests.bad_disks import FULL, TAKING_SPACE, bad_disk
from tests.small_runs import CORPUS, made, sentences, small, timeless
from tests.worker_processes import PATIENCE, own_place, running_at, worker

TEXT = {"text": sentences(), "text_name": CORPUS.name}
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}")
WAITS = "What waits is tried again by the next process."

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.usefixtures("no_shape_checks")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from own_place(tmp_path, monkeypatch)


def ended(queue: Queue) -> int:
    """Let a worker do what waits in this process, and return its exit code."""
    try:
        work.main(queue.folder, queue.running)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    return 0


@pytest.mark.parametrize("last", [1, math.inf], ids=["once", "from then on"])
@pytest.mark.parametrize(
    "calls", [("write",), pytest.param(TAKING_SPACE, marks=pytest.mark.long)], ids=["write", "all"]
)
def test_whichever_write_meets_a_full_disk_nothing_is_lost_and_space_completes_it(
    calls: tuple[str, ...],
    last: float,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = small("learned", steps=4)
    earlier_store, earlier = made(place / "earlier", "alibi", steps=4)
    whole = make_run(one, CORPUS, Store(place / "alone"), work=place / "w")
    tables = Store(place / "alone").tables(one.run_id)
    count, refused = 0, True
    while refused:
        count += 1
        folder = place / str(count)
        shutil.copytree(earlier_store.url, folder / "runs")
        monkeypatch.setenv("POSENC_RUNS", str(folder / "runs"))
        monkeypatch.setenv("POSENC_WORK", str(folder / "work"))
        queue, unadded = Queue(folder / "queue"), ""
        caplog.clear()
        with bad_disk(folder, FULL, calls, first=count, last=count + last - 1) as disk:
            try:
                queue.add([one], **TEXT)
            except QueueUnwritable as error:
                unadded = str(error)
            code = ended(queue)
        refused = bool(disk.refused)
        said = [record.getMessage() for record in caplog.records]
        assert said.count(f"The queue cannot be written: No space left on device. {WAITS}") == (
            code == work.UNWRITABLE
        )
        assert code in (0, work.UNWRITABLE)
        assert unadded in ("", "The queue cannot be written: No space left on device.")
        assert not [line for line in said if "unforeseen" in line or "Traceback" in line]
        check_nothing_half(folder, earlier)
        there, entries = Store().has(one.run_id), queue.entries()
        if entries:
            (entry,) = entries
            assert entry.state in (State.WAITING, State.FAILED)
            assert queue.text(entry) == TEXT["text"]
            if entry.state is State.FAILED:
                assert re.fullmatch(
                    r".+ cannot be (written|used): No space left on device\.", entry.error
                )
            else:
                assert code == work.UNWRITABLE
        else:
            assert there or unadded
            assert not unadded or not list(queue.folder.glob("*.txt"))
        # Space is back: what waits goes on, what failed is started again.
        queue.add([one], **TEXT)
        assert ended(queue) == 0
        assert queue.entries() == []
        assert timeless(Store().read(one.run_id)) == timeless(whole)
        found = Store().tables(one.run_id)
        assert all(torch.equal(found[name], tables[name]) for name in tables)
        check_nothing_half(folder, earlier)
        assert not checkpoint_of(one.run_id).exists()
        shutil.rmtree(folder)
    assert count > 9


def check_nothing_half(folder: Path, earlier: Run) -> None:
    """All runs are whole, that of before among them, and no half file stays."""
    store = Store()
    assert earlier in list(store)
    assert (store.broken, store.foreign) == ([], [])
    assert not [path for path in folder.rglob("*") if TEMPORARY.fullmatch(path.name)]


def test_a_disk_that_stays_full_costs_a_start_no_attempt(place: Path) -> None:
    queue, one = Queue(place / "queue"), small(steps=4)
    name = queue.add([one], **TEXT)
    with bad_disk(place, FULL, TAKING_SPACE):
        for _ in range(ATTEMPTS + 1):
            assert ended(queue) == work.UNWRITABLE
            (entry,) = queue.entries()
            assert (entry.name, entry.state, entry.attempts) == (name, State.WAITING, 0)
    assert ended(queue) == 0
    assert Store().ids() == [one.run_id]


def test_a_failure_that_cannot_be_kept_is_no_attempt_where_that_can_be_written(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue(place / "queue")
    queue.add([small(steps=4)], text=sentences(1), text_name="another text")  # fails: not its text
    fail = Queue.fail

    def full(self: Queue, entry: object, error: str) -> None:
        with bad_disk(place, FULL, ("write",), last=1):
            fail(self, entry, error)

    monkeypatch.setattr(Queue, "fail", full)
    for _ in range(ATTEMPTS + 1):
        assert ended(queue) == work.UNWRITABLE
        (entry,) = queue.entries()
        assert (entry.state, entry.attempts) == (State.WAITING, 0)
    monkeypatch.undo()
    assert ended(queue) == 0
    (entry,) = queue.entries()
    assert entry.error == "The run needs the text made-up sentences, got the text another text."


def test_a_start_that_failed_keeps_its_reason_while_it_cannot_be_started_again(
    place: Path,
) -> None:
    queue, one = Queue(place / "queue"), small(steps=4)
    queue.add([one], **TEXT)
    with queue.taken() as entry:
        assert entry is not None
        queue.fail(entry, "it failed on purpose")
    with bad_disk(place, FULL, TAKING_SPACE), pytest.raises(QueueUnwritable):
        queue.add([one], **TEXT)
    assert [entry.error for entry in queue.entries()] == ["it failed on purpose"]
    queue.add([one], **TEXT)
    assert [entry.error for entry in queue.entries()] == [None]


def limited(queue: Queue, size: int) -> tuple[int, str]:
    """Let a process do what waits that can make no file larger than `size`: its exit code and log."""
    return end_of(worker(queue, largest=size))


def end_of(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Wait for the end of a process, whose parent stays: its exit code and log."""
    code = process.wait(PATIENCE)
    assert process.stderr is not None
    return code, process.stderr.read().decode()


def test_a_process_that_can_write_no_file_ends_in_one_line_and_the_next_goes_on(
    place: Path,
) -> None:
    queue, whole = Queue(place / "queue"), small(steps=2_000)
    made(place, "alibi", steps=4)
    earlier = list(Store())
    name = queue.add([whole], **TEXT)
    process = worker(queue)
    running_at(queue, name, 150)  # past a checkpoint
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
    code, log = end_of(process)
    for _ in range(2):
        assert code == work.UNWRITABLE
        assert log.count(f"The queue cannot be written: File too large. {WAITS}") == 1
        assert "Traceback" not in log
        # The first was counted when it began, on a disk with space; the second could not begin.
        assert [(one.state, one.attempts) for one in queue.entries()] == [(State.WAITING, 1)]
        assert list(Store()) == earlier
        code, log = limited(queue, 0)
    assert checkpoint_of(whole.run_id).exists()
    assert ended(queue) == 0
    unbroken = make_run(whole, CORPUS, Store(place / "alone"), work=place / "w")
    assert timeless(Store().read(whole.run_id)) == timeless(unbroken)
    assert queue.entries() == []


def test_a_process_whose_checkpoint_does_not_fit_keeps_the_sentence_and_can_be_started_again(
    place: Path,
) -> None:
    queue, one = Queue(place / "queue"), small(steps=4)
    made(place, "alibi", steps=4)
    earlier = list(Store())
    queue.add([one], **TEXT)
    assert limited(queue, 8_192)[0] == 0
    (entry,) = queue.entries()
    assert entry.error == "The checkpoint cannot be written: File too large."
    assert list(Store()) == earlier
    queue.add([one], **TEXT)
    assert ended(queue) == 0
    unbroken = make_run(one, CORPUS, Store(place / "alone"), work=place / "w")
    assert timeless(Store().read(one.run_id)) == timeless(unbroken)
