"""Projections of one layer: those that the class of transformers uses, and what is refused."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel

from posenc import limits
from posenc.analysis import pair_norms
from posenc.checkpoints.sharded import local_checkpoint
from posenc.errors import CheckpointError, SchemeArgumentError
from posenc.models import model_types, read_config
from posenc.models.projections import GATED, GROUPED, STACKED, Projections, read_projections
from posenc.schemes.rope import RopeConfig
from tests.library.crafted_files import checkpoint, file_of
from tests.library.safetensors_checks import MEBIBYTE, peak_memory

SIZES: dict[str, Any] = {
    "hidden_size": 48, "num_attention_heads": 6, "num_hidden_layers": 3,
    "vocab_size": 40, "intermediate_size": 32, "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
GROUPS: dict[str, Any] = {"num_key_value_heads": 2}
LATENT: dict[str, Any] = {
    "q_lora_rank": 10, "kv_lora_rank": 12, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 6,
    "num_key_value_heads": 6, "n_routed_experts": 4, "first_k_dense_replace": 3, "n_group": 1,
    "topk_group": 1, "num_experts_per_tok": 1, "moe_intermediate_size": 8,
}  # fmt: skip
# Types with each order of rows, both layouts, biases, norms and gates.
TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "grouped queries": ("llama", GROUPS),
    "biases": ("qwen2", GROUPS),
    "norms of heads": ("qwen3", GROUPS | {"head_dim": 10}),
    "interleaved": ("cohere", GROUPS),
    "interleaved and partial": ("glm4", GROUPS | {"head_dim": 8}),
    "a gate beside each head": ("qwen3_next", GROUPS | {
        "head_dim": 16, "layer_types": ["full_attention"] * 3, "num_experts": 2, "num_experts_per_tok": 1,
    }),
    "gpt_neox": ("gpt_neox", {}),
    "falcon, one key head": ("falcon", {"new_decoder_architecture": False, "multi_query": True}),
    "falcon, a key head for each": (
        "falcon", {"new_decoder_architecture": False, "multi_query": False}
    ),
    "falcon, groups": ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "persimmon": ("persimmon", {"qk_layernorm": False}),
    "phi3": ("phi3", GROUPS),
    "modernbert": ("modernbert", {}),
    "latent": ("deepseek_v3", LATENT),
    "latent with biases": ("deepseek_v3", LATENT | {"attention_bias": True}),
    "latent without a query vector": ("deepseek_v3", LATENT | {"q_lora_rank": None}),
    "in halves and latent": ("minicpm3", LATENT),
}  # fmt: skip


def model_of(model_type: str, changes: dict[str, Any]) -> Any:
    """Return a small random model of a class of transformers."""
    config = AutoConfig.for_model(model_type, **SIZES | changes, attn_implementation="eager")
    torch.manual_seed(0)
    model = AutoModel.from_config(config).float().eval()
    for parameter in model.parameters():  # biases start at 0, norms at 1
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def content_of(model: Any) -> bytes:
    return file_of({name: value.contiguous() for name, value in model.state_dict().items()})


def read_from(model: Any, layer: int) -> Projections:
    config = read_config(json.loads(model.config.to_json_string(use_diff=False)))
    return read_projections(local_checkpoint(content_of(model)), config, layer)


def rotated_in_layer(
    model: Any, projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> tuple[torch.Tensor, ...]:
    """Return the inputs of both projections of layer 1, and the queries and keys that it rotates."""
    code = sys.modules[type(model).__module__]
    calls: list[tuple[torch.Tensor, torch.Tensor]] = []
    for name in ("apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave"):
        if original := getattr(code, name, None):

            def record(q: Any, k: Any, *rest: Any, _original: Any = original, **more: Any) -> Any:
                calls.append((q.detach(), k.detach()))
                return _original(q, k, *rest, **more)

            monkeypatch.setattr(code, name, record)
    inputs = {}
    for name in (projections.tensors[0], projections.tensors[-1]):
        module = model.get_submodule(name.removesuffix(".weight"))
        module.register_forward_pre_hook(
            lambda _, arguments, name=name: inputs.update({name: arguments[0].detach()})
        )
    with torch.no_grad():
        model(torch.tensor([[3, 7, 11, 2]]))
    assert len(calls) == 3
    return inputs[projections.tensors[0]], inputs[projections.tensors[-1]], *calls[1]


@pytest.mark.parametrize("case", TYPES)
def test_projections_give_the_queries_and_keys_that_the_class_rotates(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(*TYPES[case])
    read = read_from(model, 1)
    x, y, *rotated = rotated_in_layer(model, read, monkeypatch)
    parts = ((x, read.queries, read.query_bias), (y, read.keys, read.key_bias))
    for (inputs, weight, bias), wanted in zip(parts, rotated, strict=True):
        found = torch.einsum("hdw,tw->htd", weight, inputs.reshape(-1, inputs.shape[-1]))
        if bias is not None:
            found += bias[:, None]
        theirs = wanted[0] if wanted.shape[2] == 4 else wanted[0].transpose(0, 1)
        ours = found[..., : theirs.shape[-1]]
        ours = ours.repeat_interleave(len(theirs) // len(ours), 0)  # Falcon copies its keys first
        assert ours.shape == theirs.shape
        if not read.normalised:
            assert torch.allclose(ours, theirs, atol=1e-4)
        else:  # by a norm of each head, whose weights stretch features
            stretch = theirs[..., 0, :] / ours[..., 0, :]
            scale = (theirs / ours / stretch[..., None, :]).mean(-1, keepdim=True)
            assert torch.allclose(ours * stretch[..., None, :] * scale, theirs, atol=1e-3)
    assert read.normalised == (TYPES[case][0] in ("qwen3", "qwen3_next"))


@pytest.mark.parametrize("case", TYPES)
def test_a_planted_pair_of_head_3_of_layer_2_is_the_largest(case: str) -> None:
    model = model_of(*TYPES[case])
    first = read_from(model, 2)
    assert isinstance(first.scheme, RopeConfig)
    assert first.scheme.dim == first.queries.shape[1]  # so that it can rotate them
    pair = min(5, first.scheme.rotary_dim // 2 - 1)
    half = first.scheme.layout == "half"
    features = [pair, pair + first.scheme.rotary_dim // 2] if half else [2 * pair, 2 * pair + 1]
    weight = model.get_parameter(first.tensors[0])
    rows = [
        int((weight == first.queries[3, feature]).all(1).nonzero()) for feature in features
    ]  # the rows of the matrix that hold these features
    with torch.no_grad():
        weight[rows] *= 50
    norms = [
        pair_norms(read.queries, read.keys, read.scheme, softmax_scale=read.softmax_scale)
        for read in (read_from(model, layer) for layer in range(3))
        if isinstance(read.scheme, RopeConfig)
    ]
    largest = [int(norm.bounds.argmax()) for norm in norms]
    assert max(range(3), key=lambda layer: float(norms[layer].bounds.max())) == 2
    assert divmod(largest[2], norms[2].bounds.shape[1]) == (3, pair)


LLAMA = {
    "model_type": "llama", "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "max_position_embeddings": 64, "rope_theta": 1e4,
}  # fmt: skip
NAME = "model.layers.{}.self_attn.{}_proj.weight"


def llama_tensors(width: int = 16) -> dict[str, torch.Tensor]:
    return {
        NAME.format(layer, part): torch.full((rows, width), 1.0 + layer)
        for layer in range(2)
        for part, rows in (("q", 16), ("k", 8), ("v", 8))
    }


def shards(folder: Path) -> Path:
    """Write a checkpoint of a file per layer with its index, and return the index."""
    files: dict[str, str] = {}
    for layer in range(2):
        file = f"model-0000{layer + 1}-of-00002.safetensors"
        tensors = {name: t for name, t in llama_tensors().items() if f"layers.{layer}." in name}
        (folder / file).write_bytes(file_of(tensors))
        files |= dict.fromkeys(tensors, file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))
    return index


def test_a_sharded_checkpoint_is_read_from_its_index_or_its_folder(tmp_path: Path) -> None:
    index = shards(tmp_path)
    model = read_config(LLAMA)
    for source in (index, tmp_path):
        for layer in range(2):
            read = read_projections(local_checkpoint(source), model, layer)
            assert read.queries.shape == (4, 4, 16)
            assert read.keys.shape == (2, 4, 16)
            assert bool((read.queries == 1 + layer).all())
    (tmp_path / "model-00001-of-00002.safetensors").unlink()  # of the layer that is not asked for
    assert read_projections(local_checkpoint(index), model, 1).layer == 1
    with pytest.raises(
        CheckpointError, match=r"model-00001-of-00002\.safetensors, which the index"
    ):
        read_projections(local_checkpoint(index), model, 0)


def test_no_more_memory_is_taken_than_the_projections_of_one_layer(tmp_path: Path) -> None:
    layers, width = 40, 256
    tensors = {
        NAME.format(layer, part): torch.ones(width, width)
        for layer in range(layers)
        for part in ("q", "k", "v")
    }
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_of(tensors))  # 30 MiB
    model = read_config(
        LLAMA | {"hidden_size": width, "num_key_value_heads": 4, "num_hidden_layers": layers}
    )
    del tensors
    taken = peak_memory(lambda: read_projections(local_checkpoint(path), model, 39))
    assert taken < 2 * MEBIBYTE


BAD: dict[str, tuple[dict[str, Any], bytes, str]] = {
    "no projections": (
        {}, file_of({"model.embed_tokens.weight": torch.ones(4, 16)}),
        "holds no query and key projections of layer 0",
    ),
    "another width": ({}, file_of(llama_tensors(width=24)), "the files are of two models"),
    "another number of heads": (
        {"num_attention_heads": 8, "head_dim": 4}, file_of(llama_tensors()), "8 x 4 rows",
    ),
    "8 bits": (
        {},
        checkpoint({NAME.format(0, part): ("F8_E4M3", (rows, 16), bytes(16 * rows))
                    for part, rows in (("q", 16), ("k", 8))}),
        "numbers of 8 bits, which mean nothing without their scales",
    ),
    "whole numbers of 8 bits": (
        {},
        checkpoint({NAME.format(0, part): ("I8", (rows, 16), bytes(16 * rows))
                    for part, rows in (("q", 16), ("k", 8))}),
        "numbers of 8 bits, which mean nothing without their scales",
    ),
    "packed": (
        {}, file_of({"model.layers.0.self_attn.q_proj.qweight": torch.ones(2, 16)}),
        "packed in 8 bits or less",
    ),
    "an unknown fused order": (
        {}, file_of({"layers.0.attn.qkv_proj.weight": torch.ones(32, 16)}),
        "is not known for the model type llama",
    ),
    "two stacks": (
        {}, file_of({f"{stack}.layers.0.q_proj.weight": torch.ones(16, 16) for stack in ("a", "b")}),
        "several projections q_proj",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_checkpoint_is_refused_in_one_sentence(case: str) -> None:
    changes, content, words = BAD[case]
    with pytest.raises(CheckpointError) as caught:
        read_projections(local_checkpoint(content), read_config(LLAMA | changes), 0)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "has no weight_map"),
        ('{"weight_map": {}}', "has no weight_map"),
        ('{"weight_map": {"a": "../b.safetensors"}}', "which is no .safetensors file beside it"),
        ('{"weight_map": {"a": "b.bin"}}', "which is no .safetensors file beside it"),
        (" " * (limits.MAX_INDEX_BYTES + 1), "are read"),
    ],
)
def test_a_bad_index_is_refused(index: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(index)
    with pytest.raises(CheckpointError) as caught:
        local_checkpoint(path)
    assert words in str(caught.value)


def test_a_folder_without_a_checkpoint_and_a_layer_out_of_range_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds neither"):
        local_checkpoint(tmp_path)
    with pytest.raises(SchemeArgumentError, match="layer must be a whole number from 0 to 1"):
        read_projections(local_checkpoint(file_of(llama_tensors())), read_config(LLAMA), 2)


def test_every_fused_order_is_that_of_a_known_type() -> None:
    assert {*GROUPED, *STACKED, *GATED} <= {*model_types()}
