"""The process that works on queued jobs: `python -m posenc.lab.worker FOLDER RUNNING`.

It runs at low priority, trains on the threads that each specification names, and ends when the queue is
empty, or when the process that started it has ended, which closes its standard input.
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
from posenc.lab.specification import Specification
from posenc.lab.tasks import Corpus, Language, from_text, standard_library

log = logging.getLogger("posenc.worker")

NICE = 10
REPORT_EVERY = 0.5  # seconds
HEARD_WITHIN = 2.0  # seconds
DEVICE_LOST = 75  # exit code, of a fault that passes with the process
UNWRITABLE = 74  # exit code, where the queue cannot be written: its jobs stay queued
GRACE = 5.0  # seconds to save in, once the parent is gone

_leaving = threading.Event()  # the parent is gone
_heard = threading.Event()  # and the training has stopped for it


class Cancelled(Exception):
    """Somebody cancelled this job."""


def main(folder: Path, running: int) -> None:
    """Run the jobs of a queue one after another, as one of at most `running` workers."""
    queue = Queue(folder, running=running)
    try:
        with contextlib.suppress(PosencError, OSError):  # then the next worker does
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
    """Run every specification of a job, then remove it; one that fails stays with its reason.

    Raises QueueUnwritable where its end cannot be written: then it is queued.
    """
    try:
        store = Store(job.store)
        for place, specification in enumerate(job.specifications):
            if queue.is_cancelled(job.name):
                raise Cancelled
            corpus = _corpus(queue, job, specification)
            _event("run_begun", entry=job.name, run=specification.run_id)
            report = _Reporter(queue, job.name, place, specification)
            there = store.has(specification.run_id)
            with _cancellable(report):
                run_once(specification, corpus, store, report=report)
            if not there:
                job = queue.reset_attempts(job)
                _event("run_finished", entry=job.name, run=specification.run_id)
        queue.remove(job.name)
    except (Cancelled, KeyboardInterrupt) as why:
        if isinstance(why, KeyboardInterrupt) and not queue.is_cancelled(job.name):
            _give_back(queue, job)  # the next worker goes on from the checkpoint
            return
        try:
            queue.remove(job.name)  # its checkpoints stay: the same start goes on from them
        except QueueBusy:
            _give_back(queue, job)  # the next worker sees that it is cancelled
    except QueueUnwritable:
        _give_back(queue, job)
        raise
    except DeviceLost as error:
        _event("start_failed", entry=job.name, fault=type(error).__name__)
        _fail(queue, job, str(error))
        sys.exit(DEVICE_LOST)  # every later use of the device would fail in this process
    except QueueBusy:
        _give_back(queue, job)  # its runs are stored: the next worker finds them and removes it
    except PosencError as error:
        _event("start_failed", entry=job.name, fault=type(error).__name__)
        _fail(queue, job, str(error))
    except (OSError, RuntimeError, MemoryError, ArithmeticError, LookupError, TypeError) as error:
        log.exception("the training of %s failed", job.name)
        _fail(
            queue,
            job,
            f"It ended by an unforeseen fault ({type(error).__name__}); the log of the server has it.",
        )


def _event(name: str, **facts: str) -> None:
    """Log an event with facts that hold no text of a user."""
    words = "".join(f" {key}={value}" for key, value in facts.items())
    log.info("%s%s", name, words, extra={"event": name, "facts": facts})


def _fail(queue: Queue, job: Job, reason: str) -> None:
    """Store why a job failed; where that cannot be written it is queued, and this was no attempt."""
    try:
        queue.fail(job, reason)
    except QueueUnwritable:
        _give_back(queue, job)
        raise


def _give_back(queue: Queue, job: Job) -> None:
    """Queue a job again; where that cannot be written, such as on a full disk, it was an attempt."""
    with contextlib.suppress(QueueUnwritable, QueueBusy):
        queue.give_back(job)
    _event("start_interrupted", entry=job.name)


class DownsampledLoss:
    """A training loss as few points, each the mean of equally many steps: twice as many as it grows."""

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
    """Stores the progress of one run, and ends the run where that is asked for."""

    def __init__(self, queue: Queue, name: str, place: int, specification: Specification) -> None:
        self.queue, self.name, self.place = queue, name, place
        self.steps = specification.steps
        before = queue.progress(name)  # of a process that ended early, if it is this run's
        self.before = before if before.run == place else Progress(run=place)
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
                    run=self.place,
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
        """Store the progress; where that fails, such as on a full disk, the training goes on."""
        with contextlib.suppress(QueueUnwritable, QueueBusy):
            self.queue.report(self.name, progress)


@contextlib.contextmanager
def _cancellable(report: _Reporter) -> Iterator[None]:
    """Let a cancelled job end what reports nothing, too: waiting for a lock, an evaluation."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(REPORT_EVERY):
            with contextlib.suppress(QueueUnwritable, QueueBusy):
                if report.queue.is_cancelled(report.name):
                    break
        else:
            return
        report.cancelled.set()
        # Between two steps it is heard at once; elsewhere it is called for.
        if not done.wait(HEARD_WITHIN):
            _thread.interrupt_main()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _corpus(queue: Queue, job: Job, specification: Specification) -> Corpus | None:
    if specification.task != Language.kind:
        return None
    text = queue.text(job)
    return standard_library() if text is None else from_text(job.text_name, text)


def _leave_with_parent() -> None:
    """Wait for the end of standard input; then save and go."""
    while os.read(0, 1_024):  # not sys.stdin: its lock would be held when the process ends
        pass
    _leave()


def _leave() -> None:
    """Save and go, or just go if that takes long."""
    _leaving.set()
    # Between two steps it is heard at once; a wait or an evaluation is called off.
    if not _heard.wait(HEARD_WITHIN):
        _thread.interrupt_main()
    time.sleep(GRACE)
    os._exit(3)


def be_a_process() -> None:
    """Run the jobs of a queue in this process, which ends with the process that started it."""
    if hasattr(os, "setpriority"):  # as low as the server that started it has set, or lower
        os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    # A server that was started in the background may have passed on that an interrupt is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=_leave, daemon=True).start())
    main(Path(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    be_a_process()
