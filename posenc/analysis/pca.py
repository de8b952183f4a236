"""Principal components of position vectors, from the vectors or from a kernel alone.

`project` takes the vectors (n, d), `project_gram` a kernel (n, n) whose vectors are too wide to
store (ALiBi). Components are fitted on some rows; every other row is projected on the same axes.

Sign convention, on scores so that both share it: in each component the first fitted row whose
score reaches 37 % of the largest is positive. The largest score itself would not do: tables that
depend on the offset alone have components that are odd about the middle, where two scores of
opposite sign tie for largest. Components of equal variance have no order or direction of their own.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from posenc.analysis.inputs import as_float64, as_kernel
from posenc.errors import NoPositionVectors, SchemeArgumentError
from posenc.kernel import position_kernel, position_vectors
from posenc.limits import MAX_DIM, check_count
from posenc.notebook import Column, Shown, View, numbers_of, title_of
from posenc.schemes.base import Request, VectorScheme, check_request

MAX_VECTOR_WIDTH = 512  # wider vectors are projected through their inner products
_SIGN_SHARE = 0.37  # no cosine of a simple fraction of a turn, so that structured tables miss it
_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class Projection(Shown):
    """Rows of a table on their principal components.

    `scores` (n, k): coordinates, in the vectors' unit; NaN for a missing row.
    `components` (k, d): unit axes, and `mean` (d,): the origin; None when there are no vectors.
    `explained_variance_ratio` (k,): variance of the fitted scores over that of the fitted rows; 0
    when the rows do not differ.
    `all_variance_ratios` (r,): the same of every component there is, also of those without scores.
    `rank`: components whose variance is above rounding; those after it are all zero.
    `fitted` (n,), `missing` (n,): rows that set the axes, rows that are not finite.
    """

    scores: Float[Tensor, "n k"]
    components: Float[Tensor, "k d"] | None
    mean: Float[Tensor, " d"] | None
    explained_variance_ratio: Float[Tensor, " k"]
    all_variance_ratios: Float[Tensor, " r"]
    rank: int
    fitted: Bool[Tensor, " n"]
    missing: Bool[Tensor, " n"]

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self)
            | {f"PC{k}, share": r for k, r in enumerate(self.explained_variance_ratio.tolist(), 1)},
            columns=_columns(self.scores),
            x="PC1",
            lines=("PC2",) if self.scores.shape[1] > 1 else (),
            dots=True,
        )


@dataclass(frozen=True, eq=False)
class SchemeProjection(Shown):
    """A scheme's positions on their principal components.

    `scores` (n, k): in units of the vectors' root mean square norm. `past`: positions past the
    fitted range. `rounded`: whether the precision asked for had an effect.
    """

    projection: Projection
    scores: Float[Tensor, "n k"]
    past: int
    rounded: bool

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers={**self.projection.view().numbers, **numbers_of(self)},
            columns=_columns(self.scores),
            x="PC1",
            lines=("PC2",) if self.scores.shape[1] > 1 else (),
            dots=True,
        )


def _columns(scores: Float[Tensor, "n k"]) -> dict[str, Column]:
    """Return scores by position as columns PC1 .. PCk."""
    parts = enumerate(scores.unbind(dim=1), start=1)
    return {"position": range(len(scores)), **{f"PC{number}": part for number, part in parts}}


def project(
    vectors: Float[Tensor, "n d"], components: int = 3, fit: int | None = None
) -> Projection:
    """Return the principal components of the rows of `vectors` (n, d), in float64.

    `fit`: how many of the first rows set the axes, None for all; the others are projected on the
    same axes. Rows that are not finite are left out and labelled.
    A component whose variance is below max(n, d) * eps of the first's is rounding: it and those
    after it are zero.
    Raises SchemeArgumentError when no finite row is left to fit, or for a bad `components` or
    `fit`.
    Source: Pearson 1901; solvers of scikit-learn's PCA.
    """
    from sklearn.decomposition import PCA

    vectors = as_float64("vectors", vectors, "(n, d)")
    check_count("components", components, 1, MAX_DIM)
    missing = ~vectors.isfinite().all(1)
    fitted = _fitted_rows(fit, missing)
    # scikit-learn subtracts the mean after the product, which costs tables far from the origin their
    # digits: rows are centred first. The first one as origin makes constant columns exactly zero.
    # Squares of numbers near the limits of float64 overflow: scaled by a power of two, which is exact.
    peak = float(vectors[~missing].abs().amax())
    scale = 2.0 ** (math.frexp(peak)[1] - 1) if peak > 1e100 or 0 < peak < 1e-100 else 1.0
    vectors = vectors / scale
    origin = vectors[fitted][0]
    rows = vectors - origin
    drift = rows[fitted].mean(0)
    rows -= drift
    chosen = rows[fitted]
    count, width = chosen.shape
    size = min(components, max(count - 1, 1), width)
    axes, variance = rows.new_zeros(size, width), rows.new_zeros(min(count, width))
    if chosen.any():
        # "auto" may pick a randomised solver, whose later components are wrong.
        solver = "covariance_eigh" if count >= width else "full"
        pca = PCA(svd_solver=solver).fit(chosen.cpu().numpy())
        axes = torch.from_numpy(pca.components_[:size]).to(rows.device)
        variance = torch.from_numpy(pca.explained_variance_).to(rows.device)
    rank = int((variance[:size] > max(count, width) * _EPS * variance[0]).sum())
    scores = rows @ axes[:rank].T
    signs = _signs(scores[fitted])
    ratios = variance / (chosen.square().sum().item() / max(count - 1, 1) or 1.0)
    padding = (0, components - rank)
    return Projection(
        scores=pad(scores * signs * scale, padding).masked_fill(missing[:, None], torch.nan),
        components=pad(axes[:rank] * signs[:, None], (0, 0, *padding)),
        mean=(origin + drift) * scale,
        explained_variance_ratio=pad(ratios[:rank], padding),
        all_variance_ratios=ratios,
        rank=rank,
        fitted=fitted,
        missing=missing,
    )


def project_gram(
    kernel: Float[Tensor, "n n"], components: int = 3, fit: int | None = None
) -> Projection:
    """Return the principal components of the vectors behind a kernel (n, n), without the vectors.

    The eigenvectors of the doubly centred kernel give the scores that `project` gives for vectors
    with these inner products, signs included; other rows are projected through their kernel values.
    `fit` and the zero components are as in `project`. A row is missing where K(i, i) is not finite.
    Raises NoPositionVectors where the kernel is not symmetric (beyond 1e-10 of its largest entry)
    or has a negative eigenvalue; SchemeArgumentError as in `project`.
    Source: Torgerson 1952 (classical scaling); Schoelkopf et al. 1998 (projection of new points).
    """
    # Not scikit-learn's KernelPCA: it drops components whose variance is below 1e-12 of the first's.
    kernel = as_kernel(kernel)
    check_count("components", components, 1, MAX_DIM)
    missing = ~kernel.diagonal().isfinite()
    fitted = _fitted_rows(fit, missing)
    present = kernel[~missing][:, ~missing]
    peak = present.abs().amax()
    if not peak.isfinite():
        raise SchemeArgumentError("kernel must be finite wherever its diagonal is.")
    if (present - present.T).abs().amax() > 1e-10 * peak:
        raise NoPositionVectors(
            "This kernel is not symmetric, so it is no inner product and has no position vectors."
        )
    strip = kernel[fitted]
    row_mean = strip[:, fitted].mean(1)
    strip.sub_(strip.mean(0)).sub_((row_mean - row_mean.mean())[:, None])
    block = strip[:, fitted]
    count = len(block)
    degrees = max(count - 1, 1)  # the rank of a centred kernel
    size = min(components, degrees)
    values, axes = block.new_zeros(degrees), block.new_zeros(count, size)
    # What centring leaves of the rounding of entries as large as the peak.
    rounding = (count + 64) * _EPS * peak
    if block.abs().amax() > rounding:  # else all positions share one vector
        if torch.linalg.cholesky_ex(block + count * rounding * torch.eye(count).to(block)).info:
            raise NoPositionVectors(
                "This kernel has a negative eigenvalue, so it is no inner product and has no "
                "position vectors."
            )
        values, axes = torch.linalg.eigh(block)  # the smallest first
        values, axes = values.flip(-1)[:degrees], axes.flip(-1)[:, :size]
    ratios = values.clamp(min=0) / (values.sum() or 1.0)
    rank = int((values[:size] > torch.maximum(count * _EPS * values[0], rounding)).sum())
    values, axes = values[:rank], axes[:, :rank]
    scores = strip.T @ axes / values.sqrt()
    scores[fitted] = axes * values.sqrt()
    padding = (0, components - rank)
    scores = pad(scores * _signs(scores[fitted]), padding)
    return Projection(
        scores=scores.masked_fill(missing[:, None], torch.nan),
        components=None,
        mean=None,
        explained_variance_ratio=pad(ratios[:rank], padding),
        all_variance_ratios=ratios,
        rank=rank,
        fitted=fitted,
        missing=missing,
    )


def components_explaining(projection: Projection, share: float) -> int:
    """Return how many leading components together explain `share` of the variance, from 0 to 1.

    0 where the fitted rows do not differ.
    """
    if not 0 < share < 1:
        raise SchemeArgumentError(f"share must lie between 0 and 1, got {share!r}.")
    cumulative = projection.all_variance_ratios.cumsum(0)
    return int((cumulative < share).sum()) + 1 if cumulative.any() else 0


def scheme_projection(request: Request, fitted: int, components: int) -> SchemeProjection:
    """Return components fitted on the first `fitted` positions, all positions projected on them.

    Raises NoPositionVectors for a scheme without any.
    """
    check_request(request)
    scheme = request.build("cpu")
    length = scheme.positions_within(request.length)
    inside = min(fitted, length)
    stored = isinstance(scheme, VectorScheme)
    # The exponential of a rounded bias need not have vectors at all, so it is not rounded.
    dtype = request.dtype if stored else None
    if stored and position_vectors(scheme, 1).shape[1] <= MAX_VECTOR_WIDTH:
        vectors = position_vectors(scheme, length, dtype=dtype)
        projection = project(vectors, components, fit=inside)
        size = vectors.square().sum(dim=1).nanmean().sqrt()
    else:
        kernel = position_kernel(scheme, length, head=request.head, dtype=dtype)
        try:
            projection = project_gram(kernel, components, fit=inside)
        except NoPositionVectors as error:
            raise NoPositionVectors(f"{scheme.config.label}: {error}") from None
        size = kernel.diagonal().nanmean().sqrt()
    return SchemeProjection(
        projection, projection.scores / size, length - inside, dtype is not None
    )


def _fitted_rows(fit: int | None, missing: Tensor) -> Tensor:
    """Mask of the rows that set the axes."""
    fitted = ~missing
    if fit is not None:
        fitted[check_count("fit", fit, 1, len(missing)) :] = False
    if not fitted.any():
        raise SchemeArgumentError("projection needs at least one finite row to fit, got none.")
    return fitted


def _signs(scores: Tensor) -> Tensor:
    """The sign (k,) that the convention gives each column of the fitted rows' scores."""
    sizes = scores.abs()
    first = (sizes >= _SIGN_SHARE * sizes.amax(0)).to(torch.uint8).argmax(0)
    return scores.gather(0, first[None])[0].sign()
