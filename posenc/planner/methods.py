"""The methods to read a longer context with RoPE, how ready each is at a factor, and their ranking."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from posenc.planner.evidence import EVIDENCE, Evidence, MeasuredRatio
from posenc.schemes import SCHEMES
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import ScaledRopeConfig
from posenc.schemes.rope_scaling.ntk import RopeDynamicConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig

MEASURED_LIMIT = 2.0  # ratio of perplexities from which small models contradict a source
CONFIGURED, CONFIGURED_LABEL = "configured", "As configured"  # a model's own scaling


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to read a longer context.

    name: its key in METHODS. label: its name in sentences. evidence: what its sources say. scaling: class
    of the config that reads the target; None for unscaled frequencies, as trained or of another base.
    """

    name: str
    label: str
    evidence: Evidence
    scaling: type[ScaledRopeConfig] | None = None

    @property
    def advanced(self) -> bool:
        """Whether it is of interest for its formula only."""
        return self.scaling is not None and self.scaling.advanced


def _unscaled(evidence: Evidence) -> Method:
    return Method(name="none", label="Unscaled", evidence=evidence)


UNSCALED = _unscaled(EVIDENCE["none"])
NO_NEW_DISTANCE = _unscaled(
    Evidence(
        training="trained",
        statement="No distance occurs that training did not show.",
        source="computed",
    )
)
NEW_LENGTH = _unscaled(
    Evidence(
        training="new length",
        statement="No distance occurs that training did not show, but no training on texts of this length "
        "is known here.",
        source="computed",
    )
)
LARGER_BASE = Method(name="base", label="Larger base", evidence=EVIDENCE["base"])


def as_configured(target: int, own: int | None, *, was_trained: bool) -> Method:
    """Return the scaling that a model's own config has, as a method.

    own: tokens that the scaling is made for. was_trained: whether training with it may be taken from the
    config.
    """
    length = f"of {own:,} tokens" if own else "that its config does not name"
    known = "is taken from its config" if was_trained else "is not known"
    inside: Literal["trained", "made"] = "trained" if was_trained else "made"
    return Method(
        name=CONFIGURED,
        label=CONFIGURED_LABEL,
        evidence=Evidence(
            training=inside if own is not None and target <= own else "unknown",
            statement=f"The model's own scaling, for a context {length}; that it was trained so {known}.",
            source="its config",
        ),
    )


def scaled_length(scheme: RopeConfig) -> int:
    """Return the tokens that a scaling by the ratio of two lengths is made for, 0 for other scalings."""
    return round(scheme.factor * scheme.trained_length) if isinstance(scheme, RopeYarnConfig) else 0


_SCALINGS = (
    Method(
        name=kind.removeprefix("rope_"),
        label=config.scaling_name[:1].upper() + config.scaling_name[1:],
        evidence=EVIDENCE[kind],
        scaling=config,
    )
    for kind, config in SCHEMES.items()
    if kind in EVIDENCE and issubclass(config, ScaledRopeConfig)
)
METHODS: dict[str, Method] = {method.name: method for method in (UNSCALED, *_SCALINGS, LARGER_BASE)}
# What the library, the command and the page compare unless they are asked for others.
DEFAULT_METHODS = tuple(name for name, method in METHODS.items() if not method.advanced)


def scaled_for(
    scaling: type[ScaledRopeConfig],
    trained: RopeConfig,
    *,
    text: int,
    reach: int,
    trained_length: int,
) -> RopeConfig | None:
    """Return the config that reads a text with weights of `trained`; None if the scaling has none.

    reach: how many tokens of the text a query sees, which a layer's window limits.
    """
    if scaling is not RopeDynamicConfig:
        return scaling.extending(trained, reach, trained_length)
    # Dynamic NTK depends on the length of the text, whatever a query sees of it. With factor 1 the base
    # grows by n / L (Peng et al. 2023, section 3.3); a larger factor divides the slowest pair by more.
    config = scaling.extending(trained, text, trained_length)
    return None if config is None else config.replace(factor=1.0)


class Readiness(StrEnum):
    """How ready a method is for use at a factor, the most ready first."""

    OWN_SCALING = "trained for this length"
    RECOMMENDED = "recommended for such models"
    MADE = "made for this length, not known to be trained"
    UNTRAINED = "tested without training"
    TRAINED = "needs fine-tuning"
    NEW_LENGTH = "no new distance, untrained length"
    UNREPORTED = "not reported to work"
    PAST = "past its context"
    FAILS = "fails past the trained length"


# What the model's config or its makers name for a length, whatever angles it meets.
BEST = (Readiness.OWN_SCALING, Readiness.RECOMMENDED, Readiness.MADE)
_AT_ANY_FACTOR = {
    "trained": Readiness.OWN_SCALING,
    "made": Readiness.MADE,
    "new length": Readiness.NEW_LENGTH,
    "unknown": Readiness.PAST,
    "fails": Readiness.FAILS,
}

RANKING = (
    "Methods are ranked by three criteria: whether the model's config or its makers name the method, "
    "how many pairs reach angles unseen in training, and what sources report at this factor."
)
RANKING_RULES = (
    "First: what the model was trained with for this length, by its config; then the scaling that the "
    "makers of such models recommend without training; then the config's own scaling, where it is made for "
    "this length and training with it is not known.",
    "Next: methods under which no pair meets angles unseen in training, then methods under which some do.",
    "Within each of these two groups, by evidence: a source reports that it works without training at this "
    f"factor, and small models measured here stay under {MEASURED_LIMIT:g} times their perplexity, where "
    "they were measured; a source fine-tuned to this factor; no source reports it at this factor; the "
    "scaling of the config, past its context.",
    "Ties: fewer pairs at unseen angles, then less change of the logit within the trained length.",
    "Last: unscaled past the trained length.",
    "Nobody measured the quality after fine-tuning here, so the order of methods that need it is a guess "
    "from formulas.",
)


def readiness(
    evidence: Evidence, factor: float, *, recommended: bool, measured: Sequence[MeasuredRatio]
) -> Readiness:
    """Return how ready a method is. measured: its ratios at the factor, one per training length."""
    if recommended:
        return Readiness.RECOMMENDED
    if evidence.training in _AT_ANY_FACTOR:
        return _AT_ANY_FACTOR[evidence.training]
    confirmed = all(ratio.mean < MEASURED_LIMIT for ratio in measured)
    if factor <= evidence.untrained_to and confirmed:
        return Readiness.UNTRAINED
    return Readiness.TRAINED if factor <= evidence.trained_to else Readiness.UNREPORTED


def sort_key(status: Readiness, unseen: int, short: float) -> tuple[int, bool, int, int, float]:
    """Return the sort key of RANKING_RULES. unseen: pairs at unseen angles. short: change in short text."""
    best, last = status in BEST, status is Readiness.FAILS
    others = not (best or last)
    group = 0 if best else 2 if last else 1
    return group, others and unseen > 0, list(Readiness).index(status), unseen, short
