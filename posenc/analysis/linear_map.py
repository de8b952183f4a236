"""One matrix per offset: is phi(i + k) = M_k phi(i) with one M_k for every position i?

Vaswani et al. 2017, section 3.5, arXiv 1706.03762. The closed form, the error of any such matrix,
and what can be said from that error; fits are in linear_map_fit.py.
Axes: n positions, d width. An error of a map is ||phi(i+k) - M phi(i)||_F / ||phi(i+k)||_F over the
positions named; predicting zero gives 1. Vectors are columns in M phi and rows in a table.
"""

import warnings
from enum import StrEnum

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.analysis.arguments import as_float64
from posenc.analysis.spectrum import as_inv_freq, cos_sin
from posenc.errors import SchemeArgumentError, shown
from posenc.layout import Layout
from posenc.limits import check_count
from posenc.offset_maps import First, pair_matrix


class Verdict(StrEnum):
    """What can be said of one matrix per offset."""

    EXACT = "exact in d dimensions"
    EXPANDING = (
        "exact, but every position adds a dimension, so seen positions do not predict later ones"
    )
    NONE = "no such matrix"


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
    last `tail` numbers do not turn (partial rotary width). The offset may be negative. Above 512
    features the matrix is a sparse COO tensor.
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
    sources = finite_pairs(vectors, offset)
    read, written = vectors[sources], vectors[sources + offset]
    fits = ~(read[:, inputs:].any(1) | written[:, outputs:].any(1))
    if not fits.any():
        raise SchemeArgumentError(
            f"no pair of finite positions {offset:,} apart fits the matrix of shape "
            f"{tuple(matrix.shape)}."
        )
    target = written[fits, :outputs]
    return relative_norm(target - (matrix @ read[fits, :inputs].T).T, target)


def composition_error(
    first: Float[Tensor, "a b"], second: Float[Tensor, "b c"], both: Float[Tensor, "a c"]
) -> float:
    """||first second - both||_F / ||both||_F: does M_a M_b equal M_(a+b)? 0 is exact.

    Each may be a sparse COO tensor, as `block_rotation` gives for wide vectors.
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
        product = first @ second
    if not (product.is_sparse and both.is_sparse):
        return relative_norm(product.to_dense() - both.to_dense(), both.to_dense())
    # Entries that are not stored are 0 and add nothing to a norm.
    gap = (product - both).coalesce()
    return relative_norm(gap.values(), both.coalesce().values())


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
    for name, number in (("map_error", map_error), ("tolerance", tolerance)):
        if not isinstance(number, int | float) or not number >= 0:
            raise SchemeArgumentError(
                f"{name} must be a number of at least 0, got {shown(number)}."
            )
    check_count("dimension", dimension, 0, 2**62)
    check_count("dimension_at_double", dimension_at_double, 0, 2**62)
    if map_error > tolerance:
        return Verdict.NONE, str(Verdict.NONE)
    if dimension_at_double > dimension:
        return Verdict.EXPANDING, str(Verdict.EXPANDING)
    return Verdict.EXACT, f"exact in {dimension:,} dimensions"


def finite_pairs(vectors: Float[Tensor, "n d"], offset: int) -> Int[Tensor, " m"]:
    """Positions i for which rows i and i + offset exist and are finite."""
    check_count("offset", offset, -(2**31) + 1, 2**31 - 1)
    count = len(vectors)
    finite = vectors.isfinite().all(1)
    sources = torch.arange(max(0, -offset), max(0, min(count, count - offset)))
    sources = sources.to(vectors.device)
    return sources[finite[sources] & finite[sources + offset]]


def relative_norm(gap: Tensor, target: Tensor) -> float:
    """||gap||_F / ||target||_F; 0 where there is no gap."""
    size, scale = torch.linalg.vector_norm(gap), torch.linalg.vector_norm(target)
    return 0.0 if size == 0 else (size / scale).item()
