"""What is swept up was abandoned: nothing young, nothing that is needed, nothing of anybody else."""

import os
import time
from pathlib import Path

import pytest
from filelock import FileLock

from posenc.lab import Store, make_run, upkeep
from posenc.lab.entry import Progress
from posenc.lab.holder import ENDINGS
from posenc.lab.making import CHECKPOINTS, checkpoint_of
from posenc.lab.queue import Queue
from posenc.run_files import work_folder
from tests.small_runs import CORPUS, small, timeless

DAY = 86_400.0


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    monkeypatch.setenv("POSENC_WORK", str(tmp_path))
    (tmp_path / CHECKPOINTS).mkdir()
    (tmp_path / "queue").mkdir()
    return Queue()


def aged(name: str, days: float, content: bytes = b"") -> Path:
    path = work_folder() / name
    path.write_bytes(content)
    then = time.time() - days * DAY
    os.utime(path, (then, then))
    return path


def test_what_is_old_goes_and_what_is_young_stays(queue: Queue) -> None:
    half = "0" * 32
    old = [
        aged(f"{CHECKPOINTS}/a.safetensors", 31),
        aged(f"{CHECKPOINTS}/b.lock", 2),
        aged(f"{CHECKPOINTS}/.c.safetensors.{half}", 2),
        aged(f"queue/.1-d.json.{half}", 2),
    ]
    young = [
        aged(f"{CHECKPOINTS}/e.safetensors", 29),
        aged(f"{CHECKPOINTS}/e.lock", 29),  # of a checkpoint that is there
        aged(f"{CHECKPOINTS}/f.lock", 0.5),
        aged(f"{CHECKPOINTS}/.g.safetensors.{half}", 0.5),
        aged(f"{CHECKPOINTS}/notes.txt", 99),
        aged(f"{CHECKPOINTS}/.hidden", 99),
    ]
    upkeep.sweep_up(queue)
    assert [path for path in old if path.exists()] == []
    assert [path for path in young if not path.exists()] == []


def test_a_run_that_a_process_is_at_work_on_keeps_its_files(queue: Queue) -> None:
    checkpoint, lock = aged(f"{CHECKPOINTS}/a.safetensors", 99), aged(f"{CHECKPOINTS}/b.lock", 99)
    with FileLock(checkpoint.with_suffix(".lock")), FileLock(lock):
        upkeep.sweep_up(queue)
        assert checkpoint.exists()
        assert lock.exists()
    upkeep.sweep_up(queue)
    assert not checkpoint.exists()


def test_of_many_checkpoints_the_youngest_are_kept(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CHECKPOINTS_KEPT", 3)
    made = [aged(f"{CHECKPOINTS}/{n}.safetensors", n) for n in range(1, 6)]
    upkeep.sweep_up(queue)
    assert [path.exists() for path in made] == [True, True, True, False, False]


def test_a_start_that_waits_keeps_its_checkpoint_and_one_that_was_swept_up_is_begun_anew(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CHECKPOINTS_KEPT", 0)
    one, store = small(steps=8), Store(work_folder() / "runs")
    unbroken = make_run(one, CORPUS, Store(work_folder() / "alone"), work=work_folder() / "w")
    begun: list[int] = []

    def stopped(step: int, _: float) -> None:
        begun.append(step)
        if step == 4 and len(begun) == 4:
            raise KeyboardInterrupt

    for needed in (True, False):
        begun.clear()
        with pytest.raises(KeyboardInterrupt):
            make_run(one, CORPUS, store, report=stopped)
        name = queue.add([one])
        os.utime(checkpoint_of(one.run_id), (0, 0))
        if not needed:
            with queue.taken() as entry:
                assert entry is not None
                queue.fail(entry, "a reason")  # nobody goes on with it, until somebody says so
        upkeep.sweep_up(queue)
        assert [entry.name for entry in queue.entries()] == [name]
        assert checkpoint_of(one.run_id).exists() == needed
        run = make_run(one, CORPUS, store, report=stopped)
        assert begun[4] == (5 if needed else 1)
        assert timeless(run) == timeless(unbroken)
        queue.stop(name)
        store = Store(work_folder() / "others")


def test_what_is_left_of_an_entry_goes_unless_somebody_is_at_it(queue: Queue) -> None:
    gone, held, young = (f"{n:020d}-{'a' * 12}" for n in range(3))
    left = [aged(f"queue/{gone}{ending}", 2) for ending in ENDINGS]
    left += [aged(f"queue/{gone}.txt", 2)]
    kept = [aged(f"queue/{held}{ending}", 2) for ending in (".progress", ".lock")]
    kept += [aged(f"queue/{young}.progress", 0.5), aged("queue/notes.lock", 99)]
    ours = queue.add([small()])
    queue.tell(ours, Progress(step=3))
    os.utime(queue.folder / f"{ours}.progress", (0, 0))
    with FileLock(queue.folder / f"{held}.lock"):
        upkeep.sweep_up(queue)
    assert [path.name for path in left if path.exists()] == []
    assert [path.name for path in kept if not path.exists()] == []
    assert queue.progress(ours).step == 3


def test_old_entries_of_another_version_go_with_their_text_and_ours_stay(queue: Queue) -> None:
    ours = queue.add([small()], text=b"ours", text_name="ours")
    path = queue.folder / f"{ours}.json"
    os.utime(path, (0, 0))
    text = aged("queue/other.txt", 99)
    other = aged("queue/1-other.json", 99, b'{"of": "a later version", "text": "other.txt"}')
    young = aged("queue/2-other.json", 1, b'{"of": "a later version"}')
    upkeep.sweep_up(queue)
    assert [entry.name for entry in queue.entries()] == [ours]
    assert len(list(queue.folder.glob("*.txt"))) == 1
    assert (text.exists(), other.exists(), young.exists()) == (False, False, True)
    assert path.exists()


def test_nothing_is_made_where_nothing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "none"))
    upkeep.sweep_up(Queue())
    assert not (tmp_path / "none").exists()
