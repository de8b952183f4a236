"""Training tasks: bytes of text, a key to recall, a string to copy.

Batches depend on the generator alone, so all schemes see the same data in the same order.
"""

import functools
import hashlib
import platform
import re
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.nn import functional

from posenc.errors import CorpusError


def generator_for(seed: int, use: str, index: int = 0) -> torch.Generator:
    """Return the CPU generator for a use, such as "data", and an index, such as a step."""
    digest = hashlib.sha256(f"{seed}/{use}/{index}".encode()).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(digest[:8], "big") >> 1)


VALIDATION_SHARE = 10  # one file (or byte) in ten is for validation
LEAST_BYTES = 20_000
PAIR_COUNT = 0.01  # so that a pair that the training text lacks has a probability
MOST_REPLACED = 0.1  # a file with a larger share of invalid UTF-8 is no text
# Tests are repetitive; installed packages and build settings differ by machine.
_SKIPPED = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}


@dataclass(frozen=True, eq=False)
class Corpus:
    """Text as bytes, split into training and validation.

    sha256: of all names, lengths and bytes. replaced: number of bytes that became U+FFFD.
    """

    name: str
    train: UInt8[Tensor, " n"]
    validation: UInt8[Tensor, " m"]
    sha256: str
    replaced: int = 0

    @functools.cached_property
    def pair_loss(self) -> float:
        """Loss (nats per byte) of the frequencies of byte pairs: one byte of context and no position.

        Counted in the training text, with PAIR_COUNT added to each, and scored on the validation text.
        """
        pairs = self.train[:-1].long() * 256 + self.train[1:]
        counts = torch.bincount(pairs, minlength=256**2).double().view(256, 256) + PAIR_COUNT
        likelihood = (counts / counts.sum(dim=1, keepdim=True)).log()
        return -float(likelihood[self.validation[:-1].long(), self.validation[1:].long()].mean())


@functools.cache
def standard_library() -> Corpus:
    """Return the sources of Python's standard library without its tests."""
    root = Path(sysconfig.get_path("stdlib"))
    files = []
    for path in root.rglob("*.py"):
        relative = path.relative_to(root)
        skipped = _SKIPPED.intersection(relative.parts) or path.name.startswith("_sysconfigdata")
        if not skipped:
            files.append((relative.as_posix(), path.read_bytes()))
    return from_files(f"standard library of Python {platform.python_version()}", files)


def from_files(name: str, files: Iterable[tuple[str, bytes]]) -> Corpus:
    """Return the corpus of (path, bytes); a hash of the paths chooses the files for validation.

    Raises CorpusError for fewer than 20,000 bytes, or fewer than 1,000 for validation.
    """
    sides: tuple[list[bytes], list[bytes]] = ([], [])
    digest = hashlib.sha256()
    for path, content in sorted(files):
        for part in (path.encode(), content):
            digest.update(len(part).to_bytes(8, "big") + part)
        validates = int(hashlib.sha256(path.encode()).hexdigest(), 16) % VALIDATION_SHARE == 0
        sides[validates].append(content)
    train, validation = (b"\n".join(side) for side in sides)
    return _corpus(name, train, validation, digest.hexdigest())


def from_text(name: str, content: bytes) -> Corpus:
    """Return the corpus of one UTF-8 text; its last tenth is for validation.

    Invalid bytes become U+FFFD. Raises CorpusError for a short text and for a file that is no text.
    """
    if not isinstance(content, bytes):
        raise CorpusError(f"The text must be bytes, got {type(content).__name__}.")
    if not content:
        raise CorpusError("The text is empty.")
    text, replaced = decoded(content)
    if b"\0" in content or replaced > MOST_REPLACED * len(content):
        raise CorpusError(
            "The file is no UTF-8 text: it holds zero bytes or too many bytes that no such text has; a "
            "text in another encoding must be converted first."
        )
    whole = text.encode()
    cut = len(whole) - len(whole) // VALIDATION_SHARE
    cut = whole.find(b"\n", cut, cut + len(whole) // (2 * VALIDATION_SHARE)) + 1 or cut
    digest = hashlib.sha256(content).hexdigest()
    return _corpus(name, whole[:cut], whole[cut:], digest, replaced)


def decoded(content: bytes) -> tuple[str, int]:
    """Return a text, its invalid UTF-8 as U+FFFD, and the number of bytes replaced."""
    # surrogateescape decodes each invalid byte to a code that valid text cannot contain.
    marked = content.decode("utf-8", "surrogateescape")
    return content.decode("utf-8", "replace"), len(re.findall("[\udc80-\udcff]", marked))


def _corpus(name: str, train: bytes, validation: bytes, sha256: str, replaced: int = 0) -> Corpus:
    if len(train) + len(validation) < LEAST_BYTES or len(validation) < LEAST_BYTES // 20:
        raise CorpusError(
            f"A corpus must have at least {LEAST_BYTES:,} bytes, a tenth of them for validation, got "
            f"{len(train) + len(validation):,}, of which {len(validation):,} are for validation."
        )
    tensors = [torch.frombuffer(bytearray(side), dtype=torch.uint8) for side in (train, validation)]
    return Corpus(name, tensors[0], tensors[1], sha256, replaced)


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
