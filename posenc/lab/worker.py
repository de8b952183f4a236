"""The process that runs queued jobs: `python -m posenc.lab.worker FOLDER RUNNING [--plugin FILE]`.

It has low priority and ends when the queue is empty or when its parent ends.
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
from pathlib import Path

from posenc.errors import DeviceLost, PluginError, PosencError, QueueBusy, QueueUnwritable
from posenc.lab.jobs import Job, Progress, Queue, clean_up
from posenc.lab.run_once import free_device_memory, run_once
from posenc.lab.runs import Store
from posenc.lab.tasks import Language, from_text, standard_library
from posenc.plugins import load_plugin

log = logging.getLogger("posenc.worker")

NICE = 10
REPORT_EVERY = 0.5  # seconds
STOP_WITHIN = 2.0  # seconds that a run has to stop by itself
DEVICE_LOST = 75  # exit code: a new process may use the device
UNWRITABLE = 74  # exit code: the queue cannot be written, its jobs stay queued
GRACE = 5.0  # seconds to save in, once the parent has ended
MAX_POINTS = 200  # of a reported loss

_parent_ended = threading.Event()  # the parent has ended


def main(folder: Path, running: int) -> None:
    """Run the jobs of a queue in turn, as one of at most `running` workers."""
    queue = Queue(folder, running=running)
    try:
        with contextlib.suppress(PosencError, OSError):  # the next worker tries again
            clean_up(queue)
        while not _parent_ended.is_set():
            with queue.take() as job:
                if job is None:
                    return
                run_job(queue, job)
            free_device_memory()
    except QueueUnwritable as error:  # as on a full disk
        log.error("%s The next process tries the queued jobs again.", error)
        sys.exit(UNWRITABLE)


def run_job(queue: Queue, job: Job) -> None:
    """Run every specification of a job, then remove the job; a failed job stays with its reason.

    Raises QueueUnwritable where the end cannot be written: then the job is queued again.
    """
    try:
        try:
            _run_all(queue, job)
            queue.remove(job.name)
        except KeyboardInterrupt:
            if not queue.is_cancelled(job.name):
                raise  # the next worker resumes from the checkpoint
            queue.remove(job.name)  # its checkpoints stay
        except (QueueBusy, QueueUnwritable):
            raise
        except PosencError as error:
            _event("job_failed", job=job.name, fault=type(error).__name__)
            queue.fail(job.name, str(error))
            if isinstance(error, DeviceLost):
                sys.exit(DEVICE_LOST)  # every later use of the device would fail in this process
        except (
            OSError,
            RuntimeError,
            MemoryError,
            ArithmeticError,
            LookupError,
            TypeError,
        ) as error:
            log.exception("the training of %s failed", job.name)
            kind = type(error).__name__
            queue.fail(job.name, f"It ended by an unforeseen fault ({kind}); the log has it.")
    except (KeyboardInterrupt, QueueBusy, QueueUnwritable) as error:
        with contextlib.suppress(QueueUnwritable, QueueBusy):  # else its attempt counts
            queue.requeue(job.name)
        _event("job_interrupted", job=job.name)
        if isinstance(error, QueueUnwritable):
            raise


def _run_all(queue: Queue, job: Job) -> None:
    store = Store(job.store)
    for index, specification in enumerate(job.specifications):
        if queue.is_cancelled(job.name):
            raise KeyboardInterrupt
        corpus = None
        if specification.task == Language.kind:
            text = queue.text(job.name)
            corpus = from_text(job.text_name, text) if text is not None else standard_library()
        _event("run_begun", job=job.name, run=specification.run_id)
        is_stored = store.has(specification.run_id)
        with _Reporter(queue, job.name, index, specification.steps) as report:
            run_once(specification, corpus, store, report=report)
        if not is_stored:
            queue.reset_attempts(job.name)
            _event("run_finished", job=job.name, run=specification.run_id)


def _event(name: str, **facts: str) -> None:
    """Log an event; its facts must not contain text of a user."""
    words = "".join(f" {key}={value}" for key, value in facts.items())
    log.info("%s%s", name, words, extra={"event": name, "facts": facts})


class _Reporter:
    """Stores the progress of a run, and interrupts a run that is cancelled or whose parent ends."""

    def __init__(self, queue: Queue, name: str, index: int, steps: int) -> None:
        self.queue, self.name, self.index, self.steps = queue, name, index, steps
        before = queue.progress(name)  # of an earlier process
        if before.run != index:
            before = Progress(run=index)
        self.points = list(before.points)  # each the mean of equally many steps
        self.losses: list[float] = []  # since the last point
        self.began: int | None = None
        self.start = self.reported = 0.0
        self.stopping = threading.Event()
        self.done = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self._report(before)

    def __enter__(self) -> "_Reporter":
        self.watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.watcher.join()

    def __call__(self, step: int, loss: float) -> None:
        now = time.monotonic()
        if self.began is None:  # the first step of a process also loads what it needs
            self.began, self.start = step, now
            self.points = [point for point in self.points if point[0] < step]
        self.losses.append(loss)
        if step % math.ceil(self.steps / MAX_POINTS) == 0:
            self.points.append((step, sum(self.losses) / len(self.losses)))
            self.losses = []
        if now - self.reported >= REPORT_EVERY or step == self.steps:
            self.reported = now
            self._report(
                Progress(
                    run=self.index,
                    step=step,
                    began=self.began,
                    seconds=now - self.start,
                    points=tuple(self.points),
                    evaluating=step == self.steps,
                )
            )
        if self.stopping.is_set() or _parent_ended.is_set():
            self.done.set()
            raise KeyboardInterrupt  # saves first

    def _report(self, progress: Progress) -> None:
        """Store the progress if possible; training goes on otherwise."""
        with contextlib.suppress(QueueUnwritable, QueueBusy):
            self.queue.report(self.name, progress)

    def _watch(self) -> None:
        while not (self.stopping.is_set() or self.done.wait(REPORT_EVERY)):
            with contextlib.suppress(QueueUnwritable, QueueBusy):
                if _parent_ended.is_set() or self.queue.is_cancelled(self.name):
                    self.stopping.set()
        # The report of the next step ends the run; a wait or an evaluation is interrupted.
        if not self.done.wait(STOP_WITHIN):
            _thread.interrupt_main()


def _exit_with_parent() -> None:
    """Wait until the end of the parent closes standard input, then save and exit."""
    while os.read(0, 1_024):  # not sys.stdin: its lock would be held when the process ends
        pass
    _exit()


def _exit() -> None:
    """Save and exit, or exit without saving after GRACE."""
    _parent_ended.set()
    time.sleep(STOP_WITHIN + GRACE)
    os._exit(3)


def _arguments() -> argparse.Namespace:
    """Return the command line, its plugins loaded; end the process with the usage if it is wrong."""
    module = sys.modules["__main__"].__spec__
    parser = argparse.ArgumentParser(
        prog=f"python -m {module.name if module else __name__}",
        description="Run the queued jobs of training in a folder, one after the other, at low priority. "
        "The process ends when the queue is empty or when its standard input is closed.",
    )
    parser.add_argument(
        "--plugin",
        metavar="FILE",
        action="append",
        default=[],
        help="Python file that registers schemes; may be repeated",
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder of the queue")
    parser.add_argument(
        "running",
        metavar="RUNNING",
        type=int,
        help="most workers of the queue at a time, 1 or more",
    )
    arguments = parser.parse_args()
    if arguments.running < 1:
        parser.error(f"RUNNING must be 1 or more, got {arguments.running}.")
    try:
        for file in arguments.plugin:
            load_plugin(file)
    except PluginError as error:
        parser.error(str(error))
    return arguments


def run_as_process() -> None:
    """Run the jobs of a queue in this process, which ends with its parent."""
    arguments = _arguments()
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    # A parent in the background may pass on that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=_exit, daemon=True).start())
    main(arguments.folder, arguments.running)


if __name__ == "__main__":
    run_as_process()
