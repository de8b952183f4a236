"""Strict reading of .safetensors: what must be refused, how, and that nothing else is."""

import hashlib
import inspect
import io
import itertools
import math
import os
import pickle
import re
import socket
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc import limits
from posenc.errors import CheckpointError, PickleRefused, SchemeArgumentError
from posenc.interop import safetensors_file, safetensors_grammar, safetensors_header
from posenc.interop.foreign_files import PICKLE_CONVERSION, TORCHSCRIPT_CONVERSION
from posenc.interop.safetensors_file import FLOATS, read_header, read_tensor, unreadable_reason
from posenc.interop.safetensors_header import BITS
from posenc.interop.shown_name import printable_name
from tests.hostile_files import (
    HOSTILE_FILES,
    HostileFile,
    checkpoint,
    container,
    large_hostile_files,
    legacy_pickle,
    torchscript,
    valid_file,
    zipped_pickle,
)

MEBIBYTE = 2**20

# The sentences of the refusals that the module's docstring lists as stricter than the library.
STRICTER = (
    "at most 8,388,608 are read",
    "more than 20,000 tensors",
    "The names of the tensors take more than",
    "more than 256 characters",
    "at most 32 whole numbers",
    "an impossible shape",
    "twice.",
    "__metadata__, was expected",
    "more than 512 entries",
    "exactly the fields dtype, shape and data_offsets",
    "must be a name such as F32",
    "an object that describes a tensor was expected",
    "near byte 0: an object was expected",
)


def refusal(act: Callable[[], object]) -> str:
    """Return the sentence of the CheckpointError that `act` must raise."""
    with pytest.raises(CheckpointError) as caught:
        act()
    return str(caught.value)


def library_accepts(content: bytes) -> bool:
    try:
        safetensors.deserialize(content)
    except safetensors.SafetensorError:
        return False
    return True


def peak_memory(act: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_there_are_at_least_sixty_hostile_files_with_different_names() -> None:
    labels = [file.label for file in HOSTILE_FILES]
    assert len(labels) == len(set(labels)) >= 60


@pytest.mark.parametrize("file", HOSTILE_FILES, ids=lambda file: file.label)
def test_a_hostile_file_is_refused_in_one_sentence(file: HostileFile, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(file.content)
    sentence = refusal(lambda: read_header(file.content))
    assert file.fragment in sentence
    assert refusal(lambda: read_header(path)) == sentence
    assert refusal(lambda: read_header(memoryview(file.content))) == sentence
    assert str(tmp_path) not in sentence
    assert sentence[0].isupper()
    if PICKLE_CONVERSION in sentence or TORCHSCRIPT_CONVERSION in sentence:
        assert len(sentence.splitlines()) == 3
    else:
        assert sentence.endswith(".")
        assert sentence.isprintable()
        assert len(sentence) < 300


@pytest.mark.parametrize("file", HOSTILE_FILES, ids=lambda file: file.label)
def test_the_library_refuses_the_same_file_or_the_difference_is_documented(
    file: HostileFile,
) -> None:
    if library_accepts(file.content):
        sentence = refusal(lambda: read_header(file.content))
        assert any(fragment in sentence for fragment in STRICTER), sentence


def test_no_hostile_file_makes_the_reader_take_more_than_20_mib(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for file in [*HOSTILE_FILES, *large_hostile_files()]:
        path.write_bytes(file.content)
        sentence = ""

        def read() -> None:
            nonlocal sentence
            sentence = refusal(lambda: read_header(path))

        assert peak_memory(read) < 20 * MEBIBYTE, file.label
        assert file.fragment in sentence, file.label


@pytest.mark.parametrize("fault", ["header of 99,", "header of 10,"])
def test_a_header_over_the_cap_is_not_read(fault: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    length = int(fault.split()[-1].rstrip(",")) * 10**6
    with path.open("wb") as file:
        file.write(struct.pack("<Q", length) + b'{"a":')
        file.truncate(8 + length)
    assert peak_memory(lambda: refusal(lambda: read_header(path))) < MEBIBYTE // 2
    assert fault in refusal(lambda: read_header(path))


def test_too_many_tensors_are_refused_before_any_is_described() -> None:
    file = next(file for file in large_hostile_files() if file.label == "100,000 tensors")
    assert peak_memory(lambda: refusal(lambda: read_header(file.content))) < MEBIBYTE // 2


def test_every_truncation_is_refused() -> None:
    small = valid_file()
    large = safetensors.torch.save({f"layer.{n}": torch.ones(8, 8) for n in range(40)})
    cuts = [small[:n] for n in range(len(small))] + [large[:n] for n in range(0, len(large), 64)]
    assert len(cuts) > 200
    for cut in cuts:
        refusal(lambda cut=cut: read_header(cut))


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".bin", ".png", ""])
def test_content_decides_and_not_the_suffix(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    path.write_bytes(valid_file())
    assert list(read_header(path).tensors) == ["wpe.weight", "bias"]
    path.write_bytes(zipped_pickle({"a": torch.ones(2)}))
    assert "it contains code, not only weights" in refusal(lambda: read_header(path))


def test_a_pickle_is_refused_with_a_conversion_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pickles = [file for file in HOSTILE_FILES if "pickle" in file.label or "torch" in file.label]
    assert len(pickles) >= 15
    for file in pickles:
        sentence = refusal(lambda file=file: read_header(file.content))
        assert "weights_only=True" in sentence or "jit.load" in sentence
        assert "weights_only=False" not in sentence.replace(" ", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", HOSTILE_FILES, ids=lambda file: file.label)
def test_a_pickle_and_nothing_else_is_refused_as_a_pickle(file: HostileFile) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_header(file.content)
    error = caught.value
    assert isinstance(error, PickleRefused) == (", not only weights" in file.fragment)
    if isinstance(error, PickleRefused):
        scripted = file.label == "TorchScript"
        assert error.conversion == (TORCHSCRIPT_CONVERSION if scripted else PICKLE_CONVERSION)
        assert len(error.conversion.splitlines()) == 2
        assert str(error) == f"{error.sentence}\n{error.conversion}"
        assert error.sentence.endswith("with these two lines:")
        assert error.sentence.isprintable()
        again = pickle.loads(pickle.dumps(error))  # as it travels between processes
        assert (str(again), again.conversion) == (str(error), error.conversion)


@pytest.mark.parametrize("save", [zipped_pickle, legacy_pickle], ids=["zip", "legacy"])
def test_the_two_line_conversion_works_on_tied_and_strided_weights(
    save: Callable[[object], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = torch.arange(12.0).reshape(4, 3)
    Path("model.pt").write_bytes(save({"wpe.weight": table, "tied": table, "view": table.t()}))
    exec(PICKLE_CONVERSION, {})
    for name, expected in {"wpe.weight": table, "tied": table, "view": table.t()}.items():
        assert torch.equal(read_tensor("model.safetensors", name).tensor, expected)


def test_the_torchscript_conversion_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.pt").write_bytes(torchscript())
    with pytest.warns(DeprecationWarning, match=r"torch\.jit\.load"):
        exec(TORCHSCRIPT_CONVERSION, {})
    assert set(read_header("model.safetensors").tensors) == {"weight", "bias"}


PIECES = (
    *(b"0", b"-", b".0", b"1e3", b"null", b"true", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":"),
    *(b" ", b"\n", b"\\u0041", b"\\ud800", b'"__metadata__":{},', b'"shape":[],', b'"x":1,'),
)


def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """Flip a bit, insert, remove or replace bytes, at one to three places."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(changed) - 1)))
        match draw(st.sampled_from(["flip", "put", "remove"])) if changed else "put":
            case "flip":
                changed[at] ^= 1 << draw(st.integers(0, 7))
            case "put":
                piece = draw(st.sampled_from(PIECES) | st.binary(min_size=1, max_size=3))
                changed[at : at + draw(st.integers(0, 2))] = piece
            case "remove":
                del changed[at : at + draw(st.integers(1, 4))]
    return bytes(changed)


@st.composite
def mutated_files(draw: st.DrawFn) -> bytes:
    """A valid file with changes anywhere, or in its header alone with the length kept right."""
    content = valid_file()
    if draw(st.booleans()):
        return mutated(draw, content)
    end = 8 + struct.unpack("<Q", content[:8])[0]
    return container(mutated(draw, content[8:end]), content[end:])


@settings(max_examples=600)
@given(mutated_files())
def test_a_mutated_file_is_never_read_where_the_library_refuses(content: bytes) -> None:
    assert_agrees_with_library(content)


def outcome(content: bytes) -> object:
    """Return all that the header holds, in its order, or the sentence of the refusal."""
    try:
        header = read_header(content)
    except CheckpointError as error:
        return str(error)
    return list(header.tensors.items()), header.metadata, header.data_start


def assert_steps_agree(content: bytes) -> None:
    """Tensors taken in one step and tensors taken piece by piece have the same outcome."""
    with patch.object(safetensors_grammar, "TENSOR", re.compile(rb"(?!)")):
        piece_by_piece = outcome(content)
    assert outcome(content) == piece_by_piece


@settings(max_examples=300)
@given(mutated_files())
def test_a_tensor_reads_the_same_in_one_step_and_piece_by_piece(content: bytes) -> None:
    assert_steps_agree(content)


def test_every_refusal_is_the_same_in_one_step_and_piece_by_piece() -> None:
    for file in HOSTILE_FILES:
        assert_steps_agree(file.content)


FIELDS = ('"dtype":"F32"', '"shape":[1,2]', '"data_offsets":[0,8]')


def test_three_fields_are_taken_in_any_order_and_no_field_twice() -> None:
    for fields in itertools.product(FIELDS, repeat=3):
        content = container(f'{{"a":{{{",".join(fields)}}}}}', bytes(8))
        assert_steps_agree(content)
        assert (refused_for(content) is None) == (set(fields) == set(FIELDS))


@pytest.mark.parametrize("wrong", ["", ";", ",,", "{", "}", "},", ',"x":1,', ":"])
def test_fields_are_separated_by_one_comma_and_end_without_one(wrong: str) -> None:
    for ends in ((wrong, ",", ""), (",", wrong, ""), (",", ",", wrong or ","), (",", ",", " ,")):
        text = "".join(field + end for field, end in zip(FIELDS, ends, strict=True))
        content = container(f'{{"a":{{{text}}}}}', bytes(8))
        assert_steps_agree(content)
        assert refused_for(content) is not None


def test_a_header_of_more_kinds_than_are_remembered_is_read_in_full() -> None:
    shapes = [(number, 0) for number in range(2 * safetensors_header.KINDS_REMEMBERED)]
    tensors = {f"{n}.{shape}": ("F32", shape, b"") for n in range(2) for shape in shapes}
    read = read_header(checkpoint(tensors)).tensors
    assert [entry.shape for entry in read.values()] == shapes * 2


def refused_for(content: bytes) -> str | None:
    """Return the sentence of our refusal, or None where the file is accepted."""
    try:
        read_header(content)
    except CheckpointError as error:
        return str(error)
    return None


def assert_agrees_with_library(content: bytes) -> None:
    """Both read the same tensors; or both refuse; or ours refuses for a documented reason."""
    sentence = refused_for(content)
    if sentence is not None:
        documented = any(fragment in sentence for fragment in STRICTER)
        assert documented or not library_accepts(content), sentence
        return
    header = read_header(content)
    theirs = dict(safetensors.deserialize(content))
    assert header.tensors.keys() == theirs.keys()
    for name, entry in header.tensors.items():
        assert list(entry.shape) == theirs[name]["shape"]
        assert entry.dtype == theirs[name]["dtype"]
        begin = header.data_start
        assert content[begin + entry.start : begin + entry.stop] == theirs[name]["data"]


names = st.text(st.characters(exclude_categories=("Cs",)), max_size=20).filter(
    lambda name: name != "__metadata__"
)


@settings(max_examples=60)
@given(
    # At least one tensor: for none and empty metadata, the library writes a header that is no JSON.
    st.dictionaries(names, st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=6),
    st.dictionaries(names, st.text(st.characters(exclude_categories=("Cs",)))),
    st.sampled_from([torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64]),
)
def test_what_the_library_writes_is_read_with_names_shapes_and_metadata(
    shapes: dict[str, list[int]], metadata: dict[str, str], dtype: torch.dtype
) -> None:
    tensors = {name: torch.ones(shape).to(dtype) for name, shape in shapes.items()}
    content = safetensors.torch.save(tensors, metadata)
    header = read_header(content)
    assert {name: list(entry.shape) for name, entry in header.tensors.items()} == shapes
    assert header.metadata == metadata
    assert_agrees_with_library(content)


def test_every_accepted_header_form_agrees_with_the_library() -> None:
    field = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
    spaced = '{ "a" :\n{ "shape" : [ 2 ] ,\t"data_offsets" : [ 0 , 8 ] , "dtype" : "F32" } }  \r\n '
    headers = [
        f'{{"a":{field}}}',
        spaced,
        f'{{"":{field}}}',
        f'{{"\\ud83d\\ude00\\u00e9\\/\\n":{field}}}',
        f'{{"naïve.重み":{field}}}',
        f'{{"a":{field},"__metadata__":{{}}}}',
        f'{{"__m\\u0065tadata__":{{"format":"pt"}},"a":{field}}}',
    ]
    for header in headers:
        content = container(header, bytes(8))
        assert len(read_header(content).tensors) == 1
        assert_agrees_with_library(content)
    assert read_header(container("{}")).tensors == {}
    assert read_header(container(headers[-1], bytes(8))).metadata == {"format": "pt"}


@pytest.mark.parametrize("dtype", BITS)
def test_every_dtype_of_the_library_has_the_librarys_size(dtype: str) -> None:
    content = checkpoint({"a": (dtype, (8,), bytes(BITS[dtype]))})
    assert library_accepts(content)
    assert read_header(content).tensors["a"].dtype == dtype
    assert not library_accepts(checkpoint({"a": (dtype, (8,), bytes(BITS[dtype] + 1))}))


def small_float(code: int, exponent_bits: int, bias: int, form: str) -> float:
    """Decode an 8-bit float from its definition (OCP 8-bit floats; AMD's fnuz forms)."""
    mantissa_bits = 7 - exponent_bits
    sign = -1.0 if code >> 7 else 1.0
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = code & ((1 << mantissa_bits) - 1)
    top = (1 << exponent_bits) - 1
    if form == "fnuz" and code == 0x80:
        return math.nan
    if form == "finite" and code & 0x7F == 0x7F:
        return math.nan
    if form == "ieee" and exponent == top:
        return math.nan if mantissa else sign * math.inf
    scale = 2.0**-mantissa_bits
    if exponent == 0:
        return sign * mantissa * scale * 2.0 ** (1 - bias)
    return sign * (1 + mantissa * scale) * 2.0 ** (exponent - bias)


EVERY_BYTE = bytes(range(256))
EVERY_PAIR = np.arange(65_536, dtype="<u2").tobytes()
DECODED = {
    "F8_E4M3": (EVERY_BYTE, [small_float(code, 4, 7, "finite") for code in range(256)]),
    "F8_E5M2": (EVERY_BYTE, [small_float(code, 5, 15, "ieee") for code in range(256)]),
    "F8_E4M3FNUZ": (EVERY_BYTE, [small_float(code, 4, 8, "fnuz") for code in range(256)]),
    "F8_E5M2FNUZ": (EVERY_BYTE, [small_float(code, 5, 16, "fnuz") for code in range(256)]),
    "F16": (EVERY_PAIR, struct.unpack("<65536e", EVERY_PAIR)),
    "BF16": (
        EVERY_PAIR,
        [struct.unpack("<f", struct.pack("<I", code << 16))[0] for code in range(65_536)],
    ),
}


@pytest.mark.parametrize("dtype", DECODED)
def test_every_code_of_a_narrow_float_is_read_exactly_and_noted(dtype: str) -> None:
    stored, expected = DECODED[dtype]
    read = read_tensor(checkpoint({"a": (dtype, (len(expected),), stored)}), "a")
    assert read.tensor.dtype == torch.float32
    assert np.array_equal(read.tensor.numpy(), np.array(expected, np.float32), equal_nan=True)
    numbers = ~np.isnan(expected)  # the sign of zero counts; a NaN has none that means anything
    assert np.array_equal(
        np.signbit(read.tensor.numpy()[numbers]), np.signbit(np.array(expected)[numbers])
    )
    assert read.source_dtype == dtype
    assert read.note == f"Stored as {dtype}, read as float32, exactly."


@pytest.mark.parametrize(("dtype", "numpy_dtype"), [("F32", "<f4"), ("F64", "<f8")])
def test_wide_floats_keep_every_bit(dtype: str, numpy_dtype: str) -> None:
    values = np.array([[0.1, -0.0, 1e-310], [np.nan, np.inf, 3.0e38]]).astype(numpy_dtype)
    read = read_tensor(checkpoint({"a": (dtype, (2, 3), values.tobytes())}), "a")
    assert read.tensor.shape == (2, 3)
    assert read.tensor.numpy().tobytes() == values.tobytes()
    assert read.sha256 == hashlib.sha256(values.tobytes()).hexdigest()
    assert (read.note is None) == (dtype == "F32")
    read.tensor[0, 0] = 7.0  # a copy of its own: the source stays as it was


@pytest.mark.parametrize("dtype", [name for name in BITS if name not in FLOATS])
def test_other_dtypes_are_listed_and_not_read(dtype: str) -> None:
    content = checkpoint({"a": (dtype, (8,), bytes(BITS[dtype]))})
    assert "a" in read_header(content).tensors
    sentence = refusal(lambda: read_tensor(content, "a"))
    listed_only = dtype in ("C64", "F4", "F6_E2M3", "F6_E3M2", "F8_E8M0")
    assert ("listed only" in sentence) == listed_only
    assert (f"quantised: {dtype} needs a scale" in sentence) != listed_only


@pytest.mark.parametrize(
    ("shape", "fragment"),
    [((1, 1, 1, 1, 2), "has 5 axes"), ((limits.MAX_TENSOR_ELEMENTS + 2,), "67,108,866 elements")],
)
def test_a_tensor_over_the_reading_caps_is_listed_beside_the_others(
    shape: tuple[int, ...], fragment: str, tmp_path: Path
) -> None:
    size = 2 * math.prod(shape)
    header = {
        "big": {"dtype": "F16", "shape": list(shape), "data_offsets": [0, size]},
        "table": {"dtype": "F32", "shape": [2, 2], "data_offsets": [size, size + 16]},
    }
    path = tmp_path / "model.safetensors"
    table = np.arange(4, dtype="<f4")
    with path.open("wb") as file:
        start = container(header)
        file.write(start)
        file.seek(len(start) + size)  # a sparse file: nothing is stored for the large tensor
        file.write(table.tobytes())
    assert list(read_header(path).tensors) == ["big", "table"]
    assert fragment in refusal(lambda: read_tensor(path, "big"))
    assert torch.equal(read_tensor(path, "table").tensor, torch.arange(4.0).reshape(2, 2))
    assert peak_memory(lambda: read_tensor(path, "table")) < MEBIBYTE


def test_a_tensor_read_from_a_path_takes_its_own_size_once(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(checkpoint({"a": ("F32", (4, MEBIBYTE), bytes(16 * MEBIBYTE))}))
    assert peak_memory(lambda: read_tensor(path, "a")) < 17 * MEBIBYTE


def test_a_file_over_the_size_cap_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.truncate(limits.MAX_FILE_BYTES + 1)
    assert "2,147,483,649 bytes" in refusal(lambda: read_header(path))


def test_a_missing_tensor_is_named_safely() -> None:
    sentence = refusal(lambda: read_tensor(valid_file(), "\u202eweight\n"))
    assert sentence == "The file holds no tensor named \\u202eweight\\n."


@pytest.mark.parametrize("shape", [(0, 768), (0,), (3, 0, 2)])
def test_an_empty_tensor_is_read_as_empty(shape: tuple[int, ...]) -> None:
    for dtype in FLOATS:
        assert read_tensor(checkpoint({"a": (dtype, shape, b"")}), "a").tensor.shape == shape


def test_a_scalar_is_read() -> None:
    read = read_tensor(checkpoint({"a": ("F32", (), struct.pack("<f", 2.5))}), "a")
    assert read.tensor.shape == ()
    assert read.tensor.item() == 2.5


def test_the_file_may_shrink_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    content = checkpoint({"a": ("F32", (1024, 1024), bytes(4 * MEBIBYTE))})
    check = safetensors_file._checked_header

    for cut in (4, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content)

        def then_shrink(file: safetensors_file.ByteRanges, cut: int = cut) -> object:
            header = check(file)
            os.truncate(path, cut)
            return header

        monkeypatch.setattr(safetensors_file, "_checked_header", then_shrink)
        sentence = refusal(lambda: read_tensor(path, "a"))
        assert sentence == "The file became shorter while it was being read."


@pytest.mark.timeout(20)  # opening a FIFO the plain way waits forever
def test_special_files_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link-to-fifo").symlink_to(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    for path in ("fifo", "link-to-fifo", "socket", "/dev/zero", "/dev/null"):
        sentence = refusal(lambda path=path: read_header(tmp_path / path))
        assert sentence == "The path names a device, pipe or socket; a regular file is needed."
    assert "The path names a folder" in refusal(lambda: read_header(tmp_path))


@pytest.mark.timeout(20)
def test_a_fifo_that_takes_the_files_place_after_the_first_look_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(valid_file())
    look = os.stat

    def then_swap(target: object, **options: object) -> os.stat_result:
        status = look(target, **options)
        if target == path:
            path.unlink()
            os.mkfifo(path)
        return status

    monkeypatch.setattr(safetensors_file.os, "stat", then_swap)
    assert "a device, pipe or socket" in refusal(lambda: read_header(path))


@pytest.mark.parametrize(
    ("path", "fragment"),
    [
        ("missing.safetensors", "no such file"),
        ("with\0nul", "the path is not usable"),
        ("\ud800", ""),
        ("n" * 5_000, "file name too long"),
        ("file/below", "not a directory"),
        ("loop", "too many levels of symbolic links"),
    ],
)
def test_an_unusable_path_is_refused_without_naming_it(
    path: str, fragment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_bytes(b"x")
    Path("loop").symlink_to("loop")
    sentence = refusal(lambda: read_header(path))
    assert sentence.startswith("The file cannot be opened: ")
    assert fragment in sentence
    assert path not in sentence


def test_a_symbolic_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(valid_file())
    (tmp_path / "model.safetensors").symlink_to("blob")
    assert len(read_header(tmp_path / "model.safetensors").tensors) == 2


@pytest.mark.parametrize("source", [3, None, io.BytesIO(b""), ["a"]])
def test_a_source_of_another_type_is_an_argument_error(source: object) -> None:
    without_type_check = inspect.unwrap(read_header)
    with pytest.raises(SchemeArgumentError, match="source must be"):
        without_type_check(source)


def test_a_strided_memoryview_is_an_argument_error() -> None:
    with pytest.raises(SchemeArgumentError, match="contiguous"):
        read_header(memoryview(valid_file())[::2])


def test_long_metadata_values_are_measured_and_not_kept() -> None:
    content = container({"__metadata__": {"notes": "x" * 5_000, "format": "pt"}})
    assert read_header(content).metadata == {"notes": "(5,000 bytes, not kept)", "format": "pt"}


def test_unreadable_reason_is_none_for_what_can_be_read() -> None:
    entries = read_header(valid_file()).tensors.values()
    assert [unreadable_reason(entry) for entry in entries] == [None, None]


@given(st.text(max_size=120))
def test_printable_names_are_printable_and_short(name: str) -> None:
    shown = printable_name(name)
    assert len(shown) <= 80
    assert all(character.isprintable() or character.isspace() for character in shown)
    assert not set(shown) & set("\n\r\t\0\x1b\u202e\u2066\u200b\ufeff\u2028\u2029")


@given(st.text(max_size=12), st.text(max_size=12))
def test_two_short_names_never_look_the_same(one: str, other: str) -> None:
    assert (printable_name(one, 500) == printable_name(other, 500)) == (one == other)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("wpe.weight", "wpe.weight"),
        ("重み", "重み"),
        ("a\\u202eb", "a\\\\u202eb"),
        ("a\u202eb", "a\\u202eb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("n" * 80, "n" * 80),
        ("n" * 81, "n" * 79 + "…"),
    ],
)
def test_printable_name_examples(name: str, shown: str) -> None:
    assert printable_name(name) == shown
