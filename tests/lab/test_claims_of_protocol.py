"""Claims on trained models with the protocol's runs: the largest table, judged by intervals."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from posenc.claims import training
from posenc.claims.claim import Status, Verdict
from posenc.lab import Run, Score, Specification, Store
from posenc.lab.evaluate import TRAINED
from posenc.lab.protocol import read_protocol
from posenc.schemes.sizes import Sizes

SIZES = Sizes(dim=64, base=10_000.0, heads=4, train_length=64)
Loss = Callable[[str, int, int], float]  # of a kind, a seed and a context


@pytest.fixture(scope="module")
def planned() -> list[Specification]:
    protocol = read_protocol()
    return [*protocol.planned("code"), *protocol.planned("steps")]


@pytest.fixture
def fill(
    planned: list[Specification], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Loss], None]:
    """Return what stores the runs of the table; those of the part with fewer steps are all far off."""

    def store_runs(loss: Loss) -> None:
        store = Store(tmp_path)
        for one in planned:
            kind = one.scheme.kind
            if kind in ("learned", "sinusoidal", "rope", "alibi"):
                off = 0.0 if one.steps == 1_200 else 5.0
                scores = tuple(
                    Score("context", TRAINED, x, loss(kind, one.seed, x) + off, 8)
                    for x in (64, 128, 1_024)
                    if x == 64 or kind != "learned"
                )
                store.add(Run(one, None, 1.0, scores, (1.0,)), {})
        monkeypatch.setattr(training, "STORE", str(tmp_path))
        training._runs_of_protocol.cache_clear()

    return store_runs


def verdict(name: str) -> Verdict:
    found: Verdict = getattr(training, name)(SIZES)
    return found


def gaps(spread: float) -> list[float]:
    return [spread * step for step in (-2, -1, 0, 1, 2)]


@pytest.mark.parametrize(
    ("mean", "spread", "status"),
    [
        (0.01, 0.005, Status.HOLDS_HERE), (0.03, 0.03, Status.UNDECIDED), (-0.2, 0.01, Status.NOT_HERE),
        (0.2, 0.5, Status.UNDECIDED),
    ],
)  # fmt: skip
def test_learned_and_sinusoidal_are_judged_by_the_interval_of_their_difference(
    mean: float, spread: float, status: Status, fill: Callable[[Loss], None]
) -> None:
    own = gaps(spread)
    fill(lambda kind, seed, x: 1.3 + 0.1 * seed + (mean + own[seed]) * (kind == "learned"))
    found = verdict("alike")
    interval = scipy.stats.ttest_1samp(np.array(own) + mean, 0).confidence_interval(0.95)
    assert found.status == status
    assert (
        f"is {mean:+.4f} nats (95% interval {interval.low:+.4f} to {interval.high:+.4f})"
        in found.sentence
    )
    assert "best for it in a sweep with fewer steps: 0.002 and 0.002." in found.sentence
    assert "means of 5 seeds" in found.sentence


@pytest.mark.parametrize(
    ("rise", "spread", "status"),
    [
        (0.02, 0.004, Status.HOLDS_HERE), (0.07, 0.004, Status.PARTLY), (0.5, 0.01, Status.NOT_HERE),
        (0.09, 0.05, Status.UNDECIDED),
    ],
)  # fmt: skip
def test_extrapolation_is_judged_by_the_interval_of_the_rise(
    rise: float, spread: float, status: Status, fill: Callable[[Loss], None]
) -> None:
    own = gaps(spread)
    fill(lambda kind, seed, x: 1.3 + 0.1 * seed + (rise + own[seed]) * (x == 1_024))
    for name in ("rope_extrapolates", "sinusoids_extrapolate", "alibi_extrapolates"):
        found = verdict(name)
        assert found.status == status
        assert "means of 5 seeds" in found.sentence
        assert "1,200 training steps" in found.sentence
