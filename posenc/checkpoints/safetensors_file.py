"""Strict reading of .safetensors files: the whole header is checked before any data is read.

Format: 8 bytes little-endian header length, a JSON object, then the data of all tensors without gaps
(https://huggingface.co/docs/safetensors). The safetensors library is not used: it maps a file into
memory, where a file that becomes shorter kills the process. What it (0.8) refuses is refused here, and
also names stated twice and sizes over `posenc.limits`.
"""

import hashlib
import io
import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor

from posenc import limits
from posenc.errors import CheckpointError, PickleRefused, SchemeArgumentError, quoted
from posenc.text import printable_name

# Two lines, run where the file's maker is trusted; clone(), because tied weights share memory.
PICKLE_CONVERSION = """\
import torch, safetensors.torch; state = torch.load("model.pt", "cpu", weights_only=True)
safetensors.torch.save_file({k: v.clone().contiguous() for k, v in state.items() \
if isinstance(v, torch.Tensor)}, "model.safetensors")"""

MAX_ELEMENTS_STATED = 2**53  # products past this would overflow the library's 64-bit arithmetic
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "I16": 16, "U16": 16, "I32": 32, "U32": 32, "I64": 64, "U64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8, "F8_E4M3": 8, "F8_E5M2": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip
FLOATS = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}  # fmt: skip


class TensorEntry(NamedTuple):
    """One tensor of a header: its data are the bytes [start, stop) of the data section."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Header:
    """A checked header; its tensors are in the file's order."""

    tensors: dict[str, TensorEntry]
    metadata: dict[str, str]
    data_start: int


class ByteRanges(NamedTuple):
    """A file's size, and a function (start, count) that returns those bytes or raises CheckpointError."""

    size: int
    read: Callable[[int, int], bytearray]


FileSource = bytes | str | os.PathLike[str] | ByteRanges


@dataclass(frozen=True, slots=True, eq=False)
class TensorRead:
    """One tensor, as float64 if stored so, else as float32.

    note: how it was converted, None for F32. sha256: of the stored bytes.
    """

    tensor: Tensor
    source_dtype: str
    note: str | None
    sha256: str


def read_header(source: FileSource) -> Header:
    """Return the checked header of a .safetensors file.

    source: the file's bytes, ByteRanges or path. Raises CheckpointError, PickleRefused for a pickle.
    """
    with opened(source) as file:
        return _checked_header(file)


def unreadable_reason(entry: TensorEntry) -> str | None:
    """Return why a tensor is listed but cannot be read; None where it can."""
    tensor, elements = f"Tensor {printable_name(entry.name)}", math.prod(entry.shape)
    if entry.dtype not in FLOATS:
        return f"{tensor} has the dtype {entry.dtype}; floating-point numbers are read."
    if len(entry.shape) > limits.MAX_RANK:
        return f"{tensor} has {len(entry.shape)} axes; at most {limits.MAX_RANK} are read."
    if elements > limits.MAX_TENSOR_ELEMENTS:
        most = limits.MAX_TENSOR_ELEMENTS
        return f"{tensor} has {elements:,} elements; at most {most:,} are read."
    return None


def readable_entry(header: Header, name: str) -> TensorEntry:
    """Return a tensor's entry. Raises CheckpointError where it is missing or cannot be read."""
    entry = header.tensors.get(name)
    if entry is None:
        raise CheckpointError(f"The file holds no tensor named {printable_name(name)}.")
    reason = unreadable_reason(entry)
    if reason is not None:
        raise CheckpointError(reason)
    return entry


def read_tensor(source: FileSource, name: str) -> TensorRead:
    """Return one tensor; no other bytes of the data section are read.

    Types below 32 bits become float32, exactly. Raises CheckpointError.
    """
    with opened(source) as file:
        header = _checked_header(file)
        entry = readable_entry(header, name)
        data = file.read(header.data_start + entry.start, entry.stop - entry.start)
    dtype = FLOATS[entry.dtype]
    exact = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    values = torch.from_numpy(np.frombuffer(data, np.uint8)).view(dtype)
    note = f"Stored as {entry.dtype}, read as {str(exact).removeprefix('torch.')}, exactly."
    return TensorRead(
        values.to(exact).reshape(entry.shape),
        entry.dtype,
        None if entry.dtype == "F32" else note,
        hashlib.sha256(data).hexdigest(),
    )


@contextmanager
def opened(source: FileSource, most: int = limits.MAX_FILE_BYTES) -> Iterator[ByteRanges]:
    """Yield a source as ByteRanges. most: bytes of the file.

    Raises CheckpointError for a path to no regular file, and for a larger file.
    """
    if isinstance(source, ByteRanges):
        yield source
        return
    if not isinstance(source, bytes | str | os.PathLike):
        raise SchemeArgumentError(
            f"source must be the bytes of a file or a path, got {type(source).__name__}."
        )
    try:
        file = io.BytesIO(source) if isinstance(source, bytes) else _open(source)
    except (OSError, ValueError) as error:  # ValueError: a NUL or an unencodable character
        reason = (getattr(error, "strerror", None) or "the path is not usable").lower()
        raise CheckpointError(f"The file cannot be opened: {reason}.") from None
    with file:
        if not isinstance(file, io.BytesIO) and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise CheckpointError("The path names a device or a pipe; a regular file is needed.")

        def read(start: int, count: int) -> bytearray:
            content = bytearray(count)
            try:
                file.seek(start)
                bytes_read = file.readinto(content)  # type: ignore[attr-defined]
            except OSError as error:
                raise CheckpointError(f"The file cannot be read: {error.strerror}.") from None
            if bytes_read < count:
                raise CheckpointError("The file became shorter while it was being read.")
            return content

        size = file.seek(0, os.SEEK_END)
        if size > most:
            raise CheckpointError(f"The file has {size:,} bytes; at most {most:,} are read.")
        yield ByteRanges(size, read)


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    # Without O_NONBLOCK, opening a FIFO that nobody writes to would wait forever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags), "rb")


def _checked_header(file: ByteRanges) -> Header:
    head = bytes(file.read(0, min(file.size, 4_096)))
    length = int.from_bytes(head[:8], "little")
    if length > limits.MAX_HEADER_BYTES or head[8:9] != b"{":
        raise _refusal(head, length)
    if length > file.size - 8:
        raise CheckpointError(
            f"The file is truncated: its header needs {length:,} bytes, it holds {file.size - 8:,}."
        )
    content = _parse(file.read(8, length))
    metadata = content.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError("The field __metadata__ must be an object whose values are texts.")
    if len(content) > limits.MAX_TENSORS:
        raise CheckpointError(f"The file holds more than {limits.MAX_TENSORS:,} tensors.")
    tensors = {name: _entry(name, fields) for name, fields in content.items()}
    _check_gapless(tensors, file.size - 8 - length)
    return Header(tensors, metadata, 8 + length)


def _parse(header: bytearray) -> dict[str, Any]:
    most = limits.MAX_HEADER_BYTES // 2  # such a text takes four times its bytes in memory
    if len(header) > most and not header.isascii():
        raise CheckpointError(f"A header beyond ASCII may have {most:,} bytes.")
    if sum(map(header.count, b"{[,")) > limits.MAX_HEADER_VALUES:
        raise CheckpointError(f"The header holds more than {limits.MAX_HEADER_VALUES:,} values.")
    try:
        text = header.decode()
        del header  # as large as its text
        content: dict[str, Any] = json.loads(text, object_pairs_hook=_unique, parse_int=_number)
    except RecursionError:
        raise CheckpointError("The header holds too many lists or objects in each other.") from None
    except UnicodeError:
        raise CheckpointError("The header is not valid UTF-8.") from None
    except json.JSONDecodeError as error:
        problem = f"The header is not valid JSON near character {error.pos:,}."
        raise CheckpointError(problem) from None
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if len(key) > limits.MAX_TENSOR_NAME:
            raise CheckpointError(
                f"The header holds a name of more than {limits.MAX_TENSOR_NAME} characters."
            )
        if key in content:
            raise CheckpointError(f"The header states {printable_name(key)} twice.")
        for text in (key, value):
            if isinstance(text, str):
                text.encode()  # raises for half of a character, which json reads
        content[key] = value
    return content


def _number(digits: str) -> int | float:
    # A float, which no field may be, for -0, negative numbers and those over 64 bits.
    return int(digits) if digits.isdigit() and len(digits) <= 19 else float(digits)


def _entry(name: str, fields: Any) -> TensorEntry:
    tensor = f"Tensor {printable_name(name)}"
    if not isinstance(fields, dict) or fields.keys() != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(
            f"{tensor} must have exactly the fields dtype, shape and data_offsets."
        )
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise CheckpointError(f"{tensor} has the unknown dtype {printable_name(str(dtype), 32)}.")
    if not _are_counts(shape) or len(shape) > limits.MAX_AXES:
        axes = f"at most {limits.MAX_AXES} whole numbers from 0"
        raise CheckpointError(f"{tensor} must have a shape of {axes}, got {quoted(shape)}.")
    if not _are_counts(offsets) or len(offsets) != 2:
        raise CheckpointError(
            f"{tensor} must have two whole numbers from 0 as data_offsets, got {quoted(offsets)}."
        )
    if math.prod(axis or 1 for axis in shape) > MAX_ELEMENTS_STATED:
        raise CheckpointError(f"{tensor} has an impossible shape: too large.")
    elements, (start, stop) = math.prod(shape), offsets
    if 8 * (stop - start) != elements * BITS[dtype]:
        raise CheckpointError(
            f"{tensor} declares {elements:,} elements of {dtype}, but its data_offsets are "
            f"[{start}, {stop}]."
        )
    return TensorEntry(name, dtype, tuple(shape), start, stop)


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) is int for number in value)


def _check_gapless(tensors: dict[str, TensorEntry], data_bytes: int) -> None:
    end = 0
    for entry in sorted(tensors.values(), key=attrgetter("start", "stop")):
        if entry.start != end:
            fault = "overlaps the one before it" if entry.start < end else "begins after a hole"
            raise CheckpointError(
                f"Tensor {printable_name(entry.name)} {fault} in the data section."
            )
        end = entry.stop
    if end > data_bytes:
        raise CheckpointError(
            f"The file is truncated: its tensors need {end:,} bytes, {data_bytes:,} are there."
        )
    if end < data_bytes:
        raise CheckpointError(
            f"The file goes on after the data of its tensors; trailing bytes: {data_bytes - end:,}."
        )


_OTHER_KINDS = (
    (b"PK\x03\x04", "a zip archive"),
    (b"version https://git-lfs", "a Git LFS pointer, not the weights (git lfs pull fetches them)"),
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"<", "an HTML page"),
    (b"{", "a JSON text"),
)


def _refusal(head: bytes, length: int) -> CheckpointError:
    # A pickle is never opened: that would run its code. torch.save puts it first into a zip archive.
    if head[:1] == b"\x80" or (head.startswith(b"PK") and b".pkl" in head):
        return PickleRefused(
            "This is a pickle file (.pt, .pth and .bin are pickles): it contains code, not only "
            "weights, and is never opened here; where you trust its maker, save it as .safetensors "
            "with these two lines:",
            PICKLE_CONVERSION,
        )
    if not head:
        return CheckpointError("The file is empty.")
    for signature, kind in _OTHER_KINDS:
        if head.lstrip().startswith(signature):
            return CheckpointError(f"This is {kind}, not a .safetensors file.")
    if head[8:9] == b"{":
        return CheckpointError(
            f"This is not a .safetensors file, or its header is too long: {length:,} bytes; at most "
            f"{limits.MAX_HEADER_BYTES:,} are read."
        )
    return CheckpointError("This is not a .safetensors file: its header must begin with an object.")
