"""The two kinds of training tasks: any batches of sequences, and questions with one right answer.

Batches depend on the generator alone, so all schemes see the same data in the same order.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from posenc import limits


def generator_for(seed: int, use: str, index: int = 0) -> torch.Generator:
    """Return the CPU generator for a use, such as "data", and an index, such as a step."""
    digest = hashlib.sha256(f"{seed}/{use}/{index}".encode()).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def contexts(train_length: int, longest: int) -> list[int]:
    """Return the context lengths evaluated: L/2, L, 1.5 L, 2 L, 4 L, ... up to `longest` L."""
    lengths = {train_length // 2, train_length * 3 // 2, longest * train_length}
    lengths |= {2**power * train_length for power in range(longest.bit_length())}
    return sorted(n for n in lengths if n <= longest * train_length)


IGNORED = -100  # a target that cross_entropy does not score
Batch = tuple[Int[Tensor, "b t"], Int[Tensor, "b t"]]


@dataclass(frozen=True, eq=False)
class Task(ABC):
    """Batches of sequences up to a training length.

    label: the name on screen. learns: what a model learns, as a phrase. unit: of the training length.
    most: the largest training length. sizes: of a run of `posenc train`, by option, where its own do not
    fit the task.
    """

    train_length: int

    kind: ClassVar[str]
    label: ClassVar[str]
    learns: ClassVar[str]
    unit: ClassVar[str] = "token"
    vocabulary: ClassVar[int]
    most: ClassVar[int] = limits.MAX_RUN_TOKENS
    sizes: ClassVar[Mapping[str, Any]] = {}
    # Increased when the task or its evaluation changes the results of a specification.
    protocol: ClassVar[int] = 1

    @classmethod
    def positions(cls, train_length: int) -> int:
        """Return the number of positions in training, the rows of a learned table."""
        return train_length

    @abstractmethod
    def batch(self, size: int, generator: torch.Generator) -> Batch:
        """Return `size` training sequences and their targets."""


class Asked(NamedTuple):
    """Rows of questions that are evaluated together.

    measure, x: of their score. rows: how many. length: tokens of a row. stretched: whether they are also
    read with other frequencies past the trained positions.
    """

    measure: str
    x: int
    rows: int
    length: int
    stretched: bool = True


@dataclass(frozen=True, eq=False)
class Questions(Task):
    """A task with right answers, scored by the share of them.

    x: what is varied in evaluation, y: what the share counts, about: what rows look like, of_details: what
    its further measures are, as texts on screen. doubles: whether x doubles past training. boundary: what
    the largest x in training is called. whole_rows: whether a row is one answer, else every scored token
    is one. longer: whether a larger x is a longer way than in training. learned_first: whether accuracy
    past training says nothing of a model that has not learned the task in training.
    """

    x: ClassVar[str]
    y: ClassVar[str]
    about: ClassVar[str]
    of_details: ClassVar[str] = ""
    doubles: ClassVar[bool] = False
    boundary: ClassVar[str] = "training length"
    whole_rows: ClassVar[bool] = True
    longer: ClassVar[bool] = True
    learned_first: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def farthest(cls, train_length: int) -> int:
        """Return the largest x in training."""

    @classmethod
    def as_in_training(cls, train_length: int, x: int) -> bool:
        """Return whether the accuracy at x belongs to that in training."""
        return x <= cls.farthest(train_length)

    @classmethod
    @abstractmethod
    def chance(cls, train_length: int, x: int) -> float:
        """Return the accuracy of guessing among the answers that are possible at x."""

    @classmethod
    @abstractmethod
    def by_position(cls, train_length: int, x: int) -> float:
        """Return the best accuracy at x of an answer that knows positions alone.

        It knows x and where the question stands, and repeats a token that it finds by its place. It
        compares no key, letter or instruction.
        """

    @classmethod
    @abstractmethod
    def asked(cls, train_length: int, longest: int) -> list[Asked]:
        """Return all that is evaluated, up to `longest` training lengths where x is a length."""

    @classmethod
    @abstractmethod
    def long_length(cls, train_length: int, longest: int) -> int:
        """Return the training length that has the text which is evaluated by position."""

    @abstractmethod
    def questions(self, asked: Asked, generator: torch.Generator) -> Batch:
        """Return the rows and targets of one of `asked`."""
