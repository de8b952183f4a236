"""What can be read back from position vectors: the index, and the order of a pair.

Wang & Chen 2020 (What do position embeddings learn?, arXiv 2010.04903), section 4: a linear map from
the vector to its index, and a linear classifier of which of two positions comes first. Each is scored
on positions that it was not fitted on, beside vectors of random numbers of the same shape.
"""

import threading
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.properties import Properties, measure
from posenc.analysis.seeds import Seed, as_generator
from posenc.analysis.similarity import as_float64
from posenc.errors import SchemeArgumentError

FOLDS = 5
FEWEST_POSITIONS = 20
PAIRS = 4_096  # that the order is fitted on, and as many that it is scored on
_PENALTIES = (1e-6, 1e-4, 1e-2, 1.0, 100.0)
_MOST_POSITIONS = 2_048

_one_at_a_time = threading.Lock()


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


def probe(vectors: Float[Tensor, "n d"], *, seed: Seed = 0) -> Probes:
    """Read indices and orders back from the vectors of positions 0 .. n - 1.

    Rows after the first that is not finite, and after 2,048, are left out. Raises
    SchemeArgumentError for fewer than 20 rows.
    """
    rows = as_float64("vectors", vectors, "(n, d)").cpu()
    finite = rows.isfinite().all(1)
    rows = rows[: int(finite.long().cumprod(0).sum())][:_MOST_POSITIONS]
    if len(rows) < FEWEST_POSITIONS:
        raise SchemeArgumentError(
            f"vectors must have {FEWEST_POSITIONS} finite rows or more from the first on, "
            f"got {len(rows)}."
        )
    generator = as_generator(seed)
    noise = torch.randn(rows.shape, generator=generator, dtype=torch.float64)
    order = torch.randperm(len(rows), generator=generator).numpy()
    folds = np.array_split(order, FOLDS)
    drawn = np.random.default_rng(int(torch.randint(2**31, (), generator=generator)))
    from threadpoolctl import threadpool_limits

    readings = []
    # So small products gain nothing from threads, which wait for each other on a busy machine.
    # The limit is the process's: two at once would each restore what the other had set.
    with _one_at_a_time, threadpool_limits(1):
        for given in (rows.numpy(), noise.numpy()):
            readings.append((_index_error(given, folds), _order_told(given, order, drawn)))
    (index, told), (index_control, told_control) = readings
    positions = np.arange(len(rows))
    return Probes(
        len(rows),
        Reading(index, index_control),
        float(np.abs(positions - positions.mean()).mean()),
        Reading(told, told_control),
        measure(vectors=rows),
        measure(vectors=noise),
    )


def _index_error(rows: "np.ndarray[tuple[int, int], np.dtype[np.float64]]", folds: list) -> float:
    from sklearn.linear_model import RidgeCV

    index = np.arange(len(rows))
    errors = []
    for left_out in folds:
        kept = np.setdiff1d(index, left_out)
        scale = float(rows[kept].std()) or 1.0
        fitted = RidgeCV(alphas=np.array(_PENALTIES) * len(kept)).fit(rows[kept] / scale, kept)
        errors.append(np.abs(fitted.predict(rows[left_out] / scale) - left_out))
    return float(np.concatenate(errors).mean())


def _order_told(
    rows: "np.ndarray[tuple[int, int], np.dtype[np.float64]]",
    order: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    drawn: np.random.Generator,
) -> float:
    from sklearn.linear_model import LogisticRegression

    half = len(order) // 2
    scale = float(rows.std()) or 1.0
    features, labels = [], []
    for part in (order[:half], order[half:]):
        first = drawn.choice(part, PAIRS)
        second = drawn.choice(part, PAIRS)
        apart = first != second
        first, second = first[apart], second[apart]
        features.append((rows[second] - rows[first]) / scale)
        labels.append(second > first)
    fitted = LogisticRegression(max_iter=1_000, fit_intercept=False).fit(features[0], labels[0])
    return float(fitted.score(features[1], labels[1]))
