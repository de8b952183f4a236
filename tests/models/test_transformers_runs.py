"""Configs are read as a run of their class shows: rotations, masks, caches and states of every type."""

import json
import re

import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from torch import Tensor

from posenc.errors import ConfigFileError
from posenc.models import read_config
from posenc.models.family import FAMILIES
from posenc.models.rope_types import TRAINED
from posenc.schemes.base import NoneConfig
from tests.longer import mostly
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
    HYBRID,
    ROPE,
    check_frequencies,
    check_written,
    class_of,
    config_of,
    module_of,
)

SMALL: Config = {
    "vocab_size": 64, "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0, "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8,
    "num_local_experts": 2, "head_dim": 16, "num_expert_group": 1, "topk_group": 1,
    "num_experts_per_token": 2,
}  # fmt: skip
# Of layers that keep a state, in the words of every class.
STATES: Config = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6,
    "linear_value_head_dim": 10, "linear_conv_kernel_dim": 3, "lru_width": 40, "conv1d_width": 3,
    "mamba_n_heads": 8, "mamba_d_state": 6, "mamba_d_conv": 3, "mamba_n_groups": 2,
    "n_mamba_heads": 4, "mamba_ngroups": 2, "mamba_num_heads": 8, "mamba_head_dim": 10,
    "ssm_state_size": 6, "n_groups": 2, "conv_kernel": 3, "use_mamba_kernels": False,
    "conv_L_cache": 5,
}  # fmt: skip


@pytest.mark.parametrize("model_type", HYBRID)
def test_states_have_the_numbers_of_transformers_cache(model_type: str) -> None:
    sizes = SMALL | STATES | RUN_WITH.get(model_type, {})
    if "kv_lora_rank" in ROPE[model_type]["defaults"]:
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


# Classes without a table of positions, which test_transformers_tables compares.
ROTATING = [
    name
    for name, row in FAMILIES.items()
    if name in transformers.CONFIG_MAPPING and name != "roformer" and "stacks" not in row
    if row.get("position", {}).get("kind") not in ("learned", "sinusoidal")
]


@pytest.mark.parametrize(
    "model_type",
    mostly(
        ROTATING,
        *("llama", "cohere2", "deepseek_v3", "gemma3_text", "bloom", "qwen3_next", "esm"),
    ),
)
def test_every_type_does_what_a_run_of_its_class_shows(model_type: str) -> None:
    """Rotation as a matrix, mask and cache of the class itself, as `establish` observes them."""
    config = default_config(model_type)
    assert list(differences(read_config(config), establish({"config": config}))) == []


XDROPE: Config = {
    "type": "xdrope", "alpha": 1_000.0, "xdrope_section": [16, 16, 16, 16], "beta_fast": 32,
    "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
}  # fmt: skip
FILES: dict[str, Config] = {  # keys that published files have in place of those of the class
    "hunyuan_vl_text": {"head_dim": 128, "rope_theta": 1e4, "rope_scaling": XDROPE},
    "embedding_gemma2_text": {
        "sliding_window_pattern": 4, "global_head_dim": 128, "num_global_key_value_heads": 2,
        "sliding_window": 100,
    },
    "molmo2_text": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_theta": 1e6},
}  # fmt: skip


@pytest.mark.parametrize("model_type", FILES)
def test_keys_of_published_files_are_read_as_the_class_reads_them(model_type: str) -> None:
    config = config_of(model_type, FILES[model_type])
    model = read_config({"model_type": model_type} | FILES[model_type])
    whole = json.loads(json.dumps(config.to_dict(), default=str))
    assert model.layer_kinds == read_config(whole).layer_kinds
    check_frequencies(model, class_of(model_type, "RotaryEmbedding")(config))
    check_written(model, config, model_type)


@pytest.mark.parametrize(
    ("model_type", "changes", "words"),
    [
        ("esm", {}, "must be 'rotary'"),
        (
            "esm",
            {"position_embedding_type": "rotary", "is_decoder": True},
            "is_decoder must be false",
        ),
        ("molmo2_text", {"rope_scaling_layers": [0, 1]}, "rope_scaling_layers must have"),
        ("ernie4_5_vl_moe_text", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "of default"),
    ],
)
def test_forms_of_a_class_that_are_not_read_are_refused(
    model_type: str, changes: Config, words: str
) -> None:
    with pytest.raises(ConfigFileError, match=words):
        read_config({"model_type": model_type} | changes)


def test_keys_of_full_attention_have_no_effect_where_every_layer_of_gemma_3_has_a_window() -> None:
    keys: Config = {
        "num_hidden_layers": 2, "layer_types": ["sliding_attention"] * 2, "rope_theta": 7e5,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    }  # fmt: skip
    rotary = class_of("gemma3_text", "RotaryEmbedding")(config_of("gemma3_text", keys))
    model = read_config({"model_type": "gemma3_text"} | keys)
    assert [kind.name for kind in model.layer_kinds] == ["sliding_attention"]
    check_frequencies(model, rotary)
    with pytest.raises(ConfigFileError, match="rope_scaling"):
        read_config(
            {"model_type": "gemma3_text"}
            | keys
            | {"rope_scaling": {"rope_type": "what"}, "layer_types": ["full_attention"] * 2}
        )
    with pytest.raises(ConfigFileError, match="text_config, which is empty"):
        read_config({"model_type": "gemma3", "text_config": {}})


def test_longrope_of_phimoe_which_takes_its_short_factors_at_every_length_is_refused() -> None:
    block: Config = {
        "rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "rope_theta": 1e4,
        "original_max_position_embeddings": 32, "short_mscale": 1.5, "long_mscale": 3.0,
    }  # fmt: skip
    sizes: Config = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"max_position_embeddings": 128}
    rotary = class_of("phimoe", "RotaryEmbedding")(
        config_of("phimoe", sizes | {"rope_parameters": block})
    )
    short, long = (
        torch.complex(*(part[0, 1, :8] for part in rotary(torch.zeros(1), torch.arange(n)[None])))
        for n in (8, 100)
    )
    torch.testing.assert_close(long, 2 * short, rtol=1e-6, atol=0)  # the factor alone changes
    torch.testing.assert_close(short[0].angle(), torch.tensor(1.0))
    with pytest.raises(ConfigFileError, match="rope_type must be one of default"):
        read_config({"model_type": "phimoe"} | sizes | {"rope_parameters": block})
    without = {key: value for key, value in block.items() if "mscale" not in key}
    with pytest.raises(
        StrictDataclassClassValidationError, match="short_mscale"
    ):  # nor does the class take it without them
        config_of("phimoe", sizes | {"rope_parameters": without})
    with pytest.raises(ConfigFileError, match="rope_type must be one of default"):
        read_config({"model_type": "phimoe"} | sizes | {"rope_parameters": without})


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
    with pytest.raises(ConfigFileError, match="rotary_value must be false"):
        read_config(record | {"rotary_value": True})


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
