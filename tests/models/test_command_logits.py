"""posenc identify --logits and --bias: the cause first, numbers as JSON, the exit status for CI."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import save_file

from posenc.__main__ import main
from tests.models.test_matched_logits import GEMMA3_27B, loops, slopes_of, vectors

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    q, k = vectors(32, 6, 128), vectors(16, 6, 128, 1)
    for name, array in {
        "q": q, "k": k, "right": loops(q, k, 168**-0.5), "wrong": loops(q, k, 128**-0.5),
        "two": vectors(2, 6, 6),
    }.items():  # fmt: skip
        np.save(tmp_path / f"{name}.npy", array.numpy())
    (tmp_path / "config.json").write_text(json.dumps(GEMMA3_27B))
    return tmp_path


def identify(folder: Path, *arguments: str) -> Result:
    paths = [str(folder / word) if "." in word else word for word in arguments]
    return CliRunner().invoke(main, ["identify", *paths])


VECTORS = ("--queries", "q.npy", "--keys", "k.npy")
MODEL = ("--config", "config.json")


def test_logits_of_the_model_end_with_0_and_others_with_1_and_the_cause(files: Path) -> None:
    right = identify(files, "--logits", "right.npy", *VECTORS, *MODEL)
    assert right.exit_code == 0
    assert right.stdout.startswith("These logits are the layer's: the softmax scale is 1/sqrt(168)")
    wrong = identify(files, "--logits", "wrong.npy", *VECTORS, *MODEL)
    assert wrong.exit_code == 1
    assert wrong.stdout.startswith("The softmax scale is 1/sqrt(128) by head_dim, where the layer")
    assert wrong.stdout.endswith("Compared with full_attention layers of the model.\n")
    turned = identify(files, "--logits", "right.npy", *VECTORS, *MODEL, "--not-rotated")
    assert turned.stdout.startswith("Queries and keys are not rotated.")
    values = json.loads(identify(files, "--logits", "wrong.npy", *VECTORS, *MODEL, "--json").stdout)
    assert values["scale_ratio"] == pytest.approx((168 / 128) ** 0.5, rel=1e-5)
    assert values["compared"] == "full_attention layers of the model"
    assert len(values["scales"]) == 32


def test_without_a_config_logits_are_compared_with_a_layer_without_position(files: Path) -> None:
    found = identify(files, "--logits", "wrong.npy", *VECTORS)
    assert found.exit_code == 0
    assert found.stdout.endswith("Compared with a causal layer of 32 heads with NoPE.\n")
    assert "the softmax scale is 1/sqrt(128) by head_dim" in found.stdout


def test_wrong_mask_is_compared_with_the_kind_of_layer_that_is_nearest(files: Path) -> None:
    """Of two kinds, the window of 11 keys is that of the layers with 10."""
    gemma2 = {
        "model_type": "gemma2", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4,
        "head_dim": 16, "query_pre_attn_scalar": 16, "num_hidden_layers": 2, "sliding_window": 10,
        "attn_logit_softcapping": None,
    }  # fmt: skip
    (files / "config.json").write_text(json.dumps(gemma2))
    q, k = vectors(4, 20, 16), vectors(4, 20, 16, 1)
    wide = loops(q, k, 0.25, see=lambda query, key: query - 11 < key <= query)
    for name, array in {"q": q, "k": k, "wide": wide}.items():
        np.save(files / f"{name}.npy", array.numpy())
    found = identify(files, "--logits", "wide.npy", *VECTORS, *MODEL, "--rotated")
    assert found.stdout.startswith("The window is off by 1: a query sees 11 keys up to its own,")
    assert found.stdout.endswith("Compared with sliding_attention layers of the model.\n")


def test_bias_of_both_directions_is_compared_with_the_encoder(files: Path) -> None:
    t5 = {"model_type": "t5", "d_model": 64, "d_kv": 16, "num_heads": 4, "num_layers": 2}
    (files / "config.json").write_text(json.dumps(t5))
    offsets = torch.arange(40)[None, :] - torch.arange(40)[:, None]
    every = vectors(4, 1, 79)[:, 0]  # a number of its own for each offset, where buckets have one
    np.save(files / "bias.npy", every[:, offsets + 39].numpy())
    found = identify(files, "--bias", "bias.npy", *MODEL)
    assert found.exit_code == 1
    assert "where the layer has 32 in both directions up to distance 128." in found.stdout
    assert found.stdout.endswith("Compared with encoder layers of the model.\n")


def test_bias_of_a_rank_is_that_of_its_heads(files: Path) -> None:
    bias = torch.tensor(slopes_of(112)[56:])[:, None, None] * torch.arange(-4.0, 1)
    save_file({"alibi": bias}, files / "bias.safetensors")
    bloom = {"model_type": "bloom", "hidden_size": 14_336, "n_head": 112, "n_layer": 70}
    (files / "config.json").write_text(json.dumps(bloom))
    bias_of_rank = ("--bias", "bias.safetensors", *MODEL)
    right = identify(files, *bias_of_rank, "--first-head", "56")
    assert (right.exit_code, right.stdout.splitlines()[0]) == (0, "This bias is the layer's ALiBi.")
    wrong = identify(files, *bias_of_rank, "--json")
    assert wrong.exit_code == 1
    assert json.loads(wrong.stdout)["slope_names"] == ["rank"]
    assert identify(files, "--bias", "bias.safetensors").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Give one of FILE, --logits and --bias."),
        (("--bias", "two.npy", "--logits", "two.npy"), "Give one of FILE, --logits and --bias."),
        (("--logits", "two.npy"), "--logits goes with --queries and --keys."),
        (("--bias", "two.npy", "--tensor", "x"), "--positions go with FILE."),
        (("two.npy", "--queries", "q.npy"), "--first-head go with --logits or --bias."),
        (("--logits", "two.npy", *VECTORS, *MODEL), "The logits must be 32 x 6 x 6"),
        (("--bias", "two.npy", *MODEL), "RoPE adds no bias to logits."),
        (("--bias", "config.json"), "neither a .npy nor a .safetensors"),
    ],
)
def test_files_and_options_that_do_not_fit_end_with_2_and_one_sentence(
    files: Path, arguments: tuple[str, ...], message: str
) -> None:
    found = identify(files, *arguments)
    assert found.exit_code == 2
    assert message in found.stderr
    assert found.stderr.count("\n") == 1


def test_file_of_several_arrays_is_refused_by_their_names(files: Path) -> None:
    save_file({"a": torch.zeros(2, 2), "b": torch.zeros(2, 2)}, files / "two.safetensors")
    found = identify(files, "--bias", "two.safetensors")
    assert found.exit_code == 2
    assert "The file must hold one array, got 2: a and b" in found.stderr.replace(", b", " and b")
