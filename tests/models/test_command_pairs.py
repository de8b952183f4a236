"""The command `posenc pairs`: a planted pair is found, JSON has every number, mistakes are a sentence."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from posenc.__main__ import main
from tests.library.crafted_files import file_of
from tests.library.safetensors_checks import MEBIBYTE, peak_memory

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 3, "max_position_embeddings": 64, "rope_theta": 1e4, "head_dim": 12,
}  # fmt: skip


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["pairs", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of 3 layers whose layer 2 has large queries in pair 5 of head 3."""
    generator = torch.Generator().manual_seed(0)
    tensors = {
        f"model.layers.{layer}.self_attn.{part}_proj.weight": torch.randn(
            heads * 12, 16, generator=generator
        )
        for layer in range(3)
        for part, heads in (("q", 4), ("k", 2))
    }
    tensors["model.layers.2.self_attn.q_proj.weight"][[3 * 12 + 5, 3 * 12 + 11]] *= 20
    (tmp_path / "model.safetensors").write_bytes(file_of(tensors))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_a_planted_pair_is_named_and_json_has_every_bound(folder: Path) -> None:
    said = command(folder)
    assert said.exit_code == 0, said.output
    assert "Layer 2: the largest bound" in said.output
    assert "is that of pair 5 of head 3." in said.output
    records = json.loads(command(folder, "--json").output)
    assert [record["layer"] for record in records] == [0, 1, 2]
    last = records[2]
    assert last["largest"]["bound"] == max(max(row) for row in last["bounds"])
    assert (last["largest"]["head"], last["largest"]["pair"]) == (3, 5)
    turned = [64 * 1e4 ** (-2 * pair / 12) / (2 * math.pi) >= 1 for pair in range(6)]
    assert last["slow_pairs"] == turned.count(False)
    lost = sum(
        bound
        for row in last["bounds"]
        for bound, turns in zip(row, turned, strict=True)
        if not turns
    )
    assert last["share_of_slow_pairs"] == pytest.approx(lost / sum(map(sum, last["bounds"])))


def test_no_two_layers_are_in_memory_at_a_time(tmp_path: Path) -> None:
    width, heads = 1_024, 16
    config = CONFIG | {"hidden_size": width, "head_dim": width // heads}
    config |= {"num_attention_heads": heads, "num_key_value_heads": heads}
    tensors = {
        f"model.layers.{layer}.self_attn.{part}_proj.weight": torch.ones(width, width)
        for layer in range(3)
        for part in ("q", "k")
    }
    (tmp_path / "model.safetensors").write_bytes(file_of(tensors))  # 8 MiB a layer
    (tmp_path / "config.json").write_text(json.dumps(config))
    del tensors
    command(tmp_path, "--layer", 0)  # modules and caches are not counted
    assert peak_memory(lambda: command(tmp_path)) < 10 * MEBIBYTE


def test_one_layer_and_another_length_are_taken(folder: Path) -> None:
    (record,) = json.loads(
        command(folder / "model.safetensors", "--layer", 1, "--length", 100_000, "--json").output
    )
    assert (record["layer"], record["slow_pairs"]) == (1, 0)


def test_mistakes_are_one_sentence_and_status_2(folder: Path, tmp_path: Path) -> None:
    cases = {
        ("nowhere.safetensors", "--config", folder / "config.json"): "cannot be opened",
        (folder, "--layer", 3): "layer must be a whole number from 0 to 2",
        (folder / "model.safetensors", "--config", "none.json"): "does not exist",
        ("a/b", "--hub"): "--config must name",
    }
    for arguments, words in cases.items():
        result = command(*arguments)
        assert result.exit_code == 2
        assert words in result.output
        assert "Traceback" not in result.output
