"""Text as bytes, split into training and validation."""

import ast
import functools
import hashlib
import platform
import re
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import UInt8
from torch import Tensor

from posenc.errors import CorpusError

VALIDATION_SHARE = 10  # one file (or byte) in ten is for validation
LEAST_BYTES = 20_000
PAIR_COUNT = 0.01  # so that a pair that the training text lacks has a probability
MOST_REPLACED = 0.1  # a file with a larger share of invalid UTF-8 is no text
APART = 64  # bytes: no window of so many is in both sides of the texts of the protocol
_LEAST_PIECE = 256  # bytes between two windows that are cut out; shorter pieces go too
# Tests are repetitive; installed packages and build settings differ by machine.
_SKIPPED = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}


_TABLES = {"stringprep.py", "html/entities.py"}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_AT_ONCE = 1 << 20  # windows
_HASH_BASE = 0x9E3779B97F4A7C15  # odd


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
    return from_files(f"standard library of Python {platform.python_version()}", _library_files())


@functools.cache
def library_code() -> Corpus:
    """Return the standard library's sources without generated tables, its two sides apart."""
    files = [(name, content) for name, content in _library_files() if not _is_table(name)]
    return from_files(f"code of Python {platform.python_version()}", files, apart=APART)


@functools.cache
def library_prose() -> Corpus:
    """Return English: the standard library's docstrings and pydoc's topics, its two sides apart.

    Each module, and each topic, is one file.
    """
    from pydoc_data.topics import topics

    files = [(f"topics/{name}", text.encode()) for name, text in topics.items()]
    for name, content in _library_files():
        if not _is_table(name) and (text := _docstrings(content)):
            files.append((name, text.encode("utf-8", "replace")))
    return from_files(f"documentation of Python {platform.python_version()}", files, apart=APART)


# The names by which a command and a protocol ask for them.
TEXTS: dict[str, Callable[[], Corpus]] = {
    "library-code": library_code,
    "library-prose": library_prose,
}


def _library_files() -> list[tuple[str, bytes]]:
    """Return the names and bytes of the standard library's sources without its tests."""
    root = Path(sysconfig.get_path("stdlib"))
    files = []
    for path in root.rglob("*.py"):
        relative = path.relative_to(root)
        skipped = _SKIPPED.intersection(relative.parts) or path.name.startswith("_sysconfigdata")
        if not skipped:
            files.append((relative.as_posix(), path.read_bytes()))
    return files


def _is_table(name: str) -> bool:
    """Return whether a source is a generated table, or a text that is no code."""
    return name.startswith(("encodings/", "pydoc_data/")) or name in _TABLES


def _docstrings(source: bytes) -> str:
    """Return the docstrings of a module, in the order of the source, "" if it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a file of examples of another version
        return ""
    found = (
        (node.body[0].lineno, ast.get_docstring(node) or "")
        for node in ast.walk(tree)
        if isinstance(node, _DOCUMENTED) and node.body
    )
    return "\n\n".join(text for _, text in sorted(found) if text)


def from_files(name: str, files: Iterable[tuple[str, bytes]], *, apart: int = 0) -> Corpus:
    """Return the corpus of (path, bytes); a hash of the paths chooses the files for validation.

    apart: where it is not 0, what is in both sides in a window of so many bytes is cut out of the
        validation side.
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
    if apart:
        digest.update(f"apart {apart}, pieces of {_LEAST_PIECE}".encode())
        validation = _apart_from(train, validation, apart)
    return _corpus(name, train, validation, digest.hexdigest())


def _apart_from(train: bytes, text: bytes, size: int) -> bytes:
    """Return a text without the windows of `size` bytes that the training text has, too.

    What is left between two of them stays if it has _LEAST_PIECE bytes.
    """
    if len(text) < size:
        return text
    own = _window_hashes(text, size)
    known = np.unique(own)
    is_seen = np.zeros(len(known), dtype=bool)
    for start in range(0, len(train) - size + 1, _AT_ONCE):  # bounds the memory
        part = _window_hashes(train[start : start + _AT_ONCE + size - 1], size)
        place = np.searchsorted(known, part).clip(max=len(known) - 1)
        is_seen[place[known[place] == part]] = True
    starts = np.flatnonzero(is_seen[np.searchsorted(known, own)])
    covered = np.zeros(len(text) + 1, dtype=np.int64)
    np.add.at(covered, starts, 1)
    np.add.at(covered, starts + size, -1)
    kept = np.concatenate(([False], covered.cumsum()[:-1] == 0, [False]))
    (edges,) = np.nonzero(np.diff(kept))
    pieces = edges.reshape(-1, 2).tolist()
    return b"\n".join(text[first:end] for first, end in pieces if end - first >= _LEAST_PIECE)


def _window_hashes(text: bytes, size: int) -> npt.NDArray[np.uint64]:
    """Return a hash of every window of `size` bytes, a power of two: a polynomial modulo 2^64."""
    hashes = np.frombuffer(text, np.uint8).astype(np.uint64) + np.uint64(1)
    factor, width = np.uint64(_HASH_BASE), 1
    with np.errstate(over="ignore"):
        while width < size:  # two neighbours make a window twice as wide
            hashes = hashes[:-width] * factor + hashes[width:]
            factor, width = factor * factor, 2 * width
    return hashes


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
