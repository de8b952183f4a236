"""`read_config` on published models: what it says of one is right, or it refuses to read it.

The configs stand in tests/published_models, a file each with its source, and what their layers really do in
truth.json there, which tests/published_models/establish.py observes without posenc.
"""

import json
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from posenc import rope_frequencies
from posenc.interop import read_config
from posenc.interop.models import ConfigFileError, LayerKind, ModelConfig
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.none import NoneConfig
from posenc.schemes.rope import RopeConfig
from tests.published_configs import PUBLISHED
from tests.published_models.establish import LENGTHS, TRUTH, establish, published, sampled

MODELS = published()
# Popular models of families that are read: refusing everything is no way to be right.
READ = (
    "llama-2-7b", "llama-3-8b", "llama-3.1-8b", "llama-3.3-70b", "codellama-7b", "tinyllama-1.1b",
    "mistral-7b-v0.1", "mistral-7b-v0.3", "mistral-nemo", "mixtral-8x7b", "qwen2-7b", "qwen2.5-72b",
    "qwen3-8b", "qwen1.5-moe-a2.7b", "gemma-2b", "gemma-2-9b", "gemma-3-4b", "phi-1.5", "phi-2",
    "phi-3-mini-4k", "pythia-12b", "gpt-neox-20b", "gpt-j-6b", "deepseek-v2-lite", "deepseek-v3", "kimi-k2",
    "gpt-oss-20b", "olmo-7b-0724", "olmo-2-7b", "olmo-3-7b", "olmoe-1b-7b", "smollm3-3b", "starcoder2-3b",
    "starcoder2-15b", "granite-3.1-3b-a800m", "granite-3.3-8b", "stablelm-3b-4e1t", "command-r-v01",
    "aya-23-8b", "glm-4-9b", "glm-4-9b-0414", "glm-4.7", "ernie-4.5-0.3b", "helium-1-preview",
    "nemotron-3-8b", "nemotron-4-mini-hindi-4b", "persimmon-8b", "seed-oss-36b", "falcon-7b", "falcon-11b",
    "falcon-40b", "falcon-rw-1b", "modernbert-base", "bloom-7b1", "mpt-7b",
)  # fmt: skip

# Kinds of layers whose cache can be counted by their window and the numbers of a token.
COUNTED = ("full", "window", "chunk", "state")


@cache
def truth() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TRUTH.read_text())
    return found


def read(name: str) -> ModelConfig:
    return read_config(json.dumps(MODELS[name]["config"]))


def attention_of(kind: LayerKind) -> str:
    if "chunk" in kind.name:
        return "chunk"
    return "full" if kind.window is None else "window"


def position_of(kind: LayerKind) -> str:
    schemes = {RopeConfig: "rope", NoneConfig: "none", AlibiConfig: "alibi"}
    return next((word for one, word in schemes.items() if isinstance(kind.scheme, one)), "another")


def turned(scheme: RopeConfig, length: int) -> list[float]:
    """Frequencies that are not 0, which stand for features that are not rotated."""
    return [one for one in rope_frequencies(scheme, length=length)[0].tolist() if one]


def differences(model: ModelConfig, real: dict[str, Any]) -> Iterator[str]:
    """Say where a reading differs from what the layers really do, in every field that is established."""
    if model.layers != real["layers"]:
        yield f"{model.layers} layers, not {real['layers']}"
        return
    by_layer = {index: kind for kind in model.layer_kinds for index in kind.layers}
    for one in real["kinds"]:
        for kind in {by_layer[index].name: by_layer[index] for index in one["layers"]}.values():
            yield from (f"{kind.name}: {each}" for each in kind_differences(kind, one))
    for length in LENGTHS:
        if cached(real, length) not in (None, model.cache_numbers(length)):
            yield f"cache of {length}: {model.cache_numbers(length)}, not {cached(real, length)}"


def cached(real: dict[str, Any], length: int) -> int | None:
    """Numbers that the caches of all layers hold, where that is established."""
    found = 0
    for one in real["kinds"]:
        if one.get("cached") is None or one["attention"] not in COUNTED:
            return None
        found += len(one["layers"]) * one["cached"] * min(length, one["window"] or length)
    return found


def kind_differences(kind: LayerKind, real: dict[str, Any]) -> Iterator[str]:
    read_as = {"attention": attention_of(kind), "window": kind.window, "cached": kind.cache_width}
    if not kind.unsupported:
        read_as["position"] = position_of(kind)
    if isinstance(kind.scheme, RopeConfig) and real.get("position") == "rope":
        read_as |= {
            "rotated": 2 * len(turned(kind.scheme, LENGTHS[0])),
            "layout": kind.scheme.layout,
            "base": kind.scheme.base,
            "scaling": type(kind.scheme).block_types[0],
        }
        factor = rope_frequencies(kind.scheme)[1]
        if not math.isclose(factor, real.get("attention_factor", factor), rel_tol=2e-5):
            yield f"attention factor {factor}, not {real['attention_factor']}"
        for length, numbers in real.get("frequencies", {}).items():
            mine = sampled(turned(kind.scheme, int(length)))
            if mine != pytest.approx(numbers, rel=1e-4):
                yield f"frequencies at {length} tokens {mine}, not {numbers}"
    for field, value in read_as.items():
        if real.get(field, value) != value and not (field == "cached" and real[field] is None):
            yield f"{field} {value}, not {real[field]}"


@pytest.mark.parametrize("name", MODELS)
def test_a_published_config_is_read_right_or_refused(name: str) -> None:
    model, refusal, error_key = None, None, ""
    try:
        model = read(name)
    except ConfigFileError as error:
        refusal, error_key = str(error), error.key
    if model is not None:
        assert list(differences(model, truth()[name])) == []
        return
    assert refusal is not None
    config = MODELS[name]["config"]
    inner = config.get("text_config", {})
    named = error_key.split(".")[-1]
    assert named in config | inner
    assert named in refusal
    if named == "model_type":
        assert f'"{inner.get("model_type", config["model_type"])}"' in refusal
    assert name not in READ, refusal


def test_there_are_enough_models_and_the_truth_of_each() -> None:
    assert set(truth()) == set(MODELS)
    assert len(MODELS) >= 60
    assert len({one["config"]["model_type"] for one in MODELS.values()}) >= 40
    assert set(READ) <= set(MODELS)
    assert len(READ) >= 50
    assert all(one["source"] for name, one in MODELS.items() if name not in PUBLISHED)


def test_kimi_k2_caches_one_latent_vector_and_one_rotated_key() -> None:
    """512 + 64 numbers, as published: kv_lora_rank and qk_rope_head_dim (arXiv 2405.04434, section 2.1)."""
    (kind,) = truth()["kimi-k2"]["kinds"]
    assert (kind["cached"], kind["rotated"], kind["layout"]) == (576, 64, "interleaved")


@pytest.mark.parametrize(
    "wrong",
    [
        {"layout": "half"}, {"rotated": 112}, {"cached": 14_336}, {"window": 4_096}, {"base": 5e5},
        {"attention_factor": 1.19}, {"attention": "sparse"}, {"position": "none"}, {"scaling": "linear"},
        {"frequencies": {"1000": [1.0, 0.9, 0.1, 0.01, 0.001]}},
    ],
    ids=str,
)  # fmt: skip
def test_every_field_of_the_truth_is_compared(wrong: dict[str, Any]) -> None:
    real = truth()["deepseek-v3"]
    model = read("deepseek-v3")
    assert list(differences(model, real)) == []
    changed = real | {"kinds": [one | wrong for one in real["kinds"]]}
    assert list(differences(model, changed)) != []


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_the_truth_is_what_transformers_does(name: str) -> None:
    pytest.importorskip("transformers", minversion="5")
    assert json.loads(json.dumps(establish(MODELS[name]))) == truth()[name]
