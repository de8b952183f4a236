"""Scalings of RoPE: their frequencies are those of transformers, bit for bit."""

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posenc import (
    SCHEMES,
    SchemeArgumentError,
    rope_frequencies,
)
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from posenc.schemes.rope_scaling.yarn_paper import RopeYarnPaperConfig
from tests.scaling_strategies import configs

TYPES = {
    "rope": "default", "rope_linear": "linear", "rope_dynamic": "dynamic", "rope_yarn": "yarn",
    "rope_longrope": "longrope", "rope_llama3": "llama3", "rope_proportional": "proportional",
}  # fmt: skip


def transformers_frequencies(config: Any, length: int | None) -> tuple[Tensor, float]:
    """Inverse frequencies and attention factor of the installed transformers."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding

    values = {
        "rope_type": TYPES[config.kind], "rope_theta": config.base,
        "partial_rotary_factor": config.partial_rotary_factor,
    }  # fmt: skip
    own = {field.name for field in dataclasses.fields(config)}
    for name in own - {"kind", "dim", "base", "layout", "length", "trained_length"}:
        value = getattr(config, name)
        if name in ("attention_factor", "mscale", "mscale_all_dim") and value == 0:
            continue
        pairs = int(config.dim * config.partial_rotary_factor) // 2
        if name in ("short_factor", "long_factor"):
            value = [*value] if len(value) == pairs else [*(value or (1.0,))] * pairs
        values[name] = value
    trained = getattr(config, "trained_length", 2_048)
    if "trained_length" in own and config.kind != "rope_dynamic":
        values["original_max_position_embeddings"] = trained
    made = LlamaConfig(
        hidden_size=config.dim, num_attention_heads=1, head_dim=config.dim,
        max_position_embeddings=trained, rope_parameters=values,
    )  # fmt: skip
    if config.kind == "rope":
        return GPTNeoXRotaryEmbedding.compute_default_rope_parameters(made)
    return ROPE_INIT_FUNCTIONS[TYPES[config.kind]](made, torch.device("cpu"), seq_len=length)


def test_every_type_that_transformers_has_is_compared() -> None:
    utilities = pytest.importorskip("transformers.modeling_rope_utils")
    assert {*TYPES.values()} == {*utilities.ROPE_INIT_FUNCTIONS, "default"}
    assert len({*TYPES.values()}) == len(TYPES)


def ulps(found: Tensor, theirs: Tensor) -> int:
    """The largest distance of two float32 rows of positive numbers, in units of the last place."""
    return int((found.float().view(torch.int32) - theirs.view(torch.int32)).abs().max())


SHARES = st.sampled_from([1.0, 0.5, 0.25, 0.4])


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=200)
@given(configs(tuple(TYPES)), SHARES, st.none() | st.integers(1, 300_000))
def test_frequencies_are_transformers_bit_for_bit(
    made: Callable[[], RopeConfig], share: float, length: int | None
) -> None:
    pytest.importorskip("transformers")
    config = made()
    if config.kind != "rope_proportional":
        if int(config.dim * share) < 4 or int(config.dim * share) % 2:
            share = 1.0
        config = config.replace(partial_rotary_factor=share)
    if hasattr(config, "length"):
        config = config.replace(length=0)
        if config.kind == "rope_dynamic" and config.rotary_dim == 2:
            with pytest.raises(ZeroDivisionError):  # it divides by width - 2
                transformers_frequencies(config, length)
            return
    theirs, scale = transformers_frequencies(config, length)
    if config.kind == "rope_longrope" and not getattr(
        config, "long_factor" if (length or 0) > config.trained_length else "short_factor"
    ):
        config = config.replace(short_factor=(1.0,), long_factor=(1.0,))
    found, own = rope_frequencies(config, length=length, mode="transformers")
    assert found.dtype == torch.float32
    assert torch.equal(found, theirs)
    assert own == scale
    if not (theirs.isfinite().all() and (theirs >= 2**-126).logical_or(theirs == 0).all()):
        return  # past the range of float32
    right, exactly = rope_frequencies(config, length=length)
    assert right.dtype == torch.float64
    assert exactly == scale


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", list(TYPES))
@pytest.mark.parametrize(
    ("dim", "base", "most"),
    [(64, 1e4, 4), (128, 1e4, 4), (128, 5e5, 4), (128, 1e6, 4), (256, 1e6, 4), (96, 1e4, 8)],
)
@pytest.mark.parametrize("length", [None, 131_072])
def test_exact_frequencies_are_within_4_ulp_of_transformers(
    kind: str, dim: int, base: float, most: int, length: int | None
) -> None:
    """Its float32 powers alone are off by up to 6 ulp at widths that are no power of two."""
    pytest.importorskip("transformers")
    config = SCHEMES[kind](dim=dim, base=base)
    if kind == "rope_longrope":
        grown = tuple(1 + m / 4 for m in range(dim // 2))
        config = config.replace(short_factor=(1.0,) * (dim // 2), long_factor=grown)
    theirs, scale = transformers_frequencies(config, length)
    found, own = rope_frequencies(config, length=length)
    assert ulps(found, theirs) <= most
    assert own == scale
    assert torch.equal(rope_frequencies(config, length=length, mode="transformers")[0], theirs)


@pytest.mark.parametrize("length", [8_192, 65_536])
def test_ntk_aware_is_the_alpha_of_hunyuan_bit_for_bit(length: int) -> None:
    modeling = pytest.importorskip("transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense")
    from transformers import HunYuanDenseV1Config

    made = HunYuanDenseV1Config(
        hidden_size=128, num_attention_heads=1, head_dim=128, max_position_embeddings=length,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 1000.0, "factor": 1.0},
    )  # fmt: skip
    theirs, _ = modeling.HunYuanDenseV1RotaryEmbedding.compute_ntk_alpha_rope_parameters(made)
    found, scale = rope_frequencies(RopeNtkConfig(factor=1000.0), mode="transformers")
    assert torch.equal(found, theirs)
    assert scale == 1


@pytest.mark.parametrize("dim", [8, 64, 128])
def test_a_ladder_of_each_axis_is_transformers_axial_bit_for_bit(dim: int) -> None:
    modeling = pytest.importorskip("transformers.models.cohere_compass.modeling_cohere_compass")

    made = SimpleNamespace(rope_parameters={"rope_theta": 1e4}, head_dim=dim)
    theirs, _ = modeling.CohereCompassVisionRotaryEmbedding.compute_axial_rope_parameters(made)
    config = RopeSectionsConfig(dim=dim, ladders="each")
    found, _ = rope_frequencies(config, mode="transformers")
    assert torch.equal(found, torch.cat((theirs, theirs)))
    assert ulps(rope_frequencies(config)[0], found) <= 4


@pytest.mark.parametrize("interleaved", [False, True])
def test_sections_turn_as_those_of_qwen_vl(interleaved: bool) -> None:
    """Qwen2-VL's sections in blocks and Qwen3-VL's in turn, at the places of a grid."""
    name = "qwen3_vl" if interleaved else "qwen2_vl"
    modeling = pytest.importorskip(f"transformers.models.{name}.modeling_{name}")
    sizes = (6, 5, 5)
    config = RopeSectionsConfig(
        dim=32, sections=sizes, interleaved=interleaved, grid=4, layout="half"
    )
    scheme = config.build()
    at = torch.arange(40)
    places = torch.stack((at // 16, at // 4 % 4, at % 4))  # frame, row, column
    inv_freq = rope_frequencies(config)[0].float()
    freqs = places[:, None, :, None].float() * inv_freq

    owned = SimpleNamespace(mrope_section=[*sizes])
    owner = modeling.Qwen3VLTextRotaryEmbedding if interleaved else modeling.Qwen2VLRotaryEmbedding
    recompose = owner.recomposition_frequencies
    if interleaved:
        angles = recompose(owned, freqs)
        cos, sin = angles.cos(), angles.sin()
    else:
        cos, sin = recompose(owned, freqs.cos()), recompose(owned, freqs.sin())
    found = scheme.cos_sin(at, dtype=torch.float32)
    for plane, theirs in zip(found, (cos, sin), strict=True):
        torch.testing.assert_close(plane, theirs[0, :, :16], rtol=0, atol=2e-6)


def test_transformers_has_no_yarn_as_printed() -> None:
    with pytest.raises(SchemeArgumentError, match="RoPE YaRN as printed"):
        rope_frequencies(RopeYarnPaperConfig(), mode="transformers")
