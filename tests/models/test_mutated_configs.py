"""Configs with small changes are read as the configuration class of transformers reads them.

A row that is wrong for a class is silent: most of its faults show in such configs alone. The class is asked
for sizes, layers and windows, its rotary module for frequencies.
"""

import random
from collections import Counter
from typing import Any

import pytest
import transformers

from posenc.errors import ConfigFileError
from posenc.models import read_config
from posenc.models.presets import MODELS
from posenc.models.rope_bases import bases_of
from tests.longer import mostly
from tests.models.configs import PUBLISHED, Config
from tests.models.generate_families import default_config
from tests.models.mutations import mutated
from tests.models.oracle import ROPE, frequency_differences, rotary_of, size_differences
from tests.models.published_models.establish import read

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
        found = [*size_differences(model, theirs, ROPE[model_type])]
        if (rotary := rotary_of(theirs)) is not None:
            found += frequency_differences(model, rotary)
        assert found == [], config
    assert outcomes["compared"] >= EACH // 10, outcomes
