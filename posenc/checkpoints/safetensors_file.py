"""Strict reading of .safetensors files: the whole header is checked before any data is read.

Format: 8 bytes little-endian header length, a JSON object, then the data of all tensors without
gaps (https://huggingface.co/docs/safetensors). Tensors are read from their byte range here, because the
safetensors library maps a file into memory (a mapped file that shrinks kills the process) or needs all
of it. This module refuses whatever that library (0.8) refuses, and also:
 1. files, headers, numbers of tensors, names, axes and elements over the limits;
 2. a header over 2 MiB that is not ASCII, whose text takes four times its bytes in memory;
 3. duplicate names, fields and metadata keys;
 4. `"__metadata__": null`, and more than 512 metadata entries;
 5. fields other than dtype, shape and data_offsets; a tensor or dtype of another JSON type;
 6. a header that does not begin with `{`.
"""

import codecs
import hashlib
import json
import math
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc import limits
from posenc.errors import (
    CheckpointError,
    NotACheckpoint,
    PickleRefused,
    SchemeArgumentError,
    shown,
)
from posenc.text import printable_name

# Two lines each, run where the file's maker is trusted; clone(), because tied weights share memory.
PICKLE_CONVERSION = """\
import torch, safetensors.torch; state = torch.load("model.pt", "cpu", weights_only=True)
safetensors.torch.save_file({k: v.clone().contiguous() for k, v in state.items() \
if isinstance(v, torch.Tensor)}, "model.safetensors")"""
TORCHSCRIPT_CONVERSION = """\
import torch, safetensors.torch; model = torch.jit.load("model.pt", "cpu")
safetensors.torch.save_file({k: v.clone().contiguous() for k, v in model.state_dict().items()}, \
"model.safetensors")"""

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
_QUANTISED = {"U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL"}


class TensorEntry(NamedTuple):
    """One tensor of a header: its data are the bytes [start, stop) of the data section."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """A checked header; its tensors are in the file's order."""

    tensors: dict[str, TensorEntry]
    metadata: dict[str, str]
    data_start: int


class ByteRanges(NamedTuple):
    """A file's size, and a function (start, count) that returns those bytes or raises CheckpointError."""

    size: int
    read: Callable[[int, int], bytes | bytearray]


Source = bytes | bytearray | memoryview | str | os.PathLike[str] | ByteRanges


@dataclass(frozen=True, slots=True, eq=False)
class TensorRead:
    """One tensor, as float64 if stored so, else as float32.

    note: how it was converted, None for F32. sha256: of the stored bytes.
    """

    name: str
    tensor: Tensor
    source_dtype: str
    note: str | None
    sha256: str


def read_header(source: Source) -> Header:
    """Return the checked header of a .safetensors file.

    source: the file's bytes, ByteRanges or path. Raises CheckpointError, PickleRefused for a pickle.
    """
    with _opened(source) as file:
        return _checked_header(file)


def unreadable_reason(entry: TensorEntry) -> str | None:
    """Return why a tensor is listed but cannot be read; None where it can."""
    tensor = f"Tensor {printable_name(entry.name)}"
    if entry.dtype in _QUANTISED:
        return f"{tensor} is quantised: {entry.dtype} needs a scale to mean anything."
    if entry.dtype not in FLOATS:
        return f"{tensor} has the dtype {entry.dtype}, which is listed only, not analysed."
    if len(entry.shape) > limits.MAX_RANK:
        axes = len(entry.shape)
        return f"{tensor} has {axes} axes and is listed only; at most {limits.MAX_RANK} are read."
    if entry.elements > limits.MAX_TENSOR_ELEMENTS:
        most = limits.MAX_TENSOR_ELEMENTS
        return f"{tensor} has {entry.elements:,} elements; at most {most:,} are read."
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


def read_tensor(source: Source, name: str) -> TensorRead:
    """Return one tensor; no other bytes of the data section are read.

    Types below 32 bits become float32, exactly. Raises CheckpointError.
    """
    with _opened(source) as file:
        header = _checked_header(file)
        entry = readable_entry(header, name)
        stored = file.read(header.data_start + entry.start, entry.stop - entry.start)
    # torch.frombuffer needs writable bytes.
    data = stored if isinstance(stored, bytearray) else bytearray(stored)
    dtype = FLOATS[entry.dtype]
    stored_bytes = (
        torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
    )
    values = stored_bytes.view(dtype)
    exact = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    note = f"Stored as {entry.dtype}, read as {str(exact).removeprefix('torch.')}, exactly."
    return TensorRead(
        name,
        values.to(exact).reshape(entry.shape),
        entry.dtype,
        None if entry.dtype == "F32" else note,
        hashlib.sha256(data).hexdigest(),
    )


def _checked_header(file: ByteRanges) -> Header:
    if file.size > limits.MAX_FILE_BYTES:
        raise CheckpointError(
            f"The file has {file.size:,} bytes; at most {limits.MAX_FILE_BYTES:,} are read."
        )
    head = bytes(file.read(0, min(file.size, 4_096)))
    length = int.from_bytes(head[:8], "little")
    if file.size < 9 or length > limits.MAX_HEADER_BYTES or (length and head[8:9] != b"{"):
        tail_size = min(file.size, 65_536)
        refusal = _foreign_refusal(head, bytes(file.read(file.size - tail_size, tail_size)))
        if refusal is not None:
            raise refusal
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
    tensors, metadata = _parse(_decode(file.read(8, length)))
    _check_gapless(tensors, file.size - 8 - length)
    return Header(tensors, metadata, 8 + length)


def _decode(header: bytes | bytearray) -> str:
    most = limits.MAX_HEADER_BYTES // 4
    if len(header) > most and not header.isascii():
        raise CheckpointError(
            f"The header has {len(header):,} bytes; at most {most:,} are read of one beyond ASCII."
        )
    try:
        return header.decode("utf-8")
    except UnicodeDecodeError:
        raise CheckpointError("The header is not valid UTF-8.") from None


def _parse(text: str) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    if not text.startswith("{"):
        raise CheckpointError("The header must begin with an object.")
    if sum(map(text.count, "{[,")) > limits.MAX_HEADER_VALUES:
        raise CheckpointError(
            f"The header holds more than {limits.MAX_HEADER_VALUES:,} values, which is the limit."
        )
    try:
        content = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_int=_count,
            parse_float=_NotACount,
            parse_constant=_NotACount,
        )
    except RecursionError:
        raise CheckpointError("The header holds too many lists or objects in each other.") from None
    except json.JSONDecodeError as error:
        problem = f"The header is not valid JSON near character {error.pos:,}."
        raise CheckpointError(problem) from None
    if isinstance(content, _Fields):  # three tensors of these names
        content = content._asdict()
    metadata = _metadata(content.pop("__metadata__", {}))
    if len(content) > limits.MAX_TENSORS:
        raise CheckpointError(
            f"The file holds more than {limits.MAX_TENSORS:,} tensors, which is the limit."
        )
    if sum(map(sys.getsizeof, content)) > limits.MAX_NAMES_SIZE:
        raise CheckpointError(
            f"The names of the tensors take more than {limits.MAX_NAMES_SIZE:,} bytes in all."
        )
    return {name: _entry(name, fields) for name, fields in content.items()}, metadata


class _Fields(NamedTuple):
    """The fields of one tensor; smaller in memory than a dict."""

    dtype: Any
    shape: Any
    data_offsets: Any


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Fields:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if len(key) > limits.MAX_TENSOR_NAME:
            raise CheckpointError(
                f"The header holds a name of more than {limits.MAX_TENSOR_NAME} characters."
            )
        if key in content:
            raise CheckpointError(f"The header states {printable_name(key)} twice.")
        if not _is_unicode(key):
            raise CheckpointError("The header holds a name with half of a character.")
        content[key] = value
    return _Fields(**content) if content.keys() == {*_Fields._fields} else content


class _NotACount:
    """A number that no field may hold, by its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _count(digits: str) -> int | _NotACount:
    return int(digits) if digits.isdigit() and len(digits) <= 19 else _NotACount(digits)


def _is_unicode(text: str) -> bool:
    # Python's JSON reader lets a lone surrogate through, written as an escape.
    return re.search("[\ud800-\udfff]", text) is None


def _metadata(content: Any) -> dict[str, str]:
    if not isinstance(content, dict) or not all(
        isinstance(value, str) and _is_unicode(value) for value in content.values()
    ):
        raise CheckpointError("The field __metadata__ must be an object whose values are texts.")
    if len(content) > limits.MAX_METADATA_ENTRIES:
        raise CheckpointError(
            f"The metadata holds more than {limits.MAX_METADATA_ENTRIES} entries, the limit."
        )
    longest = limits.MAX_METADATA_VALUE
    return {
        key: value if len(value) <= longest else f"({len(value):,} characters, not kept)"
        for key, value in content.items()
    }


def _entry(name: str, fields: Any) -> TensorEntry:
    label = printable_name(name)
    if not isinstance(fields, _Fields):
        raise CheckpointError(
            f"Tensor {label} must have exactly the fields dtype, shape and data_offsets."
        )
    dtype, shape, offsets = fields
    axes = f"a list of at most {limits.MAX_AXES} whole numbers from 0"
    for field, allowed, valid in (
        ("dtype", "a name such as F32", isinstance(dtype, str)),
        ("shape", axes, _are_counts(shape) and len(shape) <= limits.MAX_AXES),
        ("data_offsets", "two whole numbers from 0", _are_counts(offsets) and len(offsets) == 2),
    ):
        if not valid:
            raise CheckpointError(
                f"The {field} of tensor {label} must be {allowed}, got {shown(getattr(fields, field))}."
            )
    if dtype not in BITS:
        raise CheckpointError(f"Tensor {label} has the unknown dtype {printable_name(dtype, 32)}.")
    elements = 1
    for size in shape:
        elements *= size
        if size > limits.MAX_AXIS or elements > MAX_ELEMENTS_STATED:
            raise CheckpointError(f"Tensor {label} has an impossible shape: too large.")
    start, stop = offsets
    if 8 * (stop - start) != elements * BITS[dtype]:
        raise CheckpointError(
            f"Tensor {label} declares {elements:,} elements of {dtype}, but its data_offsets are "
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


# Without O_NONBLOCK, opening a FIFO that nobody writes to would wait forever.
_OPEN_FLAGS = sum(getattr(os, flag, 0) for flag in ("O_NONBLOCK", "O_NOCTTY", "O_BINARY"))


@contextmanager
def _opened(source: object) -> Iterator[ByteRanges]:
    if isinstance(source, ByteRanges):
        yield source
        return
    if isinstance(source, bytes | bytearray | memoryview):
        if isinstance(source, memoryview) and not source.c_contiguous:
            raise SchemeArgumentError("source must be contiguous bytes, got a strided memoryview.")
        view = memoryview(source).cast("B") if len(source) else memoryview(b"")
        yield ByteRanges(len(view), lambda start, count: bytearray(view[start : start + count]))
        return
    if not isinstance(source, str | os.PathLike):
        raise SchemeArgumentError(
            f"source must be the bytes of a file or a path, got {type(source).__name__}."
        )
    try:
        # Checked before it is opened: opening some devices has effects.
        _check_regular(os.stat(source))
        descriptor = os.open(source, os.O_RDONLY | _OPEN_FLAGS)
    except CheckpointError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL or an unencodable character
        raise CheckpointError(f"The file cannot be opened: {_reason(error)}.") from None
    with os.fdopen(descriptor, "rb") as file:
        # Checked again: the name may mean another file by now.
        _check_regular(os.fstat(descriptor))

        def read(start: int, count: int) -> bytearray:
            content = bytearray(count)
            try:
                file.seek(start)
                bytes_read = file.readinto(content)
            except OSError as error:
                raise CheckpointError(f"The file cannot be read: {_reason(error)}.") from None
            if bytes_read < count:
                raise CheckpointError("The file became shorter while it was being read.")
            return content

        yield ByteRanges(os.fstat(descriptor).st_size, read)


def _reason(error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    return reason.lower() if reason else "the path is not usable"


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket"
        raise CheckpointError(f"The path names {kind}; a regular file is needed.")


# Other kinds of files. A pickle is never opened: that would run its code.

_CODE = (
    "it contains code, not only weights, and is never opened here; where you trust its maker, save "
    "it as .safetensors with these two lines"
)
_SIGNATURES = (
    (b"GGUF", "a GGUF file"),
    (b"version https://git-lfs", "a Git LFS pointer, not the weights (git lfs pull fetches them)"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array file"),
    (b"PAR1", "a Parquet file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
)
_PICKLE = re.compile(
    rb"\x80[\x02-\x08]"  # protocol 2 and later, among them torch's legacy form
    rb"|[ci][A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n"  # protocol 0 and 1: a global by name
    rb"|\((?:[dl]p?[0-9]|[ci][A-Za-z_][\w.]*\n)|[\]}]q\x00|\(lp|\(dp"
)


def _foreign_refusal(head: bytes, tail: bytes) -> CheckpointError | None:
    """Return the error for a file of another kind, None where its bytes do not tell the kind."""
    if not head:
        return CheckpointError("The file is empty.")
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        # Entry names stand in the clear at both ends of a zip.
        ends = head + tail
        if b"constants.pkl" in ends:
            return PickleRefused(f"This is a TorchScript archive: {_CODE}:", TORCHSCRIPT_CONVERSION)
        if b".pkl" in ends:
            return _pickle_refusal("zip form")
        return NotACheckpoint("a NumPy archive (.npz)" if b".npy" in ends else "a zip archive")
    if head[257:262] == b"ustar":
        return NotACheckpoint("a tar archive")
    if _PICKLE.match(head):
        return _pickle_refusal("raw or legacy form")
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            return NotACheckpoint(kind)
    text = _text_kind(head)
    return None if text is None else NotACheckpoint(text)


def _pickle_refusal(form: str) -> PickleRefused:
    sentence = f"This is a pickle file ({form}; .pt, .pth and .bin are pickles): {_CODE}:"
    return PickleRefused(sentence, PICKLE_CONVERSION)


def _text_kind(head: bytes) -> str | None:
    wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = codecs.getincrementaldecoder("utf-16" if wide else "utf-8")("replace").decode(head)
    if any(unicodedata.category(c) in ("Cc", "Cn") and c not in "\t\n\r\f" for c in text):
        return None
    if "\ufffd" in text or len(text) < 2:
        return None
    start = text.removeprefix("\ufeff").lstrip()[:512].lower()
    if start.startswith(("<!doctype html", "<html")):
        return "an HTML page"
    if start.startswith("{") and '"weight_map"' in text:
        return "the index of a checkpoint in several files (open the file that holds the table)"
    return "a JSON text" if start.startswith(("{", "[")) else "a text file"
