"""The parity of bits, step by step, with or without index hints."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from posenc.lab.tasks.base import IGNORED, Asked, Batch, Questions


@dataclass(frozen=True, eq=False)
class Parity(Questions):
    """Say after each of up to `train_length` bits whether the ones so far are odd in number.

    START, the bits, MARK, the parity of the first bit, of the first two, ..., of all, END. The answer is
    what follows MARK. Tokens: bits 0 and 1, START, MARK, END, PAD.
    """

    kind: ClassVar[str] = "parity"
    label: ClassVar[str] = "Parity"
    learns: ClassVar[str] = "the parity of bits, step by step"
    unit: ClassVar[str] = "bit"
    vocabulary: ClassVar[int] = 6
    sizes: ClassVar[Mapping[str, Any]] = {
        "train_length": 16, "steps": (2_500,), "widths": (64,), "layers": 2, "heads": 4,
        "learning_rate": 3e-3,
    }  # fmt: skip
    x: ClassVar[str] = "bits"
    y: ClassVar[str] = "answers without an error"
    about: ClassVar[str] = (
        "Models say after each bit of a string whether the ones so far are odd in number. Training shows "
        "up to {length} bits. Index hints are tokens that stand before a bit and before its parity (Zhou "
        "et al. 2024, arXiv 2402.09371)."
    )

    START: ClassVar[int] = 2
    MARK: ClassVar[int] = 3
    END: ClassVar[int] = 4
    PAD: ClassVar[int] = 5
    ROWS: ClassVar[int] = 200  # strings per length
    STRIDE: ClassVar[int] = 1  # tokens of a bit

    @classmethod
    def positions(cls, train_length: int) -> int:
        return 2 * cls.STRIDE * train_length + 2

    @classmethod
    def farthest(cls, train_length: int) -> int:
        return train_length

    @classmethod
    def as_in_training(cls, train_length: int, x: int) -> bool:
        return x == train_length

    @classmethod
    def chance(cls, train_length: int, x: int) -> float:
        return 2.0**-x

    @classmethod
    def by_position(cls, train_length: int, x: int) -> float:
        """Return the accuracy of the best choice of one place for each answer.

        A search over all choices finds this for each number of bits up to 11; the pattern goes on.
        """
        return 1.0 if x == 1 else 0.5 ** (x // 3 + 1)

    @classmethod
    def asked(cls, train_length: int, longest: int) -> list[Asked]:
        lengths = range(1, 2 * train_length + 1)
        return [Asked(cls.kind, n, cls.ROWS, cls.positions(n)) for n in lengths]

    @classmethod
    def long_length(cls, train_length: int, longest: int) -> int:
        return 2 * train_length

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        lengths = torch.randint(1, self.train_length + 1, (size,), generator=generator)
        return self._strings(lengths, self.positions(self.train_length), generator)

    def questions(self, asked: Asked, generator: torch.Generator) -> Batch:
        return self._strings(torch.full((asked.rows,), asked.x), asked.length, generator)

    def _strings(self, lengths: Tensor, positions: int, generator: torch.Generator) -> Batch:
        size, most, n = len(lengths), int(lengths.max()), lengths[:, None]
        bits = torch.randint(2, (size, most), generator=generator)
        steps = self._steps(torch.stack((bits, bits.cumsum(dim=1) % 2), dim=1), generator)
        tokens = torch.full((size, positions + 1), self.PAD)
        tokens[:, 0] = self.START
        place, own = torch.arange(self.STRIDE * most), self.STRIDE * n
        inside = (place < own).expand(size, -1)
        rows = torch.arange(size)[:, None].expand_as(inside)
        for part, start in ((steps[:, 0], 1 + 0 * n), (steps[:, 1], own + 2)):
            tokens[rows[inside], (start + place)[inside]] = part[inside]
        tokens.scatter_(1, own + 1, self.MARK).scatter_(1, 2 * own + 2, self.END)
        place = torch.arange(positions + 1)
        scored = (place > own + 1) & (place <= 2 * own + 2)
        return tokens[:, :-1], tokens.masked_fill(~scored, IGNORED)[:, 1:]

    def _steps(self, values: Tensor, generator: torch.Generator) -> Tensor:
        """Return the tokens of bits and parities, from (rows, 2, bits) to (rows, 2, tokens)."""
        return values


@dataclass(frozen=True, eq=False)
class HintedParity(Parity):
    """Parity with an index hint before each bit and before its parity: Zhou et al. 2024, arXiv 2402.09371.

    The hints of a string are consecutive tokens of a circle of HINTS, from a random one, so that longer
    strings show no hint that training lacks. Tokens: as of Parity, then the hints.
    """

    kind: ClassVar[str] = "parity_hints"
    label: ClassVar[str] = "Parity with hints"
    learns: ClassVar[str] = "the parity of bits, step by step, with index hints"
    HINTS: ClassVar[int] = 128
    vocabulary: ClassVar[int] = 6 + HINTS
    most: ClassVar[int] = HINTS // 2  # twice as many hints are distinct
    STRIDE: ClassVar[int] = 2

    def _steps(self, values: Tensor, generator: torch.Generator) -> Tensor:
        size, _, most = values.shape
        first = torch.randint(self.HINTS, (size, 1), generator=generator)
        hints = Parity.vocabulary + (first + torch.arange(most)) % self.HINTS
        return torch.stack((hints[:, None].expand_as(values), values), dim=3).flatten(2)
