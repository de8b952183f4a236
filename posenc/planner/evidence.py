"""Records of evidence.toml on reading longer contexts: every number with its source."""

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from posenc.models.model_config import ModelConfig
from posenc.models.presets import MODELS, ModelPreset
from posenc.planner.facts import Fact
from posenc.schemes import SCHEMES
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import factor_reaching

Benchmark = Literal["RULER", "NoLiMa"]
Training = Literal["none", "light", "continued"]  # light: up to about 2 billion tokens


@dataclass(frozen=True, kw_only=True)
class Report:
    """The largest factor at which a source read a longer context by a method, and after which training.

    amount: of the training, in steps or tokens as the source gives it; "" without training. preset: name in
    MODELS of the model of whose family alone this is reported, "" where it is taken to hold of others.
    """

    factor: float
    training: Training
    amount: str = ""
    source: str
    preset: str = ""

    def holds_of(self, model: ModelConfig) -> bool:
        """Return whether it is reported of a model, whose config.json holds no name."""
        if not self.preset:
            return True
        preset = MODELS[self.preset]
        return _looks_like(model, preset) and model.main.scheme == preset.read().main.scheme


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The statement and reports of sources on reading a longer context by one method.

    kind: of the method's config; "none" and "base" are RoPE without a scaling.
    training: what the method takes: nothing ("trained", of a model's own scaling within its context; or
    "made", of one that reaches the length and that no training is known of), "fine-tuning", training at
    the "new length", something that is not known ("unknown"), or it "fails".
    statement: in sentences. source: where it is published; both "" of a model's own config. reports: by
    training, each with its source. measured_as: kind of another scaling with the same frequencies at the
    target, whose measured ratios hold for this one, too; "" for none.
    """

    kind: str = ""
    training: Literal["trained", "made", "fine-tuning", "new length", "unknown", "fails"]
    statement: str = ""
    source: str = ""
    reports: tuple[Report, ...] = ()
    measured_as: str = ""

    def of(self, model: ModelConfig) -> "Evidence":
        """Return it with the reports that hold of a model."""
        reports = tuple(report for report in self.reports if report.holds_of(model))
        return dataclasses.replace(self, reports=reports)

    @property
    def untrained_to(self) -> float:
        """The largest factor reported to work without training; 0 for none."""
        return max((one.factor for one in self.reports if one.training == "none"), default=0.0)

    @property
    def trained_to(self) -> float:
        """The largest factor that sources trained a model to; 0 for none."""
        return max((one.factor for one in self.reports if one.training != "none"), default=0.0)

    def fine_tuning(self, factor: float) -> Training | None:
        """Return the least fine-tuning after which a source reports this factor, None where none does."""
        amounts: tuple[Training, ...] = ("light", "continued")
        return next((amount for amount in amounts if self.reporting(amount, factor)), None)

    def reporting(self, training: Training, factor: float) -> tuple[Report, ...]:
        """Return the reports of this factor, or a larger one, after an amount of training."""
        return tuple(
            one for one in self.reports if one.training == training and one.factor >= factor
        )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Results of two or more methods on one base model at one factor, of one source.

    tokens: of the training, in words. controlled: whether all had the same data and the same number of
    steps. values: by measure, then by kind. base: of the method "base"; 0 where it was not compared.
    """

    source: str
    model: str
    factor: float
    training: Training
    tokens: str
    controlled: bool
    values: Mapping[str, Mapping[str, float]]
    base: float = 0.0

    def compares(self, first: str, second: str) -> bool:
        """Return whether a measure has a value of both kinds."""
        return any(first in by_kind and second in by_kind for by_kind in self.values.values())


@dataclass(frozen=True, kw_only=True)
class Released:
    """A released model that was trained with a kind of scaling to a multiple of its first context."""

    kind: str
    factor: float
    model: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Derivative:
    """A model that others extended from a preset.

    preset: name in MODELS. kind: of the method. trained: tokens it was extended to. effective: tokens to
    which RULER (Hsieh et al. 2024, arXiv 2404.06654) found that it works.
    """

    preset: str
    kind: str
    model: str
    trained: int
    effective: int
    source: str

    def is_of(self, model: ModelConfig) -> bool:
        """Return whether a config.json, which holds no name, may be of the preset's family."""
        return _looks_like(model, MODELS[self.preset])


@dataclass(frozen=True, kw_only=True)
class EffectiveLength:
    """Tokens to which a benchmark found that a model works.

    model: the one that was measured. bound: "more" or "less" where the length lies past those tested.
    """

    benchmark: Benchmark
    model: str
    tokens: int
    bound: Literal["", "more", "less"] = ""
    source: str


@dataclass(frozen=True, kw_only=True)
class PresetLengths:
    """The claim of a preset, in tokens, and what benchmarks measured; source: of the claim."""

    preset: str
    claimed: int
    source: str
    effective: tuple[EffectiveLength, ...]

    def is_of(self, model: ModelConfig) -> bool:
        """Return whether a config.json, which holds no name, is that of the preset."""
        preset = MODELS[self.preset]
        sizes = model.model_type, model.hidden_size, model.layers
        return any(
            sizes == (one.model_type, one.hidden_size, one.layers)
            and model.main.scheme == one.main.scheme
            for one in (preset.read(scaled=False), preset.read())
        )


@dataclass(frozen=True, kw_only=True)
class ModelEvidence:
    """A published statement about one family of models.

    preset_name: of the preset in MODELS whose type, base and window its models share. models: their names.
    hidden_size: of the smallest of them. kind: of the scaling that their makers recommend without
    training, "" for none; least_factor, factor: the range of factors that they recommend.
    statement: in sentences. source: where it is published.
    """

    preset_name: str
    models: str
    hidden_size: int
    kind: str = ""
    least_factor: float = 1.0
    factor: float = 0.0
    statement: str
    source: str

    @property
    def preset(self) -> ModelPreset:
        """The preset, which has the length of the training texts."""
        return MODELS[self.preset_name]

    def is_of(self, model: ModelConfig) -> bool:
        """Return whether a config.json, which holds no name, may be of one of these models."""
        return model.hidden_size >= self.hidden_size and _looks_like(model, self.preset)

    def factor_for(self, length: int) -> float | None:
        """Return the least factor that the makers recommend for `length` tokens, None for none."""
        start = self.preset.trained_length
        if not self.kind or start is None or not start < length <= self.factor * start:
            return None
        return max(factor_reaching(length, start), self.least_factor)

    def recommends(self, config: RopeConfig, length: int) -> bool:
        """Return whether the makers recommend this scaling for `length` tokens, without training."""
        least, start = self.factor_for(length), self.preset.trained_length
        if least is None or config.kind != self.kind:
            return False
        same = getattr(config, "trained_length", None) == start
        return same and least <= getattr(config, "factor", 1.0) <= self.factor


def _looks_like(model: ModelConfig, preset: ModelPreset) -> bool:
    first, second = (
        (m.model_type, getattr(m.main.scheme, "base", None), m.main.window)
        for m in (model, preset.read(scaled=False))
    )
    return first == second


@dataclass(frozen=True)
class MeasuredRatio:
    """Perplexity of small RoPE models at a longer context over that at their training length.

    kind: scaling that they were evaluated with; "rope" is none. train_length: tokens. factor: the context
    over that length. seeds: number of models. mean: geometric, over seeds; low, high: lowest and highest
    seed.
    """

    kind: str
    train_length: int
    factor: float
    seeds: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class FineTunedRatio:
    """Perplexity of small RoPE models, fine-tuned with a scaling, over that before at the training length.

    kind: the scaling. train_length: tokens before. factor: the length of the texts in fine-tuning over that
    length. steps: of fine-tuning over those before. seeds: number of models. mean: geometric, over seeds,
    read at the longer context; low, high: lowest and highest seed. short_mean, short_low, short_high: the
    same read at the training length. unscaled: the mean at the longer context of models that were trained
    on the same texts without a scaling.
    """

    kind: str
    train_length: int
    steps: float
    seeds: int
    factor: float
    mean: float
    low: float
    high: float
    short_mean: float
    short_low: float
    short_high: float
    unscaled: float


@dataclass(frozen=True, kw_only=True)
class InferenceMethod:
    """A change of attention at inference that reads a longer context without training.

    statement: its tested range. support: the software that offers it. source: of the statement.
    """

    label: str
    statement: str
    support: str
    source: str


# Kinds of printed formulas, and of what public code computes under the same name.
IN_CODE = {"rope_yarn_paper": "rope_yarn"}

_DATA = tomllib.loads(Path(__file__).with_name("evidence.toml").read_text("utf-8"))
_RUNS: str = _DATA["measured"][0]["source"]

# By kind of scaling, and "none" and "base". A kind that is missing is not offered as a method.
EVIDENCE: dict[str, Evidence] = {
    each["kind"]: Evidence(
        **each | {"reports": tuple(Report(**report) for report in each.get("reports", ()))}
    )
    for each in _DATA["method"]
}
COMPARISONS = tuple(Comparison(**each) for each in _DATA["comparison"])
RELEASED = tuple(Released(**each) for each in _DATA["released"])
DERIVATIVES = tuple(Derivative(**each) for each in _DATA["derivative"])
LENGTHS = tuple(
    PresetLengths(
        **each | {"effective": tuple(EffectiveLength(**one) for one in each["effective"])}
    )
    for each in _DATA["length"]
)
MODEL_EVIDENCE = tuple(
    ModelEvidence(preset_name=each["preset"], **{key: each[key] for key in each if key != "preset"})
    for each in _DATA["makers"]
)
MEASURED = tuple(
    MeasuredRatio(each["kind"], each["train_length"], factor, each["seeds"], mean, low, high)
    for each in _DATA["measured"]
    for factor, mean, low, high in each["ratios"]
)
FINE_TUNED = tuple(
    FineTunedRatio(each["kind"], each["train_length"], each["steps"], each["seeds"], *ratio)
    for each in _DATA["fine_tuned"]
    for ratio in each["ratios"]
)
INFERENCE_METHODS = tuple(InferenceMethod(**each) for each in _DATA["inference"])


def measured_at(kind: str, factor: float) -> tuple[MeasuredRatio, ...]:
    """Return what was measured of a scaling at a factor, one ratio for each training length.

    For a factor that was not measured: the next larger one, or else the largest.
    """
    ratios: dict[int, MeasuredRatio] = {}
    for ratio in MEASURED:
        if ratio.kind == kind:
            last = ratios.get(ratio.train_length)
            if last is None or last.factor < factor:
                ratios[ratio.train_length] = ratio
    return tuple(ratios.values())


def fine_tuned_at(kind: str, factor: float) -> FineTunedRatio | None:
    """Return what was measured of fine-tuning with a scaling at a factor; None where nothing was.

    For a factor that was not measured: the next larger one, or else the largest.
    """
    own = [ratio for ratio in FINE_TUNED if ratio.kind == kind]
    larger = (ratio for ratio in own if ratio.factor >= factor)
    return next(larger, own[-1] if own else None)


def derivatives_of(model: ModelConfig, kind: str) -> list[Derivative]:
    """Return the models that others extended by a method from one that may be of a model's family."""
    return [one for one in DERIVATIVES if one.kind == kind and one.is_of(model)]


def measured_factor(ratios: Sequence[MeasuredRatio | FineTunedRatio], factor: float) -> Fact:
    """Return the factor that was measured, and that it is not the one asked for where it is another."""
    measured = max(ratio.factor for ratio in ratios)
    word = "factor"
    if measured != factor:
        word = "next_factor" if measured > factor else "largest_factor"
    return Fact(word, {"factor": measured})


def statements(
    evidence: Evidence,
    known: Fact | None,
    factor: float,
    measured: Sequence[MeasuredRatio],
    fine_tuned: FineTunedRatio | None,
    advice: ModelEvidence | None,
) -> tuple[Fact, ...]:
    """Return what is known of a method at a factor. known: in place of a published statement."""
    facts = [known or _published(evidence)]
    if measured:
        scaling = SCHEMES[evidence.measured_as].scaling_name if evidence.measured_as else ""
        numbers = {
            "scaling": scaling,
            "factor": measured_factor(measured, factor),
            "ratios": [Fact("ratio", dataclasses.asdict(ratio)) for ratio in measured],
            "source": _RUNS,
        }
        facts.append(Fact("measured_as" if scaling else "measured", numbers))
    if fine_tuned is not None:
        numbers = dataclasses.asdict(fine_tuned) | {
            "factor": measured_factor([fine_tuned], factor),
            "source": _RUNS,
        }
        facts.append(Fact("fine_tuned", numbers))
    if advice is not None:
        facts.append(_published(advice))
    return tuple(facts)


def _published(record: Evidence | ModelEvidence) -> Fact:
    return Fact("published", {"statement": record.statement, "source": record.source})


def lengths_of(model: ModelConfig) -> PresetLengths | None:
    """Return what is claimed and measured of the preset that a config is of; None where nothing is."""
    return next((lengths for lengths in LENGTHS if lengths.is_of(model)), None)


def evidence_of(model: ModelConfig) -> ModelEvidence | None:
    """Return what is published of the models that a config may be of, None where nothing is known."""
    return next((evidence for evidence in MODEL_EVIDENCE if evidence.is_of(model)), None)
