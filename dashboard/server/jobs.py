"""Training that visitors start: a job is a file in a folder, and one process takes one after the other.

NAME.json holds the runs of a job and who started it, NAME.txt its own text, NAME.progress how far it is,
NAME.tries how often a process began it, NAME.failed why it ended. Each is written whole or not at all. The
oldest job that has not failed is next, and a lock lets one process of a machine work on a folder. Deleting
NAME.json cancels a job; what it trained so far is a checkpoint, from which the same runs go on, as they do
after the server or the process was killed.

`python -m dashboard.server.jobs FOLDER` is that process. It ends with the server, which closes its input.
"""

import _thread
import contextlib
import json
import logging
import math
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from dashboard.server import output
from posenc.checkpoints.file_store import reason, work_folder, write_whole
from posenc.errors import PosencError, QueueFull, QueueUnwritable, RunError
from posenc.lab.run_once import run_once
from posenc.lab.runs import Store
from posenc.lab.specification import Specification
from posenc.lab.tasks import Language, from_text, standard_library
from posenc.text import count_of

log = logging.getLogger("dashboard.jobs")

FILES = (".json", ".txt", ".progress", ".tries", ".failed")  # the first one decides
NICE = 10
REPORT_EVERY = 0.5  # seconds
POINTS = 200  # of a loss that is shown
MOST_TRIES = 3  # of a job whose process dies each time
STOP_WITHIN = 2.0  # seconds that a run has to stop by itself
GRACE = 5.0  # seconds to save in, once the server has ended
LEFTOVER = 3_600.0  # seconds
UNWRITABLE = 74  # exit code: the folder cannot be written, its jobs stay

_ended = threading.Event()  # the server has ended


@dataclass(frozen=True)
class Job:
    """One start. estimate: seconds. owner: "" for nobody known. error: why it failed, else ""."""

    name: str
    specifications: tuple[Specification, ...]
    estimate: float = 0.0
    text_name: str = ""
    owner: str = ""
    store: str = ""
    error: str = ""


@dataclass(frozen=True)
class Progress:
    """How far a job is: its run, the step of it, and the mean losses of equally many steps each."""

    run: int = 0
    step: int = 0
    points: tuple[tuple[int, float], ...] = field(default=())


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
    text: bytes | None = None,
    text_name: str = "",
    owner: str = "",
) -> str:
    """Add a job behind the others and return its name; equal runs return the job that is there.

    waiting: how many may wait for the one in training. Raises QueueFull, or QueueUnwritable where the job
    cannot be written, as on a full disk.
    """
    with _writing(), FileLock(_made(place) / "add.lock"):
        active = [job for job in jobs(place) if not job.error]
        for job in active:
            if job.specifications == tuple(runs):
                return job.name
        if len(active) > waiting:
            verb = "waits" if waiting == 1 else "wait"
            raise QueueFull(
                f"{count_of(waiting, 'job')} {verb} already; try again when one of them has ended."
            )
        name = f"{time.time_ns()}-{uuid.uuid4().hex[:8]}"
        record = {
            "runs": [run.record for run in runs], "estimate": estimate, "text_name": text_name,
            "owner": owner, "store": Store().url,
        }  # fmt: skip
        if text is not None:
            write_whole(place / f"{name}.txt", text)
        write_whole(place / f"{name}.json", json.dumps(record).encode())
    return name


def progress(place: Path, name: str) -> Progress:
    """Return how far a job is; the beginning where nothing is known."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        values = json.loads((place / f"{name}.progress").read_bytes())
        points = tuple((step, loss) for step, loss in values["points"])
        return Progress(values["run"], values["step"], points)
    return Progress()


def cancel(place: Path, name: str) -> None:
    """Cancel a job, or forget one that failed or is done. Raises QueueUnwritable."""
    with _writing():
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
            path.stem, runs, float(record["estimate"]), record["text_name"], record["owner"],
            record["store"], error,
        )  # fmt: skip
    except (OSError, ValueError, TypeError, KeyError, RunError):
        return None


def _made(place: Path) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    return place


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Turn a fault of the disk into QueueUnwritable."""
    try:
        yield
    except OSError as error:
        raise QueueUnwritable(f"The queue cannot be written: {reason(error)}.") from error


# The process ------------------------------------------------------------------------------------


def work(place: Path) -> None:
    """Run the jobs of a folder in turn, until none is left, the server ends or another process has them.

    Raises QueueUnwritable where what became of a job cannot be written; then the job stays as it is.
    """
    with (
        _writing(),
        contextlib.suppress(Timeout),
        FileLock(_made(place) / "worker.lock", timeout=0),
    ):
        _remove_leftovers(place)
        while not _ended.is_set():
            waiting = [job for job in jobs(place) if not job.error]
            if not waiting:
                return
            _work_on(place, waiting[0])


def _remove_leftovers(place: Path) -> None:
    """Remove what a killed process left: of a job that is gone, or written in part; younger files stay."""
    for path in place.iterdir():
        name, in_part = path.name.removeprefix(".").partition(".")[0], path.name.startswith(".")
        left = path.suffix != ".lock" and (in_part or not (place / f"{name}.json").exists())
        if left and time.time() - path.stat().st_mtime > LEFTOVER:
            path.unlink()


def _work_on(place: Path, job: Job) -> None:
    """Run a job and remove it, or write why it failed; one that is interrupted stays."""
    begun = place / f"{job.name}.tries"
    tries = int(begun.read_bytes()) if begun.exists() else 0
    if tries >= MOST_TRIES:
        _fail(place, job, f"The process that trained it ended {tries} times.")
        return
    write_whole(begun, str(tries + 1).encode())
    try:
        _run_all(place, job)
    except KeyboardInterrupt:
        log.info("job %s interrupted", job.name)
        if (place / f"{job.name}.json").exists():  # the server ends: the next process goes on
            write_whole(begun, str(tries).encode())
            return
    except QueueUnwritable:
        raise
    except PosencError as error:
        log.info("job %s failed: %s", job.name, type(error).__name__)
        _fail(place, job, str(error))
        return
    except Exception as error:  # whatever a scheme of a visitor or a library raises
        log.exception("job %s failed", job.name)
        _fail(
            place, job, f"It ended by an unforeseen fault ({type(error).__name__}); the log has it."
        )
        return
    cancel(place, job.name)


def _fail(place: Path, job: Job, why: str) -> None:
    """Write why a job failed, unless it was cancelled meanwhile."""
    if (place / f"{job.name}.json").exists():
        write_whole(place / f"{job.name}.failed", why.encode("utf-8", "backslashreplace"))


def _run_all(place: Path, job: Job) -> None:
    store, text = Store(job.store), place / f"{job.name}.txt"
    for number, run in enumerate(job.specifications):
        corpus = None
        if run.task == Language.kind:
            own = text.exists()
            corpus = from_text(job.text_name, text.read_bytes()) if own else standard_library()
        with _Reporter(place, job.name, number, run.steps) as report:
            run_once(run, corpus, store, report=report)
        log.info("job %s finished run %s", job.name, run.run_id)
        with contextlib.suppress(OSError):  # a job of many runs may be interrupted as often in each
            (place / f"{job.name}.tries").unlink(missing_ok=True)


class _Reporter:
    """Writes how far a run is, and interrupts it once its job is cancelled or the server ends."""

    def __init__(self, place: Path, name: str, number: int, steps: int) -> None:
        self.job, self.progress = place / f"{name}.json", place / f"{name}.progress"
        self.number, self.steps, self.reported = number, steps, 0.0
        before = progress(place, name)  # of an earlier process
        self.before = before.points if before.run == number else ()
        self.points: list[tuple[int, float]] = []
        self.losses: list[float] = []  # since the last point
        self.done = threading.Event()

    def __enter__(self) -> "_Reporter":
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()

    @property
    def stopping(self) -> bool:
        """Whether the run is to end."""
        return _ended.is_set() or not self.job.exists()

    def __call__(self, step: int, loss: float) -> None:
        if not self.losses and not self.points:
            self.points = [point for point in self.before if point[0] < step]
        self.losses.append(loss)
        if step % math.ceil(self.steps / POINTS) == 0:
            self.points.append((step, sum(self.losses) / len(self.losses)))
            self.losses = []
        now = time.monotonic()
        if now - self.reported < REPORT_EVERY and step != self.steps:
            return
        self.reported = now
        if self.stopping:
            self.done.set()
            raise KeyboardInterrupt  # saves first
        values: dict[str, Any] = {"run": self.number, "step": step, "points": self.points}
        with contextlib.suppress(OSError):  # a full disk does not end a training
            write_whole(self.progress, json.dumps(values).encode())

    def _watch(self) -> None:
        """Interrupt what does not report, such as an evaluation, once the run is to end."""
        while not self.done.wait(REPORT_EVERY):
            if self.stopping and not self.done.wait(STOP_WITHIN):
                _thread.interrupt_main()
                return


def _end_with_server() -> None:
    """Wait until the end of the server closes standard input; a run then saves at its next report."""
    while os.read(0, 1_024):  # not sys.stdin: its lock would be held when the process ends
        pass
    _ended.set()
    time.sleep(STOP_WITHIN + GRACE)
    os._exit(3)


def main(place: Path) -> int:
    """Run the jobs of a folder in this process; return its exit status."""
    output.begin_log(quotes=False)
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    threading.Thread(target=_end_with_server, daemon=True).start()
    try:
        work(place)
    except QueueUnwritable as error:
        log.error("%s The next process tries the jobs again.", error)
        return UNWRITABLE
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
