"""A small Llama model as a visitor has it: its config, its projections with a planted pair, its shards."""

import json
from typing import Any

import torch

from dashboard.settings import Setting
from posenc.models import config_token
from tests.library.crafted_files import file_of

WIDTH, HEADS, GROUPS, HEAD_DIM, LAYERS = 16, 4, 2, 12, 3
CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": WIDTH, "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS, "num_hidden_layers": LAYERS, "max_position_embeddings": 64,
    "rope_theta": 1e4, "head_dim": HEAD_DIM,
}  # fmt: skip
NAME = "model.layers.{}.self_attn.{}_proj.weight"
PLANTED = (2, 3, 5)  # layer, head and pair, from 0


def token(**changes: Any) -> str:
    """Return the link token of the config."""
    return config_token(json.dumps(CONFIG | changes).encode())


def setting(**changes: Any) -> Setting:
    """Return a setting whose model is the config."""
    return Setting(model=token(**changes))


def tensors(layers: range = range(LAYERS)) -> dict[str, torch.Tensor]:
    """Return the tensors of some layers; the planted pair has large queries."""
    held = {}
    for layer in layers:
        generator = torch.Generator().manual_seed(layer)
        for part, heads in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)):
            held[NAME.format(layer, part)] = torch.randn(
                heads * HEAD_DIM, WIDTH, generator=generator
            )
        held[f"model.layers.{layer}.mlp.up_proj.weight"] = torch.ones(40, WIDTH)
    layer, head, pair = PLANTED
    if layer in layers:
        rows = [head * HEAD_DIM + pair, head * HEAD_DIM + pair + HEAD_DIM // 2]
        held[NAME.format(layer, "q")][rows] *= 20
    return held


def whole() -> bytes:
    """Return the checkpoint as one file."""
    return file_of(tensors())


def shards() -> dict[str, bytes]:
    """Return the checkpoint in two files: of layers 0 and 1, and of layer 2."""
    return {
        "model-00001-of-00002.safetensors": file_of(tensors(range(2))),
        "model-00002-of-00002.safetensors": file_of(tensors(range(2, 3))),
    }
