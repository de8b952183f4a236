"""Hostile files: refused in one sentence, within bounds, at every step alike."""

import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.errors import CheckpointError, PickleRefused
from posenc.interop.foreign_files import PICKLE_CONVERSION, TORCHSCRIPT_CONVERSION
from posenc.interop.safetensors_file import read_header, read_tensor
from tests.crafted_files import container, legacy_pickle, torchscript, valid_file, zipped_pickle
from tests.hostile_files import HOSTILE_FILES, HostileFile, large_hostile_files
from tests.safetensors_readings import (
    MEBIBYTE,
    STRICTER,
    assert_agrees_with_library,
    assert_steps_agree,
    library_accepts,
    peak_memory,
    refusal,
)


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


@settings(max_examples=300)
@given(mutated_files())
def test_a_tensor_reads_the_same_in_one_step_and_piece_by_piece(content: bytes) -> None:
    assert_steps_agree(content)


def test_every_refusal_is_the_same_in_one_step_and_piece_by_piece() -> None:
    for file in HOSTILE_FILES:
        assert_steps_agree(file.content)
