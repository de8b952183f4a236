"""How ready a method is at a factor: the classes, their thresholds, and the order of the ranking."""

from collections.abc import Sequence
from enum import StrEnum

from posenc.model_evidence import ModelEvidence
from posenc.planner.measured import RUNS, MeasuredRatio
from posenc.schemes import SCHEMES
from posenc.schemes.known_rope import Evidence
from posenc.words import times

MEASURED_LIMIT = 2.0  # times the perplexity at the training length, of small models measured here


class Readiness(StrEnum):
    """What is said of using a method at a factor, the most ready first."""

    MADE = "made for it"
    RECOMMENDED = "recommended for such models"
    UNTRAINED = "tested without training"
    TRAINED = "needs fine-tuning"
    NEW_LENGTH = "no new distance, untrained length"
    UNREPORTED = "not reported to work"
    PAST = "past its context"
    FAILS = "fails past the trained length"


_FIXED = {
    "trained": Readiness.MADE,
    "new length": Readiness.NEW_LENGTH,
    "untold": Readiness.PAST,
    "fails": Readiness.FAILS,
}
_KNOWN_GOOD = (Readiness.MADE, Readiness.RECOMMENDED)

RANKING = (
    "Ranked: what the model is made for, then what makers recommend for such models without training. "
    "Of the others, "
    "methods under which no pair meets angles unseen in training come before those under which some do; "
    "then what a source reports to work without training at this factor, as long as small models measured "
    f"here stay under {MEASURED_LIMIT:g} times their perplexity, where they were measured; then what a "
    "source fine-tuned to this factor; then what no source reports at this factor; then a scaling of the "
    "config past its context. Ties: fewer pairs at unseen angles, then less change of the logit within the "
    "trained length. Unscaled past the trained length comes last. Nobody measured the quality after "
    "fine-tuning here, so the order of methods that need it is a guess from formulas."
)


def readiness(
    evidence: Evidence, factor: float, *, recommended: bool, measured: Sequence[MeasuredRatio]
) -> Readiness:
    """Return the class of a method. measured: its ratios at the factor, of every training length."""
    if recommended:
        return Readiness.RECOMMENDED
    if evidence.training in _FIXED:
        return _FIXED[evidence.training]
    if factor <= evidence.untrained_to and all(one.mean < MEASURED_LIMIT for one in measured):
        return Readiness.UNTRAINED
    return Readiness.TRAINED if factor <= evidence.trained_to else Readiness.UNREPORTED


def described(found: Readiness, evidence: Evidence, factor: float) -> str:
    """Return a class in a few words, with the factor that the sources reach."""
    if found is Readiness.UNTRAINED:
        return f"tested to {times(evidence.untrained_to)} without training"
    if found is Readiness.TRAINED:
        return f"needs fine-tuning (done to {times(evidence.trained_to)})"
    if found is Readiness.UNREPORTED:
        return f"not reported to work at {times(factor)}"
    return found.value


def statements(
    evidence: Evidence,
    factor: float,
    measured: Sequence[MeasuredRatio],
    advice: ModelEvidence | None,
) -> tuple[tuple[str, str], ...]:
    """Return each statement about a method at a factor with its source: published, measured, makers'."""
    found = [(evidence.statement, evidence.source)]
    if measured:
        read = "read so"
        if evidence.measured_as:
            same = SCHEMES[evidence.measured_as].reading
            read = f"read with {same} scaling, which has the same frequencies at this length"
        where = measured_at_words(measured, factor)
        ratios = " and ".join(one.said for one in measured)
        said = (
            f"Measured here, small byte-level language models with RoPE, {read} without training: at "
            f"{where}, the perplexity is {ratios} that at the training length."
        )
        found.append((said, RUNS))
    if advice is not None:
        found.append((advice.statement, advice.source))
    return tuple(found)


def measured_at_words(measured: Sequence[MeasuredRatio], factor: float) -> str:
    """Return the factor that was measured, and which it is where that is not the one asked for."""
    at = max(one.factor for one in measured)
    if at == factor:
        return times(at)
    return f"{times(at)}, the {'next' if at > factor else 'largest'} factor that was measured"


def rank(found: Readiness, unseen: int, short: float) -> tuple[int, bool, int, int, float]:
    """Return the sort key of RANKING. unseen: pairs at unseen angles. short: change in short texts."""
    group = 0 if found in _KNOWN_GOOD else 2 if found is Readiness.FAILS else 1
    return group, group == 1 and unseen > 0, list(Readiness).index(found), unseen, short
