"""The process of this server that trains the jobs of visitors; it ends with the server."""

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import streamlit as st

from dashboard.server import jobs, settings
from dashboard.server.training_worker import GRACE, NICE, STOP_WITHIN, UNWRITABLE
from posenc.errors import PosencError
from posenc.plugins import loaded_plugins

log = logging.getLogger(__name__)

RESUME_EVERY = 3.0  # seconds between two checks of pages whether a job waits
PAUSE = 60.0  # seconds until another process is started after one that failed

_instances: "weakref.WeakSet[TrainingProcess]" = weakref.WeakSet()


class TrainingProcess:
    """The process of one server that trains; none runs while no job waits, or while another server's does.

    It ends when its standard input does, which happens however the server ends.
    """

    def __init__(self, place: Path) -> None:
        self.place = place  # the folder of jobs
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._failed = -PAUSE
        self._code = 0  # of the process that ended last
        self._stopping = False
        _instances.add(self)
        self.last_resume = -RESUME_EVERY  # when a page last checked whether a job waits

    @property
    def failed(self) -> bool:
        """Whether a process failed less than PAUSE seconds ago; until then no other is started."""
        return time.monotonic() - self._failed < PAUSE

    @property
    def unwritable(self) -> bool:
        """Whether that process failed because it could not write the jobs, as on a full disk."""
        return self.failed and self._code == UNWRITABLE

    def start_if_needed(self) -> None:
        """Start a process if a job waits, this server trains, and no process is at work on the folder.

        Raises QueueUnwritable where no process could work.
        """
        allowed = settings.current()
        with self._lock:
            if self._stopping or self.failed or self._process is not None or not allowed.training:
                return
            if all(job.error for job in jobs.jobs(self.place)):
                return
            with jobs.taken(self.place) as free:
                if not free:
                    return
            # Its own process, never a fork of this one or a thread of it: torch's threads do not
            # survive a fork, and a thread would take its time from every visitor's pages.
            command = [sys.executable, "-m", "dashboard.server.training_worker", str(self.place)]
            process = subprocess.Popen(  # noqa: S603 - our own worker, no shell
                [*command, *loaded_plugins()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                # A Ctrl-C for the server is not for the worker. A group of its own, not a session: Linux
                # shares time out among sessions first, and niceness would count within the worker's alone.
                process_group=0 if os.name == "posix" else None,
            )
            # At once: loading torch is work.
            _lower_priority(process.pid, only_idle=not allowed.one_person)
            self._process = process
        threading.Thread(target=self._await, args=(process,), daemon=True).start()

    def stop(self) -> None:
        """End the process, wait until it has saved, and start no more."""
        with self._lock:
            self._stopping = True
            process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(STOP_WITHIN + GRACE + 1)
        except subprocess.TimeoutExpired:
            process.kill()

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a process, then start the next one for jobs that were added meanwhile."""
        code = process.wait()
        if process.stdin is not None:
            process.stdin.close()
        with self._lock:
            self._process, self._code = None, code
            if code != 0:
                self._failed = time.monotonic()
        if code != 0 and not self._stopping:
            time.sleep(PAUSE)
        try:
            self.start_if_needed()
        except (PosencError, OSError):  # the next page that is opened tries again
            log.exception("no process can be started for the jobs that wait")


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
def server_process() -> TrainingProcess:
    """Return the process of this server that trains."""
    return TrainingProcess(jobs.folder())


def stop_all() -> None:
    """End the training once it has saved: a container would kill it with the server."""
    for process in list(_instances):
        process.stop()


def resume() -> None:
    """Start a process for the jobs that an earlier server left; every page run calls this.

    It logs a fault of the folder, which only the page Train shows.
    """
    try:
        process = server_process()
        if time.monotonic() - process.last_resume >= RESUME_EVERY:
            process.last_resume = time.monotonic()  # also where the check fails
            process.start_if_needed()
    except (PosencError, OSError):
        log.exception("the folder of jobs cannot be used")
