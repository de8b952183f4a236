"""What kills and stops leave in the folder of work in progress, swept up when a worker starts.

Nothing that a start needs which waits or is being done: checkpoints that nobody went on with for weeks,
or that are more than a server keeps, half-written files, what is left of entries that are gone, and
entries of the queue that another version of this library made.
"""

import contextlib
import re
import time
from pathlib import Path

from filelock import FileLock, Timeout

from posenc.lab.entry import State
from posenc.lab.holder import ENDINGS, is_free
from posenc.lab.making import CHECKPOINTS
from posenc.lab.queue import Queue
from posenc.run_files import work_folder

DAY = 86_400.0  # seconds
ABANDONED = 30 * DAY  # nobody goes on with it
CHECKPOINTS_KEPT = 64
_ENTRY = re.compile(r"\d{20}-[0-9a-f]{12}")  # as posenc.lab.queue names one
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}")  # as posenc.run_files writes


def sweep_up(queue: Queue, work: Path | None = None) -> None:
    """Remove what was left behind in `work`, default the folder of this machine, and in `queue`."""
    checkpoints = (work or work_folder()) / CHECKPOINTS
    for folder in (checkpoints, queue.folder):
        for path in _files(folder):
            if _TEMPORARY.fullmatch(path.name) and _age(path) > DAY:
                _remove(path)
    entries = queue.entries()
    living = [entry for entry in entries if entry.state is not State.FAILED]
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
