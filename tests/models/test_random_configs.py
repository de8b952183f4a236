"""Random legal configs of every model type with RoPE are read as a run of the class shows, or refused."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from posenc.errors import ConfigFileError
from posenc.models import read_config
from posenc.models.families import FAMILIES
from tests.models.configs import Config
from tests.models.generate_families import CAUSAL_TYPES, default_config
from tests.models.published_models.establish import establish
from tests.models.test_published_models import differences

pytest.importorskip("transformers", minversion="5")

READ = [name for name, outcome in json.loads(CAUSAL_TYPES.read_text()).items() if outcome == "read"]
TYPES = [name for name in READ if name in FAMILIES]
ROPE: list[Config] = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4_096},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 8_192},
]  # fmt: skip
LAYERS = ("num_layers_per_stack", "num_hidden_layers", "num_layers", "n_layers")
SIZES: dict[str, list[int]] = {
    "hidden_size": [256, 512], "num_attention_heads": [4, 8], "num_key_value_heads": [1, 2, 4],
    "num_kv_shared_layers": [0, 1],
}  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "head_dim": [32, 64], "max_position_embeddings": [4_096, 32_768], "sliding_window": [64, 4_096],
    "use_sliding_window": [True, False], "max_window_layers": [0, 2], "rope_theta": [5e4],
    "qk_rope_head_dim": [16, 32], "qk_nope_head_dim": [32],
    "kv_lora_rank": [48], "attention_chunk_size": [128], "local_attention": [64], "index_head_dim": [64],
    "use_bidirectional_attention": [None], "attention_multiplier": [0.5],
}  # fmt: skip


@st.composite
def legal_configs(draw: st.DrawFn) -> Config:
    """The defaults of a class with fewer layers and other values of some of its keys."""
    config = default_config(draw(st.sampled_from(TYPES)))
    listed = len(config.get("layers_block_type", ()))
    whole = next((config[name] for name in LAYERS if config.get(name)), listed)
    layers = draw(st.integers(2, min(whole, 8)))
    config.pop("per_layer_config", None)
    for name, value in config.items():
        if isinstance(value, list) and len(value) == whole:
            config[name] = value[:layers]
        elif name in LAYERS:
            config[name] = layers
    for name, values in SIZES.items():
        if config.get(name) is not None:
            config[name] = draw(st.sampled_from(values))
    if "kv_lora_rank" in config:  # as many heads of keys as of queries
        config["num_key_value_heads"] = config["num_attention_heads"]
    for name in draw(st.sets(st.sampled_from(sorted(VALUES)), max_size=5)):
        if name in config:
            config[name] = draw(st.sampled_from(VALUES[name]))
    if words := config.get("layer_types"):
        more = ("full_attention", "sliding_attention") if config.get("sliding_window") else ()
        word = st.sampled_from(sorted({*words, *more}))
        config["layer_types"] = draw(st.lists(word, min_size=layers, max_size=layers))
    block = config.get("rope_parameters")
    if block and draw(st.booleans()):
        scaling = draw(st.sampled_from(ROPE))
        nested = [inner for inner in block.values() if isinstance(inner, dict)]
        for inner in nested or [block]:
            shared = {
                key: inner[key] for key in ("rope_theta", "partial_rotary_factor") if key in inner
            }
            inner.clear()
            inner.update(shared | scaling)
    return config


def check(config: Config, outcomes: Counter[str]) -> None:
    try:
        model = read_config(config)
    except ConfigFileError:
        outcomes["refused"] += 1
        return
    try:
        real = establish({"config": config})
    except Exception:  # the class itself cannot run it
        outcomes["not run"] += 1
        return
    outcomes["compared"] += 1
    assert list(differences(model, real)) == []


# The quick run takes few examples, always the same.
@pytest.mark.parametrize("examples", [12, pytest.param(400, marks=pytest.mark.long)])
def test_random_configs_are_read_as_their_classes_run_them(examples: int) -> None:
    outcomes: Counter[str] = Counter()

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(legal_configs())
    def each(config: Config) -> None:
        check(config, outcomes)

    each()
    assert outcomes["compared"] >= examples // 2, outcomes
