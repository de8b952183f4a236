"""Configs with small changes are read as the configuration class of transformers reads them.

A row that is wrong for a class is silent: most of its faults show in such configs alone. The class is asked
for sizes, layers and windows, its rotary module for frequencies.
"""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from posenc import rope_frequencies
from posenc.errors import ConfigFileError
from posenc.models import ModelConfig, read_config
from posenc.models.presets import MODELS
from posenc.models.rope_bases import bases_of
from tests.longer import mostly
from tests.models.configs import PUBLISHED, Config
from tests.models.generate_families import default_config
from tests.models.mutations import mutated
from tests.models.published_models.establish import read

transformers = pytest.importorskip("transformers", minversion="5")

from tests.models.test_transformers_classes import (  # noqa: E402
    ROPE,
    attribute,
    class_of,
    rope_kinds,
)

# Published files of Nomic have the keys of its own code, which the class of transformers does not take.
TYPES = [name for name in ROPE if name in transformers.CONFIG_MAPPING and name != "nomic_bert"]
EACH = 40  # mutations of a type


# Keys for which null stands for their absence here, while the class takes another value for it.
NULL = ("per_layer_config",)


def is_compared(config: Config, model_type: str, default: Config) -> bool:
    """Whether the class of transformers can tell how a config is to be read. default: of the class.

    It takes the block of one kind of layer for nothing where it has one block for all, and does not find
    YaRN's truncate in such a block.
    """
    has_one_block = "" in bases_of(ROPE[model_type]["rope"])
    whole = [config.get(name) or {} for name in ("rope_parameters", "rope_scaling")]
    blocks = [block for block in whole[0].values() if isinstance(block, dict)]
    # A class with a block of each kind of layer takes the values of one for all into each.
    if any("truncate" in block for block in (blocks if has_one_block else [*blocks, *whole])):
        return False
    is_null = any(config.get(name, 0) is None is not default.get(name, 0) for name in NULL)
    return not is_null and not (blocks and has_one_block)


def configs(model_type: str) -> list[Config]:
    """The defaults of a class, and published configs of its type."""
    presets = [dict(preset.config) for preset in MODELS.values() if preset.config]
    known = [*presets, *(entry["config"] for entry in PUBLISHED.values())]
    texts = [config.get("text_config") or config for config in known]
    return [default_config(model_type), *(c for c in texts if c.get("model_type") == model_type)]


def built(config: Config) -> Any:
    """The config object of transformers; None where the class takes no such config."""
    try:
        made = read(config)
    except Exception:
        return None
    made.allow_global_per_layer_attribute_access = True
    return made


def rotary_of(config: Any) -> Any:
    """The module of the class that makes frequencies; None where it fails or there is none.

    A class with a list of bases makes one for each; this is that of their only one.
    """
    if bases := {base for base in getattr(config, "layer_rope_theta", ()) if base}:
        if len(bases) > 1:
            return None
        config.rope_parameters["rope_theta"] = bases.pop()
    try:
        return class_of(config.model_type, "RotaryEmbedding")(config)
    except Exception:
        return None


def differences(model: ModelConfig, config: Any, row: Any) -> Iterator[str]:
    """Every number that was read and that the class has otherwise.

    row: of the type; what it says by an expression of its own has no plain attribute of that name.
    """
    kinds = [kind for kind in model.layer_kinds if kind.heads]
    own = {*row, *(name for kind in row.get("kinds", {}).values() for name in kind)}
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    read_numbers = {
        "hidden_size": {model.hidden_size},
        "max_position_embeddings": {model.context},
        "num_hidden_layers": {model.layers},
        "heads": {kind.heads for kind in kinds},
        "head_dim": {kind.head_dim for kind in kinds},
    }
    theirs = {
        "hidden_size": config.hidden_size,
        "max_position_embeddings": getattr(config, "max_position_embeddings", None),
        "num_hidden_layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "head_dim": width,
    }
    if (
        "count" in row.get("layers", {}) or config.model_type == "nomic_bert"
    ):  # whose key is n_layer
        own.add("num_hidden_layers")
    for name, numbers in read_numbers.items():
        if name not in own and numbers != {theirs[name]}:
            yield f"{name} {numbers}, not {theirs[name]}"
    words = getattr(config, "layer_types", None)
    if words and len(words) == model.layers:
        windowed = {index for kind in kinds if kind.window for index in kind.layers}
        said = {
            index for index, word in enumerate(words) if word.startswith(("sliding", "chunked"))
        }
        if windowed != said:
            yield f"windows in layers {sorted(windowed)}, not {sorted(said)}"


def deviations(model: ModelConfig, rotary: Any) -> Iterator[str]:
    """Every kind of layer whose frequencies, or attention factor, the rotary module has otherwise."""
    for kind, scheme in rope_kinds(model):
        frequencies, factor = rope_frequencies(scheme, mode="transformers")
        theirs = attribute(rotary, kind.block_name, "inv_freq")
        if type(rotary).__name__.startswith("Ernie4_5_VL"):  # in the order of axes, not of pairs
            theirs = rotary.recomposition_frequencies(theirs.expand(3, -1))[::2]
        if frequencies.shape != theirs.shape or not torch.equal(frequencies.float(), theirs):
            yield f"{kind.name}: {scheme}, but {theirs[:3].tolist()} of {len(theirs)} pairs"
        elif factor != pytest.approx(attribute(rotary, kind.block_name, "attention_scaling")):
            yield f"{kind.name}: attention factor {factor}"


@pytest.mark.parametrize("model_type", mostly(TYPES, "llama", "gemma3_text", "phi3", "deepseek_v3"))
def test_a_mutated_config_is_read_as_its_class_reads_it_or_refused(model_type: str) -> None:
    outcomes: Counter[str] = Counter()
    chance = random.Random(f"mutations of {model_type}")
    sources = configs(model_type)
    for _ in range(EACH):
        config = mutated(chance.choice(sources), chance)
        try:
            model = read_config(config)
        except ConfigFileError:
            outcomes["refused"] += 1
            continue
        theirs = built(config) if is_compared(config, model_type, sources[0]) else None
        if theirs is None:
            outcomes["not compared"] += 1
            continue
        outcomes["compared"] += 1
        found = list(differences(model, theirs, ROPE[model_type]))
        if (rotary := rotary_of(theirs)) is not None:
            found += deviations(model, rotary)
        assert found == [], config
    assert outcomes["compared"] >= EACH // 10, outcomes
