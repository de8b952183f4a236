"""Text as bytes, split into training and validation."""

import functools
import hashlib
import platform
import re
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from posenc.errors import CorpusError

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
