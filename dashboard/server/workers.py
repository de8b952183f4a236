"""The background processes that train what waits, started by this server and gone with it."""

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
import weakref

import streamlit as st

from dashboard.server import settings
from posenc.errors import PosencError
from posenc.lab.jobs import JobState, Queue
from posenc.lab.worker import GRACE, HEARD_WITHIN, NICE, UNWRITABLE

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0  # seconds between two looks at whether a process hangs
RESUME_EVERY = 3.0  # seconds between two looks of pages at whether something waits
PAUSE = 60.0  # seconds until another process is started after one that failed

_crews: "weakref.WeakSet[Workers]" = weakref.WeakSet()


class Workers:
    """Processes of one server: as many as the queue allows, none while nothing waits.

    A worker ends when its standard input does, which happens however the server ends.
    """

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._failed = -PAUSE
        self._code: int | None = 0  # of the process that ended last
        self._left = False
        _crews.add(self)
        self.looked = -RESUME_EVERY  # when a page last looked whether something waits

    @property
    def failed(self) -> bool:
        """Whether a process has just ended by a fault; the next one is started after a while."""
        return time.monotonic() - self._failed < PAUSE

    @property
    def unwritable(self) -> bool:
        """Whether it ended because the queue could not be written, as on a full disk."""
        return self.failed and self._code == UNWRITABLE

    def ensure(self) -> None:
        """See to it that what waits is done: start a process if one may be started.

        Raises QueueUnwritable where no process could do anything.
        """
        with self._lock:
            if self._left or self.failed or len(self._processes) >= self.queue.running:
                return
            waiting = any(job.state is JobState.QUEUED for job in self.queue.jobs())
            if not waiting or not self.queue.has_free_slot():
                return
            # Its own process, never a fork of this one or a thread of it: torch's threads do not
            # survive a fork, and a thread would take its time from every visitor's pages.
            allowed = settings.current()
            command = [sys.executable, "-m", "dashboard.server.training_worker"]
            command += [str(self.queue.folder), str(self.queue.running)]
            process = subprocess.Popen(  # noqa: S603 - our own worker, no shell
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=os.environ | {settings.LOGS: allowed.logs},
                # A Ctrl-C for the server is not for the worker. A group of its own, not a session: Linux
                # shares time out among sessions first, and niceness would count within the worker's alone.
                process_group=0 if os.name == "posix" else None,
            )
            # At once: loading torch is work.
            _give_way(process.pid, wholly=not allowed.busy_training)
            self._processes.append(process)
        threading.Thread(target=self._await, args=(process,), daemon=True).start()

    def leave(self) -> None:
        """Tell the processes that the server ends, and wait until they have saved; start none any more."""
        with self._lock:
            self._left = True
            leaving = list(self._processes)
        for process in leaving:
            if process.stdin is not None:
                process.stdin.close()
        end = time.monotonic() + HEARD_WITHIN + GRACE + 1
        for process in leaving:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a process; what was put in the queue meanwhile needs the next one."""
        code: int | None = None
        try:
            code = self._watch(process)
        finally:  # one that stays in the list keeps all others out
            if process.stdin is not None:
                process.stdin.close()
            with self._lock:
                self._processes.remove(process)
                self._code = code
                if code != 0:
                    self._failed = time.monotonic()
        if self._left:
            return
        if code != 0:
            time.sleep(PAUSE)
        try:
            self.ensure()
        except (PosencError, OSError):  # the next page that is opened tries again
            log.exception("no process can be started for what waits")

    def _watch(self, process: subprocess.Popen[bytes]) -> int:
        """Return the exit code of a process, which is ended if it hangs; a fault of the queue waits."""
        logged = False
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK_EVERY)
            try:
                hung = self.queue.hung_job(process.pid)
            except (PosencError, OSError):
                if not logged:  # it may last, and is looked at again in a moment
                    log.exception("whether process %d hangs cannot be read", process.pid)
                logged = True
                continue
            if hung is not None:
                return self._end(process, hung)

    def _end(self, process: subprocess.Popen[bytes], hung: str) -> int:
        """End a process that hangs with a job, which is removed if it was to be stopped."""
        log.error("process %d hangs with %s and is ended", process.pid, hung)
        process.terminate()
        try:
            code = process.wait(HEARD_WITHIN + GRACE + 1)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        try:
            if self.queue.is_cancelled(hung):
                self.queue.cancel(hung)  # nobody has it any more: gone at once
        except (PosencError, OSError):  # the next process finds that it is to be stopped
            log.exception("%s cannot be removed now", hung)
        return code


def _give_way(pid: int, *, wholly: bool) -> None:
    """Let a process have less time than pages. wholly: on Linux only while a core is idle.

    Only then does Linux wake a page's thread on the core that a training has.
    """
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, pid, NICE)
    if wholly:
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


@st.cache_resource(max_entries=1, show_spinner=False)
def server_workers() -> Workers:
    """Return the background processes of this server."""
    allowed = settings.current()
    return Workers(Queue(running=allowed.running, waiting=allowed.waiting))


def leave() -> None:
    """Let every process of this server save and end: in a container they are ended with the server."""
    for crew in list(_crews):
        crew.leave()


def resume() -> None:
    """Let what another server or an earlier one left go on, whichever page is opened or used.

    A fault of the queue is in the log, and on the page that is about it; no other page needs it.
    """
    try:
        workers = server_workers()
        if time.monotonic() - workers.looked >= RESUME_EVERY:
            workers.looked = time.monotonic()  # also of a look that fails
            workers.ensure()
    except (PosencError, OSError):
        log.exception("the queue of trainings cannot be used")
