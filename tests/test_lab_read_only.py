"""A folder that the system lets nobody change: each place says so by its own error, in one sentence."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from posenc.errors import QueueUnwritable, RunError
from posenc.lab import Store, make_run, worker
from posenc.lab.entry import Entry, Progress, State
from posenc.lab.labels import Label, Labels
from posenc.lab.queue import Queue
from tests.bad_disks import CALLS, bad_disk
from tests.queued import own_queue, start
from tests.small_runs import CORPUS, made, sentences, small, timeless

REFUSALS = pytest.mark.parametrize(
    ("error", "reason"),
    [(errno.EROFS, "Read-only file system"), (errno.EACCES, "Permission denied")],
    ids=["read-only", "denied"],
)
pytestmark = pytest.mark.usefixtures("no_shape_checks")


def calls(*each: str) -> pytest.MarkDecorator:
    """What is refused: one kind of call, or all that change anything."""
    return pytest.mark.parametrize(
        "refused", [(call,) for call in each] + [CALLS], ids=[*each, "all"]
    )


@REFUSALS
@calls("mkdir", "open", "link")
def test_a_store_that_cannot_be_made_or_written_says_so_and_no_step_is_lost(
    refused: tuple[str, ...], error: int, reason: str, tmp_path: Path
) -> None:
    store, steps = Store(tmp_path / "below" / "runs"), []
    said = rf"^The store of runs cannot be written: {reason}\.$"
    with bad_disk(tmp_path / "below", error, refused):
        with pytest.raises(RunError, match=said):
            make_run(small(), CORPUS, store, work=tmp_path / "work")
        if refused != ("link",):  # a file that is made and removed has no name
            with pytest.raises(RunError, match=said):
                store.check_writable()
        assert store.ids() == []
    run = make_run(
        small(), CORPUS, store, work=tmp_path / "work", report=lambda n, _: steps.append(n)
    )
    assert (list(store), steps) == ([run], [])


@REFUSALS
@calls("mkdir", "open", "replace")
def test_checkpoints_that_cannot_be_written_say_so_and_what_is_made_is_read(
    refused: tuple[str, ...], error: int, reason: str, tmp_path: Path
) -> None:
    store, run = made(tmp_path)
    other = small("alibi")
    said = rf"^The (checkpoint cannot be written|folder of checkpoints cannot be used): {reason}\.$"
    with bad_disk(tmp_path / "other", error, refused), pytest.raises(RunError, match=said):
        make_run(other, CORPUS, store, work=tmp_path / "other")
    assert list(store) == [run]
    found = make_run(other, CORPUS, store, work=tmp_path / "other")
    alone = make_run(other, CORPUS, Store(tmp_path / "alone"), work=tmp_path / "w")
    assert timeless(found) == timeless(alone)


def test_a_checkpoint_that_cannot_be_removed_does_not_fail_the_run(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    with bad_disk(tmp_path / "work", errno.EROFS, ("unlink",)) as disk:
        run = make_run(small(), CORPUS, store, work=tmp_path / "work")
    assert disk.refused
    assert list(store) == [run]


@REFUSALS
@calls("mkdir", "open", "link")
def test_labels_that_cannot_be_written_say_so(
    refused: tuple[str, ...], error: int, reason: str, tmp_path: Path
) -> None:
    labels, label = Labels(tmp_path), Label("0" * 20, "ann", "a name")
    said = rf"^The store of runs cannot be written: {reason}\.$"
    with bad_disk(tmp_path, error, refused):
        with pytest.raises(RunError, match=said):
            labels.add(label)
        if refused != ("link",):
            with pytest.raises(RunError, match=said):
                labels.put(label)
        assert labels.all() == {}
    assert labels.add(label)
    with bad_disk(tmp_path, error), pytest.raises(RunError, match=said):
        labels.change(label.run_id, "ann", name="another")
    assert labels.all() == {label.run_id: (label,)}


@REFUSALS
@calls("mkdir", "open", "replace")
def test_a_queue_that_cannot_be_made_says_so(
    refused: tuple[str, ...], error: int, reason: str, tmp_path: Path
) -> None:
    queue = Queue(tmp_path / "below" / "queue")
    with bad_disk(tmp_path / "below", error, refused):
        with pytest.raises(QueueUnwritable, match=rf"^The queue cannot be written: {reason}\.$"):
            queue.add(start(), text=sentences(), text_name="a")
        assert queue.entries() == []
    queue.add(start(), text=sentences(), text_name="a")
    assert len(queue.entries()) == 1


def take(queue: Queue, _: Entry) -> None:
    with queue.taken():
        pass


CHANGES: dict[str, Callable[[Queue, Entry], object]] = {
    "add": lambda queue, _: queue.add(start(1), text=sentences(1), text_name="b"),
    "stop": lambda queue, entry: queue.stop(entry.name),
    "remove": lambda queue, entry: queue.remove(entry.name),
    "fail": lambda queue, entry: queue.fail(entry, "a reason"),
    "give back": lambda queue, entry: queue.give_back(entry),
    "get on": lambda queue, entry: queue.got_on(entry),
    "tell": lambda queue, entry: queue.tell(entry.name, Progress(step=9)),
    "take": take,
    "look for a place": lambda queue, _: queue.free_place(),
}


@REFUSALS
@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_done_to_a_queue_that_is_read_only_is_refused_and_it_stays_readable(
    change: str, error: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = own_queue(tmp_path, monkeypatch)
    queue.add(start(), text=sentences(), text_name="a")
    (entry,) = queue.entries()
    queue.tell(entry.name, Progress(step=3))
    before = {path.name: path.read_bytes() for path in queue.folder.iterdir()}
    with bad_disk(queue.folder, error):
        with pytest.raises(QueueUnwritable, match=rf"^The queue cannot be written: {reason}\.$"):
            CHANGES[change](queue, entry)
        assert queue.entries() == [entry]
        assert queue.progress(entry.name).step == 3
        assert queue.text(entry) == sentences()
        assert queue.hung(os.getpid()) is None
        with pytest.raises(SystemExit) as leaving:
            worker.main(queue.folder, 1)
        assert leaving.value.code == worker.UNWRITABLE
    assert {path.name: path.read_bytes() for path in queue.folder.iterdir()} == before


def test_a_stop_of_what_is_being_done_is_refused_in_a_sentence_where_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = own_queue(tmp_path, monkeypatch)
    name = queue.add(start())
    with queue.taken():
        with bad_disk(queue.folder, errno.EROFS):
            # Whether somebody does it cannot be told without its lock: nobody takes it from them.
            assert [one.state for one in queue.entries()] == [State.RUNNING]
            with pytest.raises(QueueUnwritable, match="Read-only file system"):
                queue.stop(name)
        assert not queue.stopping(name)
        queue.stop(name)
        assert queue.stopping(name)


def test_a_worker_that_can_no_more_write_leaves_what_it_has_made_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = own_queue(tmp_path, monkeypatch)
    store = Store(tmp_path / "runs")
    queue.add(start(), store=store.url, text=sentences(), text_name="a")
    with queue.taken() as entry:
        assert entry is not None
        with bad_disk(queue.folder, errno.EROFS), pytest.raises(QueueUnwritable):
            worker.do(queue, entry)
    assert [one.state for one in queue.entries()] == [State.WAITING]
    assert len(store.ids()) == 1
    worker.main(queue.folder, 1)
    assert queue.entries() == []
