"""Tables from files, by the command line and in people's own tests, and what is refused in words."""

import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save
from torch import Tensor, nn

from posenc import SCHEMES, rope_tables, sinusoidal_table
from posenc.__main__ import main
from posenc.errors import CheckpointError, NoPositionTable, SchemeArgumentError
from posenc.interop.number_tables import read_number_table
from posenc.testing import assert_matches


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=array.dtype == object)
    return stream.getvalue()


def halves(x: Tensor) -> Tensor:
    return torch.cat((x, x), 1)


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", ">f8", "<c8", "<c16"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_is_read_as_numpy_reads_it(dtype: str, order: str, tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(5, 3)) * (1 + (2j if "c" in dtype else 0))
    array = np.array(numbers, dtype=dtype, order=order)  # type: ignore[call-overload]
    (tmp_path / "table.npy").write_bytes(npy(array))
    for source in (npy(array), tmp_path / "table.npy", str(tmp_path / "table.npy")):
        read = read_number_table(source)
        assert read.sines is None
        np.testing.assert_array_equal(
            read.table.numpy(), array.astype(array.dtype.newbyteorder("="))
        )


def test_two_arrays_in_one_are_cosines_and_sines() -> None:
    cos, sin = rope_tables(20, 8)
    read = read_number_table(npy(torch.stack((cos, sin)).numpy()))
    assert read.sines is not None
    assert torch.equal(read.table, cos)
    assert torch.equal(read.sines, sin)


def header(text: str, version: bytes = b"\x01\x00", body: bytes = b"") -> bytes:
    written = text.encode("latin-1")
    return b"\x93NUMPY" + version + struct.pack("<H", len(written)) + written + body


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (npy(np.array([[{"a": 1}]], dtype=object)), "tables are floating-point"),
        (npy(np.ones((3, 3), dtype=np.int32)), "tables are floating-point"),
        (npy(np.ones((3, 3), dtype=np.float32))[:-4], "takes 36 bytes, but the file holds 32"),
        (npy(np.ones((3, 3), dtype=np.float32)) + b"\0", "but the file holds 37"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999, 9999999), }\n"), "at most"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }\n"), "an axis is"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1), }\n"), "axes"),
        (header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 1), }\n"), "floating"),
        (header("__import__('os').getcwd()"), "cannot be read"),
        (header("{'descr': '<f4'}"), "cannot be read"),
        (header("(" * 400), "cannot be read"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }\n", b"\x09\x00"), "read"),
        (npy(np.ones((3, 3), dtype=np.longdouble)), "tables are floating-point"),
        (b"\x93NUMPY", "cannot be read"),
        (b"PK\x03\x04rest", "^This is a zip archive, not a .npy file or a .safetensors checkpoint.$"),
        (bytes(5), "^This is not a .npy file or a .safetensors checkpoint: a header needs more bytes"),
        (b"\xff" * 99, "^This is not a .npy file or a .safetensors checkpoint: it states a header of"),
        (b"", "empty"),
    ],
)  # fmt: skip
def test_what_is_no_array_is_refused_in_one_sentence(content: bytes, said: str) -> None:
    with pytest.raises(CheckpointError, match=said) as caught:
        read_number_table(content)
    assert "\n" not in str(caught.value)


def test_cosines_and_sines_are_found_by_their_names() -> None:
    cos, sin = rope_tables(20, 8)
    for names in (
        ("cos", "sin"),
        ("rotary.cos_cached", "rotary.sin_cached"),
        ("freqs_cos", "freqs_sin"),
    ):
        content = save({names[0]: cos, names[1]: sin, "other": torch.zeros(3, 3)})
        for tensor in (None, names[0]):
            read = read_number_table(content, tensor)
            assert read.sines is not None
            assert torch.equal(read.table, cos)
            assert torch.equal(read.sines, sin)
    several = read_number_table(
        save({"0.cos": cos, "0.sin": sin, "1.cos": cos + 0, "1.sin": sin + 0})
    )
    assert "first of 2 pairs" in several.notes[0]


def test_one_table_is_taken_and_of_several_one_must_be_named() -> None:
    table = sinusoidal_table(20, 8)
    assert torch.equal(read_number_table(save({"x": table, "bias": torch.zeros(8)})).table, table)
    both = save({"wpe.weight": table, "h.0.attn.weight": torch.zeros(8, 8)})
    assert torch.equal(read_number_table(both).table, table)
    with pytest.raises(NoPositionTable, match="name a tensor") as caught:
        read_number_table(save({"a": table, "b": table + 0}))
    assert set(caught.value.candidates) == {"a", "b"}
    with pytest.raises(CheckpointError, match="holds no tensor named"):
        read_number_table(both, "nothing")


# The command line -------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(main, ["identify", *arguments])
    return found.exit_code, found.output


def test_the_command_says_what_a_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "pe.npy"
    path.write_bytes(npy(sinusoidal_table(64, 32, start=1).numpy()))
    status, said = run(str(path))
    assert status == 0
    assert said.startswith(
        "Sinusoidal, base 10,000, sine and cosine side by side, from position 1."
    )
    assert "Row 0 stands for position 1, not for 0." in said
    status, said = run(str(path), "--json")
    found = json.loads(said)
    assert (found["base"], found["start"], found["width"], found["format"]) == (
        1e4,
        1,
        32,
        "float32",
    )
    assert found["config"]["kind"] == "sinusoidal"
    assert [one["kind"] for one in found["deviations"]] == ["start"]


def test_the_command_takes_sines_of_another_file_and_names_of_tensors(tmp_path: Path) -> None:
    cos, sin = rope_tables(64, 32, 5e5)
    for name, table in (("cos", cos), ("sin", sin)):
        (tmp_path / f"{name}.npy").write_bytes(npy(table.numpy()))
    status, said = run(str(tmp_path / "cos.npy"), "--sines", str(tmp_path / "sin.npy"))
    assert (status, said.splitlines()[0]) == (
        0,
        "RoPE, base 500,000, cosines and sines, one of each for a pair, from position 0.",
    )
    (tmp_path / "both.safetensors").write_bytes(save({"a": cos, "b": halves(sin)}))
    assert run(str(tmp_path / "both.safetensors"))[0] == 1
    status, said = run(str(tmp_path / "both.safetensors"), "--tensor", "b")
    assert "sines alone, halves repeated" in said
    (tmp_path / "noise.npy").write_bytes(npy(np.random.default_rng(0).normal(size=(64, 16))))
    assert run(str(tmp_path / "noise.npy"))[1].startswith("None of these")
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY")
    status, said = run(str(tmp_path / "broken.npy"))
    assert status == 1
    assert said.strip() == "Error: The header of this .npy file cannot be read."


# In people's own tests --------------------------------------------------------------------------

SINUSOIDAL = SCHEMES["sinusoidal"](dim=32)
ROPE = SCHEMES["rope"](dim=32, layout="half")  # type: ignore[call-arg]


class Cached(nn.Module):
    def __init__(self, cos: Tensor, sin: Tensor) -> None:
        super().__init__()
        self.register_buffer("cos_cached", cos[None, None])
        self.register_buffer("sin_cached", sin[None, None])


def test_what_is_the_scheme_passes() -> None:
    cos, sin = rope_tables(100, 32)
    assert_matches(sinusoidal_table(100, 32), SINUSOIDAL)
    assert_matches(sinusoidal_table(100, 32, dtype=torch.bfloat16), SINUSOIDAL)
    assert_matches(sinusoidal_table(100, 32, start=7)[None], SINUSOIDAL.build(), start=7)
    assert_matches(nn.Embedding.from_pretrained(sinusoidal_table(100, 32)), SINUSOIDAL)
    assert_matches((cos, sin), ROPE)
    assert_matches((halves(cos), halves(sin)), ROPE)
    assert_matches(torch.complex(cos, sin), ROPE)
    assert_matches(Cached(halves(cos), halves(sin)), ROPE)
    assert_matches(nn.ModuleDict({"cosine_rope": Cached(halves(cos), halves(sin))}), ROPE)


def test_rotary_modules_of_transformers_match_within_float32_angles() -> None:
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    module = LlamaRotaryEmbedding(LlamaConfig(hidden_size=64, num_attention_heads=2))
    assert_matches(module, ROPE, tolerance=2_048 * 2.0**-23)
    with pytest.raises(AssertionError, match="float32 angles"):
        assert_matches(module, ROPE)


@pytest.mark.parametrize("wrong", ["local", "global"])
def test_every_cache_of_a_module_must_match(wrong: str) -> None:
    """As Gemma 3 and ModernBERT keep two; and one in every layer, whose sines alone are off."""
    right = Cached(*rope_tables(100, 32))
    other = Cached(*rope_tables(100, 32, 500.0))
    of = {"global": right, "local": right} | {wrong: other}
    with pytest.raises(
        AssertionError,
        match=rf"^{wrong}\.cos_cached and {wrong}\.sin_cached: This is not .* base 500,",
    ):
        assert_matches(nn.ModuleDict(of), ROPE)
    assert_matches(nn.ModuleDict({"global": right, "local": Cached(*rope_tables(100, 32))}), ROPE)
    layers = nn.ModuleList([right, Cached(right.cos_cached[0, 0], -right.sin_cached[0, 0])])
    layers[1].cos_cached = right.cos_cached  # shared, beside sines of its own
    with pytest.raises(AssertionError, match=r"^1\.cos_cached and 1\.sin_cached: .*negated"):
        assert_matches(layers, ROPE)
    narrow = Cached(*rope_tables(100, 16))
    with pytest.raises(
        AssertionError, match=r"^b\.cos_cached and b\.sin_cached: This is no table of RoPE"
    ):
        assert_matches(nn.ModuleDict({"a": right, "b": narrow}), ROPE)


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("scheme", ["sinusoidal", SCHEMES["sinusoidal"], None, 512])
def test_a_scheme_that_is_no_config_is_refused_in_a_sentence(scheme: object) -> None:
    with pytest.raises(SchemeArgumentError) as refused:
        assert_matches(sinusoidal_table(64, 32), scheme)  # type: ignore[arg-type]
    assert str(refused.value).startswith(
        'scheme must be a config, such as SCHEMES["sinusoidal"](dim=512), or what it builds, got '
    )


@pytest.mark.parametrize(
    ("given", "scheme", "said"),
    [
        (sinusoidal_table(64, 32, layout="half"), SINUSOIDAL, "all sines, then all cosines"),
        (sinusoidal_table(64, 32, start=1), SINUSOIDAL, "position 1, not for 0"),
        (sinusoidal_table(64, 32, 500.0), SINUSOIDAL, "base 500,"),
        (sinusoidal_table(64, 16), SINUSOIDAL, "64 x 16, and width 32 is expected"),
        (torch.zeros(64, 32), SINUSOIDAL, "None of these"),
        (rope_tables(64, 32, 100.0), ROPE, "base 10,000 with the exponent m/d"),
        (rope_tables(64, 32)[::-1], ROPE, "changed places"),
        (tuple(x.repeat_interleave(2, 1) for x in rope_tables(64, 32)), ROPE, "neighbours repeated"),
    ],
)  # fmt: skip
def test_what_is_not_fails_and_says_what_it_is(given: Tensor, scheme: object, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        assert_matches(given, scheme)  # type: ignore[arg-type]


def test_what_cannot_be_compared_is_an_error_and_no_failure() -> None:
    table = sinusoidal_table(64, 32)
    for given, scheme, said in (
        (table, SCHEMES["alibi"](heads=4), "has no table of sines and cosines"),  # type: ignore[call-arg]
        (table, ROPE, "RoPE's tables are two"),
        ((table, table), SINUSOIDAL, "has one table"),
        ((table,), ROPE, "got 1 tables"),
        (nn.LayerNorm(4), SINUSOIDAL, "holds no one table"),
        (
            (table, table),
            SCHEMES["rope_sections"](dim=32, sections=(8, 8), grid=4),  # type: ignore[call-arg]
            "of two axes",
        ),
    ):
        with pytest.raises(SchemeArgumentError, match=said):
            assert_matches(given, scheme)  # type: ignore[arg-type]
