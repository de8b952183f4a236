"""A full disk or a read-only folder under the lab: a sentence or a waiting job, nothing lost or half."""

import errno
import math
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posenc.errors import QueueUnwritable, RunError
from posenc.lab import Run, Specification, Store, run_once, worker
from posenc.lab.jobs import ATTEMPTS, Job, JobState, Progress, Queue
from posenc.lab.run_once import checkpoint_of
from tests.lab.bad_disks import CALLS, FULL, TAKING_SPACE, bad_disk
from tests.lab.small_runs import (
    CORPUS,
    TEXT,
    make_small_run,
    sentences,
    small_job,
    small_spec,
    without_time,
)
from tests.lab.worker_processes import exit_code

SMALLEST: dict[str, Any] = {"steps": 2, "longest": 2, "segments": 2}
HALF = re.compile(r"\..+\.[0-9a-f]{32}")  # the name of a file that is being written
# SQLite says of a file that it may not make only that it cannot be opened, whatever the system's reason.
NO_SPACE = re.compile(
    r"The queue cannot be written: (No space left on device|unable to open database file)\."
)
READ_ONLY = "Read-only file system"

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.usefixtures("no_shape_checks")]


def only_entry(queue: Queue) -> Job:
    (entry,) = queue.jobs()
    return entry


def assert_nothing_half(folder: Path, earlier: Run) -> None:
    store = Store()
    assert earlier in list(store)
    assert (store.broken, store.foreign) == ([], [])
    assert not [path for path in folder.rglob("*") if HALF.fullmatch(path.name)]


def check_after_fault(queue: Queue, spec: Specification, code: int, add_error: str) -> None:
    """The job waits, failed with a reason, is done, or was refused when it was added."""
    assert code in (0, worker.UNWRITABLE)
    assert not add_error or NO_SPACE.fullmatch(add_error)
    if not queue.jobs():
        assert Store().has(spec.run_id) or add_error
        assert not add_error or not list(queue.folder.glob("*.txt"))
        return
    entry = only_entry(queue)
    assert queue.text(entry.name) == TEXT["text"]
    if entry.state is JobState.FAILED:
        assert re.search(r"cannot be (written|used): No space left on device\.", str(entry.error))
    else:
        assert (entry.state, code) == (JobState.QUEUED, worker.UNWRITABLE)


@pytest.mark.parametrize("last", [1, math.inf], ids=["once", "from then on"])
@pytest.mark.parametrize(
    "calls", [("write",), pytest.param(TAKING_SPACE, marks=pytest.mark.long)], ids=["write", "all"]
)
def test_full_disk_at_any_write_loses_nothing(
    calls: tuple[str, ...], last: float,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    spec = small_spec("learned", **SMALLEST)
    earlier_store, earlier = make_small_run(tmp_path / "earlier", "alibi", **SMALLEST)
    unbroken_store, unbroken = make_small_run(tmp_path / "unbroken", "learned", **SMALLEST)
    tables = unbroken_store.tables(spec.run_id)
    count, refused = 0, True
    while refused:
        count += 1
        folder = tmp_path / str(count)
        shutil.copytree(earlier_store.url, folder / "runs")
        monkeypatch.setenv("POSENC_RUNS", str(folder / "runs"))
        monkeypatch.setenv("POSENC_WORK", str(folder / "work"))
        queue, add_error = Queue(folder / "queue"), ""
        caplog.clear()
        with bad_disk(folder, FULL, calls, first=count, last=count + last - 1) as disk:
            try:
                queue.add([spec], **TEXT)
            except QueueUnwritable as error:
                add_error = str(error)
            code = exit_code(queue)
        refused = bool(disk.refused)
        assert len(NO_SPACE.findall(caplog.text)) == (code == worker.UNWRITABLE)
        assert "Traceback" not in caplog.text
        assert_nothing_half(folder, earlier)
        check_after_fault(queue, spec, code, add_error)
        # With space again, what waits goes on, and what failed is started again.
        queue.add([spec], **TEXT)
        assert (exit_code(queue), queue.jobs()) == (0, [])
        # The same steps: the same bits.
        assert without_time(Store().read(spec.run_id)) == without_time(unbroken)
        found = Store().tables(spec.run_id)
        assert all(found[name].equal(tables[name]) for name in tables)
        assert_nothing_half(folder, earlier)
        assert not checkpoint_of(spec.run_id).exists()
        shutil.rmtree(folder)
    assert count > 9


def test_disk_that_stays_full_costs_a_job_no_attempt(queue: Queue, folder: Path) -> None:
    spec = small_spec(**SMALLEST)
    name = queue.add([spec], **TEXT)
    for _ in range(ATTEMPTS + 1):
        with bad_disk(folder, FULL, TAKING_SPACE):
            assert exit_code(queue) == worker.UNWRITABLE
        entry = only_entry(queue)
        assert (entry.name, entry.state, entry.attempts) == (name, JobState.QUEUED, 0)
    assert exit_code(queue) == 0
    assert Store().ids() == [spec.run_id]


def test_failure_that_cannot_be_kept_costs_a_job_no_attempt(
    queue: Queue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.add([small_spec(**SMALLEST)], text=sentences(1), text_name="another text")  # it fails
    fail = Queue.fail

    def fail_on_full_disk(self: Queue, name: str, error: str) -> None:
        with bad_disk(folder, FULL, ("write",), last=1):
            fail(self, name, error)

    with monkeypatch.context() as patched:
        patched.setattr(Queue, "fail", fail_on_full_disk)
        for _ in range(ATTEMPTS + 1):
            assert exit_code(queue) == worker.UNWRITABLE
            assert (only_entry(queue).state, only_entry(queue).attempts) == (JobState.QUEUED, 0)
    assert exit_code(queue) == 0
    assert "got the text another text" in str(only_entry(queue).error)


@pytest.mark.parametrize("refused", [("mkdir",), ("open",), ("link",), CALLS], ids=str)
def test_unwritable_store_loses_no_step(refused: tuple[str, ...], tmp_path: Path) -> None:
    store, steps = Store(tmp_path / "below" / "runs"), list[int]()
    message = rf"^The store of runs cannot be written: {READ_ONLY}\.$"
    with bad_disk(tmp_path / "below", errno.EROFS, refused):
        with pytest.raises(RunError, match=message):
            run_once(small_spec(), CORPUS, store)
        if refused != ("link",):  # a file that is made and removed has no name
            with pytest.raises(RunError, match=message):
                store.check_writable()
    assert store.ids() == []
    run = run_once(small_spec(), CORPUS, store, report=lambda n, _: steps.append(n))
    assert (list(store), steps) == ([run], [])


@pytest.mark.parametrize("refused", [("mkdir",), ("open",), ("replace",)], ids=str)
def test_unwritable_checkpoint_fails_the_run_only(
    refused: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, store, work = small_spec("alibi", **SMALLEST), Store(tmp_path / "runs"), tmp_path / "work"
    monkeypatch.setenv("POSENC_WORK", str(work))
    message = r"^The (checkpoint cannot be written|folder of checkpoints cannot be used): Perm"
    with bad_disk(work, errno.EACCES, refused), pytest.raises(RunError, match=message):
        run_once(spec, CORPUS, store)
    with bad_disk(work, errno.EROFS, ("unlink",)) as disk:  # a checkpoint may stay
        run = run_once(spec, CORPUS, store)
    assert disk.refused
    assert list(store) == [run]


CHANGES: tuple[Callable[[Queue, Job], object], ...] = (
    lambda queue, _: queue.add(small_job(1), text=sentences(1), text_name="b"),
    lambda queue, entry: queue.cancel(entry.name),
    lambda queue, entry: queue.remove(entry.name),
    lambda queue, entry: queue.fail(entry.name, "a reason"),
    lambda queue, entry: queue.requeue(entry.name),
    lambda queue, entry: queue.reset_attempts(entry.name),
    lambda queue, entry: queue.report(entry.name, Progress(step=9)),
    lambda queue, _: queue.take().__enter__(),
    lambda queue, _: queue.has_free_slot(),
)


def test_read_only_queue_refuses_every_change_and_stays_readable(queue: Queue) -> None:
    queue.add(small_job(), **TEXT)
    entry = only_entry(queue)
    queue.report(entry.name, Progress(step=3))
    before = {path.name: path.read_bytes() for path in queue.folder.iterdir()}
    with bad_disk(queue.folder, errno.EROFS):
        for change in CHANGES:
            with pytest.raises(QueueUnwritable, match=READ_ONLY):
                change(queue, entry)
        assert queue.jobs() == [entry]
        assert queue.progress(entry.name).step == 3
        assert queue.text(entry.name) == sentences()
        assert queue.hung_job(os.getpid()) is None
        assert exit_code(queue) == worker.UNWRITABLE
    assert {path.name: path.read_bytes() for path in queue.folder.iterdir()} == before
