"""What a plan emits for every known model with RoPE, given to that model's own class of transformers."""

import copy
import inspect
import json
from typing import Any

import pytest
import torch

from posenc import rope_frequencies
from posenc.interop import read_config
from posenc.planner import ContextPlan, MethodPlan, emit, plan
from posenc.presets import MODELS
from posenc.schemes.rope import RopeConfig

transformers = pytest.importorskip("transformers", minversion="5")

from tests.test_model_config_transformers import PLACES, module_of, of_kind  # noqa: E402

TARGET = 200_000
OLD = (
    "rope_theta", "rope_scaling", "rope_parameters", "rotary_pct", "rotary_emb_base",
    "partial_rotary_factor", "rope_local_base_freq", "global_rope_theta", "local_rope_theta",
)  # fmt: skip


def text_config(name: str) -> dict[str, Any]:
    config = json.loads(json.dumps(dict(MODELS[name].config or {})))
    found: dict[str, Any] = config.get("text_config", config)
    return found


NAMES = [name for name in MODELS if text_config(name).get("model_type") in PLACES]


def planned(name: str, target: int = TARGET) -> ContextPlan:
    return plan(MODELS[name].read(), target, name=name, search_base=False, scan=64)


def turned_by(config: dict[str, Any], kind: str) -> tuple[torch.Tensor, float]:
    """What transformers' own module turns the target's last token by."""
    model_type = config.pop("model_type")
    read = transformers.CONFIG_MAPPING[model_type](**config)
    rotary = module_of(model_type, "RotaryEmbedding")(read)
    apart = isinstance(rotary.rope_type, dict)
    rotary(torch.zeros(1, 1, 8), torch.tensor([[TARGET - 1]]), *([kind] if apart else []))

    class Kind:
        name = kind

    return of_kind(rotary, Kind, "inv_freq"), of_kind(rotary, Kind, "attention_scaling")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_transformers_takes_every_block_in_place_of_the_old_and_turns_as_planned(name: str) -> None:
    found = planned(name)
    assert found.methods
    for one in found.methods:
        emitted = emit(found, one)
        assert bool(emitted.rope_parameters) == bool(emitted.where)
        if not emitted.rope_parameters:
            assert emitted.why
        expected, scale = rope_frequencies(one.config, length=TARGET)
        for block in (emitted.rope_parameters, emitted.rope_scaling):
            if not block:
                continue
            kept = {key: value for key, value in text_config(name).items() if key not in OLD}
            inv_freq, scaling = turned_by(kept | copy.deepcopy(block), found.kind.name)
            said = f"{one.method.name}: {block}"
            torch.testing.assert_close(
                inv_freq.double(), expected, rtol=1e-6, atol=0, msg=lambda text, s=said: s + text
            )
            assert scaling == pytest.approx(scale, rel=1e-12), said


def test_a_class_that_refuses_a_rope_type_gets_none_and_says_so() -> None:
    found = planned("phi-3-mini-128k")
    for one in found.methods:
        emitted = emit(found, one)
        taken = one.method.name in ("none", "ntk", "configured", "base")
        assert bool(emitted.rope_parameters) == taken, one.method.name
        if one.method.name in ("yarn", "linear"):
            assert "Phi3Config takes no rope_type but default, longrope" in emitted.why[0]
            assert emitted.vllm == ""


def nested() -> tuple[ContextPlan, MethodPlan]:
    found = planned("gemma-3-4b")
    return found, next(one for one in found.methods if one.method.name == "linear")


def test_a_nested_model_is_told_where_its_keys_belong() -> None:
    found, one = nested()
    emitted = emit(found, one)
    assert found.model.section == "text_config"
    assert emitted.where.startswith("Inside text_config, in place of")
    # vLLM sets a key at the top where the text model never looks (vllm-project/vllm 54289).
    overrides = json.loads(emitted.vllm.split("'")[1])
    assert overrides == {
        "text_config": {"rope_parameters": emitted.rope_parameters["rope_parameters"]}
    }
    assert read_config(text_config("gemma-3-4b")).section == ""


def test_llama_cpp_gets_no_options_where_the_file_holds_factors_that_stay() -> None:
    """Llama 3.1 and LongRoPE are tensors of a GGUF file (ggml-org/llama.cpp pull request 8676)."""
    for name, flags in (("llama-3.1-8b", False), ("llama-3-8b", True), ("qwen3-8b", True)):
        found = planned(name)
        one = next(one for one in found.methods if one.method.name == "yarn")
        emitted = emit(found, one)
        assert bool(emitted.llama_cpp) == flags, name
        assert any("holds its own scaling" in why for why in emitted.why) == (not flags)


def test_a_ladder_of_a_whole_head_is_refused_where_only_a_part_is_rotated() -> None:
    from posenc import ConfigFileError

    block = {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1e4}
    with pytest.raises(ConfigFileError, match=r"ladder of a whole head of 192, of which .* 64"):
        read_config({"model_type": "deepseek_v3", "rope_parameters": block})
    scheme = read_config({"model_type": "llama", "rope_parameters": block}).main.scheme
    assert isinstance(scheme, RopeConfig)


@pytest.mark.parametrize("name", NAMES)
def test_needless_layers_are_named_where_the_class_turns_all_layers_alike(name: str) -> None:
    found = planned(name)
    rotary = module_of(text_config(name)["model_type"], "RotaryEmbedding")
    apart = "layer_type" in inspect.signature(rotary.forward).parameters
    trained = found.trained_length or 0
    spared = [
        kind
        for kind in found.model.layer_kinds
        if kind.window is not None and kind.window <= trained and isinstance(kind.scheme, RopeConfig)
        and kind is not found.kind
    ]  # fmt: skip
    for one in found.methods:
        emitted = emit(found, one)
        if emitted.rope_parameters:
            rescales = one.config != found.kind.scheme
            assert ("also rescales" in emitted.where) == (bool(spared) and not apart and rescales)
