"""The ways to read a longer context with RoPE, and what their sources say about training.

The formulas of scalings are in posenc/schemes/rope_scaling; EVIDENCE has what their sources say.

What this project measured of scalings without training: ratios of perplexity, read from its runs.

How ready a method is at a factor: the classes, their thresholds, and the order of the ranking.
"""

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from posenc.checkpoints.sources import RESULTS
from posenc.models.evidence import ModelEvidence
from posenc.schemes import SCHEMES
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import ScaledRopeConfig
from posenc.schemes.rope_scaling.ntk import RopeDynamicConfig
from posenc.text import counted, times

RUNS = "this project's runs, posenc/lab/results"

Training = Literal["trained", "fine-tuning", "new length", "untold", "fails"]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What sources say of reading a trained model so: `statement`, in sentences; `source`: where.

    training: what such a reading takes.
    untrained_to: the largest factor at which a source reports that it works without training; 0 for none.
    trained_to: the largest factor to which the sources trained a model with it; 0 for none.
    measured_as: kind of another scaling that has the same frequencies at the target, "" for none: what
    was measured with that one holds for this one.
    """

    training: Training
    statement: str
    source: str
    untrained_to: float = 0.0
    trained_to: float = 0.0
    measured_as: str = ""


@dataclass(frozen=True, kw_only=True)
class InCode:
    """Another scaling that public code computes under the name of a printed one.

    kind: of that scaling. rule: what to beware of, one sentence. source: where both stand.
    """

    kind: str
    rule: str
    source: str


@dataclass(frozen=True, kw_only=True)
class MeasuredRatio:
    """Perplexity of small RoPE models at a longer context over that at their training length.

    kind: of the scaling that they were read with; "rope" is RoPE as trained. train_length: in tokens.
    factor: the context over that length. seeds: how many models. mean: geometric, over the seeds;
    low, high: the lowest and the highest seed. Each seed is compared to itself.
    """

    kind: str
    train_length: int
    factor: float
    seeds: int
    mean: float
    low: float
    high: float

    @property
    def said(self) -> str:
        """The ratio in words."""
        return (
            f"{self.mean:.3g} times (geometric mean of {counted(self.seeds, 'seed')}, {self.low:.3g} to "
            f"{self.high:.3g}, trained on {self.train_length:,} bytes)"
        )


@functools.cache
def measured_ratios() -> tuple[MeasuredRatio, ...]:
    """Return every ratio of the language runs of plain RoPE that ship; none without the lab's packages."""
    try:
        from posenc.lab.evaluate import TRAINED
        from posenc.lab.runs import Store
        from posenc.lab.summary import comparison
    except ImportError:
        return ()
    kinds = {config.reading: kind for kind, config in SCHEMES.items() if config.reading}
    kinds[TRAINED] = "rope"
    store = Store(RESULTS)
    gained: dict[tuple[str, str, int, int], list[float]] = {}
    for run_id in store.ids():
        heading = store.heading(run_id)
        spec = heading.specification
        if heading.stopped or spec.task != "language" or spec.scheme.kind != "rope":
            continue
        scores = [one for one in store.read(run_id).scores if one.measure == "context"]
        length = spec.train_length
        own = next(one.value for one in scores if (one.variant, one.x) == (TRAINED, length))
        for one in scores:
            if one.x > length and one.variant in kinds:
                key = (comparison(spec), kinds[one.variant], length, one.x)
                gained.setdefault(key, []).append(one.value - own)
    return tuple(
        MeasuredRatio(
            kind=kind,
            train_length=length,
            factor=x / length,
            seeds=len(found),
            mean=math.exp(statistics.fmean(found)),
            low=math.exp(min(found)),
            high=math.exp(max(found)),
        )
        for (_, kind, length, x), found in sorted(
            gained.items(), key=lambda item: (item[0][2], item[0])
        )
    )


def measured_at(kind: str, factor: float) -> tuple[MeasuredRatio, ...]:
    """Return what was measured of a scaling at a factor, one ratio for each training length.

    Where the factor itself was not measured, that of the next larger one stands for it, and past the
    largest that of the largest.
    """
    by_length: dict[int, list[MeasuredRatio]] = {}
    for one in measured_ratios():
        if one.kind == kind:
            by_length.setdefault(one.train_length, []).append(one)
    return tuple(
        next((one for one in found if one.factor >= factor), found[-1])
        for found in by_length.values()
    )


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


CONFIGURED = "configured"  # the name of a model's own scaling, which nobody asks for


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to read a longer context.

    name: the word that asks for it. label: for people. evidence: what its source says about training.
    scaling: the config that reads the target; None for the ladder as trained, or of another base.
    """

    name: str
    label: str
    evidence: Evidence
    scaling: type[ScaledRopeConfig] | None = None

    @property
    def advanced(self) -> bool:
        """Whether it is for those who look into a formula itself."""
        return self.scaling is not None and self.scaling.advanced


def _of_scaling(kind: str, scaling: type[ScaledRopeConfig], evidence: Evidence) -> Method:
    label = scaling.reading[:1].upper() + scaling.reading[1:]
    return Method(name=kind.removeprefix("rope_"), label=label, evidence=evidence, scaling=scaling)


UNSCALED = Method(
    name="none",
    label="Unscaled",
    evidence=Evidence(
        training="fails",
        statement="Read past its trained length, RoPE can give attention scores so high that they "
        "ruin attention.",
        source="Chen et al. 2023, arXiv 2306.15595, abstract",
    ),
)
NOTHING_NEW = Method(
    name=UNSCALED.name,
    label=UNSCALED.label,
    evidence=Evidence(
        training="trained",
        statement="No distance occurs that training did not show.",
        source="computed",
    ),
)
NEW_LENGTH = Method(
    name=UNSCALED.name,
    label=UNSCALED.label,
    evidence=Evidence(
        training="new length",
        statement="No distance occurs that training did not show, but no training on texts of this length "
        "is known here.",
        source="computed",
    ),
)
LARGER_BASE = Method(
    name="base",
    label="Larger base",
    evidence=Evidence(
        training="fine-tuning",
        statement="Llama 2 with a larger base was trained further from 4,096 to 32,768 tokens (x8), on "
        "400B tokens, with base 500,000; Llama-3-8B in steps from 8,192 to 4,194,304 (x512), on 1.6B. The "
        "base planned here is the smallest that satisfies B(k), which no source recommends as such.",
        source="Xiong et al. 2023, arXiv 2309.16039, section 2.1; model card of "
        "Llama-3-8B-Instruct-Gradient-4194k",
        trained_to=512.0,
    ),
)
_AGAINST_CODE = "Peng et al. 2023, arXiv 2309.00071, eqs. 17 to 22, against the authors' code"
# What the sources of a scaling say, by its kind; a kind that is missing is not offered as a method.
EVIDENCE: dict[str, Evidence] = {
    "rope_linear": Evidence(
        training="fine-tuning",
        statement="LLaMA models trained on 2,048 tokens were extended to 32,768 (x16) by up to 1,000 steps "
        "of fine-tuning. Without it, LLaMA 7B had a perplexity of 16.1 at x4 and 112 at x8, against 7.2 at "
        "its trained length.",
        source="Chen et al. 2023, arXiv 2306.15595, abstract and tables 1 and 3",
        trained_to=16.0,
    ),
    "rope_ntk": Evidence(
        training="fine-tuning",
        statement="LLaMA 7B, trained on 2,048 tokens, was read at 4,096 (x2) without training and with "
        "little loss. Some pairs turn past their trained angles, so the length that works falls short of "
        "the factor, and fine-tuned models are worse than with position interpolation (x2).",
        source="bloc97 2023, reddit.com/r/LocalLLaMA, post 14lz7j5; Peng et al. 2023, arXiv 2309.00071, "
        "section 3.1 and table 1",
        untrained_to=2.0,
        trained_to=2.0,
    ),
    "rope_dynamic": Evidence(
        training="fine-tuning",
        statement="Proposed for models that are not trained further: they degrade gradually. Llama-2-7B "
        "read so had a perplexity of 10.2 at x2 and 23.3 at x4 on PG-19, and 3.5 and 3.9 on Proof-pile. "
        "Keys must be cached unrotated. As planned here its factor is 1, because the base grows with the "
        "text anyway.",
        source="emozilla 2023, reddit.com/r/LocalLLaMA, post 14mrgpr; Peng et al. 2023, arXiv 2309.00071, "
        "section 3.3; Ding et al. 2024, arXiv 2402.13753, table 1",
        untrained_to=2.0,
        measured_as="rope_ntk",
    ),
    "rope_yarn": Evidence(
        training="fine-tuning",
        statement="Llama 2 was fine-tuned to x16 in 400 steps and to x32 in 200 more. Without training its "
        "dynamic variant is reported to more than x2; as here Llama-2-7B had a perplexity of 32.6 at x2 "
        "on PG-19, and 3.5 on Proof-pile.",
        source="Peng et al. 2023, arXiv 2309.00071, sections 1 and 4.1; Ding et al. 2024, arXiv "
        "2402.13753, table 1",
        trained_to=32.0,
    ),
    "rope_yarn_paper": Evidence(
        training="fine-tuning",
        statement="The printed formula; the authors' own code ramps over pairs instead, and their models "
        "were trained with that.",
        source=_AGAINST_CODE,
    ),
    "rope_llama3": Evidence(
        training="fine-tuning",
        statement="Llama 3.1 was trained further in six stages from 8K to 128K tokens (x16), on about 800B "
        "tokens. Its config has factor 8 for that. No test of another factor or without training is "
        "reported.",
        source="Grattafiori et al. 2024, arXiv 2407.21783, section 3.4.2",
        trained_to=16.0,
    ),
}
# Printed formulas that public code does not compute under their name, by kind.
IN_CODE: dict[str, InCode] = {
    "rope_yarn_paper": InCode(
        kind="rope_yarn",
        rule="YaRN's printed ramp is not the one in public code.",
        source=_AGAINST_CODE,
    ),
}
_SCALINGS = tuple(
    _of_scaling(kind, config, EVIDENCE[kind])
    for kind, config in SCHEMES.items()
    if kind in EVIDENCE and issubclass(config, ScaledRopeConfig)
)
METHODS: dict[str, Method] = {method.name: method for method in (UNSCALED, *_SCALINGS, LARGER_BASE)}
CONFIGURED_LABEL = "As configured"


def scaled_for(
    scaling: type[ScaledRopeConfig],
    trained: RopeConfig,
    *,
    text: int,
    reach: int,
    trained_length: int,
) -> RopeConfig | None:
    """Return what reads a text with weights of `trained`, or None where the scaling cannot.

    reach: how many tokens of the text a query sees, which a layer's window limits.
    """
    if scaling is not RopeDynamicConfig:
        return scaling.extending(trained, reach, trained_length)
    # It looks at the whole text, whatever a query sees of it. With factor 1 the base grows by n / L,
    # the s of the paper's section 3.3; a larger factor, which public code allows, divides the slowest
    # pair by more than the text is longer.
    config = scaling.extending(trained, text, trained_length)
    return None if config is None else config.replace(factor=1.0)


def as_configured(target: int, context: int | None) -> Method:
    """Return the scaling that a model's own config has, as a method."""
    inside = context is not None and target <= context
    told = f"of {context:,} tokens" if context else "that its config does not name"
    return Method(
        name=CONFIGURED,
        label=CONFIGURED_LABEL,
        evidence=Evidence(
            training="trained" if inside else "untold",
            statement=f"The model's own scaling, for a context {told}; that it was trained so is taken "
            "from its config.",
            source="its config",
        ),
    )
