"""The header of a .safetensors file, matched against its grammar, which is a part of JSON.

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
import json
import math
import re
import sys
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from posenc import limits
from posenc.errors import CheckpointError
from posenc.interop import safetensors_grammar as grammar
from posenc.interop.shown_name import printable_name

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
        self._take(grammar.BEGIN, "an object")
        last = grammar.CLOSE.match(self.text, self.at) is not None
        if last:
            self._take(grammar.CLOSE, "the end")
        while not last:
            whole = grammar.TENSOR.match(self.text, self.at)
            if whole is not None and None not in (groups := whole.groups()):
                quoted, dtype, axes, offsets, after = groups
                name = quoted.decode("utf-8")
                self._admit(name)
                self.tensors[name] = self._sized_entry(name, dtype, axes, offsets)
                self.at, last = whole.end(), after == b"}"
                continue
            name = self._name(self._take(grammar.KEY, "a name in quotes"))
            if name != "__metadata__":
                self._admit(name)
                self.tensors[name] = self._entry(name)
            elif metadata is not None:
                raise CheckpointError("The header holds __metadata__ twice.")
            else:
                metadata = self._metadata()
            last = self._take(grammar.NEXT, "a comma or the end of the object")[1] == b"}"
        self._take(grammar.END, "nothing more")
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
        for count, _ in enumerate(grammar.OFFSETS_FIELD.finditer(self.text), start=1):
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
        self._take(grammar.OPEN, "an object of texts, as __metadata__,")
        if grammar.CLOSE.match(self.text, self.at) is not None:
            self._take(grammar.CLOSE, "the end")
            return metadata
        while True:
            key = self._name(self._take(grammar.KEY, "a name in quotes"))
            if key in metadata:
                raise CheckpointError(f"The metadata names {printable_name(key)} twice.")
            if len(metadata) == limits.MAX_METADATA_ENTRIES:
                raise CheckpointError(
                    f"The metadata holds more than {limits.MAX_METADATA_ENTRIES} entries, the limit."
                )
            value = self._take(grammar.TEXT, "a text (metadata values are texts)")
            start, stop = value.span(1)
            kept = stop - start <= limits.MAX_METADATA_VALUE
            metadata[key] = _unquoted(value[1]) if kept else f"({stop - start:,} bytes, not kept)"
            if self._take(grammar.NEXT, "a comma or the end of the metadata")[1] == b"}":
                return metadata

    def _entry(self, name: str) -> TensorEntry:
        fields: dict[bytes, bytes] = {}
        self._take(grammar.OPEN, "an object that describes a tensor")
        while True:
            match = grammar.FIELD.match(self.text, self.at)
            if match is None:
                break
            key = match[1]
            if key in fields:
                raise CheckpointError(
                    f"Tensor {printable_name(name)} states its {key.decode()} twice."
                )
            pattern, allowed = grammar.VALUES[key]
            value = pattern.match(self.text, match.end())
            if value is None:
                got = bytes(self.text[match.end() : match.end() + 32]).decode("utf-8", "replace")
                raise CheckpointError(
                    f"The {key.decode()} of tensor {printable_name(name)} must be {allowed}, "
                    f"got {printable_name(got[: got.find(']') + 1] or got, 32)}."
                )
            fields[key] = value[1]
            self.at = value.end()
            if self._take(grammar.NEXT, "a comma or the end of a tensor's description")[1] == b"}":
                if len(fields) < 3:
                    break
                return self._sized_entry(name, *(fields[field] for field in grammar.VALUES))
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
