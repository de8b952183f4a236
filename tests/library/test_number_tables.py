"""Tables of numbers in files: .npy arrays and tensors as they are stored, and `posenc identify`."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save

from posenc import __main__ as main_module
from posenc import rope_tables, sinusoidal_table
from posenc.__main__ import main
from posenc.checkpoints.array_files import read_number_table
from posenc.cli import identify as identify_command
from posenc.errors import CheckpointError, NoPositionTable
from tests.library.crafted_files import npy

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.mark.parametrize(
    ("dtype", "order"), [("<f2", "C"), ("<f4", "F"), (">f8", "C"), ("<c8", "F")]
)
def test_array_is_read_as_numpy_reads_it(dtype: str, order: Any, tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(5, 3)) * (1 + (2j if "c" in dtype else 0))
    array = np.array(numbers, dtype=dtype, order=order)
    path = tmp_path / "table.npy"
    path.write_bytes(npy(array))
    for source in (npy(array), path, str(path)):
        found = read_number_table(source)
        assert found.sines is None
        assert found.table.tolist() == array.tolist()


def test_two_arrays_in_one_file_are_cosines_and_sines() -> None:
    cos, sin = rope_tables(20, 8)
    pairs = torch.stack((cos, sin), -1)  # as torchtune and gpt-fast keep them
    both = npy(torch.stack((cos, sin)).numpy())
    for content in (both, npy(pairs.numpy()), save({"cache": pairs})):
        found = read_number_table(content)
        assert found.sines is not None
        assert torch.equal(found.table, cos)
        assert torch.equal(found.sines, sin)
        assert ("Two tables" in found.notes[0]) == (content == both)


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    encoded = text.encode("latin-1")
    return b"\x93NUMPY" + version + struct.pack("<H", len(encoded)) + encoded


def test_array_saved_by_python_2_is_read() -> None:
    content = header("{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }\n")
    numbers = np.arange(6, dtype="<f4").reshape(2, 3)
    with pytest.warns(UserWarning, match="Python 2"):
        assert read_number_table(content + numbers.tobytes()).table.tolist() == numbers.tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(np.array([[{"a": 1}]], dtype=object)), "tables are floating-point"),
        (npy(np.ones((3, 3), dtype=np.int32)), "tables are floating-point"),
        (npy(np.ones((3, 3), dtype=np.float32))[:-4], "takes 36 bytes, but the file holds 32"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999, 9999999), }\n"), "at most"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }\n"), "at most 4 axes"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1), }\n"), "axes"),
        (header("__import__('os').getcwd()"), "cannot be read"),
        (header("{'descr': '<f4'}"), "cannot be read"),
        (header("(" * 400), "cannot be read"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }\n", b"\x09\x00"), "read"),
        (b"\x93NUMPY", "cannot be read"),
        (b"PK\x03\x04rest", "^This is a zip archive, neither a .npy nor a .safetensors file.$"),
        (bytes(5), "^This is neither a .npy nor a .safetensors file: its header"),
        (b"some,words\n" * 9, "^This is neither a .npy nor a .safetensors file: its header"),
        (b"\xff" * 8 + b"{", "its header is too long: 18,446,744,073,709,551,615 bytes; at most"),
        (b"", "^The file is empty.$"),
    ],
)  # fmt: skip
def test_file_without_an_array_is_refused_in_one_sentence(content: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        read_number_table(content)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("names", [("rotary.cos_cached", "rotary.sin_cached"),
                                   ("freqs_cos", "freqs_sin")])  # fmt: skip
def test_cosines_and_sines_are_found_by_their_names(names: tuple[str, str]) -> None:
    cos, sin = rope_tables(20, 8)
    content = save({names[0]: cos, names[1]: sin, "other": torch.zeros(3, 3)})
    for tensor in (None, names[0]):
        found = read_number_table(content, tensor)
        assert found.sines is not None
        assert torch.equal(found.table, cos)
        assert torch.equal(found.sines, sin)
    layers = {
        f"{n}.{name}": part + n for n in range(2) for name, part in (("cos", cos), ("sin", sin))
    }
    assert "first of 2 pairs" in read_number_table(save(layers)).notes[0]


def test_single_table_is_taken_and_of_several_one_must_be_named() -> None:
    table = sinusoidal_table(20, 8)
    both = save({"wpe.weight": table, "h.0.attn.weight": torch.zeros(8, 8)})
    for content in (save({"x": table, "bias": torch.zeros(8)}), both):
        assert torch.equal(read_number_table(content).table, table)
    with pytest.raises(NoPositionTable, match=r"such as a, b\.$"):
        read_number_table(save({"a": table, "b": table + 0}))
    with pytest.raises(CheckpointError, match="holds no tensor named"):
        read_number_table(both, "nothing")


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["identify", *map(str, arguments)])
    return result.exit_code, result.stdout or result.stderr


def test_wrong_arguments_are_answered_by_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "pe.npy"
    path.write_bytes(npy(sinusoidal_table(64, 32).numpy()))
    for arguments, words in (
        ([tmp_path], "is a directory"),
        ([tmp_path / "absent.npy"], "does not exist"),
        ([path, "--sines", tmp_path], "is a directory"),
        ([path, "--nothing"], "--nothing"),
        ([], "FILE"),
    ):
        status, output = run(*arguments)
        assert status == 2
        assert output.startswith("Error: ")
        assert words in output
        assert output.count("\n") == 1


def test_refused_files_and_configs_are_told_from_a_deviation_by_the_exit_status(
    tmp_path: Path,
) -> None:
    good, other, bad = (tmp_path / name for name in ("good.npy", "other.npy", "bad.npy"))
    cos = rope_tables(64, 128, 1e4)[0].numpy()
    good.write_bytes(npy(cos))
    other.write_bytes(npy(1.5 * cos))
    bad.write_bytes(b"torn")
    infinite = tmp_path / "infinite.npy"
    infinite.write_bytes(npy(cos + np.inf))
    config, torn = tmp_path / "config.json", tmp_path / "torn.json"
    config.write_text('{"model_type": "llama", "hidden_size": 512, "num_attention_heads": 4}')
    torn.write_text("{")
    for status, arguments in (
        (0, [good, "--config", config]),
        (1, [other, "--config", config]),
        (2, [bad]),
        (2, [infinite]),
        (2, [good, "--sines", bad]),
        (2, [good, "--before", bad]),
        (2, [good, "--config", torn]),
        (2, [good, "--config", tmp_path / "absent.json"]),
        (2, [good, "--before", infinite]),
        (2, [good, "--tensor", "x", "--before", good]),
        (2, [good, "--positions", torn]),
        (2, [good, "--positions", torn, "--config", config]),
    ):
        assert run(*arguments)[0] == status, arguments


@pytest.mark.parametrize(
    ("error", "status"), [(BrokenPipeError(32, ""), 2), (KeyboardInterrupt(), 130)]
)
def test_command_that_is_cut_off_has_no_exit_status_of_a_deviation(
    error: BaseException, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object) -> None:
        raise error

    (tmp_path / "table.npy").write_bytes(npy(sinusoidal_table(64, 32).numpy()))
    monkeypatch.setattr(identify_command, "_print_identification", cut_off)
    monkeypatch.setattr(main_module, "_drop_output", lambda: None)
    assert run(tmp_path / "table.npy")[0] == status


def test_command_describes_a_file_in_text_and_as_json(tmp_path: Path) -> None:
    path = tmp_path / "pe.npy"
    path.write_bytes(npy(sinusoidal_table(64, 32, start=1).numpy()))
    status, output = run(path)
    assert status == 0
    assert output.startswith("Sinusoidal, base 10,000, ")
    assert "Row 0 stands for position 1, not for 0." in output
    found = json.loads(run(path, "--json")[1])
    keys = ("base", "start", "width", "format")
    assert [found[key] for key in keys] == [1e4, 1, 32, "float32"]
    assert found["config"]["kind"] == "sinusoidal"
    assert [deviation["kind"] for deviation in found["deviations"]] == ["start"]


def test_command_compares_the_positions_expected_and_names_the_cause_first(tmp_path: Path) -> None:
    config, positions = tmp_path / "config.json", tmp_path / "positions.txt"
    config.write_text('{"model_type": "llama", "hidden_size": 128, "num_attention_heads": 4}')
    positions.write_text(f"{[*range(20), *range(20)]}")
    cos, sin = rope_tables(40, 32)
    for places, status in ((torch.arange(40), 1), (torch.arange(40) % 20, 0)):
        files = tmp_path / "cos.npy", tmp_path / "sin.npy"
        for file, part in zip(files, (cos, sin), strict=True):
            file.write_bytes(npy(part[places].numpy()))
        arguments = (files[0], "--sines", files[1], "--config", config, "--positions", positions)
        found, output = run(*arguments)
        assert found == status
        cause = "Positions run on from row to row: row 20 stands for 20, where a new document begins at 0."
        assert output.startswith(cause if status else "This table belongs to the model")
        assert json.loads(run(*arguments, "--json")[1])["belongs"] == (not status)


def test_command_counts_the_positions_before_it_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, positions = tmp_path / "config.json", tmp_path / "positions.txt"
    config.write_text('{"model_type": "llama", "hidden_size": 128, "num_attention_heads": 4}')
    positions.write_text("0 1 2")
    cos, sin = rope_tables(40, 32)
    for name, part in (("cos", cos), ("sin", sin)):
        (tmp_path / f"{name}.npy").write_bytes(npy(part.numpy()))
    monkeypatch.setattr(identify_command, "identify", None)
    monkeypatch.setattr(identify_command, "rotation_of", None)
    cosines, options = tmp_path / "cos.npy", ("--config", config, "--positions", positions)
    for others in (("--sines", tmp_path / "sin.npy"), ("--before", cosines)):
        message = "Error: positions must be one for each of the 40 rows, got 3.\n"
        assert run(cosines, *others, *options) == (2, message)


def test_command_takes_sines_of_another_file_and_names_of_tensors(tmp_path: Path) -> None:
    cos, sin = rope_tables(64, 32, 5e5)
    both = tmp_path / "both.safetensors"
    both.write_bytes(save({"a": cos, "b": torch.cat((cos, sin), 1)}))
    for name, part in (("cos", cos), ("sin", sin)):
        (tmp_path / f"{name}.npy").write_bytes(npy(part.numpy()))
    status, output = run(tmp_path / "cos.npy", "--sines", tmp_path / "sin.npy")
    assert (status, output[:19]) == (0, "RoPE, base 500,000,")
    assert run(both)[0] == 2
    assert "RoPE cache in one" in run(both, "--tensor", "b")[1]
    both.write_bytes(b"\x93NUMPY")
    assert run(both) == (2, "Error: The header of this .npy file cannot be read.\n")
