"""Configs made of others by small changes: keys left out or null, other sizes, blocks and lists of layers.

A row that is wrong for a class is silent: most of its faults show in such configs alone.
"""

import json
import random
from typing import Any

from tests.models.configs import Config

BLOCKS: list[Config | None] = [
    None,
    {},
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 2.0},
    {"type": "linear", "factor": 4},
    {"rope_type": "linear", "factor": 0.5},
    {"rope_type": "yarn", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2_048},
    {"type": "yarn", "factor": 2.0, "beta_fast": 24},
    {"rope_type": "yarn", "factor": 4.0, "truncate": False},
    {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 64},
    {"rope_type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 0.707,
     "original_max_position_embeddings": 4_096},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 1_024},
    {"rope_type": "linear", "factor": 2.0, "mscale_all_dim": 0.5},
    {"rope_type": "dynamic", "factor": 2.0},
    {"type": "dynamic", "factor": 2.0, "alpha": 50.0},
    {"rope_type": "proportional", "partial_rotary_factor": 0.5},
    {"rope_type": "default", "partial_rotary_factor": 0.5},
    {"rope_type": "default", "factor": 2.0},
    {"rope_type": "default", "type": "linear", "factor": 1.0},
    {"rope_type": "longrope", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32,
     "original_max_position_embeddings": 512},
    {"mrope_section": [2, 3, 3], "type": "mrope"},
    {"mrope_section": [16, 24, 24], "rope_type": "default", "mrope_interleaved": True},
    {"mrope_section": [16, 8, 8], "rope_type": "yarn", "factor": 2.0},
    {"factor": 4.0},
    {"rope_type": "ntk", "factor": 2.0},
]  # fmt: skip
_BASES = (1e4, 5e5)
# Other values of keys of many classes.
_VALUES: dict[str, tuple[Any, ...]] = {
    "rope_theta": (5e5, 1e6, 77.0, None, "x"),
    "partial_rotary_factor": (0.5, 1.0, 0.25, None),
    "rotary_pct": (0.5, 1),
    "rotary_dim": (32, 64),
    "rope_local_base_freq": (1e4, 5e3),
    "rope_interleave": (False, True),
    "original_max_position_embeddings": (2_048, 4_096),
    "max_position_embeddings": (512, 8_192, 131_072),
    "sliding_window": (128, None, 0, 4_096),
    "use_sliding_window": (True, False, None),
    "max_window_layers": (0, 2, 5),
    "sliding_window_pattern": (2, 6),
    "attention_chunk_size": (None, 64),
    "layer_types": (None,),
    "no_rope_layers": ([], None),
    "no_rope_layer_interval": (2,),
    "hidden_size": (256, 512, 1_024),
    "head_dim": (32, 64, 128, None, 63),
    "num_attention_heads": (4, 8, 16),
    "num_key_value_heads": (1, 2, 4, None, 3),
    "num_kv_shared_layers": (0, 1),
    "qk_rope_head_dim": (32, 64),
    "qk_nope_head_dim": (64,),
    "kv_lora_rank": (128,),
    "query_pre_attn_scalar": (64, 144, None),
    "attention_multiplier": (0.1,),
    "use_bidirectional_attention": (True, False),
    "is_decoder": (True,),
    "pad_token_id": (0, 1, None),
    "alibi": (True,),
    "multi_query": (False,),
    "new_decoder_architecture": (True,),
    "dual_chunk_attention_config": ({"a": 1},),
    "rope_foo": (1,),
    "tie_word_embeddings": (True,),
}
_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_LISTS = (
    "layer_types", "no_rope_layers", "layers_block_type", "indexer_types", "layer_rope_theta",
    "num_attention_heads_per_layer", "attention_layers", "mlp_layer_types", "attention_window",
    "rope_scaling_layers", "full_attn_idxs", "attn_layer_indices",
)  # fmt: skip
_KINDS = ("full_attention", "sliding_attention")


def mutated(config: Config, chance: random.Random) -> Config:
    """A config with one to four changes."""
    changed: Config = json.loads(json.dumps(config))
    changes = (_leave_out, _leave_out, _other_count, _other_block, _blocks_of_kinds, _other_value,
               _known_value, _known_value)  # fmt: skip
    for _ in range(chance.randint(1, 4)):
        chance.choice(changes)(changed, chance)
    return changed


def _leave_out(config: Config, chance: random.Random) -> None:
    names = [name for name in config if name != "model_type"]
    for name in chance.sample(names, min(len(names), chance.randint(1, 4))):
        config.pop(name)


def _other_count(config: Config, chance: random.Random) -> None:
    count = chance.randint(1, 12)
    for name in _COUNTS:
        if name in config:
            config[name] = count
    for name in _LISTS:
        if isinstance(config.get(name), list):
            config[name] = config[name][:count] if chance.random() < 0.6 else None


def _other_block(config: Config, chance: random.Random) -> None:
    block = chance.choice(BLOCKS)
    if chance.random() < 0.5:
        config["rope_scaling"] = block
        if chance.random() < 0.5:
            config.pop("rope_parameters", None)
        return
    base = {"rope_theta": chance.choice(_BASES)} if chance.random() < 0.6 else {}
    config["rope_parameters"] = None if block is None else block | base


def _blocks_of_kinds(config: Config, chance: random.Random) -> None:
    given = config.get("rope_parameters") or {}
    inner = [name for name, value in given.items() if isinstance(value, dict)] or [*_KINDS]
    blocks = {
        name: (chance.choice(BLOCKS) or {}) | {"rope_theta": chance.choice(_BASES)}
        for name in inner
        if chance.random() < 0.85
    }
    config["rope_parameters"] = blocks or None


def _other_value(config: Config, chance: random.Random) -> None:
    name = chance.choice([name for name in config if name != "model_type"] or ["a"])
    value = config.get(name)
    if isinstance(value, bool):
        config[name] = not value
    elif isinstance(value, int):
        config[name] = max(0, value // 2)
    elif isinstance(value, float):
        config[name] = value * 2
    else:
        config[name] = None


def _known_value(config: Config, chance: random.Random) -> None:
    name = chance.choice([*_VALUES])
    config[name] = chance.choice(_VALUES[name])
