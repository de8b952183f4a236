"""Scalings of RoPE against the installed transformers.

mode="transformers" promises the bits that models run on: those comparisons are exact on purpose.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc import rope_frequencies
from posenc.models import read_config
from posenc.models.rope_types import KINDS
from posenc.schemes import SCHEMES
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from tests.library.tensors import assert_close

TRAINED = 2_048
BLOCKS: list[dict[str, Any]] = [
    {"rope_type": "default"},
    {"rope_type": "default", "partial_rotary_factor": 0.5},
    {"rope_type": "linear", "factor": 10.0},
    {"rope_type": "dynamic", "factor": 10.0},
    {"rope_type": "yarn", "factor": 10.0, "beta_fast": 32, "beta_slow": 1},
    {"rope_type": "yarn", "factor": 2.0, "attention_factor": 0.5, "truncate": False},
    {"rope_type": "yarn", "factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.5},
    {"rope_type": "yarn", "factor": 10.0, "beta_fast": 1_000, "partial_rotary_factor": 0.25},
    {"rope_type": "longrope", "factor": 10.0},
    {"rope_type": "longrope", "factor": 1.0, "attention_factor": 0.5},
    {"rope_type": "llama3", "factor": 10.0, "low_freq_factor": 1, "high_freq_factor": 4,
     "original_max_position_embeddings": TRAINED},
    {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1, "high_freq_factor": 1,
     "original_max_position_embeddings": TRAINED},  # a step, as in Llama 4 Scout
    {"rope_type": "proportional", "partial_rotary_factor": 0.25},
    {"rope_type": "proportional", "partial_rotary_factor": 1.0, "factor": 10.0},
]  # fmt: skip


@pytest.fixture
def library() -> Any:
    return pytest.importorskip("transformers", minversion="5")


def modeling(model: str) -> Any:
    return pytest.importorskip(f"transformers.models.{model}.modeling_{model}")


def with_base(block: Mapping[str, Any], pairs: int, base: float = 10_000.0) -> dict[str, Any]:
    """Return the block with a base, and LongRoPE's with its two lists."""
    lists: dict[str, Any] = {}
    if block["rope_type"] == "longrope":
        long = [float(m) for m in range(1, pairs + 1)]
        lists = {"short_factor": [2.0] * pairs, "long_factor": long}
    return {"rope_theta": base} | dict(block) | lists


def llama(block: Mapping[str, Any], dim: int = 128, base: float = 10_000.0) -> Any:
    return modeling("llama").LlamaConfig(
        hidden_size=2 * dim, num_attention_heads=2, max_position_embeddings=TRAINED,
        rope_parameters=with_base(block, dim // 2, base),
    )  # fmt: skip


def read(config: Any) -> RopeConfig:
    scheme = read_config(config.to_dict()).main.scheme
    assert isinstance(scheme, RopeConfig)
    return scheme


def theirs(config: Any, length: int | None) -> tuple[Tensor, float]:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        return modeling("gpt_neox").GPTNeoXRotaryEmbedding.compute_default_rope_parameters(config)
    return ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=length)


def ulps(found: Tensor, expected: Tensor) -> int:
    """Return the largest distance of positive float32 numbers in units of the last place."""
    return int((found.float().view(torch.int32) - expected.view(torch.int32)).abs().max())


def test_every_type_of_transformers_is_compared(library: Any) -> None:
    known = {*library.modeling_rope_utils.ROPE_INIT_FUNCTIONS, "default"}
    assert {block["rope_type"] for block in BLOCKS} == known


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: "-".join(map(str, block.values())))
def test_frequencies_of_a_model_are_those_of_transformers(
    block: dict[str, Any], library: Any
) -> None:
    share = block.get("partial_rotary_factor", 1.0)
    # Its float32 powers alone are off by up to 6 ulp at widths that are no power of two, and YaRN
    # blends in float32 on top.
    yarn = block["rope_type"] == "yarn"
    for dim, base, most in (
        (128, 1e4, 8 if yarn else 4),
        (256, 1e6, 8 if yarn else 4),
        (96, 1e4, 8),
    ):
        config = llama(block, dim, base)
        if block["rope_type"] == "proportional":
            scheme = read(config)
        else:  # of these a Llama has the whole width alone
            scheme = read(llama(block | {"partial_rotary_factor": 1.0}, dim, base))
            scheme = scheme.replace(partial_rotary_factor=share)
        for length in (None, 1, TRAINED, TRAINED + 1, 131_072):
            expected, scale = theirs(config, length)
            bits, own_scale = rope_frequencies(scheme, length=length, mode="transformers")
            assert torch.equal(bits, expected), (dim, length)
            exact, exact_scale = rope_frequencies(scheme, length=length)
            assert exact.dtype == torch.float64
            assert ulps(exact, expected) <= most, (dim, length)
            assert own_scale == exact_scale == pytest.approx(scale, rel=1e-15)


def test_the_kinds_that_transformers_computes_are_those_it_has_a_function_for() -> None:
    utils = pytest.importorskip("transformers.modeling_rope_utils")
    by_modules = {"rope", "rope_sections"}  # rotary modules of models compute these
    by_base = {"rope_ntk"}  # a config writes it as plain RoPE of a larger base
    by_function = {KINDS[word] for word in utils.ROPE_INIT_FUNCTIONS}
    kinds = [config for config in SCHEMES.values() if issubclass(config, RopeConfig)]
    computed = {config.kind for config in kinds if config().in_transformers}
    assert computed == by_modules | by_base | by_function


def test_frequencies_in_sections_have_the_bits_of_plain_rope_in_transformers() -> None:
    theirs = 1.0 / (1e4 ** (torch.arange(0, 64, 2).float() / 64))
    config = RopeSectionsConfig(dim=64, grid=0)
    assert torch.equal(rope_frequencies(config, mode="transformers")[0], theirs)


@pytest.mark.parametrize("interleaved", [False, True])
def test_sections_turn_as_those_of_qwen_vl(interleaved: bool) -> None:
    """Qwen2-VL has its sections in blocks, Qwen3-VL in turn; both turn by frame, row and column."""
    config = RopeSectionsConfig(
        dim=32, sections=(6, 5, 5), interleaved=interleaved, grid=4, layout="half"
    )
    at = torch.arange(40)
    places = torch.stack((at // 16, at // 4 % 4, at % 4))
    freqs = places[:, None, :, None].float() * rope_frequencies(config)[0].float()
    sections: Any = SimpleNamespace(mrope_section=[6, 5, 5])
    if interleaved:
        owner = modeling("qwen3_vl").Qwen3VLTextRotaryEmbedding
        angles = owner.recomposition_frequencies(sections, freqs)
        expected = [angles.cos(), angles.sin()]
    else:
        owner = modeling("qwen2_vl").Qwen2VLRotaryEmbedding
        expected = [
            owner.recomposition_frequencies(sections, f) for f in (freqs.cos(), freqs.sin())
        ]
    found = config.build().rows(at, torch.float32, torch.device("cpu"))
    for plane, other in zip(found, expected, strict=True):
        assert_close(plane, other[0, :, :16], atol=2e-6)
