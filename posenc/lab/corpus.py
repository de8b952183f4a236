"""Text as bytes: training and validation files that share nothing, and a hash of both.

The default is the source of the running Python's standard library: real text, on every machine.
"""

import functools
import hashlib
import platform
import re
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from jaxtyping import UInt8
from torch import Tensor

from posenc.errors import CorpusError

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
