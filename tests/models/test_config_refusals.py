"""Bad values in a config.json are refused by their key, and nothing is guessed unless asked for."""

import json
from typing import Any

import pytest

from posenc import PosencError
from posenc.errors import ConfigFileError
from posenc.models import config_token, read_config, read_config_token
from tests.models.configs import (
    CASES,
    LLAMA,
    LLAMA3_BLOCK,
    YARN_BLOCK,
    Config,
    case_config,
    of_type,
    published_config,
    refusal,
    scaled,
)

# "layer_types" under the type of Llama, whose class has no windows, is as a conversion of facebook/cwm
# has it; "use_mla" false under deepseek_v2 as the language_config of deepseek-ai/DeepSeek-OCR.
BAD = CASES["bad"]


@pytest.mark.parametrize(
    ("key", "base", "changes", "fact"), BAD, ids=[f"{key}-{fact}" for key, _, _, fact in BAD]
)
def test_bad_value_is_named_by_key(key: str, base: str | None, changes: Config, fact: str) -> None:
    error = refusal(case_config(base, changes))
    assert isinstance(error, PosencError)
    assert isinstance(error, ValueError)
    assert error.key == key
    assert key in str(error)
    assert fact in str(error)


def test_two_generations_of_rope_keys_must_agree() -> None:
    both = scaled(**LLAMA3_BLOCK) | {"rope_parameters": LLAMA3_BLOCK | {"rope_theta": 5e5}}
    assert read_config(both).layer_kinds == read_config(scaled(**LLAMA3_BLOCK)).layer_kinds
    factors = refusal(both | {"rope_scaling": LLAMA3_BLOCK | {"factor": 32.0}})
    assert factors.key == "rope_scaling"
    assert "rope_parameters" in str(factors)
    assert refusal(both | {"rope_scaling": YARN_BLOCK}).key == "rope_scaling"


def test_names_of_other_people_cannot_break_a_line() -> None:
    config = LLAMA | {"rope_\n\x1b[31m": 1, "rope_parameters": {"rope_theta": 5e5, "a\nb": 1}}
    for text in (str(refusal(config)), read_config(config, "llama").assumption):
        assert "\n" not in text
        assert "\x1b" not in text
    refusal({"model_type": "a\nb"})


@pytest.mark.parametrize(("base", "changes"), CASES["harmless"], ids=lambda value: str(value)[:30])
def test_key_that_changes_nothing_does_not_refuse_a_file(base: str | None, changes: Config) -> None:
    """Keys of published files that say what is read anyway, with their published values."""
    model = read_config(case_config(base, changes))
    assert (model.assumption, model.ignored) == ("", ())


def test_every_name_that_bears_on_position_is_noticed() -> None:
    """Names of transformers' configuration classes and of published files, one of each sort."""
    plain = read_config(LLAMA)
    for name in CASES["bearing"]:
        assert refusal(LLAMA | {name: 2}).key == name
        assert read_config(LLAMA | {name: None}) == plain, name
    nested = {"model_type": "mpt", "attn_config": {"attn_temperature": 2}}
    assert refusal(nested).key == "attn_config.attn_temperature"


@pytest.mark.parametrize(
    ("base", "changes", "keys"), CASES["unread"], ids=lambda value: str(value)[:40]
)
def test_config_with_an_unread_position_key_is_refused(
    base: str | None, changes: Config, keys: list[str]
) -> None:
    """Files of a known type, and the keys that they are refused for."""
    config = case_config(base, changes)
    error = refusal(config)
    assert error.key == keys[0]
    assert all(key in str(error) for key in keys)
    assert f"--assume {error.assume} " in str(error)
    model = read_config(config, error.assume)
    assert (model.ignored, model.read_as) == (tuple(keys), error.assume)
    assert all(key in model.assumption for key in keys)
    assert read_config_token(config_token(config, error.assume)) == model


@pytest.mark.parametrize("model_type", ["wav2vec2-bert", "moonshine"])
def test_a_request_that_would_fail_too_is_not_offered(model_type: str) -> None:
    built = pytest.importorskip("transformers").CONFIG_MAPPING[model_type]()
    config = json.loads(json.dumps(built.to_dict(), default=str))
    error = refusal(config)
    assert (error.assume, "--assume" in str(error)) == ("", False)
    with pytest.raises(ConfigFileError):
        read_config(config, "llama")


def test_a_refusal_names_five_keys_of_many() -> None:
    config = LLAMA | {f"rope_{n}": n for n in range(1, 40)}
    error = str(refusal(config))
    assert all(f"rope_{n}" in error for n in range(1, 6))
    assert "rope_6" not in error
    assert "34 more" in error
    assert len(read_config(config, "llama").ignored) == 39


LLAMA_4 = of_type("llama9_text", no_rope_layers=[1, 1, 1, 0] * 8, attention_chunk_size=8_192)


@pytest.mark.parametrize("said", ["llama9_text", "wrapper_v9", "t5", "llama"])
def test_unknown_type_is_read_as_llama_on_request(said: str) -> None:
    section = "" if said == "llama9_text" else "text_config"
    config = {"model_type": said, section: LLAMA} if section else LLAMA_4
    error = refusal(config)
    assert (error.key, error.assume) == ("model_type", "llama")
    for fact in (f'"{said}"', "--assume llama", 'assume="llama"'):
        assert fact in str(error)
    model = read_config(config, "llama")
    assert model.section == section
    assert model.model_type == ("llama" if section else said)
    assert f'"{said}"' in model.assumption
    assert read_config_token(config_token(config, "llama")) == model
    if section:
        assert model.layer_kinds == read_config(LLAMA).layer_kinds


def test_an_unknown_type_is_read_by_the_class_that_is_assumed() -> None:
    assert read_config(of_type("new"), "llama").layer_kinds == read_config(LLAMA).layer_kinds
    model = read_config({"model_type": "new", "num_hidden_layers": 12}, "gemma3_text")
    own = read_config({"model_type": "gemma3_text", "num_hidden_layers": 12})
    assert model.layer_kinds == own.layer_kinds
    assert model.to_rope_parameters() == own.to_rope_parameters()
    assert model.read_as == "gemma3_text"
    assert '"gemma3_text"' in model.assumption
    # The type of a model with pictures stands for that of its text model.
    assert read_config({"model_type": "new", "num_hidden_layers": 12}, "gemma3") == model


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("assume", ["", "Llama", "gemma9", "x" * 9_999, ["llama"], {}, 3, True])
def test_what_is_assumed_must_be_a_known_type(assume: Any) -> None:
    error = str(refusal(LLAMA, assume))
    assert "assume" in error
    assert len(error) < 300


def test_an_unknown_hybrid_is_never_read_as_windows_alone() -> None:
    config = of_type("new", sliding_window=512, num_hidden_layers=8)

    def kinds(**keys: Any) -> dict[str, tuple[int, ...]]:
        model = read_config(config | keys, "llama")
        return {kind.name: kind.layers for kind in model.layer_kinds}

    listed = ["sliding_attention"] * 8
    listed[2] = "full_attention"
    assert kinds(layer_types=listed)["full_attention"] == (2,)
    assert kinds(sliding_window_pattern=4)["full_attention"] == (3, 7)
    (assumed,) = read_config(config, "llama").assumed
    assert "8 layers" in assumed
    assert "512 tokens" in assumed
    for key, value in {
        "full_attention_interval": 4, "sliding_window_pattern": "LLLG", "attn_type_list": [1, 0],
        "layers_block_type": ["mamba", "attention"], "global_attn_every_n_layers": 3,
    }.items():  # fmt: skip
        assert refusal(config | {key: value}, "llama").key == key
    assert refusal(config | {"layer_types": ["mamba"] * 8}, "llama").key == "layer_types[0]"


@pytest.mark.parametrize("word", ["gemma-3-text", "Gemma3_Text", "gemma3_txt"])
def test_an_unknown_type_is_shown_the_nearest_known_one(word: str) -> None:
    assert "gemma3_text" in refusal(of_type(word)).problem
    assert "nearest" not in refusal(of_type("quite-another")).problem


def test_values_are_quoted_as_json() -> None:

    assert str(refusal(of_type("llama", rope_scaling=[False, None]))).endswith("got [false, null].")


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"model_type": "deepseek_v3", "head_dim": 56, "qk_nope_head_dim": 96},
         "head_dim must be 64 or 160 with qk_nope_head_dim 96 and qk_rope_head_dim 64 by default, got 56."),
        ({"model_type": "gpt2", "n_ctx": 512, "n_positions": 256},
         "n_ctx must be 256 with n_positions 256, got 512."),
        ({"model_type": "mimo_v2_flash", "swa_num_key_value_heads": 4, "num_key_value_heads": 4},
         "swa_num_key_value_heads must be 8 with num_key_value_heads 4, got 4."),
        ({"model_type": "mimo_v2_flash", "swa_rope_theta": 2_000},
         "swa_rope_theta must be 10000.0 in this model, got 2000."),
        ({"model_type": "longcat_flash", "num_hidden_layers": 7},
         "num_hidden_layers must be even, got 7."),
        ({"model_type": "glm_moe_dsa", "num_hidden_layers": 3, "layer_types": []},
         "layer_types must have an entry for each of the 3 layers, got []."),
        ({"model_type": "laguna", "num_attention_heads": 9, "num_key_value_heads": 4},
         "num_key_value_heads must divide the 9 query heads, got 4."),
        ({"model_type": "beam", "sliding_window": None},
         "sliding_window must be a number of tokens for the sliding_attention layers, got null."),
        ({"model_type": "gemma3_text", "sliding_window": None},
         "sliding_window must be a number of tokens for the sliding_attention layers, got null."),
        ({"model_type": "cohere2", "sliding_window_pattern": None},
         "sliding_window_pattern is null, which its class does not take for its default; state it or leave "
         "it out."),
        ({"model_type": "exaone4", "sliding_window_pattern": None},
         "sliding_window_pattern is null, which its class does not take for its default; state it or leave "
         "it out."),
        ({"model_type": "molmo2_text", "num_hidden_layers": 36, "rope_scaling_layers": 3},
         "num_hidden_layers cannot be used with rope_scaling_layers 3, got 36."),
        ({"model_type": "modernbert", "original_max_position_embeddings": 4_096,
          "rope_parameters": {"sliding_attention": {"rope_type": "yarn", "factor": 2.0}}},
         "original_max_position_embeddings does not count for blocks of kinds of layers: write it as "
         "rope_parameters.sliding_attention.original_max_position_embeddings."),
        ({"model_type": "mistral4", "head_dim": 64},
         "head_dim must be 128 with qk_nope_head_dim 64 by default and qk_rope_head_dim 64 by default, "
         "got 64."),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_refusal_names_the_value_and_what_is_allowed_by_which_keys(
    config: Config, sentence: str
) -> None:
    assert str(refusal(config)) == sentence


def test_mimo_names_the_block_that_its_class_misses() -> None:
    """transformers 5.23 rotates 0.334 of a head by default, and has a KeyError without a block."""
    text = json.dumps(published_config("mimo-v2-flash-defaults"))
    config = json.loads(text)
    for block in config["rope_parameters"].values():
        del block["partial_rotary_factor"]
    model = read_config(config)
    assert [kind.rotary_dim for kind in model.layer_kinds] == [64, 64]  # int(192 * 0.334)
    for kind in ("full_attention", "sliding_attention"):
        share = f"rope_parameters.{kind}.partial_rotary_factor is absent: 0.334"
        assert any(sentence.startswith(share) for sentence in model.assumed)
        config = json.loads(text)
        default = config["rope_parameters"].pop(kind)
        error = refusal(config)
        assert error.key == f"rope_parameters.{kind}"
        assert json.dumps(default, sort_keys=True) in str(error)
    layers = next(
        x for x in read_config({"model_type": "mimo_v2_flash"}).assumed if "layer_types" in x
    )
    assert "0, 5, 11" in layers


def test_sizes_that_an_unknown_type_leaves_out_are_refused() -> None:
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads"):
        config = {key: value for key, value in of_type("new").items() if key != name}
        assert refusal(config, "llama").key == name


def test_a_config_without_a_type_is_read_on_request() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "model_type"}
    assert (refusal(config).key, refusal(config).assume) == ("model_type", "llama")
    assert "model_type" in read_config(config, "llama").assumption
    assert (refusal({}).key, refusal({}).assume) == ("model_type", "")
    for error in (refusal(config), refusal({})):
        assert error.problem.startswith("model_type is missing: add it, such as llama")
    assert read_config({"text_config": LLAMA}).layer_kinds == read_config(LLAMA).layer_kinds
    # A known type is read as itself whatever is assumed.
    assert read_config({"model_type": "deepseek_v3"}, "llama").assumption == ""


def test_paligemma_on_request_caches_what_its_layers_hold() -> None:
    """google/paligemma2-3b-pt-224 sees the pictures and the prompt from both sides, and caches them."""
    both = "use_bidirectional_attention"
    inner = {"model_type": "gemma2", "hidden_size": 2_304, "num_hidden_layers": 26, both: True}
    model = read_config({"model_type": "paligemma", "text_config": inner}, "gemma2")
    assert model.cache_numbers(1_000) == 1_000 * 26 * 2 * 4 * 256
    assert model.ignored == (f"text_config.{both}",)


def test_absent_keys_take_the_default_of_the_class_and_are_listed() -> None:
    assert read_config({**LLAMA, "head_dim": 128}).assumed == ()
    model = read_config({"model_type": "mistral"})
    (sentence,) = [said for said in model.assumed if "num_key_value_heads" in said]
    assert "8" in sentence
    assert "MistralConfig" in sentence
    # null has always meant one head of keys per query head.
    assert read_config({"model_type": "mistral", "num_key_value_heads": None}).main.kv_heads == 32


def test_a_context_is_never_read_as_the_trained_length() -> None:
    assert read_config(LLAMA).trained_length is None
    assert read_config(scaled(**YARN_BLOCK)).trained_length == 32_768
    without = {key: YARN_BLOCK[key] for key in ("rope_type", "factor")}
    for block in (without, {"type": "dynamic", "factor": 2.0}):
        model = read_config(scaled(**block))
        assert model.trained_length is None
        assert any("131,072" in sentence for sentence in model.assumed)
