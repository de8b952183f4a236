"""The one attention function: equal to a plain loop, causal by position, never a dense mask."""

import importlib
import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from posenc import SCHEMES, PosencError, Scheme, SchemeArgumentError, attention
from posenc.schemes.scheme import SchemeConfig
from posenc.toeplitz import flipped_rows, toeplitz
from tests import independent
from tests.conftest import SMALL

module = importlib.import_module("posenc.attention")  # the name posenc.attention is the function

pytestmark = pytest.mark.over_code
HEADS, WIDTH = SMALL.heads, SMALL.head_dim


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


@pytest.fixture(params=[256, 4], ids=["one block", "blocks of 4"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Also with small blocks of queries, so that a short test crosses their edges."""
    monkeypatch.setattr(module, "QUERY_BLOCK", request.param)
    return request.param


def positions_of(given: Tensor | None, count: int, entry: int) -> list[int]:
    if given is None:
        return list(range(count))
    return (given if given.dim() == 1 else given[entry]).tolist()


# Against the plain loop -----------------------------------------------------------------------

N = 11
PLACES = {
    "from zero": (None, None),
    "window of queries": (torch.arange(5, 5 + N), torch.arange(5 + N)),
    "queries before the first key": (torch.arange(N), torch.arange(4, 4 + N)),
    "negative": (torch.arange(N) - 20, torch.arange(N) - 20),
    "more keys than queries": (None, torch.arange(N + 6)),
    "fewer keys than queries": (None, torch.arange(3)),
    "queries past every key": (torch.arange(100, 100 + N), torch.arange(8)),
    "every key later": (torch.arange(N), torch.arange(N) + 50),
    "any order": (torch.randperm(N, generator=torch.Generator().manual_seed(1)), None),
    "gaps and repeats": (torch.tensor([0, 0, 3, 9, 9, 2, 200, 7, 7, 8, 1]), torch.arange(0, 33, 3)),
    "per entry": (
        torch.stack((torch.arange(N), torch.arange(N).flip(0))),
        torch.stack((torch.arange(N) + 3, torch.arange(N))),
    ),
    "per entry, queries only": (torch.stack((torch.arange(N) + 2, torch.arange(N))), None),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_attention_equals_a_plain_loop_over_the_definitions(
    block: int, place: str, causal: bool, masked: bool
) -> None:
    """ALiBi and RoPE from their papers, softmax in Python floats: none of the library's own code."""
    q_positions, k_positions = PLACES[place]
    keys = N if k_positions is None else k_positions.shape[-1]
    q, k, v = random(2, 3, N, 4), random(2, 3, keys, 4, seed=1), random(2, 3, keys, 2, seed=2)
    key_mask = random(2, keys, seed=3) > 0 if masked else None
    at = [(positions_of(q_positions, N, b), positions_of(k_positions, keys, b)) for b in range(2)]

    def visible(b: int, i: int, j: int) -> bool:
        ahead = causal and at[b][1][j] > at[b][0][i]
        return not ahead and (key_mask is None or bool(key_mask[b, j]))

    slopes = independent.alibi_slopes(3)

    def alibi(b: int, h: int, i: int, j: int) -> float:
        return -slopes[h] * abs(at[b][1][j] - at[b][0][i])

    def turned(x: Tensor, side: int) -> Tensor:
        rope = {"base": 100.0, "rotary": 4, "layout": "half"}
        entries = [[independent.turned(h, at[b][side], **rope) for h in x[b]] for b in range(2)]
        return torch.stack([torch.stack(heads) for heads in entries])

    given = {"q_positions": q_positions, "k_positions": k_positions, "key_mask": key_mask}
    cases: list[tuple[SchemeConfig, Tensor, Tensor, object]] = [
        (SCHEMES["none"](), q, k, None),
        (SCHEMES["alibi"](heads=3), q, k, alibi),
        (SCHEMES["rope"](dim=4, base=100.0, layout="half"), turned(q, 0), turned(k, 1), None),
    ]
    for config, plain_q, plain_k, bias in cases:
        expected = independent.attention(plain_q, plain_k, v, scale=0.5, bias=bias, visible=visible)
        mixed = attention(q, k, v, config.build(), causal=causal, **given)
        torch.testing.assert_close(mixed, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_softmax_of_the_scheme_s_own_scores(
    scheme: Scheme, block: int, place: str, causal: bool
) -> None:
    q_positions, k_positions = PLACES[place]
    keys = N if k_positions is None else k_positions.shape[-1]
    q = random(2, HEADS, N, WIDTH)
    k, v = random(2, 2, HEADS, keys, WIDTH, seed=1)
    scores = scheme.scores(q, k, q_positions, k_positions)
    rows = (torch.arange(N) if q_positions is None else q_positions)[..., :, None]
    columns = (torch.arange(keys) if k_positions is None else k_positions)[..., None, :]
    later = (columns > rows) & causal
    later = later[:, None] if later.dim() == 3 else later
    weights = scores.masked_fill(later, -math.inf).softmax(-1).nan_to_num(0.0)
    mixed = attention(
        q, k, v, scheme, q_positions=q_positions, k_positions=k_positions, causal=causal
    )
    torch.testing.assert_close(mixed, weights @ v, rtol=0, atol=1e-13)


@pytest.mark.parametrize("heads", [1, 2, 5])
def test_grouped_queries_read_the_key_head_of_their_group(
    scheme: Scheme, block: int, heads: int
) -> None:
    """Query head h reads key head h // (query heads per key head), in every path."""
    q, (k, v) = random(1, HEADS, N, WIDTH), random(2, 1, heads, N, WIDTH, seed=1)
    full = [x.repeat_interleave(HEADS // heads, dim=1) for x in (k, v)]
    for options in ({}, {"causal": False}, {"key_mask": torch.arange(N)[None] != 2},
                    {"q_positions": torch.arange(N).flip(0)}):  # fmt: skip
        grouped = attention(q, k, v, scheme, **options)
        torch.testing.assert_close(
            grouped, attention(q, *full, scheme, **options), rtol=0, atol=1e-13
        )
    torch.testing.assert_close(scheme.scores(q, k), scheme.scores(q, full[0]), rtol=0, atol=1e-14)
    plain = independent.attention(q, k, v, scale=WIDTH**-0.5, visible=lambda b, i, j: j <= i)
    mixed = attention(q, k, v, SCHEMES["none"]().build())
    torch.testing.assert_close(mixed, plain, rtol=0, atol=1e-13)


def test_a_decoding_step_is_causal_by_position_not_by_shape(scheme: Scheme) -> None:
    """The trap of is_causal: one query against n keys returns v[0]."""
    q, (k, v) = random(1, HEADS, 1, WIDTH), random(2, 1, HEADS, 9, WIDTH, seed=1)
    step = attention(q, k, v, scheme, q_positions=torch.tensor([8]))
    trap = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(trap[:, :, 0], v[:, :, 0])
    assert (step[:, :, 0] - v[:, :, 0]).abs().min() > 0
    first = attention(q, k, v, scheme)
    torch.testing.assert_close(first[:, :, 0], v[:, :, 0], rtol=0, atol=1e-15)


def test_a_query_that_sees_no_key_gives_zeros_and_finite_gradients(
    scheme: Scheme, block: int
) -> None:
    cases = [
        {"key_mask": torch.zeros(1, N, dtype=torch.bool)},
        {"k_positions": torch.arange(6, 6 + N)},
        {"k_positions": torch.arange(500, 500 + N)},
        {"q_positions": torch.arange(N).flip(0) - 5},
        {"key_mask": torch.arange(N)[None] > 4},
    ]
    for options in cases:
        if scheme.max_length is not None and "k_positions" in options:
            options = {"k_positions": options["k_positions"].clamp(max=scheme.max_length - 1)}
        q, k, v = (random(1, HEADS, N, WIDTH, seed=s).requires_grad_() for s in range(3))
        mixed = attention(q, k, v, scheme, **options)
        assert (mixed.abs().amax((0, 1, 3)) == 0).any(), "no query is blind in this case"
        if not mixed.requires_grad:
            assert not mixed.any(), "nothing was seen, so nothing can be learned from it"
            continue
        mixed.square().sum().backward()
        for x in (q, k, v):
            assert x.grad.isfinite().all()


def test_no_queries_and_no_keys_are_allowed(scheme: Scheme, block: int) -> None:
    q, (k, v) = random(2, HEADS, N, WIDTH), random(2, 2, HEADS, N, WIDTH)
    for causal in (True, False):
        none_asked = attention(q[:, :, :0], k, v, scheme, causal=causal)
        assert none_asked.shape == (2, HEADS, 0, WIDTH)
        nothing_seen = attention(q, k[:, :, :0], v[:, :, :0], scheme, causal=causal)
        assert torch.equal(nothing_seen, torch.zeros_like(q))


# Long sequences, precision, memory ------------------------------------------------------------


@pytest.mark.parametrize("length", [255, 256, 257, 600])
def test_blocks_of_256_queries_join_without_a_seam(scheme: Scheme, length: int) -> None:
    if scheme.max_length is not None:
        length = min(length, scheme.max_length)
    q, k, v = random(3, 1, HEADS, length, WIDTH)
    later = torch.arange(length) > torch.arange(length)[:, None]
    weights = scheme.scores(q, k).masked_fill(later, -math.inf).softmax(-1)
    torch.testing.assert_close(attention(q, k, v, scheme), weights @ v, rtol=0, atol=2e-13)


def torch_s_own(scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> Tensor:
    """What one writes by hand in a model of this dtype: rotate, dense bias in the dtype, SDPA."""
    rotated_q, rotated_k = scheme.rotate(q, k, positions, positions)
    bias = scheme.bias(q, k, positions, positions)
    visible = positions <= positions[:, None]
    # Without a gradient, for which torch takes another path.
    mask = torch.where(visible, 0.0, -math.inf) if bias is None else bias.detach()
    mask = mask.masked_fill(~visible, -math.inf).to(q.dtype)
    return functional.scaled_dot_product_attention(
        rotated_q, rotated_k, v, mask, scale=scheme.softmax_scale(q.shape[-1])
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("first", [0, 70_000])
def test_error_in_every_precision_is_at_most_twice_that_of_torch_s_own_path(
    scheme: Scheme, dtype: torch.dtype, first: int
) -> None:
    """flash-attention's rule. The reference is float64 on the same rounded inputs; 70,000 is past
    what float16 can count to."""
    length = 130
    positions = torch.arange(length) + first
    q, k, v = (random(1, HEADS, length, WIDTH, seed=s).to(dtype) for s in range(3))
    scores = scheme.scores(q.double(), k.double(), positions, positions)
    later = torch.arange(length) > torch.arange(length)[:, None]
    exact = scores.masked_fill(later, -math.inf).softmax(-1) @ v.double()
    ours = attention(q, k, v, scheme, q_positions=positions, k_positions=positions)
    assert ours.dtype == dtype
    assert ours.isfinite().all()
    error = (ours.double() - exact).abs().max()
    theirs = (torch_s_own(scheme, q, k, v, positions).double() - exact).abs().max()
    assert error <= 2 * theirs + 4 * torch.finfo(dtype).eps ** 1.5
    dense = attention(q, k, v, scheme, q_positions=positions, k_positions=positions,
                      key_mask=torch.ones(1, length, dtype=torch.bool))  # fmt: skip
    assert (dense.double() - exact).abs().max() <= 2 * theirs + 4 * torch.finfo(dtype).eps ** 1.5


def test_alibi_at_4096_tokens_is_as_exact_as_a_dense_bias() -> None:
    """Early rows mix few values and set the largest error, late ones sum over the most keys."""
    scheme = SCHEMES["alibi"](heads=2).build()
    q, k, v = (random(1, 2, 4_096, 64, seed=s, dtype=torch.float32) for s in range(3))
    ours = attention(q, k, v, scheme)
    for rows in (torch.arange(256), torch.arange(3_840, 4_096)):
        later = torch.arange(4_096) > rows[:, None]
        bias = scheme.bias(q[:, :, rows], k, rows, None).masked_fill(later, -math.inf)
        dense = functional.scaled_dot_product_attention(q[:, :, rows], k, v, bias)
        scores = scheme.scores(q[:, :, rows].double(), k.double(), rows, None)
        exact = scores.masked_fill(later, -math.inf).softmax(-1) @ v.double()
        error = (ours[:, :, rows] - exact).abs().max()
        assert error <= 2e-6
        assert error <= 1.5 * (dense - exact).abs().max()


class LargestTensor(TorchDispatchMode):
    """Remembers the most bytes that any tensor made inside it owns; a view owns nothing."""

    most = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for made in result if isinstance(result, tuple | list) else (result,):
            if isinstance(made, Tensor):
                self.most = max(self.most, made.untyped_storage().nbytes())
        return result


def test_a_stationary_bias_never_becomes_a_dense_mask() -> None:
    length, heads = 1_024, 8
    q, k, v = (random(1, heads, length, 8, seed=s, dtype=torch.float32) for s in range(3))
    scheme = SCHEMES["alibi"](heads=heads).build()
    with LargestTensor() as seen:
        attention(q, k, v, scheme)
    dense = heads * length * length * 4
    assert seen.most <= dense / 16
    with LargestTensor() as control:
        scheme.scores(q, k)
    assert control.most >= dense


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values_may_be_wider_than_keys(scheme: Scheme, dtype: torch.dtype, block: int) -> None:
    q, k = random(2, 2, HEADS, N, WIDTH, dtype=dtype)
    v = random(2, HEADS, N, 3 * WIDTH, seed=1, dtype=dtype)
    mixed = attention(q, k, v, scheme)
    assert mixed.shape == v.shape
    exact = attention(q.double(), k.double(), v.double(), scheme)
    assert (mixed.double() - exact).abs().max() < 8 * torch.finfo(dtype).eps


def test_gradients_are_those_of_the_formula(scheme: Scheme, block: int) -> None:
    q, k, v = (random(1, HEADS, 6, WIDTH, seed=s).requires_grad_() for s in range(3))
    for options in ({}, {"causal": False}, {"key_mask": torch.arange(6)[None] != 3}):
        causal = options.get("causal", True)
        later = (torch.arange(6) > torch.arange(6)[:, None]) & causal
        hidden = later | ~options["key_mask"] if "key_mask" in options else later
        mixed = attention(q, k, v, scheme, **options)
        plain = scheme.scores(q, k).masked_fill(hidden, -math.inf).softmax(-1) @ v
        weights = random(*mixed.shape, seed=5)
        ours = torch.autograd.grad((mixed * weights).sum(), (q, k, v))
        theirs = torch.autograd.grad((plain * weights).sum(), (q, k, v))
        for actual, expected in zip(ours, theirs, strict=True):
            torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_gradcheck_of_alibi_and_rope_attention() -> None:
    for config in (SCHEMES["alibi"](heads=2), SCHEMES["rope"](dim=4)):
        scheme = config.build()
        q, k, v = (random(1, 2, 4, 4, seed=s).requires_grad_() for s in range(3))
        assert torch.autograd.gradcheck(lambda *x, s=scheme: attention(*x, s), (q, k, v))


# Curves read as matrices ------------------------------------------------------------------------


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (4, 4), (5, 3), (3, 7)])
def test_a_curve_read_by_a_view_is_the_matrix_of_its_offsets(queries: int, keys: int) -> None:
    curve = torch.arange(queries + keys - 1.0)  # the offset o = j - i stands at o + queries - 1
    matrix = torch.tensor(
        [[curve[j - i + queries - 1] for j in range(keys)] for i in range(queries)]
    )
    for start in range(queries):
        for stop in range(start + 1, queries + 1):
            for seen in range(1, keys + 1):
                rows = flipped_rows(curve, queries, start, stop, seen)
                assert torch.equal(rows.flip(0), matrix[start:stop, :seen])
                assert rows.untyped_storage().data_ptr() == curve.untyped_storage().data_ptr()


def test_a_whole_toeplitz_matrix_has_the_curve_s_offset_on_each_diagonal() -> None:
    curves = torch.arange(14.0).reshape(2, 7)
    expected = [[[c[j - i + 3] for j in range(4)] for i in range(4)] for c in curves.tolist()]
    assert toeplitz(curves).tolist() == expected


# What is refused --------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_shape_checks")
def test_arguments_that_do_not_fit_are_refused_in_a_sentence(scheme: Scheme) -> None:
    q, k, v = random(3, 2, HEADS, 5, WIDTH)
    ok = torch.ones(2, 5, dtype=torch.bool)
    cases: list[tuple[str, tuple[Tensor, Tensor, Tensor], dict[str, Tensor]]] = [
        ("shape", (q[0], k, v), {}),
        ("do not fit", (q, k[:1], v[:1]), {}),
        ("do not fit", (q, k, v[:, :, :4]), {}),
        ("do not fit", (q[..., :4], k, v), {}),
        ("divide", (q, k[:, :3], v[:, :3]), {}),
        ("q_positions.*whole", (q, k, v), {"q_positions": torch.arange(5.0)}),
        ("k_positions.*whole", (q, k, v), {"k_positions": torch.ones(5, dtype=torch.bool)}),
        ("q_positions.*shape", (q, k, v), {"q_positions": torch.arange(4)}),
        ("k_positions.*shape", (q, k, v), {"k_positions": torch.zeros(3, 5, dtype=torch.int64)}),
        ("key_mask.*boolean", (q, k, v), {"key_mask": ok.float()}),
        ("key_mask.*shape", (q, k, v), {"key_mask": ok[:, :4]}),
    ]
    for message, tensors, options in cases:
        with pytest.raises(SchemeArgumentError, match=message):
            attention(*tensors, scheme, **options)


def test_heads_that_do_not_fit_the_scheme_are_refused() -> None:
    for heads, given in ((8, 1), (8, 3), (1, 8), (2, 4)):
        scheme = SCHEMES["alibi"](heads=heads).build()
        q = random(1, given, 4, 8)
        for options in ({}, {"key_mask": torch.ones(1, 4, dtype=torch.bool)}):
            with pytest.raises(PosencError, match="heads"):
                attention(q, q, q, scheme, **options)
        with pytest.raises(PosencError, match="heads"):
            scheme.scores(q, q)
