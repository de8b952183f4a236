"""Configs that were read in silence as what they are not, and those that were refused for nothing."""

import json
from typing import Any

import pytest

from posenc.interop import read_config
from posenc.interop.models import read_config_word
from posenc.interop.models.config_reader import _WRAPPERS, READERS
from posenc.interop.models.config_word import config_word
from posenc.schemes.none import NoneConfig
from tests.test_model_config_refused import LLAMA, of_type, refusal

BOTH = "use_bidirectional_attention"

# Both sides ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "gemma", "gemma2", "olmo3"])
def test_a_switch_to_both_sides_is_refused_where_no_class_reads_it(model_type: str) -> None:
    """Gemma and Gemma 2 read it for their module alone: their mask stays causal with eager attention."""
    off = read_config(of_type(model_type))
    for value in (False, None):
        assert read_config(of_type(model_type, **{BOTH: value})).layer_kinds == off.layer_kinds
    assert refusal(of_type(model_type, **{BOTH: True})).key == BOTH
    assert read_config(of_type(model_type, **{BOTH: True}), "llama").ignored == (BOTH,)


def test_a_switch_to_both_sides_is_read_where_the_class_reads_it() -> None:
    for model_type, on, off in (("gemma3_text", True, False), ("gemma4_text", "all", "vision")):
        config = {"model_type": model_type, "sliding_window": 512}
        plain = read_config(config)
        for value in (off, False, None):
            assert read_config(config | {BOTH: value}).layer_kinds == plain.layer_kinds
        both = read_config(config | {BOTH: on})
        assert {kind.cache_width for kind in both.layer_kinds} == {0}
        assert any("sees both sides" in note for note in both.notes)


@pytest.mark.parametrize(
    ("model_type", "value", "accepted"),
    [("gemma3_text", "all", "true or false"), ("gemma3_text", 1, "true or false"),
     ("gemma4_text", True, "all, vision"), ("gemma4_text", "text", "all, vision"),
     ("gemma4_text", [], "all, vision")],
)  # fmt: skip
def test_a_switch_to_both_sides_is_one_that_the_class_takes(
    model_type: str, value: object, accepted: str
) -> None:
    error = refusal({"model_type": model_type, BOTH: value})
    assert error.key == BOTH
    assert accepted in str(error)


@pytest.mark.parametrize(("model_type", "on"), [("gemma3_text", True), ("gemma4_text", "all")])
def test_a_window_to_both_sides_is_that_of_transformers_mask(model_type: str, on: object) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5")
    from transformers import masking_utils

    config = transformers.CONFIG_MAPPING[model_type](
        sliding_window=8, use_bidirectional_attention=on
    )
    config._attn_implementation = "eager"
    given: dict[str, Any] = {
        "config": config, "inputs_embeds": torch.zeros(1, 40, 4), "attention_mask": None,
        "past_key_values": None,
    }  # fmt: skip
    if model_type == "gemma3_text":
        from transformers.models.gemma3.modeling_gemma3 import _bidirectional_window_overlay

        given["or_mask_function"] = _bidirectional_window_overlay(config.sliding_window)
    mask = masking_utils.create_sliding_window_causal_mask(**given)
    seen = int((mask[0, 0, 20] == 0).sum())
    model = read_config({"model_type": model_type, "sliding_window": 8, BOTH: on})
    assert [kind.window for kind in model.layer_kinds if kind.window] == [seen]


# What is around a text model -------------------------------------------------------------------------


@pytest.mark.parametrize("outer", ["wrapper_v9", "paligemma", "t5", "gpt2", "llama", "RefinedWeb"])
def test_an_unknown_model_around_a_text_model_is_refused_by_its_type(outer: str) -> None:
    config = {"model_type": outer, "text_config": LLAMA}
    error = refusal(config)
    assert (error.key, error.assume) == ("model_type", "llama")
    assert str(error) == (
        f'model_type "{outer}" is not known as one that holds a text model, and nothing is guessed; to '
        'read its text_config as model_type "llama", use --assume llama (in Python, assume="llama").'
    )
    model = read_config(config, "llama")
    assert model.layer_kinds == read_config(LLAMA).layer_kinds
    assert (model.model_type, model.section) == ("llama", "text_config")
    assert model.assumption == (
        'Read by its text_config, of model_type "llama", on request: model_type '
        f'"{outer}" is not known, so that what a token sees and the cache may differ from the real ones.'
    )
    assert read_config_word(config_word(config, "llama")) == model


def test_pali_gemma_s_cache_is_not_told_as_nothing() -> None:
    """google/paligemma2-3b-pt-224 sees the pictures and the prompt from both sides, and caches them."""
    inner = {"model_type": "gemma2", "hidden_size": 2_304, "num_hidden_layers": 26, BOTH: True}
    config = {"model_type": "paligemma", "text_config": inner}
    assert refusal(config).key == "model_type"
    model = read_config(config, "gemma2")
    assert model.cache_numbers(1_000) == 1_000 * 26 * 2 * 4 * 256
    assert model.assumption.endswith(f" Not read: text_config.{BOTH}.")


@pytest.mark.parametrize("outer", _WRAPPERS)
def test_a_known_model_around_a_text_model_leaves_it_as_it_is(outer: str) -> None:
    transformers = pytest.importorskip("transformers", minversion="5")
    whole = transformers.CONFIG_MAPPING[outer]()
    theirs = json.loads(json.dumps(whole.get_text_config().to_dict()))
    found = read_config(json.loads(json.dumps(whole.to_dict())))
    assert (found.assumption, found.ignored) == ("", ())
    assert found.layer_kinds == read_config(theirs).layer_kinds


def test_a_text_model_without_a_type_around_it_is_read() -> None:
    assert read_config({"text_config": LLAMA}).layer_kinds == read_config(LLAMA).layer_kinds


# Keys that were read wrong, or not at all ------------------------------------------------------------


def test_smollm3_s_windows_are_of_its_layers_without_rope() -> None:
    config = {"model_type": "smollm3", "use_sliding_window": True, "sliding_window": 1_024}
    full, windowed = read_config(config).layer_kinds
    assert (full.window, windowed.window) == (None, 1_024)
    assert isinstance(windowed.scheme, NoneConfig)
    assert windowed.layers == tuple(range(3, 36, 4))
    for off in ({"use_sliding_window": False}, {"sliding_window": None}):
        assert {kind.window for kind in read_config(config | off).layer_kinds} == {None}
    transformers = pytest.importorskip("transformers", minversion="5")
    theirs = transformers.SmolLM3Config(use_sliding_window=True, sliding_window=1_024).layer_types
    assert [index for index, word in enumerate(theirs) if "sliding" in word] == list(
        windowed.layers
    )


def test_a_deepseek_without_latent_attention_is_refused() -> None:
    """The language_config of deepseek-ai/DeepSeek-OCR says use_mla false under the type deepseek_v2."""
    for model_type in ("deepseek_v2", "deepseek_v3", "kimi_k2"):
        assert refusal({"model_type": model_type, "use_mla": False}).key == "use_mla"
        assert read_config({"model_type": model_type, "use_mla": True}).ignored == ()
    assert refusal(LLAMA | {"use_mla": True}).key == "use_mla"
    assert read_config(LLAMA | {"use_mla": False}).ignored == ()


@pytest.mark.parametrize(
    "name",
    ["llama_4_scaling", "attn_temperature", "num_attention_heads_per_layer", "block_configs",
     "min_timescale", "max_timescale", "use_abs_pos", "rel_pos", "interleaved"],
)  # fmt: skip
def test_more_names_that_bear_on_position_are_noticed(name: str) -> None:
    assert refusal(LLAMA | {name: 2}).key == name
    assert read_config(LLAMA | {name: None}) == read_config(LLAMA)


def test_a_temperature_of_mpt_is_noticed() -> None:
    config = {"model_type": "mpt", "attn_config": {"alibi": True, "attn_temperature": 2}}
    assert refusal(config).key == "attn_config.attn_temperature"


@pytest.mark.parametrize("model_type", READERS)
def test_the_defaults_of_a_class_are_not_refused_as_unread(model_type: str) -> None:
    transformers = pytest.importorskip("transformers", minversion="5")
    if model_type == "kimi_k2":
        return  # of the class of deepseek_v3
    config = json.loads(json.dumps(transformers.CONFIG_MAPPING[model_type]().to_dict()))
    if model_type == "glm4_moe":  # its 96 heads do not divide its width
        config["head_dim"] = 128
    assert read_config(config).ignored == ()


@pytest.mark.parametrize("model_type", ["gpt_neox", "persimmon", "falcon"])
def test_fewer_heads_of_keys_are_refused_where_the_class_has_no_such_key(model_type: str) -> None:
    heads = {"num_attention_heads": 32, "new_decoder_architecture": True}
    config = of_type(model_type) | (heads if model_type == "falcon" else {})
    assert refusal(config).key == "num_key_value_heads"
    model = read_config(config | {"num_key_value_heads": 32})
    assert (model.kv_heads, model.main.cache_width) == (32, 2 * 32 * 128)


def test_mpt_without_any_positions_is_not_said_to_have_a_learned_table() -> None:
    config = {"model_type": "mpt", "attn_config": {"alibi": False}}
    assert "has a learned table" in read_config(config).main.unsupported
    without = read_config(config | {"learned_pos_emb": False}).main
    assert without.scheme is None
    assert without.unsupported == (
        "attn_config.alibi and learned_pos_emb are false: such a model has no positions that are read here."
    )


AGREEING: list[dict[str, Any]] = [
    LLAMA | {"rope_interleaved": False, "is_llama_config": True},
    LLAMA | {"interleaved": False},
    of_type("cohere", rope_interleaved=True),
    LLAMA | {"compression_config": {"quant_method": "compressed-tensors"}},
    LLAMA | {"is_causal": True},
    {"model_type": "gpt2", "is_causal": True},
    LLAMA | {"position_embedding_type": "rope"},
    of_type("granite", position_embedding_type="rotary"),
    {"model_type": "gptj", "position_embedding_type": "rotary"},
]
DISAGREEING: list[tuple[dict[str, Any], str]] = [
    (LLAMA | {"rope_interleaved": True}, "rope_interleaved"),
    (of_type("cohere", rope_interleaved=False), "rope_interleaved"),
    (LLAMA | {"is_causal": False}, "is_causal"),
    ({"model_type": "modernbert", "is_causal": True}, "is_causal"),
    (LLAMA | {"position_embedding_type": "alibi"}, "position_embedding_type"),
    ({"model_type": "bloom", "position_embedding_type": "rope"}, "position_embedding_type"),
]


@pytest.mark.parametrize("config", AGREEING, ids=str)
def test_a_key_that_says_what_is_read_does_not_refuse_the_file(config: dict[str, Any]) -> None:
    model = read_config(config)
    assert (model.assumption, model.ignored) == ("", ())
    assert read_config_word(config_word(config)) == model


@pytest.mark.parametrize(("config", "key"), DISAGREEING, ids=str)
def test_a_key_that_says_another_thing_than_is_read_does(config: dict[str, Any], key: str) -> None:
    assert refusal(config).key == key


@pytest.mark.parametrize("assume", [["llama"], {}, 3, True])
def test_what_is_assumed_must_be_a_text(assume: Any) -> None:
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)  # as users run it
    try:
        for config in (LLAMA, of_type("brand_new")):
            assert "assume must be a model type that is known" in str(refusal(config, assume))
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
