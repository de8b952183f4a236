"""Keys of RoPE as files have them are read as every class reads them, or refused by name."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from posenc import rope_frequencies
from posenc.errors import ConfigFileError
from posenc.models import ModelConfig
from posenc.models.families import FAMILIES
from tests.models.configs import Config, read_or_refuse
from tests.models.generate_families import BASES, RUN_WITH, SHARES
from tests.models.published_models.establish import read
from tests.models.test_transformers_classes import BORROWED, attribute, class_of, rope_kinds

transformers = pytest.importorskip("transformers", minversion="5")

LINEAR: Config = {"rope_type": "linear", "factor": 3.0}
YARN: Config = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1_024}
LLAMA_3: Config = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 1_024,
}  # fmt: skip
BLOCKS: tuple[Config, ...] = (
    {"rope_type": "default"}, LINEAR, YARN, LLAMA_3, {"rope_type": "proportional"},
    {"rope_type": "proportional", "partial_rotary_factor": 0.5},
)  # fmt: skip
# Classes of another type, and without a module of frequencies.
TYPES = [
    name
    for name in FAMILIES
    if name not in (*BORROWED, "esm") and FAMILIES[name].rotates != "never"
]


def forms(model_type: str) -> Iterator[Config]:
    """Rope keys in every place where a class may look for them, or not."""
    family = FAMILIES[model_type]
    names = [family.block_name(kind) for kind in family.bases]
    needed = RUN_WITH.get(model_type, {}).get("rope_parameters", {})
    also = {k: v for k, v in needed.items() if k in ("mrope_section", "partial_rotary_factor")}
    yield {}
    for name in BASES:
        yield {name: 777.0}
    for name in SHARES:
        yield {name: 0.25}
        yield {name: 0.5}
    for block in ({}, *(also | block for block in BLOCKS)):
        for base in ({}, {"rope_theta": 777.0}):
            own = block | base
            nested = own if "" in family.bases else dict.fromkeys(names, own)
            if family.rope_only_in_windows and nested is not own:
                nested |= {"full_attention": None}
            yield {"rope_parameters": nested}
            if not base:
                yield {"rope_parameters": nested, "rope_theta": 888.0}
                yield {"rope_parameters": nested, "partial_rotary_factor": 0.5}
            if nested is not own and own:
                yield {"rope_parameters": {names[0]: own}}
        yield {"rope_scaling": block}
        yield {"rope_scaling": block, "rope_theta": 777.0}
        if block:
            old = {"type": block["rope_type"]}
            yield {"rope_scaling": {k: v for k, v in block.items() if k != "rope_type"} | old}
            yield {"rope_scaling": block | old}
    yield {"rope_parameters": {}}


def rotary_of(config: Config) -> Any:
    """The module of the class that makes frequencies; None where the class fails."""
    make = class_of(config["model_type"], "RotaryEmbedding")
    try:
        return make(read(config))
    except Exception:
        return None


def deviation(model: ModelConfig, rotary: Any) -> str:
    """Return the differences between the frequencies and attention factors read and those of the class."""
    for kind, scheme in rope_kinds(model):
        frequencies, factor = rope_frequencies(scheme, mode="transformers")
        name = kind.block_name
        theirs = attribute(rotary, name, "inv_freq")
        if type(rotary).__name__.startswith("Ernie4_5_VL"):  # in the order of axes, not of pairs
            theirs = rotary.recomposition_frequencies(theirs.expand(3, -1))[::2]
        if frequencies.shape != theirs.shape or not torch.equal(frequencies.float(), theirs):
            return f"{name}: {scheme} but {theirs[:3].tolist()} of {len(theirs)} pairs"
        if factor != pytest.approx(attribute(rotary, name, "attention_scaling"), rel=1e-12):
            return f"{name}: {factor}"
    return ""


def sizes(model_type: str) -> Config:
    """Return the keys that a class needs to run, without those of RoPE."""
    family = FAMILIES[model_type]
    needed = RUN_WITH.get(model_type, {}).items()
    needs = {k: v for k, v in needed if k not in (*BASES, "rope_parameters")}
    if family.head_dim_unset and family.hidden_size and family.heads:
        needs["head_dim"] = family.hidden_size // family.heads
    return needs


def compare(model_type: str, form: Config) -> ConfigFileError | None:
    """Compare a config with its class, or return why it is refused."""
    config = json.loads(json.dumps({"model_type": model_type} | sizes(model_type) | form))
    outcome = read_or_refuse(config)
    if isinstance(outcome, ConfigFileError):
        return outcome
    if (rotary := rotary_of(config)) is not None:
        assert deviation(outcome, rotary) == "", form
    else:
        assert model_type == "phimoe", (
            form
        )  # its class raises for every scaling without short_mscale
    return None


@pytest.mark.long
@pytest.mark.parametrize("model_type", TYPES)
def test_rope_keys_anywhere_are_read_as_the_class_reads_them_or_refused(model_type: str) -> None:
    refused = [compare(model_type, form) for form in forms(model_type)]
    assert None in refused


OWN_BASE: Config = {"rope_theta": 777.0}
SLIDING, FULL = "sliding_attention", "full_attention"
WITHOUT_BASE: Config = {"rope_parameters": {FULL: LINEAR, SLIDING: LINEAR}}


@pytest.mark.parametrize(
    ("model_type", "form", "key"),
    [
        # A base outside of the block, which these classes take from their default block alone.
        *((name, OWN_BASE, "rope_theta") for name in ("gpt_neox", "gpt_neox_japanese", "apertus", "cwm")),
        *((name, OWN_BASE, "rope_theta") for name in ("ministral3", "mistral4")),
        ("apertus", OWN_BASE | {"rope_scaling": LLAMA_3}, ""),
        ("gpt_oss", OWN_BASE, ""),
        ("olmo3", OWN_BASE, ""),
        ("olmo3", OWN_BASE | {"rope_scaling": YARN}, ""),
        # A first-generation block that the class drops, or that it fails with.
        *(("cohere2_moe", {"rope_scaling": block}, "rope_scaling") for block in (LINEAR, YARN)),
        *(
            (name, {"rope_scaling": LINEAR}, "rope_scaling")
            for name in ("laguna", "mellum", "gemma4_text", "gemma4_unified_text", "lfm3", "beam",
                         "cohere_compass_text", "mimo_v2_flash")
        ),
        # A share outside of the block.
        ("mellum", {"partial_rotary_factor": 0.25}, "partial_rotary_factor"),
        ("bamba", {"partial_rotary_factor": 0.25}, "partial_rotary_factor"),
        ("gpt_neox", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ("gpt_neox", {"rotary_pct": 0.5}, ""),
        # The older word of a block's type, alone.
        *(
            (name, {"rope_scaling": {"type": "linear", "factor": 40.0}}, "rope_scaling.type")
            for name in ("gemma3_text", "gemma3n_text", "olmo3", "modernbert", "modernbert-decoder")
        ),
        ("gemma3_text", {"rope_scaling": LINEAR | {"type": "linear"}}, ""),
        # A share that a class fills, for some types of block or all.
        ("mimo_v2_flash", {"rope_parameters": {FULL: LINEAR | OWN_BASE, SLIDING: LINEAR | OWN_BASE}}, ""),
        *(
            (name, {"rope_parameters": {"rope_type": "proportional", "rope_theta": 1e4}}, "")
            for name in ("glm", "glm4", "glm4_moe", "nemotron", "gpt_neox", "qwen3_next",
                         "qwen3_5_moe_text")
        ),
        # Blocks without a base.
        ("lfm3", WITHOUT_BASE, ""),
        ("dots3_note_text", {"rope_parameters": {"indexed_attention": LINEAR, SLIDING: LINEAR}}, ""),
        *(
            (name, WITHOUT_BASE, f"rope_parameters.{kind}.rope_theta")
            for name, kind in (("laguna", FULL), ("mellum", FULL), ("mimo_v2_flash", FULL),
                               ("cohere_compass_text", SLIDING), ("gemma4_text", SLIDING))
        ),
        *((name, {"rope_parameters": {}}, "") for name in ("gpt_oss", "apertus", "cwm", "gemma3_text")),
        ("dots3_note_text", {"rope_parameters": {}}, "rope_parameters"),
        ("esm", {"rope_parameters": {"rope_type": "default", "rope_theta": 777.0}}, "rope_parameters"),
    ],
    ids=str,
)  # fmt: skip
def test_keys_that_a_class_reads_its_own_way_are_read_so_or_refused(
    model_type: str, form: Config, key: str
) -> None:
    error = compare(model_type, form)
    assert (error.key if error else "") == key


def test_refusals_name_keys_of_the_file() -> None:
    window = {"layer_types": [SLIDING] * 32, "sliding_window": 64, "use_sliding_window": False}
    error = compare("qwen2", window | {"num_hidden_layers": 32})
    assert "use_sliding_window" in str(error)
    assert "absent" not in str(error)
    error = compare("lfm3", {"partial_rotary_factor": 0.25})
    assert "Lfm3Config.rope_parameters.full_attention.partial_rotary_factor says 0.5" in str(error)
    sections = {"rope_parameters": {"rope_type": "default", "mrope_section": [16, 24]}}
    error = compare("qwen2_vl_text", sections)
    assert "mrope_section must sum to the 64 pairs, got 40" in str(error)
    assert "RopeSectionsConfig" not in str(error)
