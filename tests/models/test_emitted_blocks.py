"""What a plan emits is what transformers' own classes accept and rotate by; its script measures a model."""

import copy
import csv
import inspect
import io
import json
import math
import runpy
import shlex
import sys
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from posenc import rope_frequencies
from posenc.models import read_config
from posenc.models.family import FAMILIES
from posenc.models.presets import MODELS
from posenc.models.record import key_names
from posenc.planner import (
    METHODS,
    ContextPlan,
    loss_by_position_script,
    paste,
    plan,
    recommendation,
    warnings_of,
)
from posenc.planner.paste import Paste
from posenc.planner.tables import TRADE_OFFS, ranked
from posenc.schemes.rope import RopeConfig
from tests.longer import mostly
from tests.models.configs import (
    LLAMA,
    Config,
    method,
    plan_config,
    preset_config,
    published_config,
)
from tests.models.oracle import attribute, class_of, config_of, module_of

TARGET = 70_000
# One preset of each class of transformers, and one of each scaling.
NAMES = [
    "llama-3-8b", "llama-3.1-8b", "mistral-7b-v0.1", "mixtral-8x7b", "gemma-2-9b", "gemma-3-4b", "qwen3-8b",
    "phi-2", "phi-3-mini-128k", "gpt-neox-20b", "deepseek-v3", "falcon-7b", "smollm3-3b", "gpt-oss-20b",
    "modernbert-base",
]  # fmt: skip
# Keys of a config that a block replaces.
OLD = (
    "rope_theta", "rope_scaling", "rope_parameters", "rotary_pct", "rotary_emb_base",
    "partial_rotary_factor", "rope_local_base_freq", "global_rope_theta", "local_rope_theta",
)  # fmt: skip


def text_config(name: str) -> Config:
    config = preset_config(name)
    text: Config = config.get("text_config", config)
    return text


@cache
def plan_model(name: str) -> ContextPlan:
    """All methods for a preset as its config has it, from a first length that makes TARGET longer."""
    return plan(
        MODELS[name].read(), TARGET, name=name, methods=[*METHODS], search_base=False, scan=64
    )


def emitted(name: str, method_name: str) -> Paste:
    return paste(plan_model(name), method(plan_model(name), method_name))


def rotation_of(config: Config, kind: str) -> tuple[torch.Tensor, float]:
    """The frequencies and the factor by which transformers rotates the last token of the target."""
    model_type = config.pop("model_type")
    built = transformers.CONFIG_MAPPING[model_type](**config)
    rotary = class_of(model_type, "RotaryEmbedding")(built)
    kinds = [kind] if isinstance(rotary.rope_type, dict) else []
    rotary(torch.zeros(1, 1, 8), torch.tensor([[TARGET - 1]]), *kinds)
    return attribute(rotary, kind, "inv_freq"), attribute(rotary, kind, "attention_scaling")


@pytest.mark.parametrize("name", NAMES)
def test_transformers_rotates_as_planned_with_every_block(name: str) -> None:
    found = plan_model(name)
    text = text_config(name)
    others = {key: value for key, value in text.items() if key not in OLD}
    rotary = class_of(text["model_type"], "RotaryEmbedding")
    one_for_all = "layer_type" not in inspect.signature(rotary.forward).parameters
    spared = [
        kind for kind in found.model.layer_kinds
        if kind.window is not None and kind.window <= (found.trained_length or 0)
        and isinstance(kind.scheme, RopeConfig) and kind is not found.kind
    ]  # fmt: skip
    assert found.methods
    for one in found.methods:
        pasted = paste(found, one)
        assert bool(pasted.rope_parameters) == bool(pasted.where)
        assert pasted.rope_parameters or pasted.why
        assert bool(loss_by_position_script(found, one)) == bool(pasted.rope_parameters)
        expected, scale = rope_frequencies(one.config, length=TARGET)
        for block in filter(None, (pasted.rope_parameters, pasted.rope_scaling)):
            inv_freq, scaling = rotation_of(others | copy.deepcopy(block), found.kind.name)
            # float32 frequencies of theirs
            torch.testing.assert_close(inv_freq.double(), expected, rtol=1e-6, atol=0)
            assert scaling == pytest.approx(scale, rel=1e-12)
            again = read_config(json.loads(json.dumps(others | block)))
            schemes = {kind.name: kind.scheme for kind in again.layer_kinds}
            scheme = schemes[found.kind.name]
            assert isinstance(scheme, RopeConfig)
            frequencies, scaling = rope_frequencies(scheme, length=TARGET)
            torch.testing.assert_close(frequencies, expected, rtol=1e-12, atol=0)
            assert scaling == pytest.approx(scale, rel=1e-12)
        if pasted.rope_parameters:
            rescales = bool(spared) and one_for_all and one.config != found.kind.scheme
            assert ("also rescales" in pasted.where) == rescales


def test_sliding_layers_that_share_a_block_are_counted() -> None:
    config = preset_config("gemma-2-9b") | {"num_hidden_layers": 26}
    found = plan_config(config, 32_768, methods=["yarn", "none"], scan=64)
    where = paste(found, method(found, "yarn")).where
    assert "Gemma2Config" in where
    for said in (where, recommendation(found)):
        assert "rescales 13 sliding_attention" in said
    assert "rescales" not in paste(found, method(found, "none")).where


def test_layers_with_a_block_of_their_own_keep_it() -> None:
    config = published_config("gemma-3-4b")["text_config"]
    found = plan_config(config, 524_288, trained_length=32_768, methods=["linear"], scan=64)
    block = paste(found, method(found, "linear")).rope_parameters["rope_parameters"]
    assert block == {
        "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 16.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }


@pytest.mark.parametrize("name", ["yarn", "llama3", "linear", "ntk"])
def test_layers_that_use_an_earlier_cache_have_the_block_of_their_kind(name: str) -> None:
    """The last layers of Gemma 3n share keys and values; one block of the config rotates all."""
    text = transformers.CONFIG_MAPPING["gemma3n_text"]().to_dict()
    config = json.loads(json.dumps(text, default=str))
    found = plan_config(config, 131_072, trained_length=32_768, methods=[name], scan=64)
    block = paste(found, method(found, name)).rope_parameters["rope_parameters"]
    others = {key: value for key, value in config.items() if key not in OLD}
    theirs, factor = rotation_of(others | {"rope_parameters": block}, "full_attention")
    planned = method(found, name)
    torch.testing.assert_close(
        theirs.double(), rope_frequencies(planned.config)[0], rtol=1e-6, atol=0
    )
    assert factor == pytest.approx(planned.attention_factor, rel=1e-6)


# Types whose attention takes a part of its softmax scale from the rope block.
SCALED_SOFTMAX = sorted(
    path.parent.name for path in Path(transformers.__file__).parent.glob("models/*/modeling_*.py")
    if path.parent.name in FAMILIES and "yarn_apply_mscale(config" in path.read_text()
)  # fmt: skip


# Types whose queries grow with their position by a key of the block.
GROWING = [name for name, row in FAMILIES.items() if "needs" in row.get("rope", {})]


@cache
def attention_of(model_type: str) -> Any:
    """The class of a model's attention that reads its softmax scale from the rope block."""
    module = module_of(model_type)
    (attention,) = (
        one for one in vars(module).values()
        if inspect.isclass(one) and one.__module__ == module.__name__
        and inspect.isfunction(one.__init__) and "yarn_apply_mscale" in one.__init__.__code__.co_names
    )  # fmt: skip
    return attention


def softmax_scale_of(config: Config) -> float:
    """The softmax scale of the attention that transformers builds from a config."""
    values = copy.deepcopy(config)
    model_type = values.pop("model_type")
    with torch.device("meta"):
        built = transformers.CONFIG_MAPPING[model_type](**values)
        scaling: float = attention_of(model_type)(built, 0).scaling
    return scaling


# The type that defined this scale, and one whose queries grow with their position.
FIRST = ("deepseek_v3", next(name for name in SCALED_SOFTMAX if name in GROWING))
BLOCKS = [*product(SCALED_SOFTMAX, ("yarn", "linear"))]


@pytest.mark.parametrize(
    ("model_type", "rope_type"),
    mostly(BLOCKS, *(block for block in BLOCKS if block[0] in FIRST)),
)
def test_every_block_keeps_the_softmax_scale_or_the_plan_says_by_how_much_it_differs(
    model_type: str, rope_type: str
) -> None:
    length = key_names(FAMILIES[model_type], "max_position_embeddings")[0]
    grows = model_type in GROWING
    block = {"rope_type": rope_type, "factor": 40.0, "mscale_all_dim": 0.8}
    if rope_type == "yarn":
        block |= {"mscale": 1.0, "original_max_position_embeddings": 4_096}
    if grows:
        block |= {"llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 4_096}
    plain = {"model_type": model_type, "num_hidden_layers": 8, length: 163_840}
    config = plain | {"rope_parameters": block | {"rope_theta": 1e4}}
    assert read_config(config).main.softmax_scale == pytest.approx(
        softmax_scale_of(config), rel=1e-12
    )
    found = plan_config(config, 262_144, scan=64)
    ratios = {}
    for one in found.methods:
        pasted = paste(found, one)
        for keys in filter(None, (pasted.rope_parameters, pasted.rope_scaling)):
            ratio = softmax_scale_of(plain | keys) / softmax_scale_of(config)
            assert one.softmax_scale == pytest.approx(ratio, rel=1e-12), one.method.name
            if not grows:  # whose reader asks for a key that blocks leave out
                again = read_config(plain | keys).main.softmax_scale
                assert again == pytest.approx(softmax_scale_of(plain | keys), rel=1e-12)
            ratios[one.method.name] = ratio
        said = [text for text in (*pasted.why, *texts_of(found)) if f" {ratio:.3f} of " in text]
        assert bool(said) == (abs(ratio - 1) > 1e-9) or not pasted.rope_parameters
    assert {"none", "ntk", "dynamic", "linear", "llama3", "yarn", "configured"} <= {*ratios}
    kept = {name for name, ratio in ratios.items() if ratio == pytest.approx(1, rel=1e-9)}
    assert kept == {"linear", "llama3", "configured"} | (
        {"yarn"} if rope_type == "linear" else set()
    )
    by_hand = (1 + 0.08 * math.log(40)) ** -2
    assert ratios["none"] == pytest.approx(by_hand, rel=1e-12)


def texts_of(found: ContextPlan) -> list[str]:
    return [warning.sentence for warning in warnings_of(found)]


def test_plan_of_deepseek_3_says_the_softmax_scale_of_each_block() -> None:
    found = plan_config(preset_config("deepseek-v3"), 262_144, methods=[*METHODS], scan=64)
    scales = {one.method.name: one.softmax_scale for one in found.methods}
    assert scales["yarn_paper"] is None
    assert scales["none"] == pytest.approx((1 + 0.1 * math.log(40)) ** -2, rel=1e-12)  # 0.534
    by_64 = (1 + 0.1 * math.log(64)) ** 2 / (1 + 0.1 * math.log(40)) ** 2  # 1.070
    assert scales["yarn"] == pytest.approx(by_64, rel=1e-12)
    assert scales["llama3"] == scales["linear"] == pytest.approx(1, rel=1e-12)
    notes = {
        one.method.name: {note.word: note.numbers for note in paste(found, one).notes}
        for one in found.methods
    }
    assert notes["yarn"]["softmax_changed"] == {"ratio": scales["yarn"]}
    # Beside the factor 64, what keeps the configured 1 + 0.1 ln 40.
    kept = {"weight": pytest.approx(math.log(40) / math.log(64), rel=1e-12)}
    assert notes["linear"]["softmax_kept"] == notes["llama3"]["softmax_kept"] == kept
    cells = {row["method"]: row["softmax scale"] for row in ranked(found)[TRADE_OFFS]}
    assert (cells["Unscaled"], cells["YaRN"], cells["Llama 3 scaling"]) == (
        "0.534",
        "1.070",
        "1.000",
    )
    plain = plan_config(LLAMA, TARGET, scan=64)
    assert {one.softmax_scale for one in plain.methods} == {1.0}
    assert not any("softmax" in text for text in texts_of(plain))


def test_servers_that_read_every_type_as_yarn_get_no_other_type() -> None:
    found = plan_config(preset_config("deepseek-v3"), 262_144, scan=64)
    served = {one.method.name for one in found.methods if paste(found, one).vllm}
    assert served == {"configured", "yarn", "ntk", "none"}
    assert "as YaRN" in " ".join(paste(found, method(found, "linear")).why)


def test_keys_of_a_nested_model_belong_inside_its_section() -> None:
    pasted = emitted("gemma-3-4b", "configured")
    assert plan_model("gemma-3-4b").model.section == "text_config"
    assert "text_config" in pasted.where
    # vLLM sets a key at the top where the text model never looks (vllm-project/vllm 54289).
    overrides = json.loads(pasted.vllm.split("'")[1])
    parameters = pasted.rope_parameters["rope_parameters"]
    sizes = {"max_position_embeddings": TARGET}
    assert overrides == {"text_config": {"rope_parameters": parameters} | sizes}


def test_a_block_has_the_length_under_the_key_that_the_class_takes() -> None:
    block = {
        "rope_type": "yarn", "rope_theta": 6e6, "factor": 4.0,
        "original_max_position_embeddings": 32_768,
    }  # fmt: skip
    config = {
        "model_type": "bailing_hybrid", "model_max_length": 131_072, "rope_parameters": block,
    }  # fmt: skip
    found = plan_config(config, TARGET, scan=64)
    assert {"dynamic", "linear", "configured"} <= {one.method.name for one in found.methods}
    for one in found.methods:
        for keys in filter(
            None, (paste(found, one).rope_parameters, paste(found, one).rope_scaling)
        ):
            others = {key: value for key, value in config.items() if key not in OLD}
            inv_freq, scaling = rotation_of(others | copy.deepcopy(keys), found.kind.name)
            expected, scale = rope_frequencies(one.config, length=TARGET)
            torch.testing.assert_close(inv_freq.double(), expected, rtol=1e-6, atol=0)
            assert scaling == pytest.approx(scale, rel=1e-12)


@pytest.mark.parametrize("model_type", ["ministral3", "mistral4"])
def test_every_block_keeps_the_growth_of_queries_that_its_class_reads(model_type: str) -> None:
    block = {
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "llama_4_scaling_beta": 0.3,
        "original_max_position_embeddings": 4_096,
    }  # fmt: skip
    config = {"model_type": model_type, "max_position_embeddings": 16_384, "rope_parameters": block}
    found = plan_config(config, TARGET, scan=64)
    pastes = [paste(found, one) for one in found.methods]
    blocks = [
        keys["rope_parameters"] if "rope_parameters" in keys else keys["rope_scaling"]
        for one in pastes
        for keys in (one.rope_parameters, one.rope_scaling)
        if keys
    ]
    assert len(blocks) > 4
    for keys in blocks:
        made = config_of(
            model_type, {"rope_parameters": {"rope_theta": 1e6, **keys}}
        ).rope_parameters
        assert made["llama_4_scaling_beta"] == 0.3
        assert made["original_max_position_embeddings"] == 4_096


def test_a_class_of_plain_rope_without_a_length_takes_a_larger_base_alone() -> None:
    planned = plan_config({"model_type": "recurrent_gemma"}, TARGET, trained_length=1_024)
    blocks = {row.method.name: paste(planned, row).rope_parameters for row in planned.methods}
    assert {name for name, keys in blocks.items() if keys} == {"none", "ntk"}
    assert blocks["ntk"].keys() == {"rope_parameters"}
    config = transformers.RecurrentGemmaConfig(**copy.deepcopy(blocks["ntk"]))
    rotary = class_of("recurrent_gemma", "RotaryEmbedding")
    larger = rope_frequencies(method(planned, "ntk").config)[0]
    torch.testing.assert_close(rotary(config).inv_freq.double(), larger, rtol=1e-6, atol=0)
    linear = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
    with pytest.raises(ValueError, match="does not support"):
        rotary(transformers.RecurrentGemmaConfig(rope_parameters=linear))


def test_servers_take_longrope_with_the_attention_factor_of_the_plan() -> None:
    """phi3_long_rope_scaled_rope.py of vLLM: a function of its own context, unless the block names it."""
    block = {
        "rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 32_768,
        "short_factor": [1.0] * 16, "long_factor": [4.0] * 16, "factor": 1.5,
    }  # fmt: skip
    config = {"model_type": "minicpm3", "max_position_embeddings": 49_152, "rope_parameters": block}
    found = plan_config(config, TARGET, scan=64)
    planned = method(found, "configured")
    by_hand = math.sqrt(1 + math.log(1.5) / math.log(32_768))
    assert planned.attention_factor == pytest.approx(by_hand, rel=1e-12)
    pasted = paste(found, planned)
    assert "long_mscale" not in json.dumps(pasted.rope_parameters)
    for command in (pasted.vllm, pasted.sglang):
        served = json.loads(command.split("'")[1])
        scale = served["max_position_embeddings"] / 32_768
        own = math.sqrt(1 + math.log(scale) / math.log(32_768))
        assert own > by_hand + 0.01  # what they would multiply by
        for length in ("short", "long"):
            assert (
                served["rope_parameters"].get(f"{length}_mscale", own) == planned.attention_factor
            )


def test_a_class_that_refuses_a_type_gets_no_block_of_it() -> None:
    planned = plan_model("phi-3-mini-128k")
    assert {"none", "yarn", "linear"} <= {one.method.name for one in planned.methods}
    for one in planned.methods:
        pasted = paste(planned, one)
        accepted = one.method.name in ("none", "ntk", "configured")
        assert bool(pasted.rope_parameters) == accepted, one.method.name
        if one.method.name in ("yarn", "linear"):
            assert "Phi3Config" in pasted.why[0]
            assert pasted.vllm == ""


def test_nothing_is_emitted_for_what_no_public_code_computes() -> None:
    printed = emitted("llama-3-8b", "yarn_paper")
    assert printed.rope_parameters == printed.rope_scaling == {}
    assert printed.vllm == printed.sglang == printed.llama_cpp == ""
    assert printed.why
    # GPT-J's base is written in its code, so no config changes it.
    gptj = plan_config(preset_config("gpt-j-6b"), 4_096, methods=["linear"])
    assert paste(gptj, gptj.methods[0]).rope_parameters == {}
    assert paste(gptj, gptj.methods[0]).why


@pytest.mark.parametrize("name", ["linear", "ntk", "yarn", "llama3"])
def test_vllm_command_holds_the_block_and_the_length_once(name: str) -> None:
    pasted = emitted("llama-3-8b", name)
    words = shlex.split(pasted.vllm)
    assert words[:3] == ["vllm", "serve", "MODEL"]
    flags = dict(zip(words[3::2], words[4::2], strict=True))
    assert flags["--max-model-len"] == str(TARGET)
    overrides = json.loads(flags["--hf-overrides"])
    assert overrides["rope_parameters"] == pasted.rope_parameters["rope_parameters"]
    # _get_and_verify_max_len of vLLM 0.33.0 multiplies the context by the factor of linear alone; before,
    # it took YaRN's original length times its factor. Both must reach the target, or vLLM refuses it.
    block, trained = (
        overrides["rope_parameters"],
        preset_config("llama-3-8b")["max_position_embeddings"],
    )
    context = overrides.get("max_position_embeddings", trained)
    assert context * (block["factor"] if name == "linear" else 1) == TARGET
    if name == "yarn":
        assert block["original_max_position_embeddings"] * block["factor"] == TARGET


def test_vllm_is_told_the_target_of_gemma_3_whose_factors_it_does_not_count() -> None:
    """_get_and_verify_max_len of 0.33.0 leaves out every type with gemma3 in its name."""
    found = plan_config(preset_config("gemma-3-4b"), 262_144, methods=["linear", "yarn"], scan=64)
    for one in found.methods:
        words = shlex.split(paste(found, one).vllm)
        flags = dict(zip(words[3::2], words[4::2], strict=True))
        text = json.loads(flags["--hf-overrides"])["text_config"]
        assert int(flags["--max-model-len"]) <= text["max_position_embeddings"] == 262_144
        assert text["rope_parameters"]["full_attention"]["factor"] > 1


@pytest.mark.parametrize("name", ["linear", "yarn", "llama3"])
def test_a_block_reaches_the_target_from_a_length_that_is_no_power_of_two(name: str) -> None:
    found = plan_config(LLAMA | {"max_position_embeddings": 4_299}, 4_377)
    block = paste(found, method(found, name)).rope_parameters["rope_parameters"]
    start = block.get("original_max_position_embeddings", 4_299)
    assert int(start * block["factor"]) == 4_377  # as vLLM and SGLang compute it


@pytest.mark.parametrize("name", ["linear", "ntk", "yarn", "llama3"])
def test_sglang_command_derives_the_target_as_its_context(name: str) -> None:
    pasted = emitted("llama-3-8b", name)
    words = shlex.split(pasted.sglang)
    assert words[:5] == ["python", "-m", "sglang.launch_server", "--model-path", "MODEL"]
    flags = dict(zip(words[5::2], words[6::2], strict=True))
    assert flags["--context-length"] == str(TARGET)
    overrides = json.loads(flags["--json-model-override-args"])
    assert overrides["rope_parameters"] == pasted.rope_parameters["rope_parameters"]
    # Its get_context_length at 0067b4fe, which must reach the target, or the server refuses to start.
    block = overrides["rope_parameters"]
    alone = "original_max_position_embeddings" not in block and block["rope_type"] != "llama3"
    factor = block.get("factor", 1) if alone else 1
    trained = preset_config("llama-3-8b")["max_position_embeddings"]
    assert factor * overrides.get("max_position_embeddings", trained) == TARGET


def llama_cpp_flags(found: ContextPlan, name: str) -> dict[str, Any]:
    words = shlex.split(paste(found, method(found, name)).llama_cpp)
    assert words[:3] in (["llama-server", "-m", "MODEL"], [])
    return dict(zip(words[3::2], words[4::2], strict=True))


def test_llama_cpp_command_holds_what_its_options_can_express() -> None:
    found = plan_config(LLAMA, 32_768, scan=64)
    assert llama_cpp_flags(found, "yarn") == {
        "--rope-scaling": "yarn", "--rope-scale": "4", "--yarn-orig-ctx": "8192",
        "--yarn-beta-fast": "32", "--yarn-beta-slow": "1", "-c": "32768",
    }  # fmt: skip
    linear = {"--rope-scaling": "linear", "--rope-scale": "4", "-c": "32768"}
    assert llama_cpp_flags(found, "linear") == linear
    base = float(llama_cpp_flags(found, "ntk")["--rope-freq-base"])
    assert base == pytest.approx(5e5 * 4 ** (128 / 126), rel=1e-14)
    for name in ("dynamic", "llama3"):
        assert llama_cpp_flags(found, name) == {}
        assert any("llama.cpp" in why for why in paste(found, method(found, name)).why)


def test_llama_cpp_gets_no_options_where_a_file_holds_factors_that_stay() -> None:
    """Llama 3.1 and LongRoPE are tensors of a GGUF file (ggml-org/llama.cpp pull request 8676)."""
    for name, flags in (("llama-3.1-8b", False), ("llama-3-8b", True), ("qwen3-8b", True)):
        pasted = emitted(name, "yarn")
        assert bool(pasted.llama_cpp) == flags, name
        assert any("8676" in why for why in pasted.why) == (not flags)
    configured = emitted("llama-3.1-8b", "configured")
    assert configured.llama_cpp == f"llama-server -m MODEL -c {TARGET}"
    assert any("llama.cpp" in why for why in configured.why)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random Llama of transformers, without a tokenizer, and a text."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
    folder = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(folder)
    (folder / "text.txt").write_bytes(bytes(range(32, 96)) * 16)
    return folder


class PlannedRotation(torch.nn.Module):
    """In place of a Llama's rotary module: cosines and sines of planned frequencies, in float64."""

    def __init__(self, config: RopeConfig, length: int) -> None:
        super().__init__()
        self.inv_freq, self.factor = rope_frequencies(config, length=length)

    def forward(
        self, x: torch.Tensor, position_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        angles = position_ids[..., None].double() * self.inv_freq.repeat(2)
        return (self.factor * angles.cos()).to(x.dtype), (self.factor * angles.sin()).to(x.dtype)


@torch.no_grad()
def losses_by_hand(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Loss of the tokens 1, 2, ... of sequences, their mean."""
    logits = model.eval()(tokens).logits.double().log_softmax(-1)
    return -logits[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0].mean(0)


def run_script(
    checkpoint: Path, found: ContextPlan, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the script of a method in this process, which has imported transformers already."""
    script = checkpoint / f"{name}.py"
    script.write_text(loss_by_position_script(found, method(found, name)))
    options = ["--byte-tokens", "--dtype", "float32", "--device", "cpu", "--sequences", "2"]
    monkeypatch.chdir(checkpoint)
    monkeypatch.setattr(sys, "argv", [script.name, ".", "text.txt", *options, "--bins", "5"])
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("name", ["yarn", "dynamic"])
def test_the_script_measures_a_checkpoint_as_it_is_and_as_planned(
    checkpoint: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    found = plan_config(json.loads((checkpoint / "config.json").read_text()), 256)
    capsys.readouterr()
    run_script(checkpoint, found, name, monkeypatch)
    printed = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [int(rows[0]["from"]), int(rows[-1]["until"])] == [1, 256]
    assert sum(int(row["tokens"]) for row in rows) == 2 * 255
    content = (checkpoint / "text.txt").read_bytes()[:512]
    tokens = torch.tensor([byte % 64 for byte in content]).view(2, 256)
    plain = LlamaForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    block = paste(found, method(found, name)).rope_parameters
    changed = LlamaForCausalLM(LlamaConfig.from_pretrained(checkpoint, **block))
    changed.load_state_dict(plain.state_dict())
    before, after = losses_by_hand(plain, tokens), losses_by_hand(changed, tokens)
    expected = {"before": [before], "after": [after]}
    rotated = {}
    for other in ("none", "linear", "yarn", "dynamic"):
        plain.model.rotary_emb = PlannedRotation(method(found, other).config, 256)
        rotated[other] = losses_by_hand(plain, tokens)
    expected["after"].append(rotated.pop(name))
    expected["before"].append(rotated["none"])
    parts = [slice(int(row["from"]) - 1, int(row["until"]) - 1) for row in rows]
    for column, losses in expected.items():
        numbers = torch.tensor([float(row[column]) for row in rows], dtype=torch.float64)
        for loss in losses:
            means = torch.stack([loss[part].mean() for part in parts])
            torch.testing.assert_close(numbers, means, rtol=0, atol=1e-5)
    for other, loss in rotated.items():  # any other scaling would be seen
        means = torch.stack([loss[part].mean() for part in parts])
        assert (numbers - means).abs().max() > 2e-4, other


def test_the_script_of_a_config_measures_the_checkpoint_as_it_is_alone(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import LlamaForCausalLM

    plain = plan_config(json.loads((checkpoint / "config.json").read_text()), 256, scan=8)
    scaled = plan_config(preset_config("llama-3.1-8b"), 256, scan=8)
    of_config = loss_by_position_script(scaled, method(scaled, "configured"))
    assert of_config == loss_by_position_script(scaled)
    script = checkpoint / "as_it_is.py"
    for text in (loss_by_position_script(plain), of_config):
        script.write_text(text)
        options = ["--byte-tokens", "--dtype", "float32", "--device", "cpu", "--sequences", "2"]
        monkeypatch.setattr(
            sys, "argv", [script.name, str(checkpoint), str(checkpoint / "text.txt"), *options]
        )
        capsys.readouterr()
        runpy.run_path(str(script), run_name="__main__")
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert {*rows[0]} == {"from", "until", "tokens", "before"}
        content = (checkpoint / "text.txt").read_bytes()[:512]
        tokens = torch.tensor([byte % 64 for byte in content]).view(2, 256)
        model = LlamaForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
        loss = losses_by_hand(model, tokens)
        for row in rows:
            mean = loss[int(row["from"]) - 1 : int(row["until"]) - 1].mean()
            assert float(row["before"]) == pytest.approx(float(mean), abs=1e-5)


def test_script_names_the_missing_tokens(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = plan_config(json.loads((checkpoint / "config.json").read_text()), 4_096)
    with pytest.raises(SystemExit, match=r"1,024 .*4,096|4,096 .*1,024"):
        run_script(checkpoint, found, "linear", monkeypatch)
