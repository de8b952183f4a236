"""Principal components of position vectors, from the vectors or from a kernel alone.

Three ways to one result: `project` takes the vectors (n, d), `project_gram` a kernel (n, n) whose
vectors are too wide to store (ALiBi), `project_waves` (waves.py) the inverse frequencies of a
sinusoidal or rotary table, without a table. Components are fitted on some rows; every other row is
projected onto the same axes.

Sign convention, on scores so that all three share it: in each component the first fitted row whose
score reaches 37 % of the largest is positive. The largest score itself would not do: tables that
depend on the offset alone have components that are odd about the middle, where two scores of
opposite sign tie for largest. Components of equal variance have no order or direction of their own.

Leading eigenpairs of symmetric matrices, by halves where a matrix has a symmetry to use.

LAPACK's symmetric eigensolver through SciPy, which computes no more pairs than asked for.
Eigenvalues descend, eigenvectors are columns, their signs are the solver's.

Principal components of sinusoidal and rotary tables from their frequencies, without a table.

The covariance of waves is a closed sum of cosines, so its cost does not grow with the length. Same
result and same signs as projection.py, where both are described.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.analysis.inputs import as_float64, as_kernel
from posenc.analysis.spectrum import as_inv_freq, check_length
from posenc.errors import NoPositionVectors, SchemeArgumentError, shown
from posenc.frequencies import Frequencies
from posenc.limits import MAX_DIM, check_count
from posenc.tables import cos_sin


def top_eigenpairs(matrix: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The `size` largest eigenvalues, descending, and their eigenvectors as columns."""
    from scipy.linalg import eigh

    last = len(matrix) - 1
    values, vectors = eigh(matrix.cpu().numpy(), subset_by_index=[last + 1 - size, last])
    return (
        torch.from_numpy(values).to(matrix.device).flip(0),
        torch.from_numpy(vectors).to(matrix.device).flip(1),
    )


def merged_eigenpairs(
    even_values: Tensor, even_axes: Tensor, odd_values: Tensor, odd_axes: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Leading eigenpairs of a block-diagonal matrix from those of its two blocks."""
    values = torch.cat([even_values, odd_values])
    order = values.sort(descending=True, stable=True).indices[:size]
    return values[order], torch.block_diag(even_axes, odd_axes)[:, order]


def leading_eigenpairs(block: Tensor, size: int, slack: Tensor) -> tuple[Tensor, Tensor]:
    """Leading eigenpairs of a symmetric matrix, by halves where it equals its own half turn.

    Raises NoPositionVectors if an eigenvalue is below -slack.
    """
    count = len(block)
    if (block - block.flip(0, 1)).abs_().amax() > slack / count:
        check_positive(block, slack)
        return top_eigenpairs(block, size)
    half = count // 2
    near, far = block[:half, :half], block[:half, count - half :].flip(1)
    even, odd = near + far, near - far
    if count % 2:
        edge = math.sqrt(2) * block[:half, half, None]
        centre = block[half, half].view(1, 1)
        even = torch.cat([torch.cat([even, edge], 1), torch.cat([edge.T, centre], 1)])
    for part in (even, odd):
        check_positive(part, slack)
    leading_even = top_eigenpairs(even, min(size, count - half))
    leading_odd = top_eigenpairs(odd, min(size, half))
    values, axes = merged_eigenpairs(*leading_even, *leading_odd, size)
    even_half, middle = axes[:half] / math.sqrt(2), axes[half : count - half]
    odd_half = axes[count - half :] / math.sqrt(2)
    return values, torch.cat([even_half + odd_half, middle, (even_half - odd_half).flip(0)])


def check_positive(block: Tensor, slack: Tensor) -> None:
    """Raise NoPositionVectors if a symmetric matrix has an eigenvalue below -slack."""
    shifted = block + slack * torch.eye(len(block), dtype=block.dtype, device=block.device)
    if torch.linalg.cholesky_ex(shifted).info:
        raise NoPositionVectors(
            "This kernel has a negative eigenvalue, so it is no inner product and has no "
            "position vectors."
        )


_SIGN_SHARE = 0.37  # no cosine of a simple fraction of a turn, so that structured tables miss it
_BLOCK_ELEMENTS = 2**18  # 2 MiB of float64 stay in a core's cache between centring and product
_LEAST_BLOCK_ROWS = 256  # of wide rows, so that a block costs more than updating their covariance
_EPS = torch.finfo(torch.float64).eps

Fit = slice | int | None


@dataclass(frozen=True, eq=False)
class Projection:
    """Rows of a table on its principal components.

    `scores` (n, k): coordinates, in the vectors' unit; NaN for a missing row.
    `components` (k, d): unit axes, and `mean` (d,): the origin; None when there are no vectors.
    `explained_variance` (k,): variance of the fitted scores, correction 1.
    `explained_variance_ratio` (k,): that over `total_variance`; 0 when the rows do not differ.
    `found`: components whose variance is above rounding; those after it are all zero.
    `fitted` (n,), `missing` (n,): rows that set the axes, rows that are not finite.
    `solver`: what computed it.
    """

    scores: Float[Tensor, "n k"]
    components: Float[Tensor, "k d"] | None
    mean: Float[Tensor, " d"] | None
    explained_variance: Float[Tensor, " k"]
    explained_variance_ratio: Float[Tensor, " k"]
    total_variance: float
    found: int
    fitted: Bool[Tensor, " n"]
    missing: Bool[Tensor, " n"]
    solver: str


def project(vectors: Float[Tensor, "n d"], components: int = 3, fit: Fit = None) -> Projection:
    """Principal components of the rows of `vectors` (n, d), in float64.

    `fit`: the rows that set the axes: None is all, an integer L the rows below L, or a slice; the
    others are projected on the same axes. Rows that are not finite are left out and labelled.
    Solver, by scikit-learn's names: "covariance_eigh" when there are at least as many fitted rows
    as columns (exact, and the fastest; scikit-learn's "auto" may pick a randomised one, whose
    subspace is wrong), here by blocks of rows centred before they are multiplied; scikit-learn
    itself multiplies first, which costs tables far from the origin their digits. Else scikit-learn's
    "full" (a covariance larger than the data would cost more and halve the digits). A component
    whose variance is below max(n, d) * eps of the first's is rounding: it and those after it are
    zero.
    Raises SchemeArgumentError when no finite row is left to fit, or for a bad `components` or
    `fit`.
    Source: Pearson 1901; solver names of scikit-learn's PCA.
    """
    vectors = as_float64("vectors", vectors, "(n, d)")
    check_count("components", components, 1, MAX_DIM)
    missing, peak = _missing_rows(vectors)
    fitted = _fitted_rows(fit, missing)
    # A power of two keeps squares in range and changes no digit; the first row as the provisional
    # origin makes columns that do not vary exactly zero.
    scale = _power_of_two(peak)
    count, width = int(fitted.sum()), vectors.shape[1]
    origin = vectors[int(fitted.to(torch.uint8).argmax())] / scale
    moved = _centred(vectors, fitted, scale, origin, torch.zeros_like(origin))
    drift = torch.stack([part.sum(0) for part in moved]).sum(0) / count
    degrees = max(count - 1, 1)  # the rank of centred rows
    size = min(components, degrees, width)
    rows = _centred(vectors, fitted, scale, origin, drift)
    if count >= width:
        solver = "covariance_eigh"
        scatter = _scatter(rows, width).to(vectors.device)
        values, axes = top_eigenpairs(scatter, size)
        variance, total = values / degrees, scatter.trace().item() / degrees
    else:
        solver = "full"
        variance, axes, total = _by_svd(torch.cat([part.clone() for part in rows]), size)
    axes = axes.T.contiguous()  # one after the other: a product with few axes takes half the time
    everything = _centred(vectors, torch.ones_like(missing), scale, origin, drift)
    return signed_projection(
        scores=torch.cat([part @ axes.T for part in everything]),
        components=axes,
        mean=(origin + drift) * scale,
        variance=variance,
        total=total,
        floor=max(count, width) * _EPS * variance[0],
        scale=scale,
        size=components,
        fitted=fitted,
        missing=missing,
        solver=solver,
    )


def project_gram(kernel: Float[Tensor, "n n"], components: int = 3, fit: Fit = None) -> Projection:
    """Principal components of the vectors behind a kernel (n, n), without the vectors.

    The eigenvectors of the doubly centred kernel give the scores that `project` gives for vectors
    with these inner products, signs included; other rows are projected through their kernel values.
    `fit` and the zero components are as in `project`. A row is missing where K(i, i) is not finite.
    A kernel that depends on the offset alone is split into its even and odd halves about the
    middle, which costs a quarter. Solver: LAPACK's symmetric eigensolver for the leading
    eigenpairs.
    Raises NoPositionVectors where the kernel is not symmetric (beyond 1e-10 of its largest entry)
    or has a negative eigenvalue; SchemeArgumentError as in `project`.
    Source: Torgerson 1952 (classical scaling); Schoelkopf et al. 1998 (projection of new points).
    """
    kernel = as_kernel(kernel)
    check_count("components", components, 1, MAX_DIM)
    missing = ~kernel.diagonal().isfinite()
    fitted = _fitted_rows(fit, missing)
    peak = _check_symmetric(kernel if not missing.any() else kernel[~missing][:, ~missing])
    scale = _power_of_two(peak)
    strip = _selected(kernel, fitted) / scale
    columns = slice(None) if fitted.all() else fitted  # a view where nothing is left out
    row_mean = strip[:, columns].mean(1)
    strip.sub_(strip.mean(0)).sub_((row_mean - row_mean.mean())[:, None])
    block = strip[:, columns]
    count = len(block)
    degrees = max(count - 1, 1)  # the rank of a centred kernel
    size = min(components, degrees)
    # What centring leaves of the rounding of entries as large as the peak.
    rounding = (count + 64) * _EPS * peak / scale
    if max(part.abs() for part in block.aminmax()) > rounding:
        values, axes = leading_eigenpairs(block, size, count * rounding)
    else:  # all positions share one vector
        values, axes = block.new_zeros(size), block.new_zeros(count, size)
    floor = torch.maximum(count * _EPS * values[0], rounding)
    roots = values.clamp(min=0).sqrt()
    scores = strip.T @ axes / torch.where(values > floor, roots, 1.0)
    scores[fitted] = axes * roots
    return signed_projection(
        scores=scores,
        components=None,
        mean=None,
        variance=values / degrees,
        total=block.trace().item() / degrees if values.any() else 0.0,
        floor=floor / degrees,
        scale=math.sqrt(scale),
        size=components,
        fitted=fitted,
        missing=missing,
        solver="gram_eigh",
    )


def signed_projection(
    *,
    scores: Tensor,
    components: Tensor | None,
    mean: Tensor | None,
    variance: Tensor,
    total: float,
    floor: Tensor,
    scale: float,
    size: int,
    fitted: Tensor,
    missing: Tensor,
    solver: str,
) -> Projection:
    """Apply the sign convention, zero what is rounding, pad to `size` columns, undo `scale`."""
    found = int((variance > floor).sum())
    padding = (0, size - found)
    size_of = scores[fitted, :found].abs()
    reached = size_of >= _SIGN_SHARE * size_of.amax(0)
    first = reached.to(torch.uint8).argmax(0)
    signs = scores[fitted, :found].gather(0, first[None])[0].sign()
    variance = torch.nn.functional.pad(variance[:found], padding)
    scores = torch.nn.functional.pad(scores[:, :found] * signs, padding) * scale
    if components is not None:
        components = torch.nn.functional.pad(components[:found] * signs[:, None], (0, 0, *padding))
    return Projection(
        scores=scores.masked_fill(missing[:, None], torch.nan),
        components=components,
        mean=mean,
        explained_variance=variance * scale * scale,
        explained_variance_ratio=variance / total if total > 0 else torch.zeros_like(variance),
        total_variance=total * scale * scale,
        found=found,
        fitted=fitted,
        missing=missing,
        solver=solver,
    )


def _missing_rows(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Mask of the rows that are not finite, and the largest magnitude in the others."""
    peak = torch.stack(vectors.aminmax()).abs().amax()  # NaN and infinity reach it: one pass
    if peak.isfinite():
        return torch.zeros(len(vectors), dtype=torch.bool, device=vectors.device), peak
    missing = ~vectors.isfinite().all(1)
    kept = vectors[~missing]
    return missing, torch.stack(kept.aminmax()).abs().amax() if len(kept) else peak


def _fitted_rows(fit: Fit, missing: Tensor) -> Tensor:
    """Mask of the rows that set the axes."""
    chosen = torch.zeros_like(missing)
    if isinstance(fit, slice):
        chosen[torch.arange(len(missing), device=missing.device)[_positive_step(fit)]] = True
    else:
        count = len(missing)
        chosen[: count if fit is None else check_length("fit", fit, high=count)] = True
    chosen &= ~missing
    if not chosen.any():
        raise SchemeArgumentError("projection needs at least one finite row to fit, got none.")
    return chosen


def _positive_step(fit: slice) -> slice:
    if fit.step is not None and fit.step < 1:
        raise SchemeArgumentError(f"fit must be a slice with a positive step, got {shown(fit)}.")
    return fit


def _selected(rows: Tensor, chosen: Tensor) -> Tensor:
    """The chosen rows, without a copy when those are all."""
    return rows if chosen.all() else rows[chosen]


def _centred(
    vectors: Tensor, chosen: Tensor, scale: float, origin: Tensor, drift: Tensor
) -> Iterator[Tensor]:
    """The chosen rows as vectors / scale - origin - drift, block by block.

    All blocks share their memory: each is valid until the next one is asked for.
    """
    step = max(_LEAST_BLOCK_ROWS, _BLOCK_ELEMENTS // vectors.shape[1])
    scratch = vectors.new_empty(min(step, len(vectors)), vectors.shape[1])
    if chosen.all():
        blocks: Iterable[Tensor] = vectors.split(step)
    else:
        blocks = (vectors[rows] for rows in chosen.nonzero().flatten().split(step))
    for block in blocks:
        yield torch.add(-origin, block, alpha=1 / scale, out=scratch[: len(block)]).sub_(drift)


def _scatter(rows: Iterable[Tensor], width: int) -> Float[Tensor, "d d"]:
    """Sum of the outer products of rows with themselves; only its lower triangle is filled."""
    from scipy.linalg.blas import dsyrk  # one triangle: half the work of a general product

    scatter = np.zeros((width, width), order="F")
    for block in rows:
        scatter = dsyrk(1.0, block.cpu().numpy().T, beta=1.0, c=scatter, lower=1, overwrite_c=1)
    return torch.from_numpy(scatter)


def _by_svd(rows: Tensor, size: int) -> tuple[Tensor, Tensor, float]:
    """Variances, axes as columns and total variance of centred rows (n, d), n < d."""
    if len(rows) < 2 or not rows.any():
        return rows.new_zeros(size), rows.new_zeros(rows.shape[1], size), 0.0
    from sklearn.decomposition import PCA

    pca = PCA(n_components=size, svd_solver="full").fit(rows.cpu().numpy())
    axes = torch.from_numpy(pca.components_.T).to(rows.device)
    variance = torch.from_numpy(pca.explained_variance_).to(rows.device)
    return variance, axes, rows.square().sum().item() / (len(rows) - 1)


def _power_of_two(peak: Tensor) -> float:
    """The power of two below a magnitude, from 2^-1022 so that its reciprocal is finite too."""
    return math.ldexp(1.0, max(-1022, math.frexp(peak.item())[1] - 1)) if peak > 0 else 1.0


def _check_symmetric(kernel: Tensor) -> Tensor:
    """Return a kernel's largest magnitude; raise unless it is finite and symmetric."""
    peak = torch.stack(kernel.aminmax()).abs().amax()
    if not peak.isfinite():
        raise SchemeArgumentError("kernel must be finite wherever its diagonal is.")
    if (kernel - kernel.T).abs_().amax() > 1e-10 * peak:
        raise NoPositionVectors(
            "This kernel is not symmetric, so it is no inner product and has no position vectors."
        )
    return peak


_EPS_of_waves = torch.finfo(torch.float64).eps


def project_waves(
    inv_freq: Float[Tensor, " pairs"],
    length: int,
    components: int = 3,
    *,
    fit: int | None = None,
    amplitude: float = 1.0,
) -> Projection:
    """Principal components of the rows amplitude * (sin(p w_0), cos(p w_0), sin(p w_1), ...).

    `length`: rows p = 0 .. length-1. `fit`: the number of leading positions that set the axes
    (default: all). The covariance comes from closed sums instead of the table, so its cost does not
    grow with the length: about the middle of the fitted positions, sum_p cos(p w) = sin(n w / 2) /
    sin(w / 2), and the sines separate from the cosines, which leaves two eigenproblems of (pairs,
    pairs). Same result as `project` to about 1e-12 of the largest score; a RoPE kernel's vectors
    differ only by the amplitude a sqrt(2 / d), the order of columns and constant columns, which
    change no score. `components` come in the column order above (sines first, interleaved).
    Raises SchemeArgumentError for bad frequencies, a length outside 1 .. 2^24, a fit outside
    1 .. length, or an amplitude that is not positive and finite.
    """
    inv_freq = as_inv_freq(inv_freq)
    check_length("length", length, high=2**24)
    check_count("components", components, 1, MAX_DIM)
    count = length if fit is None else check_length("fit", fit, high=length)
    if not 0 < amplitude < math.inf:
        raise SchemeArgumentError(f"amplitude must be positive and finite, got {shown(amplitude)}.")
    pairs = len(inv_freq)
    # Scatter about the mean, positions counted from the middle: sines have mean 0 there.
    difference = _centred_cosine_sum(inv_freq[:, None] - inv_freq, count)
    together = _centred_cosine_sum(inv_freq[:, None] + inv_freq, count)
    cosine_sum = _centred_cosine_sum(inv_freq, count)
    even = (difference + together) / 2 - torch.outer(cosine_sum, cosine_sum) / count
    odd = (difference - together) / 2
    size = min(components, count, 2 * pairs)
    values, axes = merged_eigenpairs(
        *top_eigenpairs(even, min(size, pairs)), *top_eigenpairs(odd, min(size, pairs)), size
    )
    even_axes, odd_axes = axes[:pairs], axes[pairs:]
    mean = cosine_sum / count
    centre = torch.tensor([count - 1], device=inv_freq.device)
    cos_centre, sin_centre = (part[0, :, None] for part in _cos_sin(centre, inv_freq / 2))
    # Back to columns counted from position 0: a rotation by half the fitted length in every pair.
    columns = torch.stack(
        [
            even_axes * sin_centre + odd_axes * cos_centre,
            even_axes * cos_centre - odd_axes * sin_centre,
        ],
        1,
    ).reshape(2 * pairs, size)
    middle = torch.stack([mean * sin_centre[:, 0], mean * cos_centre[:, 0]], 1).flatten()
    scores = _wave_sums(inv_freq, length, count, even_axes, odd_axes) - mean @ even_axes
    degrees = max(count - 1, 1)
    return signed_projection(
        scores=scores,
        components=columns.T.contiguous(),
        mean=middle * amplitude,
        variance=values.clamp(min=0) / degrees,
        total=((even.trace() + odd.trace()).clamp(min=0) / degrees).item(),
        floor=torch.tensor(2 * pairs * count * _EPS_of_waves / degrees, dtype=values.dtype),
        scale=amplitude,
        size=components,
        fitted=torch.arange(length, device=inv_freq.device) < count,
        missing=torch.zeros(length, dtype=torch.bool, device=inv_freq.device),
        solver="closed_form_eigh",
    )


def _centred_cosine_sum(frequency: Tensor, count: int) -> Tensor:
    """sum_p cos(frequency * (p - (count - 1) / 2)) over p = 0 .. count-1."""
    half = (frequency / 2).sin()
    return torch.where(half == 0, float(count), (frequency * (count / 2)).sin() / half)


def _cos_sin(positions: Tensor, inv_freq: Tensor) -> tuple[Tensor, Tensor]:
    return cos_sin(positions, Frequencies.from_inv_freq(inv_freq), dtype=torch.float64)


def _wave_sums(
    inv_freq: Tensor, length: int, count: int, even_axes: Tensor, odd_axes: Tensor
) -> Tensor:
    """sum_m even cos(q w_m) + odd sin(q w_m) for q = p - (count-1)/2, p < length; (length, k).

    p = a + b with a in steps: two short tables of angles and one matrix product per component.
    """
    stride = 2 ** ((length - 1).bit_length() + 1 >> 1)
    device = inv_freq.device
    starts = torch.arange(0, length, stride, device=device)
    cos, sin = _cos_sin(2 * starts - (count - 1), inv_freq / 2)
    low = torch.cat(_cos_sin(torch.arange(stride, device=device), inv_freq), 1)
    even, odd = even_axes.T[:, None], odd_axes.T[:, None]
    high = torch.cat([even * cos + odd * sin, odd * cos - even * sin], 2)
    return (high @ low.T).flatten(1)[:, :length].T
