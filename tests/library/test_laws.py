"""Laws that hold for every scheme of the registry, in float64; law_exceptions.py names those left out."""

import math

import pytest
import torch
from torch import Tensor

from posenc import (
    NoPositionVectors,
    NotStationary,
    Scheme,
    attention,
    offset_curve,
    position_kernel,
    position_vectors,
)
from posenc.schemes.base import Head
from posenc.schemes.pope import Pope
from posenc.schemes.xpos import Xpos
from tests.library.law_exceptions import (
    COUNTS_KEYS,
    GROWS,
    LAW_VARIANTS,
    NO_KERNEL,
    NO_OFFSET_MAP,
    NO_ROUNDED_VECTORS,
    NO_VECTORS,
    NOT_STATIONARY,
    PUTS_NOTHING_IN,
    ROTATING,
    SCALES_PAIRS,
    for_schemes,
)
from tests.library.small_schemes import DIM, HEADS, WIDTH, code_paths, small_scheme
from tests.library.tensors import assert_close, random

# Shapes are checked in the tests of hooks and attention; here that would take two thirds of the time.
pytestmark = pytest.mark.usefixtures("no_shape_checks")

TOKENS = 12
EPS = torch.finfo(torch.float64).eps
LARGEST = 2**31 - 1


def largest_position(scheme: Scheme) -> int:
    if isinstance(scheme, Xpos):
        return scheme.farthest(torch.float64)
    return LARGEST if scheme.max_length is None else scheme.max_length - 1


def embedded_rows(scheme: Scheme, positions: Tensor) -> Tensor:
    blank = torch.zeros(1, len(positions), DIM, dtype=torch.float64)
    return scheme.embed(blank, positions)[0]


def hook_results(scheme: Scheme, q: Tensor, k: Tensor, positions: Tensor) -> dict[str, Tensor]:
    rotated_q, rotated_k = scheme.rotate(q, k, positions, positions)
    bias = scheme.bias(q, k, positions, positions)
    results = {"rows": embedded_rows(scheme, positions), "q": rotated_q, "k": rotated_k}
    return results if bias is None else results | {"bias": bias}


def projected(scheme: Scheme, x: Tensor, positions: Tensor | None) -> tuple[Tensor, ...]:
    """Return q, k, v of a fixed random attention layer on x plus position, each (b, h, t, d)."""
    embedded = scheme.embed(x, positions)
    weights = random(3, DIM, DIM, seed=7) / math.sqrt(DIM)
    q, k, v = ((embedded @ w).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for w in weights)
    return *scheme.with_input(q, k, embedded), v


def layer(
    scheme: Scheme,
    x: Tensor,
    positions: Tensor | None = None,
    *,
    causal: bool = True,
    key_mask: Tensor | None = None,
) -> Tensor:
    """Apply one attention layer of a Transformer around the scheme, (b, t, D) to (b, t, D)."""
    q, k, v = projected(scheme, x, positions)
    mixed = attention(
        q, k, v, scheme,
        q_positions=positions, k_positions=positions, key_mask=key_mask, causal=causal,
    )  # fmt: skip
    return mixed.transpose(1, 2).flatten(-2)


def change_by_shift(scheme: Scheme, shift: int) -> float:
    positions = torch.tensor([0, 1, 2, 5, 11, 40])
    q, k = random(2, 1, HEADS, len(positions), WIDTH, seed=1)
    changes = []
    for at in (positions, positions + shift):
        rows = embedded_rows(scheme, at)
        changes.append((rows @ rows.T, scheme.scores(q, k, at, at)))
    return max((a - b).abs().max().item() for a, b in zip(*changes, strict=True))


@for_schemes(NOT_STATIONARY)
def test_shift_of_all_positions_changes_no_score(scheme: Scheme) -> None:
    farthest = largest_position(scheme) // 2
    # xPos: where keys have grown by e^30, the products with them are rounded relative to that.
    for shift in (1, 255, 100_003, farthest):
        if shift <= farthest:
            assert change_by_shift(scheme, shift) < 1e-12 * scheme.attention_factor**2


@pytest.mark.parametrize("variant", NOT_STATIONARY)
def test_shift_changes_scores_of_a_scheme_that_is_not_stationary(variant: str) -> None:
    assert change_by_shift(small_scheme(variant, threshold=4), 7) > 1e-2


def test_table_of_exceptions_names_the_schemes_that_declare_themselves_not_stationary() -> None:
    declared = {name for name in LAW_VARIANTS if not small_scheme(name).stationary}
    assert declared == set(NOT_STATIONARY)


def without_factor(scheme: Scheme, x: Tensor, times: int = 1) -> Tensor:
    """Return rotated features with the attention factor, applied so often, divided out."""
    plain = x.clone()
    assert scheme.frequencies is not None
    plain[..., : 2 * scheme.frequencies.pairs] /= scheme.attention_factor**times
    return plain


@for_schemes(SCALES_PAIRS, among=ROTATING)
def test_rotation_keeps_norms_and_is_the_identity_at_position_zero(scheme: Scheme) -> None:
    q, k = random(2, 2, HEADS, 1, WIDTH, seed=2)
    for position in (0, -1, 17, LARGEST):
        at = torch.tensor([position])
        for before, after in zip((q, k), scheme.rotate(q, k, at, at), strict=True):
            plain = without_factor(scheme, after)
            assert_close(plain.norm(dim=-1), before.norm(dim=-1), atol=1e-14)
            if position == 0:
                assert_close(plain, before, atol=4 * EPS * before.abs().max().item())


@for_schemes(NOT_STATIONARY, SCALES_PAIRS, among=ROTATING)
def test_rotations_compose_to_the_sum_of_their_positions(scheme: Scheme) -> None:
    q, k = random(2, 2, HEADS, 1, WIDTH, seed=2)
    far = min(2**30, largest_position(scheme) // 4)
    for a, b in ((3, 5), (100, -37), (far // 1_000, far)):
        first, second, both = torch.tensor([a]), torch.tensor([b]), torch.tensor([a + b])
        twice = scheme.rotate(*scheme.rotate(q, k, first, first), second, second)
        for actual, whole in zip(twice, scheme.rotate(q, k, both, both), strict=True):
            expected = without_factor(scheme, whole)
            scale = max(1.0, expected.abs().max().item())
            assert_close(without_factor(scheme, actual, times=2), expected, atol=1e-13 * scale)


def assert_part_of_whole(scheme: Scheme, chosen: Tensor) -> None:
    q, k = random(2, 1, HEADS, 290, WIDTH)
    whole = hook_results(scheme, q, k, torch.arange(290))
    part = hook_results(scheme, q[..., chosen, :], k[..., chosen, :], chosen)
    assert part.keys() == whole.keys()
    for name, value in part.items():
        expected = whole[name][..., chosen, :]
        expected = expected[..., chosen] if name == "bias" else expected
        # A bias may be a matrix product, which is summed in another order for other shapes.
        atol = 256 * EPS * max(1.0, expected.abs().max().item())
        assert_close(value, expected, atol=atol)


@for_schemes(among=code_paths())
def test_some_positions_in_any_order_give_the_numbers_of_the_whole_text(scheme: Scheme) -> None:
    assert_part_of_whole(scheme, torch.arange(240, 270))  # crosses a block of 256 positions
    if scheme.config.kind not in COUNTS_KEYS:
        assert_part_of_whole(scheme, torch.tensor([7, 3, 3, 250, 0, 128, 127, 256, 289]))
    q, k = random(2, 1, HEADS, 9, WIDTH)
    counted = hook_results(scheme, q, k, torch.arange(9))
    assert_close(scheme.rotate(q, k)[0], counted["q"], atol=1e-14)
    assert_close(scheme.embed(torch.zeros(1, 9, DIM).double())[0], counted["rows"], atol=1e-14)


@for_schemes(among=code_paths())
def test_entries_of_a_batch_equal_each_entry_alone(scheme: Scheme) -> None:
    x = random(3, 5, DIM)
    positions = torch.tensor([[0, 1, 2, 3, 4], [9, 200, 3, 3, 1], [100, 101, 102, 103, 104]])
    q, k = random(2, 3, HEADS, 5, WIDTH)
    together = scheme.scores(q, k, positions, positions)
    rows, mixed, plain = scheme.embed(x, positions), layer(scheme, x, positions), layer(scheme, x)
    for b, at in enumerate(positions):
        entry = slice(b, b + 1)
        assert_close(together[entry], scheme.scores(q[entry], k[entry], at, at), atol=1e-14)
        assert_close(rows[entry], scheme.embed(x[entry], at), atol=1e-14)
        assert_close(mixed[entry], layer(scheme, x[entry], at), atol=1e-13)
        assert_close(plain[entry], layer(scheme, x[entry]), atol=1e-13)


@for_schemes(among=code_paths())
def test_decoding_in_steps_and_pieces_equals_the_whole_text(scheme: Scheme) -> None:
    x = random(1, 20, DIM)
    whole = layer(scheme, x)
    keys, values = (part[:, :, :0] for part in projected(scheme, x, None)[1:])  # an empty cache
    start = 0
    for stop in (1, 2, 3, 9, 19, 20):
        at = torch.arange(start, stop)
        q, k, v = projected(scheme, x[:, start:stop], at)
        keys, values = torch.cat((keys, k), dim=2), torch.cat((values, v), dim=2)
        piece = attention(q, keys, values, scheme, q_positions=at)
        assert_close(piece.transpose(1, 2).flatten(-2), whole[:, start:stop], atol=1e-13)
        start = stop


@for_schemes(among=code_paths())
def test_only_a_scheme_without_hooks_is_permutation_equivariant(scheme: Scheme) -> None:
    x = random(1, TOKENS, DIM)
    order = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(5))
    change = layer(scheme, x[:, order], causal=False) - layer(scheme, x, causal=False)[:, order]
    hooks = ("embed", "rotate", "bias", "offset_bias", "weights")
    if all(getattr(type(scheme), hook) is getattr(Scheme, hook) for hook in hooks):
        assert change.abs().max() < 1e-12
    else:
        assert change.abs().max() > 1e-6, "the scheme is not wired in"
    # Tokens that carry their positions along may stand in any order.
    assert_close(layer(scheme, x[:, order], order), layer(scheme, x)[:, order], atol=1e-13)


@for_schemes(among=code_paths())
def test_masked_padding_before_or_after_a_text_changes_nothing(scheme: Scheme) -> None:
    x, padding = random(1, TOKENS, DIM), 100 * random(1, 5, DIM, seed=3)
    after, before = torch.cat((x, padding), dim=1), torch.cat((padding, x), dim=1)
    positions = torch.cat((torch.zeros(5, dtype=torch.int64), torch.arange(TOKENS)))
    mask = torch.arange(TOKENS + 5)[None] < TOKENS
    for causal in (True, False):
        alone = layer(scheme, x, causal=causal)
        padded = layer(scheme, after, causal=causal, key_mask=mask)
        assert_close(padded[:, :TOKENS], alone, atol=1e-13)
        padded = layer(scheme, before, positions, causal=causal, key_mask=mask.flip(1))
        assert_close(padded[:, 5:], alone, atol=1e-13)


@for_schemes({"learned": "a table ends"})
def test_scheme_without_a_last_position_is_finite_at_the_largest(scheme: Scheme) -> None:
    assert embedded_rows(scheme, torch.tensor([LARGEST])).isfinite().all()
    last = largest_position(scheme)
    x = random(1, HEADS, 1, WIDTH)
    assert scheme.rotate(x, x, torch.tensor([last]), None)[0].isfinite().all()
    if scheme.config.kind not in NO_KERNEL:
        assert position_kernel(scheme, 2, start=last - 1).isfinite().all()


HEADS_ASKED: tuple[Head, ...] = ("mean", 0, HEADS - 1)


def blank_tokens(length: int) -> Tensor:
    return torch.zeros(1, length, DIM, dtype=torch.float64)


def kernel_from_hooks(scheme: Scheme, length: int, start: int) -> Tensor:
    positions = torch.arange(start, start + length)
    if scheme.kernel_unit == "inner product":
        rows = scheme.embed(blank_tokens(length), positions)[0]
        return (rows @ rows.T).expand(HEADS, -1, -1)
    if isinstance(scheme, Pope):  # all sizes 1 / sqrt(d), before the scaling
        size = torch.full((1, HEADS, length, WIDTH), WIDTH**-0.5, dtype=torch.float64).expm1().log()
        return scheme.scores(size, size, positions, positions)[0] / scheme.softmax_scale(WIDTH)
    if scheme.kernel_unit == "logit":
        # Unit isotropic content q = k: the mean of u.R u over all unit vectors u is trace(R) / d,
        # so the sum over the unit vectors of a basis gives the mean exactly. Before the scaling.
        content = torch.eye(WIDTH, dtype=torch.float64)[:, None, None].expand(-1, HEADS, length, -1)
        logits = scheme.scores(content, content, positions, positions)
        return (logits.sum(0) / WIDTH / scheme.softmax_scale(WIDTH)).expand(HEADS, -1, -1)
    assert scheme.kernel_unit == "weight factor"
    blank = torch.zeros(1, HEADS, length, WIDTH, dtype=torch.float64)
    return scheme.scores(blank, blank, positions, positions)[0].exp()


@for_schemes(NO_KERNEL)
@torch.no_grad()
def test_kernel_is_what_its_definition_over_the_hooks_gives(scheme: Scheme) -> None:
    for start in (0, 130):
        per_head = kernel_from_hooks(scheme, 40, start)
        for head in HEADS_ASKED:
            expected = per_head.mean(0) if isinstance(head, str) else per_head[head]
            kernel = position_kernel(scheme, 40, head=head, start=start)
            assert_close(kernel, expected, atol=2e-14 * DIM)


@for_schemes(NO_KERNEL, NOT_STATIONARY)
def test_offset_curve_is_every_diagonal_of_the_kernel(scheme: Scheme) -> None:
    length = 80
    offsets = torch.arange(length) - torch.arange(length)[:, None]
    for head in HEADS_ASKED:
        curve = offset_curve(scheme, length, head=head)
        assert curve.shape == (2 * length - 1,)
        assert curve.dtype == torch.float64
        atol = 1e-13 * DIM
        kernel = position_kernel(scheme, length, head=head)
        assert_close(kernel, curve[offsets + length - 1], atol)
        assert_close(scheme.offset_kernel(offsets, head), kernel, atol)
        assert_close(offset_curve(scheme, 20, head=head), curve[60:99], atol)


@for_schemes(NO_KERNEL, among=tuple(NOT_STATIONARY))
def test_scheme_that_is_not_stationary_has_no_offset_curve(variant: str) -> None:
    scheme = small_scheme(variant, threshold=4)
    with pytest.raises(NotStationary, match=scheme.config.label):
        offset_curve(scheme, 50)
    diagonal = position_kernel(scheme, 50).diagonal(1)
    assert diagonal.max() - diagonal.min() > 1e-2


@pytest.mark.parametrize("variant", ["sinusoidal", "rope", "xpos"])
def test_kernel_rounded_to_half_precision_has_no_offset_curve(scheme: Scheme) -> None:
    with pytest.raises(NotStationary, match="position_kernel"):
        offset_curve(scheme, 4, dtype=torch.bfloat16)


@for_schemes(NO_VECTORS)
def test_inner_products_of_position_vectors_are_the_kernel(scheme: Scheme) -> None:
    for head in HEADS_ASKED:
        for length, start in ((1, 0), (30, 0), (60, 140)):
            vectors = position_vectors(scheme, length, head=head, start=start)
            kernel = position_kernel(scheme, length, head=head, start=start)
            assert vectors.dtype == kernel.dtype == torch.float64
            assert vectors.shape[0] == length
            assert_close(vectors @ vectors.T, kernel, atol=2e-14 * DIM)
    if scheme.stationary:
        norms = position_vectors(scheme, 60).square().sum(-1)
        assert_close(norms, offset_curve(scheme, 1).expand(60), atol=1e-13 * DIM)


@for_schemes(among=tuple(NO_VECTORS))
def test_scheme_without_vectors_says_why(scheme: Scheme) -> None:
    with pytest.raises(NoPositionVectors, match=f"{scheme.config.label} has no") as refused:
        position_vectors(scheme, 4)
    # Every scheme but NoPE gives a reason of its own.
    assert ("none are known" in str(refused.value)) == (scheme.config.kind == "none")


@for_schemes(NO_OFFSET_MAP)
def test_offset_map_moves_every_vector_by_its_offset(scheme: Scheme) -> None:
    """phi(i + k) = M_k phi(i) for every i, and M_a M_b = M_(a + b)."""
    size = 60
    vectors = position_vectors(scheme, size, head=0)
    width = vectors.shape[1]
    for k, more in ((1, 1), (7, 20)):
        first = scheme.offset_map(k, size=size, head=0)
        assert first is not None
        # Where vectors gain a dimension per position, the second step starts from more of them.
        second = scheme.offset_map(more, size=first.shape[0], head=0)
        both = scheme.offset_map(k + more, size=size, head=0)
        assert second is not None
        assert both is not None
        assert_close(second @ first, both, atol=1e-14)
        moved = vectors[: size - k] @ first.T
        assert_close(moved[:, :width], vectors[k:], atol=1e-13)
        assert not moved[:, width:].any()


@for_schemes(NO_KERNEL)
def test_rounded_kernel_differs_by_no_more_than_the_rounding(scheme: Scheme) -> None:
    exact = position_kernel(scheme, 60)
    scale = exact.diagonal().sqrt()
    sizes = scale[:, None] * (scale[:, None] if scheme.config.kind in GROWS else scale)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        rounded = position_kernel(scheme, 60, dtype=dtype)
        assert rounded.dtype == torch.float64
        # Each factor moves by at most half an eps; subnormal float16 entries by less than 2^-25.
        bound = 1.001 * torch.finfo(dtype).eps * sizes
        assert ((rounded - exact).abs() <= bound + 2**-24 * scale.max() * DIM**0.5).all()
        if scheme.config.kind not in PUTS_NOTHING_IN and dtype not in {
            p.dtype for p in scheme.parameters()
        }:
            assert (rounded - exact).abs().max() > 4 * EPS, "nothing was rounded"


@for_schemes(NO_ROUNDED_VECTORS)
def test_rounded_vectors_give_the_rounded_kernel(scheme: Scheme) -> None:
    vectors = position_vectors(scheme, 60, dtype=torch.bfloat16)
    kernel = position_kernel(scheme, 60, dtype=torch.bfloat16)
    assert_close(vectors @ vectors.T, kernel, atol=2e-14 * DIM)


@pytest.mark.parametrize("variant", ["sinusoidal", "learned"])
def test_vectors_from_a_start_are_rows_of_the_longer_range(scheme: Scheme) -> None:
    later = position_vectors(scheme, 5, start=9)
    assert_close(later, position_vectors(scheme, 14)[9:], atol=8 * EPS)
