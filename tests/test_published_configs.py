"""The presets against their models' whole config.json files, as published."""

import dataclasses
import json

import pytest

from posenc import rope_frequencies
from posenc.interop import read_config
from posenc.presets import MODELS
from posenc.schemes.rope_scaling.longrope import RopeLongConfig
from tests.published_configs import GGUF_OF_PHI_3, PUBLISHED

# Gemma 3 leaves to transformers' class what it says itself elsewhere; the preset has it written out.
LEFT_OUT = {
    "gemma-3-4b": [
        "num_attention_heads", "max_position_embeddings", "num_key_value_heads", "head_dim",
        "sliding_window_pattern", "rope_local_base_freq", "query_pre_attn_scalar", "rope_theta",
    ]
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_preset_reads_as_its_model_s_whole_config_does(name: str) -> None:
    whole = read_config(json.dumps(PUBLISHED[name]))
    preset = MODELS[name].read(scaled=not MODELS[name].optional)
    assert whole.ignored == ()
    assert [one.split(" is absent")[0] for one in whole.assumed] == [
        f"text_config.{key}" for key in LEFT_OUT.get(name, ())
    ]
    assert dataclasses.replace(whole, assumed=preset.assumed) == preset


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_preset_s_own_config_has_no_value_that_the_published_one_has_not(name: str) -> None:
    whole, own = PUBLISHED[name], dict(MODELS[name].config or {})
    left = set(LEFT_OUT.get(name, ()))
    if MODELS[name].optional:  # a scaling that its makers recommend, and that its file leaves out
        assert whole["rope_scaling"] is None
        assert own.pop("rope_scaling")
    if "text_config" in own:
        assert own["model_type"] == whole["model_type"]
        whole, own = whole["text_config"], dict(own["text_config"])
    assert {key for key in own if key not in whole} == left
    for key in own.keys() - left:
        assert own[key] == whole[key], key


def test_phi_3_mini_128k_has_the_numbers_of_its_gguf_file() -> None:
    model = MODELS["phi-3-mini-128k"].read()
    scheme = model.main.scheme
    assert isinstance(scheme, RopeLongConfig)
    assert {
        "phi3.context_length": model.context,
        "phi3.rope.scaling.original_context_length": scheme.trained_length,
        "phi3.embedding_length": model.hidden_size,
        "phi3.block_count": model.layers,
        "phi3.attention.head_count": model.heads,
        "phi3.attention.head_count_kv": model.kv_heads,
        "phi3.rope.dimension_count": model.rotary_dim,
        "phi3.rope.freq_base": scheme.base,
        "phi3.attention.sliding_window": model.main.window,
    } == {name: one for name, one in GGUF_OF_PHI_3.items() if "attn_factor" not in name}
    attention_factor = rope_frequencies(scheme)[1]
    assert attention_factor == pytest.approx(
        GGUF_OF_PHI_3["phi3.rope.scaling.attn_factor"], rel=6e-8
    )


def test_phi_3_s_block_by_its_first_word_is_the_one_by_its_second() -> None:
    """Its makers renamed "su" to "longrope" in June 2024."""
    config = dict(MODELS["phi-3-mini-128k"].config or {})
    first = config | {"rope_scaling": config["rope_scaling"] | {"type": "su"}}
    assert read_config(first) == MODELS["phi-3-mini-128k"].read()
