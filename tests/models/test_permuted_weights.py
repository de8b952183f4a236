"""Key weights that are permuted for the wrong number of heads are named, in vectors and in the weights.

huggingface/transformers#31766 and ggml-org/llama.cpp#3364: a conversion permutes key weights with the
number of query heads. 32 query heads and 4 key heads of 64 features, permuted in parts of 256 / 32 = 8.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

from posenc.__main__ import main
from posenc.identification import match_rotation, rotation_of
from posenc.identification.rotation_words import layout_sentence
from posenc.identification.sentences import rotation_sentences
from tests.library.configs import config_of
from tests.models.configs import LLAMA

HEADS, KEY_HEADS, WIDTH, ROWS = 32, 4, 64, 40
_DRAW = torch.Generator().manual_seed(0)
WEIGHT = torch.randn(KEY_HEADS * WIDTH, 48, generator=_DRAW, dtype=torch.float64)
INPUT = torch.randn(ROWS, 48, generator=_DRAW, dtype=torch.float64)
NAMED = (
    "in parts of 8, not of 64: weights are permuted with 8 times too many heads, such as those of queries "
    "in place of those of keys."
)


def permuted(weight: Tensor, heads: int, to: str) -> Tensor:
    """As `permute` of both projects: to neighbours as llama.cpp's, to halves as transformers'."""
    half = weight.shape[0] // heads // 2
    parts = (heads, 2, half) if to == "interleaved" else (heads, half, 2)
    return weight.reshape(*parts, -1).transpose(1, 2).reshape(weight.shape)


def by_head(weight: Tensor) -> Tensor:
    """The inputs of a weight by head, as vectors are: inputs x features."""
    return weight.view(KEY_HEADS, WIDTH, -1).mT


def rotated(keys: Tensor, layout: str) -> Tensor:
    """Keys times e^(i p theta), in pairs of a layout."""
    theta = 1e4 ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    turn = torch.exp(1j * torch.arange(ROWS, dtype=torch.float64)[:, None] * theta)
    pairs = keys.unflatten(-1, (-1, 2) if layout == "interleaved" else (2, -1))
    pairs = pairs if layout == "interleaved" else pairs.mT
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
    return (turned if layout == "interleaved" else turned.mT).flatten(-2)


@pytest.mark.parametrize("to", ["interleaved", "half"])
def test_keys_of_weights_permuted_for_the_number_of_query_heads_are_named(to: str) -> None:
    before = by_head(WEIGHT).mT @ INPUT.T
    after = by_head(permuted(WEIGHT, HEADS, to)).mT @ INPUT.T
    rotation = rotation_of(before.mT, rotated(after.mT, to))
    assert (rotation.permuted, rotation.layout) == (8, to)
    assert NAMED in layout_sentence(rotation)
    places = ("halves", "neighbours") if to == "interleaved" else ("neighbours", "halves")
    assert "from {} to {}".format(*places) in layout_sentence(rotation)
    assert f"rotated as {places[1]}" in layout_sentence(rotation)
    match = match_rotation(rotation, {"all": config_of("rope", dim=WIDTH, layout="half")})
    assert not match.belongs
    assert "not those of the model" in rotation_sentences(match, rotation.identified)[0]


@pytest.mark.parametrize("to", ["interleaved", "half"])
def test_keys_of_weights_permuted_for_their_own_heads_belong_to_the_model(to: str) -> None:
    before = by_head(WEIGHT).mT @ INPUT.T
    after = by_head(permuted(WEIGHT, KEY_HEADS, to)).mT @ INPUT.T
    rotation = rotation_of(before.mT, rotated(after.mT, to))
    own = "half" if to == "interleaved" else "interleaved"
    assert (rotation.layout, rotation.layout_after) == (own, to)
    assert rotation.permuted == (
        WIDTH if to == "interleaved" else 0
    )  # DeepSeek's code does the other
    come_out = {"interleaved": "over all 64 features", "half": "They come out as halves."}
    assert come_out[to] in layout_sentence(rotation)
    for layout in ("half", "interleaved"):
        match = match_rotation(rotation, {"all": config_of("rope", dim=WIDTH, layout=layout)})
        assert match.belongs == (layout == own)


@pytest.mark.parametrize("heads", [HEADS, KEY_HEADS, 8, 2])
def test_weights_before_and_after_a_conversion_name_its_heads(heads: int) -> None:
    """Of 2 heads, parts are larger than a head, and what comes out of one is no order of its features."""
    after = permuted(WEIGHT, heads, "interleaved")
    rotation = rotation_of(by_head(WEIGHT), by_head(after))
    assert rotation.permuted == (0 if heads == 2 else KEY_HEADS * WIDTH // heads)
    sentence = layout_sentence(rotation)
    assert ("Nothing is rotated" in sentence) == (heads != 2)
    assert (f"{heads // KEY_HEADS} times too many heads" in sentence) == (heads > KEY_HEADS)


def test_command_names_the_permutation_first_and_fails(tmp_path: Path) -> None:
    sizes = {"hidden_size": 2_048, "num_key_value_heads": KEY_HEADS, "rope_theta": 1e4}
    files = {name: tmp_path / name for name in ("config.json", "before.npy", "after.npy")}
    files["config.json"].write_text(json.dumps(LLAMA | sizes))
    np.save(files["before.npy"], by_head(WEIGHT)[0].numpy())
    np.save(files["after.npy"], by_head(permuted(WEIGHT, HEADS, "interleaved"))[0].numpy())
    options = ["--before", str(files["before.npy"]), "--config", str(files["config.json"])]
    result = CliRunner().invoke(main, ["identify", str(files["after.npy"]), *options])
    assert result.exit_code == 1
    assert NAMED in result.output.splitlines()[0]
    as_json = (
        CliRunner().invoke(main, ["identify", str(files["after.npy"]), *options, "--json"]).output
    )
    assert json.loads(as_json)[0]["permuted"] == 8
