"""Numbers of the models by name, typed once more by hand: sizes, windows and scalings, one row each.

Scalings: posenc's reference table of models. Layers and heads of keys and values: as each model's paper
or card has them.
"""

import dataclasses
import math
from typing import Any

import pytest

from posenc.presets import MODELS
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.longrope import RopeLongConfig

# Layers, heads of keys and values, and (layers, window) of each kind of layer, that which sees
# farthest first.
SIZES: dict[str, tuple[int, int, list[tuple[int, int | None]]]] = {
    "transformer": (6, 8, [(6, None)]),
    "bert-base": (12, 12, [(12, None)]),
    "gpt-2": (12, 12, [(12, None)]),
    "t5-base": (12, 12, [(12, None), (12, None)]),  # decoder and encoder
    "transformer-xl": (18, 16, [(18, None)]),
    "gpt-j-6b": (28, 16, [(28, None)]),
    "gpt-neox-20b": (44, 64, [(44, None)]),
    "llama-1-7b": (32, 32, [(32, None)]),
    "llama-2-7b": (32, 32, [(32, None)]),
    "codellama-7b": (32, 32, [(32, None)]),
    "llama-3-8b": (32, 8, [(32, None)]),
    "llama-3.1-8b": (32, 8, [(32, None)]),
    "mistral-7b-v0.1": (32, 8, [(32, 4_096)]),
    "mixtral-8x7b": (32, 8, [(32, None)]),
    "gemma-2-9b": (42, 8, [(21, None), (21, 4_096)]),
    "gemma-3-4b": (34, 4, [(5, None), (29, 1_024)]),
    "qwen2.5-7b": (28, 4, [(28, None)]),
    "qwen3-8b": (36, 8, [(36, None)]),
    "phi-2": (32, 32, [(32, None)]),
    "phi-3-mini-128k": (32, 32, [(32, 262_144)]),
    "deepseek-v3": (61, 128, [(61, None)]),
    "bloom-176b": (70, 112, [(70, None)]),
    "mpt-7b": (32, 32, [(32, None)]),
    "falcon-7b": (32, 1, [(32, None)]),
    "olmo-2-7b": (32, 32, [(32, None)]),
    "smollm3-3b": (36, 4, [(27, None), (9, None)]),
    "gpt-oss-20b": (24, 8, [(12, None), (12, 128)]),
    "modernbert-base": (22, 12, [(8, None), (14, 129)]),
}
# Of YaRN where nothing is said: its paper's betas, ends rounded, no number for the attention factor.
USUAL = {
    "beta_fast": 32, "beta_slow": 1, "truncate": True, "attention_factor": 0, "mscale": 0,
    "mscale_all_dim": 0,
}  # fmt: skip
SCALINGS: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": {
        "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "trained_length": 8_192,
    },
    "gemma-3-4b": {"factor": 8},
    "qwen2.5-7b": USUAL | {"factor": 4, "trained_length": 32_768},
    "qwen3-8b": USUAL | {"factor": 4, "trained_length": 32_768},
    "deepseek-v3": USUAL | {
        "factor": 40, "trained_length": 4_096, "mscale": 1, "mscale_all_dim": 1,
    },
    "gpt-oss-20b": USUAL | {"factor": 32, "trained_length": 4_096, "truncate": False},
}  # fmt: skip
PLAIN = {field.name for field in dataclasses.fields(RopeConfig)}


@pytest.mark.parametrize("name", MODELS)
def test_layers_heads_and_windows_of_a_preset(name: str) -> None:
    model = MODELS[name].read()
    layers, kv_heads, windows = SIZES[name]
    assert model.layers == layers
    assert {kind.kv_heads for kind in model.layer_kinds} == {kv_heads}
    assert [(len(kind.layers), kind.window) for kind in model.layer_kinds] == windows


@pytest.mark.parametrize("name", [name for name in MODELS if name != "phi-3-mini-128k"])
def test_the_scaling_of_a_preset_number_by_number(name: str) -> None:
    first, *others = MODELS[name].read().layer_kinds
    if isinstance(first.scheme, RopeConfig):
        own = {key: one for key, one in vars(first.scheme).items() if key not in PLAIN}
        assert own == SCALINGS.get(name, {})
    else:
        assert name not in SCALINGS
    # Layers with a window are scaled by gpt-oss alone.
    assert all(
        type(other.scheme) is RopeConfig or name == "gpt-oss-20b"
        for other in others
        if isinstance(other.scheme, RopeConfig)
    )


def test_gpt_oss_scales_its_layers_with_a_window_too() -> None:
    full, sliding = MODELS["gpt-oss-20b"].read().layer_kinds
    assert full.scheme == sliding.scheme


def test_the_lists_of_phi_3_mini_128k_are_those_that_were_published() -> None:
    """Its lists as they stand in a script of its makers: both ends, the sum, the sum of (m + 1) f_m."""
    scheme = MODELS["phi-3-mini-128k"].read().main.scheme
    assert isinstance(scheme, RopeLongConfig)
    assert (scheme.factor, scheme.trained_length, scheme.attention_factor) == (32, 4_096, 0)
    short, long = scheme.short_factor, scheme.long_factor
    assert (len(short), short[0], short[-1]) == (48, 1.1, 3.049999999999997)
    assert (len(long), long[0], long[-1]) == (48, 1.0700000524520874, 64.76000213623047)
    sums = ((short, 98.4, 2_674.85), (long, 1_860.29700756073, 61_919.02561712265))
    for values, total, moment in sums:
        assert math.fsum(values) == total
        assert math.fsum(m * one for m, one in enumerate(values, 1)) == moment
    assert list(short) == sorted(short)
    assert list(long) == sorted(long)
