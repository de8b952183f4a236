"""Files that must be refused, made in memory: label, content, and a piece of the sentence expected.

`HOSTILE_FILES` are small; `large_hostile_files()` makes the large ones one at a time.
"""

import gzip
import io
import json
import os
import pickle
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch


class HostileFile(NamedTuple):
    """One file to refuse; `fragment` is part of the sentence that must come."""

    label: str
    content: bytes
    fragment: str


def container(header: str | bytes | dict[str, object], data: bytes = b"") -> bytes:
    """Put a header, right or wrong, and data into the .safetensors form."""
    text = json.dumps(header) if isinstance(header, dict) else header
    text = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(text)) + text + data


def checkpoint(
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]], metadata: dict[str, str] | None = None
) -> bytes:
    """Make a valid file of (dtype, shape, little-endian bytes) by name."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    data = b""
    for name, (dtype, shape, content) in tensors.items():
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        data += content
    return container(header, data)


def valid_file() -> bytes:
    """Make a small valid file with two tensors and metadata."""
    position = np.arange(12, dtype="<f4").tobytes()
    return checkpoint(
        {"wpe.weight": ("F32", (4, 3), position), "bias": ("F16", (3,), bytes(6))}, {"format": "pt"}
    )


def legacy_pickle(value: object) -> bytes:
    """Save by torch's form from before the zip archive."""
    stream = io.BytesIO()
    torch.save(value, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def zipped_pickle(value: object) -> bytes:
    """Save as torch.save does today: a zip archive around a pickle."""
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def torchscript() -> bytes:
    """Save a traced module: an archive with code."""
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # deprecated, and still found in the wild
        traced = torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2), check_trace=False)
        torch.jit.save(traced, stream)
    return stream.getvalue()


class RunsCode:
    """An object whose pickle runs a command where it is loaded; here it is never loaded."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch posenc-was-attacked",)


def _zip(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _tar(content: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        entry = tarfile.TarInfo("model.safetensors")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.zeros((4, 3), np.float32))
    return stream.getvalue()


def _npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, table=np.zeros((4, 3), np.float32))
    return stream.getvalue()


def _one(
    dtype: str = '"F32"', shape: str = "[2]", offsets: str = "[0,8]", name: str = '"a"'
) -> bytes:
    """Make a file of one tensor with 8 bytes of data, its fields given as JSON text."""
    description = f'{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}'
    return container(f"{{{name}:{description}}}", bytes(8))


_GOOD = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
_STATE = {"wpe.weight": torch.arange(12.0).reshape(4, 3)}
_PICKLE = "it contains code, not only weights"
_NO_CHECKPOINT = "not a .safetensors checkpoint"
_FIELDS = "exactly the fields dtype, shape and data_offsets"
_WHOLE = "whole numbers from 0"


def _other_formats() -> list[tuple[str, bytes, str]]:
    png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(64)
    index = (
        '{"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}'
    )
    return [
        ("empty", b"", "The file is empty."),
        ("one byte", b"\x07", _NO_CHECKPOINT),
        ("seven bytes", bytes(7), _NO_CHECKPOINT),
        ("plain text", b"These are notes on a model.\n" * 20, "a text file"),
        ("UTF-16 text", "notes on a model".encode("utf-16"), "a text file"),
        ("HTML", b"<!DOCTYPE html>\n<html><body>Sign in</body></html>", "an HTML page"),
        ("HTML after blank lines", b"\n\n <html>\n<body>404</body></html>", "an HTML page"),
        ("JSON", b'{"hidden_size": 768, "vocab_size": 30522}', "a JSON text"),
        ("index of shards", index.encode(), "the index of a checkpoint in several files"),
        ("Git LFS pointer", b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        ("PNG", png, "a PNG picture"),
        ("JPEG", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(32), "a JPEG picture"),
        ("PDF", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF document"),
        ("gzip", gzip.compress(valid_file()), "a gzip archive"),
        ("tar", _tar(valid_file()), "a tar archive"),
        ("zip", _zip({"model.safetensors": valid_file()}), "a zip archive"),
        ("empty zip", _zip({}), "a zip archive"),
        ("deflated zip", _zip({"zeros": bytes(2**20)}, zipfile.ZIP_DEFLATED), "a zip archive"),
        ("npy", _npy(), "a NumPy array file"),
        ("npz", _npz(), "a NumPy archive"),
        ("HDF5", b"\x89HDF\r\n\x1a\n" + bytes(64), "an HDF5 file"),
        ("GGUF", b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + bytes(64), "a GGUF file"),
        ("Parquet", b"PAR1" + bytes(32) + b"PAR1", "a Parquet file"),
        ("program", b"\x7fELF\x02\x01\x01" + bytes(64), "a program"),
        ("noise", np.random.default_rng(0).bytes(4_096), _NO_CHECKPOINT),
        ("zeros", bytes(64), "an object was expected"),
    ]


def _pickles() -> list[tuple[str, bytes, str]]:
    attack = RunsCode()
    return [
        ("torch zip", zipped_pickle(_STATE), _PICKLE),
        ("torch zip, large", zipped_pickle({"a": torch.zeros(300, 300)}), _PICKLE),
        ("torch zip with code", _zip({"archive/data.pkl": pickle.dumps(attack)}), _PICKLE),
        ("torch legacy", legacy_pickle(_STATE), _PICKLE),
        ("TorchScript", torchscript(), "a TorchScript archive: " + _PICKLE),
        *(
            (f"pickle, protocol {protocol}", pickle.dumps({"a": [1, 2]}, protocol), _PICKLE)
            for protocol in range(6)
        ),
        *(
            (f"pickle with code, protocol {protocol}", pickle.dumps(attack, protocol), _PICKLE)
            for protocol in range(6)
        ),
    ]


def _lengths() -> list[tuple[str, bytes, str]]:
    valid = valid_file()
    return [
        ("header length 2^63", struct.pack("<Q", 2**63) + valid[8:], "states a header of 9,223,"),
        ("header length 2^64 - 1", b"\xff" * 8 + valid[8:], "states a header of 18,446,"),
        ("header length 99 MB", struct.pack("<Q", 99 * 10**6) + valid[8:], "header of 99,000,000"),
        (
            "header length past the file",
            struct.pack("<Q", 4_096) + valid[8:],
            "The file is truncated",
        ),
        ("header length 0", struct.pack("<Q", 0) + valid[8:], "an object was expected"),
        ("header length 1", struct.pack("<Q", 1) + valid[8:], "is not valid near byte"),
        (
            "header shorter than its JSON",
            struct.pack("<Q", 20) + valid[8:],
            "is not valid near byte",
        ),
        ("one byte missing", valid[:-1], "The file is truncated"),
        ("all data missing", _one()[:-8], "The file is truncated"),
        ("cut in the header", valid[:40], "The file is truncated"),
        ("eight bytes only", valid[:8], "The file is truncated"),
        ("trailing byte", valid + b"\0", "trailing bytes: 1"),
        ("second file behind", valid + valid, "trailing bytes:"),
    ]


def _json_faults() -> list[tuple[str, bytes, str]]:
    deep = 10**5
    return [
        ("empty header", container("", bytes(8)), "an object was expected"),
        ("header is a list", container("[]"), "an object was expected"),
        ("header is a number", container("12"), "an object was expected"),
        ("header is null", container("null"), "an object was expected"),
        ("white space first", container(f' {{"a":{_GOOD}}}', bytes(8)), "an object was expected"),
        (
            "byte order mark",
            container(f'\ufeff{{"a":{_GOOD}}}', bytes(8)),
            "an object was expected",
        ),
        ("text behind the object", container(f'{{"a":{_GOOD}}}x', bytes(8)), "nothing more"),
        ("NUL behind the object", container(f'{{"a":{_GOOD}}}\0', bytes(8)), "nothing more"),
        ("object not closed", container(f'{{"a":{_GOOD}', bytes(8)), "a comma or the end"),
        (
            "comma at the end",
            container(f'{{"a":{_GOOD},}}', bytes(8)),
            "a name in quotes was expected",
        ),
        ("single quotes", container(f"{{'a':{_GOOD}}}", bytes(8)), "a name in quotes was expected"),
        ("comment", container(f'{{/*x*/"a":{_GOOD}}}', bytes(8)), "a name in quotes was expected"),
        ("100,000 deep lists", container('{"a":' + "[" * deep), "object that describes a tensor"),
        ("100,000 deep objects", container('{"a":' * deep), _FIELDS),
        ("100,000 deep shape", _one(shape="[" * deep + "]" * deep), _WHOLE),
        (
            "invalid UTF-8",
            container(b'{"\xff\xfe":' + _GOOD.encode() + b"}", bytes(8)),
            "valid UTF-8",
        ),
        ("UTF-8 cut short", container(b'{"a":{"\xc3'), "valid UTF-8"),
        (
            "UTF-8 surrogate",
            container(b'{"\xed\xa0\x80":' + _GOOD.encode() + b"}", bytes(8)),
            "UTF-8",
        ),
        (
            "overlong UTF-8",
            container(b'{"\xc0\xaf":' + _GOOD.encode() + b"}", bytes(8)),
            "valid UTF-8",
        ),
        ("escaped lone surrogate", _one(name='"\\ud800"'), "a name in quotes was expected"),
        ("escaped pair reversed", _one(name='"\\udc00\\ud800"'), "a name in quotes was expected"),
        ("control character in a name", _one(name='"a\x01"'), "a name in quotes was expected"),
        ("unknown escape", _one(name='"\\x41"'), "a name in quotes was expected"),
        ("name of 257 characters", _one(name=f'"{"n" * 257}"'), "more than 256 characters"),
        ("name of 1 MB", _one(name=f'"{"n" * 10**6}"'), "more than 256 characters"),
        ("tensor named twice", container(f'{{"a":{_GOOD},"a":{_GOOD}}}', bytes(8)), "a twice"),
        (
            "tensor named twice, once escaped",
            container(f'{{"a":{_GOOD},"\\u0061":{_GOOD}}}', bytes(8)),
            "a twice",
        ),
    ]


def _field_faults() -> list[tuple[str, bytes, str]]:
    field = '{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}'
    twice = '{"dtype":"F32","shape":[2],"data_offsets":[0,8],"shape":[2]}'
    return [
        ("tensor is a list", container('{"a":["F32",[2],[0,8]]}', bytes(8)), "describes a tensor"),
        ("tensor is null", container('{"a":null}'), "describes a tensor"),
        ("tensor is a text", container('{"a":"F32"}'), "describes a tensor"),
        ("tensor without fields", container('{"a":{}}'), _FIELDS),
        ("no shape", container('{"a":{"dtype":"F32","data_offsets":[0,4]}}', bytes(4)), _FIELDS),
        ("unknown field", container(f'{{"a":{field}}}', bytes(8)), _FIELDS),
        ("field twice", container(f'{{"a":{twice}}}', bytes(8)), "states its shape twice"),
        ("shape negative", _one(shape="[-2]"), _WHOLE),
        ("shape -0", _one(shape="[2,-0]"), _WHOLE),
        ("shape float", _one(shape="[2.0]"), _WHOLE),
        ("shape exponent", _one(shape="[2e0]"), _WHOLE),
        ("shape bool", _one(shape="[true,2]"), _WHOLE),
        ("shape null", _one(shape="[null]"), _WHOLE),
        ("shape text", _one(shape='["2"]'), _WHOLE),
        ("shape NaN", _one(shape="[NaN]"), _WHOLE),
        ("shape leading zero", _one(shape="[02]"), _WHOLE),
        ("shape of 5,000 digits", _one(shape=f"[{'9' * 5000}]"), _WHOLE),
        ("shape nested", _one(shape="[[2]]"), _WHOLE),
        ("shape of 33 axes", _one(shape="[2" + ",1" * 32 + "]"), "at most 32 whole numbers"),
        (
            "shape of a million axes",
            _one(shape="[2" + ",1" * 10**6 + "]"),
            "at most 32 whole numbers",
        ),
        ("shape is a number", _one(shape="2"), _WHOLE),
        ("shape too large for the bytes", _one(shape="[3]"), "declares 3 elements of F32"),
        ("shape claims 10^12", _one(shape="[1000000,1000000]"), "declares 1,000,000,000,000"),
        ("shape overflows 64 bits", _one(shape="[4294967296,4294967296]"), "impossible shape"),
        ("shape wraps round to 8 bytes", _one(shape="[2147483648,2147483648,4,2]"), "impossible"),
        ("overflow times zero", _one(shape="[2147483648,2147483648,2147483648,0]"), "impossible"),
        ("offsets negative", _one(offsets="[-8,0]"), _WHOLE),
        ("offsets float", _one(offsets="[0,8.0]"), _WHOLE),
        ("offsets bool", _one(offsets="[false,8]"), _WHOLE),
        ("offsets -0", _one(offsets="[-0,8]"), _WHOLE),
        ("offsets reversed", _one(offsets="[8,0]"), "its data_offsets are [8, 0]"),
        ("offsets of three", _one(offsets="[0,8,8]"), _WHOLE),
        ("offsets of one", _one(offsets="[8]"), _WHOLE),
        ("offsets over 64 bits", _one(offsets="[0,18446744073709551624]"), _WHOLE),
        ("dtype unknown", _one(dtype='"F31"'), "unknown dtype F31"),
        ("dtype in small letters", _one(dtype='"f32"'), "unknown dtype f32"),
        ("dtype empty", _one(dtype='""'), "must be a name such as F32"),
        ("dtype a number", _one(dtype="32"), "must be a name such as F32"),
        ("dtype of 1 MB", _one(dtype=f'"{"F" * 10**6}"'), "must be a name such as F32"),
        ("F4 in half bytes", _one('"F4"', "[15]"), "declares 15 elements of F4"),
        ("F4 rounded down", _one('"F4"', "[15]", "[0,7]"), "declares 15 elements of F4"),
    ]


def _layout_faults() -> list[tuple[str, bytes, str]]:
    def two(first: str, second: str, data: int) -> bytes:
        described = (f'{{"dtype":"F32","shape":[2],"data_offsets":{o}}}' for o in (first, second))
        return container('{{"a":{},"b":{}}}'.format(*described), bytes(data))

    return [
        ("overlap", two("[0,8]", "[4,12]", 12), "b overlaps"),
        ("same bytes twice", two("[0,8]", "[0,8]", 8), "b overlaps"),
        ("hole", two("[0,8]", "[12,20]", 20), "b begins after a hole"),
        ("hole at the beginning", two("[8,16]", "[16,24]", 24), "a begins after a hole"),
        ("offsets past the file", two("[0,8]", "[8,16]", 8), "The file is truncated"),
        ("offsets of 2^62", _one(offsets="[4611686018427387904,4611686018427387912]"), "a hole"),
        (
            "empty tensor inside another",
            container(
                f'{{"a":{_GOOD},"b":{{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}}}', bytes(8)
            ),
            "b overlaps",
        ),
    ]


def _metadata_faults() -> list[tuple[str, bytes, str]]:
    def with_metadata(text: str) -> bytes:
        return container(f'{{"__metadata__":{text},"a":{_GOOD}}}', bytes(8))

    many = json.dumps({str(number): "" for number in range(513)})
    return [
        ("metadata a number", with_metadata('{"x":1}'), "metadata values are texts"),
        ("metadata a list", with_metadata('{"x":["1"]}'), "metadata values are texts"),
        ("metadata null", with_metadata('{"x":null}'), "metadata values are texts"),
        ("metadata nested", with_metadata('{"x":{"y":"z"}}'), "metadata values are texts"),
        ("metadata is null", with_metadata("null"), "as __metadata__"),
        ("metadata is a text", with_metadata('"pt"'), "as __metadata__"),
        ("metadata is a tensor", with_metadata(_GOOD), "metadata values are texts"),
        ("metadata key twice", with_metadata('{"x":"1","x":"2"}'), "names x twice"),
        (
            "metadata twice",
            container(f'{{"__metadata__":{{}},"__metadata__":{{}},"a":{_GOOD}}}', bytes(8)),
            "__metadata__ twice",
        ),
        ("metadata with a lone surrogate", with_metadata('{"x":"\\udc00"}'), "metadata values"),
        ("metadata of 513 entries", with_metadata(many), "more than 512 entries"),
    ]


HOSTILE_FILES = [
    HostileFile(*file)
    for group in (
        _other_formats, _pickles, _lengths, _json_faults, _field_faults, _layout_faults,
        _metadata_faults,
    )
    for file in group()
]  # fmt: skip


def large_hostile_files() -> Iterator[HostileFile]:
    """Yield files of megabytes, each made when it is asked for."""

    def entries(count: int, name: str) -> str:
        empty = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
        return "{" + ",".join(f'"{name.format(n)}":{empty}' for n in range(count)) + "}"

    yield HostileFile("1,000,000 tensors", container(entries(10**6, "{}")), "states a header of")
    yield HostileFile(
        "100,000 tensors", container(entries(10**5, "{}")), "more than 20,000 tensors"
    )
    long_name = "n" * 240 + "\N{GRINNING FACE}{:06}"
    yield HostileFile(
        "20,001 long names", container(entries(20_001, long_name)), "The names of the tensors"
    )
    end = entries(20_000, "model.layers.{}.mlp.experts.0.down_proj.weight")[:-1] + "]"
    yield HostileFile("20,000 tensors, then a fault", container(end), "a comma or the end")

    blank = f'{{"__metadata__":{{"x":"{" " * (99 * 10**6)}"}}}}'
    yield HostileFile("99 MB of metadata", container(blank), "states a header of 99,")
    face = f'{{"__metadata__":{{"x":"{" " * (8 * 10**6)}\N{GRINNING FACE}"}},"a":1}}'
    yield HostileFile("8 MB of metadata, then a fault", container(face), "describes a tensor")
    escapes = '{"' + "\\u0041" * (8 * 10**6 // 6) + f'":{_GOOD}}}'
    yield HostileFile(
        "name of 8 MB of escapes", container(escapes), "a name in quotes was expected"
    )
    pairs = ",".join(f'"{n:x}":""' for n in range(600_000))
    yield HostileFile(
        "600,000 metadata entries", container(f'{{"__metadata__":{{{pairs}}}}}'), "512"
    )
    blanks = "{" + " " * (8 * 10**6) + "}x"
    yield HostileFile("8 MB of white space", container(blanks), "nothing more")
    nested = '{"a":{"dtype":"F32","shape":' + "[" * (8 * 10**6)
    yield HostileFile("8 MB of open brackets", container(nested), "whole numbers from 0")
