"""Tensors of safetensors files: exact numbers, caps, special files and paths, names as they are shown."""

import hashlib
import math
import os
import socket
import struct
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc import limits
from posenc.checkpoints import safetensors_file
from posenc.checkpoints.safetensors_file import BITS, FLOATS, read_header, read_tensor
from posenc.text import printable_name
from tests.library.crafted_files import checkpoint, container, valid_file
from tests.library.safetensors_checks import MEBIBYTE, peak_memory, refusal

# Codes and their numbers: OCP 8-bit floats and AMD's fnuz forms (the largest, the smallest, NaN or
# infinity, a negative one), IEEE 754's half and the upper half of a float32.
CODES: dict[str, tuple[bytes, list[float]]] = {
    "F8_E4M3": (b"\x7e\x01\x7f\xb8", [448.0, 2.0**-9, math.nan, -1.0]),
    "F8_E5M2": (b"\x7b\x01\x7c\xbc", [57_344.0, 2.0**-16, math.inf, -1.0]),
    "F8_E4M3FNUZ": (b"\x7f\x01\x80\xc0", [240.0, 2.0**-10, math.nan, -1.0]),
    "F8_E5M2FNUZ": (b"\x7f\x01\x80\xc0", [57_344.0, 2.0**-17, math.nan, -1.0]),
    "F16": (struct.pack("<4H", 0x7BFF, 1, 0x7C00, 0xBC00), [65_504.0, 2.0**-24, math.inf, -1.0]),
    "BF16": (struct.pack("<4H", 0x7F7F, 1, 0x7F80, 0xBF80),
             [(2 - 2.0**-7) * 2.0**127, 2.0**-133, math.inf, -1.0]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", CODES)
def test_codes_of_a_narrow_float_are_read_exactly(dtype: str) -> None:
    stored, expected = CODES[dtype]
    read = read_tensor(checkpoint({"a": (dtype, (4,), stored)}), "a")
    assert read.tensor.dtype == torch.float32
    assert np.array_equal(read.tensor.numpy(), np.array(expected, np.float32), equal_nan=True)
    assert read.source_dtype == dtype
    assert read.note is not None
    assert dtype in read.note


@pytest.mark.parametrize(("dtype", "numpy_dtype"), [("F32", "<f4"), ("F64", "<f8")])
def test_wide_floats_keep_every_bit(dtype: str, numpy_dtype: str) -> None:
    values = np.array([[0.1, -0.0, 1e-310], [np.nan, np.inf, 3.0e38]]).astype(numpy_dtype)
    read = read_tensor(checkpoint({"a": (dtype, (2, 3), values.tobytes())}), "a")
    assert read.tensor.shape == (2, 3)
    assert read.tensor.numpy().tobytes() == values.tobytes()
    assert read.sha256 == hashlib.sha256(values.tobytes()).hexdigest()
    assert (read.note is None) == (dtype == "F32")
    read.tensor[0, 0] = 7.0  # a writable copy


@pytest.mark.parametrize("dtype", [name for name in BITS if name not in FLOATS])
def test_other_dtypes_are_listed_and_not_read(dtype: str) -> None:
    content = checkpoint({"a": (dtype, (8,), bytes(BITS[dtype]))})
    assert "a" in read_header(content).tensors
    assert f"has the dtype {dtype}" in refusal(lambda: read_tensor(content, "a"))


@pytest.mark.parametrize(
    ("shape", "fragment"),
    [((1, 1, 1, 1, 2), "has 5 axes"), ((limits.MAX_TENSOR_ELEMENTS + 2,), "67,108,866 elements")],
)
def test_tensor_over_the_reading_caps_is_listed_beside_the_others(
    shape: tuple[int, ...], fragment: str, tmp_path: Path
) -> None:
    size = 2 * math.prod(shape)
    header: dict[str, object] = {
        "big": {"dtype": "F16", "shape": list(shape), "data_offsets": [0, size]},
        "table": {"dtype": "F32", "shape": [2, 2], "data_offsets": [size, size + 16]},
    }
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write(container(header))
        file.seek(size, os.SEEK_CUR)  # a sparse file: nothing is stored for the large tensor
        file.write(np.arange(4, dtype="<f4").tobytes())
    assert list(read_header(path).tensors) == ["big", "table"]
    assert fragment in refusal(lambda: read_tensor(path, "big"))
    assert read_tensor(path, "table").tensor.tolist() == [[0, 1], [2, 3]]
    assert peak_memory(lambda: read_tensor(path, "table")) < MEBIBYTE


def test_tensor_of_a_path_is_in_memory_once_and_no_file_over_the_cap_is_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(checkpoint({"a": ("F32", (4, MEBIBYTE), bytes(16 * MEBIBYTE))}))
    assert peak_memory(lambda: read_tensor(path, "a")) < 17 * MEBIBYTE
    os.truncate(path, limits.MAX_FILE_BYTES + 1)
    assert "2,147,483,649 bytes" in refusal(lambda: read_header(path))


def test_file_that_shrinks_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    content = checkpoint({"a": ("F32", (1024, 64), bytes(4 * 1024 * 64))})
    check = safetensors_file._checked_header
    for size in (4, 100, len(content) - 1):
        path.write_bytes(content)

        def then_shrink(file: safetensors_file.ByteRanges, size: int = size) -> object:
            header = check(file)
            os.truncate(path, size)
            return header

        monkeypatch.setattr(safetensors_file, "_checked_header", then_shrink)
        assert "became shorter" in refusal(lambda: read_tensor(path, "a"))


@pytest.mark.timeout(60)  # opening a FIFO the plain way waits forever
def test_special_files_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link-to-fifo").symlink_to(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    for name in ("fifo", "link-to-fifo", "/dev/zero", "/dev/null"):
        path = tmp_path / name
        assert "a device or a pipe" in refusal(partial(read_header, path))
    assert "no such device or address" in refusal(lambda: read_header(tmp_path / "socket"))
    assert "is a directory" in refusal(lambda: read_header(tmp_path))
    (tmp_path / "blob").write_bytes(valid_file())
    (tmp_path / "link").symlink_to("blob")  # caches of models are made of links
    assert len(read_header(tmp_path / "link").tensors) == 2


@pytest.mark.parametrize(
    ("path", "fragment"),
    [
        ("missing.safetensors", "no such file"),
        ("with\0nul", "the path is not usable"),
        ("\ud800", ""),
        ("n" * 5_000, "file name too long"),
        ("loop", "too many levels of symbolic links"),
    ],
)
def test_unusable_path_is_refused_without_naming_it(
    path: str, fragment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    sentence = refusal(lambda: read_header(path))
    assert "cannot be opened" in sentence
    assert fragment in sentence
    assert path not in sentence


# Of a few characters: the tables of all of Unicode take seconds to build.
names = st.text("ab\\\n\x1b\0xu202e\u202e\u200b\ufeff\u2028\u91cd\U0001f600", max_size=120)


@settings(max_examples=100)
@given(names, names)
def test_printable_names_are_printable_short_and_distinct(name: str, other: str) -> None:
    shown = printable_name(name)
    assert len(shown) <= 80
    assert all(character.isprintable() or character.isspace() for character in shown)
    assert not set(shown) & set("\n\r\t\0\x1b\u202e\u2066\u200b\ufeff\u2028\u2029")
    same = name[:12] == other[:12]
    assert (printable_name(name[:12], 500) == printable_name(other[:12], 500)) == same


def test_names_are_shown_escaped_and_cut() -> None:
    for name, shown in {
        "wpe.\u91cd\u307f": "wpe.\u91cd\u307f",
        "a\\u202eb": "a\\\\u202eb",
        "a\u202eb\x1b[31m": "a\\u202eb\\x1b[31m",
        "n" * 80: "n" * 80,
        "n" * 81: "n" * 79 + "\u2026",
    }.items():
        assert printable_name(name) == shown
    sentence = refusal(lambda: read_tensor(valid_file(), "\u202eweight\n"))
    assert "no tensor named \\u202eweight\\n" in sentence
