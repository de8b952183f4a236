"""The reader of rows reads what the readers of posenc.models read; what differs is listed by name."""

import json

import pytest

from posenc.models import model_types as types_of_models
from posenc.models.family import FAMILIES, model_types
from posenc.models.presets import MODELS
from posenc.models.row_reader import read_record
from tests.longer import mostly
from tests.models.both_readers import REFUSED_KEYS, REFUSED_TYPES, compare
from tests.models.configs import PUBLISHED, Config, of_type
from tests.models.generate_families import CAUSAL_TYPES, default_config
from tests.models.mutations import BLOCKS


def test_types_that_are_no_longer_read_are_listed() -> None:
    gone = {*types_of_models()} - {*model_types()}
    texts = {"qwen4_exp", "dots3_note"}  # whose text models are refused
    assert gone == {*REFUSED_TYPES, *texts}
    assert {*model_types()} <= {*types_of_models()}


def test_causal_types_are_read_but_for_those_of_four_classes() -> None:
    pytest.importorskip("transformers", minversion="5")
    outcomes = json.loads(CAUSAL_TYPES.read_text())
    read = [name for name, outcome in outcomes.items() if outcome == "read"]
    found = {name: compare(default_config(name)) for name in read}
    assert {name for name, outcome in found.items() if outcome.word != "same"} == {
        "deepseek_v4", "dots3_note", "dots3_note_text", "qwen4_exp", "qwen4_exp_text",
    }  # fmt: skip
    assert [outcome.why for outcome in found.values() if outcome.word == "differs"] == []


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs_are_read_alike(name: str) -> None:
    outcome = compare(PUBLISHED[name]["config"])
    assert outcome.word in ("same", "refused", "refused now"), outcome.why


@pytest.mark.parametrize("name", [name for name, preset in MODELS.items() if preset.config])
def test_presets_are_read_alike(name: str) -> None:
    outcome = compare(dict(MODELS[name].config or {}))
    assert outcome.word in ("same", "refused now"), outcome.why


@pytest.mark.parametrize("model_type", mostly(sorted(FAMILIES), "llama", "gemma3_text", "t5"))
def test_configs_of_every_type_are_read_alike(model_type: str) -> None:
    configs = [of_type(model_type)]
    configs += [of_type(model_type, rope_scaling=block) for block in BLOCKS]
    configs += [of_type(model_type, rope_parameters=block) for block in BLOCKS]
    found = [compare(config) for config in configs]
    assert [outcome.why for outcome in found if outcome.word == "differs"] == []


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_defaults_of_every_class_are_read_alike(model_type: str) -> None:
    transformers = pytest.importorskip("transformers", minversion="5")
    if model_type not in transformers.CONFIG_MAPPING:
        pytest.skip("no class of transformers")
    outcome = compare(default_config(model_type))
    assert outcome.word in ("same", "refused"), outcome.why


@pytest.mark.parametrize("model_type", mostly(sorted(FAMILIES), "llama", "gemma3_text", "bert"))
def test_a_null_in_place_of_a_key_that_is_read_is_read_alike(model_type: str) -> None:
    transformers = pytest.importorskip("transformers", minversion="5")
    if model_type not in transformers.CONFIG_MAPPING:
        pytest.skip("no class of transformers")
    config = default_config(model_type)
    read = read_record(config)[1]
    outcomes = {key: compare(config | {key: None}) for key in config if key in read}
    assert {key: each.why for key, each in outcomes.items() if each.word == "differs"} == {}


REFUSED_CASES: dict[tuple[str, str], Config] = {
    ("bert", "position_embedding_type"): {
        "model_type": "bert",
        "position_embedding_type": "relative_key",
    },
    ("distilbert", "sinusoidal_pos_embds"): {
        "model_type": "distilbert",
        "sinusoidal_pos_embds": True,
    },
    ("mpt", "attn_config.alibi"): {"model_type": "mpt", "attn_config": {"alibi": False}},
    ("mpt", "attn_config.alibi_bias_max"): {
        "model_type": "mpt",
        "attn_config": {"alibi_bias_max": 16},
    },
    ("mpt", "attn_config.rope"): {"model_type": "mpt", "attn_config": {"rope": True}},
    ("roformer", "rotary_value"): {"model_type": "roformer", "rotary_value": True},
}


@pytest.mark.parametrize("place", REFUSED_KEYS, ids=" ".join)
def test_what_was_described_as_unsupported_is_refused_by_its_key(place: tuple[str, str]) -> None:
    outcome = compare(REFUSED_CASES[place])
    assert (outcome.word, outcome.why) == ("refused now", REFUSED_KEYS[place])
