"""The worker processes of this server, which train the queued jobs and end with the server."""

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
from posenc.lab.worker import GRACE, NICE, STOP_WITHIN, UNWRITABLE
from posenc.plugins import loaded_plugins

log = logging.getLogger(__name__)

# Processor time in which a new process loads torch and the text, measured on a machine with 2 cores.
LOADING_SECONDS = 3.3
LOOK_EVERY = 5.0  # seconds between two checks whether a process hangs
RESUME_EVERY = 3.0  # seconds between two checks of pages whether a job is queued
PAUSE = 60.0  # seconds until another process is started after one that failed

_instances: "weakref.WeakSet[Workers]" = weakref.WeakSet()


class Workers:
    """Worker processes of one server: at most as many as the queue allows, none while no job is queued.

    A worker ends when its standard input does, which happens however the server ends.
    """

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._failed = -PAUSE
        self._code: int | None = 0  # of the process that ended last
        self._stopping = False
        _instances.add(self)
        self.last_resume = -RESUME_EVERY  # when a page last checked whether a job is queued

    @property
    def failed(self) -> bool:
        """Whether a process failed less than PAUSE seconds ago; until then no other is started."""
        return time.monotonic() - self._failed < PAUSE

    @property
    def unwritable(self) -> bool:
        """Whether that process failed because it could not write the queue, as on a full disk."""
        return self.failed and self._code == UNWRITABLE

    def start_if_needed(self) -> None:
        """Start a process if a job is queued and another process may run.

        Raises QueueUnwritable where no process could work.
        """
        with self._lock:
            if self._stopping or self.failed or len(self._processes) >= self.queue.running:
                return
            waiting = any(job.state is JobState.QUEUED for job in self.queue.jobs())
            if not waiting or not self.queue.has_free_slot():
                return
            # Its own process, never a fork of this one or a thread of it: torch's threads do not
            # survive a fork, and a thread would take its time from every visitor's pages.
            allowed = settings.current()
            command = [sys.executable, "-m", "dashboard.server.training_worker"]
            command += [str(self.queue.folder), str(self.queue.running)]
            for file in loaded_plugins():
                command += ["--plugin", file]
            process = subprocess.Popen(  # noqa: S603 - our own worker, no shell
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                # A Ctrl-C for the server is not for the worker. A group of its own, not a session: Linux
                # shares time out among sessions first, and niceness would count within the worker's alone.
                process_group=0 if os.name == "posix" else None,
            )
            # At once: loading torch is work.
            _lower_priority(process.pid, only_idle=not allowed.busy_training)
            self._processes.append(process)
        threading.Thread(target=self._await, args=(process,), daemon=True).start()

    def stop(self) -> None:
        """End all processes, wait until they have saved, and start no more."""
        with self._lock:
            self._stopping = True
            running = list(self._processes)
        for process in running:
            if process.stdin is not None:
                process.stdin.close()
        end = time.monotonic() + STOP_WITHIN + GRACE + 1
        for process in running:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a process, then start the next one for jobs that were queued meanwhile."""
        code: int | None = None
        try:
            code = self._watch(process)
        finally:  # a process that stays in the list prevents all others
            if process.stdin is not None:
                process.stdin.close()
            with self._lock:
                self._processes.remove(process)
                self._code = code
                if code != 0:
                    self._failed = time.monotonic()
        if self._stopping:
            return
        if code != 0:
            time.sleep(PAUSE)
        try:
            self.start_if_needed()
        except (PosencError, OSError):  # the next page that is opened tries again
            log.exception("no process can be started for the queued jobs")

    def _watch(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for the exit code of a process, and end it if it hangs."""
        logged = False
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK_EVERY)
            try:
                hung = self.queue.hung_job(process.pid)
            except (PosencError, OSError):
                if not logged:  # the fault may last, and each check would log it
                    log.exception("whether process %d hangs cannot be read", process.pid)
                logged = True
                continue
            if hung is not None:
                return self._end(process, hung)

    def _end(self, process: subprocess.Popen[bytes], hung: str) -> int:
        """End a process that hangs with a job, and remove the job if it is cancelled."""
        log.error("process %d hangs with %s and is ended", process.pid, hung)
        process.terminate()
        try:
            code = process.wait(STOP_WITHIN + GRACE + 1)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        try:
            if self.queue.is_cancelled(hung):
                self.queue.cancel(hung)  # no process runs it: this removes it
        except (PosencError, OSError):  # the next process finds it cancelled
            log.exception("%s cannot be removed now", hung)
        return code


def _lower_priority(pid: int, *, only_idle: bool) -> None:
    """Lower the priority of a process. only_idle: on Linux it runs only while a core is idle.

    Otherwise Linux does not wake a page's thread on the core of a training.
    """
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, pid, NICE)
    if only_idle:
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


@st.cache_resource(max_entries=1, show_spinner=False)
def server_workers() -> Workers:
    """Return the worker processes of this server."""
    allowed = settings.current()
    return Workers(Queue(running=allowed.running, waiting=allowed.waiting))


def stop_all() -> None:
    """End all worker processes once they have saved: a container would kill them with the server."""
    for workers in list(_instances):
        workers.stop()


def resume() -> None:
    """Start a process for the jobs that an earlier server left; every page run calls this.

    It logs a fault of the queue, which only the page Train shows.
    """
    try:
        workers = server_workers()
        if time.monotonic() - workers.last_resume >= RESUME_EVERY:
            workers.last_resume = time.monotonic()  # also where the check fails
            workers.start_if_needed()
    except (PosencError, OSError):
        log.exception("the queue of jobs cannot be used")
