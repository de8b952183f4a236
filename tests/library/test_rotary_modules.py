"""Modules of the installed transformers match their configs; biases, attention and tables are the same."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from transformers import SwitchTransformersConfig, T5Config, UMT5Config
from transformers.models.cohere.configuration_cohere import CohereConfig
from transformers.models.cohere.modeling_cohere import CohereRotaryEmbedding
from transformers.models.deepseek_v2.configuration_deepseek_v2 import DeepseekV2Config
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2RotaryEmbedding
from transformers.models.deepseek_v3.configuration_deepseek_v3 import DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3RotaryEmbedding
from transformers.models.gemma4.configuration_gemma4 import Gemma4TextConfig
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextRotaryEmbedding
from transformers.models.gpt_oss.configuration_gpt_oss import GptOssConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssRotaryEmbedding
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding
from transformers.models.speech_to_text.modeling_speech_to_text import (
    Speech2TextSinusoidalPositionalEmbedding,
)
from transformers.models.switch_transformers.modeling_switch_transformers import (
    SwitchTransformersAttention,
)
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.umt5.modeling_umt5 import UMT5Attention

from posenc import attention, identification
from posenc.checkpoints.find_tables import Confidence, find_position_tables
from posenc.checkpoints.position_table import read_position_table
from posenc.checkpoints.safetensors_file import read_header
from posenc.identification.clauses import deviation_sentence
from posenc.identification.sentences import alternative_sentences
from posenc.testing import assert_matches
from tests.library.configs import config_of
from tests.library.tensors import assert_close, random

pytestmark = pytest.mark.usefixtures("no_shape_checks")

identify: Any = identification.identify
LAST_DIGITS = 2.0**-22  # sines of other code, or of other lanes of a processor, differ by it

NAMES = json.loads(Path(__file__).with_name("position_table_names.json").read_text())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_llama_attention_layer_with_grouped_queries_gives_the_same_output(
    dtype: torch.dtype,
) -> None:
    config = LlamaConfig(  # type: ignore[call-arg]  # and more, by keyword
        head_dim=16, rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        hidden_size=64, num_attention_heads=4, num_key_value_heads=2, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    layer = LlamaAttention(config, layer_idx=0).to(dtype)
    x = random(2, 40, 64, dtype=dtype)
    mask = torch.full((40, 40), -math.inf).triu(1)[None, None].to(dtype)
    embeddings = LlamaRotaryEmbedding(config)(x, torch.arange(40)[None])
    theirs = layer(x, position_embeddings=embeddings, attention_mask=mask)[0]
    q, k, v = (
        projection(x).unflatten(-1, (-1, 16)).transpose(1, 2)
        for projection in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    rope = config_of("rope", dim=16, base=500000.0, layout="half").build()
    ours = layer.o_proj(attention(q, k, v, rope).transpose(1, 2).flatten(-2))
    assert_close(ours, theirs, atol=16 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(
    ("config_class", "attention_class"),
    [
        (T5Config, T5Attention),
        (UMT5Config, UMT5Attention),
        (SwitchTransformersConfig, SwitchTransformersAttention),
    ],
)
def test_t5_bias_equals_that_of_transformers(
    config_class: Any, attention_class: Any, both: bool
) -> None:
    config = config_class(num_heads=6, d_model=48, d_kv=8, is_decoder=not both)
    peer = attention_class(config, has_relative_attention_bias=True, layer_idx=0)
    scheme = config_of("t5", heads=6, bidirectional=both).build()
    scheme.load_state_dict({"weight": peer.relative_attention_bias.weight})
    q = torch.zeros(1, 6, 200, 8)
    bias = scheme.bias(q, q)
    assert bias is not None
    assert_close(bias.detach(), peer.compute_bias(200, 200).detach(), atol=0)  # a lookup


SCALINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 2.5},
    "dynamic": {"factor": 3.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 5_000},
    "longrope": {
        "factor": 4.0, "original_max_position_embeddings": 5_000,
        "short_factor": [1 + 0.1 * pair for pair in range(16)],
        "long_factor": [1 + 0.7 * pair for pair in range(16)],
    },
    "llama3": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 5_000,
    },
}  # fmt: skip


def llama(rope_type: str, base: float = 5e5) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=64, num_attention_heads=2,
        max_position_embeddings=40_000 if rope_type == "llama3" else 20_000,
        rope_parameters={"rope_type": rope_type, "rope_theta": base, **SCALINGS[rope_type]},
    )  # fmt: skip


class Narrowed(nn.Module):
    """A rotary module that returns a narrower format, as of token vectors in that format."""

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.module, self.dtype = module, dtype

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        return self.module(x.to(self.dtype), position_ids)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("base", [1e4, 5e5])
@pytest.mark.parametrize("rope_type", SCALINGS)
def test_rotary_module_of_transformers_matches_its_config(
    rope_type: str, base: float, dtype: torch.dtype
) -> None:
    config = llama(rope_type, base)
    module = Narrowed(LlamaRotaryEmbedding(config), dtype)
    assert assert_matches(module, config.to_dict(), context=1_000_000) == "float32 arithmetic"
    # Below 20,000, errors of the angles may be less than a rounding to 16 bits.
    assert dtype != torch.float32 or assert_matches(module, config) == "float32 arithmetic"
    assert assert_matches(module, config)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rope_type", SCALINGS)
def test_table_of_a_rotary_module_matches_its_config(rope_type: str, dtype: torch.dtype) -> None:
    config = llama(rope_type)
    for start in (0, 1_000_000):
        positions = torch.arange(start, start + 2_000)
        tables = LlamaRotaryEmbedding(config)(torch.zeros(1, dtype=dtype), positions[None])
        match = assert_matches(tables, config, start=start)
        assert match == "float32 arithmetic" or (not start and dtype != torch.float32)


@pytest.mark.parametrize("rope_type", SCALINGS)
def test_other_code_in_float32_is_within_the_tolerance_that_is_stated(rope_type: str) -> None:
    config = llama(rope_type)
    module = LlamaRotaryEmbedding(config)
    factor = float(module.attention_scaling)
    assert assert_matches(module, config, context=20_000, tolerance=2e-7 * 20_000 * factor)
    with pytest.raises(AssertionError, match=r"from exact angles first .*, where 0\.0001 is"):
        assert_matches(module, config, context=20_000, tolerance=1e-4)


@pytest.mark.parametrize("rope_type", ["dynamic", "longrope"])
def test_module_is_left_as_it_was_and_may_have_read_a_long_text_before(rope_type: str) -> None:
    config = llama(rope_type)
    module = LlamaRotaryEmbedding(config)
    for length in (50_000, 300):
        module(torch.zeros(1), torch.tensor([[length - 1]]))
        before = {name: buffer.clone() for name, buffer in module.named_buffers()}
        assert assert_matches(module, config) == "float32 arithmetic"
        for name, buffer in module.named_buffers():
            assert torch.equal(buffer, before[name])


def test_scaling_that_does_not_follow_the_length_of_the_text_fails() -> None:
    """A dynamic module that keeps its first frequencies; a LongRoPE module without its long factors."""
    for rope_type, last in (("dynamic", 20_000), ("longrope", 5_000)):
        config = llama(rope_type)
        module = LlamaRotaryEmbedding(config)
        module.rope_type = "default"  # no update of the frequencies
        with pytest.raises(
            AssertionError, match=f"Asked for positions up to {last:,}, it differs from"
        ):
            assert_matches(module, config)


def gemma() -> Gemma4TextConfig:
    sizes: dict[str, Any] = {
        "hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1,
        "num_global_key_value_heads": 1, "num_hidden_layers": 6, "head_dim": 32, "global_head_dim": 64,
    }  # fmt: skip
    return Gemma4TextConfig(**sizes)


def test_each_kind_of_layer_is_asked_for_and_has_frequencies_of_its_own() -> None:
    """Gemma 4: RoPE in layers with a window, p-RoPE in the others."""
    module = Gemma4TextRotaryEmbedding(gemma())
    assert assert_matches(module, gemma()) == "float32 arithmetic"
    module.full_attention_inv_freq = module.full_attention_inv_freq.bfloat16()
    with pytest.raises(AssertionError, match=r"^full_attention: .*This module is not p-RoPE"):
        assert_matches(module, gemma())


@pytest.mark.parametrize(
    ("config", "rotary"),
    [
        (LlamaConfig(hidden_size=64, num_attention_heads=2), LlamaRotaryEmbedding),
        (DeepseekV2Config(qk_rope_head_dim=16), DeepseekV2RotaryEmbedding),  # returns cos + i sin
        (DeepseekV3Config(qk_rope_head_dim=16), DeepseekV3RotaryEmbedding),  # neighbours, in halves
        (CohereConfig(), CohereRotaryEmbedding),  # in neighbours
        (GptOssConfig(), GptOssRotaryEmbedding),  # one cosine for each pair
    ],
)
def test_a_module_of_another_base_fails_in_every_form(config: Any, rotary: Any) -> None:
    """Those of their own config match: tests/models/test_oracle.py has every class."""
    with pytest.raises(AssertionError, match="This module is not RoPE"):
        assert_matches(rotary(config), config.to_dict() | {"rope_parameters": {"rope_theta": 2e4}})


def test_padding_row_inside_a_table_is_named_and_not_counted() -> None:
    """fairseq's sinusoids, which M2M100 and NLLB keep: row padding_idx is blank, no other moves."""
    table = Speech2TextSinusoidalPositionalEmbedding(100, 32, padding_idx=1).weights
    assert not table[1].any()
    found = identify(table)
    assert [one.kind for one in found.deviations] == ["padding", "angles"]
    assert "Row 1 is all zeros" in deviation_sentence(found.deviations[0])
    assert found.hypothesis.start == 0
    assert found.largest <= LAST_DIGITS


def test_dynamic_cache_of_transformers_has_nothing_unexplained() -> None:
    config = LlamaConfig(
        hidden_size=32, num_attention_heads=4, max_position_embeddings=100,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0},
    )  # fmt: skip
    found = identify(*LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(200)[None]))
    assert found.config.kind == "rope"
    assert [one.kind for one in found.deviations] == ["angles"]
    assert alternative_sentences(found) == ["It may also be NTK-aware scaling of base 10,000 by 3."]


def rows_used(model: nn.Module, table: nn.Parameter, inputs: dict[str, torch.Tensor]) -> list[int]:
    """Return the rows of `table` that have a part in the model's output."""
    output = model.eval()(**inputs).last_hidden_state
    mixed = torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad((output * mixed).sum(), table)
    return gradient.flatten(0, -2).abs().sum(1).nonzero().flatten().tolist()


@pytest.mark.parametrize(("model_name", "sizes"), NAMES["models"])
def test_position_0_is_the_row_that_the_model_itself_uses(
    model_name: str, sizes: dict[str, int], tmp_path: Path
) -> None:
    stem = model_name.removesuffix("Model")
    model = getattr(transformers, f"{stem}Model")(getattr(transformers, f"{stem}Config")(**sizes))
    with torch.no_grad():
        draw = torch.Generator().manual_seed(0)
        for parameter in model.parameters():  # some start at zero, where nothing shows
            parameter.normal_(0, 0.5, generator=draw)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    found = [c for c in find_position_tables(read_header(path)) if c.confidence is Confidence.KNOWN]
    assert len(found) == (2 if "encoder_layers" in sizes else 1)
    inputs = {"input_ids": torch.tensor([[5, 6, 7]])}
    if "encoder_layers" in sizes:
        inputs["decoder_input_ids"] = inputs["input_ids"]
    if "patch_size" in sizes:
        inputs = {"pixel_values": torch.ones(1, 3, 12, 12)}
    for candidate in found:
        table, first = read_position_table(path, candidate.name).table, candidate.first_row
        parameter = next(  # by value: the name in the file may differ from the name in the model
            parameter
            for parameter in model.parameters()
            if parameter.shape[-2:] == (candidate.rows, candidate.width)
            and torch.equal(parameter.reshape(-1, candidate.width)[first:], table)
        )
        used = rows_used(model, parameter, inputs)
        if "pixel_values" in inputs:  # 9 patches; every row is used, the class token's too
            assert used == list(range(candidate.rows))
            assert candidate.rows - first == 9
        else:
            assert used == [first, first + 1, first + 2]
