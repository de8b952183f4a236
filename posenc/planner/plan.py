"""A longer context for one model: every method compared, ranked, and what each costs.

Numbers are of formulas; what is quoted as measured is of this project's small models.
`loss_by_position_script` writes what measures a plan on the user's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.base_search import MAX_LENGTH, BaseWindow, known_base, smallest_base
from posenc.analysis.spectrum import first_negative_offset
from posenc.errors import SchemeArgumentError, shown
from posenc.limits import check_count
from posenc.models.evidence import ModelEvidence, evidence_of
from posenc.models.model_config import MAX_CONTEXT, LayerKind, ModelConfig, cache_gib
from posenc.planner.layer_notes import own_length
from posenc.planner.methods import (
    CONFIGURED,
    LARGER_BASE,
    METHODS,
    NEW_LENGTH,
    NOTHING_NEW,
    UNSCALED,
    MeasuredRatio,
    Method,
    Readiness,
    as_configured,
    described,
    measured_at,
    rank,
    readiness,
    scaled_for,
    statements,
)
from posenc.planner.scaling_effects import (
    Pairs,
    ShortCost,
    distinct_positions,
    kernel_at,
    read_pairs,
    short_cost,
    stale_from,
    worst_cosine_error,
)
from posenc.schemes.rope import RopeConfig, rope_frequencies


@dataclass(frozen=True, eq=False)
class MethodPlan:
    """One method at the target.

    config: what reads the target. attention_factor: what cosines and sines are multiplied by there.
    pairs: the ladder before and after. short: what texts within the trained length pay. kernel: expected
    logit of unit content by distance, at a quarter, half and the whole of what a query sees.
    first_negative: first distance below the target with B(k) < 0 on this ladder. stale_from: length at
    which cached rotated keys stop fitting, None if never. cosine_error: worst of float32 angles made of
    the exact ladder, rounded once. code_cosine_error: of the ladder that transformers makes in float32;
    None where it makes none. factor: what a query sees at the target over the trained length.
    measured: what this project measured of it at that factor, without training. advice: what the model's
    makers recommend, where it is this. readiness: what is said of using it.
    """

    method: Method
    config: RopeConfig
    attention_factor: float
    pairs: Pairs
    short: ShortCost
    kernel: dict[int, float]
    first_negative: int | None
    stale_from: int | None
    cosine_error: float
    code_cosine_error: float | None
    factor: float
    measured: tuple[MeasuredRatio, ...]
    advice: ModelEvidence | None
    readiness: Readiness

    @property
    def usable(self) -> str:
        """What is said of using it, in a few words."""
        return described(self.readiness, self.method.evidence, self.factor)

    @property
    def statements(self) -> tuple[tuple[str, str], ...]:
        """What is known of using it: a statement of each source, and the source."""
        return statements(self.method.evidence, self.factor, self.measured, self.advice)


@dataclass(frozen=True, eq=False)
class ContextPlan:
    """What reading `target` tokens takes.

    reach: how many tokens a query of the layers that see farthest has before it, itself included: the
    target, or their window. scanned: at how many of these distances the sign of B(k) was looked at.
    trained: RoPE as it was trained, None for a model without. base_window: the smallest base that
    satisfies B(k) at the target; None where there is none, or `base_searched` is False.
    distinct_bfloat16, distinct_float32: different numbers that the positions below the target become.
    cache: GiB of one sequence by number type, at the target. assumed: what was taken for granted.
    evidence: what is published of the models that the config may be of.
    """

    name: str
    model: ModelConfig
    target: int
    trained_length: int | None
    reach: int
    scanned: int
    trained: RopeConfig | None
    methods: tuple[MethodPlan, ...]
    left_out: tuple[str, ...]
    first_negative: int | None
    base_window: BaseWindow | None
    base_searched: bool
    cache: dict[str, float]
    distinct_bfloat16: int
    distinct_float32: int
    assumed: tuple[str, ...]
    evidence: ModelEvidence | None

    @property
    def kind(self) -> LayerKind:
        """The layers that are planned for: those with RoPE that see farthest, or the main ones."""
        return planned_kind(self.model)

    @property
    def own_length(self) -> int | None:
        """The context that the scaling in its config is made for; None where it has none or no more."""
        own, trained = own_length(self.model, self.kind), self.trained_length
        return own if own and trained and own > trained else None

    @property
    def factor(self) -> float | None:
        """How many times the trained length the target is."""
        return None if self.trained_length is None else self.target / self.trained_length

    @property
    def longer(self) -> bool:
        """Whether distances occur that training did not show."""
        return self.trained_length is not None and self.reach > self.trained_length


def plan(
    model: ModelConfig,
    context: int,
    *,
    name: str = "",
    trained_length: int | None = None,
    methods: Sequence[str] | None = None,
    search_base: bool = True,
    scan: int | None = None,
) -> ContextPlan:
    """Plan to read `context` tokens with a model.

    name: of the model, for sentences. trained_length: how long its training texts were, where the config
    does not say it. methods: words of METHODS, all of them by default. search_base: whether the base that
    satisfies B(k) is searched where it is not known, which takes seconds at 131,072. scan: at how many
    distances, from 0, the sign of B(k) is looked at; None for all.
    Raises SchemeArgumentError for a context or scan outside 1 .. 2^24 or a method that does not exist.
    """
    check_count("context", context, 1, MAX_CONTEXT)
    if scan is not None:
        check_count("scan", scan, 1, MAX_CONTEXT)
    asked = list(METHODS) if methods is None else list(dict.fromkeys(methods))
    for word in asked:
        if word not in METHODS:
            raise SchemeArgumentError(
                f"methods must be of {', '.join(METHODS)}, got {shown(word)}."
            )
    evidence = evidence_of(model)
    length, assumed = _trained_length(model, trained_length, evidence)
    kind = planned_kind(model)
    reach = context if kind.window is None else min(context, kind.window)
    scanned = reach if scan is None else min(reach, scan)
    scheme = kind.scheme
    trained = scheme.as_trained() if isinstance(scheme, RopeConfig) else None
    window, negative, searched = None, None, False
    if trained is not None:
        # The base must hold for the distances that occur, which a window limits.
        negative = first_negative_offset(rope_frequencies(trained)[0], scanned)
        if type(trained) is RopeConfig:
            window = known_base(trained.rotary_dim, reach)
            searched = window is not None or (search_base and reach <= MAX_LENGTH)
        if window is None and searched:
            window = smallest_base(trained.rotary_dim, reach)
    found: list[MethodPlan] = []
    left_out: list[str] = []
    if trained is not None and length is not None and isinstance(scheme, RopeConfig):
        own = as_configured(context, model.context)
        scaled_to = max(own_length(model, kind) or 0, length)
        untrained = evidence is not None and evidence.kind == scheme.kind
        now = trained if scaled_to == length or untrained else scheme
        lengths = _Lengths(context, reach, length, scanned, scaled_to, now)
        for method, config in _configs(scheme, own, trained, asked, lengths, window):
            if config is None:
                left_out.append(_why_not(method, trained, window))
            else:
                found.append(_method_plan(method, config, trained, lengths, evidence))
    return ContextPlan(
        name=name or model.model_type,
        model=model,
        target=context,
        trained_length=length,
        reach=reach,
        scanned=scanned,
        trained=trained,
        methods=tuple(sorted(found, key=_rank)),
        left_out=tuple(left_out),
        first_negative=negative,
        base_window=window,
        base_searched=searched,
        cache=cache_gib(model, context),
        distinct_bfloat16=distinct_positions(context),
        distinct_float32=distinct_positions(context, torch.float32),
        assumed=assumed,
        evidence=evidence,
    )


def planned_kind(model: ModelConfig) -> LayerKind:
    """Return the kind of layer with RoPE that sees farthest; without any, the main kind."""
    turning = (kind for kind in model.layer_kinds if isinstance(kind.scheme, RopeConfig))
    return next(turning, model.main)


@dataclass(frozen=True)
class _Lengths:
    """text: the target, which scalings that look at the length look at whatever a layer's window is.

    reach: how many tokens a query sees of it. trained: how long training texts were.
    scanned: at how many distances the sign of B(k) is looked at. own: what the scaling of the config is
    made for, at least `trained`. now: how the model's weights are read at present: with that scaling,
    unless its makers did not train it so.
    """

    text: int
    reach: int
    trained: int
    scanned: int
    own: int
    now: RopeConfig


def _trained_length(
    model: ModelConfig, given: int | None, evidence: ModelEvidence | None
) -> tuple[int | None, tuple[str, ...]]:
    if given is not None:
        return check_count("trained_length", given, 2, MAX_CONTEXT), ()
    if model.trained_length is not None:
        return model.trained_length, ()
    if model.context is None:
        return None, ()
    scheme = planned_kind(model).scheme
    # What a scaling starts from, as dynamic NTK's, is no context that its factor already is in.
    start: int | None = getattr(scheme, "trained_length", None)
    if isinstance(scheme, RopeConfig) and start is not None:
        said = (
            "The config does not say how long the training texts were: its scaling starts from "
            f"{start:,} tokens, which is taken."
        )
        return start, (said,)
    factor = getattr(scheme, "factor", 1.0) if isinstance(scheme, RopeConfig) else 1.0
    if factor > 1:
        length = max(2, round(model.context / factor))
        said = (
            f"The config does not say how long the texts were before it was scaled by {factor:g}: its "
            f"context of {model.context:,} over that, {length:,}, is taken."
        )
        return length, (said,)
    known = None if evidence is None else evidence.preset.trained_length
    if evidence is not None and known is not None and known <= model.context:
        said = (
            f"The config does not say how long the training texts were: {known:,} tokens are taken, as "
            f"those of {evidence.models} had ({evidence.preset.trained_source})."
        )
        return known, (said,)
    said = (
        f"The config does not say how long the training texts were: its context of {model.context:,} "
        "is taken, which some models were not trained to."
    )
    return model.context, (said,)


def _configs(
    scheme: RopeConfig,
    configured: Method,
    trained: RopeConfig,
    asked: list[str],
    lengths: _Lengths,
    window: BaseWindow | None,
) -> list[tuple[Method, RopeConfig | None]]:
    """Return every method asked for and its config, None where there is none."""
    found: list[tuple[Method, RopeConfig | None]] = []
    if scheme != trained:
        found.append((configured, scheme))
    longer = lengths.reach > lengths.trained
    for word in asked:
        method = METHODS[word]
        if word == UNSCALED.name:
            same = NEW_LENGTH if lengths.text > lengths.trained else NOTHING_NEW
            found.append((method if longer else same, trained))
        elif not longer:
            continue  # nothing to stretch
        elif method.scaling is None:
            larger = window is not None and window.rounded > trained.base
            config = trained.replace(base=window.rounded) if window and larger else None
            found.append((method, config))
        else:
            planned = scaled_for(
                method.scaling,
                trained,
                text=lengths.text,
                reach=lengths.reach,
                trained_length=lengths.trained,
            )
            found.append((method, _of_own_form(scheme, planned)))
    return found


def _of_own_form(scheme: RopeConfig, planned: RopeConfig | None) -> RopeConfig | None:
    """Return a planned scaling with the ramp and the like of the model's own, where that is of its kind."""
    if planned is None or planned.kind != scheme.kind:
        return planned
    stretched = {
        name: getattr(planned, name)
        for name in ("factor", "trained_length", "length", "attention_factor")
        if hasattr(planned, name)
    }
    return scheme.replace(**stretched)


def _why_not(method: Method, trained: RopeConfig, window: BaseWindow | None) -> str:
    if method.name == LARGER_BASE.name:
        if window is None:
            return f"{method.label}: no base that satisfies B(k) is known here."
        return f"{method.label}: the model's base of {trained.base:,.10g} already satisfies B(k)."
    if type(trained) is not RopeConfig:
        return f"{method.label}: it is made for plain RoPE, this is {trained.label}."
    return f"{method.label}: the factor or the base it needs is out of range."


def _method_plan(
    method: Method,
    config: RopeConfig,
    trained: RopeConfig,
    lengths: _Lengths,
    evidence: ModelEvidence | None,
) -> MethodPlan:
    text, reach, length = lengths.text, lengths.reach, lengths.trained
    longer = reach > length
    as_is = method.evidence.training in (
        "fine-tuning",
        "fails",
    )  # not what the model was trained with
    plain_of_other_base = type(config) is RopeConfig and config != trained
    measured: tuple[MeasuredRatio, ...] = ()
    if longer and as_is and not plain_of_other_base:
        measured = measured_at(method.evidence.measured_as or config.kind, reach / length)
    advised = longer and evidence is not None and evidence.recommends(config, reach)
    advice = evidence if advised else None
    inv_freq, attention_factor = rope_frequencies(config, length=text)
    at = sorted({reach // 4, reach // 2, reach - 1})
    # What "divided" means: by the factor of the scaling, or by the whole stretch where it has none.
    stretch = config.stretch(text)
    factor = max(reach / length if stretch is None else stretch, 1.0)
    pairs = read_pairs(
        trained, config, trained_length=length, text=text, reach=reach, factor=factor
    )
    if method.name == CONFIGURED and advice is None:
        # Taken as trained with its scaling up to its context.
        shown = read_pairs(
            config, config, trained_length=lengths.own, text=text, reach=reach, factor=1.0
        )
        pairs = replace(pairs, unseen=shown.unseen)
    return MethodPlan(
        method=method,
        config=config,
        attention_factor=attention_factor,
        pairs=pairs,
        short=short_cost(lengths.now, config, length),
        kernel=dict(zip(at, kernel_at(config, at, text).tolist(), strict=True)),
        first_negative=first_negative_offset(inv_freq, lengths.scanned),
        stale_from=stale_from(config, length, text),
        cosine_error=worst_cosine_error(inv_freq, text),
        code_cosine_error=_code_cosine_error(config, inv_freq, text),
        factor=reach / length,
        measured=measured,
        advice=advice,
        readiness=readiness(
            method.evidence, reach / length, recommended=advice is not None, measured=measured
        ),
    )


def _code_cosine_error(
    config: RopeConfig, inv_freq: Float[Tensor, " pairs"], text: int
) -> float | None:
    """Return the worst cosine error of the ladder that transformers makes; None where it makes none."""
    if not config.in_transformers:
        return None
    ladder, _ = rope_frequencies(config, length=text, mode="transformers")
    return worst_cosine_error(inv_freq, text, ladder=ladder)


def _rank(one: MethodPlan) -> tuple[int, bool, int, int, float]:
    """Sort key of RANKING."""
    return rank(one.readiness, int(one.pairs.unseen.sum()), one.short.mean)
