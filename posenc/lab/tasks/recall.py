"""A key whose value is recalled."""

from dataclasses import dataclass
from math import comb
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from posenc.lab.tasks.base import IGNORED, Asked, Batch, Questions, contexts

# The share of a text before the asked pair, by the measure of a row of the map of depth by length.
DEPTHS = {f"recall at depth {depth}%": depth / 100 for depth in (0, 25, 50, 75, 100)}


@dataclass(frozen=True, eq=False)
class Recall(Questions):
    """Recall the values of four key-value pairs.

    Tokens: filler 0 .. 127, keys 128 .. 159, values 160 .. 255, in slots of two tokens. Four random
    slots of the first half hold distinct pairs. Every slot of the second half is a question, one of
    the four keys drawn uniformly, and a filler: position alone answers one in four correctly.
    """

    kind: ClassVar[str] = "recall"
    label: ClassVar[str] = "Recall"
    learns: ClassVar[str] = "the value that belongs to a key"
    vocabulary: ClassVar[int] = 256
    # Protocol 1 asked at even distances, which training lacks. Protocol 2 placed the pairs first,
    # where absolute tables find them at any distance.
    protocol: ClassVar[int] = 3
    x: ClassVar[str] = "tokens between value and question"
    y: ClassVar[str] = "values recalled"
    doubles: ClassVar[bool] = True
    boundary: ClassVar[str] = "farthest in training"
    of_details: ClassVar[str] = (
        "Accuracy by depth of the pair, 0% at the begin, and length of the text"
    )
    about: ClassVar[str] = (
        "Four key-value pairs stand at random places; one of the keys asks for its value. "
        "Training on {length} tokens shows distances up to {farthest}. The dotted line is guessing "
        "among the four values. The dashed line is a rule that knows the distance and compares no keys: "
        "past {farthest} tokens it is right in {by_position:.1%} of cases. Three of the models that ship, "
        "trained again with other instructions of the processor, changed by up to 2.5 percentage points "
        "there."
    )

    PAIRS: ClassVar[int] = 4
    FILLERS: ClassVar[int] = 128
    KEYS: ClassVar[int] = 32
    VALUES: ClassVar[int] = 96
    ROWS: ClassVar[int] = 400  # questions per distance
    ROWS_OF_MAP: ClassVar[int] = 200  # questions per depth and length

    @property
    def half(self) -> int:
        """Number of slots in the first half."""
        return self.train_length // 4

    @classmethod
    def farthest(cls, train_length: int) -> int:
        """Return the largest distance in training, in tokens from value to question."""
        return train_length - 3 + train_length % 2

    @classmethod
    def chance(cls, train_length: int, x: int) -> float:
        """Return the accuracy of guessing among the four values."""
        return 1 / cls.PAIRS

    @classmethod
    def by_position(cls, train_length: int, x: int) -> float:
        """Return the accuracy at a distance of the best rule on positions alone.

        The rule knows the distance and where the question stands, and answers with the first, second,
        third or fourth value. Its slot of the first half is the asked pair's only in training.
        """
        slots, others = train_length // 4, cls.PAIRS - 1
        apart, odd = (x + 1) // 2, train_length - 1
        past = x > cls.farthest(train_length)
        # Where the first of the slots stands, and whether one more filler comes first.
        starts = range(slots) if past else range(1)
        fillers = range(1 if past or apart > (train_length - 2) // 2 else 2)
        right = 0.0
        for later in fillers:
            high = slots if past else min(slots, (odd - later) // 2 - apart + 1)
            low = 0 if past else max(0, slots - apart)
            asked: dict[int, list[int]] = {}  # slots from which one place asks
            for start in starts:
                for place in range(low, high):
                    asked.setdefault(start + place, []).append(place)
            best = sum(
                max(
                    sum(comb(place, rank) * comb(slots - 1 - place, others - rank) for place in own)
                    for rank in range(cls.PAIRS)
                )
                for own in asked.values()
            )
            right += best / (len(starts) * (high - low) * comb(slots - 1, others))
        return right / len(fillers)

    @classmethod
    def asked(cls, train_length: int, longest: int) -> list[Asked]:
        by_distance = [
            Asked(cls.kind, x, cls.ROWS, cls.text_length(train_length, x))
            for x in distances(train_length, longest)
        ]
        lengths = [length for length in contexts(train_length, longest) if length >= train_length]
        return by_distance + [
            Asked(depth, length, cls.ROWS_OF_MAP, length - 1 + length % 2, stretched=False)
            for depth in DEPTHS
            for length in lengths
        ]

    @classmethod
    def long_length(cls, train_length: int, longest: int) -> int:
        return longest * train_length

    @classmethod
    def text_length(cls, train_length: int, distance: int) -> int:
        """Return the number of tokens in a row that asks at a distance."""
        if distance <= cls.farthest(train_length):
            return train_length
        half = train_length // 4
        return 2 * (-(-train_length // 2) + 2 * half - 2) + 3 + distance

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

    def questions(self, asked: Asked, generator: torch.Generator) -> Batch:
        if asked.measure == self.kind:
            return self._at_distance(asked.rows, asked.x, generator)
        return self._at_depth(asked, DEPTHS[asked.measure], generator)

    def _at_distance(self, size: int, distance: int, generator: torch.Generator) -> Batch:
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
            self.FILLERS, (size, self.text_length(length, distance)), generator=generator
        )
        inputs.scatter_(1, at, keys).scatter_(1, at + 1, values)
        inputs.scatter_(1, asked, keys[:, :1])
        targets = torch.full_like(inputs, IGNORED).scatter_(1, asked, values[:, :1])
        return inputs, targets

    def _at_depth(self, asked: Asked, depth: float, generator: torch.Generator) -> Batch:
        """Return rows that end with a question on a pair at a share `depth` of the text before it.

        The other three pairs stand anywhere else.
        """
        size, slots = asked.rows, asked.length // 2  # the question is the token after them
        place = torch.full((size, 1), round(depth * (slots - 1)))
        others = torch.rand(size, slots - 1, generator=generator).argsort(dim=1)
        others = others[:, : self.PAIRS - 1]
        at = 2 * torch.cat((place, others + (others >= place)), dim=1)
        keys, values = self._pairs(size, generator)
        inputs = torch.randint(self.FILLERS, (size, asked.length), generator=generator)
        inputs.scatter_(1, at, keys).scatter_(1, at + 1, values)
        inputs[:, -1:] = keys[:, :1]
        targets = torch.full_like(inputs, IGNORED)
        targets[:, -1:] = values[:, :1]
        return inputs, targets

    def _pairs(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        keys, values = (
            torch.rand(size, count, generator=generator).argsort(dim=1)[:, : self.PAIRS]
            for count in (self.KEYS, self.VALUES)
        )
        return keys + self.FILLERS, values + self.FILLERS + self.KEYS


def distances(train_length: int, longest: int) -> list[int]:
    """Return the recall distances evaluated, in tokens, odd as in training.

    Those are eighths of the farthest in training, then one per context length past it.
    """
    farthest = Recall.farthest(train_length)
    inside = {farthest * eighth // 8 | 1 for eighth in range(9)}
    past = {(n - 1) | 1 for n in contexts(train_length, longest)}
    return sorted(inside | {distance for distance in past if distance > farthest})
