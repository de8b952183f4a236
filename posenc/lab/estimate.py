"""How long runs would take here: three small models are timed once, then work is counted up.

A step costs a part for every layer, whatever its size, and a part for every multiplication; a reading
past the training length, where the softmax of long windows weighs more, has a part of its own. All are
of this machine. The pages ask for an estimate of every size that somebody dials, so none of those
sizes is trained to find it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from posenc.lab.evaluate import readings
from posenc.lab.model import ModelConfig
from posenc.lab.specification import Specification
from posenc.lab.tasks import TASKS, Recall
from posenc.lab.train import Trainer, build_model, fixed_threads
from posenc.schemes.none import NoneConfig

_SMALL = (ModelConfig(layers=1, width=16, heads=2), 16, 4)  # a model, its tokens, its sequences
_LARGE = (ModelConfig(layers=2, width=128, heads=4), 64, 16)
_READ = (ModelConfig(layers=2, width=64, heads=4), 512, 16)


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


def _timed(model: ModelConfig, length: int, sequences: int) -> tuple[int, int, float]:
    """Return multiplications, layers and seconds of one step."""
    one = _planned(model, length, sequences)
    with fixed_threads(one.threads):
        trainer = Trainer(one)
        trainer.step()  # makes the optimiser's state
        seconds = _middle(trainer.step)
    return multiplications(one, length) * sequences, model.layers, seconds


def _timed_reading(model: ModelConfig, length: int, sequences: int) -> float:
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


def _planned(model: ModelConfig, length: int, sequences: int) -> Specification:
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
