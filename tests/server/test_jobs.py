"""The folder of jobs: no job is lost by a kill at any write, a full disk or a second server."""

import errno
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from dashboard.server import jobs
from dashboard.server.jobs import Job, Progress, add, cancel, work
from posenc.errors import QueueFull, QueueUnwritable, RunError
from posenc.lab import Store, run_once
from posenc.lab.run_once import checkpoint_of
from tests.lab.bad_disks import FULL, TAKING_SPACE, bad_disk
from tests.lab.small_runs import CORPUS, sentences, small_spec
from tests.lab.worker_processes import PATIENCE, ROOT, own_place, wait

pytestmark = pytest.mark.timeout(900)

SHORT = small_spec("none", task="copy", steps=2)
OTHER = small_spec("alibi", task="copy", steps=2)
LONG = small_spec("none", task="copy", steps=100_000)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for found in own_place(tmp_path, monkeypatch):
        jobs._ended.clear()
        yield found / "jobs"
    jobs._ended.clear()


def start(place: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dashboard.server.jobs", str(place)], cwd=ROOT, stdin=subprocess.PIPE
    )


def wait_past(place: Path, name: str, step: int) -> None:
    wait(lambda: jobs.progress(place, name).step > step)


def files(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if path.suffix != ".lock")


def test_jobs_are_run_in_order_and_leave_nothing_behind(place: Path) -> None:
    text = sentences()
    own = small_spec(steps=3)
    first = add(
        place, [own], waiting=8, estimate=2.5, text=text, text_name=CORPUS.name, owner="ann"
    )
    second = add(place, [SHORT, OTHER], waiting=8)
    assert jobs.jobs(place) == [
        Job(first, (own,), 2.5, CORPUS.name, "ann", Store().url),
        Job(second, (SHORT, OTHER), store=Store().url),
    ]
    assert jobs.progress(place, first) == Progress()
    work(place)
    assert (jobs.jobs(place), files(place)) == ([], [])
    assert {*Store().ids()} == {own.run_id, SHORT.run_id, OTHER.run_id}


def test_equal_start_is_one_job_and_more_than_may_wait_are_refused(place: Path) -> None:
    name = add(place, [SHORT], waiting=1)
    assert add(place, [SHORT], waiting=1) == name
    second = add(place, [OTHER], waiting=1)
    with pytest.raises(QueueFull, match=r"^1 job waits already; try again"):
        add(place, [LONG], waiting=1)
    cancel(place, name)
    add(place, [LONG], waiting=1)
    assert [job.specifications for job in jobs.jobs(place)] == [(OTHER,), (LONG,)]
    assert jobs.jobs(place)[0].name == second


def test_job_that_fails_says_why_and_the_next_one_is_run(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = {SHORT: RunError("The run needs a text."), LONG: ValueError("xyzzy")}

    def failing(run: Any, *given: Any, **named: Any) -> Any:
        if run in errors:
            raise errors[run]
        return run_once(run, *given, **named)

    monkeypatch.setattr(jobs, "run_once", failing)
    for run in (SHORT, LONG, OTHER):
        add(place, [run], waiting=8)
    work(place)
    assert [job.error for job in jobs.jobs(place)] == [
        "The run needs a text.",
        "It ended by an unforeseen fault (ValueError); the log has it.",
    ]
    assert Store().ids() == [OTHER.run_id]
    for job in jobs.jobs(place):
        cancel(place, job.name)
    assert files(place) == []


class Killed(BaseException):
    """The process is killed here."""


def killed_at(
    number: int, after: bool, action: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Do something that is killed before or after its change number so; return whether it was."""
    met = 0

    def killing(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal met
            met += 1
            if met > number or (met == number and not after):
                raise Killed
            found = real(*given, **named)
            if met == number:
                raise Killed
            return found

        return call

    with monkeypatch.context() as patched:
        for name in ("replace", "unlink"):
            patched.setattr(Path, name, killing(getattr(Path, name)))
        try:
            action()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_kill_at_any_change_loses_no_job_and_no_run(
    place: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "LEFTOVER", -1.0)
    run_once(SHORT, None, Store())  # so that only the folder of jobs is changed
    number = 0
    while True:
        number += 1
        name = add(place, [SHORT], waiting=8)
        killed = killed_at(number, after, lambda: work(place), monkeypatch)
        left = [job.name for job in jobs.jobs(place)]
        assert left in ([name], [])
        work(place)
        assert jobs.jobs(place) == []
        work(place)
        assert files(place) == []
        if not killed:
            break
    assert number > 3


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_job_whose_start_is_killed_is_there_whole_or_not_at_all(
    place: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, text = small_spec(steps=3), sentences()
    for number in range(1, 10):
        killed = killed_at(
            number,
            after,
            lambda: add(place, [own], waiting=8, text=text, text_name=CORPUS.name),
            monkeypatch,
        )
        for job in jobs.jobs(place):
            assert job.specifications == (own,)
            assert (place / f"{job.name}.txt").read_bytes() == text
            cancel(place, job.name)
        if not killed:
            return
    raise AssertionError("it was killed each time")


def test_full_disk_refuses_a_start_and_keeps_the_jobs_that_are_there(place: Path) -> None:
    name = add(place, [SHORT], waiting=8)
    for first in range(1, 4):
        with bad_disk(place, FULL, TAKING_SPACE, first=first):
            with pytest.raises(
                QueueUnwritable, match=r"cannot be written: No space left on device\.$"
            ):
                add(place, [OTHER], waiting=8)
            with pytest.raises(QueueUnwritable):
                work(place)
        assert [job.name for job in jobs.jobs(place)] == [name]
    with bad_disk(place, errno.EROFS), pytest.raises(QueueUnwritable, match="Read-only"):
        cancel(place, name)
    work(place)
    assert Store().ids() == [SHORT.run_id]


def test_second_server_leaves_the_jobs_to_the_first(place: Path) -> None:
    add(place, [SHORT], waiting=8)
    with FileLock(place / "worker.lock"):
        work(place)
        assert len(jobs.jobs(place)) == 1
    add(place, [OTHER], waiting=8)
    both = [start(place), start(place)]
    assert [one.wait(PATIENCE) for one in both] == [0, 0]
    assert jobs.jobs(place) == []
    assert {*Store().ids()} == {SHORT.run_id, OTHER.run_id}


def test_job_whose_process_dies_each_time_fails_at_last(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(*_: Any, **__: Any) -> None:
        raise Killed

    add(place, [SHORT], waiting=8)
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "run_once", dying)
        for _ in range(jobs.MOST_TRIES):
            with pytest.raises(Killed):
                work(place)
            assert [job.error for job in jobs.jobs(place)] == [""]
        work(place)
    assert [job.error for job in jobs.jobs(place)] == ["The process that trained it ended 3 times."]


def test_killed_training_goes_on_and_a_cancelled_one_ends(place: Path) -> None:
    name = add(place, [LONG], waiting=8)
    step = 0
    for saves in (False, True):
        process = start(place)
        assert process.stdin is not None
        wait_past(place, name, step)
        if saves:
            process.stdin.close()
        else:
            process.kill()
        process.wait(PATIENCE)
        step = jobs.progress(place, name).step
        assert [job.name for job in jobs.jobs(place)] == [name]
    assert checkpoint_of(LONG.run_id).exists()  # the server had ended: it has saved
    process = start(place)
    wait_past(place, name, step)
    second = add(place, [SHORT], waiting=8)
    cancel(place, name)
    wait(lambda: Store().ids() == [SHORT.run_id])
    assert process.wait(PATIENCE) == 0
    assert second not in [job.name for job in jobs.jobs(place)]


def test_job_of_another_version_is_left_out_and_stays(place: Path) -> None:
    add(place, [SHORT], waiting=8)
    (place / "1-old.json").write_text('{"runs": [{"kind": "of tomorrow"}]}')
    (place / "2-torn.json").write_text("{")
    assert [job.specifications for job in jobs.jobs(place)] == [(SHORT,)]
    work(place)
    assert files(place) == ["1-old.json", "2-torn.json"]
