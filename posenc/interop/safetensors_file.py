"""Strict reading of .safetensors files: the whole header is checked before any data is read.

Format: 8 bytes little-endian header length, a JSON object, then the data of all tensors without
gaps (safetensors, format description, https://huggingface.co/docs/safetensors). No pickle is
involved, and the file is never mapped into memory (a mapped file that shrinks kills the process).
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from posenc import limits
from posenc.errors import CheckpointError, NotACheckpoint, SchemeArgumentError
from posenc.interop.foreign_files import foreign_refusal
from posenc.interop.safetensors_header import Header, TensorEntry, parsed_header
from posenc.interop.shown_name import printable_name


class ByteRanges(NamedTuple):
    """A file by its size and a function (start, count) -> exactly those bytes, or CheckpointError."""

    size: int
    read: Callable[[int, int], bytes | bytearray | memoryview]


Source = bytes | bytearray | memoryview | str | os.PathLike[str] | ByteRanges

FLOATS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}
_QUANTISED = {"U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL"}


@dataclass(frozen=True, slots=True, eq=False)
class TensorRead:
    """One tensor read in full: float64 if stored so, else float32.

    `note` says how it was converted (None for F32); `sha256` is of the bytes as stored.
    """

    name: str
    tensor: Tensor
    source_dtype: str
    note: str | None
    sha256: str


def read_header(source: Source) -> Header:
    """Check the header of a .safetensors file and return it.

    `source` is the file's bytes, its ByteRanges or its path (a regular file; a symbolic link is
    followed, because model caches are made of links). Raises CheckpointError, in one sentence
    without the path; for a pickle it is PickleRefused.
    """
    with _opened(source) as file:
        return _checked_header(file)


def unreadable_reason(entry: TensorEntry) -> str | None:
    """Say why `entry` can be listed but not read as numbers, or None when it can be read."""
    shown = printable_name(entry.name)
    if entry.dtype in _QUANTISED:
        return f"Tensor {shown} is quantised: {entry.dtype} needs a scale to mean anything."
    if entry.dtype not in FLOATS:
        return f"Tensor {shown} has the dtype {entry.dtype}, which is listed only, not analysed."
    if len(entry.shape) > limits.MAX_RANK:
        return (
            f"Tensor {shown} has {len(entry.shape)} axes and is listed only; "
            f"at most {limits.MAX_RANK} are read."
        )
    if entry.elements > limits.MAX_TENSOR_ELEMENTS:
        return (
            f"Tensor {shown} has {entry.elements:,} elements; "
            f"at most {limits.MAX_TENSOR_ELEMENTS:,} are read."
        )
    return None


def read_tensor(source: Source, name: str) -> TensorRead:
    """Read one tensor and no other bytes of the data section.

    F64 stays float64: narrowing can round or overflow, and that is the caller's decision. F32 is
    taken as it is; F16, BF16 and the float8 forms become float32, exactly. Raises CheckpointError
    for a refused file, a missing name, and a dtype or size that is only listed.
    """
    with _opened(source) as file:
        header = _checked_header(file)
        entry = header.tensors.get(name)
        if entry is None:
            raise CheckpointError(f"The file holds no tensor named {printable_name(name)}.")
        reason = unreadable_reason(entry)
        if reason is not None:
            raise CheckpointError(reason)
        stored = file.read(header.data_start + entry.start, entry.stop - entry.start)
    # Bytes of our own: writable for torch.frombuffer, and aligned whatever the offset was.
    data = stored if isinstance(stored, bytearray) else bytearray(stored)
    dtype = FLOATS[entry.dtype]
    values = (
        torch.frombuffer(data, dtype=torch.uint8).view(dtype) if data else torch.empty(0).to(dtype)
    )
    exact = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    note = (
        None
        if entry.dtype == "F32"
        else f"Stored as {entry.dtype}, read as {str(exact)[6:]}, exactly."
    )
    digest = hashlib.sha256(data).hexdigest()
    return TensorRead(name, values.to(exact).reshape(entry.shape), entry.dtype, note, digest)


# The bytes, from memory or from a file.


@contextmanager
def _opened(source: object) -> Iterator[ByteRanges]:
    if isinstance(source, ByteRanges):
        yield source
        return
    if isinstance(source, bytes | bytearray | memoryview):
        if isinstance(source, memoryview) and not source.c_contiguous:
            raise SchemeArgumentError("source must be contiguous bytes, got a strided memoryview.")
        view = memoryview(source).cast("B") if len(source) else memoryview(b"")
        yield ByteRanges(len(view), lambda start, count: view[start : start + count])
        return
    if not isinstance(source, str | os.PathLike):
        raise SchemeArgumentError(
            f"source must be the bytes of a file or a path, got {type(source).__name__}."
        )
    try:
        # Looked at before it is opened: opening some devices has effects.
        _require_regular(os.stat(source))
        descriptor = os.open(source, os.O_RDONLY | _OPEN_FLAGS)
    except (OSError, ValueError) as error:  # ValueError: a NUL or an unencodable character
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"The file cannot be opened: {_plain(error)}.") from None
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        # Looked at again: the name may mean another file by now. Without O_NONBLOCK, opening a
        # FIFO that nobody writes to would wait forever.
        _require_regular(os.fstat(descriptor))

        def read(start: int, count: int) -> bytearray:
            content = bytearray(count)
            view, done = memoryview(content), 0
            try:
                file.seek(start)
                while done < count and (got := file.readinto(view[done:])):
                    done += got
            except OSError as error:
                raise CheckpointError(f"The file cannot be read: {_plain(error)}.") from None
            if done < count:
                raise CheckpointError("The file became shorter while it was being read.")
            return content

        yield ByteRanges(os.fstat(descriptor).st_size, read)


_OPEN_FLAGS = sum(
    getattr(os, flag, 0) for flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY")
)


def _plain(error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    return reason.lower() if reason else "the path is not usable"


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket"
        raise CheckpointError(f"The path names {kind}; a regular file is needed.")


def _checked_header(file: ByteRanges) -> Header:
    if file.size > limits.MAX_FILE_BYTES:
        raise CheckpointError(
            f"The file has {file.size:,} bytes; at most {limits.MAX_FILE_BYTES:,} are read."
        )
    head = bytes(file.read(0, min(file.size, 4_096)))
    length = int.from_bytes(head[:8], "little")
    if file.size < 9 or length > limits.MAX_HEADER_BYTES or (length and head[8:9] != b"{"):
        tail_size = min(file.size, 65_536)
        foreign = foreign_refusal(head, bytes(file.read(file.size - tail_size, tail_size)))
        if foreign is not None:
            raise foreign
    if file.size < 8:
        raise NotACheckpoint(detail=f"a header needs more bytes than {file.size}")
    if length > limits.MAX_HEADER_BYTES:
        raise NotACheckpoint(
            detail=f"it states a header of {length:,} bytes, at most {limits.MAX_HEADER_BYTES:,} are read"
        )
    if length > file.size - 8:
        raise CheckpointError(
            f"The file is truncated: its header needs {length:,} bytes, it holds {file.size - 8:,}."
        )
    return parsed_header(file.read(8, length), file.size - 8 - length)
