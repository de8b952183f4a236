"""What a plan emits: transformers accepts it and computes the planned frequencies; a script that runs."""

import csv
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from posenc import rope_frequencies
from posenc.interop import read_config
from posenc.planner import ContextPlan, MethodPlan, emit, loss_by_position_script, plan
from posenc.presets import MODELS
from posenc.schemes.rope import RopeConfig
from tests import models

TARGET = 32_768
WRITTEN = ["none", "linear", "ntk", "dynamic", "yarn", "llama3"]


def planned(config: dict[str, Any], target: int = TARGET, **others: Any) -> ContextPlan:
    return plan(read_config(config), target, **{"name": "M", "search_base": False} | others)


def method(found: ContextPlan, name: str) -> MethodPlan:
    return next(one for one in found.methods if one.method.name == name)


def frequencies(config: dict[str, Any], length: int) -> tuple[torch.Tensor, float]:
    """What a model of transformers turns by, once it was told a text of this length."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    kept = {key: value for key, value in config.items() if key != "model_type"}
    rotary = LlamaRotaryEmbedding(LlamaConfig(**kept, vocab_size=16, intermediate_size=16))
    rotary(torch.zeros(1, 1, 8), torch.arange(length)[None])
    return rotary.inv_freq.double(), rotary.attention_scaling


@pytest.mark.parametrize("generation", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("name", WRITTEN)
def test_transformers_takes_the_block_and_computes_what_was_planned(
    name: str, generation: str
) -> None:
    one = method(found := planned(models.LLAMA3_8B, methods=[name]), name)
    emitted = emit(found, one)
    block = getattr(emitted, generation)
    plain = {key: value for key, value in models.LLAMA3_8B.items() if key != "rope_theta"}
    inv_freq, attention_factor = frequencies(plain | block, TARGET)
    expected, scale = rope_frequencies(one.config, length=TARGET)
    torch.testing.assert_close(inv_freq, expected, rtol=1e-6, atol=0)
    assert attention_factor == pytest.approx(scale, rel=1e-12)


@pytest.mark.parametrize("generation", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("name", ["linear", "ntk", "yarn", "llama3", "dynamic"])
def test_the_block_reads_back_as_the_planned_config(name: str, generation: str) -> None:
    one = method(found := planned(models.LLAMA3_8B, methods=[name]), name)
    block = getattr(emit(found, one), generation)
    plain = {key: value for key, value in models.LLAMA3_8B.items() if key != "rope_theta"}
    read = read_config(json.loads(json.dumps(plain | block))).main.scheme
    expected, scale = rope_frequencies(one.config, length=TARGET)
    inv_freq, attention_factor = rope_frequencies(read, length=TARGET)  # type: ignore[arg-type]
    torch.testing.assert_close(inv_freq, expected, rtol=1e-13, atol=0)
    assert attention_factor == scale


def test_dynamic_scaling_keeps_the_trained_length_where_transformers_looks_for_it() -> None:
    found = planned(models.LLAMA3_8B)
    assert emit(found, method(found, "dynamic")).rope_parameters["max_position_embeddings"] == 8_192
    assert emit(found, method(found, "yarn")).rope_parameters["max_position_embeddings"] == TARGET


def test_layers_with_a_block_of_their_own_keep_it() -> None:
    found = planned(models.GEMMA3_4B, 131_072, trained_length=32_768)
    block = emit(found, method(found, "linear")).rope_parameters["rope_parameters"]
    assert block["full_attention"] == {"rope_type": "linear", "rope_theta": 1e6, "factor": 4.0}
    assert block["sliding_attention"] == {"rope_type": "default", "rope_theta": 1e4}


@pytest.mark.parametrize("name", ["linear", "ntk", "yarn", "llama3"])
def test_the_flags_of_vllm_are_one_command_with_the_block_in_it(name: str) -> None:
    found = planned(models.LLAMA3_8B)
    emitted = emit(found, method(found, name))
    words = shlex.split(emitted.vllm)
    assert words[:3] == ["vllm", "serve", "MODEL"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert given["--max-model-len"] == "32768"
    block = json.loads(given["--hf-overrides"])
    assert block["rope_parameters"] == emitted.rope_parameters["rope_parameters"]
    # linear and YaRN multiply the context by their factor; the others have to be told it.
    assert ("max_position_embeddings" in block) == (name in ("ntk", "llama3"))


def test_the_flags_of_llama_cpp_say_what_its_options_can() -> None:
    found = planned(models.LLAMA3_8B)
    start = "llama-server -m MODEL "
    assert emit(found, method(found, "yarn")).llama_cpp == (
        start + "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 8192 --yarn-beta-fast 32 "
        "--yarn-beta-slow 1 -c 32768"
    )
    assert emit(found, method(found, "linear")).llama_cpp == (
        start + "--rope-scaling linear --rope-scale 4 -c 32768"
    )
    words = shlex.split(emit(found, method(found, "ntk")).llama_cpp)
    base = float(words[words.index("--rope-freq-base") + 1])
    assert base == pytest.approx(5e5 * 4 ** (128 / 126), rel=1e-14)
    for name in ("dynamic", "llama3"):
        emitted = emit(found, method(found, name))
        assert emitted.llama_cpp == ""
        assert any("llama.cpp" in reason for reason in emitted.why)


def test_nothing_is_emitted_for_what_no_public_code_computes() -> None:
    found = planned(models.LLAMA3_8B)
    emitted = emit(found, method(found, "yarn_paper"))
    assert emitted.rope_parameters == emitted.rope_scaling == {}
    assert emitted.vllm == emitted.llama_cpp == ""
    assert emitted.why
    assert loss_by_position_script(found, method(found, "yarn_paper")) == ""


@pytest.mark.parametrize("name", MODELS)
def test_every_known_model_has_something_to_paste_or_is_told_why_not(name: str) -> None:
    model = MODELS[name].read(scaled=False)
    found = plan(model, 200_000, name=name, methods=["linear", "yarn"], search_base=False)
    for one in found.methods:
        emitted = emit(found, one)
        assert emitted.rope_parameters or emitted.why
        assert bool(loss_by_position_script(found, one)) == bool(emitted.rope_parameters)


def test_layers_that_share_one_block_are_all_read_with_it() -> None:
    found = plan(MODELS["gemma-2-9b"].read(), 32_768, methods=["linear"], search_base=False)
    block = emit(found, method(found, "linear")).rope_parameters["rope_parameters"]
    assert block == {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}


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
    place = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(place)
    (place / "text.txt").write_bytes(bytes(range(32, 96)) * 16)
    return place


class Turning(torch.nn.Module):
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


@pytest.mark.parametrize("name", ["yarn", "dynamic"])
def test_the_script_measures_the_user_s_checkpoint_as_it_is_and_as_planned(
    checkpoint: Path, name: str
) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    found = planned(json.loads((checkpoint / "config.json").read_text()), 256)
    (checkpoint / f"{name}.py").write_text(loss_by_position_script(found, method(found, name)))
    ran = subprocess.run(
        [sys.executable, f"{name}.py", ".", "text.txt", "--byte-tokens", "--dtype", "float32",
         "--device", "cpu", "--sequences", "2", "--bins", "5"],
        cwd=checkpoint, capture_output=True, text=True, check=False,
        env={"HF_HUB_OFFLINE": "1", "PATH": ""},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    rows = list(csv.DictReader(io.StringIO(ran.stdout)))
    assert [int(rows[0]["from"]), int(rows[-1]["until"])] == [1, 256]
    assert sum(int(row["tokens"]) for row in rows) == 2 * 255
    # The same by hand: the loss that transformers gives for two sequences, token by token, as the
    # checkpoint is, told the block by this test, and turned by the planned frequencies themselves.
    tokens = torch.tensor(
        [byte % 64 for byte in (checkpoint / "text.txt").read_bytes()[:512]]
    ).view(2, 256)
    plain = LlamaForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    block = emit(found, method(found, name)).rope_parameters
    told = LlamaForCausalLM(LlamaConfig.from_pretrained(checkpoint, **block))
    told.load_state_dict(plain.state_dict())
    by_hand = {"before": [losses_by_hand(plain, tokens)], "after": [losses_by_hand(told, tokens)]}
    turned = {}
    for other in ("none", "linear", "yarn", "dynamic"):
        plain.model.rotary_emb = Turning(method(found, other).config, 256)
        turned[other] = losses_by_hand(plain, tokens)
    by_hand["after"].append(turned.pop(name))
    by_hand["before"].append(turned["none"])
    parts = [slice(int(row["from"]) - 1, int(row["until"]) - 1) for row in rows]
    for kind, losses in by_hand.items():
        written = torch.tensor([float(row[kind]) for row in rows], dtype=torch.float64)
        for one in losses:
            means = torch.stack([one[part].mean() for part in parts])
            torch.testing.assert_close(written, means, rtol=0, atol=1e-5)
    for other, one in turned.items():  # any other scaling would have been seen
        means = torch.stack([one[part].mean() for part in parts])
        assert (written - means).abs().max() > 2e-4, other


def test_the_script_says_how_many_tokens_are_missing(checkpoint: Path) -> None:
    found = planned(json.loads((checkpoint / "config.json").read_text()), 4_096)
    (checkpoint / "long.py").write_text(loss_by_position_script(found, method(found, "linear")))
    ran = subprocess.run(
        [sys.executable, "long.py", ".", "text.txt", "--byte-tokens", "--device", "cpu"],
        cwd=checkpoint, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    assert "The text has 1,024 tokens; 4,096 are needed." in ran.stderr
