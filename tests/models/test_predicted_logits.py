"""Predicted attention logits are those of a plain loop over the formula, and of transformers' classes."""

import importlib
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.logits import Growth, predict_bias, predict_logits, rule_of_scheme
from posenc.models import read_config
from posenc.models.logit_rules import logit_rules
from tests.library.configs import config_of

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def vectors(heads: int, tokens: int, width: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(heads, tokens, width, generator=generator, dtype=torch.float64)


def turned(x: Tensor, position: int, base: float) -> list[float]:
    """One vector, rotated in halves by the formula of Su et al. 2021."""
    half, out = len(x) // 2, [0.0] * len(x)
    for pair in range(half):
        angle = position * base ** (-2 * pair / len(x))
        a, b = float(x[pair]), float(x[pair + half])
        out[pair] = a * math.cos(angle) - b * math.sin(angle)
        out[pair + half] = b * math.cos(angle) + a * math.sin(angle)
    return out


def test_rope_with_a_soft_cap_a_window_and_grouped_keys_is_the_formula() -> None:
    q, k = vectors(4, 6, 8), vectors(2, 9, 8, seed=1)
    rule = rule_of_scheme(config_of("rope", dim=8, base=100.0, layout="half"), 4, 8)
    rule = rule.replace(softcap=5.0, window=4)
    found = predict_logits(rule, q, k)
    for head in range(4):
        for row in range(6):
            query = turned(q[head, row], row + 3, 100.0)
            for column in range(9):
                key = turned(k[head // 2, column], column, 100.0)
                dot = sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(8)
                seen = row + 3 - 4 < column <= row + 3
                expected = 5 * math.tanh(dot / 5) if seen else -math.inf
                assert float(found[head, row, column]) == pytest.approx(expected, abs=1e-12)


def test_alibi_of_a_tensor_parallel_rank_has_the_slopes_of_its_own_heads() -> None:
    q, k = vectors(4, 3, 8), vectors(4, 7, 8, seed=1)
    rule = rule_of_scheme(config_of("alibi", heads=8), 8, 8)
    found = predict_logits(rule, q, k, first_head=4)
    for head in range(4):
        for row in range(3):
            for column in range(row + 5):
                distance = row + 4 - column
                expected = float(q[head, row] @ k[head, column]) / math.sqrt(8)
                expected -= 2.0 ** -(head + 5) * distance
                assert float(found[head, row, column]) == pytest.approx(expected, abs=1e-12)


def test_chunks_do_not_see_each_other_and_queries_grow() -> None:
    q, k = vectors(1, 8, 4), vectors(1, 8, 4, seed=1)
    rule = rule_of_scheme(config_of("none"), 1, 4)
    growth = Growth(rate=0.1, length=3, first=1)
    found = predict_logits(rule.replace(window=3, chunked=True, growth=growth), q, k)
    for row in range(8):
        for column in range(8):
            value = float(q[0, row] @ k[0, column]) / 2
            value *= 1 + 0.1 * math.log(1 + (row + 1) // 3)
            seen = column <= row and row // 3 == column // 3
            expected = value if seen else -math.inf
            assert float(found[0, row, column]) == pytest.approx(expected, abs=1e-12)


def test_latent_attention_rotates_the_last_features() -> None:
    q, k = vectors(2, 5, 12), vectors(2, 5, 12, seed=1)
    rope = config_of("rope", dim=12, layout="half", partial_rotary_factor=1 / 3)
    rule = rule_of_scheme(rope, 2, 12).replace(rotates_last=True)
    found = predict_logits(rule, q, k)
    for row in range(5):
        for column in range(row + 1):
            query = [*q[1, row, :8].tolist(), *turned(q[1, row, 8:], row, 10_000.0)]
            key = [*k[1, column, :8].tolist(), *turned(k[1, column, 8:], column, 10_000.0)]
            dot = sum(a * b for a, b in zip(query, key, strict=True))
            assert float(found[1, row, column]) == pytest.approx(dot / math.sqrt(12), abs=1e-12)


def test_a_window_in_both_directions_has_half_on_each_side() -> None:
    rule = rule_of_scheme(config_of("none"), 1, 4, causal=False).replace(window=5)
    found = predict_logits(rule, vectors(1, 9, 4), vectors(1, 9, 4))
    seen = [[abs(row - column) <= 2 for column in range(9)] for row in range(9)]
    assert found[0].isfinite().tolist() == seen


def test_bias_of_a_trained_scheme_needs_its_numbers() -> None:
    config = config_of("t5", heads=2)
    positions = torch.arange(5)
    with pytest.raises(SchemeArgumentError, match="is trained: give the built scheme"):
        predict_bias(rule_of_scheme(config, 2, 8), positions, positions)
    scheme = config.build(seed=3)
    bias = predict_bias(rule_of_scheme(scheme, 2, 8), positions, positions)
    assert bias is not None
    assert float(bias[1, 4, 1]) == float(scheme.weight.detach()[3, 1])


SMALL = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 32,
         "intermediate_size": 32, "max_position_embeddings": 64}  # fmt: skip
# A small config of each type, and the module whose attention function is asked.
CLASSES: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 2},
    "gemma2": {"num_key_value_heads": 2, "head_dim": 16, "query_pre_attn_scalar": 24,
               "attn_logit_softcapping": 3.0, "sliding_window": 5},
    "gemma3_text": {"num_key_value_heads": 2, "head_dim": 16, "query_pre_attn_scalar": 24,
                    "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]},
    "deepseek_v3": {
        "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 2, "n_group": 1,
        "topk_group": 1, "num_experts_per_tok": 1, "moe_intermediate_size": 16,
        "first_k_dense_replace": 2,
        "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 0.707,
                         "original_max_position_embeddings": 32},
    },
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_type", CLASSES)
def test_weights_of_transformers_are_the_softmax_of_predicted_logits(
    model_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers: Any = pytest.importorskip("transformers", minversion="5")
    values = {"model_type": model_type, **SMALL, **CLASSES[model_type]}
    name = model_type.removesuffix("_text")
    modeling = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    eager, calls = modeling.eager_attention_forward, []

    def recorded(module: Any, query: Tensor, key: Tensor, *rest: Any, **options: Any) -> Any:
        out = eager(module, query, key, *rest, **options)
        calls.append((module.layer_idx, query, key, out[1]))
        return out

    monkeypatch.setattr(modeling, "eager_attention_forward", recorded)
    config = transformers.AutoConfig.for_model(**values)
    config._attn_implementation = "eager"
    torch.random.manual_seed(0)
    model = transformers.AutoModel.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)  # so that the logits are far from 0
        model(torch.randint(32, (1, 12)))
    read = read_config(values)
    rules = logit_rules(read)
    assert len(calls) == 2
    for layer, query, key, weights in calls:
        kind = next(kind for kind in read.layer_kinds if layer in kind.layers)
        expected = predict_logits(rules[kind.name], query[0], key[0], rotated=True).softmax(-1)
        assert torch.allclose(weights[0].double(), expected, atol=2e-5)
