"""One bit of memory that instructions write and read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from posenc.lab.tasks.base import IGNORED, Asked, Batch, Questions


@dataclass(frozen=True, eq=False)
class FlipFlop(Questions):
    """Say the bit that was written last: the language FFL of Liu et al. 2023, arXiv 2306.00946.

    A text is pairs of an instruction and a bit. The first instruction writes, the last one reads; of the
    others IGNORED_SHARE are ignored in training and half of the rest write. A read is followed by the bit
    that was written last, which alone is scored; the other bits are random. Tokens: bits 0 and 1, WRITE,
    READ, IGNORE.
    """

    kind: ClassVar[str] = "flip_flop"
    label: ClassVar[str] = "Flip-flop"
    learns: ClassVar[str] = "the bit that was written last"
    vocabulary: ClassVar[int] = 5
    # One layer of width 64 with two heads, as in Yang et al. 2025, arXiv 2505.16381, table 1.
    sizes: ClassVar[Mapping[str, Any]] = {
        "train_length": 64, "steps": (600,), "widths": (64,), "layers": 1, "heads": 2,
    }  # fmt: skip
    x: ClassVar[str] = "percent of instructions to ignore"
    y: ClassVar[str] = "bits read correctly"
    boundary: ClassVar[str] = "in training"
    whole_rows: ClassVar[bool] = False
    longer: ClassVar[bool] = False
    about: ClassVar[str] = (
        "Instructions write, read or ignore a bit; a read asks for the bit that was written last (Liu et "
        "al. 2023, arXiv 2306.00946). In training {farthest}% of the instructions are ignored. The dotted "
        "line is guessing. The dashed line is a rule that repeats a bit by its place alone, often the "
        "first one: at {last}% it is right in {by_position:.1%} of cases."
    )

    WRITE: ClassVar[int] = 2
    READ: ClassVar[int] = 3
    IGNORE: ClassVar[int] = 4
    TRAINED: ClassVar[int] = 80  # percent of instructions that are ignored in training
    DENSE: ClassVar[int] = 10
    SPARSE: ClassVar[int] = 98
    READS: ClassVar[int] = 4_000  # scored at each share, about

    @classmethod
    def positions(cls, train_length: int) -> int:
        """Return the number of tokens in training, two for each instruction."""
        return train_length - train_length % 2

    @classmethod
    def farthest(cls, train_length: int) -> int:
        return cls.TRAINED

    @classmethod
    def as_in_training(cls, train_length: int, x: int) -> bool:
        return x == cls.TRAINED

    @classmethod
    def chance(cls, train_length: int, x: int) -> float:
        return 1 / 2

    @classmethod
    def by_position(cls, train_length: int, x: int) -> float:
        """Return the share of reads that are right by the best place for each place of a read.

        The bit of an instruction is that of the memory if it was not ignored and nothing was written
        since, else it is random.
        """
        count, write = train_length // 2, (1 - x / 100) / 2
        right = weight = 0.0
        for at in range(1, count):
            # Whether the instruction `back` places before is still valid at the read.
            valid = [
                (2 * write if back < at else 1.0) * (1 - write) ** (back - 1)
                for back in range(1, at + 1)
            ]
            reads = 1.0 if at == count - 1 else write
            right += reads * (1 + max(valid)) / 2
            weight += reads
        return right / weight

    @classmethod
    def asked(cls, train_length: int, longest: int) -> list[Asked]:
        length = cls.positions(train_length)
        return [
            Asked(cls.kind, x, cls._rows(length, x), length)
            for x in (cls.DENSE, cls.TRAINED, cls.SPARSE)
        ]

    @classmethod
    def _rows(cls, length: int, x: int) -> int:
        """Return how many texts have about READS reads."""
        reads = 1 + (length // 2 - 2) * (100 - x) / 200
        return round(cls.READS / reads)

    @classmethod
    def long_length(cls, train_length: int, longest: int) -> int:
        return longest * train_length

    def batch(self, size: int, generator: torch.Generator) -> Batch:
        return self._texts(size, self.TRAINED, generator)

    def questions(self, asked: Asked, generator: torch.Generator) -> Batch:
        return self._texts(asked.rows, asked.x, generator)

    def _texts(self, size: int, percent: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        count = self.train_length // 2
        drawn = torch.rand(size, count, generator=generator)
        write = (1 - percent / 100) / 2
        instructions = torch.full((size, count), self.IGNORE)
        instructions.masked_fill_(drawn < 2 * write, self.READ).masked_fill_(
            drawn < write, self.WRITE
        )
        instructions[:, 0], instructions[:, -1] = self.WRITE, self.READ
        bits = torch.randint(2, (size, count), generator=generator)
        # The memory at an instruction is the bit of the last write up to it.
        place = torch.arange(count).expand(size, -1)
        last = place.masked_fill(instructions != self.WRITE, 0).cummax(dim=1).values
        reads = instructions == self.READ
        bits = torch.where(reads, bits.gather(1, last), bits)
        inputs = torch.stack((instructions, bits), dim=2).flatten(1)
        targets = torch.full_like(inputs, IGNORED)
        targets[:, ::2] = bits.masked_fill(~reads, IGNORED)
        return inputs, targets
