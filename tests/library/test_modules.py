"""Schemes that are added to token vectors, as torch modules of a model."""

import math
from typing import Any

import pytest
import torch

from posenc import (
    LearnedPositionalEncoding,
    PositionOutOfRange,
    SchemeArgumentError,
    SinusoidalPositionalEncoding,
    TokenPlusPositionEmbedding,
)
from tests.devices import needs_cuda
from tests.library import independent
from tests.library.tensors import assert_close

MODULES: dict[str, Any] = {
    "sinusoidal": SinusoidalPositionalEncoding,
    "learned": LearnedPositionalEncoding,
}
of_both_kinds = pytest.mark.parametrize("position", MODULES)
TOKENS = torch.tensor([[6, 0, 3, 3]])


def embedding(position: Any) -> TokenPlusPositionEmbedding:
    sizes: Any = {"vocab_size": 7, "d_model": 8, "max_len": 20, "dropout": 0.0}
    return TokenPlusPositionEmbedding(**sizes, position=position)


@of_both_kinds
def test_token_embedding_times_the_root_of_the_width_plus_rows_from_zero(position: str) -> None:
    ours = embedding(position)
    rows = ours.position.table[:4].detach().double()
    if position == "sinusoidal":
        assert_close(rows, independent.sinusoidal(range(4), 8), atol=1e-6)
    expected = ours.token.weight.detach().double()[TOKENS] * math.sqrt(8) + rows
    assert_close(ours(TOKENS), expected, atol=1e-6)
    with pytest.raises(TypeError, match="positional argument"):  # tutorials disagree on the order
        MODULES[position](8, 16)


@of_both_kinds
@pytest.mark.usefixtures("no_shape_checks")
def test_impossible_inputs_and_sizes_are_refused(position: str) -> None:
    module = MODULES[position](d_model=4, max_len=6)
    assert module(torch.zeros(1, 6, 4)).shape == (1, 6, 4)
    with pytest.raises(PositionOutOfRange, match="position 6 has none") as refused:
        module(torch.zeros(1, 7, 4))
    assert refused.value.limit == 6
    for shape in ((6, 4), (1, 6, 5), (1, 1, 6, 4)):
        with pytest.raises(SchemeArgumentError, match=r"\(batch, tokens, 4\)"):
            module(torch.zeros(*shape))
    impossible: dict[str, dict[str, Any]] = {
        "max_len": {"d_model": 4, "max_len": 0},
        "d_model|dim": {"d_model": 0},
        "length|max_len": {"d_model": 4, "max_len": 2.5},
    }
    for name, sizes in impossible.items():
        with pytest.raises(SchemeArgumentError, match=name):
            MODULES[position](**sizes)
    token: Any = TokenPlusPositionEmbedding
    with pytest.raises(SchemeArgumentError, match="vocab_size"):
        token(vocab_size=0, d_model=4)
    with pytest.raises(SchemeArgumentError, match="'sinusoidal', 'learned'"):
        token(vocab_size=3, d_model=4, position="rope")


@of_both_kinds
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_cast_module_rounds_its_table_not_the_angles(position: str, dtype: torch.dtype) -> None:
    module = MODULES[position](d_model=32, max_len=5_000)
    before = module.table.detach().clone()
    module.to(dtype)
    assert torch.equal(module.table, before.to(dtype))
    assert module(torch.zeros(1, 3, 32, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize("device", ["meta", pytest.param("cuda", marks=needs_cuda)])
@of_both_kinds
def test_module_moves_as_a_whole(position: str, device: str) -> None:
    module = embedding(position)
    expected = module(TOKENS).detach()
    result = module.to(device)(TOKENS.to(device))
    assert (result.device.type, result.shape) == (device, (1, 4, 8))
    if device == "cuda":
        assert_close(result.cpu(), expected, atol=1e-6)
