"""Every class of transformers, run, does what is read of its config; every type is read or refused by name.

Cases of oracle_cases.json change keys of a class; tests/models/oracle.py says what is compared.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import transformers

from posenc.errors import ConfigFileError
from posenc.models import read_config
from posenc.models.family import FAMILIES, kind_of
from posenc.testing import assert_matches
from tests.longer import mostly
from tests.models.configs import Config
from tests.models.generate_families import (
    CAUSAL_TYPES,
    FEW,
    READS_HEAD_DIM,
    RUN_WITH,
    causal_types,
    outcome,
)
from tests.models.oracle import (
    ROPE,
    block_differences,
    config_of,
    differences,
    frequency_differences,
    rope_kinds,
    rotary_of,
    saved,
    size_differences,
    state_differences,
)
from tests.models.published_models.establish import establish

# Types of the installed release without a table of positions; tables are those of test_oracle_tables.py.
# RoFormer rotates in its own way, see test_families_rows.py.
TYPES = [
    name
    for name, row in FAMILIES.items()
    if name in transformers.CONFIG_MAPPING and name != "roformer" and "stacks" not in row
    if row.get("position", {}).get("kind") not in ("learned", "sinusoidal")
]
# Run always; the others, as `mostly` does, where the reader has changed.
OFTEN = (
    "bloom", "cohere2", "falcon", "gemma2", "gemma3_text", "glm4", "gpt_neox", "gpt_oss", "llama",
    "llama4_text", "mistral", "mpt", "olmo2", "phi3", "qwen2", "qwen3", "qwen3_next",
)  # fmt: skip
HYBRID = [
    name
    for name, row in ROPE.items()
    if any("attention" in kind and "state" in kind for kind in row.get("kinds", {}).values())
]
# The class has as many layers as its lists, or shares keys among more than a few.
AS_DEEP_AS_IT_IS = (*HYBRID, *RUN_WITH, "gemma3n_text")
YARN_40: Config = {
    "rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 256, "mscale": 1.0,
    "mscale_all_dim": 1.0,
}  # fmt: skip
# Written blocks have no llama_4_scaling_beta, as a note of their layers says; ESM's base is in its code.
NOT_WRITTEN = ("beam", "esm", "ministral3", "mistral4")
# A saved config of these has a base for each layer, which counts before any block.
LISTS_BASES = ("granite_swa", "granitemoe_swa")
# Classes with fixed tables, and types whose code is that of Llama and DeepSeek V3.
NO_OWN_MODULE = ("codegen", "gptj", "internlm3", "iquestcoder", "kimi_k2")


def with_mscale(model_type: str) -> Config:
    """A block by which classes of latent attention multiply their logits."""
    own = config_of(model_type, {}).rope_parameters
    by_kind = {kind: inner | YARN_40 for kind, inner in own.items() if isinstance(inner, dict)}
    return {"rope_parameters": by_kind or own | YARN_40} | RUN_WITH.get(model_type, {})


def case_name(case: tuple[str, Config]) -> str:
    model_type, changes = case
    return f"{model_type}-{str(changes)[:40]}"


CASES = [
    *map(tuple, json.loads(Path(__file__).with_name("oracle_cases.json").read_text())),
    *[
        (name, with_mscale(name))
        for name in TYPES
        if "kv_lora_rank" in FAMILIES[name]["defaults"] and ROPE[name].get("rotates") != "False"
    ],
]
OFTEN_CHANGED = [case for case in CASES if case[0] in (*OFTEN, "deepseek_v3")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_type", mostly(TYPES, *OFTEN))
def test_a_class_does_what_is_read_of_its_config(model_type: str) -> None:
    """Of a few layers, where no list of layers is needed: sizes and layers of all are its own."""
    config = config_of(model_type, RUN_WITH.get(model_type, {}))
    model = read_config(saved(config))
    assert [*size_differences(model, config, FAMILIES[model_type])] == []
    alone = read_config({"model_type": model_type} | RUN_WITH.get(model_type, {}))
    assert alone.context == model.context  # the row has the defaults of the class
    assert alone.layer_kinds == model.layer_kinds or model_type in LISTS_BASES
    few = {} if model_type in AS_DEEP_AS_IT_IS else {"num_hidden_layers": FEW}
    check(model_type, few | RUN_WITH.get(model_type, {}))
    if model_type in HYBRID:
        assert [*state_differences(model_type)] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("model_type", "changes"), mostly(CASES, *OFTEN_CHANGED, name=case_name))
def test_a_class_does_what_is_read_of_a_changed_config(model_type: str, changes: Config) -> None:
    """A config that the class saves, and one with these keys alone, are read as the class works."""
    model = check(model_type, changes)
    assert read_config({"model_type": model_type} | changes).layer_kinds == model.layer_kinds


@pytest.mark.parametrize("model_type", READS_HEAD_DIM)
def test_a_head_width_of_its_own_is_read_where_the_class_reads_it(model_type: str) -> None:
    row, width, kv_heads = FAMILIES[model_type], 24, 4
    if sections := row["rope"].get("sections"):  # their pairs fill the rotated width
        width = int(2 * sum(sections) / row["rope"].get("share", 1))
    sizes = {"hidden_size": 48, "num_attention_heads": 4, "head_dim": width}
    if row.get("kv_heads") != "heads":
        sizes["num_key_value_heads"] = kv_heads = 2
    kinds = read_config(saved(config_of(model_type, sizes))).layer_kinds
    assert {kind.head_dim for kind in kinds if kind.heads} == {width}
    assert {kind.kv_heads for kind in kinds if kind.heads} == {kv_heads}


def check(model_type: str, changes: Config) -> Any:
    """Compare what is read of a config with its class, and return it."""
    config = config_of(model_type, changes)
    model = read_config(saved(config))
    assert model.ignored == ()
    assert sorted(i for k in model.layer_kinds for i in k.layers) == list(range(model.layers))
    assert [*differences(model, establish({"config": saved(config)}))] == []
    rotary = rotary_of(config) if rope_kinds(model) else None
    has_one = rotary is not None or model_type in NO_OWN_MODULE or not rope_kinds(model)
    assert has_one or len({scheme.base for _, scheme in rope_kinds(model)}) > 1
    if rotary is None:
        return model
    assert [*frequency_differences(model, rotary)] == []
    assert assert_matches(rotary, config) == "float32 arithmetic"
    if model_type not in NOT_WRITTEN:
        assert [*block_differences(model, config)] == []
    return model


OUTCOMES: dict[str, str] = json.loads(CAUSAL_TYPES.read_text())


def test_every_causal_type_of_transformers_is_read_or_refused_by_name() -> None:
    """A type that is new in a release of transformers is named here."""
    assert set(causal_types()) == set(OUTCOMES)
    assert {name: outcome(name) for name in OUTCOMES} == OUTCOMES
    assert sum(reason == "read" for reason in OUTCOMES.values()) > 90


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
    record = saved(transformers.CONFIG_MAPPING[outer]())
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
