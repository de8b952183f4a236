"""A string to copy."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from posenc.lab.tasks.base import IGNORED, Asked, Batch, Questions


@dataclass(frozen=True, eq=False)
class Copy(Questions):
    """Copy a string of up to `train_length` letters after a mark: Kazemnejad et al. 2023, arXiv
    2305.19466. Tokens: letters 0 .. 25, START, MARK, END, PAD.
    """

    kind: ClassVar[str] = "copy"
    label: ClassVar[str] = "Copy"
    learns: ClassVar[str] = "a string again"
    unit: ClassVar[str] = "letter"
    vocabulary: ClassVar[int] = 32
    x: ClassVar[str] = "letters"
    y: ClassVar[str] = "strings copied without an error"
    learned_first: ClassVar[bool] = False
    about: ClassVar[str] = (
        "Models copy a string of up to {length} letters in training and up to twice as many here "
        "(Kazemnejad et al. 2023, arXiv 2305.19466)."
    )

    LETTERS: ClassVar[int] = 26
    START: ClassVar[int] = 26
    MARK: ClassVar[int] = 27
    END: ClassVar[int] = 28
    PAD: ClassVar[int] = 29
    ROWS: ClassVar[int] = 200  # strings per length

    @classmethod
    def positions(cls, train_length: int) -> int:
        return 2 * train_length + 2

    @classmethod
    def farthest(cls, train_length: int) -> int:
        return train_length

    @classmethod
    def as_in_training(cls, train_length: int, x: int) -> bool:
        return x == train_length

    @classmethod
    def chance(cls, train_length: int, x: int) -> float:
        return cls.LETTERS**-x

    @classmethod
    def by_position(cls, train_length: int, x: int) -> float:
        """Return 1: every letter of the copy stands x + 1 places before, so that no letter is compared."""
        return 1.0

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
