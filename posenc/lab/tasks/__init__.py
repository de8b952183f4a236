"""Tasks that small models learn: one file per task, its data beside its generator."""

from posenc.lab.tasks.base import (
    IGNORED,
    Asked,
    Batch,
    Questions,
    Task,
    contexts,
    generator_for,
)
from posenc.lab.tasks.copying import Copy
from posenc.lab.tasks.flip_flop import FlipFlop
from posenc.lab.tasks.indexing import Indexing
from posenc.lab.tasks.language import Language
from posenc.lab.tasks.parity import HintedParity, Parity
from posenc.lab.tasks.recall import Recall, distances

TASKS: dict[str, type[Task]] = {
    task.kind: task for task in (Language, Recall, Copy, FlipFlop, Indexing, Parity, HintedParity)
}


def questions_of(kind: str) -> type[Questions]:
    """Return a task that is scored by accuracy. Raises KeyError for another."""
    task = TASKS[kind]
    if not issubclass(task, Questions):
        raise KeyError(kind)
    return task


__all__ = [
    "IGNORED",
    "TASKS",
    "Asked",
    "Batch",
    "Copy",
    "FlipFlop",
    "HintedParity",
    "Indexing",
    "Language",
    "Parity",
    "Questions",
    "Recall",
    "Task",
    "contexts",
    "distances",
    "generator_for",
    "questions_of",
]
