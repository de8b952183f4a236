"""torch.compile: every hook and the attention function in one graph, with the values of eager code.

The shape checks of the test run cannot be traced, so these tests run without them, in a process that
tests/library/test_compile.py starts. All of it is a long proof.
"""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

from posenc import SCHEMES, Scheme, attention
from tests.library.small_schemes import DIM, HEADS, PLACES, SMALL, WIDTH, code_paths, small_scheme
from tests.library.tensors import assert_close, random

pytestmark = [
    # The graph holds what the cached function computes, which is the same.
    pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),  # inductor's own import
]

# Their bias is a product of matrices, which a graph may sum in another order.
SUMMED = ("fire", "shaw", "transformer_xl", "cope")
F32 = torch.float32
Results = tuple[Tensor | None, ...]
of_each_scheme = pytest.mark.parametrize("variant", code_paths())


def results(scheme: Scheme, x: Tensor, q: Tensor, k: Tensor, positions: Tensor | None) -> Results:
    """Return what all hooks and attention give, in one function, to be one graph."""
    rotated_q, rotated_k = scheme.rotate(q, k, positions, positions)
    mixed = attention(q, k, k, scheme, q_positions=positions, k_positions=positions)
    both_ways = attention(q, k, k, scheme, causal=False)
    bias = scheme.bias(q, k, positions, positions)
    return scheme.embed(x, positions), rotated_q, rotated_k, bias, mixed, both_ways


def compiled(function: Callable[..., Any], backend: str = "aot_eager", **options: Any) -> Any:
    torch.compiler.reset()
    return torch.compile(function, fullgraph=True, backend=backend, **options)


def assert_same(actual: Results, expected: Results, scheme: Scheme | None = None) -> None:
    """Compare results to a few units, times the scale of the scheme's logits, which a softmax passes on.

    Under a bias that wants a gradient torch's attention takes another path in a graph.
    """
    scale = 4.0
    if scheme is not None:
        scale *= scheme.attention_factor**2 * scheme.softmax_scale(WIDTH) * WIDTH**0.5
        scale *= 32 if scheme.config.kind in SUMMED else 2 if [*scheme.parameters()] else 1
    for value, wanted in zip(actual, expected, strict=True):
        assert (value is None) == (wanted is None)
        if value is not None and wanted is not None:
            assert value.dtype == wanted.dtype
            atol = scale * torch.finfo(wanted.dtype).eps * max(1.0, wanted.abs().max().item())
            assert_close(value.detach(), wanted.detach(), atol=atol)


# Each code path has one of these, in turn; each of these has a third of the code paths.
FORMS = [("per entry", F32), ("window", torch.bfloat16), ("from zero", torch.float16)]


@pytest.mark.parametrize(
    ("variant", "place", "dtype"),
    [(path, *form) for path, form in zip(code_paths(), itertools.cycle(FORMS), strict=False)],
)
def test_every_hook_and_attention_are_one_graph(
    scheme: Scheme, place: str, dtype: torch.dtype
) -> None:
    x, at = random(2, 9, DIM, dtype=dtype), PLACES[place]
    q, k = (random(2, HEADS, 9, WIDTH, seed=seed, dtype=dtype) for seed in (0, 1))
    assert_same(compiled(results)(scheme, x, q, k, at), results(scheme, x, q, k, at), scheme)


@pytest.mark.parametrize("variant", [path for path in code_paths() if path in SCHEMES])
def test_copy_that_was_never_run_compiles_for_several_lengths(variant: str) -> None:
    """Nothing may depend on caches that an earlier eager call has filled: this base is new.

    Two lengths are two graphs, the second of sizes that change; the first stays as it was.
    """
    scheme = small_scheme(variant, base=777.5)
    twin, run = copy.deepcopy(scheme), compiled(results, dynamic=None)
    for length in (9, 130, 9):
        x, q = random(1, length, DIM, dtype=F32), random(1, HEADS, length, WIDTH, dtype=F32)
        assert_same(run(twin, x, q, q, None), results(scheme, x, q, q, None), scheme)


# Kinds whose attention takes a path of its own (a scaling changes the numbers of RoPE's), and those of
# them without groups.
KINDS = [kind for kind in SCHEMES if kind in code_paths() and not kind.startswith("rope_")]
ALONE = ("rope", "alibi", "shaw", "cope")


@pytest.mark.parametrize(
    ("kind", "groups"),
    [(kind, HEADS // (1 if kind in ALONE else 2)) for kind in KINDS] + [("rope", HEADS // 2)],
)
def test_attention_over_sizes_that_change_is_one_graph(kind: str, groups: int) -> None:
    scheme = SMALL.config(kind).build()

    def attended(q: Tensor, k: Tensor, at: Tensor, seen: Tensor) -> Results:
        placed = attention(q, k, k, scheme, q_positions=at, k_positions=at, key_mask=seen)
        return attention(q, k, k, scheme), placed

    run = compiled(attended, dynamic=True)
    for length in (9, 130, 40):
        q, k = (random(2, count, length, WIDTH, dtype=F32) for count in (HEADS, groups))
        arguments = (q, k, torch.arange(length), random(2, length, dtype=F32) > -1)
        assert_same(run(*arguments), attended(*arguments), scheme)


@of_each_scheme
def test_decoding_steps_share_one_graph_with_positions_as_data(scheme: Scheme) -> None:
    keys = random(1, HEADS, 20, WIDTH, seed=1, dtype=F32)

    def step(q: Tensor, at: Tensor) -> Tensor:
        return attention(q, keys, keys, scheme, q_positions=at)

    run = compiled(step)
    counters.clear()
    for position in (0, 7, 19):
        q, at = random(1, HEADS, 1, WIDTH, seed=position, dtype=F32), torch.tensor([position])
        assert_close(run(q, at).detach(), step(q, at).detach(), atol=2e-6)
    assert counters["stats"]["unique_graphs"] == 1


@of_each_scheme
def test_gradients_pass_through_the_compiled_graph(scheme: Scheme) -> None:
    def loss(x: Tensor, q: Tensor) -> Any:
        parts = results(scheme, x, q, q, None)
        return sum(part.float().square().sum() for part in parts if part is not None)

    gradients = []
    for function in (loss, compiled(loss)):
        x = random(2, 9, DIM, dtype=F32).requires_grad_()
        q = random(2, HEADS, 9, WIDTH, dtype=F32).requires_grad_()
        scheme.zero_grad()
        function(x, q).backward()
        gradients.append([x.grad, q.grad, *(p.grad for p in scheme.parameters())])
    for expected, actual in zip(*gradients, strict=True):
        assert (expected is None) == (actual is None)
        if expected is not None and actual is not None:
            # A graph sums squares in another order: terms as large as the largest round each entry.
            largest = max(1.0, expected.abs().max().item())
            assert_close(actual, expected, atol=1e-5 * largest)


def test_learned_table_past_its_end_is_nan_in_a_graph_and_never_wraps() -> None:
    scheme = small_scheme("learned", dim=8, max_len=5)
    rows = compiled(scheme.embed)(torch.zeros(1, 4, 8), torch.tensor([4, 5, -1, 0]))[0].detach()
    (weight,) = scheme.parameters()
    assert_close(rows[[0, 3]], weight[[4, 0]].detach(), atol=0)  # a lookup
    assert rows[[1, 2]].isnan().all()


@pytest.mark.parametrize("kind", ["rope", "alibi"])
def test_generated_code_of_the_default_backend_agrees(kind: str) -> None:
    scheme = SMALL.config(kind).build()
    x, (q, k) = random(2, 70, DIM, dtype=F32), random(2, 2, HEADS, 70, WIDTH, dtype=F32)
    for positions in (None, torch.arange(70) + 1_000_000):
        run = compiled(results, backend="inductor")
        expected = results(scheme, x, q, k, positions)
        assert_same(run(scheme, x, q, k, positions), expected, scheme)
