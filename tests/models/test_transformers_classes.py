"""Configs are read as the installed transformers reads them: its own modules are compared."""

import dataclasses
import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc import rope_frequencies
from posenc.errors import ConfigFileError
from posenc.models import LayerKind, ModelConfig, config_token, read_config
from posenc.models.family import FAMILIES, kind_of
from posenc.models.rope_bases import bases_of
from posenc.schemes.base import NoneConfig
from posenc.schemes.rope import RopeConfig
from posenc.testing import assert_matches
from tests.models.configs import (
    LLAMA,
    LLAMA3_BLOCK,
    YARN_BLOCK,
    Config,
    of_type,
    preset_config,
    refusal,
)
from tests.models.generate_families import (
    READS_HEAD_DIM,
    RUN_WITH,
)
from tests.models.published_models.establish import establish
from tests.models.test_published_models import differences

transformers = pytest.importorskip("transformers", minversion="5")

# Model types, and values that are not the defaults of their classes.
CHANGED = json.loads(Path(__file__).with_name("transformers_cases.json").read_text())
# The classes of these types are those of DeepSeek V3 and Llama.
BORROWED = ("kimi_k2", "internlm3", "iquestcoder")
ROPE = {name: row for name, row in FAMILIES.items() if "rope" in row}
HYBRID = [
    name
    for name, row in ROPE.items()
    if any("attention" in kind and "state" in kind for kind in row.get("kinds", {}).values())
]
# Blocks that are written back have no llama_4_scaling_beta, as a note of their layers says. The other
# classes cannot be built in parts, and are run as a whole below.
RUN_WHOLE = (
    "beam", "cohere_compass_text", "dbrx", "doge", "embedding_gemma2_text", "esm", "flint",
    "gpt_neox_japanese", "hrm_text", "hunyuan_vl_text", "jetmoe", "laguna", "longcat_flash",
    "minimax_m3_vl_text", "ministral3", "mistral4", "mllama_text_model", "qwen3_omni_moe_text",
    "openai_privacy_filter", "t5gemma2_text", "zaya",
)  # fmt: skip
TYPES = [name for name in ROPE if name not in (*BORROWED, *HYBRID, *RUN_WHOLE)]
# transformers cannot build an attention layer of these classes from their defaults.
NO_DEFAULTS = (
    "glm4_moe", "glm4v_moe_text", "glm4v_text", "glm_image_text", "hunyuan_v1_dense", "hunyuan_v1_moe",
    "ministral", "nemotron",
)  # fmt: skip
CASES = [(name, {}) for name in TYPES if name not in NO_DEFAULTS] + CHANGED


def config_of(model_type: str, changes: Config) -> Any:
    return transformers.CONFIG_MAPPING[model_type](**json.loads(json.dumps(changes)))


def module_of(model_type: str) -> Any:
    module = transformers.CONFIG_MAPPING[model_type].__module__
    return importlib.import_module(module.replace("configuration_", "modeling_"))


def class_of(model_type: str, part: str) -> Any:
    prefix = transformers.CONFIG_MAPPING[model_type].__name__.removesuffix("Config")
    names = [prefix + part, prefix.replace("Text", "") + part]
    module = module_of(model_type)
    return next(getattr(module, name) for name in names if hasattr(module, name))


def rope_kinds(model: ModelConfig) -> list[tuple[LayerKind, RopeConfig]]:
    return [(k, k.scheme) for k in model.layer_kinds if isinstance(k.scheme, RopeConfig)]


def attribute(rotary: Any, kind: str, name: str) -> Any:
    """An attribute of a rotary module, which some classes have once per kind of layer."""
    own = f"{kind}_{name}"
    return getattr(rotary, own) if hasattr(rotary, own) else getattr(rotary, name)


def check_frequencies(model: ModelConfig, rotary: Any) -> None:
    """Compare frequencies and the factor of attention for every kind of layer with RoPE."""
    assert rope_kinds(model)
    for kind, scheme in rope_kinds(model):
        theirs = attribute(rotary, kind.block_name, "inv_freq")
        scaling = attribute(rotary, kind.block_name, "attention_scaling")
        if type(rotary).__name__.startswith("Ernie4_5_VL"):  # in the order of axes, not of pairs
            theirs = rotary.recomposition_frequencies(theirs.expand(3, -1))[::2]
        # Theirs are float32 throughout: a power, a division, a product. In the mode that runs their
        # operations on the same numbers, posenc has their bits.
        ours, exact = rope_frequencies(scheme, mode="transformers"), rope_frequencies(scheme)
        for (frequencies, factor), rtol in ((ours, 0.0), (exact, 6e-7)):
            torch.testing.assert_close(frequencies.float(), theirs, rtol=rtol, atol=0)
            assert factor == pytest.approx(scaling, rel=1e-12)


def check_attention(kind: LayerKind, attention: Any) -> None:
    """Compare a kind of layer with an attention module, by the shapes of its weights."""
    scaling = getattr(attention, "scaling", None)
    if scaling is None:
        scaling = getattr(attention, "inv_norm_factor", attention.head_dim**-0.5)
    assert kind.softmax_scale == pytest.approx(float(scaling), rel=1e-12)
    if hasattr(attention, "kv_a_proj_with_mqa"):
        index = getattr(attention, "indexer", None)
        index_width = index.wk.out_features if index else 0
        assert kind.cache_width == attention.kv_a_proj_with_mqa.out_features + index_width
        assert kind.head_dim == attention.qk_head_dim
        return
    if kind.name.endswith(", shared cache"):
        assert (kind.cache_width, hasattr(attention, "k_proj")) == (0, False)
        return
    queries = kind.heads * kind.head_dim
    if hasattr(attention, "q_proj"):
        assert attention.q_proj.out_features == queries
        keys = attention.k_proj.out_features
        values = (attention.v_proj or attention.k_proj).out_features
    else:
        names = ("qkv_proj", "query_key_value", "Wqkv")
        fused = next(getattr(attention, name) for name in names if hasattr(attention, name))
        keys = values = (fused.out_features - queries) // 2
    assert keys == kind.kv_heads * kind.head_dim
    assert kind.cache_width in (0, keys + values)
    if kind.cache_width and hasattr(attention, "sliding_window"):
        is_windowed = getattr(
            attention, "is_sliding", True
        )  # EXAONE's have the number in all layers
        assert kind.window == (attention.sliding_window if is_windowed else None)


def check_written(model: ModelConfig, config: Any, model_type: str) -> None:
    """Both generations of keys that are written back give transformers the same frequencies."""
    record = {k: v for k, v in config.to_dict().items() if k != "rope_parameters"}
    blocks = [{"rope_parameters": model.to_rope_parameters()}]
    bases = bases_of(FAMILIES[model_type]["rope"]).values()
    has_old = model_type != "olmo3"  # half of one
    if all(base.names for base in bases) and has_old:
        blocks.append(model.to_rope_scaling())
    for block in blocks:
        text = json.loads(json.dumps(record | block))
        assert read_config(text).layer_kinds == model.layer_kinds
        rotary = class_of(model_type, "RotaryEmbedding")(config_of(model_type, text))
        if model_type.startswith("ernie4_5_vl"):
            check_frequencies(model, rotary)
            continue
        for kind, scheme in rope_kinds(model):
            bits, _ = rope_frequencies(scheme, mode="transformers")
            assert torch.equal(bits, attribute(rotary, kind.block_name, "inv_freq")), block


@pytest.mark.parametrize(("model_type", "changes"), CASES, ids=lambda v: str(v)[:30])
def test_a_config_is_read_as_its_class_reads_it(model_type: str, changes: Config) -> None:
    config = config_of(model_type, changes)
    model = read_config(config.to_dict())
    assert model.ignored == ()
    rotary = class_of(model_type, "RotaryEmbedding")(config)
    check_frequencies(model, rotary)
    assert assert_matches(rotary, config) == "float32 arithmetic"
    assert model.layers == config.num_hidden_layers
    assert model.hidden_size == config.hidden_size
    assert model.context == config.max_position_embeddings
    assert sorted(i for k in model.layer_kinds for i in k.layers) == list(range(model.layers))
    for kind in model.layer_kinds:
        for index in {kind.layers[0], kind.layers[-1]}:
            attention_class = class_of(model_type, "Attention")
            takes = [*inspect.signature(attention_class).parameters]
            arguments = (
                {"layer_idx": index} if "layer_idx" in takes else dict.fromkeys(takes[1:2], index)
            )
            with torch.device("meta"):
                attention = attention_class(config, **arguments)
            check_attention(kind, attention)
            if getattr(config, "layer_types", None):
                is_windowed = bool(re.match("sliding|chunked", config.layer_types[index]))
                assert (kind.window is not None) == is_windowed
    check_written(model, config, model_type)
    lists = ("layer_types", "no_rope_layers", "indexer_types")
    if model_type not in ("gemma3_text", "gemma4_text") and not {*lists} & changes.keys():
        # The class makes them from other keys, and so does posenc.
        record = {key: value for key, value in config.to_dict().items() if key not in lists}
        assert read_config(record | changes).layer_kinds == model.layer_kinds


READ_BY_TEXT = ("gemma3", "llama4", "llava", "mistral3", "qwen2_vl", "qwen3_5", "voxtral")


# transformers cannot build the config or the text model of these from defaults.
NOT_BUILT = (
    "cohere_compass", "gemma4_assistant", "glm46v", "glm4v", "glm4v_moe", "glm_image",
    "qwen3_omni_moe_thinker", "qwen4_exp",
)  # fmt: skip


@pytest.mark.parametrize(
    "outer",
    [
        name
        for name in transformers.CONFIG_MAPPING
        if kind_of(name) == "text_part" and name not in NOT_BUILT
    ],
)
def test_a_model_of_several_parts_is_read_by_its_text_model_or_refused_by_name(outer: str) -> None:
    whole = transformers.CONFIG_MAPPING[outer]()
    record = json.loads(json.dumps(whole.to_dict(), default=str))
    text, problem = record["text_config"], ""
    try:
        model = read_config(record)
    except ConfigFileError as error:
        problem = str(error)
    if problem:
        assert outer not in READ_BY_TEXT
        of_type = text["model_type"] in problem and "not read" in problem
        assert of_type or "num_kv_shared_layers" in problem
    else:
        assert (model.assumption, model.ignored) == ("", ())
        assert model.layer_kinds == read_config(text).layer_kinds


@pytest.mark.parametrize(
    "model_type",
    ["llama", "qwen3", "gemma3_text", "gemma3", "gemma4", "llama4", "qwen2_vl", "qwen3_vl", "mistral3",
     "gpt_oss", "deepseek_v3", "phi3", "olmo3", "jamba", "falcon", "bloom", "mpt", "t5", "bert", "gpt2"],
)  # fmt: skip
def test_a_config_object_is_read_as_the_file_that_it_saves(model_type: str, tmp_path: Path) -> None:
    """With values that are no JSON: a dtype, labels by whole numbers, the object of a part."""
    config = config_of(model_type, {})
    config.dtype, config.id2label = torch.bfloat16, {0: "no", 1: "yes"}
    config.save_pretrained(tmp_path)
    whole = tmp_path / "whole.json"
    whole.write_text(config.to_json_string(use_diff=False))
    model, saved = read_config(config), read_config(tmp_path / "config.json")
    assert model == read_config(whole)
    assert config_token(config) == config_token(whole)
    # The saved file leaves out what is a default.
    assert dataclasses.replace(model, assumed=()) == dataclasses.replace(saved, assumed=())


@pytest.mark.usefixtures("no_shape_checks")
def test_any_object_with_to_dict_is_a_config_and_its_class_is_none() -> None:
    class Holder:
        def __init__(self, keys: Any) -> None:
            self.keys = keys

        def to_dict(self) -> Any:
            return self.keys

    nested = Holder({"model_type": "gemma3", "text_config": Holder(of_type("gemma3_text"))})
    assert read_config(nested).layer_kinds == read_config(of_type("gemma3_text")).layer_kinds
    for bad, name in ((Holder, "type"), (Holder([LLAMA]), "list"), (Holder(None), "NoneType")):
        assert str(refusal(bad)).endswith(f"got {name}.")


@pytest.mark.parametrize("model_type", READS_HEAD_DIM)
def test_a_head_width_of_its_own_is_read_where_the_class_reads_it(model_type: str) -> None:
    row, width, kv_heads = FAMILIES[model_type], 24, 4
    if sections := row["rope"].get("sections"):  # their pairs fill the rotated width
        width = int(2 * sum(sections) / row["rope"].get("share", 1))
    sizes = {"hidden_size": 48, "num_attention_heads": 4, "head_dim": width}
    if row.get("kv_heads") != "heads":
        sizes["num_key_value_heads"] = kv_heads = 2
    config = config_of(model_type, sizes)
    kinds = read_config(json.loads(json.dumps(config.to_dict(), default=str))).layer_kinds
    assert {kind.head_dim for kind in kinds if kind.heads} == {width}
    assert {kind.kv_heads for kind in kinds if kind.heads} == {kv_heads}


@pytest.mark.parametrize("pattern", [1, 2])
def test_first_layers_of_cohere_2_moe_rotate_where_they_have_no_pattern(pattern: int) -> None:
    first = {"first_k_dense_replace": 3, "prefix_dense_sliding_window_pattern": pattern}
    built = config_of("cohere2_moe", {"num_hidden_layers": 8} | first)
    saved = json.loads(json.dumps(built.to_dict(), default=str))  # which lists the layers
    by_rule = {"model_type": "cohere2_moe", "num_hidden_layers": 8} | first
    model = read_config(saved)
    assert model.layer_kinds == read_config(by_rule).layer_kinds
    assert list(differences(model, establish({"config": saved}))) == []
    full = [kind for kind in model.layer_kinds if kind.window is None]
    rotated = {index for kind in full if kind.facts.rotates for index in kind.layers}
    assert rotated == ({0, 1, 2} if pattern == 1 else set())


def test_mimo_is_read_with_the_keys_of_its_published_file() -> None:
    """Those that its class in transformers ignores must say what it does; its window counts the query."""
    pattern = [int(index > 0 and index % 6 != 5) for index in range(48)]
    keys = {
        "rope_theta": 5_000_000, "swa_rope_theta": 10_000, "partial_rotary_factor": 0.334,
        "sliding_window": 128, "sliding_window_size": 128, "attention_chunk_size": 128,
        "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8, "swa_head_dim": 192,
        "swa_v_head_dim": 128, "hybrid_layer_pattern": pattern, "add_swa_attention_sink_bias": True,
    }  # fmt: skip
    mimo = {"model_type": "mimo_v2_flash"}
    model = read_config(mimo | keys)
    assert model.layer_kinds == read_config(mimo).layer_kinds
    theirs = transformers.CONFIG_MAPPING["mimo_v2_flash"].from_dict(dict(keys))
    assert [kind.window for kind in model.layer_kinds] == [None, theirs.sliding_window]
    with pytest.raises(ConfigFileError, match="swa_rope_theta"):
        read_config(mimo | keys | {"swa_rope_theta": 2_000})


def test_layers_with_an_index_of_minimax_m3_are_those_of_the_keys_of_its_files() -> None:
    sparse = {"sparse_attention_freq": [0, 0, 0, 1, 0, 1], "sparse_index_dim": 32}
    keys = {"num_hidden_layers": 6, "sparse_attention_config": sparse}
    theirs = config_of("minimax_m3_vl_text", keys)
    full, indexed = read_config({"model_type": "minimax_m3_vl_text"} | keys).layer_kinds
    words = ["full_attention", "minimax_m3_sparse"]
    assert [words[index in indexed.layers] for index in range(6)] == theirs.layer_types
    assert indexed.cache_width - full.cache_width == theirs.index_head_dim


@pytest.mark.parametrize("model_type", ["granite_swa", "granitemoe_swa"])
def test_every_layer_of_granite_has_the_base_of_its_list(model_type: str) -> None:
    bases = [0, 1e4, 1e4, 5e4, 1e6, 1e4, 1e4, 5e4]
    built = config_of(model_type, {"num_hidden_layers": 8, "layer_rope_theta": bases})
    config = json.loads(json.dumps(built.to_dict(), default=str))
    model = read_config(config)
    assert list(differences(model, establish({"config": config}))) == []
    read = {index: scheme.base for kind, scheme in rope_kinds(model) for index in kind.layers}
    assert [read.get(index, 0) for index in range(8)] == bases
    assert model.to_rope_parameters() == {}  # no block has several bases


LATENT = [name for name, row in ROPE.items() if "kv_lora_rank" in row["defaults"]]


YARN_40: Config = {
    "rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 256, "mscale": 1.0,
    "mscale_all_dim": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "model_type",
    [name for name in LATENT if name not in BORROWED and ROPE[name].get("rotates") != "False"],
)
def test_mscale_of_all_dimensions_changes_logits_where_the_class_multiplies_them(
    model_type: str,
) -> None:
    own = config_of(model_type, {}).rope_parameters
    by_kind = {kind: inner | YARN_40 for kind, inner in own.items() if isinstance(inner, dict)}
    block = by_kind or own | YARN_40
    config = config_of(model_type, {"rope_parameters": block} | RUN_WITH.get(model_type, {}))
    model = read_config(json.loads(json.dumps(config.to_dict(), default=str)))
    for kind in model.layer_kinds:
        if not kind.heads:
            continue
        with torch.device("meta"):
            attention = latent_attention(model_type)(config, kind.layers[0])
        assert kind.softmax_scale == pytest.approx(attention.scaling, rel=1e-12), kind.name
        scale = kind.head_dim**-0.5
        assert attention.scaling > 1.5 * scale


def latent_attention(model_type: str) -> Any:
    """The attention of a class whose cache is a latent vector."""
    module = module_of(model_type)
    return next(
        part
        for name, part in vars(module).items()
        if name.endswith(("Attention", "MLA"))
        and inspect.isclass(part)
        and "kv_a_proj_with_mqa" in inspect.getsource(part)
    )


# Others are compared with an attention layer of their class above.
SCALE_KEYS = [
    name
    for name, row in ROPE.items()
    if re.match(r"[a-z_]+( \*\* -0.5| or .*)?$", row.get("scale", "")) and name not in dict(CASES)
]


@pytest.mark.parametrize("model_type", SCALE_KEYS)
def test_an_absent_scale_of_logits_is_that_of_the_class(model_type: str) -> None:
    with torch.device("meta"):
        config = config_of(model_type, RUN_WITH.get(model_type, {}))
        config.allow_global_per_layer_attribute_access = True
        part = "SelfAttention" if model_type == "t5gemma2_text" else "Attention"
        attention = class_of(model_type, part)(config, 0)
    for kind in read_config({"model_type": model_type} | RUN_WITH.get(model_type, {})).layer_kinds:
        if kind.heads:
            assert kind.softmax_scale == pytest.approx(attention.scaling, rel=1e-12)


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


def test_longrope_has_other_words_and_yarn_a_factor_of_null() -> None:
    config = preset_config("phi-3-mini-128k")
    scheme = read_config(config).main.scheme
    for word in ("su", "yarn"):  # "su" is the word of the file before June 2024
        renamed = config | {"rope_scaling": config["rope_scaling"] | {"type": word}}
        assert read_config(renamed).main.scheme == scheme
    block = {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 2_048}
    model = read_config(LLAMA | {"rope_scaling": block})
    sizes = {key: value for key, value in LLAMA.items() if key != "model_type"}
    config = config_of("llama", sizes | {"rope_scaling": block})
    check_frequencies(model, class_of("llama", "RotaryEmbedding")(config))
    assert getattr(model.main.scheme, "factor", None) == 4


TYPED_BLOCKS: list[Config] = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 8.0},
    {"rope_type": "dynamic", "factor": 8.0},
    YARN_BLOCK,
    LLAMA3_BLOCK,
]


@pytest.mark.parametrize("other", [None, "default", "linear", "dynamic", "yarn", "llama3", "warp"])
@pytest.mark.parametrize("block", TYPED_BLOCKS, ids=lambda block: block["rope_type"])
@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_rope_type_is_taken_before_type_and_the_other_word_is_named(
    place: str, block: Config, other: str | None
) -> None:
    typed = block | {"type": other} if other else block
    sizes = {key: value for key, value in LLAMA.items() if key != "model_type"}
    config = config_of("llama", sizes | {place: typed})
    assert config.rope_parameters["rope_type"] == block["rope_type"]
    model = read_config(LLAMA | {place: typed})
    check_frequencies(model, class_of("llama", "RotaryEmbedding")(config))
    assert model.layer_kinds == read_config(LLAMA | {place: block}).layer_kinds
    named = [sentence for sentence in model.assumed if f"{place}.type says" in sentence]
    assert bool(named) == (other not in (None, block["rope_type"]))
    assert all(f"{block['rope_type']} is taken" in sentence for sentence in named)


def test_a_block_of_the_word_type_alone_and_of_another_type_s_keys() -> None:
    alone = {"type": "linear", "factor": 8.0}
    assert read_config(LLAMA | {"rope_scaling": alone}) == read_config(
        LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    )
    # What the overruled type alone would read stays a key that is not read.
    left = refusal(LLAMA | {"rope_scaling": alone | {"rope_type": "default"}})
    assert left.key == "rope_scaling.factor"


def test_layers_without_rope_are_those_of_transformers() -> None:
    """meta-llama/Llama-4-Scout-17B-16E has an empty no_rope_layers and 48 layers."""
    changes: Config = {"num_hidden_layers": 48, "no_rope_layers": [], "no_rope_layer_interval": 2}
    model = read_config(of_type("llama4_text", **changes), "llama")
    (without,) = [kind for kind in model.layer_kinds if isinstance(kind.scheme, NoneConfig)]
    theirs = config_of("llama4_text", changes).no_rope_layers  # 1 stands for RoPE
    assert [int(index not in without.layers) for index in range(48)] == theirs
    switch = {"use_sliding_window": True, "sliding_window": 1_024}
    full, windowed = read_config({"model_type": "smollm3"} | switch).layer_kinds
    assert (full.window, windowed.window) == (None, 1_024)
    assert isinstance(windowed.scheme, NoneConfig)
    types = config_of("smollm3", switch).layer_types
    assert [index for index, name in enumerate(types) if "sliding" in name] == [*windowed.layers]


BY_KIND = [name for name, row in ROPE.items() if "" not in bases_of(row["rope"])]


@pytest.mark.parametrize("model_type", [*BY_KIND, "llama", "gpt_oss"])
def test_a_truncate_that_transformers_does_not_find_is_read_and_said(model_type: str) -> None:
    theirs, ours, said = {}, {}, {}
    bases = bases_of(ROPE[model_type]["rope"])
    for truncate in (True, False):
        block: Config = YARN_BLOCK | {"truncate": truncate}
        blocks: Config = {
            word: block | {"rope_theta": base.default or 5e5}
            for word, base in bases.items()
            if word
        }
        if blocks.keys() == {"sliding_attention"}:
            blocks["full_attention"] = None
        config = config_of(model_type, {"rope_parameters": blocks or block})
        model = read_config(config)
        kind, scheme = rope_kinds(model)[0]
        rotary = class_of(model_type, "RotaryEmbedding")(config)
        theirs[truncate] = attribute(rotary, kind.block_name, "inv_freq")
        ours[truncate] = rope_frequencies(scheme, mode="transformers")[0]
        said[truncate] = any("does not find the key" in sentence for sentence in model.assumed)
    assert torch.equal(ours[True], theirs[True])
    assert not torch.equal(ours[False], ours[True])
    assert said == {True: False, False: not torch.equal(ours[False], theirs[False])}
    assert said[False] == (model_type in BY_KIND)


def test_frequencies_of_mistral_large_4_are_scaled_by_numbers_of_its_checkpoint() -> None:
    config = config_of("mistral_large4_text", {})
    rotary = class_of("mistral_large4_text", "RotaryEmbedding")(config)
    assert "alpha" in rotary.state_dict()
    at = torch.zeros(1, 1, 8), torch.tensor([[3]])
    before, _ = rotary(*at)
    rotary.alpha.fill_(0.5)
    assert not torch.allclose(before, rotary(*at)[0])
    with pytest.raises(ConfigFileError, match="learned numbers, which stand in its checkpoint"):
        read_config(json.loads(json.dumps(config.to_dict(), default=str)))
