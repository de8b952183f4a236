"""The relative family against the papers' formulas, written as plain loops over Python's floats."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from posenc import (
    SCHEMES,
    NoPositionKernel,
    NoPositionVectors,
    NotStationary,
    PositionOutOfRange,
    Scheme,
    SchemeArgumentError,
    Setting,
    alibi_slopes,
    attention,
    offset_curve,
    position_kernel,
    position_vectors,
)
from posenc.errors import ConfigError
from posenc.schemes.kerple_log import KerpleLog
from posenc.schemes.kerple_power import KerplePower
from tests import independent

HEADS, WIDTH, TOKENS = 3, 4, 9
RELATIVE = (
    "shaw",
    "transformer_xl",
    "t5",
    "kerple_log",
    "kerple_power",
    "fire",
    "sandwich",
    "xpos",
    "cope",
)
TRAINED = tuple(kind for kind in RELATIVE if kind not in ("sandwich", "xpos"))


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(kind: str, **fields: object) -> Scheme:
    """A scheme in float64 with every parameter moved off its start, so that none is trivial."""
    scheme = SCHEMES[kind](**fields).build(seed=1).double()
    with torch.no_grad():
        for number, parameter in enumerate(scheme.parameters()):
            parameter.add_(0.5 * random(*parameter.shape, seed=50 + number))
    return scheme


def dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def check_bias(
    scheme: Scheme,
    plain: Callable[[list[float], list[list[float]], int, list[int], int, int], float],
    positions: Tensor | None = None,
    atol: float = 1e-12,
) -> None:
    """Compare the bias with `plain(query, keys, own position, positions of keys, j, head)`."""
    q, k = random(2, 2, HEADS, TOKENS, WIDTH)
    at = torch.arange(TOKENS) if positions is None else positions
    found = scheme.bias(q, k, positions, positions).expand(2, -1, -1, -1)
    places = at.tolist()
    for b in range(2):
        for h in range(HEADS):
            keys = k[b, h].tolist()
            for i in range(TOKENS):
                for j in range(TOKENS):
                    wanted = plain(q[b, h, i].tolist(), keys, places[i], places, j, h)
                    assert found[b, h, i, j].item() == pytest.approx(wanted, abs=atol, rel=atol)


PLACES = [None, torch.tensor([7, 0, 3, 12, 1, 40, 5, 6, 2]), torch.arange(TOKENS) + 500]
placed = pytest.mark.parametrize("positions", PLACES, ids=["from zero", "any order", "far"])


# Shaw -------------------------------------------------------------------------------------------


@placed
def test_shaw_equals_equation_4_of_its_paper(positions: Tensor | None) -> None:
    scheme = made("shaw", dim=WIDTH, clip=3)
    table = scheme.weight.tolist()
    assert len(table) == 7

    def plain(q, keys, i, places, j, h):
        offset = max(-3, min(3, places[j] - i))
        return dot(q, table[offset + 3]) / math.sqrt(WIDTH)

    check_bias(scheme, plain, positions)


def test_shaw_meets_the_query_with_a_key_that_holds_the_vector_of_the_offset() -> None:
    """Equation 2 of the paper: the score is q . (k + a) / sqrt(d), softmaxed over what is seen."""
    scheme = made("shaw", dim=WIDTH, clip=2)
    q, k, v = random(3, 1, HEADS, 6, WIDTH)
    table = scheme.weight.tolist()

    def bias(b, h, i, j):
        return dot(q[b, h, i].tolist(), table[max(-2, min(2, j - i)) + 2]) / math.sqrt(WIDTH)

    expected = independent.attention(
        q, k, v, scale=WIDTH**-0.5, bias=bias, visible=lambda b, i, j: j <= i
    )
    torch.testing.assert_close(attention(q, k, v, scheme), expected, rtol=0, atol=1e-12)


# Transformer-XL ---------------------------------------------------------------------------------


@placed
def test_transformer_xl_equals_its_four_terms(positions: Tensor | None) -> None:
    """(q + u).k + (q + v).(W r), over the root of the head width; q.k is not a part of the bias."""
    width = HEADS * WIDTH
    scheme = made("transformer_xl", dim=width, heads=HEADS, base=100.0)
    projection, u, v = (getattr(scheme, name).tolist() for name in ("projection", "u", "v"))
    rates = [float(theta) for theta in independent.inverse_frequencies(width, 100.0)]

    def plain(q, keys, i, places, j, h):
        distance = i - places[j]
        r = [math.sin(distance * t) for t in rates] + [math.cos(distance * t) for t in rates]
        wr = [dot(row, r) for row in projection[h * WIDTH : (h + 1) * WIDTH]]
        asked = [x + y for x, y in zip(q, v[h], strict=True)]
        return (dot(u[h], keys[j]) + dot(asked, wr)) / math.sqrt(WIDTH)

    check_bias(scheme, plain, positions)


def test_what_is_left_of_transformer_xl_without_content_is_v_times_w_r() -> None:
    scheme = made("transformer_xl", dim=HEADS * WIDTH, heads=HEADS)
    blank = torch.zeros(1, HEADS, 20, WIDTH, dtype=torch.float64)
    left = scheme.bias(blank, blank)[0]
    offsets = torch.arange(20) - torch.arange(20)[:, None]
    torch.testing.assert_close(scheme.offset_bias(offsets), left, rtol=0, atol=1e-13)
    kernel = position_kernel(scheme, 20, head=1)
    torch.testing.assert_close(kernel, left[1].exp().detach(), rtol=0, atol=1e-13)
    assert (kernel - kernel.T).abs().max() > 1e-3, "it tells before from after"


def test_transformer_xl_far_apart_and_close_together_agree() -> None:
    """Offsets are projected once each where they are dense, else found one by one."""
    scheme = made("transformer_xl", dim=HEADS * WIDTH, heads=HEADS)
    q, k = random(2, 1, HEADS, 4, WIDTH)
    positions = torch.tensor([0, 3, 2_000_000_000, 17])
    whole = scheme.bias(q, k, positions, positions)
    for i in range(4):
        for j in range(4):
            one = scheme.bias(
                q[:, :, i : i + 1], k[:, :, j : j + 1], positions[i : i + 1], positions[j : j + 1]
            )
            torch.testing.assert_close(whole[..., i, j], one[..., 0, 0], rtol=0, atol=1e-13)


# KERPLE -----------------------------------------------------------------------------------------


@placed
@pytest.mark.parametrize("kind", ["kerple_log", "kerple_power"])
def test_kerple_equals_its_formula(kind: str, positions: Tensor | None) -> None:
    scheme = made(kind, heads=HEADS)
    r1, r2 = scheme.r1.tolist(), scheme.r2.tolist()
    assert min(r1 + r2) > 0
    if kind == "kerple_power":
        assert max(r2) < 2

    def plain(q, keys, i, places, j, h):
        distance = abs(places[j] - i)
        if kind == "kerple_log":
            return -r1[h] * math.log(1 + r2[h] * distance)
        return -r1[h] * distance ** r2[h]

    check_bias(scheme, plain, positions)


@pytest.mark.parametrize("heads", [1, 4, 8, 12])
def test_power_kerple_of_exponent_one_is_alibi(heads: int) -> None:
    slopes = alibi_slopes(heads, dtype=torch.float64)
    kerple = KerplePower.of(slopes, torch.ones(heads, dtype=torch.float64))
    alibi = SCHEMES["alibi"](heads=heads).build()
    offsets = torch.arange(-400, 401)
    torch.testing.assert_close(
        kerple.offset_bias(offsets), alibi.offset_bias(offsets), rtol=1e-14, atol=0
    )
    q, k, v = random(3, 1, heads, 40, 8)
    torch.testing.assert_close(
        attention(q, k, v, kerple), attention(q, k, v, alibi), rtol=0, atol=1e-13
    )


@pytest.mark.usefixtures("no_shape_checks")
def test_kerple_keeps_the_numbers_it_is_given_and_refuses_others() -> None:
    r1, r2 = torch.tensor([0.5, 3.0]).double(), torch.tensor([1.0, 2.0]).double()
    for kind in (KerpleLog, KerplePower):
        scheme = kind.of(r1, r2)
        torch.testing.assert_close(scheme.r1, r1, rtol=1e-15, atol=0)
        torch.testing.assert_close(scheme.r2, r2, rtol=1e-15, atol=0)
        for bad in (-r1, torch.zeros(2), torch.ones(2, 1)):
            with pytest.raises(SchemeArgumentError, match="greater than 0, one per head"):
                kind.of(bad, r2)
    with pytest.raises(SchemeArgumentError, match="at most 2"):
        KerplePower.of(r1, r2 + 0.5)


@pytest.mark.parametrize("kind", ["kerple_log", "kerple_power", "sandwich"])
def test_kernels_that_are_said_to_be_positive_definite_are(kind: str) -> None:
    for seed in range(3):
        scheme = SCHEMES[kind](heads=4).build(seed=seed)
        for head in ("mean", 0, 3):
            kernel = position_kernel(scheme, 200, head=head)
            torch.testing.assert_close(kernel, kernel.T, rtol=0, atol=1e-14)
            assert torch.linalg.eigvalsh(kernel).min() > -1e-12 * 200
    gauss = KerplePower.of(torch.tensor([0.01]), torch.tensor([2.0]))
    assert torch.linalg.eigvalsh(position_kernel(gauss, 200)).min() > -1e-12 * 200


def test_a_power_beyond_two_would_not_be_positive_definite() -> None:
    """The control: why r2 ends at 2."""
    offsets = (torch.arange(60.0) - torch.arange(60.0)[:, None]).double().abs()
    assert torch.linalg.eigvalsh((-0.05 * offsets**2.5).exp()).min() < -1e-3


# FIRE -------------------------------------------------------------------------------------------


@placed
def test_fire_equals_its_published_form(positions: Tensor | None) -> None:
    """f(psi(i - j) / (psi(max(i, |m| L)) + 1e-6)), psi(x) = ln(|c x| + 1), with a ReLU inside."""
    scheme = made("fire", heads=HEADS, threshold=4)
    w1, b1, w2, b2 = (
        getattr(scheme, name).tolist()
        for name in ("inner_weight", "inner_bias", "outer_weight", "outer_bias")
    )
    c, multiplier = scheme.c.item(), scheme.multiplier.item()

    def psi(x: float) -> float:
        return math.log(abs(c * x) + 1)

    def plain(q, keys, i, places, j, h):
        share = psi(i - places[j]) / (psi(max(i, abs(multiplier * 4))) + 1e-6)
        inner = [max(0.0, w * share + b) for w, b in zip(w1, b1, strict=True)]
        return dot(inner, [row[h] for row in w2]) + b2[h]

    check_bias(scheme, plain, positions)


def test_fire_is_no_function_of_the_offset_past_its_threshold() -> None:
    """What the laws of the contract cannot show on positions below the threshold of their config."""
    scheme = made("fire", heads=HEADS, threshold=4)
    with pytest.raises(NotStationary):
        offset_curve(scheme, 60)
    kernel = position_kernel(scheme, 60, head=0)
    diagonal = kernel.diagonal(-3)
    assert diagonal.max() - diagonal.min() > 1e-2
    blank = torch.zeros(1, HEADS, 60, WIDTH, dtype=torch.float64)
    expected = scheme.bias(blank, blank)[0, 0].exp()
    torch.testing.assert_close(kernel, expected.detach(), rtol=0, atol=1e-13)
    later = position_kernel(scheme, 10, head=0, start=50)
    torch.testing.assert_close(later, kernel[50:, 50:], rtol=0, atol=1e-13)


def test_fire_is_symmetric_below_its_threshold_and_says_where_it_is_not() -> None:
    scheme = made("fire", heads=HEADS, threshold=50).requires_grad_(False)
    scheme.multiplier.fill_(1.0)
    within, past = position_kernel(scheme, 50), position_kernel(scheme, 70)
    torch.testing.assert_close(within, within.T, rtol=0, atol=1e-14)
    assert (past - past.T).abs().max() > 1e-3
    with pytest.raises(NoPositionVectors, match="not symmetric past its threshold"):
        position_vectors(scheme, 60)


# Sandwich ---------------------------------------------------------------------------------------


@placed
def test_sandwich_equals_the_inner_products_of_sinusoidal_rows(positions: Tensor | None) -> None:
    """p_i . p_j of width w, minus w / 2, over the head's ratio 8 h / H, h from 1."""
    scheme = made("sandwich", heads=HEADS, base=100.0, width=6)
    rates = [float(theta) for theta in independent.inverse_frequencies(6, 100.0)]

    def plain(q, keys, i, places, j, h):
        rows = [[f(p * t) for t in rates for f in (math.sin, math.cos)] for p in (i, places[j])]
        return (dot(*rows) - 3) / (8 * (h + 1) / HEADS)

    check_bias(scheme, plain, positions)
    assert not list(scheme.parameters())


def test_the_constant_that_sandwich_leaves_out_changes_no_attention() -> None:
    scheme = made("sandwich", heads=HEADS, width=16)
    q, k, v = random(3, 1, HEADS, 12, WIDTH)
    whole = scheme.scores(q, k) + (HEADS / (8 * torch.arange(1, HEADS + 1)) * 8)[:, None, None]
    later = torch.arange(12) > torch.arange(12)[:, None]
    expected = whole.masked_fill(later, -math.inf).softmax(-1) @ v
    torch.testing.assert_close(attention(q, k, v, scheme), expected, rtol=0, atol=1e-13)


# xPos -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", [0, 5])
@placed
def test_xpos_equals_its_paper_pair_by_pair(positions: Tensor | None, origin: int) -> None:
    """q_m e^(i n theta) zeta^(n / B) and k_m e^(i n theta) zeta^(-n / B), as complex numbers."""
    width = 6
    scheme = made("xpos", dim=width, base=100.0, origin=origin, scale_base=100.0)
    rates = [float(theta) for theta in independent.inverse_frequencies(width, 100.0)]
    q, k = random(2, 1, 2, TOKENS, width)
    at = torch.arange(TOKENS) if positions is None else positions
    turned = scheme.rotate(q, k, positions, positions)
    for x, found, sign in ((q, turned[0], 1), (k, turned[1], -1)):
        for h in range(2):
            for row, n in enumerate(at.tolist()):
                for m, theta in enumerate(rates):
                    zeta = (2 * m / width + 0.4) / 1.4
                    unit = complex(math.cos(n * theta), math.sin(n * theta))
                    unit *= zeta ** (sign * (n - origin) / 100.0)
                    pair = complex(*x[0, h, row, 2 * m : 2 * m + 2].tolist()) * unit
                    close = 1e-12 * max(1.0, abs(pair))
                    ours = found[0, h, row, 2 * m : 2 * m + 2].tolist()
                    assert ours == pytest.approx([pair.real, pair.imag], abs=close)


def test_no_score_of_xpos_depends_on_its_origin() -> None:
    q, k = random(2, 1, 2, 40, 8)
    scores = [made("xpos", dim=8, origin=origin).scores(q, k) for origin in (0, 20, 1_000)]
    for other in scores[1:]:
        torch.testing.assert_close(other, scores[0], rtol=0, atol=1e-12)


def test_xpos_lets_the_fastest_pair_shrink_most_and_future_keys_grow() -> None:
    """Two sevenths over B positions for pair 0; the kernel is that of the paper's equation."""
    scheme = made("xpos", dim=4, base=100.0, scale_base=64.0)
    curve = offset_curve(scheme, 65)
    for offset in (-64, -10, 0, 10, 64):
        wanted = 0.5 * math.fsum(
            ((2 * m / 4 + 0.4) / 1.4) ** (-offset / 64) * math.cos(offset * 100.0 ** (-m / 2))
            for m in range(2)
        )
        assert curve[64 + offset].item() == pytest.approx(wanted, rel=1e-13)
    shrunk = scheme.rotate(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4), torch.tensor([64]), None)
    assert shrunk[0][0, 0, 0, :2].norm().item() == pytest.approx(2 / 7 * 2**0.5, rel=1e-6)
    with pytest.raises(NoPositionVectors, match="xPos has no position vectors"):
        position_vectors(scheme, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_xpos_says_where_its_keys_no_longer_fit(dtype: torch.dtype) -> None:
    scheme = SCHEMES["xpos"](dim=8).build()
    x = torch.ones(1, 1, 1, 8, dtype=dtype)
    last = scheme.farthest(dtype)
    assert scheme.rotate(x, 40 * x, None, torch.tensor([last]))[1].isfinite().all()
    for bad in (last + 1, -last - 1):
        with pytest.raises(PositionOutOfRange, match=f"holds at position {bad:,}") as refused:
            scheme.rotate(x, x, None, torch.tensor([bad]))
        assert refused.value.limit == last + 1
    assert SCHEMES["xpos"](dim=8, origin=64).build().farthest(dtype) == last
    if dtype == torch.float16:
        assert last < 8_192, "where public code overflows"


# CoPE -------------------------------------------------------------------------------------------


@placed
def test_cope_equals_its_published_form(positions: Tensor | None) -> None:
    """Gates of scaled scores, summed from the key to the query, read between rows of the table."""
    scheme = made("cope", dim=WIDTH, counted=3)
    table = scheme.weight.tolist()

    def plain(q, keys, i, places, j, h):
        def gate(t: int) -> float:
            return 1 / (1 + math.exp(-dot(q, keys[t]) / math.sqrt(WIDTH)))

        between = [t for t, place in enumerate(places) if places[j] <= place <= i]
        counted = min(math.fsum(gate(t) for t in between), 2)
        low = math.floor(counted)
        share = counted - low
        at_low, at_high = dot(q, table[low]), dot(q, table[math.ceil(counted)])
        return at_low * (1 - share) + at_high * share

    check_bias(scheme, plain, positions)


def test_cope_counts_keys_at_one_position_for_themselves_only() -> None:
    """So padding that stands at the first token's position is not counted with it."""
    scheme = made("cope", dim=WIDTH)
    q, k = random(2, 1, HEADS, 3, WIDTH)
    alone = scheme.bias(q, k)
    padded = torch.cat((k[:, :, :1] + 5, k), dim=2)
    positions = torch.tensor([0, 0, 1, 2])
    found = scheme.bias(q, padded, torch.arange(3), positions)
    torch.testing.assert_close(found[..., 1:], alone, rtol=0, atol=1e-13)


# What all of them say of themselves ---------------------------------------------------------------


@pytest.mark.parametrize("kind", ["shaw", "cope"])
def test_what_depends_on_content_alone_has_no_kernel_and_says_so(kind: str) -> None:
    scheme = made(kind, dim=WIDTH)
    for ask in (position_kernel, offset_curve):
        with pytest.raises(NoPositionKernel, match="no fixed position kernel: its bias depends on"):
            ask(scheme, 4)
    with pytest.raises(NoPositionVectors, match="it has no position kernel"):
        position_vectors(scheme, 4)


@pytest.mark.parametrize("kind", RELATIVE)
def test_every_other_scheme_says_why_it_has_no_vectors(kind: str) -> None:
    with pytest.raises(NoPositionVectors, match="has no position vectors: ") as refused:
        position_vectors(SCHEMES[kind]().build(), 4)
    assert "none are known" not in refused.value.reason


@pytest.mark.parametrize("kind", TRAINED)
def test_initial_parameters_are_called_so_and_drawn_by_the_seed(kind: str) -> None:
    first, again, other = (SCHEMES[kind]().build(seed=seed) for seed in (3, 3, 4))
    assert first.untrained
    assert first.provenance == "initial parameters, seed 3, untrained"
    assert first.config.start == "an untrained start"
    assert "seed" in first.config.uses
    pairs = [*zip(first.parameters(), again.parameters(), strict=True)]
    assert all(torch.equal(a, b) and a.dtype == torch.float32 for a, b in pairs)
    differs = zip(first.parameters(), other.parameters(), strict=True)
    assert any(not torch.equal(a, b) for a, b in differs)


@pytest.mark.parametrize("kind", ["sandwich", "xpos"])
def test_formulas_have_no_parameters_and_no_provenance(kind: str) -> None:
    scheme = SCHEMES[kind]().build()
    assert not list(scheme.parameters())
    assert not scheme.untrained
    assert scheme.provenance == ""


@pytest.mark.parametrize("kind", RELATIVE)
def test_the_smallest_and_oddest_sizes_work(kind: str) -> None:
    for setting in (
        Setting(dim=2, heads=1, length=2, train_length=1),
        Setting(dim=128, heads=64, length=2),
        Setting(dim=12, heads=3, base=2.0),
    ):
        scheme = setting.config(kind).build()
        q, k, v = random(3, 1, setting.heads, 5, setting.head_dim)
        assert attention(q, k, v, scheme).isfinite().all()


@pytest.mark.parametrize(
    ("kind", "fields", "match"),
    [
        ("t5", {"buckets": 3}, "multiple of 2"),
        ("t5", {"buckets": 32, "max_distance": 16}, "greater than the 16 distances"),
        ("t5", {"bidirectional": True, "max_distance": 8}, "greater than the 8 distances"),
        ("shaw", {"clip": 0}, "from 1"),
        ("transformer_xl", {"dim": 10, "heads": 4}, "multiple of the heads"),
        ("transformer_xl", {"dim": 16_384, "heads": 2}, "squared must be at most"),
        ("xpos", {"dim": 3}, "multiple of 2"),
        ("xpos", {"scale_base": 1.0}, "from 64"),
        ("cope", {"counted": 1}, "from 2"),
        ("fire", {"threshold": 0}, "from 1"),
        ("sandwich", {"width": 5}, "multiple of 2"),
        ("kerple_log", {"source": "run-1"}, "initial, trained or run-"),
    ],
)
def test_fields_out_of_their_range_are_refused(
    kind: str, fields: dict[str, object], match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        SCHEMES[kind](**fields)


def test_the_kernel_of_xpos_ends_where_float64_does() -> None:
    scheme = SCHEMES["xpos"](scale_base=64.0).build()  # type: ignore[call-arg]
    assert bool(scheme.offset_curve(20_000).isfinite().all())
    with pytest.raises(PositionOutOfRange, match="float64"):
        scheme.offset_curve(65_536)
