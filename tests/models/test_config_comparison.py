"""Differences of two configs, against numbers by hand."""

import math
from typing import Any

import pytest

from posenc.errors import ConfigFileError, SchemeArgumentError
from posenc.models.config_comparison import (
    ConfigDifference,
    compare_configs,
    comparison_sentences,
)
from tests.models.configs import LLAMA, LLAMA3_BLOCK, YARN_BLOCK, preset_config

Config = dict[str, Any]
QWEN: Config = preset_config("qwen3-8b") | {"rope_scaling": None}


def sentences(first: Config, second: Config, **options: Any) -> list[str]:
    return comparison_sentences(compare_configs(first, second, **options))


def only(first: Config, second: Config, **options: Any) -> ConfigDifference:
    (difference,) = compare_configs(first, second, **options)
    return difference


def test_a_smaller_base_turns_every_pair_but_the_first_faster() -> None:
    mine = QWEN | {"rope_theta": 10_000.0}
    difference = only(mine, QWEN)
    change = difference.change
    assert change is not None
    assert change.fastest == pytest.approx(100 ** (126 / 128))  # of pair 63
    assert change.slowest == 1
    assert change.changed == tuple(range(1, 64))
    assert sentences(mine, QWEN) == [
        "rope_theta 10,000 against 1,000,000: every pair but the first turns up to 93.1 times as fast as "
        "in the other config."
    ]
    back = only(QWEN, mine).change
    assert back is not None
    assert back.slowest == pytest.approx(100 ** (-126 / 128))


def test_a_scaling_that_is_missing_changes_pairs_logits_and_the_trained_length() -> None:
    scaled = QWEN | {"rope_scaling": YARN_BLOCK}
    rope, attention, trained = compare_configs(QWEN, scaled)
    assert rope.keys == (("scaling", "none", "YaRN by 4 from 32,768"),)
    assert rope.change is not None
    assert rope.change.fastest == pytest.approx(4)
    assert (attention.first, attention.second) == (1, pytest.approx(0.1 * math.log(4) + 1))
    assert (trained.first, trained.second) == (None, 32_768)
    # Logits have the square of the factor: 1 / 1.2965.
    assert sentences(QWEN, scaled)[1] == (
        "Attention factor 1 against 1.1386: logits are 0.7713 times as large."
    )


def test_other_numbers_of_one_scaling_are_found_by_the_frequencies() -> None:
    second = LLAMA | {"rope_scaling": LLAMA3_BLOCK}
    first = LLAMA | {"rope_scaling": LLAMA3_BLOCK | {"low_freq_factor": 2.0}}
    difference = only(first, second)
    assert difference.keys == ()
    (sentence,) = sentences(first, second)
    assert sentence.startswith("Other numbers of the same scaling: pairs ")


def test_layers_are_compared_by_their_kind() -> None:
    second = preset_config("gemma-3-4b")
    text = second["text_config"] | {"query_pre_attn_scalar": 168, "sliding_window": 512}
    found = compare_configs(second | {"text_config": text}, second)
    scales = [one for one in found if one.word == "softmax_scale"]
    assert [one.layers for one in scales] == ["full_attention", "sliding_attention"]
    for one in scales:
        assert (one.first, one.second) == (pytest.approx(168**-0.5), pytest.approx(256**-0.5))
    (window,) = [one for one in found if one.word == "window"]
    assert (window.layers, window.first, window.second) == ("sliding_attention", 512, 1_024)
    assert "sliding_attention: a query sees 512 tokens against 1,024." in comparison_sentences(
        found
    )
    (missing,) = [one for one in compare_configs(LLAMA, second) if one.word == "layers"]
    assert (missing.layers, missing.first, missing.second) == ("sliding_attention", 0, 29)


def test_widths_that_differ_are_not_paired() -> None:
    found = {one.word: one for one in compare_configs(LLAMA | {"head_dim": 64}, LLAMA)}
    assert (found["rotary_dim"].first, found["rotary_dim"].second) == (64, 128)
    assert "rope" not in found
    assert (found["softmax_scale"].first, found["softmax_scale"].second) == (64**-0.5, 128**-0.5)


def test_another_encoding_is_named() -> None:
    found = {one.word: one for one in compare_configs(preset_config("bloom-176b"), LLAMA)}
    assert (found["scheme"].first, found["scheme"].second) == ("ALiBi", "RoPE")


def test_a_scaling_that_follows_the_text_is_compared_at_its_length() -> None:
    dynamic = LLAMA | {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}
    assert only(dynamic, LLAMA).change is None  # up to the context
    change = only(dynamic, LLAMA, length=16_384).change
    assert change is not None
    assert change.slowest == pytest.approx(1 / (4 * 2 - 3))


def test_configs_that_are_alike_have_no_difference() -> None:
    assert compare_configs(QWEN, QWEN) == ()
    assert sentences(QWEN, QWEN) == ["Both configs encode position in the same way."]


def test_bad_input_is_refused() -> None:
    with pytest.raises(ConfigFileError):
        compare_configs(LLAMA, {"model_type": "nothing"})
    with pytest.raises(SchemeArgumentError):
        compare_configs(LLAMA, LLAMA, 0)
