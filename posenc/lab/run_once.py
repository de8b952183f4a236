"""One run from one specification: read from the store, or trained, evaluated and stored.

Also an estimate of the time of a run: three small models are timed, and operations are counted.
"""

import contextlib
import re
import statistics
import time
import timeit
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from filelock import FileLock
from torch.nn import functional

from posenc.checkpoints.file_store import reason, work_folder
from posenc.device import fixed_threads
from posenc.errors import DeviceLost, RunError
from posenc.lab.corpus import Corpus
from posenc.lab.evaluate import Passed, Score, evaluate, evaluation_lengths
from posenc.lab.model import ModelSize
from posenc.lab.runs import Run, Store
from posenc.lab.specification import Specification, current_versions
from posenc.lab.tasks import TASKS, Recall
from posenc.lab.train import Report, Trainer, train
from posenc.schemes.base import NoneConfig

_SMALL = (ModelSize(layers=1, width=16, heads=2), 16, 4)  # a model, its tokens, its sequences
_LARGE = (ModelSize(layers=2, width=128, heads=4), 64, 16)
_EVALUATED = (ModelSize(layers=2, width=64, heads=4), 512, 16)


@dataclass(frozen=True)
class Speed:
    """Seconds on one thread of this machine: per layer of any size in a training step, per
    multiplication of the forward pass in a step (backward included), and in an evaluation.
    """

    layer: float
    multiplication: float
    evaluation: float

    def step(self, specification: Specification) -> float:
        """Return the seconds of one step of training."""
        length = TASKS[specification.task].positions(specification.train_length)
        work = multiplications(specification, length) * specification.batch
        return self.layer * specification.model.layers + self.multiplication * work

    def seconds(self, specification: Specification) -> float:
        """Return the seconds of a run, its evaluation included."""
        evaluation = sum(
            self.evaluation * multiplications(specification, length) * count
            for length, count in evaluation_lengths(specification)
        )
        training = sum(self.step(stage) * stage.steps for stage in specification.stages)
        return training + evaluation


def multiplications(specification: Specification, length: int) -> int:
    """Return the multiplications of a forward pass of one sequence."""
    width, layers = specification.model.width, specification.model.layers
    vocabulary = TASKS[specification.task].vocabulary
    # Per token and layer: matrices 12 width^2, causal attention length x width; then the logits.
    return length * (layers * (12 * width**2 + length * width) + vocabulary * width)


def calibrate() -> Speed:
    """Return the speed of this machine, from a few steps and an evaluation of small models."""
    (small_work, small_layers, small_step), (work, layers, step) = (
        _timed(*size) for size in (_SMALL, _LARGE)
    )
    # Solve step = layers * layer + work * multiplication for both sizes.
    determinant = work * small_layers - small_work * layers
    multiplication = max((step * small_layers - small_step * layers) / determinant, 1e-15)
    layer = max((small_step - multiplication * small_work) / small_layers, 0.0)
    evaluated, _, seconds = _timed(*_EVALUATED, evaluate_only=True)
    return Speed(layer, multiplication, seconds / evaluated)


def _timed(
    model: ModelSize, length: int, sequences: int, *, evaluate_only: bool = False
) -> tuple[int, int, float]:
    """Return multiplications, layers and median seconds of one step, or of one evaluation."""
    spec = Specification(
        scheme=NoneConfig(), model=model, task=Recall.kind, train_length=length, batch=sequences
    )
    trainer, tokens = Trainer(spec), torch.zeros(sequences, length, dtype=torch.int64)

    def read() -> None:
        with torch.inference_mode():
            functional.cross_entropy(trainer.model(tokens).flatten(0, 1), tokens.flatten())

    call = read if evaluate_only else trainer.step
    with fixed_threads(spec.threads):
        call()  # the first also allocates
        seconds = statistics.median(timeit.repeat(call, number=1, repeat=5))
    return multiplications(spec, length) * sequences, model.layers, seconds


# torch has the name from 2.8 on.
_LOST: tuple[type[BaseException], ...] = (
    (torch.AcceleratorError,) if hasattr(torch, "AcceleratorError") else ()
)


@contextlib.contextmanager
def device_errors(device: str) -> Iterator[None]:
    """Raise RunError where the memory of `device` ends, DeviceLost where the device itself fails."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise RunError(
            f"The memory of {device} ended: take a smaller batch, width, length or fewer layers, or the "
            "device cpu."
        ) from None
    except _LOST as error:
        first = str(error).strip().partition("\n")[0]
        raise DeviceLost(
            f"The device {device} failed ({first[:120]}); this process can use it no more."
        ) from error


def free_device_memory() -> None:
    """Free the unused cached memory of accelerators."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()


CHECKPOINTS = "training"  # the folder of checkpoints, in the work folder
_CHECKPOINT_FILE = re.compile(r"\.?(\w+)\.(lock|safetensors(\.[0-9a-f]{32})?)")
_MOST_CHECKPOINTS = 64  # that no job needs
_ABANDONED = 30 * 86_400.0  # seconds until a checkpoint is removed


def checkpoint_of(run_id: str) -> Path:
    """Return the path of the checkpoint of a run, in $POSENC_WORK or the user's cache."""
    return work_folder() / CHECKPOINTS / f"{run_id}.safetensors"


def remove_old_checkpoints(needed: Iterable[str]) -> None:
    """Remove checkpoints and their leftovers after 30 days, and all but the newest 64 of checkpoints.

    needed: ids of runs whose files stay. A fault of the disk removes nothing.
    """
    folder, kept, checkpoints = work_folder() / CHECKPOINTS, {*needed}, 0
    for path in sorted(folder.glob("*"), key=_modified, reverse=True):
        match = _CHECKPOINT_FILE.fullmatch(path.name)
        if match is None or match[1] in kept:
            continue
        checkpoints += path.suffix == ".safetensors"
        if checkpoints > _MOST_CHECKPOINTS or time.time() - _modified(path) > _ABANDONED:
            # A process that is at work on the run holds the lock.
            with contextlib.suppress(OSError), FileLock(folder / f"{match[1]}.lock", timeout=0):
                path.unlink()


def _modified(path: Path) -> float:
    """Return the time of a file's last change, the current time if the file is gone."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return time.time()


def run_once(
    specification: Specification,
    corpus: Corpus | None,
    store: Store,
    *,
    report: Report | None = None,
    passed: Passed | None = None,
) -> Run:
    """Return the run of a specification: from the store, or trained, evaluated and added to it.

    report: see `train`. passed: see `evaluate`. A second call for the same run on this machine waits for
    the first and reads its result.
    """
    run_id = specification.run_id
    checkpoint = checkpoint_of(run_id)
    with _alone(checkpoint):
        run = store.find(run_id)
        if run is not None:
            return run
        if specification.versions != current_versions():
            raise RunError(
                "The run was planned for other versions than are installed here: "
                + ", ".join(f"{name} {number}" for name, number in specification.versions)
                + "."
            )
        with device_errors(specification.device):
            try:
                trained = train(specification, corpus, checkpoint=checkpoint, report=report)
            except OSError as error:
                raise RunError(f"The checkpoint cannot be written: {reason(error)}.") from error
            scores: list[Score] = []
            if trained.stopped is None:
                with fixed_threads(specification.threads):
                    task = specification.make_task(corpus)
                    scores = evaluate(trained.model, task, specification, passed)
        run = Run(
            specification,
            trained.stopped,
            trained.seconds,
            tuple(scores),
            tuple(trained.losses),
            pair_loss=None if corpus is None else corpus.pair_loss,
        )
        learned = {
            f"scheme.{name}": value for name, value in trained.model.scheme.named_parameters()
        }
        added = store.add(run, learned)
        with contextlib.suppress(OSError):  # the queue's clean-up removes what stays
            checkpoint.unlink(missing_ok=True)
        return run if added else store.read(run_id)


@contextlib.contextmanager
def _alone(checkpoint: Path) -> Iterator[None]:
    """Hold the lock of a run among the processes of this machine."""
    lock = FileLock(checkpoint.with_suffix(".lock"))
    try:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        acquired = lock.acquire()
    except OSError as error:
        raise RunError(f"The folder of checkpoints cannot be used: {reason(error)}.") from error
    with acquired:
        yield
