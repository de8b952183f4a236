"""The oracle of types without RoPE: their tables, windows and caches are those of their classes."""

import inspect
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc.models import read_config
from posenc.models.family import FAMILIES, stacks_of
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from tests.models.configs import Config
from tests.models.oracle import config_of

transformers = pytest.importorskip("transformers", minversion="5")

POSITIONS = {
    name: {row.get("position", {}).get("kind") for row in stacks_of(name).values()}
    for name in FAMILIES
}
TABLES = [name for name, of in POSITIONS.items() if of <= {"learned", "sinusoidal"}]
LEARNED = [name for name in TABLES if "stacks" not in FAMILIES[name]]
STACKS = [name for name in TABLES if "stacks" in FAMILIES[name]]
BUCKETS = [name for name, of in POSITIONS.items() if of == {"t5"}]
LEARNED_CHANGES: dict[str, Config] = {
    "bert": {"max_position_embeddings": 40, "hidden_size": 48},
    "xlm-roberta": {"max_position_embeddings": 514, "pad_token_id": 3},
    "gpt2": {"n_positions": 77}, "electra": {"embedding_size": 32},
    "ctrl": {"n_layer": 1, "n_embd": 32, "dff": 8}, "rembert": {"input_embedding_size": 40},
    "xglm": {"pad_token_id": 2},
}  # fmt: skip


TABLE = re.compile(
    r"(position_embeddings|wpe|embed_positions|positions_embed|pos_encoding)(\.weights?)?$"
)


def first_row(model_type: str, config: Any) -> int:
    """The row of position 0: behind that of the padding token, or of a few rows."""
    said = FAMILIES[model_type].get("first_row", "0")
    return config.pad_token_id + 1 if said == "pad_token_id + 1" else int(said)


def check_waves(scheme: SinusoidalConfig, table: Tensor, first: int) -> None:
    """Compare the rows of positions with the class's, and with sines and cosines by hand."""
    positions = torch.arange(first, len(table))
    ours = scheme.build().embed(torch.zeros(1, len(positions), scheme.dim), positions=positions)[0]
    paper = scheme.base == 1e4
    half = scheme.dim // 2
    powers = torch.arange(half).double() / (half if paper else half - 1)
    angles = positions[:, None] * 1e4**-powers
    exact = torch.cat([angles.sin(), angles.cos()], dim=1).float()
    torch.testing.assert_close(ours, exact, rtol=0, atol=1e-6)
    # The classes round each frequency, and each angle, to float32.
    torch.testing.assert_close(ours, table[first:], rtol=0, atol=max(1e-6, 1.5e-7 * len(table)))


@pytest.mark.parametrize("model_type", LEARNED)
def test_tables_are_those_of_transformers_embeddings(model_type: str) -> None:
    changes = LEARNED_CHANGES.get(model_type, {})
    config = config_of(model_type, changes)
    model = read_config(config.to_dict())
    auto = transformers.AutoModelForCausalLM if model_type == "trocr" else transformers.AutoModel
    with torch.device("cpu" if changes.get("n_layer") else "meta"):
        built = auto.from_config(config)
    tensors = (*built.named_parameters(), *built.named_buffers())
    (table,) = [weight for name, weight in tensors if TABLE.search(name)]
    first = first_row(model_type, config)
    scheme = model.main.scheme
    if isinstance(scheme, SinusoidalConfig):
        assert scheme.dim == table.shape[1]
        if table.device.type == "cpu":
            check_waves(scheme, table, first)
    else:
        assert scheme == LearnedConfig(dim=table.shape[1], max_len=len(table) - first)
        assert model.context == len(table) - first
    shift = re.compile(rf"(row|position) p \+ {first}\b")
    assert any(map(shift.search, model.notes)) == bool(first)
    sizes = config.hidden_size, config.num_hidden_layers, config.num_attention_heads
    assert (model.hidden_size, model.layers, model.main.heads) == sizes
    if "causal" not in FAMILIES[model_type]:  # a class that caches takes what it cached
        takes = {"past_key_values", "past_key_value"} & {
            *inspect.signature(built.forward).parameters
        }
        assert bool(takes) == bool(model.main.cache_width)


@pytest.mark.parametrize("model_type", STACKS)
def test_tables_of_two_stacks_are_those_of_transformers(model_type: str) -> None:
    """Each stack has its own table; one of sines is compared row by row, of a small model."""
    small = {
        "encoder_layers": 1, "decoder_layers": 2, "d_model": 64, "vocab_size": 9,
        "encoder_attention_heads": 4, "decoder_attention_heads": 8, "pad_token_id": 0,
    }  # fmt: skip
    for changes in ({}, small):
        config = config_of(model_type, changes)
        with torch.device("cpu" if changes else "meta"):
            built = transformers.AutoModel.from_config(config)
        model = read_config({"model_type": model_type} | changes)
        decoder, encoder = model.layer_kinds
        for kind, stack in ((decoder, built.get_decoder()), (encoder, built.get_encoder())):
            positions, layer = stack.embed_positions, stack.layers[0]
            table = getattr(positions, "weights", None)
            table = positions.weight if table is None else table
            first = getattr(positions, "offset", 0)
            if "pad_token_id" in FAMILIES[model_type].get("first_row", ""):
                first = config.pad_token_id + 1
            heads = getattr(config, f"{kind.name}_attention_heads")
            assert (len(kind.layers), kind.heads) == (len(stack.layers), heads)
            attention = layer.self_attn
            if hasattr(attention, "scaling"):
                assert (kind.head_dim, kind.softmax_scale) == (
                    attention.head_dim,
                    attention.scaling,
                )
            assert any(f"p + {first}" in note for note in model.notes) == bool(first)
            if isinstance(kind.scheme, LearnedConfig):
                assert table.requires_grad
                assert table.shape == (first + kind.scheme.max_len, kind.scheme.dim)
                continue
            assert isinstance(kind.scheme, SinusoidalConfig)
            if changes:
                check_waves(kind.scheme, table, first)
            if changes and kind.scheme.base == 1e4:
                ours = kind.scheme.build().embed(torch.zeros(1, *table.shape))[0]
                assert torch.equal(ours, table)
        positions = built.get_decoder().embed_positions
        if decoder.rows or isinstance(decoder.scheme, LearnedConfig):  # else the table grows
            assert model.context == len(positions.weight) - getattr(positions, "offset", 0)


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("longformer", {"attention_window": 4}),
        ("longformer", {"attention_window": [4]}),
        ("led", {"attention_window": 6}),
        ("longt5", {"local_radius": 3}),
        ("gpt_neo", {"window_size": 3, "attention_types": [[["local"], 1]]}),
    ],
)
def test_a_query_sees_as_many_tokens_as_the_class_shows_it(
    model_type: str, changes: Config
) -> None:
    """By the gradient of one output after one layer, which reaches the tokens that are seen."""
    sizes = dict.fromkeys(("hidden_size", "d_model"), 32)
    sizes |= {"num_attention_heads": 4, "num_heads": 4, "vocab_size": 9, "pad_token_id": 0}
    sizes |= dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4)
    layers = ("num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers")
    sizes |= dict.fromkeys(layers, 1) | {"num_hidden_layers": 1}
    known = config_of(model_type, {}).to_dict()
    small = {name: size for name, size in sizes.items() if name in known}
    config = config_of(model_type, small | changes)
    config.bos_token_id = config.eos_token_id = None
    config._attn_implementation = "eager"
    built = transformers.AutoModel.from_config(config).eval()
    stack = built.get_encoder() if config.is_encoder_decoder else built
    tokens = torch.randn(1, 24, 32, requires_grad=True)
    stack(inputs_embeds=tokens).last_hidden_state[0, 12, :7].prod().backward()
    assert tokens.grad is not None
    seen = int((tokens.grad[0].abs().sum(dim=1) > 0).sum())
    kinds = read_config({"model_type": model_type} | small | changes).layer_kinds
    assert [kind.window for kind in kinds if kind.window] == [seen]


@pytest.mark.parametrize("model_type", BUCKETS)
def test_stacks_with_buckets_have_the_sizes_of_transformers_classes(model_type: str) -> None:
    """Absent keys take the class's own defaults, and biases stand in the layers that the notes name."""
    decoder, encoder = read_config({"model_type": model_type}).layer_kinds
    with torch.device("meta"):
        built = transformers.AutoModel.from_config(config_of(model_type, {}))
    for kind, stack in ((decoder, built.decoder), (encoder, built.encoder)):
        tables = [part for name, part in stack.named_parameters() if "relative_attention" in name]
        assert len(kind.layers) == len(stack.block)
        assert {part.shape[1] for part in tables} == {kind.heads}
        assert (len(tables) == len(stack.block)) == ("of its own" in kind.notes[0])
        assert kind.heads * kind.head_dim == next(stack.block[0].layer[0].children()).q.out_features


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        *[(name, {}) for name in ("gpt2", "biogpt", "ctrl", "xglm")],
        ("gpt_neo", {"attention_types": [[["global", "local"], 1]]}),
        ("gpt_bigcode", {}),
        ("gpt_bigcode", {"multi_query": False, "num_key_value_heads": 4}),
    ],
)
def test_cache_of_a_model_with_a_learned_table_is_transformers_own(
    model_type: str, changes: Config
) -> None:
    small = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 9}
    config = config_of(model_type, small | {"bos_token_id": 0, "eos_token_id": 0} | changes)
    built = transformers.AutoModel.from_config(config)
    cache = built(torch.zeros(1, 5, dtype=torch.int64), use_cache=True).past_key_values
    numbers = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
    assert read_config(config.to_dict()).cache_numbers(5) == numbers
