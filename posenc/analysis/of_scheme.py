"""What a query asks of one scheme: its similarity, its principal components, its properties.

The same numbers that the pages of the dashboard show, each by one call.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.analysis import properties, similarity
from posenc.analysis.pca import Projection, project, project_gram
from posenc.errors import NoPositionVectors, NotStationary
from posenc.kernel import offset_curve, position_kernel, position_vectors
from posenc.schemes.base import VectorScheme
from posenc.settings import Query, known

MAX_VECTOR_WIDTH = 512  # wider vectors are projected through their inner products
MEASURED_PRODUCTS = 2**28  # distances come from the vectors themselves up to this much work


@dataclass(frozen=True, eq=False)
class SchemeSimilarity:
    """Similarity of a scheme's n positions: of every two, and by their distance.

    cosine: (2n-1,) by offset where that says it all, else (n, n). offsets: 0 .. n-1, query minus key.
    mean, spread: along each diagonal. low, high: its lowest and highest entry, for a mean of heads the
    lowest and highest head. undefined: positions whose vector is zero or not finite.
    """

    cosine: Tensor
    offsets: Int[Tensor, " n"]
    mean: Float[Tensor, " n"]
    spread: Float[Tensor, " n"]
    low: Float[Tensor, " n"]
    high: Float[Tensor, " n"]
    undefined: int


def kernel_values(query: Query, device: torch.device | str = "cpu") -> Tensor:
    """Return the position kernel over the positions that have a value, float64, on a device.

    (2n-1,) by offset where one curve says it all, else (n, n).
    """
    scheme = query.build(device)
    length = known(scheme, query.length)
    try:
        return offset_curve(scheme, length, head=query.head, dtype=query.dtype, device=device)
    except NotStationary:
        return position_kernel(scheme, length, head=query.head, dtype=query.dtype, device=device)


def scheme_similarity(query: Query, values: Tensor | None = None) -> SchemeSimilarity:
    """Return the similarity of a scheme's positions. values: what `kernel_values` gave, if at hand."""
    values = kernel_values(query) if values is None else values
    if values.ndim == 1:
        cosine = similarity.cosine_curve(values)
        profile = similarity.similarity_by_offset(curve=cosine, side="before")
        low, high = _over_heads(query, profile.offsets) or (profile.low, profile.high)
        undefined = 0
    else:
        scaled = similarity.cosine_matrix(values)
        cosine, undefined = scaled.values, scaled.undefined_count
        profile = similarity.similarity_by_offset(cosine, side="before")
        low, high = profile.low, profile.high
    return SchemeSimilarity(
        cosine, -profile.offsets, profile.mean, profile.spread, low, high, undefined
    )


def similarity_change(now: SchemeSimilarity, then: SchemeSimilarity, count: int) -> Tensor:
    """Return the cosine similarity of one minus that of another, (count, count), float64.

    NaN where either has no value.
    """
    return _square(now.cosine, count) - _square(then.cosine, count)


@dataclass(frozen=True, eq=False)
class SchemeProjection:
    """Positions on their principal components.

    scores: (n, k) in units of the vectors' root mean square norm. past: positions past the fitted
    range. rounded: whether the precision asked for had a part in it.
    """

    projection: Projection
    scores: Float[Tensor, "n k"]
    past: int
    rounded: bool


def scheme_projection(query: Query, fitted: int, components: int) -> SchemeProjection:
    """Return components fitted on the first `fitted` positions, all positions projected on them."""
    scheme = query.build("cpu")
    length = known(scheme, query.length)
    inside = min(fitted, length)
    dtype = query.dtype if isinstance(scheme, VectorScheme) else None
    if (
        isinstance(scheme, VectorScheme)
        and position_vectors(scheme, 1).shape[1] <= MAX_VECTOR_WIDTH
    ):
        vectors = position_vectors(scheme, length, dtype=dtype)
        found = project(vectors, components, fit=inside)
        size = vectors.square().sum(dim=1).nanmean().sqrt()
    else:
        # Wide vectors: the same scores from their inner products, in a fraction of the time. The
        # exponential of a rounded bias need not have vectors at all, so there it is not rounded.
        matrix = position_kernel(scheme, length, head=query.head, dtype=dtype)
        try:
            found = project_gram(matrix, components, fit=inside)
        except NoPositionVectors as refused:
            raise NoPositionVectors(f"{scheme.config.label}: {refused}") from None
        size = matrix.diagonal().nanmean().sqrt()
    return SchemeProjection(found, found.scores / size, length - inside, dtype is not None)


def scheme_properties(query: Query, values: Tensor | None = None) -> properties.Properties:
    """Return the measured properties of a scheme's positions. values: as in `scheme_similarity`."""
    values = kernel_values(query) if values is None else values
    arguments = {"curve" if values.ndim == 1 else "kernel": values}
    scheme = query.build("cpu")
    if not isinstance(scheme, VectorScheme):
        return properties.measure(**arguments)
    length = known(scheme, query.length)
    vectors = position_vectors(scheme, length, dtype=query.dtype)
    if length**2 * vectors.shape[1] <= MEASURED_PRODUCTS:
        return properties.measure(**arguments, vectors=vectors)
    # The distances of so many wide vectors come from the kernel; their entries are read all the same.
    low, high = vectors[vectors.isfinite().all(dim=1)].aminmax()
    return replace(properties.measure(**arguments), value_low=low.item(), value_high=high.item())


def _square(cosine: Tensor, count: int) -> Tensor:
    """Return the first `count` rows and columns, NaN past the last position."""
    if cosine.ndim == 1:
        middle = len(cosine) // 2
        size = min(count, middle + 1)
        matrix = similarity.expand_curve(cosine[middle - size + 1 : middle + size])
    else:
        matrix = cosine[:count, :count]
    whole = matrix.new_full((count, count), torch.nan)
    whole[: len(matrix), : len(matrix)] = matrix
    return whole


def _over_heads(query: Query, offsets: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the lowest and highest head at every offset beside a mean of heads, None elsewhere."""
    scheme = query.build("cpu")
    if query.head != "mean" or scheme.heads is None:
        return None
    zero = torch.zeros(1, dtype=torch.int64)
    heads = torch.stack(
        [
            scheme.offset_kernel(offsets, head, query.dtype)
            / scheme.offset_kernel(zero, head, query.dtype)
            for head in range(scheme.heads)
        ]
    )
    return heads.amin(dim=0), heads.amax(dim=0)
