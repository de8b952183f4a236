"""Good files of every kind a door takes, and changes of them: bits, cuts, splices, edited headers."""

import functools
import io
import json
import re
import struct

import numpy as np
import torch
from hypothesis import strategies as st
from safetensors.numpy import save

from posenc.lab import Run, Score
from posenc.lab.run import to_parquet
from posenc.tables import rope_tables
from tests.hostile_numbers import LLAMA, config, npy
from tests.small_runs import sentences, small

# What stands in headers, to be exchanged for each other.
PIECES = (
    *(b"0", b"-1", b"9" * 30, b".5", b"1e3", b"1e999", b"null", b"true", b"NaN", b'"', b"'", b"\\"),
    *(b"{", b"}", b"[", b"]", b"(", b")", b",", b":", b" ", b"\n", b"\0", b"\xff", b"\\u0041"),
    *(b"\\ud800", b'"__metadata__":{},', b'"shape":[],', b"F64", b"F16", b"I8", b"'<f8'", b"'|O'"),
    *(
        b"<f4",
        b">c8",
        b"True",
        b"yarn",
        b"../",
        b"PAR1",
        b"\x80\x02",
        b"PK\x03\x04",
        b"\xef\xbb\xbf",
    ),
)


@functools.cache
def good_files() -> dict[str, list[bytes]]:
    """Return small files by their kind, each of them taken by all doors of the kind."""
    table = np.random.default_rng(0).normal(size=(12, 8)).astype(np.float32)
    cos, sin = rope_tables(20, 8)
    scores = tuple(Score("context", "as trained", n, n / 7, 3) for n in range(4))
    run = Run(small(), scores, (3.5, 2.25, 1.125), None, 0.5)
    learned = Run(small("learned"), scores, (1.5,), "It was stopped.", 0.25)
    named = {"run": "0123456789abcdef0123", "scheme": "learned", "described": "a table, seed 0"}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4_096}
    return {
        "checkpoint": [
            save({"wpe.weight": table, "head.bias": table[0]}, {"format": "pt"}),
            save({"embeddings.position_embeddings.weight": table.astype(np.float16)}),
            save({"model.embed_positions.weight": table.astype(np.float64)}),
        ],
        "numbers": [
            npy(table),
            npy(np.asfortranarray(table.astype(">f8"))),
            npy(torch.stack((cos, sin)).numpy()),
            npy((cos + 1j * sin).numpy()),
            save({"cos": cos.numpy(), "sin": sin.numpy()}),
        ],
        "config": [
            config(),
            config(rope_scaling=yarn, torch_dtype="bfloat16"),
            config(_name_or_path="\x1b[31m\u202e\0\r\n](x)", rope_scaling=None),
            json.dumps({"model_type": "bert", "hidden_size": 96, "num_attention_heads": 4}).encode(),
            json.dumps({"model_type": "gemma3", "text_config": LLAMA}, indent=1).encode(),
        ],
        "text": [sentences()[:24_000], ("\xe4\u20ac\U0001f600 " * 3_000).encode()],
        "run": [to_parquet(run), to_parquet(learned)],
        "parameters": [save({"scheme.weight": table}, named)],
    }  # fmt: skip


def changed(draw: st.DrawFn, content: bytes, other: bytes) -> bytes:
    """Flip bits, put, remove or exchange bytes, cut, or splice, at one to four places."""
    found = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(found) - 1)))
        # Headers stand at the begin of most files, at the end of some.
        at = draw(st.sampled_from([at, min(at, 200), max(0, len(found) - 1 - at % 200)]))
        match draw(st.sampled_from(["flip", "flip", "put", "take", "move", "cut", "splice"])):
            case "flip" if found:
                found[at] ^= 1 << draw(st.integers(0, 7))
            case "put":
                piece = draw(st.sampled_from(PIECES) | st.binary(min_size=1, max_size=8))
                found[at : at + draw(st.integers(0, len(piece)))] = piece
            case "take":
                del found[at : at + draw(st.integers(1, 16))]
            case "move":
                size = draw(st.integers(1, 64))
                piece, to = found[at : at + size], draw(st.integers(0, len(found)))
                found[to : to + len(piece)] = piece
            case "cut":
                found = found[:at] if draw(st.booleans()) else found[at:]
            case "splice":
                found = found[:at] + other[draw(st.integers(0, len(other))) :]
    return bytes(found)


_WORD = re.compile(rb'"[^"]*"|[-\d.]+|[a-z]+|<f4|>f8')


def reworded(draw: st.DrawFn, content: bytes) -> bytes:
    """Exchange words of a header, its length kept right, so that the change is looked at."""
    if content.startswith(b"\x93NUMPY"):
        start, stop = 10, 10 + struct.unpack("<H", content[8:10])[0]
    elif content.startswith(b"{"):
        start, stop = 0, len(content)
    else:
        start, stop = 8, 8 + struct.unpack("<Q", content[:8])[0]
    header = content[start:stop]
    for _ in range(draw(st.integers(1, 3))):
        words = [*_WORD.finditer(header)]
        if not words:
            break
        word = draw(st.sampled_from(words))
        new = draw(st.sampled_from([one[0] for one in words]) | st.sampled_from(PIECES))
        header = header[: word.start()] + new + header[word.end() :]
    if content.startswith(b"\x93NUMPY"):
        return content[:8] + struct.pack("<H", min(len(header), 65_535)) + header + content[stop:]
    if content.startswith(b"{"):
        return header
    return struct.pack("<Q", len(header)) + header + content[stop:]


def rewritten(draw: st.DrawFn, content: bytes) -> bytes:
    """Change the note of a run's file and write the file anew."""
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    note = table.schema.metadata[b"posenc"]
    found = note
    for _ in range(draw(st.integers(1, 3))):
        words = [*_WORD.finditer(found)]
        if words:
            word = draw(st.sampled_from(words))
            new = draw(st.sampled_from(PIECES) | st.sampled_from([one[0] for one in words]))
            found = found[: word.start()] + new + found[word.end() :]
    stream = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({b"posenc": found}), stream)
    return stream.getvalue()


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, bytes]:
    """A kind of file, and a changed file of it."""
    kinds = good_files()
    kind = draw(st.sampled_from([*kinds]))
    content = draw(st.sampled_from(kinds[kind]))
    other = draw(st.sampled_from([one for files in kinds.values() for one in files]))
    if draw(st.booleans()) or kind == "text":
        return kind, changed(draw, content, other)
    return kind, rewritten(draw, content) if kind == "run" else reworded(draw, content)
