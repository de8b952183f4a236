"""The queue of training jobs: one SQLite table that every process of a machine reads and changes.

A job is one start: some specifications that are trained one after another. While a process works on a
job it holds a file lock, its slot; the lock ends with the process, however that ends, and the job is
queued again. A kill at any moment leaves the table as it was before a change or after it.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import socket
import sqlite3
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from posenc import limits
from posenc.checkpoints.file_store import lasting, reason, work_folder
from posenc.errors import PosencError, QueueBusy, QueueFull, QueueUnwritable, RunError
from posenc.lab.run_once import CHECKPOINTS
from posenc.lab.specification import Specification

ATTEMPTS = 3  # starts of a job whose process died
MAX_SILENCE = 1_800.0  # seconds until a process that reports nothing is ended
MAX_STOPPING = 30.0  # seconds until a process that ignores a cancelled job is ended
_SLOWER = 4.0  # times its estimate that the evaluation of a model may take
_FAILURES_KEPT = 8  # failed jobs that stay in the queue
_PATIENCE = 10.0  # seconds until a table that another process holds is an error
_DAY = 86_400.0  # seconds
_ABANDONED = 30 * _DAY  # age of a checkpoint that nobody continues
_CHECKPOINTS_KEPT = 64
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}")  # a file that posenc.checkpoints.file_store writes
_TABLE = """CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL, digest TEXT NOT NULL,
    records TEXT NOT NULL, store TEXT, text_name TEXT NOT NULL, estimate REAL NOT NULL,
    reading REAL NOT NULL, owner TEXT NOT NULL, added REAL NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT, slot INTEGER, process TEXT, reported REAL, cancelled REAL, progress TEXT, text BLOB
)"""
_JOBS = """SELECT name, records, store, text_name, estimate, reading, owner, attempts, error,
    slot, cancelled FROM jobs ORDER BY id"""
_REASONS = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_READONLY: errno.EROFS}


# What reading a row raises that another version, or another program, wrote.
_FOREIGN = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)


class JobState(StrEnum):
    """Where a job is. One that is done or cancelled is no longer in the queue."""

    QUEUED = "queued"
    RUNNING = "running"
    FAILED = "failed"


@dataclass(frozen=True)
class Progress:
    """How far a job is. points: (step, mean loss of the steps up to it) of the current run.

    run: index of the run among the job's runs. began: the first step of this process. seconds: spent
    since that step. reading: all steps are done, and the model is being evaluated.
    """

    run: int = 0
    step: int = 0
    began: int = 0
    seconds: float = 0.0
    points: tuple[tuple[int, float], ...] = ()
    reading: bool = False


@dataclass(frozen=True)
class Job:
    """One start. estimate: seconds, of which `reading` are for evaluations. owner: "" if unknown."""

    name: str
    records: tuple[dict[str, Any], ...]
    store: str | None
    text_name: str
    estimate: float
    reading: float
    owner: str
    attempts: int
    error: str | None
    cancelled: bool
    state: JobState

    @property
    def specifications(self) -> tuple[Specification, ...]:
        """What is to be trained, in order."""
        return tuple(Specification.from_record(record) for record in self.records)


class Queue:
    """The jobs of one machine. running, waiting: how many may be in each state."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        running: int = limits.MAX_RUNNING,
        waiting: int = limits.MAX_WAITING,
    ) -> None:
        self.folder = folder or work_folder() / "queue"
        self.running = running
        self.waiting = waiting

    @property
    def file(self) -> Path:
        """The path of the table."""
        return self.folder / "jobs.sqlite"

    def add(
        self,
        specifications: Sequence[Specification],
        *,
        store: str | None = None,
        text: bytes | None = None,
        text_name: str = "",
        estimate: float = 0.0,
        reading: float = 0.0,
        owner: str = "",
        each: int | None = None,
        mine: Collection[str] = (),
    ) -> str:
        """Add a job at the end and return its name; equal specifications return the job that is there.

        A failed or cancelled job with equal specifications does not count. each: largest number of jobs
        of one person, who has those of `owner` and those named in `mine`; None for no limit.

        Raises QueueFull where no more jobs may wait, QueueBusy where another process holds the table
        for long, QueueUnwritable where it cannot be written.
        """
        if not specifications:
            raise RunError("There is nothing to train.")
        if store is not None and not lasting(store):
            raise RunError(
                "The store of runs is this process's memory, which no other one can reach."
            )
        ids = "".join(specification.run_id for specification in specifications)
        digest = hashlib.sha256(ids.encode()).hexdigest()
        with self._changes() as db:
            same = db.execute(
                "SELECT name FROM jobs WHERE digest = ? AND error IS NULL AND cancelled IS NULL",
                (digest,),
            ).fetchone()
            if same:
                return str(same["name"])
            if self.running < 1:
                raise QueueFull("The queue takes no jobs: its limit of running jobs is 0.")
            active = [job for job in self._jobs(db.execute(_JOBS)) if not job.error]
            if len(active) >= self.running + self.waiting:
                raise QueueFull(
                    f"{self.waiting} {'start waits' if self.waiting == 1 else 'starts wait'} "
                    "already; try again when one of them has ended."
                )
            own = [job for job in active if job.name in mine or (owner and job.owner == owner)]
            if each is not None and len(own) >= each:
                raise QueueFull(
                    f"{each} of your starts {'is' if each == 1 else 'are'} here already, which is as "
                    "many as one person may have; try again when one of them has ended."
                )
            db.execute("DELETE FROM jobs WHERE digest = ? AND error IS NOT NULL", (digest,))
            name, records = uuid.uuid4().hex, json.dumps([one.record for one in specifications])
            values = [name, digest, records, store, text_name, estimate, reading, owner, text]
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
            if row["progress"] is not None:
                with contextlib.suppress(*_FOREIGN):
                    values = json.loads(row["progress"])
                    points = tuple((step, loss) for step, loss in values.pop("points"))
                    return Progress(**values, points=points)
        return Progress()

    def text(self, job: Job) -> bytes | None:
        """Return the text of a job, None for the default one."""
        rows = self._rows("SELECT text FROM jobs WHERE name = ?", job.name)
        return rows[0]["text"] if rows else None

    def report(self, name: str, progress: Progress) -> None:
        """Store how far a job is. Raises QueueBusy and QueueUnwritable."""
        values = json.dumps(asdict(progress)), time.time(), name
        with self._changes() as db:
            db.execute("UPDATE jobs SET progress = ?, reported = ? WHERE name = ?", values)

    def cancel(self, name: str) -> None:
        """Remove a job, or ask its process to end it. Twice is once; its checkpoints stay.

        Raises QueueBusy and QueueUnwritable.
        """
        with self._changes() as db:
            for row in db.execute(
                "SELECT slot, error FROM jobs WHERE name = ?", (name,)
            ).fetchall():
                if row["error"] or not self._is_working(row["slot"]):
                    db.execute("DELETE FROM jobs WHERE name = ?", (name,))
                asked = "UPDATE jobs SET cancelled = coalesce(cancelled, ?) WHERE name = ?"
                db.execute(asked, (time.time(), name))

    def is_cancelled(self, name: str) -> bool:
        """Whether a job's process has been asked to end it."""
        rows = self._rows("SELECT cancelled FROM jobs WHERE name = ?", name)
        return bool(rows) and rows[0]["cancelled"] is not None

    def hung_job(self, pid: int) -> str | None:
        """Return the job with which process `pid` hangs, None if it does not.

        A process hangs if it does not end a cancelled job, or reports nothing for longer than a step
        or an evaluation takes.
        """
        running = (
            "SELECT name, slot, reading, reported, cancelled FROM jobs"
            " WHERE process = ? AND error IS NULL"
        )
        for row in self._rows(running, _process(pid)):
            longest = max(MAX_SILENCE, _SLOWER * row["reading"])
            silent = time.time() - row["reported"] > longest
            ignores = row["cancelled"] and time.time() - row["cancelled"] > MAX_STOPPING
            if (silent or ignores) and self._is_working(row["slot"]):
                return str(row["name"])
        return None

    def remove(self, name: str) -> None:
        """Remove a job that is done or cancelled. Raises QueueBusy and QueueUnwritable."""
        with self._changes() as db:
            db.execute("DELETE FROM jobs WHERE name = ?", (name,))

    def fail(self, job: Job, error: str) -> None:
        """Mark a job as failed for a reason, and remove all but the latest failed jobs.

        Raises QueueBusy and QueueUnwritable.
        """
        with self._changes() as db:
            _fail(db, job.name, error)

    def give_back(self, job: Job) -> None:
        """Queue a job again whose process had to end: that was no attempt."""
        self._count(job, job.attempts - 1)

    def reset_attempts(self, job: Job) -> Job:
        """Count attempts anew for a job of which a run is done, and return it."""
        return self._count(job, 1)

    def _count(self, job: Job, attempts: int) -> Job:
        with self._changes() as db:
            db.execute("UPDATE jobs SET attempts = ? WHERE name = ?", (attempts, job.name))
        return replace(job, attempts=attempts)

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
                    job = replace(job, attempts=job.attempts + 1, state=JobState.RUNNING)
                    db.execute(
                        "UPDATE jobs SET slot = ?, process = ?, reported = ?, attempts = ?"
                        " WHERE name = ?",
                        (slot, _process(os.getpid()), time.time(), job.attempts, job.name),
                    )
                    return job
                _fail(db, job.name, f"Its process ended {ATTEMPTS} times before it was done.")
        return None

    def _jobs(self, rows: Iterable[sqlite3.Row]) -> list[Job]:
        """Return the jobs of rows, without those that another version wrote."""
        jobs = []
        for row in rows:
            values = dict(row)
            running = self._is_working(values.pop("slot"))
            state = JobState.RUNNING if running else JobState.QUEUED
            values["state"] = JobState.FAILED if row["error"] else state
            with contextlib.suppress(PosencError, *_FOREIGN):
                values["records"] = tuple(json.loads(row["records"]))
                values["attempts"] = int(row["attempts"])
                job = Job(**values | {"cancelled": row["cancelled"] is not None})
                if job.specifications:
                    jobs.append(job)
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
        """Whether a process holds a slot; it may where that cannot be found out."""
        try:
            return slot is not None and not self._is_free(slot)
        except QueueUnwritable:
            return True

    def _rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Return what a query finds; nothing where there is no table yet."""
        if not self.file.exists():
            return []
        with self._connection() as db:
            try:
                return db.execute(query, values).fetchall()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                    raise
                return []  # a kill left the file without its table

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
            with contextlib.closing(db):
                yield db

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        """Raise QueueBusy or QueueUnwritable where SQLite or the system refuses."""
        try:
            yield
        except Timeout:  # an OSError that says that another process holds a lock
            raise
        except OSError as error:
            raise QueueUnwritable(f"The queue cannot be written: {reason(error)}.") from error
        except sqlite3.DatabaseError as error:
            code = error.sqlite_errorcode & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise QueueBusy(
                    f"Another process has held the queue of trainings for {_PATIENCE:.3g} s: "
                    "nothing was changed. Try again."
                ) from None
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise QueueUnwritable(self._set_aside()) from error
            told = os.strerror(_REASONS[code]) if code in _REASONS else str(error)
            raise QueueUnwritable(f"The queue cannot be written: {told}.") from error

    def _set_aside(self) -> str:
        """Rename a damaged table, so that the next change makes a new one, and return a sentence."""
        name = f"{self.file.name}.damaged-{time.time_ns()}"
        try:
            with FileLock(self.folder / "damaged.lock"):
                with contextlib.suppress(sqlite3.DatabaseError):
                    db = sqlite3.connect(self.file)
                    with contextlib.closing(db):
                        if db.execute("PRAGMA quick_check").fetchone() == ("ok",):
                            return "The queue was damaged and has been replaced. Try again."
                self.file.replace(self.folder / name)
        except OSError as error:
            return f"The queue is damaged and cannot be replaced: {reason(error)}."
        return f"The queue was damaged. Its file is now called {name}, and a new queue begins."


def _fail(db: sqlite3.Connection, name: str, error: str) -> None:
    db.execute("UPDATE jobs SET error = ? WHERE name = ?", (error, name))
    db.execute(
        "DELETE FROM jobs WHERE id IN"
        " (SELECT id FROM jobs WHERE error IS NOT NULL ORDER BY id DESC LIMIT -1 OFFSET ?)",
        (_FAILURES_KEPT,),
    )


def _process(pid: int) -> str:
    """Return a process's number with its machine and, in containers, its own numbering."""
    try:
        numbering = os.readlink("/proc/self/ns/pid")
    except OSError:  # a system that has one numbering
        numbering = ""
    return f"{pid} {socket.gethostname()} {numbering}"


def clean_up(queue: Queue, work: Path | None = None) -> None:
    """Remove what kills left in `work`, default this machine's folder, and abandoned checkpoints.

    Also jobs that another version added long ago. Checkpoints that a queued job needs stay.
    """
    checkpoints = (work or work_folder()) / CHECKPOINTS
    jobs = queue.jobs()
    needed = {one.run_id for job in jobs if not job.error for one in job.specifications}
    files = [path for path in checkpoints.glob("*") if path.is_file()]
    for path in checkpoints.glob(".*"):
        if _TEMPORARY.fullmatch(path.name) and _age(path) > _DAY:
            _remove(path)
    found = [path for path in files if path.suffix == ".safetensors" and path.stem not in needed]
    for place, path in enumerate(sorted(found, key=_age)):
        if place >= _CHECKPOINTS_KEPT or _age(path) > _ABANDONED:
            _remove_unused(path)
    for path in files:
        alone = path.suffix == ".lock" and not path.with_suffix(".safetensors").exists()
        if alone and _age(path) > _DAY:
            _remove_unused(path)
    known = {job.name for job in jobs}
    for row in queue._rows("SELECT name FROM jobs WHERE added < ?", time.time() - _ABANDONED):
        if row["name"] not in known:
            queue.remove(row["name"])


def _age(path: Path) -> float:
    """Return the seconds since a file was written; 0 for one that is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # in a folder of another user
        path.unlink(missing_ok=True)


def _remove_unused(path: Path) -> None:
    """Remove a checkpoint or its lock, unless a process is at work on that run."""
    with contextlib.suppress(OSError), FileLock(path.with_suffix(".lock"), timeout=0):
        _remove(path)
