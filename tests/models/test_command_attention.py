"""The command `posenc attention`: captured vectors against a plain softmax, mistakes in one sentence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from posenc import RopeConfig
from posenc.__main__ import main
from tests.library.tensors import random

TOKENS, WIDTH = 10, 12
CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 3, "max_position_embeddings": 64, "rope_theta": 1e4,
}  # fmt: skip


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["attention", *map(str, arguments)])


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Queries of 4 heads, in whose head 3 pair 5 is large, keys of 2 heads, and the config."""
    queries, keys = random(4, TOKENS, WIDTH), random(2, TOKENS, WIDTH, seed=1)
    queries[3, :, [5, 11]] *= 10
    paths = {name: tmp_path / f"{name}.npy" for name in ("queries", "keys", "one")}
    for name, vectors in (("queries", queries), ("keys", keys), ("one", keys[0])):
        np.save(paths[name], vectors.numpy())
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    return paths | {"config": config}


@pytest.mark.parametrize("scale", [WIDTH**-0.5, 0.5])
def test_heads_and_the_planted_pair_are_those_of_a_plain_softmax(
    files: dict[str, Path], scale: float
) -> None:
    if scale == 0.5:  # of a class whose config has it
        granite = CONFIG | {"model_type": "granite", "attention_multiplier": scale}
        files["config"].write_text(json.dumps(granite))
    arguments = files["queries"], files["keys"], "--config", files["config"]
    said = command(*arguments)
    assert said.exit_code == 0, said.output
    assert "Head 3: " in said.output
    assert "pair 5 added most to logits" in said.output
    found = json.loads(command(*arguments, "--json").output)
    assert int(np.argmax(found["contributions"][3])) == 5
    rope = RopeConfig(dim=WIDTH, layout="half").build()
    q, k = (torch.from_numpy(np.load(files[name])) for name in ("queries", "keys"))
    turned_q, turned_k = (x[0].numpy() for x in rope.rotate(q[None], k[None]))
    for head in range(4):
        firsts, entropies = [], []
        for i in range(TOKENS):
            logits = turned_k[head // 2, : i + 1] @ turned_q[head, i] * scale
            weights = np.exp(logits) / np.exp(logits).sum()
            firsts.append(weights[0])
            entropies.append(-(weights * np.log(weights)).sum())
        assert found["first_token"][head] == pytest.approx(np.mean(firsts), rel=1e-4)
        lengths = np.linalg.norm(q[head].numpy()[:, [5, 11]], axis=1)
        assert found["query_lengths"][head][5] == pytest.approx(lengths.mean(), rel=1e-5)
        assert found["entropy"][head] == pytest.approx(np.mean(entropies), rel=1e-4)


def test_one_head_is_taken_and_mistakes_are_one_sentence(files: dict[str, Path]) -> None:
    one = command(files["one"], files["one"], "--config", files["config"], "--json")
    assert len(json.loads(one.output)["entropy"]) == 1
    wide = files["config"].with_name("wide.json")
    wide.write_text(json.dumps(CONFIG | {"hidden_size": 64}))
    cases = {
        (
            files["one"],
            files["keys"],
            "--config",
            files["config"],
        ): "a multiple of the heads of keys",
        (files["one"], files["one"], "--config", wide): "4 heads of 16 features, the files 1 of 12",
        (files["one"], files["one"], "--config", files["config"], "--layer", 3): "from 0 to 2",
    }
    for arguments, words in cases.items():
        result = command(*arguments)
        assert result.exit_code == 2
        assert words in result.output
        assert "Traceback" not in result.output
