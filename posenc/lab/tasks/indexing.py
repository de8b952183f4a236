"""A letter that is found by its distance from another letter."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from posenc.lab.tasks.base import IGNORED, Asked, Batch, Questions


@dataclass(frozen=True, eq=False)
class Indexing(Questions):
    """Name the letter some places left or right of another: indirect indexing as in Gopalakrishnan et al.
    2025, arXiv 2509.10534, table 1, in a smaller size.

    A string of distinct letters, MARK, then questions: a shift of 1 to SHIFTS places to either side, and a
    letter of the string from which it goes. The answer is the letter there. In training strings have half
    to all of `train_length` letters. Tokens: letters 0 .. 63, MARK, PAD, shifts to the left, to the right.
    """

    kind: ClassVar[str] = "indexing"
    label: ClassVar[str] = "Indexing"
    learns: ClassVar[str] = "the letter some places beside another"
    unit: ClassVar[str] = "letter"
    vocabulary: ClassVar[int] = 70
    sizes: ClassVar[Mapping[str, Any]] = {
        "train_length": 16, "steps": (3_000,), "widths": (64,), "layers": 2, "heads": 4,
    }  # fmt: skip
    most: ClassVar[int] = 32  # twice as many letters are distinct
    x: ClassVar[str] = "letters"
    y: ClassVar[str] = "letters found"
    whole_rows: ClassVar[bool] = False
    about: ClassVar[str] = (
        "A question names a shift of up to 2 places to the left or right and a letter of a string; the "
        "answer is the letter there (after Gopalakrishnan et al. 2025, arXiv 2509.10534). Training shows "
        "strings of up to {length} letters. The dotted line is guessing among the letters of the string. "
        "A rule that chooses a letter by its place alone is right in {by_position:.1%} of cases at {last} "
        "letters."
    )

    LETTERS: ClassVar[int] = 64
    MARK: ClassVar[int] = 64
    PAD: ClassVar[int] = 65
    FIRST_SHIFT: ClassVar[int] = 66
    SHIFTS: ClassVar[int] = 2  # to each side
    ROWS: ClassVar[int] = 100  # strings per length

    @classmethod
    def count(cls, train_length: int) -> int:
        """Return the number of questions of a string."""
        return train_length // 2

    @classmethod
    def positions(cls, train_length: int) -> int:
        return train_length + 1 + 2 * cls.count(train_length)

    @classmethod
    def farthest(cls, train_length: int) -> int:
        return train_length

    @classmethod
    def chance(cls, train_length: int, x: int) -> float:
        return 1 / x

    @classmethod
    def by_position(cls, train_length: int, x: int) -> float:
        """Return the share of answers that stand at the most frequent place of a string of x letters."""
        shifts = [shift for size in range(1, cls.SHIFTS + 1) for shift in (-size, size)]
        answers = [0.0] * x
        for shift in shifts:
            sources = range(max(0, -shift), min(x, x - shift))
            for source in sources:
                answers[source + shift] += 1 / (len(shifts) * len(sources))
        return max(answers)

    @classmethod
    def asked(cls, train_length: int, longest: int) -> list[Asked]:
        least, eighth = (train_length + 1) // 2, max(1, train_length // 8)
        lengths = {*range(train_length, least - 1, -eighth)}
        lengths |= {train_length * quarters // 4 for quarters in (5, 6, 8)}
        own = 2 * cls.count(train_length) + 1
        return [Asked(cls.kind, n, cls.ROWS, n + own) for n in sorted(lengths)]

    @classmethod
    def long_length(cls, train_length: int, longest: int) -> int:
        return 2 * train_length

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        least = (self.train_length + 1) // 2
        lengths = torch.randint(least, self.train_length + 1, (size,), generator=generator)
        return self._strings(lengths, self.positions(self.train_length), generator)

    def questions(self, asked: Asked, generator: torch.Generator) -> Batch:
        return self._strings(torch.full((asked.rows,), asked.x), asked.length, generator)

    def _strings(self, lengths: Tensor, positions: int, generator: torch.Generator) -> Batch:
        size, count, n = len(lengths), self.count(self.train_length), lengths[:, None]
        letters = torch.rand(size, self.LETTERS, generator=generator).argsort(dim=1)
        shape = size, count
        distance = torch.randint(1, self.SHIFTS + 1, shape, generator=generator)
        right = torch.randint(2, shape, generator=generator).bool()
        # The leftmost of both letters, so that both are in the string.
        first = (torch.rand(shape, generator=generator) * (n - distance)).long()
        source, answer = torch.where(right, first, first + distance), first + distance * right
        shift = self.FIRST_SHIFT + distance - 1 + self.SHIFTS * right
        place = torch.arange(positions).expand(size, -1)
        tokens = torch.where(
            place < n, letters.gather(1, place.clamp(max=self.LETTERS - 1)), self.PAD
        )
        tokens.scatter_(1, n, self.MARK)
        at = n + 1 + 2 * torch.arange(count)
        tokens.scatter_(1, at, shift).scatter_(1, at + 1, letters.gather(1, source))
        targets = torch.full_like(tokens, IGNORED)
        return tokens, targets.scatter_(1, at + 1, letters.gather(1, answer))
