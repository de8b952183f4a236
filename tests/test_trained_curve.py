"""A bias that is trained: its gradient is that of the plain formula, and no T x T tensor is kept."""

import importlib
import math

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from posenc import Scheme, attention
from posenc.schemes.none import NoneConfig
from posenc.trained_curve import diagonal_sums

attending = importlib.import_module("posenc.attention")
trained = importlib.import_module("posenc.trained_curve")

REACH = 64


class Trained(Scheme):
    """One trained number per head and offset, as T5's buckets or KERPLE's curves would make."""

    def __init__(self, heads: int, dtype: torch.dtype = torch.float64) -> None:
        super().__init__(NoneConfig())
        drawn = torch.randn(heads, 2 * REACH, generator=torch.Generator().manual_seed(7))
        self.values = nn.Parameter(drawn.to(dtype))

    def offset_bias(self, offsets: Tensor) -> Tensor:
        return self.values[:, offsets + REACH]


@pytest.fixture(params=[256, 4], ids=["one block", "blocks of 4"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    for module in (attending, trained):
        monkeypatch.setattr(module, "QUERY_BLOCK", request.param)
    return request.param


def random(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


PLACES = {
    "from zero": (11, 11, None, None),
    "window of queries": (6, 11, torch.arange(5, 11), None),
    "queries before the first key": (7, 9, None, torch.arange(4, 13)),
    "fewer keys than queries": (11, 3, None, None),
    "one query": (1, 9, torch.tensor([8]), None),
    "every key later": (5, 5, None, torch.arange(20, 25)),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)], ids=str)
def test_every_gradient_is_that_of_the_formula(
    place: str, causal: bool, heads: tuple[int, int], block: int
) -> None:
    queries, keys, q_positions, k_positions = PLACES[place]
    of_q, of_k = heads
    scheme = Trained(of_q)
    q = random(2, of_q, queries, 6, seed=0).requires_grad_()
    k, v = (random(2, of_k, keys, 6, seed=s).requires_grad_() for s in (1, 2))
    mixed = attention(
        q, k, v, scheme, q_positions=q_positions, k_positions=k_positions, causal=causal
    )
    at_q = torch.arange(queries) if q_positions is None else q_positions
    at_k = torch.arange(keys) if k_positions is None else k_positions
    hidden = (at_k > at_q[:, None]) & causal
    logits = scheme.scores(q, k, q_positions, k_positions).masked_fill(hidden, -math.inf)
    weights = logits.softmax(dim=-1).masked_fill(hidden.all(dim=-1, keepdim=True), 0.0)
    plain = weights @ v.repeat_interleave(of_q // of_k, dim=1)
    torch.testing.assert_close(mixed, plain, rtol=0, atol=1e-12)
    upstream = random(*mixed.shape, seed=5)
    wanted = (q, k, v, scheme.values)
    found = torch.autograd.grad((mixed * upstream).sum(), wanted)
    if hidden.all():
        assert all((grad == 0).all() for grad in found)
        return
    expected = torch.autograd.grad((plain * upstream).sum(), wanted)
    for actual, known in zip(found, expected, strict=True):
        known = known.nan_to_num(0.0)  # the formula's own 0 / 0 of a query that sees no key
        torch.testing.assert_close(actual, known, rtol=0, atol=1e-11)


def test_gradcheck_of_a_trained_curve() -> None:
    scheme = Trained(2)
    q, k, v = (random(1, 2, 5, 4, seed=s).requires_grad_() for s in range(3))

    def through(q: Tensor, k: Tensor, v: Tensor, values: Tensor) -> Tensor:
        scheme.values = None
        scheme.values = nn.Parameter(values.detach())
        scheme.offset_bias = lambda offsets: values[:, offsets + REACH]
        return attention(q, k, v, scheme)

    values = scheme.values.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(through, (q, k, v, values))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_half_precision_is_rounded_last(dtype: torch.dtype) -> None:
    scheme = Trained(2, torch.float32)
    inputs = [random(1, 2, 40, 8, seed=s, dtype=dtype).requires_grad_() for s in range(3)]
    mixed = attention(*inputs, scheme)
    exact_scheme = Trained(2)
    exact_scheme.values.data = scheme.values.data.double()
    exact_inputs = [x.detach().double().requires_grad_() for x in inputs]
    exact = attention(*exact_inputs, exact_scheme)
    found = torch.autograd.grad(mixed.float().sum(), [*inputs, scheme.values])
    known = torch.autograd.grad(exact.sum(), [*exact_inputs, exact_scheme.values])
    for actual, true in zip(found, known, strict=True):
        bound = 16 * torch.finfo(dtype).eps * max(1.0, true.abs().max().item())
        assert (actual.double() - true).abs().max() < bound


def test_nothing_of_the_size_of_all_scores_is_kept_or_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (attending, trained):
        monkeypatch.setattr(module, "QUERY_BLOCK", 8)
    tokens, heads = 64, 2
    largest = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            for one in out if isinstance(out, tuple | list) else (out,):
                if isinstance(one, Tensor):
                    largest.append(one.untyped_storage().nbytes() // one.element_size())
            return out

    scheme = Trained(heads)
    q, k, v = (random(1, heads, tokens, 4, seed=s).requires_grad_() for s in range(3))
    with Sizes():
        attention(q, k, v, scheme).sum().backward()
    assert scheme.values.grad is not None
    assert max(largest) < heads * tokens * tokens / 2


def test_without_a_gradient_the_bits_are_those_of_the_fixed_curve() -> None:
    scheme = Trained(2)
    q, k, v = (random(1, 2, 9, 4, seed=s) for s in range(3))
    with torch.no_grad():
        fixed = attention(q, k, v, scheme)
    assert torch.equal(attention(q, k, v, scheme), fixed)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (4, 1), (3, 4), (5, 2)])
def test_the_sums_along_diagonals_are_those_of_a_loop(shape: tuple[int, int]) -> None:
    n, k = shape
    matrix = random(2, n, k, seed=0)
    expected = torch.zeros(2, n + k - 1, dtype=torch.float64)
    for i in range(n):
        for j in range(k):
            expected[:, j - i + n - 1] += matrix[:, i, j]
    torch.testing.assert_close(diagonal_sums(matrix.flip(-2)), expected, rtol=0, atol=1e-14)
