"""Captured queries and keys of layers with windows, caps, slopes and latent heads: against plain loops."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from posenc.analysis.captured import by_head, captured_use
from posenc.errors import SchemeArgumentError
from posenc.models import read_config
from tests.library.tensors import random

N, D = 9, 8
SIZES: dict[str, Any] = {
    "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": D,
    "num_hidden_layers": 2, "max_position_embeddings": 64, "rope_theta": 1e4,
}  # fmt: skip
WINDOWED = SIZES | {"model_type": "mistral", "sliding_window": 3}
CAPPED = SIZES | {
    "model_type": "gemma2", "attn_logit_softcapping": 0.5, "query_pre_attn_scalar": 4,
    "sliding_window": 4, "layer_types": ["full_attention"] * 2,
}  # fmt: skip
GROWING = SIZES | {
    "model_type": "llama4_text", "no_rope_layers": [1, 1], "attention_chunk_size": 64,
    "layer_types": ["full_attention"] * 2, "use_qk_norm": False,
}  # fmt: skip


def turned(x: np.ndarray, position: int) -> np.ndarray:
    """Rotate one vector whose pairs are halves."""
    angles = position * 1e4 ** (-2 * np.arange(D // 2) / D)
    a, b = x[: D // 2], x[D // 2 :]
    return np.concatenate(
        [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)]
    )


@pytest.mark.parametrize(
    ("config", "window", "scale", "cap"),
    [(WINDOWED, 3, D**-0.5, None), (CAPPED, N, 0.5, 0.5)],
    ids=["window", "soft cap"],
)
def test_windows_caps_and_scales_of_the_config_are_those_of_a_loop(
    config: dict[str, Any], window: int, scale: float, cap: float | None
) -> None:
    q, k = random(4, N, D, dtype=torch.float32), random(2, N, D, seed=1, dtype=torch.float32)
    model = read_config(config)
    found = captured_use(q, k, model, model.main)
    for head in range(4):
        entropies, distances, added = [], [], []
        for i in range(N):
            seen = range(max(0, i - window + 1), i + 1)
            query = turned(q[head, i].double().numpy(), i)
            keys = [turned(k[head // 2, j].double().numpy(), j) for j in seen]
            logits = np.array([scale * query @ key for key in keys])
            if cap is not None:
                logits = cap * np.tanh(logits / cap)
            weights = np.exp(logits) / np.exp(logits).sum()
            entropies.append(-(weights * np.log(weights)).sum())
            distances.append(sum(w * (i - j) for w, j in zip(weights, seen, strict=True)))
            added += [
                abs(scale * (query[[1, 5]] @ key[[1, 5]])) for key in keys
            ]  # pair 1, features 1 and 5
        assert float(found.attention.entropy[head]) == pytest.approx(np.mean(entropies), rel=1e-6)
        assert float(found.attention.distance[head]) == pytest.approx(np.mean(distances), rel=1e-6)
        assert found.pairs is not None
        assert float(found.pairs.contributions[head, 1]) == pytest.approx(np.mean(added), rel=1e-4)
        lengths = np.linalg.norm(q[head].numpy()[:, [1, 5]], axis=1)
        assert float(found.pairs.queries[head, 1]) == pytest.approx(lengths.mean(), rel=1e-5)


def test_slopes_are_those_of_every_head_and_nothing_rotates() -> None:
    model = read_config({"model_type": "bloom", "hidden_size": 32, "n_head": 4, "n_layer": 1})
    q, k = random(4, N, D, dtype=torch.float32), random(4, N, D, seed=1, dtype=torch.float32)
    found = captured_use(q, k, model, model.main)
    assert found.pairs is None
    for head in range(4):
        firsts = []
        for i in range(N):
            logits = [
                float(q[head, i].double() @ k[head, j].double()) * D**-0.5
                - 2.0 ** (-2 * (head + 1)) * (i - j)
                for j in range(i + 1)
            ]
            total = sum(math.exp(logit) for logit in logits)
            firsts.append(math.exp(logits[0]) / total)
        assert float(found.attention.first_token[head]) == pytest.approx(np.mean(firsts), rel=1e-6)


def test_the_last_features_of_a_latent_head_rotate() -> None:
    """DeepSeek-V3's query has its rotated features last: changing the others changes no pair."""
    latent = {
        "model_type": "deepseek_v3", "hidden_size": 32, "num_attention_heads": 2,
        "num_key_value_heads": 2, "num_hidden_layers": 1, "q_lora_rank": None, "kv_lora_rank": 8,
        "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 6, "rope_theta": 1e4,
        "max_position_embeddings": 64,
    }  # fmt: skip
    model = read_config(latent)
    q, k = random(2, N, 10, dtype=torch.float32), random(2, N, 10, seed=1, dtype=torch.float32)
    found = captured_use(q, k, model, model.main).pairs
    other = q.clone()
    other[..., :6] *= 3
    again = captured_use(other, k, model, model.main).pairs
    assert found is not None
    assert again is not None
    assert found.contributions.shape == (2, 2)
    assert torch.equal(found.contributions, again.contributions)
    lengths = torch.linalg.vector_norm(q[:, :, 6:8], dim=-1).mean(1)
    assert found.queries[:, 0].tolist() == pytest.approx(lengths.tolist(), rel=1e-6)


def test_a_query_that_grows_adds_more() -> None:
    model = read_config(GROWING | {"floor_scale": 2, "attn_scale": 1.0})
    (kind,) = [kind for kind in model.layer_kinds if kind.scheme is not None][:1]
    assert kind.growth is None  # only layers without rotation grow, which no pair adds to
    alone = read_config(GROWING | {"no_rope_layers": [0, 0], "floor_scale": 2, "attn_scale": 1.0})
    q, k = random(4, N, D, dtype=torch.float32), random(2, N, D, seed=1, dtype=torch.float32)
    found = captured_use(q, k, alone, alone.main).attention
    for head in (0, 3):
        entropies = []
        for i in range(N):
            factor = 1 + math.log1p((i + 1) // 2)
            logits = (k[head // 2, : i + 1] @ q[head, i]).double().numpy() * factor * D**-0.5
            weights = np.exp(logits) / np.exp(logits).sum()
            entropies.append(-(weights * np.log(weights)).sum())
        assert float(found.entropy[head]) == pytest.approx(np.mean(entropies), rel=1e-5)


@pytest.mark.parametrize(
    ("q", "k", "words"),
    [
        (random(3, N, D), random(2, N, D), "a multiple of the heads of keys"),
        (random(4, N, D), random(2, N + 1, D), "as many tokens and features"),
        (random(8, N, D), random(2, N, D), "4 heads of 8 features, the files 8 of 8"),
        (random(4, N, 6), random(2, N, 6), "the files 4 of 6: they are of two models"),
    ],
)
def test_vectors_of_another_shape_are_refused(q: Any, k: Any, words: str) -> None:
    model = read_config(WINDOWED)
    with pytest.raises(SchemeArgumentError, match=words):
        captured_use(q, k, model, model.main)


def test_layers_of_other_kinds_are_refused_in_a_sentence() -> None:
    q = random(4, N, D)
    encoder = read_config({"model_type": "modernbert", "hidden_size": 32, "num_attention_heads": 4})
    with pytest.raises(SchemeArgumentError, match="see later keys"):
        captured_use(q, q, encoder, encoder.main)
    for array in (random(8), random(2, 3, N, D), random(0, D), random(N, D).fill_(math.inf)):
        with pytest.raises(
            SchemeArgumentError, match="must be finite numbers of tokens x features"
        ):
            by_head(array)
    assert by_head(random(1, 1, 4, N, D)).shape == (4, N, D)
    assert by_head(random(N, D)).shape == (1, N, D)
