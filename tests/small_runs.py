"""Runs small enough to be trained in a test: a text of made-up sentences, models of a few numbers."""

import os
import random
import signal
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc.lab import (
    Job,
    Run,
    Specification,
    Store,
    Training,
    from_text,
    make_run,
    specifications,
)
from posenc.lab.tasks import Language
from posenc.lab.train import Trainer

_WORDS = (
    "a", "the", "cat", "dog", "bird", "stone", "river", "runs", "sleeps", "sings", "under", "over",
    "beside", "red", "old", "small",
)  # fmt: skip


def sentences(seed: int = 0, count: int = 1_200) -> bytes:
    """Text of about 25 bytes per line, the same for a seed on every machine."""
    chosen = random.Random(seed)
    lines = (" ".join(chosen.choice(_WORDS) for _ in range(5)) + "." for _ in range(count))
    return "\n".join(lines).encode()


CORPUS = from_text("made-up sentences", sentences())
SIZES: dict[str, Any] = {
    "layers": 1, "heads": 2, "train_length": 16, "steps": 12, "batch": 4, "longest": 4,
    "segments": 8, "learning_rate": 1e-2,
}  # fmt: skip


def small(kind: str = "rope", **others: Any) -> Specification:
    """Return a specification that trains in a fraction of a second."""
    asked = {"widths": [16]} | SIZES | others
    asked |= {"corpus": CORPUS} if asked.get("task", "language") == Language.kind else {}
    return specifications([kind], **asked)[0]


def weights(training: Training | Trainer) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in training.model.state_dict().items()}


def assert_same(first: Training, second: Training) -> None:
    """Every loss and every weight, bit for bit."""
    assert first.losses == second.losses
    assert first.stopped == second.stopped
    one, two = weights(first), weights(second)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


def made(place: Path, kind: str = "rope", **others: object) -> tuple[Store, Run]:
    """A store with one run in it."""
    store = Store(place / "runs")
    corpus = None if "task" in others else CORPUS
    return store, make_run(small(kind, **others), corpus, store, work=place / "work")


def timeless(run: Run) -> Run:
    return replace(run, seconds=0.0)


@dataclass(frozen=True, kw_only=True)
class Deadly(Job):
    """A job that kills the process that does it, amid the training: once, or whenever it is done.

    parent: the one process that is spared, that of the test.
    """

    marker: str
    parent: int
    again: bool = False

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name == "work" and os.getpid() != object.__getattribute__(self, "parent"):
            marker = Path(object.__getattribute__(self, "marker"))
            if object.__getattribute__(self, "again") or not marker.exists():
                timer = threading.Timer(0.2, _die, [marker])
                timer.daemon = True
                timer.start()
        return value


def _die(marker: Path) -> None:
    marker.write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGKILL)
