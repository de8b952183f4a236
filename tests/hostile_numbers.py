"""Hostile .npy files, configs, runs and texts, made in memory; see tests/hostile_files.py as well."""

import io
import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile_files import HostileFile

# Arrays -------------------------------------------------------------------------------------------


def npy(array: np.ndarray) -> bytes:
    """Save an array as numpy does."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)  # of objects, too: such a file is to be refused
    return stream.getvalue()


def npy_header(text: str, version: bytes = b"\x01\x00", body: bytes = b"") -> bytes:
    """Put a header, right or wrong, before the bytes of an array."""
    written = text.encode("utf-8" if version[0] == 3 else "latin-1")
    size = "<H" if version[0] == 1 else "<I"
    return b"\x93NUMPY" + version + struct.pack(size, len(written)) + written + body


def described(
    descr: str = "'<f4'", shape: str = "(2, 2)", order: str = "False", blanks: int = 0
) -> bytes:
    """Make a .npy of 16 bytes of data, its three fields given as Python text."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}{' ' * blanks}\n"
    return npy_header(text, body=bytes(16))


_FLOATS = "tables are floating-point"
_HEADER = "header of this .npy file cannot be read"
_AXES = "at most 4 axes are read"
_AXIS = "an axis is a whole number from 0 to"
_SIZE = "but the file holds"


def hostile_arrays() -> list[HostileFile]:
    """Return .npy files that hold no table that could be read."""
    good = npy(np.ones((3, 3), np.float32))
    record = np.zeros(3, dtype=[("x", "<f4"), ("y", "O")])
    files = [
        ("objects", npy(np.array([[{"a": 1}]], dtype=object)), _FLOATS),
        ("objects in a record", npy(record), _FLOATS),
        ("objects by their header alone", described("'|O'"), _FLOATS),
        ("records", described("[('a', '<f4'), ('b', '<f4')]"), _FLOATS),
        ("records 400 deep", described("[('a', " * 400 + "'<f4'" + ")]" * 400), _HEADER),
        ("a subarray as dtype", described("('<f4', (1000000, 1000000))"), _HEADER),
        ("texts", npy(np.array([["a", "b"]])), _FLOATS),
        ("texts of 2 GB", described("'|S2147483647'"), _FLOATS),
        ("dates", npy(np.zeros((2, 2), "datetime64[s]")), _FLOATS),
        ("whole numbers", npy(np.ones((3, 3), np.int32)), _FLOATS),
        ("truth values", npy(np.ones((3, 3), bool)), _FLOATS),
        ("long doubles", npy(np.ones((3, 3), np.longdouble)), _FLOATS),
        ("a dtype that does not exist", described("'<f3'"), _HEADER),
        ("a dtype that is a number", described("7"), _HEADER),
        ("no bytes after the magic", b"\x93NUMPY", _HEADER),
        ("no header", b"\x93NUMPY\x01\x00", _HEADER),
        ("a header cut short", good[:40], _HEADER),
        ("a header longer than the file", good[:8] + b"\xff\xff" + good[10:], _HEADER),
        ("a header of 4 GB", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", _HEADER),
        ("a header of 60,000 blanks", described(blanks=60_000), _HEADER),
        ("version 3", npy_header(good[10:].split(b"\n")[0].decode(), b"\x03\x00"), "version (3, 0)"),
        ("version 9", npy_header("{}", b"\x09\x00"), "version (9, 0)"),
        ("code in the header", npy_header("__import__('os').system('touch posenc-was-attacked')"), _HEADER),
        ("code in the shape", described(shape="(__import__('os').getpid(), 2)"), _HEADER),
        ("brackets 4,000 deep", npy_header("(" * 4_000), _HEADER),
        ("a sum 4,000 deep", npy_header("1" + "+1" * 4_000), _HEADER),
        ("a header without a shape", npy_header("{'descr': '<f4', 'fortran_order': False}\n"), _HEADER),
        ("a header with one thing more", npy_header(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'x': 1}\n"), _HEADER),
        ("a header that is a list", npy_header("['<f4', False, (2, 2)]\n"), _HEADER),
        ("a header that is no text", npy_header("\x00\xff\n"), _HEADER),
        ("an order that is a number", described(order="2"), _HEADER),
        ("a shape of a text", described(shape="'22'"), _HEADER),
        ("a shape of fractions", described(shape="(2.0, 2)"), _HEADER),
        ("a shape of 5,000 digits", described(shape=f"({'9' * 5_000},)"), _HEADER),
        ("a shape of 30 digits", described(shape=f"({'9' * 30}, 2)"), _AXIS),
        ("a negative shape", described(shape="(-2, -2)"), _AXIS),
        ("an axis that is true", described(shape="(True, 4)"), _AXIS),
        ("an axis that is false", described(shape="(False, 4)"), _AXIS),
        ("nothing, times a lot", described(shape="(2147483647, 2147483647, 0)"), "are read"),
        ("a shape that wraps round", described(shape="(4294967296, 4294967297)"), _AXIS),
        ("seven axes", described(shape="(1, 1, 1, 1, 1, 2, 2)"), _AXES),
        ("a million by a million", described(shape="(1000000, 1000000)"), "67,108,864 numbers are read"),
        ("more than its bytes", described(shape="(1000, 1000)"), _SIZE),
        ("a byte less", good[:-1], _SIZE),
        ("a byte more", good + b"\0", _SIZE),
        ("two files in one", good + good, _SIZE),
        ("rows without columns", npy(np.ones((3, 0), np.float32)), "rows"),
        ("columns without rows", npy(np.ones((0, 3), np.float32)), "rows"),
        ("a number", npy(np.float32(3)), "rows by columns"),
        ("a vector", npy(np.ones(9, np.float32)), "rows by columns"),
        ("one row", npy(np.ones((1, 9), np.float32)), "rows"),
        ("a pile of tables", npy(np.ones((3, 3, 3), np.float32)), "rows by columns"),
        ("one NaN", npy(np.array([[1, np.nan], [1, 2]], np.float32)), "NaN or infinity"),
        ("one infinity", npy(np.array([[1, -np.inf], [1, 2]], np.float32)), "NaN or infinity"),
        ("numbers beyond all sines", npy(np.full((4, 4), 1e38, np.float32)), "no sine times a factor"),
    ]  # fmt: skip
    return [HostileFile(f"npy: {label}", content, said) for label, content, said in files]


# Configs ------------------------------------------------------------------------------------------

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "max_position_embeddings": 4_096, "rope_theta": 1e4,
}  # fmt: skip


def config(**changed: Any) -> bytes:
    """A config of eight keys, some of them changed."""
    return json.dumps(LLAMA | changed).encode()


def hostile_configs() -> list[HostileFile]:
    """Return configs that mean nothing or more than can be."""
    whole = config()
    index = {"metadata": {"total_size": 8}, "weight_map": {"a": "../../etc/passwd"}}
    many = {"weight_map": {f"t{n}": f"../{n}.safetensors" for n in range(20_000)}}
    linear = {"rope_type": "linear"}
    files: list[tuple[str, bytes, str]] = [
        ("no braces", b"llama", "is not JSON"),
        ("a list", b"[1, 2]", "one JSON object"),
        ("a text", b'"llama"', "one JSON object"),
        ("null", b"null", "one JSON object"),
        ("cut in half", whole[: len(whole) // 2], "is not JSON"),
        ("two objects", whole + whole, "is not JSON"),
        ("a comment", b"/* x */" + whole, "is not JSON"),
        ("Python and no JSON", str(LLAMA).encode(), "is not JSON"),
        ("UTF-16", whole.decode().encode("utf-16"), "not UTF-8"),
        ("latin-1", '{"model_type": "l\xe4ma"}'.encode("latin-1"), "not UTF-8"),
        ("NUL behind it", whole + b"\0", "is not JSON"),
        ("lone surrogate as the type", b'{"model_type": "\\ud800"}', "is not known"),
        ("a key twice", b'{"model_type": "llama", "model_type": "bert"}', "stands twice"),
        ("NaN", b'{"model_type": "llama", "rope_theta": NaN}', "holds NaN"),
        ("infinity", b'{"model_type": "llama", "rope_theta": 1e999}', "too large"),
        ("5,000 digits", b'{"model_type": "llama", "n": ' + b"9" * 5_000 + b"}", "digits"),
        ("100,000 deep", b'{"a":' * 100_000, "more than 32 deep"),
        ("100,000 open lists", b"[" * 100_000, "more than 32 deep"),
        ("2 MB", b" " * 2**21 + whole, "longer than 1,048,576"),
        ("a name of 1 MB", b'{"' + b"x" * 2**20 + b'": 1}', "longer than 1,048,576"),
        ("300,000 quotes escaped", b'"' + b'\\"' * 300_000, "is not JSON"),
        ("an index of shards", json.dumps(index).encode(), "model_type is missing"),
        ("an index of 20,000 shards", json.dumps(many).encode(), "model_type is missing"),
        ("no type", b"{}", "model_type is missing"),
        ("a type of HTML", b'{"model_type": "<script>alert(1)</script>"}', "is not known"),
        ("a width below zero", config(hidden_size=-512), "hidden_size must be"),
        ("a width of 10^30", config(hidden_size=10**30), "hidden_size must be"),
        ("a width that is true", config(hidden_size=True), "hidden_size must be"),
        ("a width in quotes", config(hidden_size="512"), "hidden_size must be"),
        ("10^9 layers", config(num_hidden_layers=10**9), "num_hidden_layers must be"),
        ("no heads", config(num_attention_heads=0), "num_attention_heads must be"),
        ("heads that do not divide", config(num_attention_heads=7), "must divide"),
        ("a base of 0", config(rope_theta=0), "rope_theta must be"),
        ("a base of 10^308", config(rope_theta=1e308), "rope_theta must be"),
        ("a scaling that is a text", config(rope_scaling="linear"), "must be an object"),
        ("a scaling nobody knows", config(rope_scaling={"rope_type": "../x"}), "must be one of"),
        ("a factor of 0", config(rope_scaling=linear | {"factor": 0}), "factor must be"),
        ("a factor of 10^9", config(rope_scaling=linear | {"factor": 1e9}), "factor must be"),
        ("100,000 factors", config(rope_scaling={"rope_type": "longrope", "short_factor": [1.0] * 10**5,
         "long_factor": [1.0] * 10**5}), "factor"),
        ("100,000 kinds of layers", config(layer_types=["full"] * 60_000), "4 entries"),
    ]  # fmt: skip
    return [HostileFile(f"config: {label}", content, said) for label, content, said in files]


# Runs ---------------------------------------------------------------------------------------------


def parquet(columns: dict[str, Any], note: object = None, schema: pa.Schema | None = None) -> bytes:
    """Write columns as one Parquet file with a note in its metadata."""
    table = pa.table(columns, schema=schema)
    if note is not None:
        text = note if isinstance(note, bytes) else json.dumps(note).encode()
        table = table.replace_schema_metadata({b"posenc": text})
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="zstd")
    return stream.getvalue()


def hostile_runs(good: bytes) -> list[HostileFile]:
    """Return files that lie in the place of a run; `good` is the file of a run."""
    read = pq.read_table(io.BytesIO(good))
    columns = {name: read[name].to_pylist() for name in read.column_names}
    schema = read.schema.remove_metadata()
    note = json.loads(read.schema.metadata[b"posenc"])
    rows = len(columns["x"])
    deep = b'{"specification":' + b"[" * 100_000

    def noted(changed: object) -> bytes:
        return parquet(columns, changed, schema)

    def specified(**changed: Any) -> bytes:
        return noted(note | {"specification": note["specification"] | changed})

    files = [
        ("nothing", b""),
        ("a text", b"These are no scores.\n" * 40),
        ("its magic alone", b"PAR1PAR1"),
        ("no footer", good[:-8]),
        ("cut in half", good[: len(good) // 2]),
        ("its end alone", good[len(good) // 2 :]),
        ("a footer of 4 GB", good[:-8] + b"\xff\xff\xff\xffPAR1"),
        ("bytes exchanged", good[:40] + bytes(40) + good[80:]),
        ("other columns", parquet({"a": [1]}, note)),
        ("a column less", parquet({name: columns[name] for name in [*columns][:-1]}, note)),
        ("texts for numbers", parquet(columns | {"value": ["1"] * rows}, note)),
        ("gaps", parquet(columns | {"x": [None] * rows}, note, schema)),
        ("no note", parquet(columns, None, schema)),
        ("a note that is no JSON", noted(b"{")),
        ("a note that is no text", noted(b"\xff\xfe")),
        ("a note 100,000 deep", noted(deep)),
        ("a note that is a list", noted([1])),
        ("a note without a specification", noted({"stopped": None, "seconds": 1.0})),
        ("a specification that is a text", noted(note | {"specification": "rope"})),
        ("a reason that is a number", noted(note | {"stopped": 3})),
        ("seconds that are a text", noted(note | {"seconds": "many"})),
        ("seconds that are a list", noted(note | {"seconds": [1]})),
        ("a scheme nobody knows", specified(scheme={"kind": "../../x"})),
        ("a scheme that is null", specified(scheme=None)),
        ("steps of 10^30", specified(steps=10**30)),
        ("steps below zero", specified(steps=-1)),
        ("steps that are a text", specified(steps="many")),
    ]  # fmt: skip
    return [HostileFile(f"run: {label}", content, "") for label, content in files]


def bomb(rows: int = 20_000_000) -> bytes:
    """A run's file of half a megabyte that unpacks to rows without end."""
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["x"]))
    zeros, stream = pa.array(np.zeros(rows, np.int64)), io.BytesIO()
    columns = {"measure": words, "variant": words, "x": zeros, "until": zeros}
    columns |= {"value": zeros.cast(pa.float64()), "count": zeros}
    pq.write_table(pa.table(columns), stream, compression="zstd")
    return stream.getvalue()


# Texts --------------------------------------------------------------------------------------------


def hostile_texts() -> list[HostileFile]:
    """Return files that are no text to train on."""
    lines = "one line of a text, and another\n" * 1_000
    noise = np.random.default_rng(1).integers(0, 256, 40_000, np.uint8).tobytes()
    files = [
        ("nothing", b"", "is empty"),
        ("one letter", b"a", "at least 20,000 bytes"),
        ("one line", b"one line of a text", "at least 20,000 bytes"),
        ("a byte order mark alone", b"\xef\xbb\xbf", "at least 20,000 bytes"),
        ("a byte too few", b"a" * 19_999, "at least 20,000 bytes"),
        ("NUL alone", bytes(40_000), "no UTF-8 text"),
        ("one NUL in a text", lines.encode() + b"\0", "no UTF-8 text"),
        ("UTF-16", lines.encode("utf-16"), "no UTF-8 text"),
        ("UTF-32", lines.encode("utf-32"), "no UTF-8 text"),
        ("latin-1", ("\xe4\xf6\xfc " * 10_000).encode("latin-1"), "no UTF-8 text"),
        ("surrogates alone", b"\xed\xa0\x80" * 10_000, "no UTF-8 text"),
        ("continuation bytes", b"\x80" * 40_000, "no UTF-8 text"),
        ("noise", noise, "no UTF-8 text"),
    ]
    return [HostileFile(f"text: {label}", content, said) for label, content, said in files]
