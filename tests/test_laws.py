"""What must hold for every scheme of the registry, in float64; a new scheme joins by itself."""

import math

import pytest
import torch
from torch import Tensor

from posenc import (
    NoPositionVectors,
    NotStationary,
    PositionOutOfRange,
    Scheme,
    attention,
    offset_curve,
    position_kernel,
    position_vectors,
)
from tests.conftest import SMALL
from tests.exempt import SUMMED

DIM, HEADS, WIDTH = SMALL.dim, SMALL.heads, SMALL.head_dim
TOKENS = 12
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def embedded_rows(scheme: Scheme, positions: Tensor | int) -> Tensor:
    """What `embed` adds at these positions (or at 0 .. n-1), one row each."""
    count = positions if isinstance(positions, int) else len(positions)
    blank = torch.zeros(1, count, DIM, dtype=torch.float64)
    return scheme.embed(blank, None if isinstance(positions, int) else positions)[0]


def hooks(scheme: Scheme, q: Tensor, k: Tensor, positions: Tensor | None) -> dict[str, Tensor]:
    """Everything a scheme does at these positions: rows, rotated q and k, bias."""
    rotated_q, rotated_k = scheme.rotate(q, k, positions, positions)
    bias = scheme.bias(q, k, positions, positions)
    rows = embedded_rows(scheme, q.shape[-2] if positions is None else positions)
    found = {"rows": rows, "q": rotated_q, "k": rotated_k}
    return found if bias is None else found | {"bias": bias}


def windowed(name: str, value: Tensor, index: Tensor) -> Tensor:
    """The part of a hook's answer that belongs to the positions `index`."""
    return value[..., index, :][..., index] if name == "bias" else value[..., index, :]


def same(scheme: Scheme, name: str, value: Tensor, expected: Tensor) -> None:
    """Bit for bit, but for a bias that is a matrix product."""
    if name != "bias" or scheme.config.kind not in SUMMED:
        assert torch.equal(value, expected), name
        return
    atol = 256 * torch.finfo(value.dtype).eps * max(1.0, expected.abs().max().item())
    torch.testing.assert_close(value, expected, rtol=0, atol=atol)


def projected(scheme: Scheme, x: Tensor, positions: Tensor | None) -> tuple[Tensor, ...]:
    """q, k, v of a fixed random attention layer on x plus position, each (b, h, t, d)."""
    embedded = scheme.embed(x, positions)
    weights = random(3, DIM, DIM, seed=7) / math.sqrt(DIM)
    return tuple((embedded @ w).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for w in weights)


def layer(
    scheme: Scheme,
    x: Tensor,
    positions: Tensor | None = None,
    *,
    causal: bool = True,
    key_mask: Tensor | None = None,
) -> Tensor:
    """One attention layer of a Transformer around the scheme, (b, t, D) to (b, t, D)."""
    q, k, v = projected(scheme, x, positions)
    mixed = attention(
        q, k, v, scheme,
        q_positions=positions, k_positions=positions, key_mask=key_mask, causal=causal,
    )  # fmt: skip
    return mixed.transpose(1, 2).flatten(-2)


def close(actual: Tensor, expected: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


# Depends on the offset only -------------------------------------------------------------------


def relative_objects(scheme: Scheme, positions: Tensor) -> tuple[Tensor, Tensor]:
    """The two things shifting must leave alone: inner products of what is added, and the scores."""
    q, k = random(2, 1, HEADS, len(positions), WIDTH, seed=1)
    rows = embedded_rows(scheme, positions)
    return rows @ rows.T, scheme.scores(q, k, positions, positions)


def shift_error(scheme: Scheme, shift: int) -> float:
    positions = torch.tensor([0, 1, 2, 5, 11, 40])
    here, there = (relative_objects(scheme, positions + s) for s in (0, shift))
    return max((a - b).abs().max().item() for a, b in zip(here, there, strict=True))


SHIFTS = (1, 7, 128, 255, 1_000, 100_003, 2**30 - 1)


@pytest.mark.only(where=lambda scheme: scheme.stationary)
@pytest.mark.parametrize("shift", SHIFTS)
def test_a_stationary_scheme_is_shift_invariant(scheme: Scheme, shift: int) -> None:
    if scheme.max_length is not None:
        shift = min(shift, scheme.max_length - 64)
    assert shift_error(scheme, shift) < 1e-12 * scheme.attention_factor**2


@pytest.mark.only(where=lambda scheme: not scheme.stationary)
def test_a_scheme_that_is_not_stationary_fails_shift_invariance(scheme: Scheme) -> None:
    assert shift_error(scheme, 7) > 1e-2


def test_shifting_one_side_only_changes_the_relative_objects(scheme: Scheme) -> None:
    """The control of shift invariance: a scheme that does nothing would pass it too."""
    positions = torch.arange(6)
    q, k = random(2, 1, HEADS, 6, WIDTH, seed=1)
    rows, moved = embedded_rows(scheme, positions), embedded_rows(scheme, positions + 3)
    scores = scheme.scores(q, k, positions, positions)
    changed = [
        rows @ rows.T - rows @ moved.T,
        scores - scheme.scores(q, k, positions, positions + 3),
    ]
    difference = max(change.abs().max().item() for change in changed)
    assert (difference > 1e-2) == (type(scheme) is not Scheme)


def has_vectors(scheme: Scheme, dtype: torch.dtype | None = None) -> bool:
    """Whether the scheme says that its kernel, rounded or not, is an inner product of vectors."""
    try:
        position_vectors(scheme, 2, dtype=dtype)
    except NoPositionVectors:
        return False
    return True


@pytest.mark.only(where=lambda scheme: scheme.stationary)
def test_the_kernel_at_any_offsets_is_its_curve_there(scheme: Scheme) -> None:
    offsets = torch.tensor([[0, 5, -7], [40, -40, 1]])
    curve = offset_curve(scheme, 41)
    close(scheme.offset_kernel(offsets), curve[offsets + 40], atol=1e-13 * DIM)


# Rotations ------------------------------------------------------------------------------------


@pytest.mark.only(where=lambda scheme: scheme.stationary and has_vectors(scheme))
def test_vectors_of_a_stationary_scheme_all_have_one_norm(scheme: Scheme) -> None:
    norms = position_vectors(scheme, 200).square().sum(-1)
    middle = offset_curve(scheme, 1)
    close(norms, middle.expand(200), atol=1e-13 * max(1.0, middle.item()))


def without_factor(scheme: Scheme, x: Tensor, times: int = 1) -> Tensor:
    """What is left of rotated features when the attention factor, put on so often, is taken off."""
    turned = 2 * scheme.phases.pairs if scheme.phases is not None else 0
    plain = x.clone()
    plain[..., :turned] /= scheme.attention_factor**times
    return plain


@pytest.mark.parametrize("position", [0, 1, -1, 17, 4_096, 2**31 - 1])
def test_rotation_keeps_every_norm(scheme: Scheme, position: int) -> None:
    q, k = random(2, 2, HEADS, 1, WIDTH, seed=2)
    at = torch.tensor([position])
    for before, after in zip((q, k), scheme.rotate(q, k, at, at), strict=True):
        close(without_factor(scheme, after).norm(dim=-1), before.norm(dim=-1), atol=1e-14)


@pytest.mark.only(
    where=lambda scheme: scheme.stationary
)  # else turned by another thing than the position
@pytest.mark.parametrize(("a", "b"), [(1, 1), (3, 5), (100, -37), (-4, -9), (2**20, 2**30)])
def test_rotations_compose_to_the_sum_of_their_positions(scheme: Scheme, a: int, b: int) -> None:
    q, k = random(2, 2, HEADS, 1, WIDTH, seed=2)
    first, second, both = torch.tensor([a]), torch.tensor([b]), torch.tensor([a + b])
    twice = scheme.rotate(*scheme.rotate(q, k, first, first), second, second)
    for actual, expected in zip(twice, scheme.rotate(q, k, both, both), strict=True):
        once = without_factor(scheme, expected)
        close(without_factor(scheme, actual, times=2), once, atol=1e-14)


def test_rotation_by_position_zero_changes_no_bit(scheme: Scheme) -> None:
    q, k = random(2, 1, HEADS, 1, WIDTH)
    rotated_q, rotated_k = scheme.rotate(q, k, torch.tensor([0]), None)
    scale = torch.ones(WIDTH, dtype=torch.float64)
    scale[: 2 * scheme.phases.pairs if scheme.phases is not None else 0] = scheme.attention_factor
    assert torch.equal(rotated_q, q * scale)
    assert torch.equal(rotated_k, k * scale)


def test_rotation_is_linear_and_one_token_at_a_time(scheme: Scheme) -> None:
    q, other = random(2, 1, HEADS, TOKENS, WIDTH)

    def turn(x: Tensor) -> Tensor:
        return scheme.rotate(x, x)[0]

    close(turn(2 * q - 3 * other), 2 * turn(q) - 3 * turn(other), atol=1e-13)
    changed = q.clone()
    changed[..., 5, :] += 1
    kept = torch.arange(TOKENS) != 5
    assert torch.equal(turn(changed)[..., kept, :], turn(q)[..., kept, :])


# The same numbers however they are asked for ----------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, *DTYPES])
def test_a_shorter_sequence_is_a_bitwise_prefix_of_a_longer_one(
    scheme: Scheme, dtype: torch.dtype
) -> None:
    q, k = random(2, 2, HEADS, 290, WIDTH).to(dtype)
    long = hooks(scheme, q, k, None)
    for count in (1, 2, 127, 128, 129, 256, 289):
        short = hooks(scheme, q[..., :count, :], k[..., :count, :], None)
        assert short.keys() == long.keys()
        for name, value in short.items():
            same(scheme, name, value, windowed(name, long[name], torch.arange(count)))


@pytest.mark.only(where=lambda scheme: scheme.stationary)
def test_kernels_of_a_shorter_range_are_bitwise_prefixes(scheme: Scheme) -> None:
    count = 100  # one head, because a mean over heads may be summed in another order
    curve = offset_curve(scheme, 290, head=0)
    short = offset_curve(scheme, count, head=0)
    assert torch.equal(short, curve[290 - count : 289 + count])
    kernel = position_kernel(scheme, 290, head=0)
    assert torch.equal(position_kernel(scheme, count, head=0), kernel[:count, :count])


@pytest.mark.only(where=has_vectors)
def test_vectors_of_a_shorter_range_are_bitwise_prefixes(scheme: Scheme) -> None:
    count = 100  # one head, because the vectors of several heads lie side by side
    vectors, short = (position_vectors(scheme, n, head=0) for n in (290, count))
    assert torch.equal(short, vectors[:count, : short.shape[1]])
    assert not vectors[:count, short.shape[1] :].any()


@pytest.mark.parametrize(
    "chosen",
    [
        torch.arange(100, 140),
        torch.arange(120, 290),
        torch.tensor([0]),
        torch.tensor([211]),
        torch.tensor([7, 3, 3, 250, 0, 128, 127, 256]),
        torch.arange(289, -1, -3),
    ],
    ids=["window", "across blocks", "first", "one", "any order and repeats", "falling"],
)
def test_chosen_positions_give_the_bits_of_the_whole(scheme: Scheme, chosen: Tensor) -> None:
    q, k = random(2, 2, HEADS, 290, WIDTH)
    whole = hooks(scheme, q, k, None)
    for positions in (chosen, chosen.to(torch.int32)):
        part = hooks(scheme, q[..., chosen, :], k[..., chosen, :], positions)
        for name, value in part.items():
            same(scheme, name, value, windowed(name, whole[name], chosen))


def test_positions_per_batch_entry_equal_each_entry_alone(scheme: Scheme) -> None:
    q, k = random(2, 3, HEADS, 5, WIDTH)
    x = random(3, 5, DIM)
    positions = torch.tensor([[0, 1, 2, 3, 4], [9, 200, 3, 3, 1], [100, 101, 102, 103, 104]])
    together = scheme.scores(q, k, positions, positions)
    rows = scheme.embed(x, positions)
    mixed = layer(scheme, x, positions)
    for b, at in enumerate(positions):
        one = slice(b, b + 1)
        close(together[one], scheme.scores(q[one], k[one], at, at), atol=1e-14)
        assert torch.equal(rows[one], scheme.embed(x[one], at))
        close(mixed[one], layer(scheme, x[one], at), atol=1e-14)


def test_queries_and_keys_may_stand_at_different_positions(scheme: Scheme) -> None:
    q, k = random(2, 2, HEADS, 40, WIDTH)
    whole = scheme.scores(q, k)
    queries, keys = torch.tensor([39, 0, 17]), torch.tensor([[3, 4, 30, 21], [8, 1, 0, 39]])
    for b in range(2):
        part = scheme.scores(
            q[b : b + 1, :, queries], k[b : b + 1, :, keys[b]], queries, keys[b : b + 1]
        )
        expected = whole[b : b + 1, :, queries][..., keys[b]]
        close(part, expected, atol=1e-14 * scheme.attention_factor**2)


def test_a_batch_equals_its_entries_alone(scheme: Scheme) -> None:
    x = random(4, 20, DIM)
    together = layer(scheme, x)
    for b in range(4):
        close(together[b : b + 1], layer(scheme, x[b : b + 1]), atol=1e-14)


# Attention ------------------------------------------------------------------------------------


def test_decoding_one_token_at_a_time_equals_the_whole(scheme: Scheme) -> None:
    x = random(2, 20, DIM)
    whole = layer(scheme, x)
    keys = values = torch.zeros(2, HEADS, 0, WIDTH, dtype=torch.float64)
    for i in range(20):
        at = torch.tensor([i])
        q, k, v = projected(scheme, x[:, i : i + 1], at)
        keys, values = torch.cat((keys, k), dim=2), torch.cat((values, v), dim=2)
        step = attention(q, keys, values, scheme, q_positions=at)
        close(step.transpose(1, 2).flatten(-2), whole[:, i : i + 1], atol=1e-13)


@pytest.mark.parametrize("cuts", [(5, 20), (1, 2, 3, 20), (19, 20)])
def test_reading_a_text_in_pieces_equals_the_whole(scheme: Scheme, cuts: tuple[int, ...]) -> None:
    x = random(1, 20, DIM)
    whole, start = layer(scheme, x), 0
    q, k, v = projected(scheme, x, None)
    for stop in cuts:
        piece = attention(
            q[:, :, start:stop], k[:, :, :stop], v[:, :, :stop], scheme,
            q_positions=torch.arange(start, stop),
        )  # fmt: skip
        close(piece.transpose(1, 2).flatten(-2), whole[:, start:stop], atol=1e-13)
        start = stop


def test_without_position_attention_is_permutation_equivariant_and_no_scheme_is(
    scheme: Scheme,
) -> None:
    x = random(1, TOKENS, DIM)
    order = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(5))
    difference = layer(scheme, x[:, order], causal=False) - layer(scheme, x, causal=False)[:, order]
    largest = difference.abs().max().item()
    hooks = ("embed", "rotate", "bias", "offset_bias")
    if all(getattr(type(scheme), hook) is getattr(Scheme, hook) for hook in hooks):
        assert largest < 1e-12
    else:
        assert largest > 1e-6, "the scheme is not wired in"


def test_tokens_that_carry_their_positions_along_may_stand_in_any_order(scheme: Scheme) -> None:
    x = random(1, TOKENS, DIM)
    order = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(5))
    close(layer(scheme, x[:, order], order), layer(scheme, x)[:, order], atol=1e-13)


@pytest.mark.parametrize("last", [0, 3, 10])
def test_later_tokens_change_nothing_earlier(scheme: Scheme, last: int) -> None:
    x = random(2, TOKENS, DIM)
    changed = x.clone()
    changed[:, last + 1 :] = random(2, TOKENS - last - 1, DIM, seed=9)
    before, after = layer(scheme, x), layer(scheme, changed)
    assert torch.equal(after[:, : last + 1], before[:, : last + 1])
    assert (after[:, last + 1 :] - before[:, last + 1 :]).abs().min() > 0


def test_padding_after_the_text_changes_nothing(scheme: Scheme) -> None:
    x = random(2, TOKENS, DIM)
    padded = torch.cat((x, 100 * random(2, 5, DIM, seed=3)), dim=1)
    mask = (torch.arange(TOKENS + 5) < TOKENS).expand(2, -1)
    for causal in (True, False):
        alone = layer(scheme, x, causal=causal)
        close(layer(scheme, padded, causal=causal, key_mask=mask)[:, :TOKENS], alone, atol=1e-13)


def test_padding_before_the_text_changes_nothing_if_positions_say_so(scheme: Scheme) -> None:
    x = random(1, TOKENS, DIM)
    padded = torch.cat((100 * random(1, 5, DIM, seed=3), x), dim=1)
    positions = torch.cat((torch.zeros(5, dtype=torch.int64), torch.arange(TOKENS)))
    mask = torch.arange(TOKENS + 5)[None] >= 5
    for causal in (True, False):
        alone = layer(scheme, x, causal=causal)
        with_padding = layer(scheme, padded, positions, causal=causal, key_mask=mask)
        close(with_padding[:, 5:], alone, atol=1e-13)


# The position kernel --------------------------------------------------------------------------


def kernel_from_hooks(scheme: Scheme, length: int, start: int) -> Tensor:
    """The position kernel of each head, by its definition over the hooks, one row per head."""
    positions = torch.arange(start, start + length)
    if scheme.kernel_unit == "inner product":
        rows = embedded_rows(scheme, positions)
        return (rows @ rows.T).expand(HEADS, -1, -1)
    if scheme.kernel_unit == "logit":
        # Unit isotropic content q = k: the mean of u.R u over all unit vectors u is trace(R) / d,
        # so the sum over the unit vectors of a basis gives the mean exactly. Before the scaling.
        content = torch.eye(WIDTH, dtype=torch.float64)[:, None, None].expand(-1, 1, length, -1)
        logits = scheme.scores(content, content, positions, positions)
        return (logits.sum(0) / WIDTH / scheme.softmax_scale(WIDTH)).expand(HEADS, -1, -1)
    assert scheme.kernel_unit == "weight factor"
    blank = torch.zeros(1, HEADS, length, WIDTH, dtype=torch.float64)
    return scheme.scores(blank, blank, positions, positions)[0].exp()


HEADS_ASKED = ("mean", 0, HEADS - 1)


@pytest.mark.parametrize("start", [0, 130])
def test_the_kernel_is_what_its_definition_over_the_hooks_gives(scheme: Scheme, start: int) -> None:
    per_head = kernel_from_hooks(scheme, 40, start)
    for head in HEADS_ASKED:
        expected = per_head.mean(0) if head == "mean" else per_head[head]
        close(position_kernel(scheme, 40, head=head, start=start), expected, atol=2e-14 * DIM)


@pytest.mark.only(where=lambda scheme: scheme.kernel_unit == "logit")
def test_the_logit_kernel_is_the_mean_over_random_unit_content(scheme: Scheme) -> None:
    """By chance instead of by a basis: within five standard errors at every pair of positions."""
    samples = 4_000
    content = random(samples, 1, 1, WIDTH, seed=11)
    content = (content / content.norm(dim=-1, keepdim=True)).expand(-1, -1, 20, -1)
    logits = scheme.scores(content, content)[:, 0] / scheme.softmax_scale(WIDTH)
    error = logits.std(0) / math.sqrt(samples)
    assert ((logits.mean(0) - position_kernel(scheme, 20)).abs() <= 5 * error + 1e-14).all()


@pytest.mark.only(where=lambda scheme: not has_vectors(scheme))
@pytest.mark.parametrize("head", HEADS_ASKED)
def test_a_scheme_without_vectors_says_why(scheme: Scheme, head: str | int) -> None:
    with pytest.raises(NoPositionVectors) as refused:
        position_vectors(scheme, 30, head=head)
    assert refused.value.reason == str(refused.value)


@pytest.mark.only(where=has_vectors)
@pytest.mark.parametrize("head", HEADS_ASKED)
def test_inner_products_of_the_vectors_are_the_kernel(scheme: Scheme, head: str | int) -> None:
    for length, start in ((1, 0), (30, 0), (150, 140)):
        vectors = position_vectors(scheme, length, head=head, start=start)
        kernel = position_kernel(scheme, length, head=head, start=start)
        assert vectors.dtype == kernel.dtype == torch.float64
        assert vectors.shape[0] == length
        close(vectors @ vectors.T, kernel, atol=2e-14 * DIM)


@pytest.mark.only(where=lambda scheme: not scheme.stationary)
@pytest.mark.parametrize("head", HEADS_ASKED)
def test_a_kernel_that_has_no_offset_curve_changes_along_a_diagonal(
    scheme: Scheme, head: str | int
) -> None:
    with pytest.raises(NotStationary, match=scheme.config.label):
        offset_curve(scheme, 150, head=head)
    diagonal = position_kernel(scheme, 150, head=head).diagonal(1)
    assert (diagonal.max() - diagonal.min()).abs() > 1e-2


@pytest.mark.only(where=lambda scheme: scheme.stationary)
@pytest.mark.parametrize("head", HEADS_ASKED)
def test_the_offset_curve_is_every_diagonal_of_the_kernel(scheme: Scheme, head: str | int) -> None:
    length = 150
    kernel = position_kernel(scheme, length, head=head)
    curve = offset_curve(scheme, length, head=head)
    assert curve.shape == (2 * length - 1,)
    assert curve.dtype == torch.float64
    for offset in range(1 - length, length):
        diagonal = kernel.diagonal(offset)  # entry (i, i + offset): key minus query
        assert torch.equal(diagonal, curve[offset + length - 1].expand(len(diagonal)))


@pytest.mark.only(where=has_vectors)
def test_a_kernel_made_of_vectors_is_symmetric_and_positive(scheme: Scheme) -> None:
    for head in HEADS_ASKED:
        kernel = position_kernel(scheme, 120, head=head)
        close(kernel, kernel.T, atol=4e-16 * DIM)
        assert torch.linalg.eigvalsh(kernel).min() > -1e-12 * kernel.diagonal().max() * 120


@pytest.mark.only(where=lambda scheme: scheme.offset_map(1, size=2, head=0) is not None)
@pytest.mark.parametrize(("k", "more"), [(1, 1), (7, 20), (128, 5)])
def test_the_closed_form_of_an_offset_takes_every_vector_that_far(
    scheme: Scheme, k: int, more: int
) -> None:
    """phi(i + k) = M_k phi(i) for every i, and M_a M_b = M_(a + b), where the scheme has an M_k."""
    size = 200
    first = scheme.offset_map(k, size=size, head=0)
    assert scheme.stationary
    # Where vectors gain a dimension per position, the second step starts from more of them.
    second = scheme.offset_map(more, size=first.shape[0], head=0)
    both = scheme.offset_map(k + more, size=size, head=0)
    close(second @ first, both, atol=1e-14)
    vectors = position_vectors(scheme, size, head=0)
    width = vectors.shape[1]
    for offset, matrix in ((k, first), (k + more, both)):
        moved = vectors[: size - offset] @ matrix.T
        close(moved[:, :width], vectors[offset:], atol=1e-13)
        assert not moved[:, width:].any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_rounded_kernel_differs_by_no_more_than_the_rounding(
    scheme: Scheme, dtype: torch.dtype
) -> None:
    exact = position_kernel(scheme, 280)
    rounded = position_kernel(scheme, 280, dtype=dtype)
    assert rounded.dtype == torch.float64
    scale = exact.diagonal().sqrt()
    # Each factor moves by at most half an eps; denormal float16 entries by less than 2^-25 each.
    bound = (
        1.001 * torch.finfo(dtype).eps * scale[:, None] * scale + 2**-24 * scale.max() * DIM**0.5
    )
    assert ((rounded - exact).abs() <= bound).all()
    if type(scheme) is not Scheme and dtype not in {p.dtype for p in scheme.parameters()}:
        assert not torch.equal(rounded, exact), "nothing was rounded"


@pytest.mark.only(where=lambda scheme: has_vectors(scheme, torch.bfloat16))
@pytest.mark.parametrize("dtype", DTYPES)
def test_rounded_vectors_give_the_rounded_kernel(scheme: Scheme, dtype: torch.dtype) -> None:
    vectors = position_vectors(scheme, 60, dtype=dtype)
    close(vectors @ vectors.T, position_kernel(scheme, 60, dtype=dtype), atol=2e-14 * DIM)


@pytest.mark.only(where=lambda scheme: not has_vectors(scheme, torch.bfloat16))
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_scheme_without_rounded_vectors_refuses_them(scheme: Scheme, dtype: torch.dtype) -> None:
    with pytest.raises(NoPositionVectors):
        position_vectors(scheme, 60, dtype=dtype)


# Ends of the range ----------------------------------------------------------------------------


@pytest.mark.only(where=lambda scheme: scheme.max_length is None)
def test_a_scheme_without_a_last_position_takes_the_largest(scheme: Scheme) -> None:
    assert embedded_rows(scheme, torch.tensor([2**31 - 1])).isfinite().all()


@pytest.mark.only(where=lambda scheme: scheme.max_length is None)
def test_a_kernel_without_a_last_position_is_finite_at_the_largest(scheme: Scheme) -> None:
    assert position_kernel(scheme, 2, start=2**31 - 2).isfinite().all()


@pytest.mark.only(where=lambda scheme: scheme.max_length is not None)
def test_a_scheme_with_a_last_position_says_so(scheme: Scheme) -> None:
    limit = scheme.max_length
    assert limit is not None
    embedded_rows(scheme, torch.tensor([limit - 1]))
    for ask in (
        lambda: embedded_rows(scheme, torch.tensor([limit])),
        lambda: embedded_rows(scheme, limit + 1),
        lambda: position_kernel(scheme, limit + 1),
        lambda: position_kernel(scheme, 1, start=limit),
        lambda: position_vectors(scheme, 2, start=limit - 1),
    ):
        with pytest.raises(PositionOutOfRange, match=str(limit - 1)) as refused:
            ask()
        assert refused.value.limit == limit
