"""The folder of jobs: no job is lost by a kill at any write, a full disk or a second server."""

import errno
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.server import jobs, training_worker
from dashboard.server.jobs import Job, Progress, add, cancel
from dashboard.server.training_worker import work
from posenc.errors import DeviceLost, QueueFull, QueueUnwritable, RunError
from posenc.lab import Store, run_once
from posenc.lab.evaluate import evaluation_lengths
from posenc.lab.run_once import checkpoint_of
from posenc.plugins import load_plugin
from tests.lab.bad_disks import FULL, TAKING_SPACE, bad_disk
from tests.lab.small_runs import CORPUS, sentences, small_spec
from tests.lab.worker_processes import PATIENCE, ROOT, own_place, wait
from tests.library.plugin_template import template

pytestmark = pytest.mark.timeout(900)

SHORT = small_spec("none", task="copy", steps=2)
OTHER = small_spec("alibi", task="copy", steps=2)
LONG = small_spec("none", task="copy", steps=100_000)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for found in own_place(tmp_path, monkeypatch):
        training_worker._ended.clear()
        yield found / "jobs"
    training_worker._ended.clear()


def start(place: Path, *plugins: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dashboard.server.training_worker", str(place), *plugins]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)


def wait_past(place: Path, name: str, step: int) -> None:
    wait(lambda: jobs.progress(place, name).step > step)


def files(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if path.suffix != ".lock")


def test_jobs_are_run_in_order_and_leave_nothing_behind(place: Path) -> None:
    text = sentences()
    own = small_spec(steps=3)
    first = add(
        place, [own], waiting=8, estimate=2.5, evaluation_seconds=0.5, text=text,
        text_name=CORPUS.name, owner="ann",
    )  # fmt: skip
    second = add(place, [SHORT, OTHER], waiting=8)
    assert jobs.jobs(place) == [
        Job(first, (own,), 2.5, 0.5, CORPUS.name, "ann", Store().url),
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

    monkeypatch.setattr(training_worker, "run_once", failing)
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


def test_failed_job_is_replaced_by_an_equal_one_and_only_the_latest_stay(place: Path) -> None:
    many = [small_spec("none", task="copy", steps=steps) for steps in range(2, 13)]
    for run in many:
        jobs.fail(place, add(place, [run], waiting=8), "a reason")
    assert [job.specifications for job in jobs.jobs(place)] == [(run,) for run in many[-9:]]
    again = add(place, [many[-1]], waiting=8)
    left = jobs.jobs(place)
    assert [job.specifications for job in left] == [(run,) for run in many[-8:]]
    assert (left[-1].name, left[-1].error) == (again, "")


def test_job_whose_runs_no_other_process_can_reach_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSENC_RUNS", "memory://runs")
    with pytest.raises(RunError, match="this process's memory"):
        add(place, [SHORT], waiting=8)
    assert jobs.jobs(place) == []


def test_process_whose_device_is_lost_leaves_the_next_job_to_another(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> None:
        raise DeviceLost("The device cuda failed.")

    monkeypatch.setattr(training_worker, "run_once", lost)
    for run in (SHORT, OTHER):
        add(place, [run], waiting=8)
    with pytest.raises(DeviceLost):
        work(place)
    assert [job.error for job in jobs.jobs(place)] == ["The device cuda failed.", ""]


def test_time_left_follows_the_pace_since_training_resumed() -> None:
    job = Job("a", (small_spec(steps=100), small_spec("alibi", steps=100)), 40.0, 20.0)
    for progress, left in (
        # Nothing is known but the estimate: 20 s of steps, 20 s of evaluation.
        (Progress(), 40.0),
        # The first run has its steps, not its evaluation.
        (Progress(step=100, began=1, seconds=9.9), 10 + 20),
        # Ten times slower: so is the evaluation.
        (Progress(run=1, step=50, began=40, seconds=10.0), 10 * (5 + 10)),
    ):
        assert job.remaining_seconds(progress) == pytest.approx(left)


def test_reported_losses_are_means_of_equally_many_steps_across_processes(place: Path) -> None:
    name = add(place, [LONG], waiting=8)
    losses = [((7 * step) % 11) / 3 for step in range(1, 1_004)]
    run = small_spec("none", task="copy", steps=len(losses))
    report = training_worker._Reporter(place, name, 0, run)
    report.reported = -1e9
    for step, loss in enumerate(losses, 1):
        if step == 601:  # killed after step 600: the next process goes on
            far = Progress(step=600, points=tuple(report.points))
            jobs.report(place, name, far)
            report = training_worker._Reporter(place, name, 0, run)
        report(step, loss)
    points = jobs.progress(place, name).points
    assert [step for step, _ in points] == list(range(6, 1_004, 6))
    for step, mean in points:
        assert mean == pytest.approx(sum(losses[step - 6 : step]) / 6)


@pytest.mark.parametrize(
    "progress", ["{}", "[]", "null", "bad", '{"points": [], "added_later": 0}']
)
def test_progress_of_another_version_is_the_beginning(place: Path, progress: str) -> None:
    name = add(place, [SHORT], waiting=8)
    (place / f"{name}.progress").write_text(progress)
    assert jobs.progress(place, name) == Progress()


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
    monkeypatch.setattr(training_worker, "LEFTOVER", -1.0)
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
    with jobs.taken(place):
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
        patched.setattr(training_worker, "run_once", dying)
        for _ in range(training_worker.MOST_TRIES):
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
    for number, torn in enumerate(("{", "null", "[1]", '{"runs": [1]}', "[" * 100_000)):
        (place / f"2-torn{number}.json").write_text(torn)
    assert [job.specifications for job in jobs.jobs(place)] == [(SHORT,)]
    work(place)
    assert files(place) == ["1-old.json", *(f"2-torn{number}.json" for number in range(5))]


@pytest.mark.usefixtures("own_registry")
def test_process_trains_a_job_of_a_plugin(place: Path, tmp_path: Path) -> None:
    (plugin := tmp_path / "distance_table.py").write_text(template())
    load_plugin(plugin)
    run = small_spec("distance_table", task="copy", steps=2)
    add(place, [run], waiting=8)
    with start(place, str(plugin)) as process:
        assert process.wait(PATIENCE) == 0
    assert jobs.jobs(place) == []
    assert Store().ids() == [run.run_id]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Take SIGINT as `main` does: a shell lets what it runs in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_cancelled_evaluation_ends_and_the_next_job_is_run(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_worker, "REPORT_EVERY", 0.01)
    monkeypatch.setattr(training_worker, "STOP_WITHIN", 0.01)
    name = add(place, [SHORT], waiting=8)
    add(place, [OTHER], waiting=8)

    def evaluating(run: Any, *given: Any, **named: Any) -> Any:
        if run == SHORT:
            cancel(place, name)
            wait(lambda: False)  # until it is interrupted
        return run_once(run, *given, **named)

    monkeypatch.setattr(training_worker, "run_once", evaluating)
    work(place)
    assert Store().ids() == [OTHER.run_id]
    assert jobs.jobs(place) == []


def reported(monkeypatch: pytest.MonkeyPatch) -> list[Progress]:
    """Note what a process reports of its jobs."""
    notes: list[Progress] = []
    report = jobs.report

    def noting(place: Path, name: str, progress: Progress) -> None:
        notes.append(progress)
        report(place, name, progress)

    monkeypatch.setattr(jobs, "report", noting)
    return notes


def test_evaluation_reports_every_length_and_its_share(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = reported(monkeypatch)
    add(place, [SHORT], waiting=8)
    work(place)
    lengths = evaluation_lengths(SHORT)
    evaluated = [progress for progress in notes if progress.reached]
    # A copy of n letters has 2 n + 2 tokens, up to twice the trained letters; then the longest once more,
    # by position.
    letters = [*range(1, 2 * SHORT.train_length + 1), 2 * SHORT.train_length]
    assert [progress.length for progress in evaluated] == [2 * n + 2 for n in letters]
    assert [progress.reached for progress in evaluated] == [*range(1, len(letters) + 1)]
    assert {progress.lengths for progress in evaluated} == {len(letters)}
    total = sum(length * count for length, count in lengths)
    for progress in evaluated:
        before = sum(length * count for length, count in lengths[: progress.reached - 1])
        assert progress.share == pytest.approx(before / total)


def test_evaluation_of_a_cancelled_job_ends_between_two_lengths(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its next report, not by the interrupt of what does not report."""
    monkeypatch.setattr(training_worker, "STOP_WITHIN", PATIENCE)
    first = add(place, [SHORT], waiting=8)
    add(place, [OTHER], waiting=8)
    reached: list[int] = []

    def cancelling(place: Path, name: str, progress: Progress) -> None:
        if name == first:
            reached.append(progress.reached)
            if progress.reached == 3:
                cancel(place, name)

    monkeypatch.setattr(jobs, "report", cancelling)
    work(place)
    assert reached[-1] == 3
    assert checkpoint_of(SHORT.run_id).exists()  # the trained model stays for another start
    assert Store().ids() == [OTHER.run_id]
    assert jobs.jobs(place) == []
