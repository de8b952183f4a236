"""torch.compile: every hook and the attention function in one graph, with the values of eager code.

The shape checks of the test run cannot be traced, so these tests run without them, in a process of
their own that tests/test_compile.py starts.
"""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

from posenc import SCHEMES, Scheme, apply_rope, attention, rope_tables, sinusoidal_table
from posenc.modules import TokenPlusPositionEmbedding
from tests.conftest import SMALL, SMALL_CONFIGS, small_scheme
from tests.exempt import SUMMED
from tests.longer import mostly
from tests.stand_ins import STAND_INS

pytestmark = pytest.mark.over_code
DIM, HEADS, WIDTH = SMALL.dim, SMALL.heads, SMALL.head_dim
OF_KINDS = [kind for kind in SCHEMES if kind not in STAND_INS]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def everything(
    scheme: Scheme, x: Tensor, q: Tensor, k: Tensor, positions: Tensor | None
) -> tuple[Tensor | None, ...]:
    """All hooks and attention in one function, to be one graph."""
    rotated_q, rotated_k = scheme.rotate(q, k, positions, positions)
    mixed = attention(q, k, k, scheme, q_positions=positions, k_positions=positions)
    both_ways = attention(q, k, k, scheme, causal=False)
    bias = scheme.bias(q, k, positions, positions)
    return scheme.embed(x, positions), rotated_q, rotated_k, bias, mixed, both_ways


def compiled(function: Callable, backend: str = "aot_eager", **options: object) -> Callable:
    torch.compiler.reset()
    return torch.compile(function, fullgraph=True, backend=backend, **options)


def agree(
    found: tuple[Tensor | None, ...], expected: tuple[Tensor | None, ...], scale: float = 1.0
) -> None:
    """scale: of the logits, whose rounding a softmax passes on."""
    for ours, wanted in zip(found, expected, strict=True):
        if wanted is None:
            assert ours is None
            continue
        assert ours is not None
        assert ours.dtype == wanted.dtype
        atol = 4 * scale * torch.finfo(wanted.dtype).eps * max(1.0, wanted.abs().max().item())
        torch.testing.assert_close(ours, wanted, rtol=0, atol=atol)


def rounding(scheme: Scheme) -> float:
    """The scale of a scheme's logits, and how many roundings a graph may differ by.

    What sums products may sum them in another order, and under a bias that wants a gradient torch's
    attention takes another path in a graph.
    """
    logits = scheme.attention_factor**2 * scheme.softmax_scale(WIDTH) * WIDTH**0.5
    return logits * (32 if scheme.config.kind in SUMMED else 2 if [*scheme.parameters()] else 1)


PLACES = {
    "none": None,
    "window": torch.arange(9) + 100,
    "per entry": torch.tensor([[4, 2, 2, 9, 0, 1, 8, 7, 3]] * 2),
}


WAYS = [
    ("none", torch.float32), ("window", torch.float32), ("per entry", torch.float32),
    ("window", torch.float64), ("window", torch.bfloat16), ("none", torch.float16),
]  # fmt: skip
FOR_ALL = [("per entry", torch.float32), ("window", torch.bfloat16)]


# One of each kind; its variants as a longer proof.
BY_KIND = pytest.mark.parametrize(
    "variant", mostly([name for name in SMALL_CONFIGS if name not in STAND_INS], *OF_KINDS)
)
EVERY = [(name, *way) for name in SMALL_CONFIGS if name not in STAND_INS for way in WAYS]


# Every kind of scheme is compiled in the ways that differ most, its variants in one of them; all in all
# ways as a longer proof.
@pytest.mark.parametrize(
    ("variant", "place", "dtype"),
    mostly(
        EVERY,
        *(one for one in EVERY if one[1:] in (FOR_ALL if "." not in one[0] else FOR_ALL[:1])),
    ),
)
def test_every_hook_and_attention_are_one_graph(
    scheme: Scheme, place: str, dtype: torch.dtype
) -> None:
    positions = PLACES[place]
    x, q, k = (random(2, 9, DIM), random(2, HEADS, 9, WIDTH), random(2, HEADS, 9, WIDTH, seed=1))
    given = [value.to(dtype) for value in (x, q, k)]
    found = compiled(everything)(scheme, *given, positions)
    agree(found, everything(scheme, *given, positions), rounding(scheme))


@BY_KIND
def test_a_copy_of_a_scheme_that_was_never_run_compiles_and_several_lengths_are_each_right(
    variant: str,
) -> None:
    """Nothing may depend on caches that an earlier eager call has filled: this base is seen once only.

    Two lengths are two graphs, the second of sizes that change; the first stays as it was.
    """
    scheme = small_scheme(variant, base=777.5)
    twin = copy.deepcopy(scheme)
    run = compiled(everything, dynamic=None)
    for length in (9, 130, 9):
        x, q = random(1, length, DIM), random(1, HEADS, length, WIDTH)
        found = run(twin, x, q, q, None)
        agree(found, everything(scheme, x, q, q, None), rounding(scheme))


@BY_KIND
def test_a_decoding_step_compiles_with_positions_as_data(scheme: Scheme) -> None:
    """One graph for every step: the position is a tensor, not a constant of the graph."""
    keys = random(1, HEADS, 20, WIDTH, seed=1)

    def step(q: Tensor, at: Tensor) -> Tensor:
        return attention(q, keys, keys, scheme, q_positions=at)

    run = compiled(step)
    counters.clear()
    for at in (0, 7, 19):
        q = random(1, HEADS, 1, WIDTH, seed=at)
        place = torch.tensor([at])
        torch.testing.assert_close(run(q, place), step(q, place), rtol=0, atol=2e-6)
    assert counters["stats"]["unique_graphs"] == 1


@BY_KIND
def test_gradients_pass_through_the_compiled_graph(scheme: Scheme) -> None:
    def loss(x: Tensor, q: Tensor) -> Tensor:
        return sum(
            value.float().square().sum()
            for value in everything(scheme, x, q, q, None)
            if value is not None
        )

    grads = []
    for function in (loss, compiled(loss)):
        x, q = random(2, 9, DIM).requires_grad_(), random(2, HEADS, 9, WIDTH).requires_grad_()
        scheme.zero_grad()
        function(x, q).backward()
        grads.append([x.grad, q.grad, *(p.grad for p in scheme.parameters())])
    for ours, wanted in zip(*grads, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-5)


def test_a_learned_table_past_its_end_is_nan_in_a_graph_and_never_wraps() -> None:
    scheme = SCHEMES["learned"](dim=8, max_len=5).build()
    run = compiled(scheme.embed)
    rows = run(torch.zeros(1, 4, 8), torch.tensor([4, 5, -1, 0]))[0]
    assert torch.equal(rows[[0, 3]], scheme.weight[[4, 0]])
    assert rows[[1, 2]].isnan().all()


def test_public_tables_and_modules_compile() -> None:
    """A new ladder is made with Python's decimals, which no graph holds: tables break the graph."""

    def tables(x: Tensor) -> tuple[Tensor, ...]:
        cos, sin = rope_tables(9, 8, 123.5, start=3)
        return sinusoidal_table(9, 8, 123.5, start=3), cos, sin, apply_rope(x, cos, sin)

    x = random(2, 9, 8)
    torch.compiler.reset()
    agree(torch.compile(tables, backend="aot_eager")(x), tables(x))
    module = TokenPlusPositionEmbedding(vocab_size=7, d_model=8, max_len=20).eval()
    tokens = torch.tensor([[1, 2, 6]])
    agree((compiled(module)(tokens),), (module(tokens),))


@pytest.mark.parametrize("inner", ["rope", "alibi"])
def test_the_default_backend_generates_code_that_agrees(inner: str) -> None:
    scheme = SMALL.config(inner).build()
    x, q, k = random(2, 70, DIM), random(2, HEADS, 70, WIDTH), random(2, HEADS, 70, WIDTH, seed=1)
    for positions in (None, torch.arange(70) + 1_000_000):
        run = compiled(everything, backend="inductor")
        agree(
            run(scheme, x, q, k, positions),
            everything(scheme, x, q, k, positions),
            rounding(scheme),
        )
