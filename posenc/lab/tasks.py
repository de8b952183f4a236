"""Tasks that models are trained on: bytes of text, a key to recall, a string to copy.

A task makes batches of (inputs, targets); a target of IGNORED is not scored. Batches depend on the
generator alone, so every scheme of a comparison sees the same data in the same order.
"""

import functools
import hashlib
import platform
import re
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.nn import functional

from posenc.errors import CorpusError


def generator_for(seed: int, use: str, index: int = 0) -> torch.Generator:
    """Return the CPU generator of one use ("weights", "data", ...) and one index of it."""
    digest = hashlib.sha256(f"{seed}/{use}/{index}".encode()).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(digest[:8], "big") >> 1)


VALIDATION_SHARE = 10  # one file (or byte) in ten is never trained on
LEAST_BYTES = 20_000
MOST_REPLACED = 0.1  # share of bytes that are no UTF-8, above which a file is no text
# Tests repeat themselves, installed packages differ by machine, and so do recorded build settings.
_LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
_MACHINE_MADE = "_sysconfigdata"


@dataclass(frozen=True, eq=False)
class Corpus:
    """Bytes to train on and bytes to measure on; no byte of a file is in both.

    sha256: of every file's name, length and bytes. replaced: bytes that were no UTF-8 and became
    U+FFFD.
    """

    name: str
    train: UInt8[Tensor, " n"]
    validation: UInt8[Tensor, " m"]
    sha256: str
    files: int
    replaced: int = 0


@functools.cache
def standard_library() -> Corpus:
    """Return the standard library's sources, in order of their paths, tests left out."""
    root = Path(sysconfig.get_path("stdlib"))
    files = []
    for path in root.rglob("*.py"):
        relative = PurePosixPath(path.relative_to(root).as_posix())
        if not _LEFT_OUT.intersection(relative.parts) and not relative.name.startswith(
            _MACHINE_MADE
        ):
            files.append((str(relative), path.read_bytes()))
    return from_files(f"standard library of Python {platform.python_version()}", files)


def from_files(name: str, files: Iterable[tuple[str, bytes]]) -> Corpus:
    """Make a corpus of (path, bytes): whole files for validation, chosen by a hash of their paths.

    Raises CorpusError for fewer than 20,000 bytes, or fewer than 1,000 for validation.
    """
    sides: tuple[list[bytes], list[bytes]] = ([], [])
    digest = hashlib.sha256()
    count = 0
    for path, content in sorted(files):
        count += 1
        for part in (path.encode(), content):
            digest.update(len(part).to_bytes(8, "big") + part)
        chosen = int(hashlib.sha256(path.encode()).hexdigest(), 16) % VALIDATION_SHARE == 0
        sides[chosen].append(content)
    train, validation = (b"\n".join(side) for side in sides)
    return _corpus(name, train, validation, digest.hexdigest(), count, 0)


def from_text(name: str, content: bytes) -> Corpus:
    """Make a corpus of one text: its last tenth, from a new line on if there is one, is for validation.

    Decoded as UTF-8; what is no UTF-8 becomes U+FFFD and is counted. Raises CorpusError for an empty
    or short text and for a file that is no text.
    """
    if not content:
        raise CorpusError("The text is empty.")
    text, replaced = decoded(content)
    if b"\0" in content or replaced > MOST_REPLACED * len(content):
        raise CorpusError(
            "The file is no UTF-8 text: it holds zero bytes or too many bytes that no such text has; one "
            "in another encoding must be converted first."
        )
    whole = text.encode()
    cut = len(whole) - len(whole) // VALIDATION_SHARE
    cut = whole.find(b"\n", cut, cut + len(whole) // (2 * VALIDATION_SHARE)) + 1 or cut
    digest = hashlib.sha256(content).hexdigest()
    return _corpus(name, whole[:cut], whole[cut:], digest, 1, replaced)


def decoded(content: bytes) -> tuple[str, int]:
    """Return UTF-8 text and how many bytes of it were none and became U+FFFD."""
    # Python marks each such byte by one code that no UTF-8 text has; once through, however many.
    marked = content.decode("utf-8", "surrogateescape")
    return content.decode("utf-8", "replace"), len(re.findall("[\udc80-\udcff]", marked))


def _corpus(
    name: str, train: bytes, validation: bytes, sha256: str, files: int, replaced: int
) -> Corpus:
    if len(train) + len(validation) < LEAST_BYTES or len(validation) < LEAST_BYTES // 20:
        raise CorpusError(
            f"A corpus must have at least {LEAST_BYTES:,} bytes, a tenth of them for validation, got "
            f"{len(train) + len(validation):,}, of which {len(validation):,} are for validation."
        )
    return Corpus(name, _tensor(train), _tensor(validation), sha256, files, replaced)


def _tensor(content: bytes) -> UInt8[Tensor, " n"]:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


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
class Questions:
    """Recall questions at one distance: the token at `asked` is the key, `answers` its value."""

    inputs: Int[Tensor, "b t"]
    asked: Int[Tensor, " b"]
    answers: Int[Tensor, " b"]


@dataclass(frozen=True, eq=False)
class Recall(Task):
    """Four key-value pairs at random places of the first half, and keys that ask for their value.

    Tokens: filler 0 .. 127, keys 128 .. 159, values 160 .. 255, in places of two tokens. Four places
    of the first half, drawn for each sequence, hold a key and its value, all of them different; every
    place of the second half repeats one of the four keys, which asks for its value, and a filler.
    Which one is drawn uniformly, so the place of a question says nothing about the place of its pair,
    and whoever goes by positions alone is right one time in four. That is of training: `at_distance`
    asks at one distance, where short ones leave the last pair and long ones the first more often.
    """

    kind: ClassVar[str] = "recall"
    vocabulary: ClassVar[int] = 256
    # 1 asked at even distances, which training never shows. 2 kept the pairs at the first positions,
    # in training and in evaluation, where absolute tables find them at any distance.
    protocol: ClassVar[int] = 3

    PAIRS: ClassVar[int] = 4
    CHANCE: ClassVar[float] = 1 / PAIRS  # guessing among the values shown
    FILLERS: ClassVar[int] = 128
    KEYS: ClassVar[int] = 32
    VALUES: ClassVar[int] = 96

    @property
    def half(self) -> int:
        """Number of places among which the four pairs are drawn."""
        return self.train_length // 4

    @classmethod
    def farthest(cls, train_length: int) -> int:
        """Return the largest distance in tokens, from value to question, that training shows."""
        return train_length - 3 + train_length % 2

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
        # Half the rows begin with one filler more, or a token would tell by its position whether it
        # may be a key.
        filler = torch.randint(self.FILLERS, (size, 1), generator=generator)
        later = torch.randint(2, (size, 1), generator=generator)
        index = torch.arange(self.train_length) + 1 - later
        return (
            torch.cat((filler, tokens), dim=1).gather(1, index),
            functional.pad(targets, (1, 0), value=IGNORED).gather(1, index),
        )

    def at_distance(self, size: int, distance: int, generator: torch.Generator) -> Questions:
        """Return one question per row, asked exactly `distance` tokens after its value: odd, from 1.

        All other tokens are filler, or the other three pairs. Up to the farthest distance of training,
        pairs and question stand at places that training uses, anywhere that the distance leaves room: at
        the farthest the asked pair is always the first. Beyond it all stand past the training length,
        at places that do not depend on the distance, and the asked pair is the first, second, third or
        last of the four alike.
        """
        half, length, apart = self.half, self.train_length, (distance + 1) // 2
        later = torch.randint(2, (size,), generator=generator)
        start, low, high = torch.zeros_like(later), 0, torch.full_like(later, half)
        if distance > self.farthest(length):
            start = -(-length // 2) + torch.randint(half, (size,), generator=generator)
        else:
            later = later * (apart <= (length - 2) // 2)  # one filler more, where it leaves room
            low = max(0, half - apart)
            high = ((length - 1 - later) // 2 - apart + 1).clamp(max=half)
        place = low + (torch.rand(size, generator=generator) * (high - low)).long()
        others = torch.rand(size, half - 1, generator=generator).argsort(dim=1)[:, : self.PAIRS - 1]
        others = others + (others >= place[:, None])  # any place but that of the asked pair
        at = 2 * (start[:, None] + torch.cat((place[:, None], others), dim=1)) + later[:, None]
        keys, values = self._pairs(size, generator)
        asked = at[:, 0] + 1 + distance
        inputs = torch.randint(
            self.FILLERS, (size, self.text_length(distance)), generator=generator
        )
        inputs.scatter_(1, at, keys).scatter_(1, at + 1, values)
        inputs.scatter_(1, asked[:, None], keys[:, :1])
        return Questions(inputs, asked, values[:, 0])

    def text_length(self, distance: int) -> int:
        """Return the number of tokens of the texts of `at_distance`."""
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
