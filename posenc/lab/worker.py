"""The process that does queued jobs: `python -m posenc.lab.worker FOLDER RUNNING`.

It has low priority and ends when the queue is empty or when its parent ends.
"""

import _thread
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from posenc.errors import DeviceLost, PosencError, QueueBusy, QueueUnwritable
from posenc.lab.jobs import Job, Progress, Queue, clean_up
from posenc.lab.run_once import free_device_memory, run_once
from posenc.lab.runs import Store
from posenc.lab.tasks import Language, from_text, standard_library

log = logging.getLogger("posenc.worker")

NICE = 10
REPORT_EVERY = 0.5  # seconds
HEARD_WITHIN = 2.0  # seconds
DEVICE_LOST = 75  # exit code: a new process may use the device
UNWRITABLE = 74  # exit code: the queue cannot be written, its jobs stay queued
GRACE = 5.0  # seconds to save in, once the parent has ended

_leaving = threading.Event()  # the parent has ended
_heard = threading.Event()  # and the training has stopped


class Cancelled(Exception):
    """The job was cancelled."""


def main(folder: Path, running: int) -> None:
    """Run the jobs of a queue in turn, as one of at most `running` workers."""
    queue = Queue(folder, running=running)
    try:
        with contextlib.suppress(PosencError, OSError):  # the next worker tries again
            clean_up(queue)
        while not _leaving.is_set():
            with queue.take() as job:
                if job is None:
                    return
                do(queue, job)
            free_device_memory()
    except QueueUnwritable as error:  # as on a full disk
        log.error("%s What waits is tried again by the next process.", error)
        sys.exit(UNWRITABLE)


def do(queue: Queue, job: Job) -> None:
    """Run every specification of a job, then remove it; a failed job stays with its reason.

    Raises QueueUnwritable where its end cannot be written: then it is queued again.
    """
    try:
        store = Store(job.store)
        for index, specification in enumerate(job.specifications):
            if queue.is_cancelled(job.name):
                raise Cancelled
            corpus = None
            if specification.task == Language.kind:
                text = queue.text(job)
                corpus = from_text(job.text_name, text) if text is not None else standard_library()
            _event("run_begun", entry=job.name, run=specification.run_id)
            report = _Reporter(queue, job.name, index, specification.steps)
            is_stored = store.has(specification.run_id)
            with _cancellable(report):
                run_once(specification, corpus, store, report=report)
            if not is_stored:
                job = queue.reset_attempts(job)
                _event("run_finished", entry=job.name, run=specification.run_id)
        queue.remove(job.name)
    except (Cancelled, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) and not queue.is_cancelled(job.name):
            _requeue(queue, job)  # the next worker goes on from the checkpoint
            return
        try:
            queue.remove(job.name)  # its checkpoints stay
        except QueueBusy:
            _requeue(queue, job)  # the next worker removes it
    except QueueUnwritable:
        _requeue(queue, job)
        raise
    except QueueBusy:
        _requeue(queue, job)  # its runs are stored: the next worker removes it
    except PosencError as error:
        _event("start_failed", entry=job.name, fault=type(error).__name__)
        _fail(queue, job, str(error))
        if isinstance(error, DeviceLost):
            sys.exit(DEVICE_LOST)  # every later use of the device would fail in this process
    except (OSError, RuntimeError, MemoryError, ArithmeticError, LookupError, TypeError) as error:
        log.exception("the training of %s failed", job.name)
        _fail(
            queue,
            job,
            f"It ended by an unforeseen fault ({type(error).__name__}); the log of the server has it.",
        )


def _event(name: str, **facts: str) -> None:
    """Log an event; its facts must not contain text of a user."""
    words = "".join(f" {key}={value}" for key, value in facts.items())
    log.info("%s%s", name, words, extra={"event": name, "facts": facts})


def _fail(queue: Queue, job: Job, reason: str) -> None:
    """Store why a job failed, or queue it again where that cannot be written."""
    try:
        queue.fail(job, reason)
    except QueueUnwritable:
        _requeue(queue, job)
        raise


def _requeue(queue: Queue, job: Job) -> None:
    """Queue a job again; where that cannot be written, its attempt counts."""
    with contextlib.suppress(QueueUnwritable, QueueBusy):
        queue.give_back(job)
    _event("start_interrupted", entry=job.name)


class DownsampledLoss:
    """A training loss as points, each the mean of equally many steps; the number doubles."""

    MOST = 200  # points

    def __init__(self, points: Sequence[tuple[int, float]] = ()) -> None:
        """Go on from the points of an earlier process."""
        self.points = list(points)
        self._steps = self.points[-1][0] - self.points[-2][0] if len(self.points) > 1 else 1
        self._losses: list[float] = []

    def add(self, step: int, loss: float) -> None:
        """Add the loss of a step."""
        self._losses.append(loss)
        if len(self._losses) < self._steps:
            return
        self.points.append((step, sum(self._losses) / len(self._losses)))
        self._losses = []
        if len(self.points) >= self.MOST:
            pairs = zip(self.points[::2], self.points[1::2], strict=False)
            self.points = [(after[0], (before[1] + after[1]) / 2) for before, after in pairs]
            self._steps *= 2


class _Reporter:
    """Stores the progress of one run, and ends the run when cancelled or without a parent."""

    def __init__(self, queue: Queue, name: str, index: int, steps: int) -> None:
        self.queue, self.name, self.index, self.steps = queue, name, index, steps
        before = queue.progress(name)  # of an earlier process
        self.before = before if before.run == index else Progress(run=index)
        self.losses = DownsampledLoss()
        self.began: int | None = None
        self.cancelled = threading.Event()
        self.start = self.reported = 0.0
        self._report(self.before)

    def __call__(self, step: int, loss: float) -> None:
        now = time.monotonic()
        if self.began is None:  # the first step of a process also loads what it needs
            self.began, self.start = step, now
            self.losses = DownsampledLoss(
                [point for point in self.before.points if point[0] < step]
            )
        self.losses.add(step, loss)
        if now - self.reported >= REPORT_EVERY or step == self.steps:
            self.reported = now
            self._report(
                Progress(
                    run=self.index,
                    step=step,
                    began=self.began,
                    seconds=now - self.start,
                    points=tuple(self.losses.points),
                    reading=step == self.steps,
                )
            )
        if self.cancelled.is_set():
            raise Cancelled
        if _leaving.is_set():
            _heard.set()
            raise KeyboardInterrupt  # saves first

    def _report(self, progress: Progress) -> None:
        """Store the progress if possible; training goes on otherwise."""
        with contextlib.suppress(QueueUnwritable, QueueBusy):
            self.queue.report(self.name, progress)


@contextlib.contextmanager
def _cancellable(report: _Reporter) -> Iterator[None]:
    """End a cancelled job also while it waits for a lock or is evaluated."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(REPORT_EVERY):
            with contextlib.suppress(QueueUnwritable, QueueBusy):
                if report.queue.is_cancelled(report.name):
                    break
        else:
            return
        report.cancelled.set()
        # The report of the next step ends the run; a wait or an evaluation is interrupted.
        if not done.wait(HEARD_WITHIN):
            _thread.interrupt_main()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _leave_with_parent() -> None:
    """Wait for the end of standard input, which the parent's end closes; then save and exit."""
    while os.read(0, 1_024):  # not sys.stdin: its lock would be held when the process ends
        pass
    _leave()


def _leave() -> None:
    """Save and exit, or exit without saving after GRACE."""
    _leaving.set()
    # The report of the next step ends the run; a wait or an evaluation is interrupted.
    if not _heard.wait(HEARD_WITHIN):
        _thread.interrupt_main()
    time.sleep(GRACE)
    os._exit(3)


def be_a_process() -> None:
    """Run the jobs of a queue in this process, which ends with its parent."""
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    # A parent in the background may pass on that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=_leave, daemon=True).start())
    main(Path(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    be_a_process()
