"""Files that are no valid .safetensors checkpoint, made in memory, with a part of the expected refusal."""

import gzip
import json
import pickle
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from tests.library.crafted_files import (
    RunsCode,
    container,
    legacy_pickle,
    torchscript,
    valid_file,
    zip_archive,
    zipped_pickle,
)


class HostileFile(NamedTuple):
    """One file to refuse; `fragment` is a part of the expected sentence."""

    label: str
    content: bytes
    fragment: str


Cases = list[tuple[str, bytes, str]]

_TENSOR = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
_PICKLE = "it contains code, not only weights"
_NUMBERS = "whole numbers from 0"
_OBJECT = "must begin with an object"
_NOT_SAFETENSORS = "This is not a .safetensors file"
_JSON = "is not valid JSON near"


def one_tensor(
    dtype: str = '"F32"', shape: str = "[2]", offsets: str = "[0,8]", name: str = '"a"'
) -> bytes:
    description = f'{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}'
    return container(f"{{{name}:{description}}}", bytes(8))


def _other_formats() -> Cases:
    index = '{"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}'
    signatures = {
        b"\x89PNG\r\n\x1a\n": _NOT_SAFETENSORS, b"\xff\xd8\xff": _NOT_SAFETENSORS,
        b"%PDF-1.7": _NOT_SAFETENSORS,
        b"\x89HDF\r\n\x1a\n": "an HDF5 file", b"GGUF\x03": "a GGUF file", b"PAR1": _NOT_SAFETENSORS,
        b"\x7fELF": _NOT_SAFETENSORS, b"x".ljust(257, b"\0") + b"ustar": _NOT_SAFETENSORS,
        b"\x93NUMPY": "a NumPy array",
        b"version https://git-lfs.github.com/spec/v1\noid": "Git LFS pointer",
    }  # fmt: skip
    return [
        *((repr(begin[:8]), begin + bytes(64), kind) for begin, kind in signatures.items()),
        ("empty", b"", "The file is empty."),
        ("one byte", b"\x07", _NOT_SAFETENSORS),
        ("noise", np.random.default_rng(0).bytes(4_096), _NOT_SAFETENSORS),
        ("zeros", bytes(64), _OBJECT),
        ("plain text", b"These are notes on a model.\n" * 20, _NOT_SAFETENSORS),
        ("UTF-16 text", "notes on a model".encode("utf-16"), _NOT_SAFETENSORS),
        ("HTML", b"\n\n <html>\n<body>404</body></html>", "an HTML page"),
        ("JSON", b'{"hidden_size": 768, "vocab_size": 30522}', "a JSON text"),
        ("index of shards", index.encode(), "a JSON text"),
        ("gzip", gzip.compress(valid_file()), "a gzip archive"),
        ("zip", zip_archive({"model.safetensors": valid_file()}), "a zip archive"),
        ("deflated zip", zip_archive({"zeros": bytes(2**20)}, zipfile.ZIP_DEFLATED), "a zip archive"),
        ("npz", zip_archive({"table.npy": b"\x93NUMPY"}), "a zip archive"),
    ]  # fmt: skip


def _pickles() -> Cases:
    state = {"wpe.weight": torch.arange(12.0).reshape(4, 3)}
    archive = zip_archive({"archive/data.pkl": pickle.dumps(RunsCode())})
    return [
        ("torch zip", zipped_pickle(state), _PICKLE),
        ("torch zip with code", archive, _PICKLE),
        ("torch legacy", legacy_pickle(state), _PICKLE),
        ("TorchScript", torchscript(), _PICKLE),
        ("pickle of data", pickle.dumps({"a": [1, 2]}, 2), _PICKLE),
        *(
            (f"pickle with code, protocol {n}", pickle.dumps({"code": RunsCode()}, n), sentence)
            for n, sentence in ((0, _NOT_SAFETENSORS), (1, _NOT_SAFETENSORS), (5, _PICKLE))
        ),
    ]


def _lengths() -> Cases:
    valid = valid_file()

    def of_length(length: int) -> bytes:
        return struct.pack("<Q", length) + valid[8:]

    return [
        ("header length 2^64 - 1", of_length(2**64 - 1), "its header is too long: 18,446,"),
        ("header length past the file", of_length(4_096), "The file is truncated"),
        ("header length 0", of_length(0), _JSON),
        ("header shorter than its JSON", of_length(20), _JSON),
        ("one byte missing", valid[:-1], "The file is truncated"),
        ("trailing byte", valid + b"\0", "trailing bytes: 1"),
        ("second file behind", valid + valid, "trailing bytes:"),
    ]


def _headers() -> Cases:
    """Faults of the header's text (@ stands for _TENSOR), and those too long or no text."""
    path = Path(__file__).with_name("hostile_headers.json")
    deep, unreadable = 10**5, "not valid UTF-8"

    def header(text: str | bytes) -> bytes:
        raw = text if isinstance(text, bytes) else text.encode()
        return container(raw.replace(b"@", _TENSOR.encode()), bytes(8))

    return [
        *(
            (label, container(text.replace("@", _TENSOR), bytes(size)), fragment)
            for label, text, size, fragment in json.loads(path.read_text(encoding="utf-8"))
        ),
        ("100,000 deep lists", header('{"a":' + "[" * deep), "too many lists or objects"),
        ("100,000 deep objects", header('{"a":' * deep), "too many lists or objects"),
        ("100,000 deep shape", one_tensor(shape="[" * deep + "]" * deep), "too many lists or"),
        ("invalid UTF-8", header(b'{"\xff\xfe":@}'), unreadable),
        ("UTF-8 cut short", header(b'{"a":{"\xc3'), unreadable),
        ("overlong UTF-8", header(b'{"\xc0\xaf":@}'), unreadable),
        ("name of 1 MB", header(f'{{"{"n" * 10**6}":@}}'), "more than 256 characters"),
        ("axis of 5,000 digits", one_tensor(shape=f"[{'9' * 5_000}]"), _NUMBERS),
        ("shape of a million axes", one_tensor(shape="[2" + ",1" * 10**6 + "]"), "400,000 values"),
        ("shape of 100,000 axes", one_tensor(shape="[2" + ",1" * 10**5 + "]"), "at most 32 whole"),
        ("dtype of 1 MB", one_tensor(dtype=f'"{"F" * 10**6}"'), "the unknown dtype FFF"),
    ]  # fmt: skip


HOSTILE_FILES = [
    HostileFile(*case) for cases in (_other_formats, _pickles, _lengths, _headers) for case in cases()
]  # fmt: skip


def named_tensors(count: int, name: str = "{}") -> str:
    """Return a header of so many empty tensors, {} in the name standing for the number."""
    empty = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    return "{" + ",".join(f'"{name.format(n)}":{empty}' for n in range(count)) + "}"


def large_hostile_files() -> Iterator[HostileFile]:
    size, face = 4 * 10**6, "\N{GRINNING FACE}"
    names, wide = (named_tensors(20_000, "n" * 100 + end + "{:06}") for end in ("", face))
    metadata = f'{{"__metadata__":{{"x":"{" " * size}"}},"a":1}}'
    wide_metadata = metadata.replace("  ", face, 1)
    for label, header, fragment in (
        ("20,000 long names", names + "x", _JSON),
        ("20,000 wide names", wide, "beyond ASCII"),
        ("metadata, then a fault", metadata, "exactly the fields"),
        ("wide metadata, then a fault", wide_metadata, "beyond ASCII"),
        ("name of escapes", '{"' + "\\u0041" * (size // 6), _JSON),
        ("white space", "{" + " " * size + "}x", _JSON),
        ("open brackets", '{"a":{"shape":' + "[" * size, "more than 400,000 values"),
        ("nested objects", '{"a":' * (size // 40), "too many lists or objects"),
        ("lists", '{"a":[' + "[]," * (size // 50), _JSON),
    ):
        yield HostileFile(label, container(header), fragment)
