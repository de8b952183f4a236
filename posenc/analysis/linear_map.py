"""One matrix per offset: is phi(i + k) = M_k phi(i) with one M_k for every position i?

Vaswani et al. 2017, section 3.5, arXiv 1706.03762. Three fits, and the error of any such matrix:
||phi(i+k) - M phi(i)||_F / ||phi(i+k)||_F over the positions named; predicting zero gives 1. The
closed form of a scheme is its `offset_map`. A fit uses a random half of the positions, is scored on
the other half and on later positions, and is repeated on a random table, where the error is about 1.
Vectors are columns in M phi and rows in a table.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.analysis.inputs import Seed, as_float64, as_generator, as_kernel
from posenc.errors import SchemeArgumentError
from posenc.frequencies import Layout
from posenc.limits import MAX_DIM, MAX_POSITION, check_count
from posenc.notebook import Shown, View, numbers_of, title_of
from posenc.rotation import First, pair_columns, pair_matrix

_EPS = torch.finfo(torch.float64).eps
_Parts = tuple[Tensor, Tensor, Tensor]  # positions fitted, held out, past the training length
_Fit = tuple[Tensor | None, int | None, list[float]]  # matrix, rank, an error for each part
_Score = Callable[[Tensor, _Parts], _Fit]


@dataclass(frozen=True, eq=False)
class LinearMapFit(Shown):
    """One matrix fitted to (phi(i), phi(i + offset)) on half of the positions, scored on others.

    `matrix` (d, d): None for a fit through a kernel, sparse COO for a fit per pair above 512 features.
    `fitted`: pairs of positions fitted. `dimension`: width d, or the rank for a kernel. `rank`: of the
    rows below the training length (of the fitted ones for a kernel); below `dimension` the fit
    interpolates; None for a fit per pair. `later_error`: of positions past the training length, None
    without any. `control_*`: the same on a Gaussian table.
    """

    matrix: Float[Tensor, "d d"] | None
    fitted: int
    dimension: int
    rank: int | None
    in_sample_error: float
    held_out_error: float
    later_error: float | None
    control_held_out: float
    control_later: float | None

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self),
            matrix=self.matrix,
        )


def verify_map(
    vectors: Float[Tensor, "n d"], matrix: Float[Tensor, "more less"], offset: int
) -> float:
    """Return the relative error of phi(i + offset) = matrix phi(i) over every pair of finite rows.

    `matrix` is (d, d), or (p, q) with p, q <= d when the rows it reads are zero past column q and
    those it writes are zero past column p: then it reads only positions that fit.
    Raises SchemeArgumentError when no pair of positions lies `offset` apart, or for a bad shape.
    """
    vectors = as_float64("vectors", vectors, "(n, d)")
    matrix = as_float64("matrix", matrix, "(p, q)", sparse=True).to(vectors.device)
    outputs, inputs = matrix.shape
    if max(outputs, inputs) > vectors.shape[1]:
        raise SchemeArgumentError(
            f"matrix must fit vectors of width {vectors.shape[1]:,}, got {tuple(matrix.shape)}."
        )
    sources = _finite_pairs(vectors.isfinite().all(1), offset)
    before, after = vectors[sources], vectors[sources + offset]
    fits = ~(before[:, inputs:].any(1) | after[:, outputs:].any(1))
    if not fits.any():
        raise SchemeArgumentError(
            f"no pair of finite positions {offset:,} apart fits the matrix of shape "
            f"{tuple(matrix.shape)}."
        )
    target = after[fits, :outputs]
    return _relative_norm(target - (matrix @ before[fits, :inputs].T).T, target)


def composition_error(
    first: Float[Tensor, "a b"], second: Float[Tensor, "b c"], both: Float[Tensor, "a c"]
) -> float:
    """Return ||first second - both||_F / ||both||_F: does M_a M_b equal M_(a+b)? 0 is exact.

    Each may be a sparse COO tensor, as a closed form of wide vectors is.
    Raises SchemeArgumentError for shapes that do not compose.
    """
    first = as_float64("first", first, "(a, b)", sparse=True)
    second = as_float64("second", second, "(b, c)", sparse=True)
    both = as_float64("both", both, "(a, c)", sparse=True)
    if first.shape[1] != second.shape[0] or both.shape != (first.shape[0], second.shape[1]):
        raise SchemeArgumentError(
            "the three matrices must compose, got shapes "
            f"{tuple(first.shape)}, {tuple(second.shape)} and {tuple(both.shape)}."
        )
    product = multiply(first, second)
    if not (product.is_sparse and both.is_sparse):
        return _relative_norm(product.to_dense() - both.to_dense(), both.to_dense())
    return _relative_norm((product - both).coalesce().values(), both.coalesce().values())


def multiply(first: Tensor, second: Tensor) -> Tensor:
    """Return the product of two matrices, each dense or sparse."""
    with warnings.catch_warnings():
        # A sparse product passes through torch's CSR form, which it calls beta once per process.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        return first @ second


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
    """Return the fit of two numbers per pair of columns, a scaled rotation, by least squares.

    A pair is read as the complex number z = cos + 1j sin; c = sum conj(z_i) z_(i+k) / sum |z_i|^2.
    `layout`, `first`, `tail`: of the columns, as in `posenc.rotation.pair_matrix`; the fit equals the
    closed form of sinusoidal and rotary vectors.
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
    columns = pair_columns(pairs, layout)
    cos_columns, sin_columns = columns if first == "cos" else columns[::-1]

    def fit(table: Tensor, sources: Tensor) -> Tensor:
        waves = torch.complex(table[:, cos_columns], table[:, sin_columns])
        before, after = waves[sources], waves[sources + offset]
        power = before.abs().square().sum(0)
        ratio = (before.conj() * after).sum(0) / torch.where(power > 0, power, 1.0)
        ratio = torch.where(power > 0, ratio, 1.0)
        return pair_matrix(ratio.real, ratio.imag, layout, first, tail)

    return _scored_fit(vectors, offset, train_length, seed, _table_score(fit, offset))


def fit_dense(
    vectors: Float[Tensor, "n d"],
    offset: int,
    *,
    train_length: int | None = None,
    seed: Seed = 0,
) -> LinearMapFit:
    """Return the fit of a whole (d, d) matrix by least squares, which knows nothing of the scheme.

    `train_length`, `seed`: as in `fit_pairs`. Float64 on the CPU, LAPACK driver gelsd: the default
    driver fails at random on such tables (pytorch issue 187411). A random table of n fitted pairs
    has a held-out error of sqrt(1 + d / (n - d - 1)).
    Raises SchemeArgumentError for fewer than 4 d positions, where even noise may be fitted: use
    `fit_kernel` there.
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

    rows = vectors[:length]
    rank = int(torch.linalg.matrix_rank(rows[rows.isfinite().all(1)]))
    score = _table_score(fit, offset)
    return replace(_scored_fit(vectors, offset, train_length, seed, score), rank=rank)


def fit_kernel(
    kernel: Float[Tensor, "n n"],
    offset: int,
    *,
    train_length: int | None = None,
    control_width: int | None = None,
    seed: Seed = 0,
) -> LinearMapFit:
    """Return the minimum-norm dense fit of the vectors behind a kernel (n, n), without the vectors.

    For schemes whose vectors gain a dimension per position (ALiBi), where 4 d positions cannot be
    had. With K = V V^T the fitted map sends phi(x) to sum_f a_f phi(f + offset), a = K_ff^+ K_fx,
    and every norm in the error is a kernel value; errors below about 1e-7 are rounding. Eigenvalues
    of K_ff below n eps of the largest count as 0. The control is a Gaussian table of
    `control_width` columns: pass the width of the vectors where they have one (default n).
    Raises SchemeArgumentError for a kernel that is not symmetric to 1e-10 or fewer than two usable
    pairs of positions.
    """
    kernel = as_kernel(kernel)
    finite = kernel.diagonal().isfinite()
    present = kernel[finite][:, finite]
    if not len(present):
        raise SchemeArgumentError("fit_kernel needs a position with a finite kernel value.")
    if (present - present.T).abs().amax() > 1e-10 * present.abs().amax():
        raise SchemeArgumentError("fit_kernel needs a symmetric kernel.")
    width = len(kernel) if control_width is None else control_width
    check_count("control_width", width, 1, MAX_DIM)

    def score(gram: Tensor, parts: _Parts) -> _Fit:
        sources = parts[0]
        values, axes = torch.linalg.eigh(gram[sources][:, sources])
        positive = values > len(sources) * _EPS * values[-1]
        inverse = (axes[:, positive] / values[positive]) @ axes[:, positive].T
        shifted = sources + offset
        errors = []
        for part in parts:
            weights = inverse @ gram[sources][:, part]
            target = gram.diagonal()[part + offset].sum()
            cross = (weights * gram[shifted][:, part + offset]).sum()
            square = (weights * (gram[shifted][:, shifted] @ weights)).sum()
            gap = (target - 2 * cross + square).clamp(min=0)
            errors.append((gap / target).sqrt().item())
        return None, int(positive.sum()), errors

    fit = _scored_fit(kernel, offset, train_length, seed, score, control_width=width)
    return replace(fit, dimension=fit.rank or 0)


def _table_score(fit: Callable[[Tensor, Tensor], Tensor], offset: int) -> _Score:
    """Make a score of a fit that takes a table and the positions to fit, and returns a matrix."""

    def score(table: Tensor, parts: _Parts) -> _Fit:
        matrix, errors = fit(table, parts[0]), []
        for part in parts:
            target = table[part + offset]
            errors.append(_relative_norm(target - (matrix @ table[part].T).T, target))
        return matrix, None, errors

    return score


def _scored_fit(
    data: Tensor,
    offset: int,
    train_length: int | None,
    seed: Seed,
    score: _Score,
    control_width: int | None = None,
) -> LinearMapFit:
    """Fit on a random half, score on the other half and later, and repeat on a random table.

    data: a table, or with a control_width a kernel, whose control is the kernel of a table that wide.
    """
    generator, count = as_generator(seed), len(data)
    finite = data.isfinite().all(1) if control_width is None else data.diagonal().isfinite()
    length = count
    if train_length is not None:
        length = min(check_count("train_length", train_length, 1, 2**31), count)
    sources = _finite_pairs(finite, offset)
    inside = sources[(sources < length) & (sources + offset < length)]
    later = sources[(sources >= length) & (sources + offset >= length)]
    if len(inside) < 2:
        raise SchemeArgumentError(
            f"a fit needs at least two pairs of finite positions {offset:,} apart, "
            f"got {len(inside)} among {length:,} positions."
        )
    shuffled = inside[torch.randperm(len(inside), generator=generator).to(inside.device)]
    half = (len(inside) + 1) // 2
    parts = shuffled[:half], shuffled[half:], later
    width = control_width or data.shape[1]
    noise = torch.randn(count, width, dtype=data.dtype, generator=generator).to(data.device)
    control = noise if control_width is None else noise @ noise.T
    matrix, rank, (in_sample, held_out, past) = score(data, parts)
    _, _, (_, control_held_out, control_past) = score(control, parts)
    return LinearMapFit(
        matrix=matrix,
        fitted=half,
        dimension=width,
        rank=rank,
        in_sample_error=in_sample,
        held_out_error=held_out,
        later_error=past if len(later) else None,
        control_held_out=control_held_out,
        control_later=control_past if len(later) else None,
    )


def _finite_pairs(finite: Bool[Tensor, " n"], offset: int) -> Int[Tensor, " m"]:
    """Positions i for which rows i and i + offset exist and are finite."""
    count = len(finite)
    check_count("offset", offset, -MAX_POSITION, MAX_POSITION)
    sources = torch.arange(max(0, -offset), max(0, min(count, count - offset)))
    sources = sources.to(finite.device)
    return sources[finite[sources] & finite[sources + offset]]


def _relative_norm(gap: Tensor, target: Tensor) -> float:
    """||gap||_F / ||target||_F; 0 where there is no gap."""
    size, scale = torch.linalg.vector_norm(gap), torch.linalg.vector_norm(target)
    return 0.0 if size == 0 else (size / scale).item()
