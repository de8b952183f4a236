"""Strict reading of .safetensors files: the whole header is checked before any data is read.

Format: 8 bytes little-endian header length, a JSON object, then the data of all tensors without
gaps (safetensors, format description, https://huggingface.co/docs/safetensors). No pickle is
involved, and the file is never mapped into memory (a mapped file that shrinks kills the process).

What a file is that is no .safetensors checkpoint, told by its first and last bytes.

Nothing is unpacked or opened: a pickle runs code of its maker's choice where it is loaded.

The pieces of a .safetensors header as patterns, each of which matches in linear time.

A header is a part of JSON (RFC 8259): one object of objects with three known fields, and metadata of
texts. Numbers are whole, have at most 19 digits and no sign; fields and dtypes are written plainly.

The header of a .safetensors file, matched against its grammar, which is a part of JSON.

Depth, memory and time are bounded by the caps of `posenc.limits`; no general JSON reader is
involved. Whatever the safetensors library (0.8) refuses is refused here. Refused here and accepted
there:
 1. files, headers, tensor counts and names over the caps; more than 32 axes; an axis over 2^31, or
    2^53 elements counted up to some axis;
 2. a tensor or a metadata key named twice (the library keeps the last one);
 3. `"__metadata__": null`, and more than 512 metadata entries;
 4. a field other than dtype, shape and data_offsets; a field name or dtype written with escapes; a
    tensor described by a JSON array, a dtype by an object (by-products of the library's reader);
 5. a header that does not begin with `{` (the library skips white space in front of it).
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
from typing import NamedTuple

import torch
from torch import Tensor

from posenc import limits
from posenc.errors import CheckpointError, NotACheckpoint, PickleRefused, SchemeArgumentError
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


def foreign_refusal(head: bytes, tail: bytes) -> CheckpointError | None:
    """Return the refusal of a file by its first and last bytes, or None if they tell nothing.

    A pickle or a TorchScript archive gives PickleRefused, with the conversion.
    """
    if not head:
        return CheckpointError("The file is empty.")
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return _zip_refusal(head + tail)
    if head[257:262] == b"ustar":
        return NotACheckpoint("a tar archive")
    if _PICKLE.match(head):
        return _pickle_refusal("raw or legacy form")
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            return NotACheckpoint(kind)
    text = _text_kind(head)
    return None if text is None else NotACheckpoint(text)


def _zip_refusal(ends: bytes) -> CheckpointError:
    # Entry names stand in the clear at both ends of a zip.
    if b"constants.pkl" in ends:
        return PickleRefused(f"This is a TorchScript archive: {_CODE}:", TORCHSCRIPT_CONVERSION)
    if b".pkl" in ends:
        return _pickle_refusal("zip form")
    return NotACheckpoint("a NumPy archive (.npz)" if b".npy" in ends else "a zip archive")


def _pickle_refusal(form: str) -> PickleRefused:
    return PickleRefused(
        f"This is a pickle file ({form}; .pt, .pth and .bin are pickles): {_CODE}:",
        PICKLE_CONVERSION,
    )


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


_WS = rb"[ \t\n\r]*+"
# JSON strings, without the lone surrogates that Python's own reader lets through.
_PIECE = (
    rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_COUNT = rb"(?:0|[1-9][0-9]{0,18})"
BEGIN = re.compile(rb"\{")
OPEN = re.compile(_WS + rb"\{")
CLOSE = re.compile(_WS + rb"\}")
END = re.compile(_WS + rb"\Z")
NEXT = re.compile(_WS + rb"([,}])")
# A name of 256 characters has at most 513 pieces: plain runs, and escapes between them.
KEY = re.compile(_WS + rb'"(%b{0,%d}+)"' % (_PIECE, 2 * limits.MAX_TENSOR_NAME + 1) + _WS + rb":")
TEXT = re.compile(_WS + rb'"(%b*+)"' % _PIECE)
OFFSETS_FIELD = re.compile(rb'"data_offsets"')
FIELD = re.compile(_WS + rb'"(dtype|shape|data_offsets)"' + _WS + rb":" + _WS)
VALUES = {
    b"dtype": (re.compile(rb'"([0-9A-Za-z_]{1,32})"'), "a name such as F32"),
    b"shape": (
        re.compile(
            rb"\[" + _WS + rb"((?:%b(?:%b,%b%b){0,%d})?)" % (_COUNT, _WS, _WS, _COUNT, limits.MAX_AXES - 1)
            + _WS + rb"\]"
        ),
        f"a list of at most {limits.MAX_AXES} whole numbers from 0",
    ),
    b"data_offsets": (
        re.compile(rb"\[%b(%b%b,%b%b)%b\]" % (_WS, _COUNT, _WS, _WS, _COUNT, _WS)),
        "two whole numbers from 0",
    ),
}  # fmt: skip

# A whole tensor in one step, its three fields in any order: three matches that fill three groups are
# one of each. Names with escapes, metadata and faults are left to the smaller pieces above.
_ANY_FIELD = b"|".join(
    rb'"%b"%b:%b%b' % (field, _WS, _WS, value.pattern) for field, (value, _) in VALUES.items()
)
TENSOR = re.compile(
    _WS + rb'"(?!__metadata__")([^"\\\x00-\x1f]{0,%d}+)"' % (4 * limits.MAX_TENSOR_NAME)
    + _WS + rb":" + _WS + rb"\{"
    + rb'(?:%b(?:%b)%b(?:,(?=%b")|(?=\}))){3}\}' % (_WS, _ANY_FIELD, _WS, _WS)
    + NEXT.pattern
)  # fmt: skip


MAX_ELEMENTS_STATED = 2**53  # products past this would overflow the library's 64-bit arithmetic
KINDS_REMEMBERED = 256  # dtypes with shapes that are worked out once per header

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "I16": 16, "U16": 16, "I32": 32, "U32": 32, "I64": 64, "U64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8, "F8_E4M3": 8, "F8_E5M2": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip


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
    """A checked header: tensors in the file's own order, metadata, and where the data begins."""

    tensors: dict[str, TensorEntry]
    metadata: dict[str, str]
    data_start: int


def parsed_header(text: bytes | bytearray | memoryview, data_bytes: int) -> Header:
    """Check the JSON text of a header against the `data_bytes` behind it, and return it.

    Raises CheckpointError, in one sentence, for whatever the grammar or a cap does not allow.
    """
    _require_utf8(text)
    tensors, metadata = _HeaderText(text).parse()
    _require_gapless(tensors, data_bytes)
    return Header(tensors, metadata, 8 + len(text))


def _require_utf8(text: bytes | bytearray | memoryview) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    view, step = memoryview(text), 65_536  # in pieces: the decoded text is not kept
    try:
        for start in range(0, len(view), step):
            decoder.decode(view[start : start + step], final=start + step >= len(view))
    except UnicodeDecodeError:
        raise CheckpointError("The header is not valid UTF-8.") from None


def _require_gapless(tensors: dict[str, TensorEntry], data_bytes: int) -> None:
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


class _Kind(NamedTuple):
    """What tensors of one dtype and shape share; a model repeats few kinds many times."""

    dtype: str
    shape: tuple[int, ...]
    bits: int


class _HeaderText:
    """A cursor over the header's bytes; every step matches one piece of the grammar or refuses.

    A tensor is taken in one step where that goes, for speed; else in pieces, which tell the fault.
    """

    def __init__(self, text: bytes | bytearray | memoryview) -> None:
        self.text = text
        self.at = 0
        self.names_size = 0
        self.tensors: dict[str, TensorEntry] = {}
        self.kinds: dict[tuple[bytes, bytes], _Kind] = {}

    def parse(self) -> tuple[dict[str, TensorEntry], dict[str, str]]:
        self._limit_tensors()
        metadata: dict[str, str] | None = None
        self._take(BEGIN, "an object")
        last = CLOSE.match(self.text, self.at) is not None
        if last:
            self._take(CLOSE, "the end")
        while not last:
            whole = TENSOR.match(self.text, self.at)
            if whole is not None and None not in (groups := whole.groups()):
                quoted, dtype, axes, offsets, after = groups
                name = quoted.decode("utf-8")
                self._admit(name)
                self.tensors[name] = self._sized_entry(name, dtype, axes, offsets)
                self.at, last = whole.end(), after == b"}"
                continue
            name = self._name(self._take(KEY, "a name in quotes"))
            if name != "__metadata__":
                self._admit(name)
                self.tensors[name] = self._entry(name)
            elif metadata is not None:
                raise CheckpointError("The header holds __metadata__ twice.")
            else:
                metadata = self._metadata()
            last = self._take(NEXT, "a comma or the end of the object")[1] == b"}"
        self._take(END, "nothing more")
        return self.tensors, metadata or {}

    def _admit(self, name: str) -> None:
        if len(name) > limits.MAX_TENSOR_NAME:
            raise _long_name()
        if name in self.tensors:
            raise CheckpointError(f"The header names tensor {printable_name(name)} twice.")
        if len(self.tensors) == limits.MAX_TENSORS:
            raise _too_many_tensors()
        self.names_size += sys.getsizeof(name)
        if self.names_size > limits.MAX_NAMES_SIZE:
            raise CheckpointError(
                f"The names of the tensors take more than {limits.MAX_NAMES_SIZE:,} bytes in all."
            )

    def _limit_tensors(self) -> None:
        # Before any is described: every tensor needs this field once. The slack is for a tensor and
        # for metadata of that name.
        allowed = limits.MAX_TENSORS + 2 * limits.MAX_METADATA_ENTRIES + 1
        for count, _ in enumerate(OFFSETS_FIELD.finditer(self.text), start=1):
            if count > allowed:
                raise _too_many_tensors()

    def _take(self, pattern: re.Pattern[bytes], expected: str) -> re.Match[bytes]:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise CheckpointError(
                f"The header is not valid near byte {self.at:,}: {expected} was expected there."
            )
        self.at = match.end()
        return match

    def _name(self, match: re.Match[bytes]) -> str:
        start, stop = match.span(1)
        # One character takes at most 12 bytes of JSON, as a pair of escapes.
        name = _unquoted(match[1]) if stop - start <= 12 * limits.MAX_TENSOR_NAME else None
        if name is None or len(name) > limits.MAX_TENSOR_NAME:
            raise _long_name()
        return name

    def _metadata(self) -> dict[str, str]:
        metadata: dict[str, str] = {}
        self._take(OPEN, "an object of texts, as __metadata__,")
        if CLOSE.match(self.text, self.at) is not None:
            self._take(CLOSE, "the end")
            return metadata
        while True:
            key = self._name(self._take(KEY, "a name in quotes"))
            if key in metadata:
                raise CheckpointError(f"The metadata names {printable_name(key)} twice.")
            if len(metadata) == limits.MAX_METADATA_ENTRIES:
                raise CheckpointError(
                    f"The metadata holds more than {limits.MAX_METADATA_ENTRIES} entries, the limit."
                )
            value = self._take(TEXT, "a text (metadata values are texts)")
            start, stop = value.span(1)
            kept = stop - start <= limits.MAX_METADATA_VALUE
            metadata[key] = _unquoted(value[1]) if kept else f"({stop - start:,} bytes, not kept)"
            if self._take(NEXT, "a comma or the end of the metadata")[1] == b"}":
                return metadata

    def _entry(self, name: str) -> TensorEntry:
        fields: dict[bytes, bytes] = {}
        self._take(OPEN, "an object that describes a tensor")
        while True:
            match = FIELD.match(self.text, self.at)
            if match is None:
                break
            key = match[1]
            if key in fields:
                raise CheckpointError(
                    f"Tensor {printable_name(name)} states its {key.decode()} twice."
                )
            pattern, allowed = VALUES[key]
            value = pattern.match(self.text, match.end())
            if value is None:
                got = bytes(self.text[match.end() : match.end() + 32]).decode("utf-8", "replace")
                raise CheckpointError(
                    f"The {key.decode()} of tensor {printable_name(name)} must be {allowed}, "
                    f"got {printable_name(got[: got.find(']') + 1] or got, 32)}."
                )
            fields[key] = value[1]
            self.at = value.end()
            if self._take(NEXT, "a comma or the end of a tensor's description")[1] == b"}":
                if len(fields) < 3:
                    break
                return self._sized_entry(name, *(fields[field] for field in VALUES))
        raise _not_three_fields(name)

    def _sized_entry(self, name: str, dtype: bytes, axes: bytes, offsets: bytes) -> TensorEntry:
        kind = self.kinds.get((dtype, axes))
        if kind is None:
            kind = _kind(name, dtype, axes)
            if len(self.kinds) < KINDS_REMEMBERED:
                self.kinds[dtype, axes] = kind
        start, stop = map(int, offsets.split(b","))
        if 8 * (stop - start) != kind.bits:
            raise CheckpointError(
                f"Tensor {printable_name(name)} declares {math.prod(kind.shape):,} elements of "
                f"{kind.dtype}, but its data_offsets are [{start}, {stop}]."
            )
        return TensorEntry(name, kind.dtype, kind.shape, start, stop)


def _not_three_fields(name: str) -> CheckpointError:
    shown = printable_name(name)
    return CheckpointError(
        f"Tensor {shown} must have exactly the fields dtype, shape and data_offsets."
    )


def _long_name() -> CheckpointError:
    return CheckpointError(
        f"The header holds a name of more than {limits.MAX_TENSOR_NAME} characters."
    )


def _too_many_tensors() -> CheckpointError:
    return CheckpointError(
        f"The file holds more than {limits.MAX_TENSORS:,} tensors, which is the limit."
    )


def _unquoted(token: bytes) -> str:
    return json.loads(b'"' + token + b'"') if b"\\" in token else token.decode("utf-8")


def _kind(name: str, dtype_name: bytes, axes: bytes) -> _Kind:
    dtype = dtype_name.decode("ascii")
    if dtype not in BITS:
        raise CheckpointError(f"Tensor {printable_name(name)} has the unknown dtype {dtype}.")
    shape = tuple(map(int, axes.split(b","))) if axes else ()
    elements = 1
    for size in shape:
        elements *= size
        if size > limits.MAX_AXIS or elements > MAX_ELEMENTS_STATED:
            raise CheckpointError(
                f"Tensor {printable_name(name)} has an impossible shape: too large."
            )
    return _Kind(dtype, shape, elements * BITS[dtype])


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
