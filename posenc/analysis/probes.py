"""What can be read back from position vectors: the index, and the order of a pair.

Wang & Chen 2020 (What do position embeddings learn?, arXiv 2010.04903), section 4: a linear map from
the vector to its index, and a linear classifier of which of two positions comes first. Each is scored
on positions that it was not fitted on, beside vectors of random numbers of the same shape. With a
penalty on squares both depend on the vectors by their products (n, n) alone, so width costs one product.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.analysis.inputs import Seed, as_float64, as_generator
from posenc.analysis.properties import Properties, measure
from posenc.errors import SchemeArgumentError
from posenc.limits import MAX_PROBED_POSITIONS

FOLDS = 5
FEWEST_POSITIONS = 20
PAIRS = 4_096  # that the order is fitted on, and as many that it is scored on
PENALTIES = (1e-6, 1e-4, 1e-2, 1.0, 100.0)  # times the positions, of vectors scaled to unit numbers
_STEPS = 60  # of Newton's method, which takes about ten


@dataclass(frozen=True)
class Reading:
    """How well something is read back, and how well from random numbers of the same shape."""

    value: float
    control: float


@dataclass(frozen=True)
class Probes:
    """What position vectors tell.

    positions: rows that were used, the first ones. index_error: mean distance in positions between the
    index and what a ridge regression on the vector says, over folds that were left out; guessing the
    middle always is `guessing`. order: share of pairs of left-out positions whose order a logistic
    regression on the difference of their vectors tells; chance is one half. properties: translation
    invariance, monotonicity and the rest of posenc.analysis.properties; of the random numbers, too.
    """

    positions: int
    index_error: Reading
    guessing: float
    order: Reading
    properties: Properties
    control_properties: Properties


class _Split(NamedTuple):
    """What is fitted and what is left out. folds: positions; pairs: (first, second) of each half."""

    folds: list[Tensor]
    halves: list[Tensor]
    pairs: list[tuple[Tensor, Tensor]]


class _Told(NamedTuple):
    index_error: float
    order: float
    properties: Properties


def probe(vectors: Float[Tensor, "n d"], *, seed: Seed = 0) -> Probes:
    """Read indices and orders back from the vectors of positions 0 .. n - 1.

    Rows after the first that is not finite, and after 1,024, are left out. Raises
    SchemeArgumentError for fewer than 20 rows.
    """
    return probe_each([vectors], seed=seed)[0]


def probe_each(tables: Sequence[Float[Tensor, "n d"]], *, seed: Seed = 0) -> tuple[Probes, ...]:
    """Probe tables of one shape on the same splits, beside the same random numbers; see `probe`.

    All are cut to the rows that are finite in each. Raises SchemeArgumentError.
    """
    given = [as_float64("vectors", one, "(n, d)").cpu() for one in tables]
    if len({one.shape for one in given}) != 1:
        raise SchemeArgumentError("vectors that are probed together must have one shape.")
    finite = torch.stack([one.isfinite().all(1) for one in given]).all(0)
    count = min(int(finite.long().cumprod(0).sum()), MAX_PROBED_POSITIONS)
    if count < FEWEST_POSITIONS:
        raise SchemeArgumentError(
            f"Probes need {FEWEST_POSITIONS} finite rows or more from the first on, got {count}."
        )
    generator = as_generator(seed)
    noise = torch.randn(count, given[0].shape[1], generator=generator, dtype=torch.float64)
    split = _split(count, generator)
    control = _told(noise, split)
    guessing = float((torch.arange(count) - (count - 1) / 2).abs().mean())
    return tuple(
        Probes(
            count,
            Reading(told.index_error, control.index_error),
            guessing,
            Reading(told.order, control.order),
            told.properties,
            control.properties,
        )
        for told in (_told(one[:count], split) for one in given)
    )


def _split(count: int, generator: torch.Generator) -> _Split:
    order = torch.randperm(count, generator=generator)
    halves = [order[: count // 2], order[count // 2 :]]
    pairs = []
    for half in halves:
        drawn = half[torch.randint(len(half), (2, PAIRS), generator=generator)]
        first, second = drawn[:, drawn[0] != drawn[1]]
        pairs.append((first, second))
    return _Split(list(order.tensor_split(FOLDS)), halves, pairs)


def _told(rows: Float[Tensor, "n d"], split: _Split) -> _Told:
    scaled = rows / (float(rows.std(correction=0)) or 1.0)
    products = scaled @ scaled.T
    return _Told(
        _index_error(products, split.folds),
        _order_told(products, split),
        measure(vectors=rows),
    )


def _index_error(products: Float[Tensor, "n n"], folds: list[Tensor]) -> float:
    """Return the mean error of ridge regressions with an intercept, each on all folds but one.

    The penalty is the one with the least squares of errors of leaving one more out. With M the part of
    [[K + penalty, 1], [1, 0]]^-1 that stands over K, what is left of left-out positions F is
    M_FF^-1 (M y)_F, and the M of the others is M_TT - M_TF M_FF^-1 M_FT.
    """
    count = len(products)
    index = torch.arange(count, dtype=torch.float64)
    ones, unit = torch.ones(count, 1, dtype=torch.float64), torch.eye(count, dtype=torch.float64)
    least = torch.full((len(folds),), torch.inf, dtype=torch.float64)
    errors = torch.zeros(len(folds), dtype=torch.float64)
    for penalty in PENALTIES:
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(products + penalty * count * unit))
        at_one = inverse @ ones
        inverse -= at_one @ at_one.T / at_one.sum()
        left = inverse @ index
        for fold, out in enumerate(folds):
            kept = torch.ones(count, dtype=torch.bool)
            kept[out] = False
            across = inverse[kept][:, out]
            solved = torch.linalg.solve(
                inverse[out][:, out], torch.cat((across.T, left[out, None]), 1)
            )
            off = solved[:, -1]
            alone = inverse.diagonal()[kept] - (across * solved[:, :-1].T).sum(1)
            loss = float(((left[kept] - across @ off) / alone).square().mean())
            if loss < least[fold]:
                least[fold], errors[fold] = loss, off.abs().sum()
    return float(errors.sum()) / count


def _order_told(products: Float[Tensor, "n n"], split: _Split) -> float:
    """Return the share of the second half's pairs that a logistic regression on the first half's tells.

    Penalty: half the squares of its weights, which are a sum of the first half's vectors; no intercept.
    """
    half, (fitted, scored) = split.halves[0], split.pairs
    place = torch.empty(len(products), dtype=torch.long)
    place[half] = torch.arange(len(half))
    pairs = place[fitted[0]], place[fitted[1]]
    score = products[:, half] @ _logistic(products[half][:, half], pairs, fitted[1] > fitted[0])
    told = score[scored[1]] > score[scored[0]]
    return float((told == (scored[1] > scored[0])).double().mean())


def _logistic(
    products: Float[Tensor, "h h"],
    pairs: tuple[Int[Tensor, " p"], Int[Tensor, " p"]],
    later: Bool[Tensor, " p"],
) -> Float[Tensor, " h"]:
    """Return the weight of every vector in the logistic regression on differences, by Newton's method."""
    first, second = pairs
    count = len(products)
    sign = torch.where(later, 1.0, -1.0).double()

    def gathered(values: Float[Tensor, " p"]) -> Float[Tensor, " h"]:
        zero = torch.zeros(count, dtype=torch.float64)
        return zero.index_add(0, second, values).index_add(0, first, -values)

    def loss(weights: Float[Tensor, " h"]) -> tuple[float, Float[Tensor, " p"]]:
        score = products @ weights
        margin = sign * (score[second] - score[first])
        penalty = float(weights @ score) / 2
        return float(torch.nn.functional.softplus(-margin).sum()) + penalty, margin

    weights = torch.zeros(count, dtype=torch.float64)
    least, margin = loss(weights)
    for _ in range(_STEPS):
        wrong = torch.sigmoid(-margin)
        curvature = wrong * (1 - wrong)
        between = torch.zeros(count, count, dtype=torch.float64)
        between.index_put_((first, second), curvature, accumulate=True)
        between = between + between.T
        between = torch.diag(between.sum(1)) - between
        slope = weights - gathered(sign * wrong)
        matrix = between @ products + torch.eye(count, dtype=torch.float64)
        step = torch.linalg.solve(matrix, -slope)
        size, before = 1.0, least
        while size > 1e-6:
            least, margin = loss(weights + size * step)
            if least <= before:
                break
            size /= 2
        weights = weights + size * step
        if before - least <= 1e-10 * before:
            break
    return weights
