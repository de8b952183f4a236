"""Rows of single types against their classes, where a row was wrong or a class does the unexpected."""

import dataclasses
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc.errors import ConfigFileError
from posenc.models import read_config
from posenc.models.family import FAMILIES
from posenc.models.model_config import ModelConfig
from posenc.models.record import key_names
from posenc.models.rope_types import TRAINED
from posenc.schemes.base import NoneConfig
from posenc.schemes.rope import RopeConfig
from tests.longer import mostly
from tests.models.configs import Config
from tests.models.generate_families import default_config
from tests.models.oracle import config_of, module_of

transformers: Any = pytest.importorskip("transformers", minversion="5")

from huggingface_hub.errors import StrictDataclassError  # noqa: E402

SMALL: Config = {
    "vocab_size": 16, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
    "intermediate_size": 16, "dim": 32, "n_layers": 1, "n_heads": 4, "num_layers": 1, "num_heads": 4,
    "n_embd": 32, "n_layer": 1, "n_head": 4, "d_model": 32, "pad_token_id": 0,
    "attention_window": 16, "attention_type": "original_full",
}  # fmt: skip
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8}
DECODERS = [name for name, row in FAMILIES.items() if row.get("causal") == "is_decoder"]
ENCODERS = ["albert", "distilbert", "longformer", "splinter"]


def both(model_type: str, **keys: Any) -> tuple[Any, ModelConfig]:
    """A small model of the class of a type, and what is read of its config."""
    of_class = transformers.CONFIG_MAPPING[model_type]
    known = vars(of_class()).keys() | {*of_class.attribute_map}
    config = of_class(**{name: size for name, size in SMALL.items() if name in known} | keys)
    config.bos_token_id = config.eos_token_id = None
    config.default_language = "en_XX"  # of X-MOD
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config, attn_implementation="eager").eval()
    return model, read_config(config.to_dict() | keys)


def sees_later_tokens(model: Any) -> bool:
    text = torch.arange(1, 13)[None]
    other = text.clone()
    other[0, -1] = 1
    with torch.no_grad():
        one, two = (model(input_ids=each).last_hidden_state[0, 3] for each in (text, other))
    return not torch.equal(one, two)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_type", [*DECODERS, *ENCODERS])
def test_a_class_is_a_decoder_where_its_layers_look_back_alone(model_type: str) -> None:
    """ALBERT, DistilBERT, Longformer and Splinter see both sides, whatever is_decoder says."""
    for is_decoder in (False, True):
        model, read = both(model_type, is_decoder=is_decoder)
        both_sides = not is_decoder or model_type in ENCODERS
        assert sees_later_tokens(model) == both_sides
        assert bool(read.main.cache_width) != both_sides


@pytest.mark.parametrize("layers", [["local"], ["global"]], ids=["local", "global"])
def test_the_list_of_layers_of_gpt_neo_counts_before_its_groups(layers: list[str]) -> None:
    keys = {
        "attention_types": [[["global", "local"], 1]],
        "attention_layers": layers,
        "window_size": 3,
    }
    model, read = both("gpt_neo", **keys)
    assert model.h[0].attn.attention_type == layers[0]
    assert [kind.window for kind in read.layer_kinds] == [3 if layers == ["local"] else None]
    sparse = read_config({"model_type": "gpt_neo", "num_layers": 1} | keys)
    assert sparse.main.window == read.main.window


@pytest.mark.parametrize("count", range(2, 10))
def test_a_short_model_of_olmo_hybrid_has_a_layer_with_attention(count: int) -> None:
    theirs = transformers.CONFIG_MAPPING["olmo_hybrid"](num_hidden_layers=count).layer_types
    kinds = read_config({"model_type": "olmo_hybrid", "num_hidden_layers": count}).layer_kinds
    words = {index: kind.name for kind in kinds for index in kind.layers}
    assert [words[index] for index in range(count)] == theirs


def sees_the_first_token(model: Any) -> bool:
    text = torch.arange(1, 9)[None]
    other = text.clone()
    other[0, 0] = 9
    with torch.no_grad():
        one, two = (model(input_ids=each).last_hidden_state[0, -1] for each in (text, other))
    return not torch.equal(one, two)


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("model_type", ["qwen2", "qwen2_moe", "qwen3_moe"])
def test_windows_of_qwen_count_where_they_are_switched_on(model_type: str, is_on: bool) -> None:
    keys = {"num_key_value_heads": 2, "sliding_window": 3, "use_sliding_window": is_on}
    keys |= {"max_window_layers": 0 if model_type == "qwen2" else 1} | EXPERTS
    model, read = both(model_type, **keys)
    assert sees_the_first_token(model) != is_on
    assert [kind.window for kind in read.layer_kinds] == [3 if is_on else None]


INTERLEAVED = [
    name
    for name, row in FAMILIES.items()
    if row.get("rope", {}) and row["rope"].get("interleaved") == "rope_interleave"
]


@pytest.mark.parametrize("value", [True, False, None])
@pytest.mark.parametrize("model_type", INTERLEAVED)
def test_null_of_rope_interleave_is_false_where_a_class_takes_it(
    model_type: str, value: bool | None
) -> None:
    """Its code asks for the truth of the value; other classes refuse null."""
    layouts = {
        kind.scheme.layout
        for kind in read_config({"model_type": model_type, "rope_interleave": value}).layer_kinds
        if isinstance(kind.scheme, RopeConfig)
    }
    assert layouts in ({"interleaved" if value else "half"}, set())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model_type", ["biogpt", "openai-gpt", "opt", "bert", "gpt2", "gpt_bigcode"]
)
def test_logits_are_left_as_they_are_where_a_class_has_a_switch_for_it(model_type: str) -> None:
    text = torch.arange(1, 8)[None]
    outputs, scales = [], []
    for scaled in (True, False):
        model, read = both(model_type, scale_attn_weights=scaled)
        with torch.no_grad():
            outputs.append(model(input_ids=text).last_hidden_state)
        scales.append(read.main.softmax_scale)
    has_switch = model_type in ("gpt2", "gpt_bigcode")
    assert torch.equal(*outputs) != has_switch
    assert scales == [8**-0.5, 1.0 if has_switch else 8**-0.5]


@pytest.mark.parametrize("model_type", ["cohere2", "gemma3_text", "t5gemma2_text"])
def test_a_pattern_that_a_class_saves_for_itself_must_be_the_one_that_it_reads(
    model_type: str,
) -> None:
    """The class ignores _sliding_window_pattern, and makes its layers of sliding_window_pattern."""
    of_class = transformers.CONFIG_MAPPING[model_type]
    keys = {"num_hidden_layers": 12, "sliding_window_pattern": 3}
    theirs = of_class(**keys | {"_sliding_window_pattern": 2}).layer_types
    assert theirs == of_class(**keys).layer_types
    kinds = read_config({"model_type": model_type, "_sliding_window_pattern": 3} | keys).layer_kinds
    windowed = {index for kind in kinds if kind.window for index in kind.layers}
    assert windowed == {index for index, word in enumerate(theirs) if "sliding" in word}
    with pytest.raises(ConfigFileError, match="_sliding_window_pattern must be 3"):
        read_config({"model_type": model_type, "_sliding_window_pattern": 2} | keys)


SIZES = ("hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings")
# Every name that some class has for a size.
NAMES = {
    size: sorted({name for row in FAMILIES.values() for name in key_names(row, size)})
    for size in SIZES
}
# Types of one stack that are the class's alone: published files of Nomic have keys of its own code, and
# JetMoE's class counts heads by its experts, whatever the key says.
PLAIN = [
    name
    for name, row in FAMILIES.items()
    if "stacks" not in row
    and name in transformers.CONFIG_MAPPING
    and name not in ("nomic_bert", "jetmoe")
]


@pytest.mark.parametrize("model_type", mostly(PLAIN, "llama", "gpt2", "bloom", "falcon"))
def test_a_size_is_read_under_the_names_that_its_class_takes_and_no_others(model_type: str) -> None:
    of_class = transformers.CONFIG_MAPPING[model_type]
    for size, names in NAMES.items():
        plain: Any = getattr(of_class(), size, None)
        for name in names if isinstance(plain, int) else ():
            keys = {name: 2 * plain}
            try:
                is_taken = getattr(of_class(**keys), size) != plain
                model = read_config({"model_type": model_type} | keys)
                other = read_config({"model_type": model_type})
            except (ConfigFileError, ValueError, StrictDataclassError):
                continue  # refused by the class, or by us
            other = dataclasses.replace(other, assumed=model.assumed)
            assert (model != other) == is_taken, name


@pytest.mark.parametrize("alibi", [False, True])
def test_falcon_with_groups_names_its_cache_and_the_larger_one_of_its_class(alibi: bool) -> None:
    keys = {
        "model_type": "falcon", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
        "new_decoder_architecture": True, "num_kv_heads": 2, "alibi": alibi,
    }  # fmt: skip
    config = config_of("falcon", {key: keys[key] for key in keys if key != "model_type"})
    built = transformers.AutoModel.from_config(config).eval()
    cache = built(torch.ones(1, 12, dtype=torch.long), use_cache=True).past_key_values
    layer = cache.layers[0]
    stored = (layer.keys.numel() + layer.values.numel()) // 12
    (kind,) = read_config(keys).layer_kinds
    (note,) = [note for note in kind.notes if "copy" in note]
    assert f"{stored:,} numbers per token and layer" in note
    groups = built.h[0].self_attention.num_kv_heads
    assert kind.cache_width == stored * groups // config.num_attention_heads == 64
    plain = read_config(keys | {"new_decoder_architecture": False, "multi_query": False})
    assert not any("copy" in note for note in plain.main.notes)


@pytest.mark.parametrize(("model_type", "on"), [("gemma3_text", True), ("gemma4_text", "all")])
def test_a_window_to_both_sides_is_that_of_transformers_mask(model_type: str, on: object) -> None:
    from transformers import masking_utils

    config = config_of(model_type, {"sliding_window": 8, "use_bidirectional_attention": on})
    config._attn_implementation = "eager"
    arguments: dict[str, Any] = {
        "config": config, "inputs_embeds": torch.zeros(1, 40, 4), "attention_mask": None,
        "past_key_values": None,
    }  # fmt: skip
    if model_type == "gemma3_text":
        overlay = module_of(model_type)._bidirectional_window_overlay
        arguments["or_mask_function"] = overlay(config.sliding_window)
    mask = masking_utils.create_sliding_window_causal_mask(**arguments)
    assert isinstance(mask, Tensor)
    seen = int((mask[0, 0, 20] == 0).sum())
    switch = {"model_type": model_type, "sliding_window": 8, "use_bidirectional_attention": on}
    model = read_config(switch)
    assert [kind.window for kind in model.layer_kinds if kind.window] == [seen]
    assert {kind.cache_width for kind in model.layer_kinds} == {0}
    causal = read_config({"model_type": model_type, "sliding_window": 8})
    for off in ("vision" if model_type == "gemma4_text" else False, False, None):
        model = read_config(switch | {"use_bidirectional_attention": off})
        assert model.layer_kinds == causal.layer_kinds


def test_roformer_rotates_as_its_class() -> None:
    config = config_of("roformer", {"hidden_size": 48, "num_attention_heads": 3})
    module = module_of("roformer")
    angles = module.RoFormerSinusoidalPositionalEmbedding(40, 16)
    angles.weight.data = angles.create_weight()
    q, k = torch.randn(2, 1, 3, 40, 16)
    theirs = module.RoFormerSelfAttention.apply_rotary_position_embeddings(
        angles((1, 40))[None, None], q, k
    )
    record = config.to_dict()
    model = read_config(record)
    assert model.main.scheme is not None
    ours = model.main.scheme.build().rotate(q, k)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-6)
    sizes = (model.main.heads, model.main.head_dim, model.main.cache_width, model.layers)
    assert sizes == (3, 16, 0, config.num_hidden_layers)
    assert read_config(record | {"is_decoder": True}).main.cache_width == 2 * 48


def test_queries_of_ministral_3_are_multiplied_as_in_transformers() -> None:
    """The factor of the class' own function, by the numbers of the sentence."""
    model = read_config(default_config("ministral3"))
    (sentence,) = [note for note in model.main.notes if "multiplied" in note]
    scale, length = re.findall(r"([\d.]+) ln.*/ ([\d,]+)", sentence)[0]
    positions = torch.tensor([[0, 16_383, 16_384, 40_000, 262_143]])
    theirs = module_of("ministral3").get_llama_4_attn_scale(positions, 0.1, 16_384).flatten()
    counted = (positions // int(length.replace(",", ""))).double().log1p() * float(scale) + 1
    torch.testing.assert_close(counted.flatten().float(), theirs, rtol=1e-6, atol=0)
    config = config_of("ministral3", {}).rope_parameters
    assert (config["llama_4_scaling_beta"], config[TRAINED]) == (0.1, 16_384)


def test_queries_of_beam_are_multiplied_in_layers_without_rope_as_in_transformers() -> None:
    kinds = read_config(default_config("beam")).layer_kinds
    notes = {
        isinstance(kind.scheme, NoneConfig): [note for note in kind.notes if "multiplied" in note]
        for kind in kinds
    }
    (sentence,) = notes[True]
    assert notes[False] == []
    length, power = re.findall(r"\(p \+ 1\) / ([\d,]+)\)\^([\d.]+)\.", sentence)[0]
    positions = torch.tensor([[0, 2_047, 8_191, 100_000]])
    theirs = module_of("beam").compute_attention_scaling(positions).flatten()
    counted = (1 + (positions + 1).double() / int(length.replace(",", ""))) ** float(power)
    torch.testing.assert_close(counted.flatten().float(), theirs, rtol=1e-6, atol=0)


def test_layers_with_an_index_of_minimax_m3_are_those_of_the_keys_of_its_files() -> None:
    sparse = {"sparse_attention_freq": [0, 0, 0, 1, 0, 1], "sparse_index_dim": 32}
    keys = {"num_hidden_layers": 6, "sparse_attention_config": sparse}
    theirs = config_of("minimax_m3_vl_text", keys)
    full, indexed = read_config({"model_type": "minimax_m3_vl_text"} | keys).layer_kinds
    words = ["full_attention", "minimax_m3_sparse"]
    assert [words[index in indexed.layers] for index in range(6)] == theirs.layer_types
    assert indexed.cache_width - full.cache_width == theirs.index_head_dim
