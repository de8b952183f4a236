"""Configs are read as a run of their class shows: rotations, masks, caches and states of every type."""

import json
import re

import pytest
import torch
from torch import Tensor

from posenc.models import read_config
from posenc.models.families import FAMILIES
from posenc.models.learned_models import LEARNED_FAMILIES, STACK_FAMILIES
from posenc.models.rope_block import TRAINED
from posenc.schemes.base import NoneConfig
from tests.models.configs import Config
from tests.models.generate_families import (
    CAUSAL_TYPES,
    RUN_WITH,
    causal_types,
    default_config,
    outcome,
)
from tests.models.published_models.establish import establish
from tests.models.test_published_models import differences

transformers = pytest.importorskip("transformers", minversion="5")

from tests.models.test_transformers_classes import (  # noqa: E402
    BORROWED,
    HYBRID,
    RUN_WHOLE,
    check_frequencies,
    class_of,
    config_of,
    module_of,
    rope_kinds,
)

WITHOUT_ROPE_BETWEEN = (
    "afmoe", "beam", "cohere2", "cohere2_moe", "cohere_compass_text", "exaone4", "exaone_moe", "flint",
    "kolibri1", "llama4_text",
)  # fmt: skip
OTHERS = ("hunyuan_v1_dense", "internlm3", "iquestcoder", "ministral")
RUN = tuple(dict.fromkeys((*WITHOUT_ROPE_BETWEEN, *HYBRID, *RUN_WHOLE, *OTHERS)))


@pytest.mark.parametrize("model_type", RUN)
def test_layers_do_what_a_run_of_the_class_shows(model_type: str) -> None:
    """Rotation as a matrix, mask and cache of the class itself, as `establish` observes them."""
    built = config_of(model_type, {"num_hidden_layers": 8} | RUN_WITH.get(model_type, {}))
    config = json.loads(json.dumps(built.to_dict(), default=str))
    real, model = establish({"config": config}), read_config(config)
    assert list(differences(model, real)) == []
    without = {kind["position"] for kind in real["kinds"] if kind["attention"] == "full"}
    never = [name for name in HYBRID if FAMILIES[name].rotates == "never"]
    assert (without == {"none"}) == (model_type in (*WITHOUT_ROPE_BETWEEN, *never))
    assert {kind["attention"] for kind in real["kinds"]} >= (
        {"state"} if model_type in HYBRID else set()
    )
    if rope_kinds(model) and model_type not in BORROWED:
        check_frequencies(model, class_of(model_type, "RotaryEmbedding")(built))


SMALL: Config = {
    "vocab_size": 64, "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0, "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8,
    "num_local_experts": 2, "head_dim": 16, "num_expert_group": 1, "topk_group": 1,
    "num_experts_per_token": 2,
}  # fmt: skip
STATES: dict[str, Config] = {
    "linear_attention": {
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6,
        "linear_value_head_dim": 10, "linear_conv_kernel_dim": 3, "lru_width": 40, "conv1d_width": 3,
    },
    "mamba": {
        "mamba_n_heads": 8, "mamba_d_state": 6, "mamba_d_conv": 3, "mamba_n_groups": 2,
        "n_mamba_heads": 4, "mamba_ngroups": 2, "mamba_num_heads": 8, "mamba_head_dim": 10,
        "ssm_state_size": 6, "n_groups": 2, "conv_kernel": 3, "use_mamba_kernels": False,
    },
    "conv": {"conv_L_cache": 5},
}  # fmt: skip


@pytest.mark.parametrize("model_type", HYBRID)
def test_states_have_the_numbers_of_transformers_cache(model_type: str) -> None:
    sizes = SMALL | STATES[FAMILIES[model_type].state] | RUN_WITH.get(model_type, {})
    if FAMILIES[model_type].latent:
        sizes["num_key_value_heads"] = sizes["num_attention_heads"]
    known = vars(transformers.CONFIG_MAPPING[model_type]()).keys()
    config = config_of(model_type, {key: sizes[key] for key in sizes if key in known})
    model = transformers.AutoModel.from_config(config).eval()
    with torch.no_grad():
        result = model(input_ids=torch.ones(1, 7, dtype=torch.long), use_cache=True)
    cache = getattr(result, "past_key_values", transformers.DynamicCache())
    kinds = {i: k for k in read_config(config.to_dict()).layer_kinds for i in k.layers}
    for index, kind in kinds.items():
        layer = cache.layers[index] if index < len(cache.layers) else None
        states = [getattr(layer, name, None) or {} for name in ("conv_states", "recurrent_states")]
        tensors = [one for state in states for one in state.values()]
        if model_type == "recurrent_gemma":  # which keeps them itself
            block = model.layers[index].temporal_block
            tensors = [getattr(block, "conv1d_state", None)]
            tensors.append(getattr(getattr(block, "rg_lru", None), "recurrent_states", None))
        tensors += getattr(cache, "linear_cache", [])[
            index : index + 1
        ]  # MiniMax has its own class
        assert kind.state == sum(one.numel() for one in tensors if isinstance(one, Tensor)), index
    assert any(kind.state for kind in kinds.values())


OUTCOMES: dict[str, str] = json.loads(CAUSAL_TYPES.read_text())


def test_every_causal_type_of_transformers_is_read_or_refused_by_name() -> None:
    """A type that is new in a release of transformers is named here."""
    assert set(causal_types()) == set(OUTCOMES)
    assert {name: outcome(name) for name in OUTCOMES} == OUTCOMES
    assert sum(reason == "read" for reason in OUTCOMES.values()) > 90


# Classes whose tables, biases and rotations have tests of their own.
WITHOUT_ROPE = ("gpt-sw3", "roformer", *LEARNED_FAMILIES, *STACK_FAMILIES)


NOT_CAUSAL = [name for name in FAMILIES if name not in (*OUTCOMES, *BORROWED)]


@pytest.mark.long
@pytest.mark.parametrize(
    "model_type",
    [name for name in OUTCOMES if OUTCOMES[name] == "read" and name not in WITHOUT_ROPE]
    + NOT_CAUSAL,
)
def test_every_type_that_is_read_does_what_a_run_shows(model_type: str) -> None:
    config = default_config(model_type)
    assert list(differences(read_config(config), establish({"config": config}))) == []


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
    also = read_config(record | {"rotary_value": True}).main
    assert also.scheme is None
    assert "rotary_value" in also.unsupported


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
