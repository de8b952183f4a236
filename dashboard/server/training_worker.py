"""The process that trains the jobs of a folder.

`python -m dashboard.server.training_worker FOLDER [PLUGIN ...]` registers the schemes of these files, has
low priority and takes one job after the other, the oldest first. It ends where none is left, where another
process has the folder, or with the server, which closes its input.
"""

import _thread
import argparse
import contextlib
import logging
import math
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from dashboard.server import jobs, output
from dashboard.server.jobs import Job, Progress
from posenc.checkpoints.file_store import write_whole
from posenc.errors import DeviceLost, PosencError, QueueUnwritable
from posenc.lab.corpus import from_text, standard_library
from posenc.lab.evaluate import evaluation_lengths, length_reached
from posenc.lab.run_once import free_device_memory, remove_old_checkpoints, run_once
from posenc.lab.runs import Store
from posenc.lab.specification import Specification
from posenc.lab.tasks import Language
from posenc.plugins import load_plugin

log = logging.getLogger("dashboard.training_worker")

NICE = 10
REPORT_EVERY = 0.5  # seconds
POINTS = 200  # of a loss that is shown
MOST_TRIES = 3  # of a job whose process dies each time
STOP_WITHIN = 2.0  # seconds that a run has to stop by itself
MAX_STOPPING = 30.0  # seconds until a process that ignores a cancelled job ends
GRACE = 5.0  # seconds to save in, once the server has ended
PATIENCE = 0.5  # seconds: a look whether a process is at work holds its lock for a moment
LEFTOVER = 3_600.0  # seconds
UNWRITABLE = 74  # exit code: the folder cannot be written, its jobs stay
DEVICE_LOST = 75  # exit code: a new process may use the device

_ended = threading.Event()  # the server has ended


def work(place: Path) -> None:
    """Run the jobs of a folder in turn, until none is left, the server ends or another process has them.

    Raises QueueUnwritable where what became of a job cannot be written; then the job stays as it is. Raises
    DeviceLost where this process can train no more.
    """
    with jobs.taken(place, patience=PATIENCE) as free, jobs.writing():
        if free:
            _remove_leftovers(place)
        while free and not _ended.is_set():
            waiting = [job for job in jobs.jobs(place) if not job.error]
            if not waiting:
                return
            _work_on(place, waiting[0])
            free_device_memory()


def _remove_leftovers(place: Path) -> None:
    """Remove what a killed process left: of a job that is gone, or written in part; younger files stay."""
    for path in place.iterdir():
        name, in_part = path.name.removeprefix(".").partition(".")[0], path.name.startswith(".")
        left = path.suffix != ".lock" and (in_part or not jobs.exists(place, name))
        with contextlib.suppress(FileNotFoundError):  # somebody cancelled the job meanwhile
            if left and time.time() - path.stat().st_mtime > LEFTOVER:
                path.unlink()
    remove_old_checkpoints(
        run.run_id for job in jobs.jobs(place) if not job.error for run in job.specifications
    )


def _work_on(place: Path, job: Job) -> None:
    """Run a job and remove it, or write why it failed; one that is interrupted stays."""
    begun = place / f"{job.name}.tries"
    tries = 0
    with contextlib.suppress(FileNotFoundError):
        tries = int(begun.read_bytes())
    if tries >= MOST_TRIES:
        jobs.fail(place, job.name, f"The process that trained it ended {tries} times.")
        return
    write_whole(begun, str(tries + 1).encode())
    try:
        _run_all(place, job)
    except KeyboardInterrupt:
        log.info("job %s interrupted", job.name)
        if jobs.exists(place, job.name):  # the server ends: the next process goes on
            write_whole(begun, str(tries).encode())
            return
    except QueueUnwritable:
        raise
    except PosencError as error:
        log.info("job %s failed: %s", job.name, type(error).__name__)
        jobs.fail(place, job.name, str(error))
        if isinstance(error, DeviceLost):
            raise
        return
    except Exception as error:  # whatever a scheme of a visitor or a library raises
        log.exception("job %s failed", job.name)
        why = f"It ended by an unforeseen fault ({type(error).__name__}); the log has it."
        jobs.fail(place, job.name, why)
        return
    jobs.cancel(place, job.name)


def _run_all(place: Path, job: Job) -> None:
    store = Store(job.store)
    for number, run in enumerate(job.specifications):
        corpus = None
        if run.task == Language.kind:
            text = jobs.text(place, job.name)
            corpus = standard_library() if text is None else from_text(job.text_name, text)
        with _Reporter(place, job.name, number, run) as report:
            run_once(run, corpus, store, report=report, passed=report.passed)
        log.info("job %s finished run %s", job.name, run.run_id)
        with contextlib.suppress(OSError):  # a job of many runs may be interrupted as often in each
            (place / f"{job.name}.tries").unlink(missing_ok=True)


class _Reporter:
    """Writes how far a run is, and interrupts it once its job is cancelled or the server ends."""

    def __init__(self, place: Path, name: str, number: int, run: Specification) -> None:
        self.place, self.name, self.number, self.steps = place, name, number, run.all_steps
        before = jobs.progress(place, name)  # of an earlier process
        self.before = before.points if before.run == number else ()
        self.points: list[tuple[int, float]] = []
        self.losses: list[float] = []  # since the last point
        self.began: int | None = None
        self.start = self.reported = self.seconds = 0.0
        self.lengths = evaluation_lengths(run)
        self.tokens = self.reached = 0  # of the evaluation
        self.done = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Reporter":
        self.watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.watcher.join()

    @property
    def stopping(self) -> bool:
        """Whether the run is to end."""
        return _ended.is_set() or not jobs.exists(self.place, self.name)

    def __call__(self, step: int, loss: float) -> None:
        now = time.monotonic()
        if self.began is None:  # the first step of a process also loads what it needs
            self.began, self.start = step, now
            self.points = [point for point in self.before if point[0] < step]
        self.losses.append(loss)
        if step % math.ceil(self.steps / POINTS) == 0:
            self.points.append((step, sum(self.losses) / len(self.losses)))
            self.losses = []
        if now - self.reported < REPORT_EVERY and step != self.steps:
            return
        self.reported, self.seconds = now, now - self.start
        if step == self.steps:
            self.reached = 1
        self._report(step)

    def passed(self, tokens: int) -> None:
        """Report the length that is evaluated, once another one begins. tokens: that were evaluated."""
        self.tokens += tokens
        reached = length_reached(self.lengths, self.tokens)
        if reached != self.reached:
            self.reached = reached
            self._report(self.steps)

    def _report(self, step: int) -> None:
        """Write how far the run is. Raises KeyboardInterrupt once it is to end."""
        if self.stopping:
            self.done.set()
            raise KeyboardInterrupt  # a training saves first
        began = step if self.began is None else self.began
        far = Progress(self.number, step, began, self.seconds, tuple(self.points))
        if self.reached:
            far = replace(
                far,
                length=self.lengths[self.reached - 1][0],
                reached=self.reached,
                lengths=len(self.lengths),
                share=self.tokens / sum(length * count for length, count in self.lengths),
            )
        with contextlib.suppress(OSError):  # a full disk does not end a training
            jobs.report(self.place, self.name, far)

    def _watch(self) -> None:
        """Interrupt what does not report, such as a long text of an evaluation, once the run is to end."""
        while not self.done.wait(REPORT_EVERY):
            if self.stopping and not self.done.wait(STOP_WITHIN):
                _thread.interrupt_main()
                if not self.done.wait(MAX_STOPPING):  # it waits for the system, as for a disk
                    os._exit(3)
                return


def _end_with_server() -> None:
    """Wait until the end of the server closes standard input, then end."""
    while os.read(0, 1_024):  # not sys.stdin: its lock would be held when the process ends
        pass
    _end()


def _end() -> None:
    """Let a run save at its next report and the process end; end it without that after GRACE."""
    _ended.set()
    time.sleep(STOP_WITHIN + GRACE)
    os._exit(3)


def main(place: Path, plugins: list[str]) -> int:
    """Run the jobs of a folder in this process; return its exit status."""
    output.begin_log(quotes=False)
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    threading.Thread(target=_end_with_server, daemon=True).start()
    # A parent in the background may pass on that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=_end, daemon=True).start())
    try:
        for file in plugins:
            load_plugin(file)
        work(place)
    except QueueUnwritable as error:
        log.error("%s The next process tries the jobs again.", error)
        return UNWRITABLE
    except DeviceLost:
        return DEVICE_LOST
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m dashboard.server.training_worker",
        description="Train the jobs of a folder, one after the other, until the input is closed.",
    )
    parser.add_argument("folder", type=Path, help="where the jobs are")
    parser.add_argument("plugins", nargs="*", help="Python files that register schemes")
    arguments = parser.parse_args()
    sys.exit(main(arguments.folder, arguments.plugins))
