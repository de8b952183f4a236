"""`read_config` against transformers: its own configs written out, its own modules asked."""

import importlib
import json
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc import rope_frequencies
from posenc.interop import read_config
from posenc.interop.models import LayerKind, ModelConfig
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.none import NoneConfig
from posenc.schemes.rope import RopeConfig

transformers = pytest.importorskip("transformers", minversion="5")

# Where each model type's modules stand, and what their classes begin with.
PLACES = {
    "llama": ("llama", "Llama"), "mistral": ("mistral", "Mistral"), "mixtral": ("mixtral", "Mixtral"),
    "qwen2": ("qwen2", "Qwen2"), "qwen3": ("qwen3", "Qwen3"), "gemma": ("gemma", "Gemma"),
    "gemma2": ("gemma2", "Gemma2"), "gemma3_text": ("gemma3", "Gemma3"), "phi": ("phi", "Phi"),
    "phi3": ("phi3", "Phi3"), "gpt_neox": ("gpt_neox", "GPTNeoX"),
    "deepseek_v2": ("deepseek_v2", "DeepseekV2"), "deepseek_v3": ("deepseek_v3", "DeepseekV3"),
    "gpt_oss": ("gpt_oss", "GptOss"), "olmo": ("olmo", "Olmo"), "olmo2": ("olmo2", "Olmo2"),
    "olmo3": ("olmo3", "Olmo3"), "smollm3": ("smollm3", "SmolLM3"),
    "starcoder2": ("starcoder2", "Starcoder2"), "granite": ("granite", "Granite"),
    "stablelm": ("stablelm", "StableLm"), "cohere": ("cohere", "Cohere"),
    "falcon": ("falcon", "Falcon"), "modernbert": ("modernbert", "ModernBert"),
    "gemma4_text": ("gemma4", "Gemma4Text"), "qwen2_vl_text": ("qwen2_vl", "Qwen2VL"),
    "qwen2_5_vl_text": ("qwen2_5_vl", "Qwen2_5_VL"), "qwen2_moe": ("qwen2_moe", "Qwen2Moe"),
    "qwen3_moe": ("qwen3_moe", "Qwen3Moe"), "olmoe": ("olmoe", "Olmoe"), "glm": ("glm", "Glm"),
    "glm4": ("glm4", "Glm4"), "glm4_moe": ("glm4_moe", "Glm4Moe"), "helium": ("helium", "Helium"),
    "ernie4_5": ("ernie4_5", "Ernie4_5"), "nemotron": ("nemotron", "Nemotron"),
    "persimmon": ("persimmon", "Persimmon"), "seed_oss": ("seed_oss", "SeedOss"),
    "granitemoe": ("granitemoe", "GraniteMoe"),
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4_096}
LISTS = {
    "short_factor": [1.0 + 0.01 * m for m in range(8)],
    "long_factor": [1.0 + 1.3 * m for m in range(8)],
}
SMALL = {"hidden_size": 128, "num_attention_heads": 8, "num_hidden_layers": 5}
# Values that are no class's defaults, in the second generation's words.
CHANGED: list[tuple[str, dict[str, Any]]] = [
    ("llama", SMALL | {"num_key_value_heads": 2, "rope_parameters": {"rope_theta": 5e5}}),
    ("llama", SMALL | {"head_dim": 24, "max_position_embeddings": 5_000}),
    ("llama", {"rope_parameters": {
        "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8_192},
        "max_position_embeddings": 131_072}),
    ("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0}}),
    ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 3.0}}),
    ("llama", {"rope_parameters": YARN | {"rope_theta": 1e6, "beta_fast": 24, "beta_slow": 2}}),
    ("llama", {"rope_parameters": YARN | {"rope_theta": 1e6, "attention_factor": 1.25}}),
    ("llama", {"rope_parameters": YARN | {"rope_theta": 1e6, "truncate": False}}),
    ("llama", SMALL | {"rope_parameters": LISTS | {
        "rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 512}}),
    ("mistral", SMALL | {"num_key_value_heads": 4, "sliding_window": None}),
    ("mistral", SMALL | {"num_key_value_heads": 4, "sliding_window": 77}),
    ("mixtral", SMALL | {"num_key_value_heads": 2, "sliding_window": 256}),
    ("qwen2", SMALL | {"num_key_value_heads": 2, "rope_parameters": YARN | {"rope_theta": 1e6}}),
    ("qwen2", SMALL | {"num_key_value_heads": 2, "use_sliding_window": True, "max_window_layers": 2,
                       "sliding_window": 99}),
    ("qwen3", SMALL | {"num_key_value_heads": 4, "head_dim": 48,
                       "layer_types": ["full_attention"] * 5}),
    ("gemma", SMALL | {"num_key_value_heads": 1, "head_dim": 40}),
    ("gemma2", SMALL | {"num_key_value_heads": 2, "head_dim": 40, "query_pre_attn_scalar": 99,
                        "sliding_window": 33}),
    ("gemma3_text", SMALL | {"num_key_value_heads": 2, "num_hidden_layers": 13,
                             "sliding_window_pattern": 4, "query_pre_attn_scalar": 50}),
    ("gemma3_text", {"rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}}),
    ("phi", {"rope_parameters": {"rope_theta": 3e4, "partial_rotary_factor": 0.4},
             "hidden_size": 2_560}),
    ("phi3", SMALL | {"max_position_embeddings": 131_072, "rope_parameters": LISTS | {
        "rope_type": "longrope", "rope_theta": 1e4}}),
    ("phi3", {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.75},
              "hidden_size": 3_072, "num_attention_heads": 24, "num_key_value_heads": 8}),
    ("gpt_neox", SMALL | {"rope_parameters": {"rope_theta": 2e4, "partial_rotary_factor": 0.5}}),
    ("deepseek_v2", SMALL | {"qk_rope_head_dim": 32, "qk_nope_head_dim": 48, "kv_lora_rank": 24,
                             "rope_parameters": YARN | {"rope_theta": 1e4, "mscale": 0.707,
                                                        "mscale_all_dim": 0.707}}),
    ("deepseek_v3", {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 40.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4_096},
        "max_position_embeddings": 163_840, "num_hidden_layers": 5}),
    ("deepseek_v3", {"rope_interleave": False, "num_hidden_layers": 5}),
    ("gpt_oss", {"num_hidden_layers": 24, "rope_parameters": {"rope_type": "default"}}),
    ("olmo2", SMALL | {"rope_parameters": {"rope_theta": 5e5}}),
    ("olmo3", {"rope_parameters": {
        "full_attention": YARN | {"rope_theta": 5e5}, "sliding_attention": {"rope_theta": 5e5}}}),
    ("smollm3", SMALL | {"num_key_value_heads": 2, "no_rope_layers": [1, 0, 0, 1, 1]}),
    ("smollm3", SMALL | {"num_key_value_heads": 2, "no_rope_layer_interval": 2}),
    ("smollm3", SMALL | {"num_key_value_heads": 2, "use_sliding_window": True,
                         "sliding_window": 50}),
    ("granite", SMALL | {"attention_multiplier": 0.015625}),
    ("stablelm", SMALL | {"num_key_value_heads": 8, "rope_parameters": {
        "rope_theta": 1e4, "partial_rotary_factor": 0.5}}),
    ("falcon", SMALL | {"multi_query": False}),
    ("falcon", SMALL | {"new_decoder_architecture": True, "num_kv_heads": 2}),
    ("modernbert", SMALL | {"local_attention": 60, "global_attn_every_n_layers": 2}),
    ("gemma4_text", {"num_global_key_value_heads": 2, "attention_k_eq_v": True,
                     "global_head_dim": 384}),
    ("glm4_moe", {"hidden_size": 5_120, "head_dim": 128, "num_hidden_layers": 4}),
    ("glm4_moe", SMALL | {"num_key_value_heads": 2, "rope_parameters": {
        "rope_theta": 1e6, "partial_rotary_factor": 1.0}}),
    ("nemotron", {"num_key_value_heads": 8, "num_hidden_layers": 4}),
    ("qwen3_moe", SMALL | {"num_key_value_heads": 4, "head_dim": 48}),
    ("granitemoe", SMALL | {"num_key_value_heads": 2, "attention_multiplier": 0.015625}),
    ("qwen2_vl_text", SMALL | {"num_key_value_heads": 2, "rope_parameters": {
        "rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e6}}),
]  # fmt: skip
# Of these classes transformers cannot build an attention layer from the defaults.
NO_DEFAULTS = ("glm4_moe", "nemotron")
DEFAULTS: list[tuple[str, dict[str, Any]]] = [
    (name, {}) for name in PLACES if name not in NO_DEFAULTS
]
ALL = DEFAULTS + CHANGED


def named(case: Any) -> str:
    return case if isinstance(case, str) else "-".join(case)[:40] or "defaults"


def config_of(model_type: str, changes: dict[str, Any]) -> Any:
    return transformers.CONFIG_MAPPING[model_type](**json.loads(json.dumps(changes)))


def module_of(model_type: str, name: str) -> Any:
    place, prefix = PLACES[model_type]
    module = importlib.import_module(f"transformers.models.{place}.modeling_{place}")
    prefixes = (prefix, prefix + "Text", prefix.replace("Text", ""))
    return next(getattr(module, one + name) for one in prefixes if hasattr(module, one + name))


def schemes(model: ModelConfig) -> list[tuple[LayerKind, RopeConfig]]:
    return [(k, k.scheme) for k in model.layer_kinds if isinstance(k.scheme, RopeConfig)]


def of_kind(rotary: Any, kind: LayerKind, name: str) -> Any:
    """An attribute of a rotary module, which some classes keep once per kind of layer."""
    return (
        getattr(rotary, f"{kind.name}_{name}", None)
        if hasattr(rotary, f"{kind.name}_{name}")
        else getattr(rotary, name)
    )


def ulps(value: Tensor, other: Tensor) -> int:
    """Distance in float32 numbers, for values of one sign."""
    one, two = value.float().view(torch.int32), other.float().view(torch.int32)
    return int((one.long() - two.long()).abs().max())


@pytest.mark.parametrize(("model_type", "changes"), ALL, ids=named)
def test_frequencies_are_those_of_transformers_own_rotary_module(
    model_type: str, changes: dict[str, Any]
) -> None:
    config = config_of(model_type, changes)
    rotary = module_of(model_type, "RotaryEmbedding")(config)
    model = read_config(config.to_dict())
    assert schemes(model)
    for kind, scheme in schemes(model):
        theirs = of_kind(rotary, kind, "inv_freq")
        scaling = of_kind(rotary, kind, "attention_scaling")
        exact, factor = rope_frequencies(scheme)
        if scheme.kind == "rope_proportional":
            assert torch.equal(exact == 0, theirs == 0)
        assert ulps(exact, theirs) <= 4
        assert factor == pytest.approx(scaling, rel=1e-12)
        bits, factor = rope_frequencies(scheme, mode="transformers")
        assert torch.equal(bits, theirs)
        assert factor == scaling


@pytest.mark.parametrize(("model_type", "changes"), ALL, ids=named)
def test_sizes_layers_and_windows_are_those_of_transformers_own_layers(
    model_type: str, changes: dict[str, Any]
) -> None:
    config = config_of(model_type, changes)
    model = read_config(config.to_dict())
    assert model.layers == config.num_hidden_layers
    assert model.hidden_size == config.hidden_size
    assert model.context == config.max_position_embeddings
    assert sorted(i for k in model.layer_kinds for i in k.layers) == list(range(model.layers))
    for kind in model.layer_kinds:
        for index in {kind.layers[0], kind.layers[-1]}:
            with torch.device("meta"):
                if model_type in ("gpt_neox", "falcon", "modernbert", "phi3"):
                    attention = module_of(model_type, "Attention")(config, layer_idx=index)
                else:
                    attention = module_of(model_type, "Attention")(config, index)
            check_attention(kind, attention, config)
            if getattr(config, "layer_types", None):
                word = config.layer_types[index]
                assert (kind.window is not None) == (word == "sliding_attention")


def check_attention(kind: LayerKind, attention: Any, config: Any) -> None:
    """Compare a kind of layer with an attention module of transformers, by the shapes of its weights."""
    scaling = getattr(attention, "scaling", None)
    if scaling is None:
        scaling = getattr(attention, "inv_norm_factor", attention.head_dim**-0.5)
    assert kind.softmax_scale == pytest.approx(float(scaling), rel=1e-12)
    if hasattr(attention, "kv_a_proj_with_mqa"):
        assert kind.cache_width == attention.kv_a_proj_with_mqa.out_features
        assert kind.head_dim == attention.qk_head_dim
        return
    if hasattr(attention, "q_proj"):
        q, k = attention.q_proj.out_features, attention.k_proj.out_features
        v = (attention.v_proj or attention.k_proj).out_features
    else:
        fused = next(
            getattr(attention, name)
            for name in ("qkv_proj", "query_key_value", "Wqkv")
            if hasattr(attention, name)
        )
        q = kind.heads * kind.head_dim
        k = v = (fused.out_features - q) // 2
    assert (q, k, v) == (kind.heads * kind.head_dim, *2 * (kind.kv_heads * kind.head_dim,))
    if kind.cache_width:
        assert kind.cache_width == k + v
    window = getattr(attention, "sliding_window", None)
    if kind.cache_width and hasattr(attention, "sliding_window"):
        assert kind.window == window


@pytest.mark.parametrize(("model_type", "changes"), ALL, ids=named)
def test_a_config_reads_the_same_as_dict_text_bytes_saved_file_and_path(
    model_type: str, changes: dict[str, Any], tmp_path: Any
) -> None:
    config = config_of(model_type, changes)
    model = read_config(config.to_dict())
    config.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    sources = (path, str(path), path.read_bytes(), path.read_text(), config.to_json_string(False))
    for source in sources:
        found = read_config(source)
        assert found.layer_kinds == model.layer_kinds
        assert (found.context, found.trained_length) == (model.context, model.trained_length)


@pytest.mark.parametrize(("model_type", "changes"), ALL, ids=named)
def test_what_is_written_back_is_read_by_transformers_as_the_same_frequencies(
    model_type: str, changes: dict[str, Any]
) -> None:
    config = config_of(model_type, changes)
    model = read_config(config.to_dict())
    record = {k: v for k, v in config.to_dict().items() if k != "rope_parameters"}
    generations = [{"rope_parameters": model.to_rope_parameters()}]
    if model_type not in ("gemma4_text", "olmo3"):  # which have no first generation, or half of one
        generations.append(model.to_rope_scaling())
    for block in generations:
        text = json.loads(json.dumps(record | block))
        again = read_config(text)
        assert again.layer_kinds == model.layer_kinds
        theirs = transformers.CONFIG_MAPPING[model_type](**text)
        rotary = module_of(model_type, "RotaryEmbedding")(theirs)
        for kind, scheme in schemes(model):
            bits, _ = rope_frequencies(scheme, mode="transformers")
            assert torch.equal(bits, of_kind(rotary, kind, "inv_freq")), block


# Layers without RoPE, and schemes without a ladder ---------------------------------------------------


def test_no_rope_layers_say_one_where_rope_is_used() -> None:
    config = config_of("smollm3", SMALL | {"num_key_value_heads": 2})
    model = read_config(config.to_dict())
    by_name = {kind.name: kind for kind in model.layer_kinds}
    assert by_name["no_rope"].layers == (3,)
    assert by_name["no_rope"].scheme == NoneConfig()
    assert by_name["full_attention"].layers == (0, 1, 2, 4)
    assert config.no_rope_layers == [1, 1, 1, 0, 1]


@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12, 20, 32, 71, 112])
@pytest.mark.parametrize("model_type", ["bloom", "mpt", "falcon"])
def test_alibi_slopes_are_those_of_transformers(model_type: str, heads: int) -> None:
    sizes: dict[str, dict[str, Any]] = {
        "bloom": {"hidden_size": heads * 8, "n_head": heads},
        "mpt": {"d_model": heads * 8, "n_heads": heads},
        "falcon": {"hidden_size": heads * 8, "num_attention_heads": heads, "alibi": True},
    }  # fmt: skip
    model = read_config(config_of(model_type, sizes[model_type]).to_dict())
    assert model.main.scheme == AlibiConfig(heads=heads)
    ours = model.main.scheme.build().slopes
    module = importlib.import_module(f"transformers.models.{model_type}.modeling_{model_type}")
    if model_type == "mpt":
        rows = module.build_mpt_alibi_tensor(heads, 5)[:, 0]
    else:
        mask = torch.ones(1, 5, dtype=torch.long)
        rows = module.build_alibi_tensor(mask, heads, torch.float32)[:, 0]
    theirs = rows[:, 1] - rows[:, 0]  # all of them rise by one slope a token
    if model_type == "falcon":
        assert torch.equal(ours.bfloat16().float(), theirs)
    else:
        assert torch.allclose(ours.float(), theirs, rtol=1e-6)
    assert ("before the logits are scaled" in " ".join(model.main.notes)) == (
        model_type == "falcon"
    )


@pytest.mark.parametrize("hidden", [4_096, 512])
@pytest.mark.parametrize("rotary", [64, 32, 6])
def test_gptj_turns_neighbouring_pairs_by_its_own_table(rotary: int, hidden: int) -> None:
    from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions

    config = config_of("gptj", {"rotary_dim": rotary, "n_embd": hidden, "n_head": 8})
    model = read_config(config.to_dict())
    scheme = model.main.scheme
    assert isinstance(scheme, RopeConfig)
    assert (scheme.layout, scheme.rotary_dim, scheme.dim) == ("interleaved", rotary, hidden // 8)
    sin = create_sinusoidal_positions(2, rotary)[1, : rotary // 2]  # row 1: sin of the frequencies
    assert ulps(rope_frequencies(scheme)[0].sin(), sin) <= 4


def test_learned_tables_have_the_rows_and_width_of_transformers_embeddings() -> None:
    for model_type, changes, rows, first in (
        ("bert", {}, 512, 0), ("bert", {"max_position_embeddings": 40, "hidden_size": 48}, 40, 0),
        ("roberta", {"max_position_embeddings": 514}, 512, 2),
        ("xlm-roberta", {"max_position_embeddings": 514, "pad_token_id": 3}, 510, 4),
        ("distilbert", {}, 512, 0), ("gpt2", {}, 1_024, 0), ("gpt2", {"n_positions": 77}, 77, 0),
        ("opt", {}, 2_048, 2),
    ):  # fmt: skip
        config = config_of(model_type, changes | {"num_hidden_layers": 1})
        model = read_config(config.to_dict())
        assert model.main.scheme == LearnedConfig(dim=config.hidden_size, max_len=rows)
        assert model.context == rows
        assert model.main.scheme.build().untrained
        with torch.device("meta"):
            built = transformers.AutoModel.from_config(config)
        table = next(
            weight for name, weight in built.named_parameters()
            if any(word in name for word in ("position_embeddings", "wpe", "embed_positions"))
        )  # fmt: skip
        assert table.shape == (rows + first, config.hidden_size)
        assert (f"position p takes row p + {first}" in " ".join(model.notes)) == bool(first)


@pytest.mark.parametrize(
    "model_type",
    ["llama", "gpt_neox", "cohere", "deepseek_v2", "deepseek_v3", "qwen2_moe", "qwen3_moe", "olmoe",
     "glm", "glm4", "glm4_moe", "helium", "ernie4_5", "nemotron", "persimmon", "seed_oss",
     "granitemoe"],
)  # fmt: skip
def test_the_layout_is_the_one_by_which_transformers_turns_a_query(model_type: str) -> None:
    latent = {"qk_rope_head_dim": 16, "qk_nope_head_dim": 16}
    changes = SMALL | (latent if "deepseek" in model_type else {"head_dim": 16})
    config = config_of(model_type, changes | {"num_key_value_heads": 8})
    scheme = read_config(config.to_dict()).main.scheme
    assert isinstance(scheme, RopeConfig)
    place = PLACES[model_type][0]
    module = importlib.import_module(f"transformers.models.{place}.modeling_{place}")
    q = torch.randn(1, 8, 6, 16, generator=torch.Generator().manual_seed(0))
    angles = module_of(model_type, "RotaryEmbedding")(config)(q, torch.arange(6)[None])
    if model_type == "deepseek_v2":
        theirs, _ = module.apply_rotary_emb(q, q, angles)
    elif model_type == "deepseek_v3":
        theirs, _ = module.apply_rotary_pos_emb_interleave(q, q, *angles)
    elif model_type == "persimmon":  # whose attention parts the head before
        theirs, _ = module.apply_rotary_pos_emb(q[..., :8], q[..., :8], *angles)
        theirs = torch.cat((theirs, q[..., 8:]), dim=-1)
    else:
        theirs, _ = module.apply_rotary_pos_emb(q, q, *angles)
    share = scheme.rotary_dim / 16
    plain = RopeConfig(
        dim=16, base=scheme.base, layout=scheme.layout, partial_rotary_factor=share
    ).build()
    ours, _ = plain.rotate(q, q)
    if model_type == "deepseek_v3":  # writes what it turned as halves; scores do not see the order
        theirs = theirs.unflatten(-1, (2, 8)).transpose(-1, -2).flatten(-2)
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_gptj_turns_a_query_as_the_scheme_that_was_read() -> None:
    from transformers.models.gptj.modeling_gptj import (
        apply_rotary_pos_emb,
        create_sinusoidal_positions,
    )

    scheme = read_config(config_of("gptj", {}).to_dict()).main.scheme
    assert isinstance(scheme, RopeConfig)
    q = torch.randn(1, 6, 2, 256, generator=torch.Generator().manual_seed(1))  # (b, t, h, d) there
    sin, cos = create_sinusoidal_positions(6, 64)[None].chunk(2, dim=-1)
    theirs = torch.cat((apply_rotary_pos_emb(q[..., :64], sin, cos), q[..., 64:]), dim=-1)
    ours, _ = scheme.build().rotate(q.transpose(1, 2), q.transpose(1, 2))
    assert torch.allclose(ours.transpose(1, 2), theirs, atol=1e-5)
