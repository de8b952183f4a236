"""Many runs: schemes, bases, widths and seeds, on any concurrent.futures.Executor.

A task has only a record and paths, so it can run in another process or on another machine. A task that
runs twice reads the first run from the store.
"""

import itertools
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc import fields, limits
from posenc.checkpoints.safetensors_file import opened
from posenc.errors import CheckpointError, ConfigError, CorpusError, PosencError, quoted
from posenc.lab.corpus import TEXTS, Corpus, from_text, standard_library
from posenc.lab.evaluate import Passed
from posenc.lab.model import ModelSize
from posenc.lab.run_once import run_once
from posenc.lab.runs import Store
from posenc.lab.specification import FineTuning, Specification
from posenc.lab.tasks import TASKS, Language
from posenc.lab.train import Report
from posenc.plugins import load_plugin
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope_scaling import length_extensions
from posenc.schemes.sizes import Sizes
from posenc.text import printable_name

MAX_SEEDS = 1_000  # of one sweep


@dataclass(frozen=True)
class SweepTask:
    """One run as plain values.

    text: of `read_text`. plugins: paths of files that register its scheme; every
    machine that runs the task needs them.
    """

    record: dict[str, Any]
    store: str | None
    text: str | None = None
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The end of a task: why its run stopped early, or the error if there is no run."""

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
    before: str | None = None,
    tuning: Mapping[str, Any] | None = None,
    **others: Any,
) -> list[Specification]:
    """Return every distinct combination; a scheme without a base is not repeated for each.

    before: the kind of the scheme of a first stage, after which the schemes are fine-tuned. A scaling of it
    then reaches the length of the second stage. tuning: fields of `FineTuning` besides the scheme.
    others: further fields of Specification. Raises PosencError for a value out of its range.
    """
    if task not in TASKS:
        raise ConfigError(f"task must be one of {', '.join(TASKS)}, got {quoted(task)}.")
    limits.check_count("seeds", seeds, 1, MAX_SEEDS)
    limits.check_count("train_length", train_length, limits.MIN_RUN_TOKENS, limits.MAX_RUN_TOKENS)
    distinct: dict[Specification, None] = {}
    rows = TASKS[task].positions(train_length)
    for kind, base, width, seed in itertools.product(schemes, bases, widths, range(seeds)):
        model = ModelSize(layers=layers, width=width, heads=heads)
        sizes = Sizes(dim=width, base=base, heads=heads, train_length=rows, learned_source="random")
        config = _trained_on(sizes.config(kind), rows, layers)
        fine_tuning = None
        if before is not None:
            first = _trained_on(sizes.config(before), rows, layers)
            fine_tuning = FineTuning(before=first, **tuning or {})
            reached = length_extensions(first, fine_tuning.length, train_length)
            config = next((each for each in reached.values() if each.kind == kind), config)
        specification = Specification(
            scheme=config,
            fine_tuning=fine_tuning,
            model=model,
            task=task,
            train_length=train_length,
            seed=seed,
            corpus=corpus.sha256 if corpus else "",
            corpus_name=corpus.name if corpus else "",
            **others,
        )
        distinct[specification] = None
    return list(distinct)


def _trained_on(config: SchemeConfig, rows: int, layers: int) -> SchemeConfig:
    """Return a config whose lengths and layers are those of training, not of a comparison."""
    own = {"max_len": rows, "length": rows, "layers": layers}
    return config.replace(**{name: own[name] for name in own if name in fields.rules(config)})


def run_task(
    task: SweepTask, report: Report | None = None, passed: Passed | None = None
) -> str | None:
    """Run a task in this process and return why the run stopped early, None if it did not.

    report, passed: see `run_once`.
    """
    for file in task.plugins:
        load_plugin(file)
    specification = Specification.from_record(task.record)
    corpus = read_text(task.text) if specification.task == Language.kind else None
    return run_once(specification, corpus, Store(task.store), report=report, passed=passed).stopped


def read_text(path: str | None) -> Corpus:
    """Return the corpus of a text file or of a name of TEXTS, that of the standard library for None."""
    if path is None:
        return standard_library()
    if path in TEXTS:
        return TEXTS[path]()
    try:
        with opened(path) as source:
            content = bytes(source.read(0, source.size))
    except CheckpointError as error:
        raise CorpusError(f"The text cannot be read. {error}") from None
    return from_text(printable_name(Path(path).name), content)


def sweep(
    tasks: Iterable[SweepTask], executor: Executor, do: Callable[[SweepTask], str | None] = run_task
) -> Iterator[Outcome]:
    """Submit every task and iterate over the outcomes as they end. A failed task ends no other."""
    futures = {executor.submit(do, task): task for task in tasks}
    for future in as_completed(futures):
        specification = Specification.from_record(futures[future].record)
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            raise error
        if error is not None:  # of any class: clusters have their own
            yield _failed(specification, error)
        else:
            yield Outcome(specification, stopped=future.result())


def local_sweep(tasks: Sequence[SweepTask], workers: int) -> Iterator[Outcome]:
    """Sweep on a pool of processes; when one of them is killed, run what is left one by one."""
    left = {Specification.from_record(task.record).run_id: task for task in tasks}
    try:
        for outcome in _pooled(left.values(), workers):
            del left[outcome.specification.run_id]
            yield outcome
    except BrokenProcessPool:  # all queued tasks are lost
        for task in left.values():
            try:
                yield from _pooled([task], 1)
            except BrokenProcessPool:
                specification = Specification.from_record(task.record)
                yield Outcome(specification, error="its process was killed, also alone")


def _pooled(tasks: Iterable[SweepTask], workers: int) -> Iterator[Outcome]:
    # A fork would copy locks without the threads that hold them.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_leave_with_parent) as pool:
        try:
            yield from sweep(tasks, pool, _run_and_leave)
        except (KeyboardInterrupt, GeneratorExit):
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _leave_with_parent() -> None:
    """End this process when its parent ends."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(3)

    threading.Thread(target=wait, daemon=True).start()


def _run_and_leave(task: SweepTask) -> str | None:
    """Run a task of a pool; an interrupt ends the process, else the pool submits the next task."""
    try:
        return run_task(task)
    except KeyboardInterrupt:
        os._exit(130)


def sweep_here(
    tasks: Iterable[SweepTask], reports: Callable[[Specification], tuple[Report, Passed]]
) -> Iterator[Outcome]:
    """Run the tasks in this process. reports: returns what is called in the training and the evaluation
    of a run.
    """
    for task in tasks:
        specification = Specification.from_record(task.record)
        try:
            yield Outcome(specification, stopped=run_task(task, *reports(specification)))
        except (PosencError, OSError, RuntimeError, MemoryError) as error:  # such as a full device
            yield _failed(specification, error)


def _failed(specification: Specification, error: BaseException) -> Outcome:
    kind = "" if isinstance(error, PosencError) else f"{type(error).__name__}: "
    return Outcome(specification, error=f"{kind}{error}")
