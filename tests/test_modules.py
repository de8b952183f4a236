"""The tutorial modules: the faults of the snippets they replace, and that they do not have them."""

import copy
import inspect
import io
import math

import pytest
import torch
from torch import Tensor, nn

from posenc import (
    LearnedPositionalEncoding,
    PositionOutOfRange,
    SchemeArgumentError,
    SinusoidalPositionalEncoding,
    TokenPlusPositionEmbedding,
)
from tests import independent

MODULES = {
    "sinusoidal": lambda **k: SinusoidalPositionalEncoding(**k),
    "learned": lambda **k: LearnedPositionalEncoding(**k),
}


# The snippets, in the words of many tutorials -----------------------------------------------------


class ForgetfulEmbedding(nn.Module):
    """Scales by self.d_model, which nobody set."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens) * math.sqrt(self.d_model)


class SlicedTable(nn.Module):
    """Fills even and odd columns by slices, which differ in number when the width is odd."""

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        table = torch.zeros(max_len, d_model)
        table[:, 0::2] = torch.sin(position * rates)
        table[:, 1::2] = torch.cos(position * rates)
        self.table = table  # no buffer: left behind by .to(device) and by state_dict


def test_the_snippet_that_never_sets_d_model_fails_and_ours_scales() -> None:
    tokens = torch.tensor([[1, 2]])
    with pytest.raises(AttributeError, match="d_model"):
        ForgetfulEmbedding(5, 8)(tokens)
    ours = TokenPlusPositionEmbedding(vocab_size=5, d_model=8, dropout=0.0)
    rows = independent.sinusoidal([0, 1], 8).float()
    expected = ours.token.weight[tokens] * math.sqrt(8) + rows
    torch.testing.assert_close(ours(tokens), expected, rtol=0, atol=1e-6)


def test_the_sliced_table_breaks_at_an_odd_width_and_ours_says_why() -> None:
    with pytest.raises(RuntimeError, match="expanded size"):
        SlicedTable(7)
    with pytest.raises(SchemeArgumentError, match="even, because sines and cosines come in pairs"):
        SinusoidalPositionalEncoding(d_model=7)
    with pytest.raises(SchemeArgumentError, match="even"):
        TokenPlusPositionEmbedding(vocab_size=5, d_model=7)
    assert LearnedPositionalEncoding(d_model=7)(torch.zeros(1, 2, 7)).shape == (1, 2, 7)


def test_the_sliced_table_is_not_saved_and_drifts_and_ours_does_neither() -> None:
    snippet, ours = SlicedTable(64), SinusoidalPositionalEncoding(d_model=64)
    assert "table" not in snippet.state_dict()
    assert "table" in ours.state_dict()
    exact = independent.sinusoidal([4_999], 64)[0]
    assert (snippet.table[4_999] - exact).abs().max() > 1e-4
    assert (ours.table[4_999] - exact).abs().max() <= 2**-25 * 1.01
    torch.testing.assert_close(snippet.table, ours.table, rtol=0, atol=5e-3)


# Ours -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    [SinusoidalPositionalEncoding, LearnedPositionalEncoding, TokenPlusPositionEmbedding],
)
def test_sizes_are_keyword_only_because_tutorials_disagree_on_their_order(
    module: type[nn.Module],
) -> None:
    parameters = list(inspect.signature(module).parameters.values())
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters)
    with pytest.raises(TypeError):
        module(8, 16)


def test_defaults_are_the_tutorials_own() -> None:
    token = TokenPlusPositionEmbedding(vocab_size=5, d_model=8)
    assert token.dropout.p == 0.1
    assert token.position.table.shape == (5_000, 8)
    assert SinusoidalPositionalEncoding(d_model=8).dropout.p == 0.0
    learned = LearnedPositionalEncoding(d_model=512)
    assert learned.table.shape == (5_000, 512)
    assert learned.table.std().item() == pytest.approx(0.02, rel=0.01)


def test_each_adds_its_rows_from_position_zero() -> None:
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    sinusoidal = SinusoidalPositionalEncoding(d_model=8, max_len=9, base=100.0)
    rows = independent.sinusoidal(range(5), 8, 100.0).float()
    torch.testing.assert_close(sinusoidal(x), x + rows, rtol=0, atol=3e-7)
    learned = LearnedPositionalEncoding(d_model=8, max_len=9)
    assert torch.equal(learned(x), x + learned.table[:5])


@pytest.mark.parametrize("position", MODULES)
def test_a_text_longer_than_the_table_is_refused(position: str) -> None:
    module = MODULES[position](d_model=4, max_len=6)
    assert module(torch.zeros(1, 6, 4)).shape == (1, 6, 4)
    with pytest.raises(PositionOutOfRange, match="position 6 has none") as refused:
        module(torch.zeros(1, 7, 4))
    assert refused.value.limit == 6
    token = TokenPlusPositionEmbedding(vocab_size=3, d_model=4, max_len=6, position=position)
    with pytest.raises(PositionOutOfRange):
        token(torch.zeros(1, 7, dtype=torch.int64))


@pytest.mark.parametrize("position", MODULES)
@pytest.mark.parametrize("shape", [(6, 4), (1, 6, 5), (1, 6, 1), (1, 1, 6, 4)])
@pytest.mark.usefixtures("no_shape_checks")
def test_an_input_of_another_shape_is_refused(position: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(SchemeArgumentError, match=r"\(batch, tokens, 4\)"):
        MODULES[position](d_model=4, max_len=9)(torch.zeros(*shape))


@pytest.mark.usefixtures("no_shape_checks")
def test_sizes_that_cannot_be_are_refused_by_name() -> None:
    for name, sizes in {
        "max_len": {"d_model": 4, "max_len": 0},
        "d_model|dim": {"d_model": 0},
        "length|max_len": {"d_model": 4, "max_len": 2.5},
    }.items():
        for make in MODULES.values():
            with pytest.raises(SchemeArgumentError, match=name):
                make(**sizes)
    with pytest.raises(SchemeArgumentError, match="vocab_size"):
        TokenPlusPositionEmbedding(vocab_size=0, d_model=4)
    with pytest.raises(SchemeArgumentError, match="sinusoidal, learned"):
        TokenPlusPositionEmbedding(vocab_size=3, d_model=4, position="rope")


def test_dropout_acts_in_training_only() -> None:
    token = TokenPlusPositionEmbedding(vocab_size=7, d_model=64, dropout=0.5)
    tokens = torch.arange(7)[None]
    torch.manual_seed(0)
    dropped = token(tokens)
    share = (dropped == 0).float().mean().item()
    assert 0.35 < share < 0.65
    token.eval()
    assert torch.equal(token(tokens), token(tokens))
    assert (token(tokens) == 0).float().mean() < 0.1


@pytest.mark.parametrize("position", MODULES)
def test_the_whole_module_is_saved_copied_and_restored(position: str) -> None:
    make = {"vocab_size": 7, "d_model": 8, "max_len": 20, "dropout": 0.0, "position": position}
    module = TokenPlusPositionEmbedding(**make)
    saved = io.BytesIO()
    torch.save(module.state_dict(), saved)
    saved.seek(0)
    other = TokenPlusPositionEmbedding(**make)
    other.load_state_dict(torch.load(saved, weights_only=True))
    tokens = torch.tensor([[6, 0, 3, 3]])
    for twin in (other, copy.deepcopy(module)):
        assert torch.equal(twin(tokens), module(tokens))
    assert module(tokens).requires_grad


@pytest.mark.parametrize("position", MODULES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_cast_model_answers_in_its_dtype_and_rounds_the_table_not_the_angles(
    position: str, dtype: torch.dtype
) -> None:
    module = MODULES[position](d_model=32, max_len=5_000)
    before = module.table.detach().clone()
    module.to(dtype)
    assert module.table.dtype == dtype
    assert torch.equal(module.table, before.to(dtype))
    assert module(torch.zeros(1, 3, 32, dtype=dtype)).dtype == dtype
    if position == "sinusoidal":
        exact = independent.sinusoidal([4_999], 32)[0]
        half_ulp = max(torch.finfo(dtype).eps / 2, 2**-25)
        assert (module.table[4_999].double() - exact).abs().max() <= half_ulp * 1.01


@pytest.mark.parametrize("position", MODULES)
def test_everything_moves_with_the_module_to_another_device(position: str) -> None:
    module = TokenPlusPositionEmbedding(vocab_size=7, d_model=8, max_len=20, position=position)
    moved = module.to("cuda" if torch.cuda.is_available() else "meta")
    tokens = torch.zeros(2, 5, dtype=torch.int64, device=moved.token.weight.device)
    assert moved(tokens).device.type == tokens.device.type
    assert moved(tokens).shape == (2, 5, 8)
