"""What a model is trained on: bytes of text, a key to recall, a string to copy.

A task makes batches of (inputs, targets); a target of IGNORED is not scored. Batches depend on the
generator alone, so that every scheme of a comparison sees the same data in the same order.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from posenc.lab.corpus import Corpus

IGNORED = -100  # cross_entropy's own mark
Batch = tuple[Int[Tensor, "b t"], Int[Tensor, "b t"]]


@dataclass(frozen=True, eq=False)
class Task(ABC):
    """Batches of sequences up to a training length."""

    train_length: int

    kind: ClassVar[str]
    vocabulary: ClassVar[int]
    # Raised whenever the task or its evaluation changes what the same specification gives.
    protocol: ClassVar[int] = 1

    @classmethod
    def positions(cls, train_length: int) -> int:
        """Number of positions that training shows: what a learned table has rows for."""
        return train_length

    @abstractmethod
    def batch(self, size: int, generator: torch.Generator) -> Batch:
        """Return `size` training sequences and their targets."""


@dataclass(frozen=True, eq=False)
class Language(Task):
    """The next byte of real text, at every position."""

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
    """Four keys with their values early, some of them asked for again later among filler.

    Tokens: filler 0 .. 127, keys 128 .. 159, values 160 .. 255. A value is scored wherever its key
    was asked for again; guessing among the four values is right one time in four.
    """

    kind: ClassVar[str] = "recall"
    vocabulary: ClassVar[int] = 256
    protocol: ClassVar[int] = 2  # 1 asked at even distances, which training never shows

    PAIRS: ClassVar[int] = 4
    ASKED: ClassVar[float] = 0.25  # share of the later places of two tokens that ask

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        # Everything in places of two tokens; half the rows begin with one filler more, or a token
        # would tell by its position whether it is a key.
        places = -(-(self.train_length + 1) // 2)
        keys, values = self._pairs(size, generator)
        tokens = torch.randint(128, (size, places, 2), generator=generator)
        tokens[:, : self.PAIRS] = torch.stack((keys, values), dim=-1)
        asked = torch.rand(size, places - self.PAIRS, generator=generator) < self.ASKED
        which = torch.randint(self.PAIRS, asked.shape, generator=generator)
        again = torch.stack((keys.gather(1, which), values.gather(1, which)), dim=-1)
        later = tokens[:, self.PAIRS :]
        later[asked] = again[asked]
        scored = torch.zeros(tokens.shape, dtype=torch.bool)
        scored[:, self.PAIRS :, 1] = asked
        filler = torch.randint(128, (size, 1), generator=generator)
        flat = torch.cat((filler, tokens.flatten(1)), dim=1)
        scored = functional.pad(scored.flatten(1), (1, 0))
        first = torch.randint(2, (size, 1), generator=generator)
        index = torch.arange(self.train_length + 1) + first
        flat, scored = flat.gather(1, index), scored.gather(1, index)
        return flat[:, :-1], flat[:, 1:].masked_fill(~scored[:, 1:], IGNORED)

    def at_distance(
        self, size: int, distance: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "b t"], Int[Tensor, " b"]]:
        """Return sequences whose last token asks for a value seen `distance` tokens before, and it.

        distance: from the value to the key that asks, at least 2 PAIRS - 1; odd, as in training,
        where everything stands in places of two tokens.
        """
        keys, values = self._pairs(size, generator)
        which = torch.randint(self.PAIRS, (size, 1), generator=generator)
        # The asked pair is placed first, so that its distance is exact for every row.
        order = (torch.arange(self.PAIRS) + which) % self.PAIRS
        pairs = torch.stack((keys.gather(1, order), values.gather(1, order)), dim=-1).flatten(1)
        filler = torch.randint(
            128, (size, distance - 2 * (self.PAIRS - 1) - 1), generator=generator
        )
        asked = keys.gather(1, which)
        return torch.cat((pairs, filler, asked), dim=1), values.gather(1, which)[:, 0]

    def _pairs(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        keys = torch.rand(size, 32, generator=generator).argsort(dim=1)[:, : self.PAIRS] + 128
        return keys, torch.randint(160, 256, (size, self.PAIRS), generator=generator)


@dataclass(frozen=True, eq=False)
class Copy(Task):
    """A string of up to `train_length` letters, a mark, and the string again.

    Kazemnejad et al. 2023, arXiv 2305.19466: trained on lengths up to 20, tested to 40. Tokens:
    letters 0 .. 25, START, MARK, END, PAD.
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
