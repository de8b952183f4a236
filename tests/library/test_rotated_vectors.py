"""How queries and keys were rotated, against a rotation by complex numbers and transformers' own class."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor
from transformers import LlamaConfig, NanoChatConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.nanochat import modeling_nanochat

from posenc import position_kernel
from posenc.__main__ import main
from posenc.errors import SchemeArgumentError
from posenc.frequencies import Layout
from posenc.identification import (
    Identification,
    VectorRotation,
    identify,
    match_rotation,
    rotation_of,
)
from posenc.identification.rotation_words import layout_sentence
from posenc.identification.sentences import rotation_sentences
from posenc.models import read_config
from posenc.schemes.rope import RopeConfig
from posenc.testing import assert_matches
from tests.longer import mostly

# A search makes hundreds of thousands of calls; checking the shapes of each takes as long again.
pytestmark = pytest.mark.usefixtures("no_shape_checks")

ROWS, WIDTH = 64, 32
Vectors = tuple[Tensor, Tensor]  # queries and keys


def rotate(
    x: Tensor, layout: Layout = "half", features: int = WIDTH, factor: float = 1.0
) -> Tensor:
    """Return vectors rotated pair by pair with Python's complex numbers."""
    rotated = x.double().numpy().copy()
    for pair in range(features // 2):
        columns = (pair, pair + features // 2) if layout == "half" else (2 * pair, 2 * pair + 1)
        for row in range(rotated.shape[-2]):
            turn = factor * np.exp(1j * row * 10_000 ** (-2 * pair / features))
            numbers = rotated[..., row, columns[0]] + 1j * rotated[..., row, columns[1]]
            rotated[..., row, columns[0]] = (numbers * turn).real
            rotated[..., row, columns[1]] = (numbers * turn).imag
    return torch.from_numpy(rotated)


def vectors(*heads: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*heads, ROWS, WIDTH, generator=generator, dtype=torch.float64)


def named(rotation: VectorRotation) -> Identification:
    assert rotation.cosines is not None
    return identify(rotation.cosines, rotation.sines, of_vectors=True)


def test_vectors_of_later_positions_belong_to_the_model() -> None:
    before = vectors(2)
    rotation = rotation_of(before[:, 7:], rotate(before)[:, 7:])
    assert rotation.identified is not None
    assert rotation.identified.deviations == ()
    match = match_rotation(rotation, {"all": RopeConfig(dim=WIDTH, layout="half")})
    assert match.belongs
    assert match.start == 7
    assert "from position 7 on" in rotation_sentences(match, rotation.identified)[0]
    assert not match_rotation(rotation, {"all": RopeConfig(dim=WIDTH, base=9e3)}).belongs


ROTATED = [
    ("half", WIDTH, (), torch.float64),
    ("half", 16, (2, 3), torch.float32),
    ("half", WIDTH, (2, 3), torch.bfloat16),
    ("half", 16, (), torch.float16),
    ("interleaved", WIDTH, (2, 3), torch.float64),
    ("interleaved", 16, (), torch.float32),
    ("interleaved", WIDTH, (), torch.bfloat16),
    ("interleaved", 16, (2, 3), torch.float16),
]


@pytest.mark.parametrize(
    ("layout", "features", "heads", "dtype"), mostly(ROTATED, ROTATED[1], ROTATED[6])
)
def test_layout_width_and_base_are_named(
    layout: Layout, features: int, heads: tuple[int, ...], dtype: torch.dtype
) -> None:
    before = vectors(*heads).to(dtype)
    rotation = rotation_of(before, rotate(before.double(), layout, features).to(dtype))
    assert (rotation.layout, rotation.features) == (layout, features)
    result = named(rotation)
    assert result.hypothesis is not None
    assert result.hypothesis.base == pytest.approx(10_000, rel=2e-2)
    assert result.deviations == () or dtype is torch.float16


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_last_features_of_a_head_are_found(layout: Layout) -> None:
    before, kept = vectors(2), vectors(2, seed=3)[..., :12]
    whole = torch.cat((kept, before), -1)
    rotation = rotation_of(whole, torch.cat((kept, rotate(before, layout)), -1))
    assert (rotation.layout, rotation.features) == (layout, WIDTH)
    assert f"the last {WIDTH} of {WIDTH + 12} features" in layout_sentence(rotation)
    result = named(rotation)
    assert result.hypothesis is not None
    assert result.hypothesis.base == pytest.approx(10_000)


def test_neighbours_that_come_out_as_halves_are_named() -> None:
    before = vectors(2)
    rotated = rotate(before, "interleaved")
    rotation = rotation_of(before, torch.cat((rotated[..., 0::2], rotated[..., 1::2]), -1))
    assert rotation.layout == "interleaved"
    assert layout_sentence(rotation).endswith("They come out as halves.")


def test_factor_of_a_scaling_is_named() -> None:
    before = vectors()
    rotation = rotation_of(before, rotate(before, factor=1.25))
    result = named(rotation)
    assert result.hypothesis is not None
    assert result.hypothesis.size == pytest.approx(1.25)
    assert rotation.norm_change["half"] < 1e-12 < 0.1 < rotation.norm_change["interleaved"]


def test_vectors_that_no_layout_rotates_are_named() -> None:
    before = vectors()
    assert "norms of pairs change" in layout_sentence(rotation_of(before, vectors(seed=1)))
    same = rotation_of(before, before.clone())
    assert (same.layout, layout_sentence(same)) == (None, "Nothing is rotated: no feature changes.")


def model_and_vectors() -> tuple[LlamaConfig, Vectors, Vectors, Vectors]:
    scaling = {
        "rope_type": "yarn", "rope_theta": 500_000.0, "factor": 4.0,
        "original_max_position_embeddings": 1_024,
    }  # fmt: skip
    config = LlamaConfig(
        hidden_size=128, num_attention_heads=4, num_hidden_layers=2, rope_parameters=scaling,
        max_position_embeddings=4_096,
    )  # fmt: skip
    q, k = vectors(1, 1).float(), vectors(1, 1, seed=1).float()
    cos, sin = LlamaRotaryEmbedding(config)(q, torch.arange(ROWS).unsqueeze(0))
    rotated_q, rotated_k = apply_rotary_pos_emb(q, k, cos, sin)
    return config, (q, k), (rotated_q, rotated_k), (cos, sin)


def test_rotation_of_a_model_belongs_to_its_config_and_a_wrong_layout_does_not() -> None:
    config, (q, _), (rotated, _), (cos, _) = model_and_vectors()
    schemes = {
        kind.name: kind.scheme
        for kind in read_config(json.loads(config.to_json_string())).layer_kinds
    }
    rotation = rotation_of(q, rotated)
    assert match_rotation(rotation, schemes).belongs
    assert rotation.cosines is not None
    assert math.isclose(float(rotation.cosines[0, 0]), float(cos[0, 0, 0]), rel_tol=1e-6)
    pairs = (
        torch.stack(q.chunk(2, -1), -1).flatten(-2),
        torch.stack(rotated.chunk(2, -1), -1).flatten(-2),
    )
    match = match_rotation(rotation_of(*pairs), schemes)
    assert not match.belongs
    assert rotation_sentences(match, None) == [
        "These vectors have the wrong layout: the model pairs halves (feature m with m + 16)."
    ]


def test_command_answers_for_queries_and_keys(tmp_path: Path) -> None:
    config, before, (rotated_q, _), (cos, sin) = model_and_vectors()
    keys = (
        before[1] * cos
        + torch.stack((-before[1][..., 1::2], before[1][..., 0::2]), -1).flatten(-2) * sin
    )
    for name, parts in (("before", before), ("after", (rotated_q, keys))):
        np.save(tmp_path / f"{name}.npy", torch.stack([part[0, 0] for part in parts]).numpy())
    (tmp_path / "config.json").write_text(config.to_json_string())
    arguments = ["identify", "--before", str(tmp_path / "before.npy"), str(tmp_path / "after.npy")]
    arguments += ["--config", str(tmp_path / "config.json")]
    text = CliRunner().invoke(main, arguments)
    assert text.exit_code == 1  # of the keys
    assert (
        "Queries: The layout is halves (feature m with m + 16); all 32 features are rotated."
        in text.stdout
    )
    assert "Keys: These features are not rotated in pairs" in text.stdout
    of_queries, of_keys = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert (of_queries["layout"], of_queries["belongs"], of_keys["layout"]) == ("half", True, None)


def test_a_model_that_rotates_clockwise_is_compared_by_its_own_direction(tmp_path: Path) -> None:
    """nanochat's class turns pairs by minus the angle; its vectors and tables."""
    config = NanoChatConfig(hidden_size=64, num_attention_heads=2, num_hidden_layers=2)
    q, k = vectors(1, 2).float(), vectors(1, 2, seed=1).float()
    rotary = modeling_nanochat.NanoChatRotaryEmbedding(config)
    cos, sin = rotary(q, torch.arange(ROWS)[None])
    theirs = modeling_nanochat.apply_rotary_pos_emb(q, k, cos, sin)
    record = json.loads(config.to_json_string())
    scheme = read_config(record).main.scheme
    assert isinstance(scheme, RopeConfig)
    ours = scheme.build().rotate(q, k)
    both = scheme.build().rotate(q, k, torch.arange(ROWS), torch.arange(ROWS).clone())
    for one, other, third in zip(ours, theirs, both, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
        torch.testing.assert_close(third, other, rtol=0, atol=1e-5)
    plain = scheme.replace(clockwise=False)
    assert torch.equal(position_kernel(scheme.build(), 9), position_kernel(plain.build(), 9))
    assert_matches((cos[0], sin[0]), record, tolerance=1e-5)
    (tmp_path / "config.json").write_text(config.to_json_string())
    np.save(tmp_path / "before.npy", q[0, 0].numpy())
    arguments = ["identify", "--config", str(tmp_path / "config.json")]
    arguments += ["--before", str(tmp_path / "before.npy"), str(tmp_path / "after.npy")]
    for rotated, status in ((theirs[0], 0), (plain.build().rotate(q, k)[0], 1)):
        np.save(tmp_path / "after.npy", rotated[0, 0].numpy())
        result = CliRunner().invoke(main, arguments)
        assert (result.exit_code, "Every sine is negated" in result.stdout) == (
            status,
            bool(status),
        )
        assert ("the model turns each pair by minus" in result.stdout) == bool(status)
        assert "does not belong" not in result.stdout


@pytest.mark.parametrize(
    ("angles", "vectors_in", "status"),
    [
        (torch.float32, torch.float32, 0),
        (torch.float32, torch.bfloat16, 0),
        (torch.bfloat16, torch.float32, 1),
    ],
)
def test_command_refuses_angles_in_16_bits_and_takes_vectors_in_16_bits(
    angles: torch.dtype, vectors_in: torch.dtype, status: int, tmp_path: Path
) -> None:
    config = LlamaConfig(hidden_size=128, num_attention_heads=4, num_hidden_layers=2)
    theta = 10_000.0 ** (-torch.arange(0, 32, 2, dtype=torch.float64) / 32)
    angle = torch.arange(ROWS).to(angles)[:, None] * theta.to(angles)
    cos, sin = (torch.cat((part, part), -1).to(vectors_in) for part in (angle.cos(), angle.sin()))
    q = vectors(1, 1)[0, 0].to(vectors_in)
    rotated, _ = apply_rotary_pos_emb(q[None, None], q[None, None], cos[None], sin[None])
    np.save(tmp_path / "before.npy", q.float().numpy())
    np.save(tmp_path / "after.npy", rotated[0, 0].float().numpy())
    (tmp_path / "config.json").write_text(config.to_json_string())
    files = [str(tmp_path / name) for name in ("before.npy", "after.npy", "config.json")]
    command = ["identify", "--before", files[0], files[1], "--config", files[2]]
    assert CliRunner().invoke(main, command).exit_code == status


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (torch.ones(3, 4), torch.ones(3, 6), "one shape"),
        (torch.ones(1, 4), torch.ones(1, 4), "positions by features"),
        (torch.ones(3, 4, dtype=torch.int64), torch.ones(3, 4), "floating-point"),
        (torch.full((3, 4), torch.nan), torch.ones(3, 4), "finite"),
        (torch.eye(4), -torch.eye(4), "is 0 before the rotation"),
        ([1.0], torch.ones(3, 4), "floating-point"),
    ],
)  # fmt: skip
def test_unusable_vectors_are_refused(before: Any, after: Tensor, words: str) -> None:
    with pytest.raises(SchemeArgumentError, match=words):
        rotation_of(before, after)
