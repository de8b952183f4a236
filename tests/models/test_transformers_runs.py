"""Configs are read as a run of their class shows: rotations, masks, caches and states of every type."""

import json
import re

import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from torch import Tensor

from posenc import rope_frequencies
from posenc.errors import ConfigFileError
from posenc.models import read_config
from posenc.models.families import FAMILIES
from posenc.models.learned_models import LEARNED_FAMILIES, STACK_FAMILIES
from posenc.models.read_config import config_token, read_config_token
from posenc.models.rope_block import TRAINED
from posenc.schemes.base import NoneConfig
from posenc.schemes.rope import RopeConfig
from tests.models.configs import PUBLISHED, Config
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
    check_written,
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


COMPRESSED: Config = {
    "vocab_size": 16, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 16,
    "q_lora_rank": 8, "o_lora_rank": 8, "o_groups": 2, "index_head_dim": 12, "index_n_heads": 2,
    "index_topk": 3, "sliding_window": 6, "partial_rotary_factor": 0.5, "moe_intermediate_size": 8,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "max_position_embeddings": 1_024,
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
    "layer_types": [
        "compressed_sparse_attention", "heavily_compressed_attention", "sliding_attention"
    ],
    "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256},
}  # fmt: skip


@pytest.mark.parametrize("first", [1, 3, 4, 21])
def test_cache_of_deepseek_4_is_that_of_its_class_at_every_length(first: int) -> None:
    """Token by token, after `first` tokens at once; a full window drops a token once it was seen."""
    config = config_of("deepseek_v4", COMPRESSED)
    model = transformers.AutoModel.from_config(config).eval()
    kinds = read_config(json.loads(json.dumps(config.to_dict()))).layer_kinds
    cache = transformers.DynamicCache(config=config)
    for length in range(first, 42):
        tokens = torch.ones(1, first if length == first else 1, dtype=torch.long)
        with torch.no_grad():
            model(input_ids=tokens, past_key_values=cache)
        for kind in kinds:
            layer = cache.layers[kind.layers[0]]
            assert torch.equal(layer.keys, layer.values)  # one vector
            states = [one for one in vars(layer).values() if isinstance(one, dict)]
            tensors = [layer.keys, *(tensor for state in states for tensor in state.values())]
            numbers = sum(one.numel() for one in tensors if isinstance(one, Tensor))
            numbers += kind.cache_width * (length >= config.sliding_window)
            assert kind.cache_numbers(length) == numbers, (kind.name, length)


def test_entries_of_deepseek_4_are_rotated_at_the_places_that_a_note_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, module = config_of("deepseek_v4", COMPRESSED), module_of("deepseek_v4")
    model = transformers.AutoModel.from_config(config).eval()
    calls: list[tuple[Tensor, ...]] = []
    rotate = module.apply_rotary_pos_emb

    def record(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        calls.append((x, cos[0].double(), sin[0].double()))
        result: Tensor = rotate(x, cos, sin)
        assert torch.equal(result[..., :-8], x[..., :-8])  # the last features are rotated
        return result

    monkeypatch.setattr(module, "apply_rotary_pos_emb", record)
    with torch.no_grad():
        model(input_ids=torch.ones(1, 21, dtype=torch.long))
    kinds = {i: k for k in read_config(config.to_dict()).layer_kinds for i in k.layers}
    # Queries, keys, then entries, then keys of the index and its queries; at last the output.
    for index, parts in enumerate((("entry", "entry", "token"), ("entry",), ())):
        scheme, entries = kinds[index].scheme, kinds[index].compressed
        (places,) = [n for n in kinds[index].notes if "Entry i" in n] or ["at position 1 i"]
        step = int(re.findall(r"at position (\d+) i", places)[0])
        assert isinstance(scheme, RopeConfig)
        frequencies = rope_frequencies(scheme)[0]
        for part in ("token", "token", *parts, "back"):
            _, cos, sin = calls.pop(0)
            angles = torch.arange(len(cos)).double()[:, None] * frequencies[frequencies > 0]
            if part == "entry":
                assert entries is not None
                assert (len(cos), step) == (21 // entries.group, entries.group)
            angles = angles * (step if part == "entry" else 1) * (-1 if part == "back" else 1)
            torch.testing.assert_close(cos, angles.cos(), rtol=0, atol=1e-6)
            torch.testing.assert_close(sin, angles.sin(), rtol=0, atol=1e-6)
    assert not calls


def test_queries_of_deepseek_4_see_the_entries_that_the_notes_say() -> None:
    config = config_of("deepseek_v4", COMPRESSED)
    kinds = {i: k for k in read_config(config.to_dict()).layer_kinds for i in k.layers}
    config._attn_implementation = "eager"
    seen: dict[int, list[int]] = {}
    model = transformers.AutoModel.from_config(config).eval()
    with torch.no_grad():
        run = model(input_ids=torch.ones(1, 21, dtype=torch.long), output_attentions=True)
    for index, weights in enumerate(run.attentions):
        seen[index] = (weights[0, 0] > 0).sum(dim=-1).tolist()
    for index, kind in kinds.items():
        groups, most = kind.compressed, 21
        for note in kind.notes:
            most = int((re.findall(r"chooses the (\d+) entries", note) or [most])[0])
        counted = [
            min(place + 1, 6) + (min((place + 1) // groups.group, most) if groups else 0)
            for place in range(21)
        ]
        assert seen[index] == counted


DEEPSEEK_4 = PUBLISHED["deepseek-v4-flash"]["config"]
FORMS: list[Config] = [
    DEEPSEEK_4,
    {},
    {"qk_rope_head_dim": 32, "head_dim": 96},
    {"compress_rate_csa": 2, "compress_rate_hca": 16, "compress_rope_theta": 5e4},
    COMPRESSED,
]


@pytest.mark.parametrize("changes", FORMS, ids=lambda form: str([*form])[:40])
def test_configs_of_deepseek_4_are_read_in_all_forms_that_the_class_takes(changes: Config) -> None:
    keys = {key: value for key, value in changes.items() if key != "model_type"}
    config = config_of("deepseek_v4", keys)
    short = read_config({"model_type": "deepseek_v4"} | keys)
    whole = json.loads(json.dumps(config.to_dict(), default=str))
    assert short.layer_kinds == read_config(whole).layer_kinds
    words = {i: k.name for k in short.layer_kinds for i in k.layers}
    assert [words[index] for index in range(short.layers)] == config.layer_types
    check_frequencies(short, class_of("deepseek_v4", "RotaryEmbedding")(config))
    for kind in short.layer_kinds:
        if kind.compressed:
            assert kind.compressed.group == config.compress_rates[kind.name]
            assert kind.compressed.window == config.sliding_window
    check_written(short, config, "deepseek_v4")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_key_value_heads": 2}, "num_key_value_heads must be 1"),
        ({"compress_ratios": [0, 8, 4] * 15}, "compress_ratios must be of"),
        ({"compress_rates": {"compressed_sparse_attention": 4}}, "is missing"),
        ({"qk_rope_head_dim": 32, "partial_rotary_factor": 0.5}, "qk_rope_head_dim"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "rope_theta": 1e5}}, "must be absent"),
        ({"rope_parameters": {"main": {"rope_theta": 1e4}, "compress": {}}}, "whole head"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "one entry per kind"),
    ],
    ids=str,
)
def test_configs_of_deepseek_4_that_its_class_reads_otherwise_are_refused(
    changes: Config, words: str
) -> None:
    with pytest.raises(ConfigFileError, match=words):
        read_config({"model_type": "deepseek_v4"} | changes)


XDROPE: Config = {
    "type": "xdrope", "alpha": 1_000.0, "xdrope_section": [16, 16, 16, 16], "beta_fast": 32,
    "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
}  # fmt: skip
# Step 3.5 Flash in small: its lists go on with a layer that guesses further tokens.
STEP: Config = {
    "num_hidden_layers": 4, "num_nextn_predict_layers": 1, "num_attention_heads": 64,
    "num_attention_groups": 8, "head_dim": 128, "max_position_embeddings": 262_144,
    "layer_types": ["full_attention", *["sliding_attention"] * 3, "sliding_attention"],
    "rope_theta": [5e6, 1e4, 1e4, 1e4, 1e4], "partial_rotary_factors": [0.5, 1.0, 1.0, 1.0, 1.0],
    "rope_scaling": {
        "rope_type": "llama3", "factor": 2.0, "original_max_position_embeddings": 131_072,
        "low_freq_factor": 1.0, "high_freq_factor": 32.0,
    },
    "attention_other_setting": {
        "attention_type": "sliding_attention", "num_attention_heads": 96, "num_attention_groups": 8,
        "head_dim": 128, "true_head_dim": 128,
    },
    "sliding_window": 512, "yarn_only_types": ["full_attention"], "use_rope_layers": [],
}  # fmt: skip
FILES: dict[str, Config] = {  # keys that published files have in place of those of the class
    "hunyuan_vl_text": {"head_dim": 128, "rope_theta": 1e4, "rope_scaling": XDROPE},
    "embedding_gemma2_text": {
        "sliding_window_pattern": 4, "global_head_dim": 128, "num_global_key_value_heads": 2,
        "sliding_window": 100,
    },
    "molmo2_text": {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_theta": 1e6},
    "step3p5": STEP,
}  # fmt: skip


@pytest.mark.parametrize("model_type", FILES)
def test_keys_of_published_files_are_read_as_the_class_reads_them(model_type: str) -> None:
    config = config_of(model_type, FILES[model_type])
    model = read_config({"model_type": model_type} | FILES[model_type])
    whole = json.loads(json.dumps(config.to_dict(), default=str))
    assert model.layer_kinds == read_config(whole).layer_kinds
    check_frequencies(model, class_of(model_type, "RotaryEmbedding")(config))
    check_written(model, config, model_type)


def test_query_heads_of_each_layer_of_step_3_5_are_those_of_the_class() -> None:
    theirs = config_of("step3p5", STEP)
    model = read_config({"model_type": "step3p5"} | STEP)
    heads = {index: kind.heads for kind in model.layer_kinds for index in kind.layers}
    own = [theirs.per_layer_config[index].num_attention_heads for index in range(4)]
    assert [heads[index] for index in range(4)] == own == [64, 96, 96, 96]
    scales = {kind.softmax_scale for kind in model.layer_kinds}
    assert scales == {theirs.query_pre_attn_scalar**-0.5}
    assert read_config_token(config_token({"model_type": "step3p5"} | STEP)) == model


@pytest.mark.parametrize(
    ("model_type", "changes", "words"),
    [
        ("esm", {}, "position_embedding_type must be rotary"),
        ("esm", {"position_embedding_type": "rotary", "is_decoder": True}, "must be rotary"),
        ("molmo2_text", {"rope_scaling_layers": [0, 1]}, "rope_scaling_layers must list all"),
        ("ernie4_5_vl_moe_text", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "of default"),
        (
            "step3p5",
            STEP | {"rope_theta": [5e6, 1e4, 2e4, 1e4, 1e4]},
            "all sliding_attention layers",
        ),
        ("step3p5", STEP | {"yarn_only_types": ["sliding_attention"]}, "yarn_only_types"),
        ("step3p5", STEP | {"use_rope_layers": [1]}, "use_rope_layers"),
        ("step3p5", STEP | {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("step3p5", STEP | {"rope_parameters": {"full_attention": {}}}, "entry for each kind"),
        ("step3p5", STEP | {"attention_other_setting": {"head_dim": 64}}, "head_dim must be 128"),
        ("step3p5", STEP | {"layer_types": ["full_attention"] * 3}, "list of 4 entries"),
        ("step3p5", STEP | {"rope_scaling": {"rope_type": "default", "weight": 2.0}}, "not read"),
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
    with pytest.raises(ConfigFileError, match="short_mscale and long_mscale are not read"):
        read_config({"model_type": "phimoe"} | sizes | {"rope_parameters": block})
    without = {key: value for key, value in block.items() if "mscale" not in key}
    with pytest.raises(
        StrictDataclassClassValidationError, match="short_mscale"
    ):  # nor does the class take it without them
        config_of("phimoe", sizes | {"rope_parameters": without})
    with pytest.raises(ConfigFileError, match="short_mscale and long_mscale are not read"):
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
