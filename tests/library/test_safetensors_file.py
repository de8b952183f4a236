"""Safetensors files: hostile ones are refused in one sentence, the library's are read alike, up to caps."""

import itertools
import json
import pickle
import struct
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc import limits
from posenc.checkpoints.safetensors_file import (
    BITS,
    MAX_ELEMENTS_STATED,
    PICKLE_CONVERSION,
    ByteRanges,
    read_header,
    read_tensor,
)
from posenc.errors import CheckpointError, PickleRefused
from tests.library.crafted_files import (
    checkpoint,
    container,
    legacy_pickle,
    valid_file,
    zipped_pickle,
)
from tests.library.hostile_checkpoints import (
    HOSTILE_FILES,
    HostileFile,
    large_hostile_files,
    named_tensors,
    one_tensor,
)
from tests.library.safetensors_checks import (
    MEBIBYTE,
    assert_agrees_with_library,
    library_accepts,
    outcome,
    peak_memory,
    refusal,
)

FIELDS = ('"dtype":"F32"', '"shape":[1,2]', '"data_offsets":[0,8]')
EMPTY = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
FACE, ESCAPED = "\N{GRINNING FACE}", "\\ud83d\\ude00"


@pytest.mark.parametrize("file", HOSTILE_FILES, ids=lambda file: file.label)
def test_hostile_file_is_refused_in_one_sentence(file: HostileFile) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_header(file.content)
    error = caught.value
    assert file.fragment in str(error)
    assert isinstance(error, PickleRefused) == (", not only weights" in file.fragment)
    sentence = error.sentence if isinstance(error, PickleRefused) else str(error)
    assert sentence.isprintable()
    assert sentence[0].isupper()
    assert sentence.endswith((".", ":"))
    assert len(sentence) < 300
    assert_agrees_with_library(file.content)


def test_pickle_refusal_has_the_conversion_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.safetensors").write_bytes(zipped_pickle({"a": torch.ones(2)}))
    assert "code, not only weights" in refusal(lambda: read_header("model.safetensors"))
    Path("model.safetensors").unlink()
    pickles = [file for file in HOSTILE_FILES if ", not only weights" in file.fragment]
    assert len(pickles) >= 6
    for file in pickles:
        with pytest.raises(PickleRefused) as caught:
            read_header(file.content)
        error = caught.value
        assert error.conversion == PICKLE_CONVERSION
        assert str(error) == f"{error.sentence}\n{error.conversion}"
        again = pickle.loads(pickle.dumps(error))  # as it travels between processes
        assert (str(again), again.conversion) == (str(error), error.conversion)
    assert list(tmp_path.iterdir()) == []


def test_conversions_of_pickles_work_on_tied_and_strided_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = torch.arange(12.0).reshape(4, 3)
    tensors = {"wpe.weight": table, "tied": table, "view": table.t()}
    for save in (zipped_pickle, legacy_pickle):
        Path("model.pt").write_bytes(save(tensors))
        exec(PICKLE_CONVERSION, {})
        for name, expected in tensors.items():
            assert torch.equal(read_tensor("model.safetensors", name).tensor, expected)


def test_header_over_the_cap_is_not_read() -> None:
    length, sizes = limits.MAX_HEADER_BYTES + 1, list[int]()

    def read(start: int, count: int) -> bytearray:
        sizes.append(count)
        begin = (struct.pack("<Q", length) + b'{"a":').ljust(4_096)
        return bytearray(begin[start : start + count].ljust(count))

    source = ByteRanges(8 + length, read)
    assert f"its header is too long: {length:,} bytes" in refusal(lambda: read_header(source))
    assert sum(sizes) < 100_000


@pytest.mark.timeout(60)  # each takes less than a second where no step is quadratic
def test_large_hostile_files_take_little_memory(tmp_path: Path) -> None:
    """The header takes 4 MiB."""
    path = tmp_path / "model.safetensors"
    for file in large_hostile_files():
        path.write_bytes(file.content)
        sentences: list[str] = []

        def read(sentences: list[str] = sentences) -> None:
            sentences.append(refusal(lambda: read_header(path)))

        assert peak_memory(read) < 20 * MEBIBYTE, file.label
        assert file.fragment in sentences[0]


PIECES = (
    *(b"0", b"-", b".0", b"1e3", b"null", b"true", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":"),
    *(b" ", b"\n", b"\\u0041", b"\\ud800", b'"__metadata__":{},', b'"shape":[],', b'"x":1,'),
)


@settings(max_examples=250)
@given(
    st.booleans(),
    st.lists(
        st.tuples(
            st.integers(0, 400), st.integers(0, 4), st.sampled_from(PIECES) | st.binary(max_size=3)
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_mutated_file_is_never_read_where_the_library_refuses(
    header_alone: bool, changes: list[tuple[int, int, bytes]]
) -> None:
    """Bytes are replaced anywhere, or in the header alone with its stated length kept right."""
    content = valid_file()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    changed = bytearray(content[8:end] if header_alone else content)
    for at, removed, piece in changes:
        at %= len(changed) + 1
        changed[at : at + removed] = piece
    assert_agrees_with_library(
        container(bytes(changed), content[end:]) if header_alone else bytes(changed)
    )


def test_three_fields_are_read_in_any_order_and_no_field_twice() -> None:
    for fields in itertools.product(FIELDS, repeat=3):
        content = container(f'{{"a":{{{",".join(fields)}}}}}', bytes(8))
        assert_agrees_with_library(content)
        assert isinstance(outcome(content), str) == (set(fields) != set(FIELDS))


def shaped(*shape: int) -> bytes:
    """A file of one tensor without data, whose shape ends with 0."""
    return checkpoint({"a": ("F32", (*shape, 0), b"")})


RANK, NAME = limits.MAX_AXES, limits.MAX_TENSOR_NAME


@pytest.mark.parametrize(
    ("allowed", "over", "fragment"),
    [
        (shaped(2**53), shaped(2**53 + 1), "an impossible shape"),
        (shaped(2**22, 2**31), shaped(2**22, 2**31, 2), "an impossible shape"),
        (shaped(*[1] * (RANK - 1)), shaped(*[1] * RANK), "at most 32 whole numbers"),
        (one_tensor(name=f'"{"n" * NAME}"'), one_tensor(name=f'"{"n" * (NAME + 1)}"'), "256 char"),
        (
            one_tensor(name=f'"{ESCAPED * NAME}"'),
            one_tensor(name=f'"{ESCAPED * (NAME + 1)}"'),
            "256 characters",
        ),
        (
            container({"__metadata__": {"n" * NAME: ""}}),
            container({"__metadata__": {"n" * (NAME + 1): ""}}),
            "256 characters",
        ),
        (container(named_tensors(20_000)), container(named_tensors(20_001)), "20,000 tensors"),
        (one_tensor(offsets="[0,8]"), one_tensor(offsets="[0,9]"), "its data_offsets are [0, 9]"),
    ],
    ids=["axis", "elements", "rank", "name", "escaped name", "key", "tensors", "bytes"],
)
def test_each_cap_is_allowed_and_one_more_is_refused(
    allowed: bytes, over: bytes, fragment: str
) -> None:
    assert MAX_ELEMENTS_STATED * max(BITS.values()) < 2**63
    assert not isinstance(outcome(allowed), str)
    assert fragment in refusal(lambda: read_header(over))
    for content in (allowed, over) if len(over) < 100_000 else ():
        assert_agrees_with_library(content)


def test_metadata_are_read_as_written() -> None:
    pairs = {"long": "x" * 5_000, "escaped": '\u00e9\n"\\/'}
    header = container("{" + f'"__metadata__":{json.dumps(pairs)},"a":{EMPTY}' + "}")
    assert read_header(header).metadata == pairs


def test_tensors_may_be_named_as_fields_are() -> None:
    names = ("dtype", "shape", "data_offsets")
    content = container("{" + ",".join(f'"{name}":{EMPTY}' for name in names) + "}")
    assert tuple(read_header(content).tensors) == names
    assert_agrees_with_library(content)


def test_tensors_are_read_in_the_order_of_the_file_with_data_in_any_order() -> None:
    """Sorted by their bytes to look for holes, empty tensors between the others."""
    parts = {"c": [8, 16], "a": [0, 8], "empty": [8, 8], "b": [16, 24]}
    header: dict[str, object] = {
        name: {"dtype": "F32", "shape": [(stop - start) // 4], "data_offsets": [start, stop]}
        for name, (start, stop) in parts.items()
    }
    content = container(header, bytes(range(24)))
    read = read_header(content)
    assert {e.name: [e.start, e.stop] for e in read.tensors.values()} == parts
    assert list(read.tensors) == list(parts)
    assert_agrees_with_library(content)


# Of a few characters: the tables of all of Unicode take seconds to build.
texts = st.text('a.\u00e9\u91cd"\\/\n\0\x7f' + FACE, max_size=20)


@settings(max_examples=40)
@given(
    # At least one tensor: for none and empty metadata, the library writes a header that is no JSON.
    st.dictionaries(texts, st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=6),
    st.dictionaries(texts, texts),
    st.sampled_from([torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64]),
)
def test_files_of_the_library_are_read_with_names_shapes_and_metadata(
    shapes: dict[str, list[int]], metadata: dict[str, str], dtype: torch.dtype
) -> None:
    tensors = {name: torch.ones(shape).to(dtype) for name, shape in shapes.items()}
    content = safetensors.torch.save(tensors, metadata)
    header = read_header(content)
    assert {name: list(entry.shape) for name, entry in header.tensors.items()} == shapes
    assert header.metadata == metadata
    assert_agrees_with_library(content)


def test_unusual_headers_that_the_library_reads_are_read() -> None:
    field = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
    spaced = '{ "a" :\n{ "shape" : [ 2 ] ,\t"data_offsets" : [ 0 , 8 ] , "dtype" : "F32" } }  \r\n '
    headers = {
        spaced: "a",
        f'{{"":{field}}}': "",
        f'{{"\\ud83d\\ude00\\u00e9\\/\\n":{field}}}': f"{FACE}\u00e9/\n",
        f'{{"{FACE}\u91cd":{field}}}': f"{FACE}\u91cd",
        f'{{"__m\\u0065tadata__":{{"format":"pt"}},"a":{field}}}': "a",
    }
    for header, name in headers.items():
        content = container(header, bytes(8))
        assert list(read_header(content).tensors) == [name]
        assert_agrees_with_library(content)
    assert read_header(container("{}")).tensors == {}


@pytest.mark.parametrize("dtype", BITS)
def test_every_dtype_has_the_size_it_has_in_the_library(dtype: str) -> None:
    content = checkpoint({"a": (dtype, (8,), bytes(BITS[dtype]))})
    assert library_accepts(content)
    assert read_header(content).tensors["a"].dtype == dtype
    wrong = checkpoint({"a": (dtype, (8,), bytes(BITS[dtype] + 1))})
    assert not library_accepts(wrong)
    with pytest.raises(CheckpointError, match="declares 8 elements"):
        read_header(wrong)
