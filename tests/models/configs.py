"""Configs of models, and short calls that read them and plan with them, for the tests of this folder."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from posenc.errors import ConfigFileError
from posenc.models import ModelConfig, read_config
from posenc.models.presets import MODELS
from posenc.planner import ContextPlan, MethodPlan, plan
from tests.models.published_models.establish import published

Config = dict[str, Any]

PUBLISHED = published()
CASES = json.loads(Path(__file__).with_name("config_cases.json").read_text())
LLAMA: Config = {  # of Llama 3 8B
    "model_type": "llama", "hidden_size": 4_096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8_192,
    "rope_theta": 5e5,
}  # fmt: skip
LLAMA_2: Config = LLAMA | {
    "num_key_value_heads": 32, "max_position_embeddings": 4_096, "rope_theta": 1e4,
}  # fmt: skip
LLAMA3_BLOCK: Config = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8_192,
}  # fmt: skip
YARN_BLOCK: Config = {
    "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768,
}  # fmt: skip
LONGROPE_BLOCK: Config = {
    "rope_type": "longrope", "short_factor": [1.0] * 64, "long_factor": [2.0] * 64,
    "original_max_position_embeddings": 4_096,
}  # fmt: skip


def of_type(model_type: str, **keys: Any) -> Config:
    """The sizes of Llama 3 8B under another type, with some keys more."""
    return LLAMA | {"model_type": model_type} | keys


def scaled(**block: Any) -> Config:
    """Llama 3 8B extended to 131,072 tokens, with this rope_scaling."""
    return LLAMA | {"max_position_embeddings": 131_072, "rope_scaling": block}


def case_config(base: str | None, changes: Config) -> Config:
    """A config of config_cases.json: alone, or as changes to Llama's or to its scaling."""
    if base == "llama":
        return LLAMA | changes
    blocks = {"yarn": YARN_BLOCK, "llama3": LLAMA3_BLOCK, "longrope": LONGROPE_BLOCK, "scaled": {}}
    return scaled(**blocks[base] | changes) if base else changes


def published_config(name: str) -> Config:
    config: Config = json.loads(json.dumps(PUBLISHED[name]["config"]))
    return config


def preset_config(name: str) -> Config:
    config: Config = json.loads(json.dumps(dict(MODELS[name].config or {})))
    return config


def refusal(source: Any, assume: str | None = None) -> ConfigFileError:
    """Assert that a config is refused in one line; return the error."""
    with pytest.raises(ConfigFileError) as caught:
        read_config(source, assume)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1_200
    return caught.value


def read_or_refuse(config: Config, assume: str | None = None) -> ModelConfig | ConfigFileError:
    try:
        return read_config(config, assume)
    except ConfigFileError as error:
        return error


def plan_config(config: Config, context: int, **options: Any) -> ContextPlan:
    """Plan for a config without a search for a base."""
    quick: dict[str, Any] = {"name": "M", "search_base": False}
    return plan(read_config(config), context, **quick | options)


@cache
def plan_preset(name: str, context: int, **options: Any) -> ContextPlan:
    """Plan for a preset from what its makers say of its training, quickly."""
    preset = MODELS[name]
    known = {"name": preset.label, "trained_length": preset.trained_length}
    quick = {"search_base": False, "scan": 64}
    return plan(preset.read(scaled=False), context, **known | quick | options)


def method(plan: ContextPlan, name: str) -> MethodPlan:
    return next(method for method in plan.methods if method.method.name == name)
