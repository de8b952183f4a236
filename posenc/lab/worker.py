"""The background process that does what waits in a queue: `python -m posenc.lab.worker FOLDER RUNNING`.

It is niced, trains on the threads that each specification names, and ends when the queue is empty,
or when the process that started it is gone, which it notices by the end of its standard input.
"""

import _thread
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from posenc.errors import DeviceLost, PosencError, QueueBusy, QueueUnwritable
from posenc.lab import log_lines
from posenc.lab.jobs import DownsampledLoss, Job, Progress, Queue, clean_up, writing
from posenc.lab.log_lines import event
from posenc.lab.run_once import free_device_memory, run_once
from posenc.lab.runs import Store
from posenc.lab.specification import Specification
from posenc.lab.tasks import Corpus, Language, from_text, standard_library

log = logging.getLogger("posenc.worker")

NICE = 10
TELL_EVERY = 0.5  # seconds
HEARD_WITHIN = 2.0  # seconds
DEVICE_LOST = 75  # exit code, of a fault that passes with the process
UNWRITABLE = 74  # exit code, where the queue cannot be written: what waits there goes on waiting
GRACE = 5.0  # seconds to save in, once the parent is gone

_leaving = threading.Event()  # the parent is gone
_heard = threading.Event()  # and the training has stopped for it


class Stopped(Exception):
    """Somebody asked that this entry be stopped."""


def main(folder: Path, running: int) -> None:
    """Do the entries of a queue one after another, as one of at most `running` workers."""
    try:
        _work(Queue(folder, running=running))
    except QueueUnwritable as error:  # as on a full disk, which nothing but another process is for
        log.error("%s What waits is tried again by the next process.", error)
        sys.exit(UNWRITABLE)


def _work(queue: Queue) -> None:
    with contextlib.ExitStack() as stack:
        if not _slot(queue, stack):
            return
        with contextlib.suppress(PosencError, OSError):  # then the next worker does
            clean_up(queue)
        while not _leaving.is_set():
            with queue.taken() as entry:
                if entry is None:
                    return
                do(queue, entry)
            free_device_memory()


def do(queue: Queue, entry: Job) -> None:
    """Make every run of an entry, then forget the entry; one that fails is kept with its reason.

    Raises QueueUnwritable where what became of it cannot be written: then it waits.
    """
    try:
        store = Store(entry.store)
        for place, specification in enumerate(entry.specifications):
            if queue.stopping(entry.name):
                raise Stopped
            corpus = _corpus(queue, entry, specification)
            event(log, "run_begun", entry=entry.name, run=specification.run_id)
            report = _Reporter(queue, entry.name, place, specification)
            there = store.has(specification.run_id)
            with _stoppable(report):
                run_once(specification, corpus, store, report=report)
            if not there:
                entry = queue.got_on(entry)
                event(log, "run_finished", entry=entry.name, run=specification.run_id)
        queue.remove(entry.name)
    except (Stopped, KeyboardInterrupt) as why:
        if isinstance(why, KeyboardInterrupt) and not queue.stopping(entry.name):
            _give_back(queue, entry)  # the next worker goes on from the checkpoint
            return
        try:
            queue.remove(entry.name)  # its checkpoints stay: the same start goes on from them
        except QueueBusy:
            _give_back(queue, entry)  # whoever takes it next sees that it is to be stopped
    except QueueUnwritable:
        _give_back(queue, entry)
        raise
    except DeviceLost as error:
        event(log, "start_failed", entry=entry.name, fault=type(error).__name__)
        _fail(queue, entry, str(error))
        sys.exit(DEVICE_LOST)  # every later use of the device would fail in this process
    except QueueBusy:
        _give_back(queue, entry)  # its runs are made: whoever takes it next finds and forgets it
    except PosencError as error:
        event(log, "start_failed", entry=entry.name, fault=type(error).__name__)
        _fail(queue, entry, str(error))
    except (OSError, RuntimeError, MemoryError, ArithmeticError, LookupError, TypeError) as error:
        log.exception("the training of %s failed", entry.name)
        _fail(
            queue,
            entry,
            f"It ended by an unforeseen fault ({type(error).__name__}); the log of the server has it.",
        )


def _fail(queue: Queue, entry: Job, said: str) -> None:
    """Keep why an entry failed; where that cannot be written it waits, and this was no attempt."""
    try:
        queue.fail(entry, said)
    except QueueUnwritable:
        _give_back(queue, entry)
        raise


def _give_back(queue: Queue, entry: Job) -> None:
    """Let an entry wait again; where that cannot be written, such as on a full disk, it was a try."""
    with contextlib.suppress(QueueUnwritable):
        queue.give_back(entry)
    event(log, "start_interrupted", entry=entry.name)


class _Reporter:
    """Writes the progress of one run, and ends it where that is asked for."""

    def __init__(self, queue: Queue, name: str, place: int, specification: Specification) -> None:
        self.queue, self.name, self.place = queue, name, place
        self.steps = specification.steps
        before = queue.progress(name)  # of a sitting that ended early, if it is this run's
        self.before = before if before.run == place else Progress(run=place)
        self.curve = DownsampledLoss()
        self.began: int | None = None
        self.reading = False
        self.stop = threading.Event()  # somebody asked that it end
        self.start = self.told = 0.0
        self._tell(self.before)

    def __call__(self, step: int, loss: float) -> None:
        now = time.monotonic()
        if self.began is None:  # the first step of a sitting also loads what it needs
            self.began, self.start = step, now
            self.curve = DownsampledLoss([point for point in self.before.points if point[0] < step])
        self.curve.add(step, loss)
        if now - self.told >= TELL_EVERY or step == self.steps:
            self.told = now
            self.reading = step == self.steps
            progress = Progress(
                run=self.place,
                step=step,
                began=self.began,
                seconds=now - self.start,
                points=tuple(self.curve.points),
                reading=self.reading,
            )
            self._tell(progress)
        if self.stop.is_set():
            raise Stopped
        if _leaving.is_set():
            _heard.set()
            raise KeyboardInterrupt  # saves first

    def _tell(self, progress: Progress) -> None:
        """Write the progress; where that fails, such as on a full disk, the training goes on."""
        with contextlib.suppress(QueueUnwritable):
            self.queue.tell(self.name, progress)


@contextlib.contextmanager
def _stoppable(report: _Reporter) -> Iterator[None]:
    """Let a stop end what reports nothing, too: waiting for another process, reading the model."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(TELL_EVERY):
            if report.queue.stopping(report.name):
                report.stop.set()
                # Between two steps it is heard at once; elsewhere it is called for.
                if not done.wait(HEARD_WITHIN):
                    _thread.interrupt_main()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _corpus(queue: Queue, entry: Job, specification: Specification) -> Corpus | None:
    if specification.task != Language.kind:
        return None
    text = queue.text(entry)
    return standard_library() if text is None else from_text(entry.text_name, text)


def _slot(queue: Queue, stack: contextlib.ExitStack) -> bool:
    """Take one of the places of workers, False where all are taken. Raises QueueUnwritable."""
    with writing():
        queue.folder.mkdir(parents=True, exist_ok=True)
    for place in range(queue.running):
        with contextlib.suppress(Timeout), writing():
            stack.enter_context(FileLock(queue.folder / f"worker-{place}.lock", timeout=0.2))
            return True
    return False


def _leave_with_parent() -> None:
    """Wait for the end of standard input; then save and go."""
    while os.read(0, 1_024):  # not sys.stdin: its lock would be held when the process ends
        pass
    _leave()


def _leave() -> None:
    """Save and go, or just go if that takes long."""
    _leaving.set()
    # Between two steps it is heard at once; a wait or a reading of the model is called off.
    if not _heard.wait(HEARD_WITHIN):
        _thread.interrupt_main()
    time.sleep(GRACE)
    os._exit(3)


def be_a_process() -> None:
    """Do the entries of a queue in this process, which ends with the one that started it."""
    log_lines.install(os.environ.get(log_lines.VARIABLE, ""))
    if hasattr(os, "setpriority"):  # as low as the server that started it has set, or lower
        os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    # A server that was started in the background may have passed on that an interrupt is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=_leave, daemon=True).start())
    main(Path(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    be_a_process()
