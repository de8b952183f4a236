"""Configs with small changes are read alike by the rows of posenc.models and by posenc.models."""

import random
from collections import Counter
from typing import Any

import pytest

from posenc.models.family import FAMILIES
from posenc.models.presets import MODELS
from tests.models.both_readers import compare
from tests.models.configs import PUBLISHED, Config, of_type
from tests.models.generate_families import default_config
from tests.models.mutations import mutated

transformers: Any = pytest.importorskip("transformers", minversion="5")


def configs() -> dict[str, list[Config]]:
    """Configs of every type: of published models and the defaults of its class, else of Llama's sizes."""
    known = transformers.CONFIG_MAPPING
    found: dict[str, list[Config]] = {
        name: [default_config(name) if name in known else of_type(name)] for name in FAMILIES
    }
    presets = [dict(preset.config) for preset in MODELS.values() if preset.config]
    for config in (*presets, *(entry["config"] for entry in PUBLISHED.values())):
        config = config.get("text_config") or config
        model_type = config.get("model_type", "")
        if model_type in found:
            found[model_type].append(config)
    return found


@pytest.mark.parametrize(
    ("seed", "each"), [(0, 2), pytest.param(1, 8, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_mutated_configs_are_read_alike(seed: int, each: int) -> None:
    outcomes: Counter[str] = Counter()
    found: list[str] = []
    for model_type, of in configs().items():
        chance = random.Random(f"{seed} {model_type}")
        for _ in range(each):
            config = mutated(chance.choice(of), chance)
            outcome = compare(config)
            outcomes[outcome.word] += 1
            if outcome.word == "differs":
                found.append(f"{model_type}: {outcome.why}")
    print(dict(outcomes))
    assert found == []
    assert outcomes["same"] > 0.3 * outcomes.total()
