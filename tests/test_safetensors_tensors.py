"""Tensors, paths and names of safetensors files: read exactly, within their size, shown safely."""

import hashlib
import inspect
import io
import math
import os
import socket
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc import limits
from posenc.errors import SchemeArgumentError
from posenc.interop import safetensors_file
from posenc.interop.safetensors_file import FLOATS, read_header, read_tensor, unreadable_reason
from posenc.interop.safetensors_header import BITS
from posenc.interop.shown_name import printable_name
from tests.crafted_files import checkpoint, container, valid_file
from tests.safetensors_readings import MEBIBYTE, peak_memory, refusal


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
