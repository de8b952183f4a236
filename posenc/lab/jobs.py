"""The queue of training jobs: one SQLite table that all processes of a machine read and change.

A job trains some specifications in order. The process that works on a job holds a file lock, its slot.
The lock ends with the process, however that ends, and the job is queued again. A kill at any moment leaves
the table as it was before a change or after it.
"""

import contextlib
import errno
import functools
import json
import os
import re
import socket
import sqlite3
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from filelock import FileLock, Timeout

from posenc.checkpoints.file_store import is_shared, reason, work_folder
from posenc.errors import PosencError, QueueBusy, QueueFull, QueueUnwritable, RunError, quoted
from posenc.lab.run_once import CHECKPOINTS
from posenc.lab.specification import Specification
from posenc.text import count_of

ATTEMPTS = 3  # of a job whose process died
MAX_SILENCE = 1_800.0  # seconds until a process that reports nothing is ended
MAX_STOPPING = 30.0  # seconds until a process that ignores a cancelled job is ended
_SLOWER = 4.0  # times its estimate that the evaluation of a model may take
_MAX_FAILED = 8  # failed jobs that stay in the queue
_MAX_CHECKPOINTS = 64  # that no job needs
_MAX_SECONDS = 1e9  # of a job: thirty years
_PATIENCE = 10.0  # seconds until a table that another process holds is an error
_ABANDONED = 30 * 86_400.0  # seconds until a checkpoint or a job of another version is removed
_CHECKPOINT_FILE = re.compile(r"\.?(\w+)\.(lock|safetensors(\.[0-9a-f]{32})?)")
_TABLE = """CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL, digest TEXT NOT NULL,
    records TEXT NOT NULL, store TEXT, text_name TEXT NOT NULL, estimate REAL NOT NULL,
    reading REAL NOT NULL, owner TEXT NOT NULL, added REAL NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT, slot INTEGER, process TEXT, reported REAL, cancelled REAL, progress TEXT, text BLOB
)"""
# Databases of earlier versions call the column `reading`.
_JOBS = """SELECT name, records, store, text_name, estimate, reading AS evaluation_seconds,
    owner, attempts, error, slot, cancelled FROM jobs ORDER BY id"""
_HUNG = """SELECT name, slot FROM jobs WHERE process = ? AND error IS NULL
    AND (reported < min(?, ? - ? * reading) OR cancelled < ?)"""
_REASONS = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_READONLY: errno.EROFS}
# What reading a row raises that another version wrote.
_UNREADABLE = (PosencError, ValueError, TypeError, KeyError, AttributeError, RecursionError)


class JobState(StrEnum):
    """Where a job is. One that is done or cancelled is no longer in the queue."""

    QUEUED = "queued"
    RUNNING = "running"
    FAILED = "failed"


@dataclass(frozen=True)
class Progress:
    """How far a job is. points: (step, mean loss of the steps up to it) of the current run.

    run: index of the run among the job's runs. began: the first step of this process. seconds: spent
    since that step. evaluating: all steps are done, and the model is being evaluated.
    """

    run: int = 0
    step: int = 0
    began: int = 0
    seconds: float = 0.0
    points: tuple[tuple[int, float], ...] = ()
    evaluating: bool = False


@dataclass(frozen=True)
class Job:
    """One or more runs that a worker trains in order.

    estimate: expected seconds, of which `evaluation_seconds` are for evaluations. owner: "" if unknown.
    """

    name: str
    specifications: tuple[Specification, ...]
    store: str | None
    text_name: str
    estimate: float
    evaluation_seconds: float
    owner: str
    attempts: int
    error: str | None
    cancelled: bool
    state: JobState

    def planned_seconds(self, progress: Progress) -> float:
        """Return what the estimate leaves for the steps and evaluations that are not done."""
        whole = sum(run.steps for run in self.specifications)
        done = sum(run.steps for run in self.specifications[: progress.run]) + progress.step
        steps = (self.estimate - self.evaluation_seconds) * (1 - done / whole)
        return steps + self.evaluation_seconds * (1 - progress.run / len(self.specifications))

    def remaining_seconds(self, progress: Progress) -> float:
        """Return the seconds left: what is planned, at the pace of this process so far."""
        planned = self.planned_seconds(progress)
        whole = sum(run.steps for run in self.specifications)
        done, of_steps = progress.step - progress.began, self.estimate - self.evaluation_seconds
        if done < 1 or progress.seconds <= 0 or of_steps <= 0:
            return planned
        return planned * (progress.seconds / done) / (of_steps / whole)


class Queue:
    """The jobs of one machine. running, waiting: how many may be in each state."""

    def __init__(self, folder: Path | None = None, *, running: int = 1, waiting: int = 8) -> None:
        self.folder = folder or work_folder() / "queue"
        if "\0" in str(self.folder):
            raise QueueUnwritable("The folder of the queue has a zero byte in its name.")
        self.file = self.folder / "jobs.sqlite"
        self.running = running
        self.waiting = waiting

    def add(
        self,
        specifications: Sequence[Specification],
        *,
        store: str | None = None,
        text: bytes | None = None,
        text_name: str = "",
        estimate: float = 0.0,
        evaluation_seconds: float = 0.0,
        owner: str = "",
    ) -> str:
        """Add a job at the end and return its name; equal specifications return the job that is there.

        A failed or cancelled job with equal specifications does not count. owner: who started it.

        Raises RunError for an invalid job, QueueFull where no more jobs may wait, QueueBusy where another
        process holds the table for long, QueueUnwritable where it cannot be written.
        """
        if not specifications:
            raise RunError("There is nothing to train.")
        if store is not None and not is_shared(store):
            raise RunError(
                "The store of runs is this process's memory, which no other one can reach."
            )
        if not all(
            isinstance(x, int | float) and 0 <= x <= _MAX_SECONDS
            for x in (estimate, evaluation_seconds)
        ):
            raise RunError(
                f"A job's seconds must be numbers from 0 to {_MAX_SECONDS:,.0f}, got "
                f"{quoted(estimate)} and {quoted(evaluation_seconds)}."
            )
        digest = "".join(specification.run_id for specification in specifications)
        with self._changes() as db:
            same = db.execute(
                "SELECT name FROM jobs WHERE digest = ? AND error IS NULL AND cancelled IS NULL",
                (digest,),
            ).fetchone()
            if same:
                return str(same["name"])
            active = [job for job in self._jobs(db.execute(_JOBS).fetchall()) if not job.error]
            if len(active) >= self.running + self.waiting:
                raise QueueFull(
                    f"{count_of(self.waiting, 'job')} {'waits' if self.waiting == 1 else 'wait'} already; "
                    "try again when one of them has ended."
                )
            db.execute("DELETE FROM jobs WHERE digest = ? AND error IS NOT NULL", (digest,))
            name = uuid.uuid4().hex
            records = json.dumps([specification.record for specification in specifications])
            times = estimate, evaluation_seconds
            values = [name, digest, records, store, text_name, *times, owner, text]
            db.execute(
                "INSERT INTO jobs (name, digest, records, store, text_name, estimate, reading, owner,"
                " text, added) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [*values, time.time()],
            )
        return name

    def jobs(self) -> list[Job]:
        """Return all jobs, the first to be run first; those of another version are left out."""
        return self._jobs(self._rows(_JOBS))

    def progress(self, name: str) -> Progress:
        """Return how far a job is; the beginning where nothing is known."""
        for row in self._rows("SELECT progress FROM jobs WHERE name = ?", name):
            with contextlib.suppress(*_UNREADABLE):
                values = json.loads(row["progress"])
                points = tuple((step, loss) for step, loss in values.pop("points"))
                return Progress(**values, points=points)
        return Progress()

    def text(self, name: str) -> bytes | None:
        """Return the text of a job, None for the default one."""
        rows = self._rows("SELECT text FROM jobs WHERE name = ?", name)
        return rows[0]["text"] if rows else None

    def is_cancelled(self, name: str) -> bool:
        """Whether a job is cancelled."""
        return bool(self._rows("SELECT 1 FROM jobs WHERE name = ? AND cancelled NOT NULL", name))

    def hung_job(self, pid: int) -> str | None:
        """Return the name of the job with which process `pid` hangs, None if it does not hang.

        A process hangs if it does not end a cancelled job, or reports nothing for longer than a step
        or an evaluation takes.
        """
        now = time.monotonic()
        values = _process(pid), now - MAX_SILENCE, now, _SLOWER, now - MAX_STOPPING
        hung = (row["name"] for row in self._rows(_HUNG, *values) if self._is_working(row["slot"]))
        return next(hung, None)

    def report(self, name: str, progress: Progress) -> None:
        """Store how far a job is. Like all changes, it raises QueueBusy and QueueUnwritable."""
        values = json.dumps(asdict(progress)), time.monotonic(), name
        self._change("UPDATE jobs SET progress = ?, reported = ? WHERE name = ?", *values)

    def cancel(self, name: str) -> None:
        """Remove a job, or ask its process to end it; its checkpoints stay."""
        with self._changes() as db:
            row = db.execute("SELECT slot, error FROM jobs WHERE name = ?", (name,)).fetchone()
            if row and (row["error"] or not self._is_working(row["slot"])):
                db.execute("DELETE FROM jobs WHERE name = ?", (name,))
            asked = "UPDATE jobs SET cancelled = coalesce(cancelled, ?) WHERE name = ?"
            db.execute(asked, (time.monotonic(), name))

    def remove(self, name: str) -> None:
        """Remove a job that is done or cancelled."""
        self._change("DELETE FROM jobs WHERE name = ?", name)

    def fail(self, name: str, error: str) -> None:
        """Mark a job as failed, or remove it if it is cancelled; keep the latest failed jobs only."""
        with self._changes() as db:
            _fail(db, name, error)

    def requeue(self, name: str) -> None:
        """Queue a job again whose process was interrupted; the attempt does not count."""
        self._change("UPDATE jobs SET attempts = attempts - 1 WHERE name = ?", name)

    def reset_attempts(self, name: str) -> None:
        """Count attempts anew for a job that has completed a run."""
        self._change("UPDATE jobs SET attempts = 1 WHERE name = ?", name)

    def has_free_slot(self) -> bool:
        """Whether another process may work on a job. Raises QueueUnwritable."""
        return any(self._is_free(slot) for slot in range(self.running))

    @contextlib.contextmanager
    def take(self) -> Iterator[Job | None]:
        """Take the first queued job for as long as the context lasts; None if there is none.

        None also where all slots are taken. Raises QueueBusy, and QueueUnwritable where the table
        cannot be written: that was no attempt.
        """
        with contextlib.ExitStack() as stack:
            for slot in range(self.running):
                with contextlib.suppress(Timeout), self._refusals():
                    self.folder.mkdir(parents=True, exist_ok=True)
                    # A look at whether a slot is free holds it for a moment.
                    stack.enter_context(FileLock(self._lock(slot), timeout=0.5))
                    break
            else:
                yield None
                return
            yield self._start(slot)

    def _start(self, slot: int) -> Job | None:
        """Mark the first queued job as running in a slot that this process holds."""
        with self._changes() as db:
            # Whatever ran in this slot before is queued: its process is gone.
            db.execute("UPDATE jobs SET slot = NULL WHERE slot = ?", (slot,))
            for job in self._jobs(db.execute(_JOBS).fetchall()):
                if job.state is not JobState.QUEUED:
                    continue
                if job.attempts < ATTEMPTS:
                    db.execute(
                        "UPDATE jobs SET slot = ?, process = ?, reported = ?, attempts = attempts + 1"
                        " WHERE name = ?",
                        (slot, _process(os.getpid()), time.monotonic(), job.name),
                    )
                    return job
                _fail(db, job.name, f"Its process ended {ATTEMPTS} times before it was done.")
        return None

    def _jobs(self, rows: list[sqlite3.Row]) -> list[Job]:
        """Return the jobs of rows, without those that another version wrote."""
        jobs = []
        for row in rows:
            values = dict(row)
            running = self._is_working(values.pop("slot"))
            state = JobState.RUNNING if running else JobState.QUEUED
            values["state"] = JobState.FAILED if row["error"] else state
            values["cancelled"] = row["cancelled"] is not None
            with contextlib.suppress(*_UNREADABLE):
                values["attempts"] = int(row["attempts"])
                records = json.loads(values.pop("records"))
                jobs.append(
                    Job(**values, specifications=tuple(map(Specification.from_record, records)))
                )
        return jobs

    def _lock(self, slot: int) -> Path:
        return self.folder / f"worker-{slot}.lock"

    def _is_free(self, slot: int) -> bool:
        """Whether no process holds a slot; this holds it for a moment. Raises QueueUnwritable."""
        try:
            with self._refusals(), FileLock(self._lock(slot), timeout=0):
                return True
        except Timeout:
            return False

    def _is_working(self, slot: int | None) -> bool:
        """Whether a process holds a slot, also where that cannot be determined."""
        try:
            return slot is not None and not self._is_free(slot)
        except QueueUnwritable:
            return True

    def _rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Return the result of a query; nothing where there is no table yet."""
        with self._refusals():
            if not self.file.exists():
                return []
        with self._connection() as db:
            if db.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
                return []  # a kill left the file without its table
            return db.execute(query, values).fetchall()

    def _change(self, statement: str, *values: object) -> None:
        with self._changes() as db:
            db.execute(statement, values)

    @contextlib.contextmanager
    def _changes(self) -> Iterator[sqlite3.Connection]:
        """Change the table in one transaction, which is undone where an error leaves the context."""
        with self._refusals():
            self.folder.mkdir(parents=True, exist_ok=True)
        with self._connection() as db:
            db.execute("PRAGMA auto_vacuum = FULL")  # texts of megabytes leave no space behind
            db.execute("BEGIN IMMEDIATE")
            db.execute(_TABLE)
            yield db
            db.execute("COMMIT")

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        # With the default journal, not a write-ahead log, reading writes nothing: the table can be read
        # on a read-only disk. A connection for each use, because it may not cross threads or forks.
        with self._refusals():
            db = sqlite3.connect(self.file, timeout=_PATIENCE, isolation_level=None)
            db.row_factory = sqlite3.Row
            db.text_factory = functools.partial(str, encoding="utf-8", errors="replace")
            with contextlib.closing(db):
                yield db

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        """Raise QueueBusy or QueueUnwritable where SQLite or the system refuses."""
        try:
            yield
        except Timeout:  # an OSError that says that another process holds a lock
            raise
        except UnicodeEncodeError as error:
            raise RunError("The names of a job must be valid Unicode.") from error
        except OSError as error:
            raise QueueUnwritable(f"The queue cannot be written: {reason(error)}.") from error
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # Python's own errors have none
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise QueueBusy(
                    f"Another process has held the queue of jobs for {_PATIENCE:.3g} s: "
                    "nothing was changed. Try again."
                ) from None
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise QueueUnwritable(
                    f"The queue is damaged: remove {self.file.name} to begin a new one."
                ) from error
            why = os.strerror(_REASONS[code]) if code in _REASONS else str(error)
            raise QueueUnwritable(f"The queue cannot be written: {why}.") from error


def _fail(db: sqlite3.Connection, name: str, error: str) -> None:
    db.execute("DELETE FROM jobs WHERE name = ? AND cancelled NOT NULL", (name,))
    db.execute("UPDATE jobs SET error = ? WHERE name = ?", (error, name))
    db.execute(
        "DELETE FROM jobs WHERE id IN"
        " (SELECT id FROM jobs WHERE error NOT NULL ORDER BY id DESC LIMIT -1 OFFSET ?)",
        (_MAX_FAILED,),
    )


def _process(pid: int) -> str:
    return f"{pid} {socket.gethostname()}"


def _modified(path: Path) -> float:
    """Return the time of a file's last change, the current time if the file is gone."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return time.time()


def clean_up(queue: Queue) -> None:
    """Remove abandoned checkpoints, leftovers of killed processes and old jobs of other versions.

    Checkpoints that a queued job needs stay.
    """
    folder = work_folder() / CHECKPOINTS
    jobs, long_ago = queue.jobs(), time.time() - _ABANDONED
    needed = {run.run_id for job in jobs if not job.error for run in job.specifications}
    checkpoints = 0
    for path in sorted(folder.glob("*"), key=_modified, reverse=True):
        match = _CHECKPOINT_FILE.fullmatch(path.name)
        if match is None or match[1] in needed:
            continue
        checkpoints += path.suffix == ".safetensors"
        if checkpoints > _MAX_CHECKPOINTS or _modified(path) < long_ago:
            # A process that is at work on the run holds the lock.
            with contextlib.suppress(OSError), FileLock(folder / f"{match[1]}.lock", timeout=0):
                path.unlink()
    known = {job.name for job in jobs}
    for row in queue._rows("SELECT name FROM jobs WHERE added < ?", long_ago):
        if row["name"] not in known:
            queue.remove(row["name"])
