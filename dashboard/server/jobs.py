"""The folder of training jobs that visitors start: a job is a few files, which every server can change.

NAME.json holds the runs of a job and who started it, NAME.txt its own text, NAME.progress how far it is,
NAME.tries how often a process began it, NAME.failed why it ended. Each is written whole or not at all.
Deleting NAME.json cancels a job; what it trained so far is a checkpoint, from which the same runs go on, as
they do after the server or the process was killed.
"""

import contextlib
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from posenc.checkpoints.file_store import is_shared, reason, work_folder, write_whole
from posenc.errors import QueueFull, QueueUnwritable, RunError
from posenc.lab.runs import Store
from posenc.lab.specification import Specification
from posenc.text import count_of

FILES = (".json", ".txt", ".progress", ".tries", ".failed")  # the first one decides
# What reading a file raises that another version wrote.
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
MOST_FAILED = 8  # jobs that stay until somebody removes them


@dataclass(frozen=True)
class Progress:
    """Progress of a job: its run, the step of it, and the mean losses of equally many steps each.

    began: the first step of this process. seconds: spent since that step. The evaluation after it is at
    `length` tokens, which is the number `reached` of `lengths`, from 1; 0 while it trains. share: of its
    tokens that are evaluated.
    """

    run: int = 0
    step: int = 0
    began: int = 0
    seconds: float = 0.0
    points: tuple[tuple[int, float], ...] = ()
    length: int = 0
    reached: int = 0
    lengths: int = 0
    share: float = 0.0


@dataclass(frozen=True)
class Job:
    """One start. owner: "" for nobody known. error: why it failed, else "".

    estimate: expected seconds, of which `evaluation_seconds` are for evaluations.
    """

    name: str
    specifications: tuple[Specification, ...]
    estimate: float = 0.0
    evaluation_seconds: float = 0.0
    text_name: str = ""
    owner: str = ""
    store: str = ""
    error: str = ""

    def planned_seconds(self, progress: Progress) -> float:
        """Return what the estimate leaves for the steps and evaluations that are not done."""
        whole = sum(run.all_steps for run in self.specifications)
        done = sum(run.all_steps for run in self.specifications[: progress.run]) + progress.step
        steps = (self.estimate - self.evaluation_seconds) * (1 - done / whole)
        evaluated = (progress.run + progress.share) / len(self.specifications)
        return steps + self.evaluation_seconds * (1 - evaluated)

    def remaining_seconds(self, progress: Progress) -> float:
        """Return the seconds left: what is planned, at the pace of this process so far."""
        planned = self.planned_seconds(progress)
        whole = sum(run.all_steps for run in self.specifications)
        done, of_steps = progress.step - progress.began, self.estimate - self.evaluation_seconds
        if done < 1 or progress.seconds <= 0 or of_steps <= 0:
            return planned
        return planned * (progress.seconds / done) / (of_steps / whole)


def folder() -> Path:
    """Return the folder of jobs of this machine's servers."""
    return work_folder() / "jobs"


def jobs(place: Path) -> list[Job]:
    """Return all jobs of a folder, the oldest first; those of another version are left out."""
    found = (_read(path) for path in sorted(place.glob("*.json")))
    return [job for job in found if job is not None]


def add(
    place: Path,
    runs: Sequence[Specification],
    *,
    waiting: int,
    estimate: float = 0.0,
    evaluation_seconds: float = 0.0,
    text: bytes | None = None,
    text_name: str = "",
    owner: str = "",
) -> str:
    """Add a job behind the others and return its name; equal runs return the job that is there.

    A failed job of equal runs is removed. waiting: how many may wait for the one in training. Raises
    QueueFull, QueueUnwritable where the job cannot be written, as on a full disk, or RunError where no
    other process can reach the store of runs.
    """
    store = Store().url
    if not is_shared(store):
        raise RunError("The store of runs is this process's memory, which no other one can reach.")
    with writing(), FileLock(_existing(place) / "add.lock"):
        known = jobs(place)
        active = [job for job in known if not job.error]
        for job in active:
            if job.specifications == tuple(runs):
                return job.name
        if len(active) > waiting:
            verb = "waits" if waiting == 1 else "wait"
            raise QueueFull(
                f"{count_of(waiting, 'job')} {verb} already; try again when one of them has ended."
            )
        failed = [job for job in known if job.error]
        for job in failed:
            if job.specifications == tuple(runs) or job in failed[:-MOST_FAILED]:
                cancel(place, job.name)
        name = f"{time.time_ns()}-{uuid.uuid4().hex[:8]}"
        record = {
            "runs": [run.record for run in runs], "estimate": estimate,
            "evaluation_seconds": evaluation_seconds, "text_name": text_name, "owner": owner,
            "store": store,
        }  # fmt: skip
        if text is not None:
            write_whole(place / f"{name}.txt", text)
        write_whole(place / f"{name}.json", json.dumps(record).encode())
    return name


def progress(place: Path, name: str) -> Progress:
    """Return how far a job is; the beginning where nothing is known."""
    with contextlib.suppress(OSError, *_UNREADABLE):
        values = json.loads((place / f"{name}.progress").read_bytes())
        points = tuple((step, loss) for step, loss in values.pop("points"))
        return Progress(**values, points=points)
    return Progress()


def text(place: Path, name: str) -> bytes | None:
    """Return the own text of a job, None for the default one."""
    with contextlib.suppress(FileNotFoundError):
        return (place / f"{name}.txt").read_bytes()
    return None


def report(place: Path, name: str, progress: Progress) -> None:
    """Write how far a job is. Raises OSError."""
    write_whole(place / f"{name}.progress", json.dumps(asdict(progress)).encode())


def fail(place: Path, name: str, why: str) -> None:
    """Write why a job failed, unless it was cancelled meanwhile. Raises OSError."""
    if exists(place, name):
        write_whole(place / f"{name}.failed", why.encode("utf-8", "backslashreplace"))


def exists(place: Path, name: str) -> bool:
    """Whether a job is there, neither done nor cancelled."""
    return (place / f"{name}.json").exists()


@contextlib.contextmanager
def taken(place: Path, *, patience: float = 0.0) -> Iterator[bool]:
    """Hold the one place of a process that trains; False where another process has it.

    patience: seconds to wait for it, as a look whether it is free holds it for a moment. Raises
    QueueUnwritable.
    """
    with contextlib.ExitStack() as stack:
        with writing():
            try:
                stack.enter_context(FileLock(_existing(place) / "worker.lock", timeout=patience))
                free = True
            except Timeout:
                free = False
        yield free


def cancel(place: Path, name: str) -> None:
    """Cancel a job, or forget one that failed or is done. Raises QueueUnwritable."""
    with writing():
        for ending in FILES:
            (place / f"{name}{ending}").unlink(missing_ok=True)


def _read(path: Path) -> Job | None:
    """Return a job, None where it was cancelled meanwhile or is of another version."""
    try:
        record = json.loads(path.read_bytes())
        runs = tuple(map(Specification.from_record, record["runs"]))
        error = ""
        with contextlib.suppress(FileNotFoundError):
            error = path.with_suffix(".failed").read_text(encoding="utf-8")
        return Job(
            path.stem, runs, float(record["estimate"]), float(record["evaluation_seconds"]),
            record["text_name"], record["owner"], record["store"], error,
        )  # fmt: skip
    except (OSError, RunError, *_UNREADABLE):
        return None


def _existing(place: Path) -> Path:
    """Return a folder, which is made if it is not there."""
    place.mkdir(parents=True, exist_ok=True)
    return place


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Turn a fault of the disk into QueueUnwritable."""
    try:
        yield
    except OSError as error:
        raise QueueUnwritable(f"The queue cannot be written: {reason(error)}.") from error
