"""Training tasks: bytes of text, a key to recall, a string to copy.

Batches depend on the generator alone, so all schemes see the same data in the same order.
"""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import comb
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from posenc.lab.corpus import Corpus


def generator_for(seed: int, use: str, index: int = 0) -> torch.Generator:
    """Return the CPU generator for a use, such as "data", and an index, such as a step."""
    digest = hashlib.sha256(f"{seed}/{use}/{index}".encode()).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(digest[:8], "big") >> 1)


IGNORED = -100  # a target that cross_entropy does not score
Batch = tuple[Int[Tensor, "b t"], Int[Tensor, "b t"]]


@dataclass(frozen=True, eq=False)
class Task(ABC):
    """Batches of sequences up to a training length."""

    train_length: int

    kind: ClassVar[str]
    vocabulary: ClassVar[int]
    # Increased when the task or its evaluation changes the results of a specification.
    protocol: ClassVar[int] = 1

    @classmethod
    def positions(cls, train_length: int) -> int:
        """Return the number of positions in training, the rows of a learned table."""
        return train_length

    @abstractmethod
    def batch(self, size: int, generator: torch.Generator) -> Batch:
        """Return `size` training sequences and their targets."""


@dataclass(frozen=True, eq=False)
class Language(Task):
    """Predict the next byte of text, at every position."""

    corpus: Corpus

    kind: ClassVar[str] = "language"
    vocabulary: ClassVar[int] = 256

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        text = self.corpus.train
        starts = torch.randint(len(text) - self.train_length, (size,), generator=generator)
        window = text[starts[:, None] + torch.arange(self.train_length + 1)].long()
        return window[:, :-1], window[:, 1:]


@dataclass(frozen=True, eq=False)
class Recall(Task):
    """Recall the values of four key-value pairs.

    Tokens: filler 0 .. 127, keys 128 .. 159, values 160 .. 255, in slots of two tokens. Four random
    slots of the first half hold distinct pairs. Every slot of the second half is a question, one of
    the four keys drawn uniformly, and a filler: position alone answers one in four correctly.
    """

    kind: ClassVar[str] = "recall"
    vocabulary: ClassVar[int] = 256
    # Protocol 1 asked at even distances, which training lacks. Protocol 2 placed the pairs first,
    # where absolute tables find them at any distance.
    protocol: ClassVar[int] = 3

    PAIRS: ClassVar[int] = 4
    CHANCE: ClassVar[float] = 1 / PAIRS  # guessing among the four values
    FILLERS: ClassVar[int] = 128
    KEYS: ClassVar[int] = 32
    VALUES: ClassVar[int] = 96

    @property
    def half(self) -> int:
        """Number of slots in the first half."""
        return self.train_length // 4

    @classmethod
    def farthest(cls, train_length: int) -> int:
        """Return the largest distance in training, in tokens from value to question."""
        return train_length - 3 + train_length % 2

    @classmethod
    def by_position(cls, train_length: int) -> float:
        """Return the accuracy past the trained distances of the best rule on positions alone.

        The rule knows where the question stands and answers with the first, second, third or fourth
        value. Both the four pairs and the asked one are at random places there, as in `at_distance`.
        """
        slots, others, right = train_length // 4, cls.PAIRS - 1, 0
        for asked in range(2 * slots - 1):  # slots from the earliest pair's to the asked pair's
            places = range(max(0, asked - slots + 1), min(slots, asked + 1))
            right += max(
                sum(comb(place, rank) * comb(slots - 1 - place, others - rank) for place in places)
                for rank in range(cls.PAIRS)
            )
        return right / (slots**2 * comb(slots - 1, others))

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        places, half = -(-self.train_length // 2), self.half
        at = torch.rand(size, half, generator=generator).argsort(dim=1)[:, : self.PAIRS]
        keys, values = self._pairs(size, generator)
        tokens = torch.randint(self.FILLERS, (size, 2 * places), generator=generator)
        tokens.scatter_(1, 2 * at, keys).scatter_(1, 2 * at + 1, values)
        which = torch.randint(self.PAIRS, (size, places - half), generator=generator)
        targets = torch.full_like(tokens, IGNORED)
        tokens[:, 2 * half :: 2] = keys.gather(1, which)
        targets[:, 2 * half :: 2] = values.gather(1, which)
        # Half the rows begin with one more filler, so that keys stand at odd positions, too.
        filler = torch.randint(self.FILLERS, (size, 1), generator=generator)
        later = torch.randint(2, (size, 1), generator=generator)
        index = torch.arange(self.train_length) + 1 - later
        return (
            torch.cat((filler, tokens), dim=1).gather(1, index),
            functional.pad(targets, (1, 0), value=IGNORED).gather(1, index),
        )

    def at_distance(self, size: int, distance: int, generator: torch.Generator) -> Batch:
        """Return one question per row, an odd number of tokens after its value.

        Up to the farthest distance in training, pairs and question stand where training has them.
        Beyond it all stand past the training length, at positions independent of the distance.
        """
        half, length, apart = self.half, self.train_length, (distance + 1) // 2
        later = torch.randint(2, (size,), generator=generator)
        start, low, high = torch.zeros_like(later), 0, torch.full_like(later, half)
        if distance > self.farthest(length):
            start = -(-length // 2) + torch.randint(half, (size,), generator=generator)
        else:
            later = later * (apart <= (length - 2) // 2)  # one more filler, if it fits
            low = max(0, half - apart)
            high = ((length - 1 - later) // 2 - apart + 1).clamp(max=half)
        place = low + (torch.rand(size, generator=generator) * (high - low)).long()
        others = torch.rand(size, half - 1, generator=generator).argsort(dim=1)[:, : self.PAIRS - 1]
        others = others + (others >= place[:, None])  # any slot but that of the asked pair
        at = 2 * (start[:, None] + torch.cat((place[:, None], others), dim=1)) + later[:, None]
        keys, values = self._pairs(size, generator)
        asked = at[:, :1] + 1 + distance
        inputs = torch.randint(
            self.FILLERS, (size, self.text_length(distance)), generator=generator
        )
        inputs.scatter_(1, at, keys).scatter_(1, at + 1, values)
        inputs.scatter_(1, asked, keys[:, :1])
        targets = torch.full_like(inputs, IGNORED).scatter_(1, asked, values[:, :1])
        return inputs, targets

    def text_length(self, distance: int) -> int:
        """Return the number of tokens in a row of `at_distance`."""
        if distance <= self.farthest(self.train_length):
            return self.train_length
        return 2 * (-(-self.train_length // 2) + 2 * self.half - 2) + 3 + distance

    def _pairs(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        keys, values = (
            torch.rand(size, count, generator=generator).argsort(dim=1)[:, : self.PAIRS]
            for count in (self.KEYS, self.VALUES)
        )
        return keys + self.FILLERS, values + self.FILLERS + self.KEYS


@dataclass(frozen=True, eq=False)
class Copy(Task):
    """Copy a string of up to `train_length` letters after a mark: Kazemnejad et al. 2023, arXiv
    2305.19466. Tokens: letters 0 .. 25, START, MARK, END, PAD.
    """

    kind: ClassVar[str] = "copy"
    vocabulary: ClassVar[int] = 32

    START: ClassVar[int] = 26
    MARK: ClassVar[int] = 27
    END: ClassVar[int] = 28
    PAD: ClassVar[int] = 29

    @classmethod
    def positions(cls, train_length: int) -> int:
        return 2 * train_length + 2

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        lengths = torch.randint(1, self.train_length + 1, (size,), generator=generator)
        return self._strings(lengths, self.positions(self.train_length), generator)

    def of_length(self, size: int, length: int, generator: torch.Generator) -> Batch:
        """Return strings of one length."""
        return self._strings(torch.full((size,), length), 2 * length + 2, generator)

    def _strings(self, lengths: Tensor, positions: int, generator: torch.Generator) -> Batch:
        letters = torch.randint(26, (len(lengths), positions + 1), generator=generator)
        place = torch.arange(positions + 1)
        n = lengths[:, None]
        # START, n letters, MARK, the same n letters, END, PAD ...
        source = torch.where(place <= n, place, place - n - 1).clamp(min=0)
        tokens = letters.gather(1, source)
        for mark, at in ((self.START, 0 * n), (self.MARK, n + 1), (self.END, 2 * n + 2)):
            tokens = tokens.masked_fill(place == at, mark)
        tokens = tokens.masked_fill(place > 2 * n + 2, self.PAD)
        scored = (place > n + 1) & (place <= 2 * n + 2)
        return tokens[:, :-1], tokens.masked_fill(~scored, IGNORED)[:, 1:]


TASKS: dict[str, type[Task]] = {task.kind: task for task in (Language, Recall, Copy)}
