"""The queue of jobs, beside test_queue_machine: bounds, servers, kills, damaged files, clean-up."""

import contextlib
import functools
import json
import math
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from filelock import FileLock

from posenc.checkpoints.file_store import work_folder
from posenc.errors import QueueBusy, QueueUnwritable, RunError
from posenc.lab import Store, jobs, worker
from posenc.lab.jobs import ATTEMPTS, JobState, Progress, Queue
from posenc.lab.run_once import CHECKPOINTS
from tests.lab.small_runs import TEXT, small_job, small_spec
from tests.lab.worker_processes import in_fork, killed_in_sqlite


def names_of(queue: Queue) -> list[str]:
    return [entry.name for entry in queue.jobs()]


def test_job_is_read_back_as_it_was_added(queue: Queue) -> None:
    job = small_job(count=3)
    name = queue.add(job, store="s3://runs", text=b"abc", text_name="my text", estimate=12.5)
    (entry,) = Queue(queue.folder).jobs()
    assert entry.specifications == tuple(job)
    assert (entry.name, entry.store, entry.text_name) == (name, "s3://runs", "my text")
    assert (entry.estimate, entry.state, entry.error) == (12.5, JobState.QUEUED, None)
    assert queue.text(entry.name) == b"abc"
    assert queue.progress(name) == Progress()
    reported = Progress(run=1, step=7, began=2, seconds=1.5, points=((3, 0.5), (7, math.inf)))
    queue.report(name, reported)
    assert Queue(queue.folder).progress(name) == reported
    queue.cancel(name)
    assert queue.jobs() == []


def test_job_that_cannot_be_queued_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(QueueUnwritable, match="cannot be written"):
        Queue(tmp_path / "file" / "below").add(small_job())
    queue = Queue(tmp_path)
    with pytest.raises(RunError, match="this process's memory"):
        queue.add(small_job(), store="memory://runs")
    with pytest.raises(RunError, match="nothing to train"):
        queue.add([])
    with pytest.raises(RunError, match="must be numbers from 0 to 1,000,000,000, got nan and 0"):
        queue.add(small_job(), estimate=math.nan)
    names: tuple[dict[str, Any], ...] = (
        {"text_name": "a\ud800"}, {"owner": "\udc80"}, {"store": "\udcff"},
    )  # fmt: skip
    for values in names:
        with pytest.raises(RunError, match="valid Unicode"):
            queue.add(small_job(), **values)
    assert queue.jobs() == []


def test_job_is_given_up_after_three_kills_without_a_finished_run(queue: Queue) -> None:
    first, second = (queue.add(small_job(seed)) for seed in range(2))
    for attempt in range(3 * ATTEMPTS - 1):
        with queue.take() as entry:
            assert entry is not None
            assert entry.name == first
            if attempt < 2 * ATTEMPTS:
                queue.reset_attempts(entry.name)
    with queue.take() as entry:
        assert entry is not None
        assert entry.name == second
    given_up = queue.jobs()[0]
    assert given_up.state is JobState.FAILED
    assert f"{ATTEMPTS} times" in str(given_up.error)


def test_job_names_who_started_it(queue: Queue) -> None:
    queue.add(small_job(), owner="ann")
    queue.add(small_job(1))
    assert [entry.owner for entry in queue.jobs()] == ["ann", ""]


def test_same_job_after_a_stop_is_a_new_entry(queue: Queue) -> None:
    first = queue.add(small_job())
    with queue.take():
        queue.cancel(first)
        second = queue.add(small_job())
        assert second != first
        queue.remove(first)  # as its worker does
    assert names_of(queue) == [second]


def test_job_that_fails_after_it_was_cancelled_is_removed(queue: Queue) -> None:
    name = queue.add(small_job())
    with queue.take():
        queue.cancel(name)
        queue.fail(name, "It broke.")
    assert queue.jobs() == []


def refuse_as_busy(*_: object) -> None:
    raise QueueBusy("held")


def test_only_latest_failures_are_kept(queue: Queue) -> None:
    def fail(seed: int) -> None:
        queue.add(small_job(seed))
        with queue.take() as entry:
            assert entry is not None
            queue.fail(entry.name, f"reason {seed}")

    for seed in range(11):
        fail(seed)
    assert [entry.error for entry in queue.jobs()] == [f"reason {n}" for n in range(3, 11)]
    queue.add(small_job(10))  # started again
    assert queue.jobs()[-1].error is None


@pytest.mark.parametrize("stopped", [False, True])
def test_ended_job_that_cannot_be_removed_is_left_to_the_next_worker(
    stopped: bool, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = queue.add(small_job(), **TEXT)
    with monkeypatch.context() as held:
        held.setattr(Queue, "remove", refuse_as_busy)
        for _ in range(ATTEMPTS + 1):
            with queue.take() as entry:
                assert entry is not None
                if stopped:
                    queue.cancel(name)
                worker.run_job(queue, entry)
    (entry,) = queue.jobs()
    assert (entry.state, entry.error, entry.attempts) == (JobState.QUEUED, None, 0)
    made = list(Store())
    assert len(made) == (0 if stopped else 1)
    monkeypatch.setattr(worker, "clean_up", refuse_as_busy)  # which keeps no job from being run
    worker.main(queue.folder, 1)
    assert queue.jobs() == []
    assert list(Store()) == made  # not made again, its seconds say


def test_two_processes_add_the_same_jobs_once(tmp_path: Path) -> None:
    def add_all() -> None:
        while not (tmp_path / "go").exists():
            time.sleep(0.001)
        for steps in range(5, 20):
            Queue(tmp_path / "queue", waiting=50).add([small_spec(steps=steps)])

    children = [in_fork(add_all) for _ in range(2)]
    (tmp_path / "go").touch()
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    entries = Queue(tmp_path / "queue").jobs()
    assert [entry.specifications[0].steps for entry in entries] == list(range(5, 20))


@pytest.mark.parametrize("ahead", [-300, 300])
def test_clocks_of_two_servers_may_differ_by_minutes(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    now = time.time()

    def add(seed: int, ahead: int) -> str:
        monkeypatch.setattr("posenc.lab.jobs.time.time", lambda: now + seed + ahead)
        return queue.add(small_job(seed))

    first = add(0, 0)
    assert add(0, ahead) == first
    second = add(1, ahead)
    queue.cancel(first)
    third = add(2, -ahead)
    assert names_of(queue) == [second, third]  # in the order in which they were added


def set_column(queue: Queue, column: str, value: object) -> None:
    """Write a column of every job, as no worker does."""
    with contextlib.closing(sqlite3.connect(queue.file)) as db, db:
        db.execute(f"UPDATE jobs SET {column} = ?", (value,))


def test_process_of_the_same_number_on_another_machine_does_not_hang_here(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, then = queue.add(small_job()), time.monotonic() - jobs.MAX_SILENCE - 60
    with queue.take():
        set_column(queue, "reported", then)
        assert queue.hung_job(os.getpid()) == name
        queue.report(name, Progress(step=1))
        queue.cancel(name)
        assert queue.hung_job(os.getpid()) is None
        set_column(queue, "cancelled", then)
        queue.cancel(name)  # the first time counts
        assert queue.hung_job(os.getpid()) == name  # it reports, and ignores the cancelled job
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr("posenc.lab.jobs.socket.gethostname", lambda: "another-host")
            assert queue.hung_job(os.getpid()) is None
    assert queue.hung_job(os.getpid()) is None  # nobody works on it


@pytest.mark.parametrize("jump", [-86_400, 86_400])
def test_clock_jump_does_not_change_which_process_counts_as_hung(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    name, now = queue.add(small_job()), time.time()
    with queue.take():
        queue.report(name, Progress(step=1))
        monkeypatch.setattr("posenc.lab.jobs.time.time", lambda: now + jump)
        assert queue.hung_job(os.getpid()) is None
        queue.cancel(name)
        monkeypatch.setattr("posenc.lab.jobs.MAX_STOPPING", -1.0)
        assert queue.hung_job(os.getpid()) == name


def test_worker_whose_lock_cannot_be_looked_at_may_be_working(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.add(small_job())
    set_column(queue, "slot", 0)  # of a worker that was killed
    assert [job.state for job in queue.jobs()] == [JobState.QUEUED]
    refuse = Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr("posenc.lab.jobs.FileLock.acquire", refuse)
    assert [job.state for job in queue.jobs()] == [JobState.RUNNING]


def test_queue_held_by_another_process_is_readable_and_refuses_changes(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = queue.add(small_job())
    monkeypatch.setattr("posenc.lab.jobs._PATIENCE", 0.2)
    other = Queue(queue.folder)
    with queue._changes():
        with pytest.raises(QueueBusy, match=r"for 0\.2 s"):
            other.add(small_job(1))
        with pytest.raises(QueueBusy):
            other.cancel(name)
        assert names_of(other) == [name]
    with contextlib.closing(sqlite3.connect(queue.file, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")  # as for the moment of a commit
        with pytest.raises(QueueBusy):
            other.jobs()
    other.cancel(name)
    assert queue.jobs() == []


@pytest.mark.parametrize("content", [b"no table at all" * 100, None], ids=["other", "cut"])
def test_damaged_queue_is_not_changed_and_an_empty_queue_works(
    queue: Queue, content: bytes | None
) -> None:
    queue.add(small_job(), text=b"a text " * 10_000)
    content = queue.file.read_bytes()[:5_000] if content is None else content
    queue.file.write_bytes(content)
    for use in (queue.jobs, lambda: queue.add(small_job())):
        with pytest.raises(QueueUnwritable, match=r"damaged: remove jobs\.sqlite"):
            use()
    assert queue.file.read_bytes() == content
    queue.file.write_bytes(b"")
    assert queue.jobs() == []
    queue.add(small_job())
    assert len(queue.jobs()) == 1


def test_queue_in_whose_place_is_a_folder_says_so_and_is_left_alone(queue: Queue) -> None:
    queue.file.mkdir(parents=True)
    for use in (queue.jobs, lambda: queue.add(small_job())):
        with pytest.raises(QueueUnwritable, match="unable to open"):
            use()
    assert queue.file.is_dir()


OLD, NEW = b"an old text " * 50, b"a new text " * 50


def take_and_end(queue: Queue) -> None:
    with queue.take() as entry:
        assert entry is not None
        queue.remove(entry.name)


CHANGES: dict[str, Callable[[Queue], object]] = {
    "add": lambda queue: queue.add([small_spec(steps=9)], text=NEW),
    "cancel": lambda queue: queue.cancel(queue.jobs()[0].name),
    "fail": lambda queue: queue.fail(queue.jobs()[0].name, "it failed on purpose"),
    "give back": lambda queue: queue.requeue(queue.jobs()[0].name),
    "tell": lambda queue: queue.report(queue.jobs()[0].name, Progress(step=7)),
    "take and end": take_and_end,
}


@pytest.mark.parametrize("change", CHANGES)
def test_kill_at_every_step_loses_no_other_job(change: str, tmp_path: Path) -> None:
    def in_another_process(folder: Path) -> None:
        CHANGES[change](Queue(folder, waiting=5))

    kills = 0
    for call in ("open", "write", "truncate", "unlink"):
        count, killed = 0, True
        while killed:
            count += 1
            queue = Queue(tmp_path / f"{call}-{count}", waiting=5)
            first, second = (queue.add([small_spec(steps=5 + n)], text=OLD) for n in range(2))
            work = functools.partial(in_another_process, queue.folder)
            killed = killed_in_sqlite(call, count, work)
            kills += killed
            found, left = queue.jobs(), names_of(queue)
            assert second in left
            assert first in left or change in ("cancel", "take and end")
            for one in found:
                assert queue.text(one.name) == (OLD if one.name in (first, second) else NEW)
            assert queue.progress(first).step in (0, 7)
            # The queue adds and gives out jobs again.
            again = queue.add([small_spec(steps=9)], text=NEW)
            assert names_of(queue)[-1] == again
            with queue.take() as taken:
                assert taken is not None
                assert taken.name == next(one.name for one in found if one.state is JobState.QUEUED)
    assert kills >= 6


def test_kill_while_the_first_job_is_added_leaves_an_empty_queue_or_the_job(tmp_path: Path) -> None:
    for call in ("open", "write", "truncate", "unlink"):
        count, killed = 0, True
        while killed:
            count += 1
            queue = Queue(tmp_path / f"{call}-{count}")
            killed = killed_in_sqlite(
                call, count, functools.partial(queue.add, small_job(), text=OLD)
            )
            assert [queue.text(job.name) for job in queue.jobs()] in ([], [OLD])
            name = queue.add(small_job(), text=OLD)
            assert names_of(queue) == [name]


def test_job_that_cannot_be_read_is_left_out(queue: Queue) -> None:
    other = queue.add(small_job(1))
    unreadable: list[list[dict[str, int]]] = [[{"protocol": 99}], [{"new": 1}], [{}]]
    for records in unreadable:
        set_column(queue, "records", json.dumps(records))
        assert queue.jobs() == []
        name = queue.add(small_job())
        assert names_of(queue) == [name]
        with queue.take() as job:
            assert job is not None
            assert job.name == name
        queue.remove(name)
    queue.remove(other)
    assert queue.jobs() == []


def test_reported_loss_of_any_length_has_few_points_with_true_means(queue: Queue) -> None:
    losses = [math.sin(n) + 2 for n in range(1_003)]
    name = queue.add(small_job())
    report = worker._Reporter(queue, name, 0, len(losses))
    for step, loss in enumerate(losses, start=1):
        if step == 601:
            queue.report(name, Progress(step=600, points=tuple(report.points)))
            report = worker._Reporter(queue, name, 0, len(losses))  # of the next process
        report(step, loss)
    points = queue.progress(name).points
    assert [step for step, _ in points] == list(range(6, 1_004, 6))
    for step, mean in points:
        assert mean == pytest.approx(sum(losses[step - 6 : step]) / 6)


DAY = 86_400.0
HALF = "0" * 32  # ends the name of a file that is being written


@pytest.fixture
def work_queue(folder: Path) -> Queue:
    for name in (CHECKPOINTS, "queue"):
        (folder / "work" / name).mkdir(parents=True)
    return Queue()


def aged(name: str, days: float) -> Path:
    path, then = work_folder() / name, time.time() - days * DAY
    path.touch()
    os.utime(path, (then, then))
    return path


def test_old_files_are_removed_and_young_held_or_foreign_ones_stay(
    work_queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [
        aged(f"{CHECKPOINTS}/a.safetensors", 31),
        aged(f"{CHECKPOINTS}/b.lock", 31),
        aged(f"{CHECKPOINTS}/.c.safetensors.{HALF}", 31),
    ]
    kept = [
        aged(f"{CHECKPOINTS}/e.safetensors", 29),
        aged(f"{CHECKPOINTS}/e.lock", 29),  # of a checkpoint that is there
        aged(f"{CHECKPOINTS}/f.lock", 29),
        aged(f"{CHECKPOINTS}/.g.safetensors.{HALF}", 29),
        aged(f"{CHECKPOINTS}/notes.txt", 99),
        aged(f"{CHECKPOINTS}/.hidden", 99),
        aged("queue/notes.lock", 99),
    ]
    in_use = aged(f"{CHECKPOINTS}/h.safetensors", 99)
    lock = aged(f"{CHECKPOINTS}/h.lock", 99)
    ours = work_queue.add([small_spec()])
    kept.append(aged(f"{CHECKPOINTS}/{small_spec().run_id}.safetensors", 99))
    work_queue.report(ours, Progress(step=3))
    with FileLock(lock):
        jobs.clean_up(work_queue)
        assert [path for path in old if path.exists()] == []
        assert [path for path in [*kept, in_use, lock] if not path.exists()] == []
    assert work_queue.progress(ours).step == 3
    jobs.clean_up(work_queue)
    assert not in_use.exists()
    monkeypatch.setattr(jobs, "_MAX_CHECKPOINTS", 3)
    paths = [aged(f"{CHECKPOINTS}/{n}.safetensors", n) for n in range(1, 6)]
    jobs.clean_up(work_queue)
    assert [path.exists() for path in paths] == [True, True, True, False, False]


@pytest.mark.parametrize(
    "change",
    [
        "records='null'",
        "records='not json'",
        "records='[1]'",
        "records=x'ff'",
        "attempts='x'",
        f"records='{'[' * 100_000}'",
        "records=cast(x'fffe' as text)",
    ],
    ids=lambda change: change[:20],
)
def test_row_that_another_program_wrote_is_passed_over(queue: Queue, change: str) -> None:
    queue.add(small_job(1))
    with contextlib.closing(sqlite3.connect(queue.file)) as db, db:
        db.execute(f"UPDATE jobs SET {change}")
    name = queue.add(small_job(2))
    assert names_of(queue) == [name]
    with queue.take() as job:
        assert job is not None
        assert job.name == name


def test_clean_up_passes_over_a_link_to_nowhere(work_queue: Queue) -> None:
    folder = work_folder() / CHECKPOINTS
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gone.safetensors").symlink_to("nowhere")
    jobs.clean_up(work_queue)


@pytest.mark.parametrize(
    "progress", ["{}", "[]", "null", "bad", '{"points": [], "added_later": 0}']
)
def test_progress_of_another_version_is_the_beginning(queue: Queue, progress: str) -> None:
    name = queue.add(small_job(1))
    with contextlib.closing(sqlite3.connect(queue.file)) as db, db:
        db.execute("UPDATE jobs SET progress = ?", (progress,))
    assert queue.progress(name) == Progress()


def test_job_of_another_version_keeps_its_text_for_some_weeks(work_queue: Queue) -> None:
    other = work_queue.add([small_spec("alibi")], text=b"theirs", text_name="theirs")
    set_column(work_queue, "records", json.dumps([{"protocol": 99}]))
    ours = work_queue.add([small_spec()], text=b"ours", text_name="ours")
    for texts in ([b"theirs", b"ours"], [b"ours"]):
        jobs.clean_up(work_queue)
        with contextlib.closing(sqlite3.connect(work_queue.file)) as db:
            assert [row[0] for row in db.execute("SELECT text FROM jobs ORDER BY id")] == texts
        set_column(work_queue, "added", 0.0)  # the clean-up removes none that this version knows
    assert other not in names_of(work_queue)
    assert names_of(work_queue) == [ours]
    assert work_queue.file.stat().st_size < 100_000


def test_removed_text_leaves_no_space_behind(queue: Queue) -> None:
    name = queue.add(small_job(), text=b"text" * 2**18)
    assert queue.file.stat().st_size > 2**20
    queue.cancel(name)
    assert queue.file.stat().st_size < 100_000
