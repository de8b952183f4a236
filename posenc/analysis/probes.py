"""Position decoded from vectors: the index of one, the order of two.

Wang & Chen 2020 (What do position embeddings learn?, arXiv 2010.04903), section 4: a linear map from
the vector to its index, and a linear classifier of which of two positions comes first. Each is scored
on positions that it was not fitted on, next to a control: random numbers of the same shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.inputs import Seed, as_float64, as_generator
from posenc.analysis.properties import Properties, measure
from posenc.errors import SchemeArgumentError
from posenc.limits import MAX_PROBED_POSITIONS
from posenc.notebook import Shown, View, numbers_of, title_of

FOLDS = 5
FEWEST_POSITIONS = 20
PAIRS = 4_096  # that the order is fitted on, and as many that it is scored on
PENALTIES = (1e-6, 1e-4, 1e-2, 1.0, 100.0)  # times the positions, of vectors scaled to unit numbers

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ProbeScore(Shown):
    """A score of the vectors, and of random numbers of the same shape."""

    value: float
    control: float


@dataclass(frozen=True)
class Probes(Shown):
    """Accuracy of decoding position from vectors.

    positions: rows that were used, the first ones. index_error: mean absolute error, in positions, of
    ridge regressions from the vector to the index, over folds that were left out; always guessing the
    middle has the error `guessing`. order_accuracy: share of pairs of left-out positions that a logistic
    regression on the difference of their vectors orders right; chance is one half. properties:
    translation invariance, monotonicity and the rest of `measure`; of the control, too.
    """

    positions: int
    index_error: ProbeScore
    guessing: float
    order_accuracy: ProbeScore
    properties: Properties
    control_properties: Properties

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self)
            | {
                "index error": self.index_error.value,
                "index error, control": self.index_error.control,
                "order accuracy": self.order_accuracy.value,
                "order accuracy, control": self.order_accuracy.control,
            },
        )


def probe(vectors: Float[Tensor, "n d"], *, seed: Seed = 0) -> Probes:
    """Return how well indices and orders are decoded from the vectors of positions 0 .. n - 1.

    Rows after the first that is not finite, and after 1,024, are left out. Raises
    SchemeArgumentError for fewer than 20 rows.
    """
    return probe_each([vectors], seed=seed)[0]


def probe_each(tables: Sequence[Float[Tensor, "n d"]], *, seed: Seed = 0) -> tuple[Probes, ...]:
    """Probe tables of one shape on the same splits, with the same control; see `probe`.

    All are cut to the rows that are finite in each. Raises SchemeArgumentError.
    """
    tables = [as_float64("vectors", table, "(n, d)").cpu() for table in tables]
    if len({table.shape for table in tables}) != 1:
        raise SchemeArgumentError("vectors that are probed together must have one shape.")
    finite = torch.stack([table.isfinite().all(1) for table in tables]).all(0)
    count = min(int(finite.long().cumprod(0).sum()), MAX_PROBED_POSITIONS)
    if count < FEWEST_POSITIONS:
        raise SchemeArgumentError(
            f"Probes need {FEWEST_POSITIONS} finite rows or more from the first on, got {count}."
        )
    generator = as_generator(seed)
    noise = torch.randn(count, tables[0].shape[1], generator=generator, dtype=torch.float64)
    order = torch.randperm(count, generator=generator)
    pairs = [
        half[torch.randint(len(half), (2, PAIRS), generator=generator)]
        for half in (order[: count // 2], order[count // 2 :])
    ]
    pairs = [pair[:, pair[0] != pair[1]] for pair in pairs]
    control_error, control_accuracy = _scores(noise, order, pairs)
    control_properties = measure(vectors=noise)
    guessing = float((torch.arange(count) - (count - 1) / 2).abs().mean())
    probes = []
    for table in tables:
        rows = table[:count]
        error, accuracy = _scores(rows, order, pairs)
        probes.append(
            Probes(
                positions=count,
                index_error=ProbeScore(error, control_error),
                guessing=guessing,
                order_accuracy=ProbeScore(accuracy, control_accuracy),
                properties=measure(vectors=rows),
                control_properties=control_properties,
            )
        )
    return tuple(probes)


def _scores(rows: Tensor, order: Tensor, pairs: Sequence[Tensor]) -> tuple[float, float]:
    """Index error and order accuracy of a table; order: its positions, of which half are fitted.

    pairs: positions (2, m), first of the fitted half, then of the other.
    """
    scaled = rows / (float(rows.std(correction=0)) or 1.0)
    # Weights with a penalty lie in the span of the rows they are fitted on: of wide rows that part is
    # enough, which saves most of the time.
    if scaled.shape[1] > len(scaled):
        scaled = torch.linalg.qr(scaled.T).R.T
    half, spanned = order[: len(order) // 2], scaled
    if scaled.shape[1] > len(half):
        spanned = scaled @ torch.linalg.qr(scaled[half].T).Q
    folds = order.tensor_split(FOLDS)
    return _index_error(scaled.numpy(), folds), _order_accuracy(spanned.numpy(), pairs)


def _index_error(rows: Array, folds: Sequence[Tensor]) -> float:
    """Mean absolute error of ridge regressions, each on all folds but one.

    The penalty is the one with the smallest squared error of leaving one more row out.
    """
    from sklearn.linear_model import RidgeCV

    index, error = np.arange(len(rows)), 0.0
    for fold in folds:
        fitted = np.setdiff1d(index, fold)
        ridge = RidgeCV(np.array(PENALTIES) * len(rows)).fit(rows[fitted], fitted)
        error += float(np.abs(ridge.predict(rows[fold]) - index[fold]).sum())
    return error / len(rows)


def _order_accuracy(rows: Array, pairs: Sequence[Tensor]) -> float:
    """Share of the second half's pairs that a logistic regression on the first half's orders right."""
    from sklearn.linear_model import LogisticRegression

    (fitted, later), (scored, truth) = (
        (rows[second] - rows[first], (second > first).numpy()) for first, second in pairs
    )
    logistic = LogisticRegression(fit_intercept=False, solver="newton-cholesky", tol=1e-8)
    return float(logistic.fit(fitted, later).score(scored, truth))
