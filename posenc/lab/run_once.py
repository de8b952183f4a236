"""One run from one specification: read from the store, or trained, evaluated and stored.

Also the time that runs would take here: three small models are timed, and operations are counted.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from filelock import FileLock
from torch.nn import functional

from posenc.checkpoints.file_store import reason, work_folder
from posenc.device import fixed_threads
from posenc.errors import DeviceLost, RunError
from posenc.lab.evaluate import Score, evaluate, readings
from posenc.lab.model import ModelSize
from posenc.lab.runs import Run, Store
from posenc.lab.specification import Specification, current_versions
from posenc.lab.tasks import TASKS, Corpus, Recall
from posenc.lab.train import Report, Trainer, build_model, train
from posenc.schemes.base import NoneConfig

_SMALL = (ModelSize(layers=1, width=16, heads=2), 16, 4)  # a model, its tokens, its sequences
_LARGE = (ModelSize(layers=2, width=128, heads=4), 64, 16)
_READ = (ModelSize(layers=2, width=64, heads=4), 512, 16)


@dataclass(frozen=True)
class Speed:
    """Seconds of this machine on one thread, by what takes them.

    layer: of a layer, whatever its size, in a step of training. multiplication: of one on the way
    through the model in a step, its share of the way back included. reading: of one in a reading.
    """

    layer: float
    multiplication: float
    reading: float

    def step(self, specification: Specification) -> float:
        """Return the seconds of one step of training."""
        length = TASKS[specification.task].positions(specification.train_length)
        work = multiplications(specification, length) * specification.batch
        return self.layer * specification.model.layers + self.multiplication * work

    def seconds(self, specification: Specification) -> float:
        """Return the seconds that a run would take, its reading past the length included."""
        read = sum(
            self.reading * multiplications(specification, length) * count
            for length, count in readings(specification)
        )
        return self.step(specification) * specification.steps + read


def multiplications(specification: Specification, length: int) -> int:
    """Return how many multiplications one sequence of this length takes on its way through."""
    width, layers = specification.model.width, specification.model.layers
    vocabulary = TASKS[specification.task].vocabulary
    # Maps of a layer: 12 width^2; scores and their sum, causal: length x width; then the logits.
    return length * (layers * (12 * width**2 + length * width) + vocabulary * width)


def calibrate() -> Speed:
    """Time a few steps of two small models and return what they say of this machine."""
    small, large = (_timed(*size) for size in (_SMALL, _LARGE))
    (few, one, a), (much, more, b) = small, large
    # Two equations, one + two layers: a = layer * one + each * few, b = layer * more + each * much.
    each = max((b * one - a * more) / (much * one - few * more), 1e-15)
    return Speed(max((a - each * few) / one, 0.0), each, _timed_reading(*_READ))


def _timed(model: ModelSize, length: int, sequences: int) -> tuple[int, int, float]:
    """Return multiplications, layers and seconds of one step."""
    one = _planned(model, length, sequences)
    with fixed_threads(one.threads):
        trainer = Trainer(one)
        trainer.step()  # makes the optimiser's state
        seconds = _middle(trainer.step)
    return multiplications(one, length) * sequences, model.layers, seconds


def _timed_reading(model: ModelSize, length: int, sequences: int) -> float:
    """Return the seconds of one multiplication in a reading."""
    one = _planned(model, length, sequences)
    built = build_model(one, one.make_task(None))
    tokens = torch.zeros(sequences, length, dtype=torch.int64)

    def read() -> None:
        with torch.inference_mode():
            functional.cross_entropy(built(tokens).flatten(0, 1), tokens.flatten())

    with fixed_threads(one.threads):
        read()
        return _middle(read) / (multiplications(one, length) * sequences)


def _planned(model: ModelSize, length: int, sequences: int) -> Specification:
    return Specification(
        scheme=NoneConfig(), model=model, task=Recall.kind, train_length=length, batch=sequences
    )


def _middle(call: Callable[[], object]) -> float:
    """Return the middle of five times: what else the machine does now it will do later, too."""
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return sorted(seconds)[2]


# torch before 2.8 has no name of its own for it.
_LOST: tuple[type[BaseException], ...] = tuple(
    getattr(torch, name) for name in ("AcceleratorError",) if hasattr(torch, name)
)


@contextlib.contextmanager
def device_errors(device: str) -> Iterator[None]:
    """Raise RunError where the memory of `device` ends, DeviceLost where the device itself fails.

    A smaller batch would be another run, and the CPU too, so neither is tried unasked.
    """
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
    """Give back what a run that ended held of an accelerator."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()


CHECKPOINTS = "training"  # the folder of checkpoints, in that of work in progress


def checkpoint_of(run_id: str, work: Path | None = None) -> Path:
    """Return where the state of a run in progress is kept."""
    return (work or work_folder() / CHECKPOINTS) / f"{run_id}.safetensors"


def run_once(
    specification: Specification,
    corpus: Corpus | None,
    store: Store,
    *,
    work: Path | None = None,
    report: Report | None = None,
) -> Run:
    """Return the run of a specification: from the store, or trained, evaluated and added to it.

    work: folder of checkpoints, default one of $POSENC_WORK or of the user's cache. Of two starts on
    one machine the second waits and reads what the first made. A kill loses at most the steps since
    the last checkpoint. report: see `train`.
    """
    run_id = specification.run_id
    checkpoint = checkpoint_of(run_id, work)
    with _alone(checkpoint):
        made = store.made(run_id)
        if made is not None:
            return made
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
                    scores = evaluate(trained.model, task, specification)
        run = Run(specification, tuple(scores), trained.losses, trained.stopped, trained.seconds)
        learned = {
            f"scheme.{name}": value for name, value in trained.model.scheme.named_parameters()
        }
        kept = store.add(run, learned)
        with contextlib.suppress(OSError):  # the run is kept: what stays is swept up some day
            checkpoint.unlink(missing_ok=True)
        return run if kept else store.read(run_id)


@contextlib.contextmanager
def _alone(checkpoint: Path) -> Iterator[None]:
    """Wait until no other process of this machine makes the run, and keep the others waiting."""
    lock = FileLock(checkpoint.with_suffix(".lock"))
    try:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise RunError(f"The folder of checkpoints cannot be used: {reason(error)}.") from error
    try:
        yield
    finally:
        lock.release()
