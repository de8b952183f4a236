"""An entry of the queue of trainings: what is to be trained, how far it is, and the files of both."""

import json
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from posenc.lab.specification import Specification

# What a file that is no entry or no progress can raise while it is read.
_ODD = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)


class State(StrEnum):
    """Where an entry is."""

    WAITING = "waiting"
    RUNNING = "running"
    FAILED = "failed"


@dataclass(frozen=True)
class Progress:
    """How far an entry is. points: (step, mean loss of the steps up to it) of the run in progress.

    run: its place among the entry's runs, from 0. began: the first step of this sitting. seconds: spent
    since that step. reading: all steps are made, and the model is being measured.
    """

    run: int = 0
    step: int = 0
    began: int = 0
    seconds: float = 0.0
    points: tuple[tuple[int, float], ...] = ()
    reading: bool = False

    def written(self) -> bytes:
        """Return the file of it; `read` reads it back."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Return what a file says; the beginning where it is none of ours."""
        try:
            values = json.loads(content)
            points = tuple((_count(step), float(loss)) for step, loss in values.pop("points"))
            found = cls(**values, points=points)
            return replace(
                found,
                run=_count(found.run),
                step=_count(found.step),
                began=_count(found.began),
                seconds=float(found.seconds),
                reading=bool(found.reading),
            )
        except _ODD:
            return cls()


@dataclass(frozen=True)
class Entry:
    """One start. text: the file name of its text in the queue's folder, None for the default one.

    owner: who started it, "" for somebody unknown, None in a file of before owners were kept.
    """

    name: str
    records: tuple[dict[str, Any], ...]
    store: str | None
    text: str | None = None
    text_name: str = ""
    estimate: float = 0.0  # seconds, of which `reading` go to measuring what was trained
    reading: float = 0.0
    attempts: int = 0
    error: str | None = None
    owner: str | None = None
    state: State = field(default=State.WAITING, compare=False)

    @property
    def specifications(self) -> tuple[Specification, ...]:
        """What is to be trained, in order."""
        return tuple(Specification.from_record(record) for record in self.records)

    def written(self) -> bytes:
        """Return the file of it, which does not say its state; `read` reads it back."""
        values = {name: value for name, value in asdict(self).items() if name != "state"}
        return json.dumps(values).encode()

    @classmethod
    def read(cls, name: str, content: bytes) -> Self | None:
        """Return the entry of this name that a file holds, None where it is none of ours."""
        try:
            values = json.loads(content)
            entry = cls(**values | {"records": tuple(values["records"]), "name": name})
            entry = replace(
                entry,
                attempts=_count(entry.attempts),
                estimate=float(entry.estimate),
                reading=float(entry.reading),
                error=None if entry.error is None else str(entry.error),
                text_name=str(entry.text_name),
                owner=None if entry.owner is None else str(entry.owner),
            )
            return entry if entry.specifications else None
        except _ODD:
            return None


def _count(value: float) -> int:
    """Return a count as a whole number. Raises ValueError for what can be none."""
    if not 0 <= value <= 10**9:
        raise ValueError("no count")
    return int(value)
