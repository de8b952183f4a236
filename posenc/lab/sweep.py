"""Many runs: schemes, bases, widths and seeds, on any concurrent.futures.Executor.

A task holds names only (a specification's record, paths of the text and the store), so that it can run
in another process or on another machine. A task that runs twice finds the first run in the store.
"""

import itertools
import multiprocessing
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc import limits
from posenc.checkpoints import printable_name
from posenc.checkpoints.file_store import reason
from posenc.errors import ConfigError, CorpusError, PosencError, shown
from posenc.lab.model import ModelSize
from posenc.lab.run_once import run_once
from posenc.lab.runs import Store
from posenc.lab.specification import Specification
from posenc.lab.tasks import TASKS, Corpus, Language, from_text, standard_library
from posenc.lab.train import Report
from posenc.settings import Setting

ATTEMPTS = 3  # of a sweep whose worker process died


@dataclass(frozen=True)
class SweepTask:
    """One run, in words. text: a path, None for the standard library. work: a folder, None for the
    default one.
    """

    record: dict[str, Any]
    store: str | None
    text: str | None = None
    work: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a task: the run's name and why it stopped early, or why there is none."""

    specification: Specification
    stopped: str | None = None
    error: str | None = None


def specifications(
    schemes: Sequence[str],
    *,
    seeds: int = 1,
    bases: Sequence[float] = (10_000.0,),
    widths: Sequence[int] = (128,),
    layers: int = 3,
    heads: int = 4,
    corpus: Corpus | None = None,
    train_length: int = 64,
    task: str = Language.kind,
    **others: Any,
) -> list[Specification]:
    """Return every combination once: a scheme that ignores the base is not repeated for each.

    others: further fields of Specification. Raises ConfigError for a value out of its range.
    """
    if task not in TASKS:
        raise ConfigError(f"task must be one of {', '.join(TASKS)}, got {shown(task)}.")
    found: dict[Specification, None] = {}
    for kind, base, width, seed in itertools.product(schemes, bases, widths, range(seeds)):
        model = ModelSize(layers=layers, width=width, heads=heads)
        # A learned table has a row for every position that training shows.
        rows = TASKS[task].positions(train_length)
        setting = Setting(
            dim=width, base=base, heads=heads, train_length=rows, learned_source="random"
        )
        config = setting.config(kind)
        # The rows and the length that training shows, not those that a page would draw.
        shown_here = ("learned_rows", "length")
        own = {name: rows for name, source in config.shared.items() if source in shown_here}
        specification = Specification(
            scheme=config.replace(**own),
            model=model,
            task=task,
            train_length=train_length,
            seed=seed,
            corpus=corpus.sha256 if corpus else "",
            corpus_name=corpus.name if corpus else "",
            **others,
        )
        found[specification] = None
    return list(found)


def run_task(task: SweepTask, report: Report | None = None) -> str | None:
    """Run a task in this process and return why the run stopped early, None if it did not."""
    specification = Specification.from_record(task.record)
    corpus = read_text(task.text) if specification.task == Language.kind else None
    work = Path(task.work) if task.work else None
    return run_once(specification, corpus, Store(task.store), work=work, report=report).stopped


def read_text(path: str | None) -> Corpus:
    """Return the corpus of a text file, or of the standard library."""
    if path is None:
        return standard_library()
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):  # a device may have no end, a pipe no begin
            raise CorpusError("The text cannot be read: it is no regular file.")
        if found.st_size > limits.MAX_FILE_BYTES:
            raise CorpusError(
                f"The text has {found.st_size:,} bytes; at most {limits.MAX_FILE_BYTES:,} are read."
            )
        content = Path(path).read_bytes()
    except CorpusError:
        raise
    except (OSError, ValueError) as error:  # a path may hold what no system takes
        raise CorpusError(f"The text cannot be read: {reason(error)}.") from error
    return from_text(printable_name(Path(path).name), content)


def sweep(
    tasks: Iterable[SweepTask], executor: Executor, do: Callable[[SweepTask], str | None] = run_task
) -> Iterator[Outcome]:
    """Submit every task and return what became of each, as they end. One failure ends no other."""
    futures: dict[Future[str | None], SweepTask] = {
        executor.submit(do, task): task for task in tasks
    }
    for future in as_completed(futures):
        specification = Specification.from_record(futures[future].record)
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            raise error  # the pool is gone, and with it every task that waits
        if error is not None:  # whatever it is: a cluster has errors of its own
            yield _failed(specification, error)
        else:
            yield Outcome(specification, stopped=future.result())


def local_sweep(tasks: Sequence[SweepTask], workers: int) -> Iterator[Outcome]:
    """Sweep on a pool of processes of this machine, made again when one of them is killed."""
    left = {Specification.from_record(task.record).run_id: task for task in tasks}
    broken = 0  # pools, since a task last ended
    while left and broken < ATTEMPTS - 1:
        try:
            for outcome in _pooled(left.values(), workers):
                del left[outcome.specification.run_id]
                broken = 0
                yield outcome
        except BrokenProcessPool:
            broken += 1
    for (
        task
    ) in left.values():  # each by itself, so that the one that is killed takes no other along
        try:
            yield from _pooled([task], 1)
        except BrokenProcessPool:
            specification = Specification.from_record(task.record)
            yield Outcome(specification, error="its process was killed, three times over")


def _pooled(tasks: Iterable[SweepTask], workers: int) -> Iterator[Outcome]:
    # Fresh processes: a fork would copy the locks of threads that it does not copy.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_leave_with_parent) as pool:
        try:
            yield from sweep(tasks, pool, _run_and_leave)
        except (KeyboardInterrupt, GeneratorExit):
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _leave_with_parent() -> None:
    """End this process when the one that made the pool ends, however that does."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(3)

    threading.Thread(target=wait, daemon=True).start()


def _run_and_leave(task: SweepTask) -> str | None:
    """Do a task of a pool; an interrupted process ends, or the pool would hand it the next one."""
    try:
        return run_task(task)
    except KeyboardInterrupt:
        os._exit(130)


def sweep_here(
    tasks: Iterable[SweepTask], report: Callable[[Specification], Report | None]
) -> Iterator[Outcome]:
    """Do the tasks in this process one by one, with a report of every step."""
    for task in tasks:
        specification = Specification.from_record(task.record)
        try:
            yield Outcome(specification, stopped=run_task(task, report(specification)))
        except (PosencError, OSError, RuntimeError, MemoryError) as error:  # such as a full device
            yield _failed(specification, error)


def _failed(specification: Specification, error: BaseException) -> Outcome:
    kind = "" if isinstance(error, PosencError) else f"{type(error).__name__}: "
    return Outcome(specification, error=f"{kind}{error}")
