"""Good and hostile .npy files, configs and runs, made in memory, and random changes of good files."""

import functools
import io
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from hypothesis import strategies as st
from safetensors.numpy import save

from posenc.lab import Run, Score
from posenc.lab.runs import to_parquet
from posenc.tables import rope_tables
from tests.lab.small_runs import sentences, small_spec
from tests.library.crafted_files import npy
from tests.library.hostile_checkpoints import HostileFile
from tests.server.doors import HEAD_DIM, PROJECTION, RUN_ID


def npy_header(text: str, version: bytes = b"\x01\x00", body: bytes = b"") -> bytes:
    content = text.encode("utf-8" if version[0] == 3 else "latin-1")
    size = "<H" if version[0] == 1 else "<I"
    return b"\x93NUMPY" + version + struct.pack(size, len(content)) + content + body


def described(
    descr: str = "'<f4'", shape: str = "(2, 2)", order: str = "False", more: str = ""
) -> bytes:
    """Make a .npy of 16 bytes of data, its three fields given as Python text."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, {more}}}\n"
    return npy_header(text, body=bytes(16))


DATA = json.loads(Path(__file__).with_name("hostile_files.json").read_text())
_HEADER = "header of this .npy file cannot be read"


def _labelled(kind: str, files: list[tuple[str, bytes, str]]) -> list[HostileFile]:
    return [HostileFile(f"{kind}: {label}", content, said) for label, content, said in files]


def hostile_arrays() -> list[HostileFile]:
    """Return .npy files that hold no table that could be read."""
    good = npy(np.ones((3, 3), np.float32))
    record = np.zeros(3, dtype=[("x", "<f4"), ("y", "O")])
    fields, texts = DATA["fields of a .npy header"], DATA["texts of a .npy header"]
    files = [(label, described(**given), said) for label, given, said in fields]
    files += [(label, npy_header(text), said) for label, text, said in texts]
    for label, array, said in (
        ("objects", np.array([[{"a": 1}]], dtype=object), "tables are floating-point"),
        ("objects in a record", record, "tables are floating-point"),
        ("rows without columns", np.ones((3, 0), np.float32), "rows"),
        ("a pile of tables", np.ones((3, 3, 3), np.float32), "rows by columns"),
        ("one NaN", np.array([[1, np.nan], [1, 2]], np.float32), "NaN or infinity"),
        ("beyond all sines", np.full((4, 4), 1e38, np.float32), "no sine times a factor"),
    ):
        files.append((label, npy(array), said))
    deep = described("[('a', " * 400 + "'<f4'" + ")]" * 400)
    version_3 = npy_header(good[10:].split(b"\n")[0].decode(), b"\x03\x00")
    files += [
        ("records 400 deep", deep, _HEADER),
        ("a header cut short", good[:40], _HEADER),
        ("a header of 4 GB", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", _HEADER),
        ("a header of 60,000 blanks", described(more=" " * 60_000), _HEADER),
        ("version 3", version_3, "cannot be read"),
        ("brackets 4,000 deep", npy_header("(" * 4_000), _HEADER),
        ("a sum 4,000 deep", npy_header("1" + "+1" * 4_000), _HEADER),
        ("a shape of 5,000 digits", described(shape=f"({'9' * 5_000},)"), _HEADER),
        ("a byte less", good[:-1], "but the file holds"),
        ("a byte more", good + b"\0", "but the file holds"),
    ]
    return _labelled("npy", files)


LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "max_position_embeddings": 4_096, "rope_theta": 1e4,
}  # fmt: skip


def config(**changes: Any) -> bytes:
    return json.dumps(LLAMA | changes).encode()


def hostile_configs() -> list[HostileFile]:
    many = {"weight_map": {f"t{n}": f"../{n}.safetensors" for n in range(20_000)}}
    factors = {"rope_type": "longrope", "short_factor": [1.0] * 10**5, "long_factor": [1.0] * 10**5}
    files = [(label, text.encode(), said) for label, text, said in DATA["texts of a config"]]
    files += [(label, config(**given), said) for label, given, said in DATA["changes of a config"]]
    files += [
        ("UTF-16", config().decode().encode("utf-16"), "not UTF-8"),
        ("5,000 digits", b'{"model_type": "llama", "n": ' + b"9" * 5_000 + b"}", "digits"),
        ("100,000 deep", b'{"a":' * 100_000, "more than 32 deep"),
        ("2 MB", b" " * 2**21 + config(), "longer than 1,048,576"),
        ("300,000 quotes escaped", b'"' + b'\\"' * 300_000, "is not JSON"),
        ("an index of 20,000 shards", json.dumps(many).encode(), "model_type is missing"),
        ("100,000 factors", config(rope_scaling=factors), "factor"),
        (
            "60,000 kinds of layers",
            config(model_type="qwen3", layer_types=["full"] * 60_000),
            "4 entries",
        ),
    ]
    return _labelled("config", files)


def parquet(columns: dict[str, Any], note: object = None, schema: pa.Schema | None = None) -> bytes:
    table = pa.table(columns, schema=schema)
    if note is not None:
        text = note if isinstance(note, bytes) else json.dumps(note).encode()
        table = table.replace_schema_metadata({b"posenc": text})
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="zstd")
    return stream.getvalue()


def hostile_runs(good: bytes) -> list[HostileFile]:
    """Return files that are no run; `good` is the file of a run."""
    table = pq.read_table(io.BytesIO(good))
    columns = {name: table[name].to_pylist() for name in table.column_names}
    schema = table.schema.remove_metadata()
    note = json.loads(table.schema.metadata[b"posenc"])
    rows, specification = len(columns["x"]), note["specification"]
    notes: list[tuple[str, object]] = [
        *DATA["notes of a run"],
        *((label, note | given) for label, given in DATA["changes of a note"]),
        *(
            (label, note | {"specification": specification | given})
            for label, given in DATA["changes of a specification"]
        ),
        ("no note", None),
        ("a note that is no text", b"\xff\xfe"),
        ("a note 100,000 deep", b'{"specification":' + b"[" * 100_000),
    ]
    files = [(label, parquet(columns, given, schema), "") for label, given in notes]
    for label, content in (
        ("its magic alone", b"PAR1PAR1"),
        ("its end alone", good[len(good) // 2 :]),
        ("a footer of 4 GB", good[:-8] + b"\xff\xff\xff\xffPAR1"),
        ("bytes exchanged", good[:40] + bytes(40) + good[80:]),
        ("a column less", parquet({name: columns[name] for name in [*columns][:-1]}, note)),
        ("texts for numbers", parquet(columns | {"value": ["1"] * rows}, note)),
        ("gaps", parquet(columns | {"x": [None] * rows}, note, schema)),
    ):
        files.append((label, content, ""))
    return _labelled("run", files)


def parquet_bomb(rows: int = 2_000_000) -> bytes:
    """Make a run's file of some kilobytes that states many rows."""
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["x"]))
    zeros, stream = pa.array(np.zeros(rows, np.int64)), io.BytesIO()
    columns = {"measure": words, "variant": words, "x": zeros, "until": zeros}
    columns |= {"value": zeros.cast(pa.float64()), "count": zeros}
    pq.write_table(pa.table(columns), stream, compression="zstd")
    return stream.getvalue()


# Parts of headers, to be exchanged for each other.
PIECES = (
    b"0", b"-1", b"9" * 30, b".5", b"1e3", b"1e999", b"null", b"true", b"NaN", b'"', b"'", b"\\", b"{",
    b"}", b"[", b"]", b"(", b")", b",", b":", b" ", b"\n", b"\0", b"\xff", b"\\u0041", b"\\ud800",
    b'"__metadata__":{},', b'"shape":[],', b"F64", b"F16", b"I8", b"'<f8'", b"'|O'", b"<f4", b">c8",
    b"True", b"yarn", b"../", b"PAR1", b"\x80\x02", b"PK\x03\x04", b"\xef\xbb\xbf",
)  # fmt: skip


@functools.cache
def good_files() -> dict[str, list[bytes]]:
    """Return small files by their kind, each of them read by all doors of the kind."""
    table = np.random.default_rng(0).normal(size=(12, 8)).astype(np.float32)
    cos, sin = rope_tables(20, 8)
    scores = tuple(Score("context", "as trained", n, n / 7, 3) for n in range(4))
    run = Run(small_spec(), None, 0.5, scores, (3.5, 2.25, 1.125))
    learned = Run(small_spec("learned"), "It was stopped.", 0.25, scores, (1.5,))
    names = {"run": RUN_ID, "scheme": "learned", "described": "a table, seed 0"}
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
        "parameters": [save({"scheme.weight": table}, names)],
        "projections": [
            save({PROJECTION.format(part): table[:8].astype(kind) for part in "qk"})
            for kind in (np.float32, np.float16)
        ],
        "vectors": [
            npy(table[:, :HEAD_DIM]),
            npy(np.stack((table[:, :HEAD_DIM], table[:, HEAD_DIM:])).astype(np.float64)),
        ],
    }  # fmt: skip


def changed(draw: st.DrawFn, content: bytes, other: bytes) -> bytes:
    """Insert, remove or exchange bytes at one to four places, or put another file in."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        # Headers stand at the begin of most files, at the end of some.
        at = draw(st.sampled_from([at, min(at, 200), max(0, len(content) - 1 - at % 200)]))
        removed = draw(st.sampled_from([0, 1, 8, len(content)]))
        piece = draw(st.sampled_from([b"", other, *PIECES]) | st.binary(max_size=8))
        content = content[:at] + piece + content[at + removed :]
    return content


_WORD = re.compile(rb'"[^"]*"|[-\d.]+|[a-z]+|<f4|>f8')


def with_other_words(draw: st.DrawFn, header: bytes) -> bytes:
    """Exchange one to three words of a header for others of its own or for pieces."""
    for _ in range(draw(st.integers(1, 3))):
        words = [*_WORD.finditer(header)]
        if words:
            word = draw(st.sampled_from(words))
            new = draw(st.sampled_from([one[0] for one in words]) | st.sampled_from(PIECES))
            header = header[: word.start()] + new + header[word.end() :]
    return header


def with_other_header(draw: st.DrawFn, content: bytes) -> bytes:
    """Change words of a file's header, the stated length of the header staying right."""
    if content.startswith(b"PAR1"):
        table = pq.read_table(io.BytesIO(content))
        note = with_other_words(draw, table.schema.metadata[b"posenc"])
        stream = io.BytesIO()
        pq.write_table(table.replace_schema_metadata({b"posenc": note}), stream)
        return stream.getvalue()
    if content.startswith(b"{"):
        return with_other_words(draw, content)
    begin, form = (8, "<H") if content.startswith(b"\x93NUMPY") else (0, "<Q")
    start = begin + struct.calcsize(form)
    stop = start + struct.unpack(form, content[begin:start])[0]
    header = with_other_words(draw, content[start:stop])
    length = min(len(header), 65_535)
    return content[:begin] + struct.pack(form, length) + header + content[stop:]


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, bytes]:
    """A kind of file, and a changed file of it."""
    kinds = good_files()
    kind = draw(st.sampled_from([*kinds]))
    content = draw(st.sampled_from(kinds[kind]))
    if kind != "text" and draw(st.booleans()):
        return kind, with_other_header(draw, content)
    other = draw(st.sampled_from([file for files in kinds.values() for file in files]))
    return kind, changed(draw, content, other)
