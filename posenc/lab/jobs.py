"""Runs that wait for one background process, in a folder that every session of a server reads.

An entry is one start: some specifications that are trained one after another. What happens to it is
in its files: `.json` what to do, `.progress` how far it is, `.stop` that somebody wants it stopped. A
kill at any moment leaves each whole, and the next worker goes on from the last checkpoint.

A loss curve of few points, however many steps: what a page draws while a training goes on.

Which process does an entry of the queue: it holds a lock, and a file beside it says its number.

The lock ends with its process, however that ends; the file may stay, and then means nothing.

An entry of the queue of trainings: what is to be trained, how far it is, and the files of both.

What kills and stops leave in the folder of work in progress, swept up when a worker starts.

Nothing that a start needs which waits or is being done: checkpoints that nobody went on with for weeks,
or that are more than a server keeps, half-written files, what is left of entries that are gone, and
entries of the queue that another version of this library made.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import socket
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from posenc import limits
from posenc.checkpoints.file_store import lasting, reason, work_folder, write_whole
from posenc.errors import QueueBusy, QueueFull, QueueUnwritable, RunError
from posenc.lab.run_once import CHECKPOINTS
from posenc.lab.specification import Specification

_POINTS = 200  # at the most


class DownsampledLoss:
    """A loss curve of few points: means over steps, of twice as many steps when it grows too long."""

    def __init__(self, before: Sequence[tuple[int, float]] = ()) -> None:
        """Go on from the points of an earlier sitting."""
        self.points = list(before)
        self._each = self.points[-1][0] - self.points[-2][0] if len(self.points) > 1 else 1
        self._open: list[float] = []

    def add(self, step: int, loss: float) -> None:
        """Add the loss of a step."""
        self._open.append(loss)
        if len(self._open) < self._each:
            return
        self.points.append((step, sum(self._open) / len(self._open)))
        self._open = []
        if len(self.points) >= _POINTS:
            pairs = zip(self.points[::2], self.points[1::2], strict=False)
            self.points = [(after[0], (before[1] + after[1]) / 2) for before, after in pairs]
            self._each *= 2


ENDING = ".working"  # of the file with the number
ENDINGS = (".progress", ".progress-new", ".stop", ENDING, ".lock")  # of what is beside an entry


@dataclass(frozen=True)
class Holder:
    """Whoever does the entry `name` in the folder of a queue."""

    folder: Path
    name: str

    def lock(self) -> FileLock:
        """Return the lock of the entry, not yet taken."""
        return FileLock(self.folder / f"{self.name}.lock")

    def is_there(self) -> bool:
        """Whether a living process has the lock; it may where that cannot be told."""
        try:
            return not is_free(self.folder / f"{self.name}.lock")
        except QueueUnwritable:
            return True

    def process(self) -> int | None:
        """Return the number of the process, None for one among other processes than these."""
        try:
            pid, _, numbering = self._file.read_text().partition(" ")
            return int(pid) if numbering in ("", _numbering()) else None  # before, a number alone
        except (OSError, ValueError):
            return None

    def come(self) -> None:
        """Write that this process does it; it has the lock."""
        self._file.write_text(f"{os.getpid()} {_numbering()}")

    def leave(self) -> None:
        """Write that this process does it no more."""
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.name}{ENDING}"


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock at `path`; a look takes it for a moment. Raises QueueUnwritable."""
    lock = FileLock(path)
    try:
        with writing():
            lock.acquire(timeout=0)
    except Timeout:
        return False
    lock.release()
    return True


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Change what is in the folder of a queue. Raises QueueUnwritable where the system refuses."""
    try:
        yield
    except Timeout:  # an OSError, too, though all that it says is that somebody holds a lock
        raise
    except OSError as error:
        raise QueueUnwritable(f"The queue cannot be written: {reason(error)}.") from error


def _numbering() -> str:
    """Return what tells this machine's process numbers from those of others and of containers."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:  # a system that has one numbering
        space = ""
    return f"{socket.gethostname()} {space}".strip()


# What a file that is no entry or no progress can raise while it is read.
_ODD = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)


class JobState(StrEnum):
    """Where an entry is."""

    WAITING = "waiting"
    RUNNING = "running"
    FAILED = "failed"


@dataclass(frozen=True)
class Progress:
    """How far an entry is. points: (step, mean loss of the steps up to it) of the run in progress.

    run: its place among the entry's runs, from 0. began: the first step of this sitting. seconds: spent
    since that step. reading: all steps are made, and the model is being measured.
    """

    run: int = 0
    step: int = 0
    began: int = 0
    seconds: float = 0.0
    points: tuple[tuple[int, float], ...] = ()
    reading: bool = False

    def written(self) -> bytes:
        """Return the file of it; `read` reads it back."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Return what a file says; the beginning where it is none of ours."""
        try:
            values = json.loads(content)
            points = tuple((_count(step), float(loss)) for step, loss in values.pop("points"))
            found = cls(**values, points=points)
            return replace(
                found,
                run=_count(found.run),
                step=_count(found.step),
                began=_count(found.began),
                seconds=float(found.seconds),
                reading=bool(found.reading),
            )
        except _ODD:
            return cls()


@dataclass(frozen=True)
class Job:
    """One start. text: the file name of its text in the queue's folder, None for the default one.

    owner: who started it, "" for somebody unknown, None in a file of before owners were kept.
    """

    name: str
    records: tuple[dict[str, Any], ...]
    store: str | None
    text: str | None = None
    text_name: str = ""
    estimate: float = 0.0  # seconds, of which `reading` go to measuring what was trained
    reading: float = 0.0
    attempts: int = 0
    error: str | None = None
    owner: str | None = None
    state: JobState = field(default=JobState.WAITING, compare=False)

    @property
    def specifications(self) -> tuple[Specification, ...]:
        """What is to be trained, in order."""
        return tuple(Specification.from_record(record) for record in self.records)

    def written(self) -> bytes:
        """Return the file of it, which does not say its state; `read` reads it back."""
        values = {name: value for name, value in asdict(self).items() if name != "state"}
        return json.dumps(values).encode()

    @classmethod
    def read(cls, name: str, content: bytes) -> Self | None:
        """Return the entry of this name that a file holds, None where it is none of ours."""
        try:
            values = json.loads(content)
            entry = cls(**values | {"records": tuple(values["records"]), "name": name})
            entry = replace(
                entry,
                attempts=_count(entry.attempts),
                estimate=float(entry.estimate),
                reading=float(entry.reading),
                error=None if entry.error is None else str(entry.error),
                text_name=str(entry.text_name),
                owner=None if entry.owner is None else str(entry.owner),
            )
            return entry if entry.specifications else None
        except _ODD:
            return None


def _count(value: float) -> int:
    """Return a count as a whole number. Raises ValueError for what can be none."""
    if not 0 <= value <= 10**9:
        raise ValueError("no count")
    return int(value)


MAX_SILENCE = 1_800.0  # seconds until a process that reports nothing is ended
MAX_STOPPING = 30.0  # seconds until one that does not hear a stop is ended
ATTEMPTS = 3  # starts of an entry whose process died
_ENDED_KEPT = 8  # failed entries that are still shown
_SLOWER = 4.0  # times its estimate, that the reading of a model may take
_PATIENCE = 10.0  # seconds until a lock that somebody holds is an error


class Queue:
    """The entries of one machine. running, waiting: how many may be in each state."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        running: int = limits.MAX_RUNNING,
        waiting: int = limits.MAX_WAITING,
    ) -> None:
        self.folder = folder or work_folder() / "queue"
        self._lock = FileLock(self.folder / "queue.lock", timeout=_PATIENCE)
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
        reading: float = 0.0,
        owner: str = "",
        each: int | None = None,
        mine: Collection[str] = (),
    ) -> str:
        """Put a start at the end and return its name; the same start twice is the first one's entry.

        One that is being stopped counts no more: the same start comes again after it. each: how many one
        person may have here, who has what their name owns and the entries in `mine`; as many as there
        is room for if None.

        Raises QueueFull where no more may wait, QueueBusy where another process holds the queue for
        long, QueueUnwritable where the folder cannot be written.
        """
        if not specifications:
            raise RunError("There is nothing to train.")
        if store is not None and not lasting(store):
            raise RunError(
                "The store of runs is this process's memory, which no other one can reach."
            )
        ids = "".join(one.run_id for one in specifications)
        digest = hashlib.sha256(ids.encode()).hexdigest()[:12]
        with writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._alone():
                there = self.entries()
                same = [one for one in there if one.name.endswith(digest)]
                for one in same:
                    if one.state is not JobState.FAILED and not self.stopping(one.name):
                        return one.name
                here = [one for one in there if one.state is not JobState.FAILED]
                if self.running < 1:
                    raise QueueFull("Training is switched off on this server.")
                if len(here) >= self.running + self.waiting:
                    raise QueueFull(
                        f"{self.waiting} {'start waits' if self.waiting == 1 else 'starts wait'} "
                        "already; try again when one of them has ended."
                    )
                theirs = [one for one in here if one.name in mine or (owner and one.owner == owner)]
                if each is not None and len(theirs) >= each:
                    raise QueueFull(
                        f"{each} of your starts {'is' if each == 1 else 'are'} here already, which is as "
                        "many as one visitor may have; try again when one of them has ended."
                    )
                entry = Job(
                    name=f"{time.time_ns():020d}-{digest}",
                    records=tuple(one.record for one in specifications),
                    store=store,
                    text=None if text is None else f"{hashlib.sha256(text).hexdigest()}.txt",
                    text_name=text_name,
                    estimate=estimate,
                    reading=reading,
                    owner=owner,
                )
                try:
                    if text is not None:
                        assert entry.text is not None
                        write_whole(self.folder / entry.text, text)
                    self._write(entry)
                except (OSError, QueueUnwritable):
                    self._forget(entry)  # a text without an entry fills the disk for nothing
                    raise
                for one in same:
                    if one.state is JobState.FAILED:
                        self._forget(one)
        return entry.name

    def entries(self) -> list[Job]:
        """Return all entries, the first to be done first; a file that is none is passed over."""
        found = []
        working = self.working()
        for path in sorted(self.folder.glob("*-*.json")):
            entry = self._read(path)
            if entry is not None:
                state = JobState.RUNNING if entry.name in working else JobState.WAITING
                found.append(replace(entry, state=JobState.FAILED if entry.error else state))
        return found

    def progress(self, name: str) -> Progress:
        """Return how far an entry is; the beginning where nothing is known."""
        try:
            return Progress.read((self.folder / f"{name}.progress").read_bytes())
        except OSError:
            return Progress()

    def tell(self, name: str, progress: Progress) -> None:
        """Write how far an entry is; a reader sees the last or this one. Raises QueueUnwritable."""
        path = self.folder / f"{name}.progress"
        temporary = path.with_suffix(".progress-new")
        with writing():
            temporary.write_bytes(progress.written())  # no fsync: it is written often
            temporary.replace(path)

    def stop(self, name: str) -> None:
        """Ask that an entry be stopped; one that waits or failed is gone at once. Twice is once.

        Checkpoints stay, because another start or a command line may go on from them. Raises QueueBusy
        and QueueUnwritable.
        """
        if not (self.folder / f"{name}.json").exists():
            return
        lock = Holder(self.folder, name).lock()
        try:
            with writing():
                lock.acquire(timeout=0)
        except Timeout:  # a worker has it: told, it ends
            with writing():
                (self.folder / f"{name}.stop").touch()
            return
        try:
            self.remove(name)
        finally:
            lock.release()

    def stopping(self, name: str) -> bool:
        """Whether somebody asked that an entry be stopped."""
        return (self.folder / f"{name}.stop").exists()

    def hung(self, pid: int) -> str | None:
        """Return the entry with which process `pid` hangs, None where it gets on.

        It hangs if it does not hear a stop, or has told nothing for longer than any step takes.
        """
        for entry in self.entries():
            if (
                entry.state is not JobState.RUNNING
                or Holder(self.folder, entry.name).process() != pid
            ):
                continue
            told = min(self._age(f"{entry.name}.progress"), self._age(f"{entry.name}.working"))
            if told > max(MAX_SILENCE, _SLOWER * entry.reading):
                return entry.name
            asked = self._age(f"{entry.name}.stop") if self.stopping(entry.name) else 0.0
            if asked > MAX_STOPPING:
                return entry.name
        return None

    def _age(self, name: str) -> float:
        """Return the seconds since a file was written, infinity where there is none."""
        try:
            return time.time() - (self.folder / name).stat().st_mtime
        except OSError:
            return math.inf

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Change what is in the folder while nobody else does. Raises QueueBusy after a while."""
        try:
            with writing():
                self._lock.acquire()
        except Timeout:
            raise QueueBusy(
                f"Another process has held the queue of trainings for {self._lock.timeout:.3g} s: "
                "nothing was changed. Try again."
            ) from None
        try:
            yield
        finally:
            self._lock.release()

    def remove(self, name: str) -> None:
        """Forget an entry, and its text unless another entry needs it.

        Raises QueueBusy, and QueueUnwritable if the entry stays.
        """
        with self._alone():  # a text is written before the entry that needs it
            with writing():  # the job first: a kill or fault after it leaves what nobody reads
                (self.folder / f"{name}.json").unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                for ending in ENDINGS:
                    (self.folder / f"{name}{ending}").unlink(missing_ok=True)
                # By their bytes, so that the text of an entry of another version stays, too.
                files = (path for path in self.folder.glob("*-*.json") if path.is_file())
                needed = b"".join(path.read_bytes() for path in files)
                for path in self.folder.glob("*.txt"):
                    if path.name.encode() not in needed:
                        path.unlink(missing_ok=True)

    def _forget(self, entry: Job) -> None:
        """Remove an entry; where that cannot be done now, it is done with a later one."""
        with contextlib.suppress(QueueBusy, QueueUnwritable):
            self.remove(entry.name)

    def fail(self, entry: Job, error: str) -> None:
        """Keep an entry as failed, with the reason; the oldest failures are forgotten.

        Raises QueueUnwritable where the reason cannot be kept: then the entry waits.
        """
        self._write(replace(entry, error=error))
        failed = [one for one in self.entries() if one.state is JobState.FAILED]
        for old in failed[:-_ENDED_KEPT]:
            self._forget(old)

    def give_back(self, entry: Job) -> None:
        """Let an entry wait again whose worker had to leave: that was no fault of its own."""
        self._write(replace(entry, attempts=entry.attempts - 1))

    def got_on(self, entry: Job) -> Job:
        """Count attempts anew for an entry of which a run is done: what ended it before was passed."""
        entry = replace(entry, attempts=1)
        self._write(entry)
        return entry

    def free_place(self) -> bool:
        """Whether a worker would find a place: fewer work than may. Raises QueueUnwritable."""
        return any(is_free(self.folder / f"worker-{n}.lock") for n in range(self.running))

    def working(self) -> set[str]:
        """Return the names of the entries that a living worker is doing."""
        return {
            path.stem
            for path in self.folder.glob(f"*{ENDING}")
            if Holder(self.folder, path.stem).is_there()
        }

    @contextlib.contextmanager
    def taken(self) -> Iterator[Job | None]:
        """Take the first entry that waits, for as long as the context lasts; None if there is none.

        A lock that ends with the process tells that its entry is being done. Raises QueueUnwritable
        where nothing can be written: no attempt was made.
        """
        for entry in self.entries():
            if entry.state is not JobState.WAITING:
                continue
            holder = Holder(self.folder, entry.name)
            lock = holder.lock()
            try:
                with writing():
                    lock.acquire(timeout=0.5)  # a look at whether it is held takes it for a moment
            except Timeout:
                continue  # another worker was faster
            try:
                again = self._read(self.folder / f"{entry.name}.json")
                if again is None or again.error:  # done or stopped in between
                    continue
                if again.attempts >= ATTEMPTS:
                    self.fail(again, f"Its process ended {ATTEMPTS} times before it was done.")
                    continue
                again = replace(again, attempts=again.attempts + 1)
                with writing():
                    holder.come()
                self._write(again)  # last: what fails before it is no attempt
                yield again
                return
            finally:
                holder.leave()
                lock.release()
        yield None

    def text(self, entry: Job) -> bytes | None:
        """Return the text of an entry, None for the default one."""
        return None if entry.text is None else (self.folder / entry.text).read_bytes()

    def _write(self, entry: Job) -> None:
        with writing():
            write_whole(self.folder / f"{entry.name}.json", entry.written())

    def _read(self, path: Path) -> Job | None:
        try:
            return Job.read(path.stem, path.read_bytes())
        except OSError:
            return None


DAY = 86_400.0  # seconds
ABANDONED = 30 * DAY  # nobody goes on with it
CHECKPOINTS_KEPT = 64
_ENTRY = re.compile(r"\d{20}-[0-9a-f]{12}")  # as posenc.lab.jobs names one
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}")  # as posenc.checkpoints.file_store writes


def clean_up(queue: Queue, work: Path | None = None) -> None:
    """Remove what was left behind in `work`, default the folder of this machine, and in `queue`."""
    checkpoints = (work or work_folder()) / CHECKPOINTS
    for folder in (checkpoints, queue.folder):
        for path in _files(folder):
            if _TEMPORARY.fullmatch(path.name) and _age(path) > DAY:
                _remove(path)
    entries = queue.entries()
    living = [entry for entry in entries if entry.state is not JobState.FAILED]
    needed = {one.run_id for entry in living for one in entry.specifications}
    found = sorted(
        (
            path
            for path in _files(checkpoints)
            if path.suffix == ".safetensors" and path.stem not in needed
        ),
        key=_age,
    )
    for place, path in enumerate(found):
        if place >= CHECKPOINTS_KEPT or _age(path) > ABANDONED:
            _remove_alone(path)
    for path in _files(checkpoints):
        alone = path.suffix == ".lock" and not path.with_suffix(".safetensors").exists()
        if alone and _age(path) > DAY:
            _remove_alone(path)
    for path in _files(queue.folder):
        of_entry = _ENTRY.fullmatch(path.stem) and path.suffix in ENDINGS
        if not of_entry or path.with_suffix(".json").exists() or _age(path) <= DAY:
            continue
        if is_free(path.with_suffix(".lock")):
            queue.remove(path.stem)
    known = {entry.name for entry in entries}
    for path in queue.folder.glob("*-*.json"):
        if path.stem not in known and _age(path) > ABANDONED:
            queue.remove(path.stem)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []


def _age(path: Path) -> float:
    """Return the seconds since a file was written; none for one that is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # a folder of somebody else's
        path.unlink(missing_ok=True)


def _remove_alone(path: Path) -> None:
    """Remove a checkpoint or its lock, unless a process is at work on that run."""
    lock = FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except (OSError, Timeout):
        return
    try:
        _remove(path)
    finally:
        lock.release()
