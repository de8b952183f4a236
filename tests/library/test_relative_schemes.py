"""The relative schemes against the formulas of their papers, as plain loops, and against peers."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

from posenc import (
    SCHEMES,
    NoPositionVectors,
    PositionOutOfRange,
    Scheme,
    attention,
    offset_curve,
    position_vectors,
)
from posenc.schemes.sizes import Sizes
from posenc.schemes.t5 import t5_buckets
from tests.library import independent
from tests.library.tensors import assert_close, random

HEADS, WIDTH, TOKENS = 3, 4, 9
RELATIVE = ("shaw", "transformer_xl", "t5", "kerple_log", "kerple_power", "fire", "sandwich", "xpos",
            "cope", "ssmax", "ssmax_rope", "pope", "fox", "stick_breaking")  # fmt: skip
TRAINED = tuple(kind for kind in RELATIVE if kind not in ("sandwich", "xpos", "stick_breaking"))
DRAW_NOTHING = ("ssmax", "ssmax_rope", "pope")  # their parameters start from fixed values


class Cell(NamedTuple):
    """A query, all keys, the query's position, the positions of all keys, a key's index, a head."""

    q: list[float]
    keys: list[list[float]]
    i: int
    at: list[int]
    j: int
    h: int


def built(kind: str, **fields: Any) -> Any:
    """Return a scheme in float64 with every parameter moved off its start, so that none is trivial."""
    scheme = SCHEMES[kind](**fields).build(seed=1).double()
    with torch.no_grad():
        for number, parameter in enumerate(scheme.parameters()):
            parameter.add_(0.5 * random(*parameter.shape, seed=50 + number))
    return scheme


def dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def assert_bias_is(scheme: Scheme, formula: Callable[[Cell], float]) -> None:
    """Compare the bias with a formula, from position 0, in any order and far away."""
    q, k = random(2, 1, HEADS, TOKENS, WIDTH)
    order, far = torch.tensor([7, 0, 3, 12, 1, 40, 5, 6, 2]), torch.arange(TOKENS) + 500
    for positions in (None, order, far):
        at = list(range(TOKENS)) if positions is None else positions.tolist()
        bias = scheme.bias(q, k, positions, positions)
        assert bias is not None
        expected = [
            [
                [formula(Cell(q[0, h, i].tolist(), k[0, h].tolist(), at[i], at, j, h))
                 for j in range(TOKENS)]
                for i in range(TOKENS)
            ]
            for h in range(HEADS)
        ]  # fmt: skip
        assert_close(bias[0], expected, atol=1e-12, rtol=1e-12)


def test_shaw_equals_equation_4_of_its_paper() -> None:
    scheme = built("shaw", dim=WIDTH, clip=3)
    table = scheme.weight.tolist()
    assert len(table) == 7

    def formula(cell: Cell) -> float:
        q, _, i, at, j, _ = cell
        return dot(q, table[max(-3, min(3, at[j] - i)) + 3]) / math.sqrt(WIDTH)

    assert_bias_is(scheme, formula)


def test_transformer_xl_equals_its_four_terms() -> None:
    """(q + u).k + (q + v).(W r), over the root of the head width; q.k is not a part of the bias."""
    width = HEADS * WIDTH
    scheme = built("transformer_xl", dim=width, heads=HEADS, base=100.0)
    projection, u, v = (getattr(scheme, name).tolist() for name in ("projection", "u", "v"))
    rates = [float(theta) for theta in independent.inverse_frequencies(width, 100.0)]

    def formula(cell: Cell) -> float:
        q, keys, i, at, j, h = cell
        distance = i - at[j]
        r = [math.sin(distance * t) for t in rates] + [math.cos(distance * t) for t in rates]
        projected = [dot(row, r) for row in projection[h * WIDTH : (h + 1) * WIDTH]]
        shifted = [x + y for x, y in zip(q, v[h], strict=True)]
        return (dot(u[h], keys[j]) + dot(shifted, projected)) / math.sqrt(WIDTH)

    assert_bias_is(scheme, formula)


def test_transformer_xl_agrees_for_offsets_far_apart_and_close_together() -> None:
    """Offsets are projected once each where they are dense, else found one by one."""
    scheme = built("transformer_xl", dim=HEADS * WIDTH, heads=HEADS)
    q, k = random(2, 1, HEADS, 4, WIDTH)
    positions = torch.tensor([0, 3, 2_000_000_000, 17])
    whole = scheme.bias(q, k, positions, positions).detach()
    for i in range(4):
        for j in range(4):
            entry = scheme.bias(q[:, :, [i]], k[:, :, [j]], positions[[i]], positions[[j]])
            assert_close(entry[..., 0, 0], whole[..., i, j], atol=1e-13)


BUCKETS = [(32, 128, False), (32, 128, True), (16, 64, False), (8, 20, True), (6, 7, False),
           (4, 3, False), (12, 1_000, False), (256, 4_096, False)]  # fmt: skip


def exact_bucket(offset: int, buckets: int, most: int, *, both: bool) -> int:
    """Return the bucket of Raffel et al.'s rule by comparing whole numbers; no logarithm."""
    base = 0
    if both:
        buckets //= 2
        base = buckets if offset > 0 else 0
    distance = abs(offset) if both else max(-offset, 0)
    exact = buckets // 2
    if distance < exact:
        return base + distance
    wider, step = buckets - exact, 0
    while (
        exact + step + 1 < buckets
        and distance**wider * exact ** (step + 1) >= most ** (step + 1) * exact**wider
    ):
        step += 1
    return base + exact + step


@pytest.mark.parametrize(("buckets", "most", "both"), BUCKETS)
def test_t5_buckets_equal_exact_integer_arithmetic(buckets: int, most: int, both: bool) -> None:
    far = (200, 255, 256, 999, 5_000)
    offsets = [*range(-150, 151), *far, *(-x for x in far)]
    found = t5_buckets(
        torch.tensor(offsets), buckets=buckets, max_distance=most, bidirectional=both
    )
    assert found.tolist() == [exact_bucket(o, buckets, most, both=both) for o in offsets]


def test_t5_scores_are_not_divided_by_the_root_of_the_width() -> None:
    scheme = SCHEMES["t5"](heads=1).build()  # type: ignore[call-arg]
    q, k = torch.ones(1, 1, 1, 16), torch.full((1, 1, 1, 16), 2.0)
    bias = next(scheme.parameters())[0, 0].item()
    assert scheme.scores(q, k).item() == pytest.approx(32 + bias, abs=1e-5)


@pytest.mark.parametrize("kind", ["kerple_log", "kerple_power"])
def test_kerple_equals_its_formula(kind: str) -> None:
    scheme = built(kind, heads=HEADS)
    r1, r2 = scheme.r1.tolist(), scheme.r2.tolist()
    assert min(r1 + r2) > 0
    assert kind == "kerple_log" or max(r2) < 2

    def formula(cell: Cell) -> float:
        _, _, i, at, j, h = cell
        distance = abs(at[j] - i)
        if kind == "kerple_log":
            return -r1[h] * math.log(1 + r2[h] * distance)
        return -r1[h] * distance ** r2[h]

    assert_bias_is(scheme, formula)


def test_fire_equals_its_published_form() -> None:
    """f(psi(i - j) / (psi(max(i, |m| L)) + 1e-6)), psi(x) = ln(|c x| + 1), with a ReLU inside."""
    scheme = built("fire", heads=HEADS, threshold=4)
    names = ("inner_weight", "inner_bias", "outer_weight", "outer_bias")
    w1, b1, w2, b2 = (getattr(scheme, name).tolist() for name in names)
    c, multiplier = scheme.c.item(), scheme.multiplier.item()

    def psi(x: float) -> float:
        return math.log(abs(c * x) + 1)

    def formula(cell: Cell) -> float:
        _, _, i, at, j, h = cell
        share = psi(i - at[j]) / (psi(max(i, abs(multiplier * 4))) + 1e-6)
        inner = [max(0.0, w * share + b) for w, b in zip(w1, b1, strict=True)]
        return dot(inner, [row[h] for row in w2]) + b2[h]

    assert_bias_is(scheme, formula)


def test_sandwich_equals_inner_products_of_sinusoidal_rows() -> None:
    """p_i . p_j of width w, minus w / 2, over the head's ratio 8 h / H, h from 1."""
    scheme = built("sandwich", heads=HEADS, base=100.0, width=6)
    rates = [float(theta) for theta in independent.inverse_frequencies(6, 100.0)]

    def formula(cell: Cell) -> float:
        _, _, i, at, j, h = cell
        rows = [[f(p * t) for t in rates for f in (math.sin, math.cos)] for p in (i, at[j])]
        return (dot(*rows) - 3) / (8 * (h + 1) / HEADS)

    assert_bias_is(scheme, formula)


def test_cope_equals_its_published_form() -> None:
    """Gates of scaled scores, summed from the key to the query, read between rows of the table."""
    scheme = built("cope", dim=WIDTH, counted=3)
    table = scheme.weight.tolist()

    def formula(cell: Cell) -> float:
        q, keys, i, at, j, _ = cell
        gates = [1 / (1 + math.exp(-dot(q, key) / math.sqrt(WIDTH))) for key in keys]
        between = [t for t, position in enumerate(at) if at[j] <= position <= i]
        counted = min(math.fsum(gates[t] for t in between), 2)
        low = math.floor(counted)
        share = counted - low
        return dot(q, table[low]) * (1 - share) + dot(q, table[math.ceil(counted)]) * share

    assert_bias_is(scheme, formula)


def test_cope_carries_a_query_that_is_nan_into_its_own_row_alone() -> None:
    scheme, q, k = built("cope", dim=8), random(1, 2, 3, 8), random(1, 2, 3, 8, seed=1)
    broken = q.clone()
    broken[0, 0, 2, 0] = math.nan
    expected, bias = scheme.bias(q, k), scheme.bias(broken, k)
    assert bias[0, 0, 2].isnan().all()
    expected[0, 0, 2] = bias[0, 0, 2] = 0.0
    assert torch.equal(bias, expected)


def test_schemes_that_fit_any_number_of_heads_fit_none() -> None:
    for kind in ("cope", "shaw"):
        q, k = torch.zeros(1, 0, 3, WIDTH), torch.zeros(1, 2, 3, WIDTH)
        assert attention(q, k, k, built(kind, dim=WIDTH)).shape == (1, 0, 3, WIDTH)


def test_cope_does_not_count_other_keys_at_the_same_position() -> None:
    """So padding that stands at the first token's position is not counted with it."""
    scheme = built("cope", dim=WIDTH)
    q, k = random(2, 1, HEADS, 3, WIDTH)
    padded = torch.cat((k[:, :, :1] + 5, k), dim=2)
    bias = scheme.bias(q, padded, torch.arange(3), torch.tensor([0, 0, 1, 2]))
    assert_close(bias[..., 1:], scheme.bias(q, k).detach(), atol=1e-13)


def xpos(**fields: Any) -> Any:
    return SCHEMES["xpos"](**fields).build()


@pytest.mark.parametrize("origin", [0, 5])
def test_xpos_equals_its_paper_pair_by_pair(origin: int) -> None:
    """q_m e^(i n theta) zeta^(n / B) and k_m e^(i n theta) zeta^(-n / B), as complex numbers."""
    width, at = 6, [7, 0, 3, 512, 1]
    scheme = xpos(dim=width, base=100.0, origin=origin, scale_base=100.0)
    rates = [float(theta) for theta in independent.inverse_frequencies(width, 100.0)]
    q, k = random(2, 1, 2, 5, width)
    rotated = scheme.rotate(q, k, torch.tensor(at), torch.tensor(at))
    for x, turned, sign in zip((q, k), rotated, (1, -1), strict=True):
        for row, n in enumerate(at):
            for m, theta in enumerate(rates):
                zeta = (2 * m / width + 0.4) / 1.4
                unit = complex(math.cos(n * theta), math.sin(n * theta))
                unit *= zeta ** (sign * (n - origin) / 100.0)
                pair = slice(2 * m, 2 * m + 2)
                expected = [complex(*x[0, h, row, pair].tolist()) * unit for h in range(2)]
                wanted = [[number.real, number.imag] for number in expected]
                scale = max(1.0, *map(abs, expected))
                assert_close(turned[0, :, row, pair], wanted, atol=1e-12 * scale)
    other = xpos(dim=width, base=100.0, origin=1_000, scale_base=100.0)
    assert_close(other.scores(q, k), scheme.scores(q, k), atol=1e-12)  # whatever the origin


def test_kernel_of_xpos_ends_where_float64_does() -> None:
    scheme = xpos(dim=4, base=100.0, scale_base=64.0)
    assert bool(offset_curve(scheme, 20_000).isfinite().all())
    with pytest.raises(PositionOutOfRange, match="float64"):
        offset_curve(scheme, 65_536)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_xpos_refuses_positions_whose_keys_do_not_fit_a_dtype(dtype: torch.dtype) -> None:
    scheme, x = xpos(dim=8), torch.ones(1, 1, 1, 8, dtype=dtype)
    last = scheme.farthest(dtype)
    assert scheme.rotate(x, 40 * x, None, torch.tensor([last]))[1].isfinite().all()
    for bad in (last + 1, -last - 1):
        with pytest.raises(PositionOutOfRange, match=f"holds at position {bad:,}") as refused:
            scheme.rotate(x, x, None, torch.tensor([bad]))
        assert refused.value.limit == last + 1
    assert dtype != torch.float16 or last < 8_192, "where public code overflows"


@pytest.mark.parametrize("kind", RELATIVE)
def test_smallest_and_uneven_sizes_work(kind: str) -> None:
    for sizes in (
        Sizes(dim=2, heads=1, length=2, train_length=1),
        Sizes(dim=128, heads=64, length=2),
        Sizes(dim=12, heads=3, base=2.0),
    ):
        scheme = sizes.config(kind).build()
        q, k, v = random(3, 1, sizes.heads, 5, sizes.head_dim)
        assert attention(q, k, v, scheme).isfinite().all()
        with pytest.raises(NoPositionVectors, match="has no position vectors: "):
            position_vectors(scheme, 4)


def test_initial_parameters_are_labelled_and_drawn_by_the_seed() -> None:
    for kind in RELATIVE:
        first, again, other = (SCHEMES[kind]().build(seed=seed) for seed in (3, 3, 4))
        if kind not in TRAINED:
            assert (first.untrained, first.provenance) == (False, "")
            assert not [*first.parameters()]
            continue
        assert first.untrained
        assert "untrained" in first.provenance
        assert "seed 3" in first.provenance
        assert ("seed" in first.config.uses) == (kind not in DRAW_NOTHING)
        draws = [[*scheme.parameters()] for scheme in (first, again, other)]
        assert all(map(torch.equal, draws[0], draws[1]))  # the same draw
        assert all(map(torch.equal, draws[0], draws[2])) == (kind in DRAW_NOTHING)
        assert {parameter.dtype for parameter in draws[0]} == {torch.float32}
