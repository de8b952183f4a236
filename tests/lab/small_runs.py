"""Runs small enough to be trained inside a test: a random text and models of a few hundred numbers."""

import os
import random
import signal
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc import SCHEMES
from posenc.lab import (
    Corpus,
    Run,
    Specification,
    Store,
    SweepTask,
    from_text,
    run_once,
    specifications,
)
from posenc.lab.tasks import Language
from posenc.lab.train import Trainer

_WORDS = (
    "a", "the", "cat", "dog", "bird", "stone", "river", "runs", "sleeps", "sings", "under", "over",
    "beside", "red", "old", "small",
)  # fmt: skip


def sentences(seed: int = 0, count: int = 1_200) -> bytes:
    """Return text of about 25 bytes per line, the same for a seed on every machine."""
    chosen = random.Random(seed)
    lines = (" ".join(chosen.choice(_WORDS) for _ in range(5)) + "." for _ in range(count))
    return "\n".join(lines).encode()


CORPUS = from_text("made-up sentences", sentences())
SIZES: dict[str, Any] = {
    "layers": 1, "heads": 2, "train_length": 16, "steps": 12, "batch": 4, "longest": 4,
    "segments": 8, "learning_rate": 1e-2,
}  # fmt: skip


def small_spec(kind: str = "rope", **others: Any) -> Specification:
    """Return a specification that trains in a fraction of a second. others: as `specifications`."""
    least = {"layers": SCHEMES[kind]().least_layers} if kind in SCHEMES else {}
    values = {"widths": [16]} | SIZES | least | others
    values |= {"corpus": CORPUS} if values.get("task", "language") == Language.kind else {}
    return specifications([kind], **values)[0]


def corpus_for(specification: Specification) -> Corpus | None:
    """Return the text that a run needs, None for a task without one."""
    return CORPUS if specification.task == Language.kind else None


def make_small_run(folder: Path, kind: str = "rope", **others: Any) -> tuple[Store, Run]:
    """Return the store `folder`/runs and a run that was trained and added to it."""
    store, specification = Store(folder / "runs"), small_spec(kind, **others)
    run = run_once(specification, corpus_for(specification), store)
    return store, run


def without_time(run: Run) -> Run:
    """Return a run without its seconds, the only thing in which two equal trainings differ."""
    return replace(run, seconds=0.0)


def weights(training: Trainer) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in training.model.state_dict().items()}


def assert_same_training(first: Trainer, second: Trainer) -> None:
    """Compare every loss and weight bit for bit.

    Both are the same operations on the same data in one process, so no processor may tell them apart.
    """
    assert first.losses == second.losses
    assert first.stopped == second.stopped
    one, two = weights(first), weights(second)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


@dataclass(frozen=True, kw_only=True)
class KillingJob(SweepTask):
    """A job that kills the process that runs it, during the training, once.

    parent: the process that is spared, which is that of the test.
    """

    marker: str
    parent: int

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name == "record" and os.getpid() != object.__getattribute__(self, "parent"):
            marker = Path(object.__getattribute__(self, "marker"))
            if not marker.exists():
                timer = threading.Timer(0.2, _kill_this_process, [marker])
                timer.daemon = True
                timer.start()
        return value


def _kill_this_process(marker: Path) -> None:
    marker.write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGKILL)
