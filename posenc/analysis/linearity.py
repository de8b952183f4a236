"""Three separate claims about relative offsets, each able to fail, each with a random control.

1. One matrix per offset: phi(i + k) = M_k phi(i) for every position i (Vaswani et al. 2017, section
   3.5, arXiv 1706.03762), in closed form, fitted per pair, and fitted without knowing the scheme.
2. Depends on the offset only: K(i, i + k) does not depend on i.
3. Straight line in the offset: the logit falls linearly with k (Press et al. 2022, arXiv
   2108.12409).

Axes: n positions, d width. An error of a map is ||phi(i+k) - M phi(i)||_F / ||phi(i+k)||_F over the
positions named; predicting zero gives 1. Vectors are columns in M phi and rows in a table.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.analysis.similarity import as_float64, as_kernel, similarity_by_offset
from posenc.analysis.spectrum import as_inv_freq, check_length, cos_sin
from posenc.errors import SchemeArgumentError
from posenc.limits import check_count
from posenc.offset_maps import First, Layout, pair_columns, pair_matrix

Seed = int | torch.Generator

TOO_FEW_POSITIONS = "There are too few positions to compare one offset at two places."
NO_SPREAD = "All entries off the diagonal are equal, so there is no spread to compare with."

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class LinearMapFit:
    """One matrix fitted to (phi(i), phi(i + offset)) on half of the positions, scored on others.

    `matrix` (d, d) with phi(i + offset) = matrix phi(i), or None for a fit through a kernel.
    `positions`: positions the halves were drawn from. `fitted`: pairs of positions fitted.
    `dimension`: width d, or the rank for a kernel. `rank`: numerical rank of the `positions` rows
    (of the fitted ones for a kernel); below `dimension` the fit interpolates and does not identify
    the matrix. `later_error`: both positions past the `positions` above, None when there are none.
    `control_held_out`, `control_later`: the same on a random Gaussian table of the same shape.
    """

    offset: int
    matrix: Float[Tensor, "d d"] | None
    positions: int
    fitted: int
    dimension: int
    rank: int
    in_sample_error: float
    held_out_error: float
    later_error: float | None
    control_held_out: float
    control_later: float | None


class Verdict(StrEnum):
    """What can be said of one matrix per offset."""

    EXACT = "exact in d dimensions"
    EXPANDING = (
        "exact, but every position adds a dimension, so seen positions do not predict later ones"
    )
    NONE = "no such matrix"


@dataclass(frozen=True, eq=False)
class OffsetOnly:
    """How far a kernel is from a function of the offset alone.

    `error`: mean spread along the diagonals over the spread of all off-diagonal entries; 0 is
    exact, None with a `reason` where it is undefined. `control`: the same for a random table.
    `offsets`, `spread`: the diagonals averaged, and the standard deviation along each, in the
    kernel's unit.
    """

    error: float | None
    reason: str | None
    control: float | None
    offsets: Int[Tensor, " offsets"]
    spread: Float[Tensor, " offsets"]


@dataclass(frozen=True)
class LinearInOffset:
    """How straight a line the values by offset 0 .. n-1 make.

    `r_squared`: 1 for a straight line; None with a `reason` where the values do not vary. `slope`
    in the values' unit per position. `control`: r_squared of Gaussian noise of the same length, on
    average 1 / (n - 1).
    """

    r_squared: float | None
    reason: str | None
    slope: float
    intercept: float
    control: float | None


def block_rotation(
    inv_freq: Float[Tensor, " pairs"],
    offset: int,
    *,
    layout: Layout = "interleaved",
    first: First = "sin",
    tail: int = 0,
) -> Float[Tensor, "d d"]:
    """The closed form M_k of sinusoidal and rotary vectors, (d, d), d = 2 pairs + tail.

    With w = inv_freq_m and a = w * offset, every pair turns by its own angle:
    first "sin" (sinusoidal rows): [sin; cos] -> [[cos a, sin a], [-sin a, cos a]] [sin; cos];
    first "cos" (RoPE vectors): [cos; sin] -> [[cos a, -sin a], [sin a, cos a]] [cos; sin].
    `layout` "interleaved" puts a pair side by side, "half" puts all firsts before all seconds. The
    last `tail` numbers do not turn (partial rotary width). The offset may be negative.
    Raises SchemeArgumentError for bad frequencies, layout, first, tail or |offset| >= 2^31.
    Source: Vaswani et al. 2017, section 3.5; Su et al. 2021, arXiv 2104.09864, section 3.2.
    """
    inv_freq = as_inv_freq(inv_freq)
    check_count("offset", offset, -(2**31) + 1, 2**31 - 1)
    cos, sin = cos_sin(torch.tensor([offset], device=inv_freq.device), inv_freq)
    return pair_matrix(cos[0], sin[0], layout, first, check_count("tail", tail, 0, 2**20))


def verify_map(
    vectors: Float[Tensor, "n d"], matrix: Float[Tensor, "more less"], offset: int
) -> float:
    """Relative error of phi(i + offset) = matrix phi(i) over every pair of finite rows.

    `matrix` is (d, d), or (p, q) with p, q <= d when the rows it reads are zero past column q and
    those it writes are zero past column p: then it reads only positions that fit.
    Raises SchemeArgumentError when no pair of positions lies `offset` apart, or for a bad shape.
    """
    vectors = as_float64("vectors", vectors, "(n, d)")
    matrix = as_float64("matrix", matrix, "(p, q)").to(vectors.device)
    outputs, inputs = matrix.shape
    if max(outputs, inputs) > vectors.shape[1]:
        raise SchemeArgumentError(
            f"matrix must fit vectors of width {vectors.shape[1]:,}, got {tuple(matrix.shape)}."
        )
    sources = _pairs_at(vectors, offset)
    read, written = vectors[sources], vectors[sources + offset]
    fits = ~(read[:, inputs:].any(1) | written[:, outputs:].any(1))
    if not fits.any():
        raise SchemeArgumentError(
            f"no pair of finite positions {offset:,} apart fits the matrix of shape "
            f"{tuple(matrix.shape)}."
        )
    target = written[fits, :outputs]
    return _relative(target - (matrix @ read[fits, :inputs].T).T, target)


def composition_error(
    first: Float[Tensor, "a b"], second: Float[Tensor, "b c"], both: Float[Tensor, "a c"]
) -> float:
    """||first second - both||_F / ||both||_F: does M_a M_b equal M_(a+b)? 0 is exact.

    Raises SchemeArgumentError for shapes that do not compose.
    """
    first, second = as_float64("first", first, "(a, b)"), as_float64("second", second, "(b, c)")
    both = as_float64("both", both, "(a, c)")
    if first.shape[1] != second.shape[0] or both.shape != (first.shape[0], second.shape[1]):
        raise SchemeArgumentError(
            "the three matrices must compose, got shapes "
            f"{tuple(first.shape)}, {tuple(second.shape)} and {tuple(both.shape)}."
        )
    with warnings.catch_warnings():
        # A sparse product passes through torch's CSR form, which it calls beta once per process.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        return _relative(first @ second - both, both)


def fit_pairs(
    vectors: Float[Tensor, "n d"],
    offset: int,
    *,
    layout: Layout = "interleaved",
    first: First = "sin",
    tail: int = 0,
    train_length: int | None = None,
    seed: Seed = 0,
) -> LinearMapFit:
    """Fit two numbers per pair of columns, a scaled rotation, by least squares.

    A pair is read as the complex number z = cos + 1j sin; c = sum conj(z_i) z_(i+k) / sum |z_i|^2.
    `layout`, `first`, `tail` as in `block_rotation`, which it finds where it exists.
    `train_length`: positions below it are split at random into a fitted and a held-out half
    (default: all), positions past it are scored apart. `seed`: an integer or a torch.Generator.
    Raises SchemeArgumentError for a width that is not 2 pairs + tail or fewer than two usable pairs
    of positions.
    """
    vectors = as_float64("vectors", vectors, "(n, d)")
    check_count("tail", tail, 0, vectors.shape[1])
    pairs, odd = divmod(vectors.shape[1] - tail, 2)
    if odd or not pairs:
        raise SchemeArgumentError(
            f"the width less tail must be even and positive, got {vectors.shape[1] - tail}."
        )
    one, two = pair_columns(pairs, layout)
    if first not in ("sin", "cos"):
        raise SchemeArgumentError(f"first must be 'sin' or 'cos', got {first!r}.")
    cos_columns, sin_columns = (one, two) if first == "cos" else (two, one)

    def fit(table: Tensor, sources: Tensor) -> Tensor:
        waves = torch.complex(table[:, cos_columns], table[:, sin_columns])
        before, after = waves[sources], waves[sources + offset]
        power = before.abs().square().sum(0)
        turn = (before.conj() * after).sum(0) / torch.where(power > 0, power, 1.0)
        turn = torch.where(power > 0, turn, 1.0)
        return pair_matrix(turn.real, turn.imag, layout, first, tail)

    return _scored_fit(vectors, offset, train_length, seed, fit)


def fit_dense(
    vectors: Float[Tensor, "n d"],
    offset: int,
    *,
    train_length: int | None = None,
    seed: Seed = 0,
) -> LinearMapFit:
    """Fit a whole (d, d) matrix by least squares, knowing nothing of the scheme.

    float64 on the CPU, LAPACK driver gelsd (minimum norm; the default driver fails at random on
    such tables, pytorch issue 187411), on a random half of the positions below `train_length`
    (default: all), scored on the other half and on positions past `train_length`. A random table of
    n fitted pairs is held out at sqrt(1 + d / (n - d - 1)).
    Raises SchemeArgumentError with the number needed for fewer than 4 d positions: with fewer than
    d fitted pairs even noise is fitted perfectly. For vectors wider than that use `fit_kernel`.
    """
    vectors = as_float64("vectors", vectors, "(n, d)").cpu()
    dim = vectors.shape[1]
    length = len(vectors) if train_length is None else min(train_length, len(vectors))
    needed = max(4 * dim, abs(offset) + 2 * dim + 2)
    if length < needed:
        raise SchemeArgumentError(
            f"a dense fit of width {dim:,} at offset {offset:,} needs at least {needed:,} "
            f"positions, got {length:,}: with fewer it fits noise."
        )

    def fit(table: Tensor, sources: Tensor) -> Tensor:
        targets = table[sources + offset]
        return torch.linalg.lstsq(table[sources], targets, driver="gelsd").solution.T

    return _scored_fit(vectors, offset, train_length, seed, fit)


def fit_kernel(
    kernel: Float[Tensor, "n n"],
    offset: int,
    *,
    train_length: int | None = None,
    seed: Seed = 0,
) -> LinearMapFit:
    """The minimum-norm dense fit of the vectors behind a kernel (n, n), without the vectors.

    For schemes whose vectors gain a dimension per position (ALiBi), where 4 d positions cannot be
    had. With K = V V^T the fitted map sends phi(x) to sum_f a_f phi(f + offset), a = K_ff^+ K_fx,
    and every norm in the error is a kernel value; errors below about 1e-7 are rounding. Eigenvalues
    of K_ff below n eps of the largest count as 0. The control is a Gaussian table of n columns.
    Raises SchemeArgumentError for a kernel that is not symmetric to 1e-10 or fewer than two usable
    pairs of positions.
    """
    kernel = as_kernel(kernel)
    diagonal = kernel.diagonal().clone()
    finite = diagonal.isfinite()
    present = kernel[finite][:, finite]
    if (present - present.T).abs().amax() > 1e-10 * present.abs().amax():
        raise SchemeArgumentError("fit_kernel needs a symmetric kernel.")
    generator = _generator(seed)
    length, sources, held, later = _split(diagonal[:, None], offset, train_length, generator)
    noise = torch.randn(kernel.shape, dtype=kernel.dtype, generator=generator).to(kernel.device)

    def errors(gram: Tensor) -> tuple[int, list[float]]:
        values, axes = torch.linalg.eigh(gram[sources][:, sources])
        kept = values > len(sources) * _EPS * values[-1]
        inverse = (axes[:, kept] / values[kept]) @ axes[:, kept].T
        moved = sources + offset
        scores = []
        for part in (sources, held, later):
            weights = inverse @ gram[sources][:, part]
            target = gram.diagonal()[part + offset].sum()
            cross = (weights * gram[moved][:, part + offset]).sum()
            square = (weights * (gram[moved][:, moved] @ weights)).sum()
            gap = (target - 2 * cross + square).clamp(min=0)
            scores.append((gap / target).sqrt().item())
        return int(kept.sum()), scores

    rank, (in_sample, held_out, later_error) = errors(kernel)
    _, (_, control_held_out, control_later) = errors(noise @ noise.T)
    return LinearMapFit(
        offset=offset,
        matrix=None,
        positions=length,
        fitted=len(sources),
        dimension=rank,
        rank=rank,
        in_sample_error=in_sample,
        held_out_error=held_out,
        later_error=later_error if len(later) else None,
        control_held_out=control_held_out,
        control_later=control_later if len(later) else None,
    )


def verdict(
    map_error: float,
    *,
    dimension: int,
    dimension_at_double: int,
    tolerance: float = 1e-6,
) -> tuple[Verdict, str]:
    """Decide from numbers what can be said of one matrix per offset, and say it in a sentence.

    `map_error`: of the closed form where there is one (`verify_map`), else the held-out error of a
    fit. `dimension`, `dimension_at_double`: what the vectors need for some number of positions and
    for twice as many. An error above `tolerance` is NONE; below it, a dimension that does not grow
    is EXACT, one that does is EXPANDING.
    Raises SchemeArgumentError for an error that is not a number.
    """
    if not map_error >= 0:
        raise SchemeArgumentError(f"map_error must be a number of at least 0, got {map_error!r}.")
    if map_error > tolerance:
        return Verdict.NONE, str(Verdict.NONE)
    if dimension_at_double > dimension:
        return Verdict.EXPANDING, str(Verdict.EXPANDING)
    return Verdict.EXACT, f"exact in {dimension:,} dimensions"


def offset_only(
    kernel: Float[Tensor, "n n"], *, seed: Seed = 0, control_width: int = 64
) -> OffsetOnly:
    """Does K(i, i + k) depend on k alone? Spread along the diagonals over the overall spread.

    The mean over offsets 1 <= k < n/2 of the standard deviation (correction 0) of K(i, i + k) over
    i, divided by that of all off-diagonal entries; entries that are not finite are left out. No
    unit. The control is the kernel of a Gaussian table (n, control_width) drawn from `seed`.
    Raises SchemeArgumentError for a kernel that is not square.
    """
    kernel = as_kernel(kernel)
    check_count("control_width", control_width, 1, 2**16)
    profile = similarity_by_offset(kernel)
    error, reason = _diagonal_spread(kernel, profile.spread)
    noise = torch.randn(
        len(kernel), control_width, dtype=kernel.dtype, generator=_generator(seed)
    ).to(kernel.device)
    gram = noise @ noise.T
    control, _ = _diagonal_spread(gram, similarity_by_offset(gram).spread)
    kept = slice(1, max(1, (len(kernel) + 1) // 2))
    return OffsetOnly(error, reason, control, profile.offsets[kept], profile.spread[kept])


def linear_in_offset(values: Float[Tensor, " n"], *, seed: Seed = 0) -> LinearInOffset:
    """Is the logit a straight line in the offset? R^2 of values at k = 0 .. n-1 against k.

    `values` (n,): the logit that position contributes at a distance of k, keys before the query;
    for a kernel given as a weight factor, its logarithm. ALiBi gives 1 with its slope.
    Raises SchemeArgumentError for fewer than three values, or one that is not finite.
    """
    values = as_float64("values", values, "(n,)")
    if len(values) < 3 or not values.isfinite().all():
        raise SchemeArgumentError(
            f"a line needs at least three finite values by offset, got {len(values):,}."
        )
    noise = torch.randn(len(values), dtype=values.dtype, generator=_generator(seed))
    r_squared, slope, intercept = _line(values)
    control, _, _ = _line(noise)
    reason = None if r_squared is not None else "The values do not change with the offset."
    return LinearInOffset(r_squared, reason, slope, intercept, control)


def diagonal_spread(kernel: Float[Tensor, "n n"]) -> tuple[float | None, str | None]:
    """The error of `offset_only` alone: (error, None), or (None, reason) where it is undefined.

    Raises SchemeArgumentError for a kernel that is not square.
    """
    kernel = as_kernel(kernel)
    return _diagonal_spread(kernel, similarity_by_offset(kernel).spread)


def _diagonal_spread(kernel: Tensor, spread: Tensor) -> tuple[float | None, str | None]:
    count = len(kernel)
    short = spread[1 : max(1, (count + 1) // 2)]
    short = short[short.isfinite()]
    if not len(short):
        return None, TOO_FEW_POSITIONS
    # Without its first entry, a row-major square has its diagonal in the last of count + 1 columns.
    others = kernel.contiguous().flatten()[1:].view(count - 1, count + 1)[:, :-1]
    others = others[others.isfinite()]
    overall = (others - others[0]).std(correction=0)
    if overall <= 64 * _EPS * others.abs().amax():
        return None, NO_SPREAD
    return (short.mean() / overall).item(), None


def _line(values: Tensor) -> tuple[float | None, float, float]:
    """R^2, slope and intercept of values against 0 .. n-1; R^2 is None when nothing varies."""
    steps = torch.arange(len(values), dtype=values.dtype, device=values.device)
    steps = steps - steps.mean()
    centred = values - values[0]
    centred = centred - centred.mean()
    slope = (steps @ centred) / (steps @ steps)
    intercept = values.mean() - slope * (len(values) - 1) / 2
    residual = centred - slope * steps
    varies = centred.abs().amax() > 64 * _EPS * values.abs().amax()
    share = 1 - (residual @ residual) / (centred @ centred) if varies else None
    return None if share is None else share.item(), slope.item(), intercept.item()


def _generator(seed: Seed) -> torch.Generator:
    return seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)


def _relative(gap: Tensor, target: Tensor) -> float:
    if target.is_sparse:  # entries that are not stored are 0 and add nothing to a norm
        gap, target = gap.coalesce().values(), target.coalesce().values()
    size, scale = torch.linalg.vector_norm(gap), torch.linalg.vector_norm(target)
    return 0.0 if size == 0 else (size / scale).item()


def _pairs_at(vectors: Tensor, offset: int) -> Tensor:
    """Positions i for which rows i and i + offset exist and are finite."""
    check_count("offset", offset, -(2**31) + 1, 2**31 - 1)
    count = len(vectors)
    finite = vectors.isfinite().all(1)
    sources = torch.arange(max(0, -offset), max(0, min(count, count - offset)))
    sources = sources.to(vectors.device)
    return sources[finite[sources] & finite[sources + offset]]


def _split(
    vectors: Tensor, offset: int, train_length: int | None, generator: torch.Generator
) -> tuple[int, Tensor, Tensor, Tensor]:
    """Training length, and sources fitted, held out (a random half each) and past that length."""
    count = len(vectors)
    length = count if train_length is None else check_length("train_length", train_length)
    length = min(length, count)
    sources = _pairs_at(vectors, offset)
    inside = sources[(sources < length) & (sources + offset < length)]
    later = sources[(sources >= length) & (sources + offset >= length)]
    if len(inside) < 2:
        raise SchemeArgumentError(
            f"a fit needs at least two pairs of finite positions {offset:,} apart, "
            f"got {len(inside)} among {length:,} positions."
        )
    shuffled = inside[torch.randperm(len(inside), generator=generator).to(inside.device)]
    half = (len(inside) + 1) // 2
    return length, shuffled[:half], shuffled[half:], later


def _scored_fit(
    vectors: Tensor,
    offset: int,
    train_length: int | None,
    seed: Seed,
    fit: Callable[[Tensor, Tensor], Tensor],
) -> LinearMapFit:
    """Fit on a random half, score on the other half and later, and repeat on a random table."""
    generator = _generator(seed)
    length, sources, held, later = _split(vectors, offset, train_length, generator)
    noise = torch.randn(vectors.shape, dtype=vectors.dtype, generator=generator)
    noise = noise.to(vectors.device)

    def error(table: Tensor, matrix: Tensor, part: Tensor) -> float:
        target = table[part + offset]
        return _relative(target - (matrix @ table[part].T).T, target)

    matrix, control = fit(vectors, sources), fit(noise, sources)
    table = vectors[:length]
    return LinearMapFit(
        offset=offset,
        matrix=matrix,
        positions=length,
        fitted=len(sources),
        dimension=vectors.shape[1],
        rank=int(torch.linalg.matrix_rank(table[table.isfinite().all(1)])),
        in_sample_error=error(vectors, matrix, sources),
        held_out_error=error(vectors, matrix, held),
        later_error=error(vectors, matrix, later) if len(later) else None,
        control_held_out=error(noise, control, held),
        control_later=error(noise, control, later) if len(later) else None,
    )
