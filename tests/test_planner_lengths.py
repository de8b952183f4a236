"""Lengths of a plan: what a scaling starts from, what it looks at, and where ALiBi ends, by hand."""

import math
from typing import Any

import numpy as np
import pytest

from posenc.interop import read_config
from posenc.planner import ContextPlan, MethodPlan, layer_notes, plan, verdict
from posenc.planner.kernels import kernel_at, kernel_curve, stale_from
from posenc.planner.verdict import bound_said
from posenc.schemes.rope_scaling.dynamic import RopeDynamicConfig
from tests import models

_DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}
DYNAMIC = models.LLAMA2_7B | {"max_position_embeddings": 2_048, "rope_scaling": _DYNAMIC}
LONG = {
    "model_type": "phi3",
    "hidden_size": 3_072,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "num_hidden_layers": 32,
    "max_position_embeddings": 131_072,
    "original_max_position_embeddings": 4_096,
    "rope_theta": 10_000.0,
    "sliding_window": 2_047,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [5.0] * 48},
}


def planned(config: dict[str, Any], context: int, **others: Any) -> ContextPlan:
    return plan(read_config(config), context, **{"name": "M", "search_base": False} | others)


def method(found: ContextPlan, name: str) -> MethodPlan:
    return next(one for one in found.methods if one.method.name == name)


def test_dynamic_ntk_starts_from_the_context_of_its_config() -> None:
    found = planned(DYNAMIC, 8_192)
    assert (found.trained_length, found.factor) == (2_048, 4)
    assert "is x4" in verdict(found)
    assert method(found, "linear").pairs.ratio.tolist() == [0.25] * 64
    # The last pair of base b g^(d/(d-2)) is divided by g = 4 * 4 - 3.
    assert method(found, "configured").pairs.ratio[-1] == pytest.approx(1 / 13, rel=1e-12)


def test_nothing_is_stretched_at_the_context_of_a_dynamic_config() -> None:
    found = planned(DYNAMIC, 2_048)
    assert not found.longer
    assert method(found, "configured").pairs.ratio.tolist() == [1.0] * 64
    assert {one.method.name for one in found.methods} == {"configured", "none"}


def test_yarn_that_names_no_first_length_starts_from_its_context() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0}
    found = planned(models.LLAMA2_7B | {"rope_scaling": yarn}, 16_384, methods=["none"])
    assert found.trained_length == 4_096


def test_dynamic_ntk_looks_at_the_text_whatever_a_layer_sees() -> None:
    found = planned(models.MISTRAL_7B, 32_768, trained_length=2_048)
    assert found.reach == 4_096
    assert method(found, "dynamic").pairs.ratio[-1] == pytest.approx(1 / 16, rel=1e-12)
    assert method(found, "dynamic").stale_from == 2_049
    assert method(found, "linear").pairs.ratio[-1] == pytest.approx(1 / 2, rel=1e-12)


def test_longrope_takes_its_long_list_whatever_a_layer_sees() -> None:
    found = planned(LONG, 131_072, methods=["none"])
    one = method(found, "configured")
    assert found.reach == 2_047
    np.testing.assert_allclose(one.pairs.ratio, 1 / 5, rtol=1e-12)
    assert one.stale_from == 4_097


@pytest.mark.parametrize("start", [5_000, 3_000])
def test_keys_are_stale_from_where_the_scaling_starts(start: int) -> None:
    scaled = RopeDynamicConfig(dim=64, trained_length=start)
    assert stale_from(scaled, 2_048, 131_072) == start + 1
    assert stale_from(scaled, 2_048, start) is None


def test_falcon_s_bias_is_divided_by_the_root_of_the_width_of_a_head() -> None:
    shape = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2}
    falcon = read_config({"model_type": "falcon", "alibi": True, **shape})
    (note,) = layer_notes(falcon, 8_192, None)
    assert math.ceil(math.log(100) * 256 * 8) == 9_432
    assert "9,432 tokens back" in note.sentence
    bloom = read_config({"model_type": "bloom", "hidden_size": 512, "n_head": 8, "n_layer": 2})
    (note,) = layer_notes(bloom, 8_192, None)
    assert "1,179 tokens back" in note.sentence


def test_the_kernel_at_some_distances_is_that_of_all() -> None:
    config = RopeDynamicConfig(dim=64, trained_length=5_000)
    at = [0, 1, 777, 39_999]
    curve = kernel_curve(config, 40_000, 40_000)
    np.testing.assert_allclose(kernel_at(config, at, 40_000), curve[at], atol=1e-13)


def test_a_sign_is_told_no_farther_than_it_was_looked_at() -> None:
    near = planned(models.LLAMA3_8B, 1_048_576, methods=["none"], scan=16_384)
    assert near.first_negative is None
    assert "stays at or above 0 up to 16,384" in bound_said(near)
    far = planned(models.LLAMA3_8B, 1_048_576, methods=["none"], scan=20_000)
    assert far.first_negative == method(far, "none").first_negative == 18_438
