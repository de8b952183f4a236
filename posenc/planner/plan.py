"""A longer context for one model: every method compared and ranked, and what each costs.

Numbers are computed from formulas; measured ones are those of this project's small models.
`loss_by_position_script` writes a script that measures a plan on the user's own model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from posenc.analysis import BaseWindow, first_negative_offset, known_base, smallest_base
from posenc.analysis.base_search import MAX_LENGTH
from posenc.errors import SchemeArgumentError, quoted
from posenc.limits import check_count
from posenc.models.model_config import MAX_CONTEXT, ModelConfig, cache_gib
from posenc.models.rope_writing import softmax_scale
from posenc.planner.context_plan import ContextPlan, MethodPlan, scaled_in_training
from posenc.planner.evidence import (
    MeasuredRatio,
    ModelEvidence,
    evidence_of,
    lengths_of,
    measured_at,
)
from posenc.planner.facts import Fact
from posenc.planner.layers import own_length
from posenc.planner.methods import (
    CONFIGURED,
    DEFAULT_METHODS,
    LARGER_BASE,
    METHODS,
    NEW_LENGTH,
    NO_NEW_DISTANCE,
    UNSCALED,
    Method,
    as_configured,
    left_out,
    scaled_for,
)
from posenc.planner.ranking import (
    Readiness,
    Standing,
    compared,
    pairs_compared,
    precedent_of,
    ranks,
    readiness,
    released_at,
)
from posenc.planner.scaling_effects import (
    compare_pairs,
    distinct_positions,
    kernel_at,
    short_cost,
    stale_from,
    worst_cosine_error,
)
from posenc.planner.warnings import warnings
from posenc.schemes.rope import RopeConfig, rope_frequencies


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
    """Return a plan to read `context` tokens with a model; no method fits one that sees images.

    name: of the model, for sentences. trained_length: tokens of its training texts, where the config is
    silent. methods: keys of METHODS, by default DEFAULT_METHODS. search_base: whether to search the base
    that satisfies B(k) where it is not known, which takes seconds at 131,072. scan: at how many distances,
    from 0, the sign of B(k) is computed; None for all.
    Raises SchemeArgumentError for a context or scan outside 1 .. 2^24, or an unknown method.
    """
    if not isinstance(model, ModelConfig):
        raise SchemeArgumentError(
            f"model must be what read_config returns, got {type(model).__name__}."
        )
    check_count("context", context, 1, MAX_CONTEXT)
    if scan is not None:
        check_count("scan", scan, 1, MAX_CONTEXT)
    names = list(DEFAULT_METHODS if methods is None else dict.fromkeys(methods))
    for word in names:
        if word not in METHODS:
            raise SchemeArgumentError(
                f"methods must be of {', '.join(METHODS)}, got {quoted(word)}."
            )
    evidence = evidence_of(model)
    length, assumed = _trained_length(model, trained_length, evidence)
    kind = model.rotary_kind
    reach = context if kind.window is None else min(context, kind.window)
    scanned = reach if scan is None else min(reach, scan)
    scheme = kind.scheme
    trained = None
    if isinstance(scheme, RopeConfig):
        trained = scheme.as_trained()
    window, negative, searched = None, None, False
    if trained is not None:
        negative = first_negative_offset(rope_frequencies(trained)[0], scanned)
    if type(trained) is RopeConfig:
        window = known_base(trained.rotary_dim, reach)
        searched = window is not None or (search_base and reach <= MAX_LENGTH)
        if window is None and searched:
            window = smallest_base(trained.rotary_dim, reach)
    plans: list[MethodPlan] = []
    missing: list[Fact] = []
    if trained is not None and length is not None and isinstance(scheme, RopeConfig):
        own = own_length(model, kind)
        in_training = scaled_in_training(model, kind, length, evidence)
        current = scheme if in_training else trained
        lengths = _Lengths(context, reach, length, scanned, max(own or 0, length))
        if scheme != trained:
            was_trained = in_training or getattr(scheme.at_length(context), "growth", 0) == 1
            configured = as_configured(context, own, was_trained=was_trained)
            plans.append(
                _method_plan(configured, scheme, trained, current, lengths, evidence, model)
            )
        for method, config in _configs(scheme, trained, current, names, lengths, window, evidence):
            known = config == scheme != trained
            if config is None or known:
                why = left_out(
                    method,
                    trained,
                    scheme if known else current,
                    window,
                    configured=known,
                    searched=searched,
                    behind=_behind_larger_base(names, reach / length),
                )
                missing.append(why)
            else:
                plans.append(
                    _method_plan(method, config, trained, current, lengths, evidence, model)
                )
    stretch = 1.0 if length is None else reach / length
    standings = [method.standing for method in plans]
    plans = [
        replace(method, rank=rank)
        for method, rank in zip(plans, ranks(standings, stretch), strict=True)
    ]
    order = [CONFIGURED, *METHODS]
    plans.sort(key=lambda method: (method.rank, order.index(method.method.name)))
    standings = [method.standing for method in plans]
    found = ContextPlan(
        name=name or model.model_type,
        model=model,
        target=context,
        trained_length=length,
        reach=reach,
        scanned=scanned,
        trained=trained,
        methods=tuple(plans),
        comparisons=pairs_compared(standings, stretch),
        left_out=tuple(missing),
        first_negative=negative,
        base_window=window,
        base_searched=searched,
        cache=cache_gib(model, context),
        distinct_bfloat16=distinct_positions(context),
        distinct_float32=distinct_positions(context, torch.float32),
        assumed=assumed,
        evidence=evidence,
        known_lengths=lengths_of(model),
    )
    return replace(found, warnings=warnings(found))


def _behind_larger_base(names: Sequence[str], factor: float) -> list[str]:
    """Return the methods that direct comparisons after light training put behind a larger base."""
    found = []
    for method in (METHODS[name] for name in names):
        result = compared(LARGER_BASE.kind, method.kind, factor, "light")
        if result is not None and result.verdict == "first":
            found.append(method.label)
    return found


@dataclass(frozen=True)
class _Lengths:
    """Lengths of a plan, in tokens; own: that the config's scaling is made for, at least `trained`."""

    text: int
    reach: int
    trained: int
    scanned: int
    own: int


def _trained_length(
    model: ModelConfig, known: int | None, evidence: ModelEvidence | None
) -> tuple[int | None, tuple[Fact, ...]]:
    """Return the trained length, and the assumption behind it if there is one."""
    if known is not None:
        length, written = check_count("trained_length", known, 2, MAX_CONTEXT), model.trained_length
        if written in (None, length):
            return length, ()
        return length, (Fact("contradicts", {"length": length, "written": written}),)
    if model.trained_length is not None or model.context is None:
        return model.trained_length, ()
    scheme = model.rotary_kind.scheme
    is_rope = isinstance(scheme, RopeConfig)
    start: int | None = getattr(scheme, "trained_length", None) if is_rope else None
    factor: float = getattr(scheme, "factor", 1.0) if is_rope else 1.0
    published = None if evidence is None else evidence.preset.trained_length
    numbers: dict[str, Any] = {"context": model.context, "factor": factor}
    if evidence is not None and published is not None and published <= model.context:
        word, length = "published", published
        numbers |= {"models": evidence.models, "source": evidence.preset.trained_source}
    elif start is not None:  # dynamic NTK's, whose factor is not in the context yet
        word, length = "scaling_start", start
    elif factor > 1:
        word, length = "unscaled_context", max(2, round(model.context / factor))
    else:
        word, length = "context", model.context
    return length, (Fact(word, numbers | {"length": length}),)


def _configs(
    scheme: RopeConfig,
    trained: RopeConfig,
    current: RopeConfig,
    names: list[str],
    lengths: _Lengths,
    window: BaseWindow | None,
    evidence: ModelEvidence | None,
) -> Iterator[tuple[Method, RopeConfig | None]]:
    """Yield every method asked for with its config, None where it has none.

    current: RoPE as the model's weights expect it at present.
    """
    longer = lengths.reach > lengths.trained
    if not longer and UNSCALED.name in names:
        no_new = NEW_LENGTH if lengths.text > lengths.trained else NO_NEW_DISTANCE
        yield no_new, trained if current == trained else None
    for method in (METHODS[name] for name in names if longer):
        if method is UNSCALED:
            yield method, trained
        elif method.scaling is None:
            larger = window is not None and window.rounded > trained.base
            yield method, trained.replace(base=window.rounded) if window and larger else None
        else:
            text, reach, length = lengths.text, lengths.reach, lengths.trained
            scaled = scaled_for(
                method.scaling, trained, text=text, reach=reach, trained_length=length
            )
            if scaled is not None and scaled.kind == scheme.kind:
                # Of the model's own scaling only the length changes, not its ramp and the like.
                changed = ("factor", "trained_length", "length", "attention_factor")
                values = {key: getattr(scaled, key) for key in changed if hasattr(scaled, key)}
                # Within its context the model has its scaling already.
                within = current == scheme and reach <= lengths.own
                scaled = scheme if within else scheme.replace(**values)
            if scaled is not None and evidence is not None and evidence.kind == scaled.kind:
                least = evidence.factor_for(reach)
                if least is not None and length == evidence.preset.trained_length:
                    scaled = scaled.replace(factor=least)
            yield method, scaled


def _method_plan(
    method: Method,
    config: RopeConfig,
    trained: RopeConfig,
    current: RopeConfig,
    lengths: _Lengths,
    evidence: ModelEvidence | None,
    model: ModelConfig,
) -> MethodPlan:
    """Return one method's plan. current: RoPE as the model's weights expect it at present."""
    text, reach, length = lengths.text, lengths.reach, lengths.trained
    longer, factor = reach > length, reach / length
    untrained = method.evidence.training in ("fine-tuning", "fails")
    other_base = type(config) is RopeConfig and config != trained
    measured: tuple[MeasuredRatio, ...] = ()
    if longer and untrained and not other_base:
        measured = measured_at(method.evidence.measured_as or config.kind, factor)
    advised = longer and evidence is not None and evidence.recommends(config, reach)
    inv_freq, attention_factor = rope_frequencies(config, length=text)
    divisor = max(getattr(config.at_length(text), "growth", factor), 1.0)
    sizes = {"text": text, "reach": reach}
    pairs = compare_pairs(trained, config, trained_length=length, factor=divisor, **sizes)
    if method.name == CONFIGURED and config == current:
        # The model was trained with its scaling, up to the context that this is made for.
        own = compare_pairs(config, config, trained_length=lengths.own, factor=1.0, **sizes)
        pairs = replace(pairs, unseen=own.unseen)
    code_error = None
    if config.in_transformers:
        code_freq, _ = rope_frequencies(config, length=text, mode="transformers")
        code_error = worst_cosine_error(inv_freq, text, computed=code_freq)
    weight, softmax = softmax_scale(model.rotary_kind.block_scale, config)
    ready = readiness(method.evidence, factor, recommended=advised, measured=measured)
    fine_tuning = method.evidence.fine_tuning(factor)
    distances = sorted({reach // 4, reach // 2, reach - 1})
    kernel = kernel_at(config, distances, text).tolist()
    return MethodPlan(
        method=method,
        config=config,
        attention_factor=attention_factor,
        pairs=pairs,
        short=short_cost(current, config, length),
        kernel=dict(zip(distances, kernel, strict=True)),
        first_negative=first_negative_offset(inv_freq, lengths.scanned),
        stale_from=stale_from(config, length, text),
        cosine_error=worst_cosine_error(inv_freq, text),
        code_cosine_error=code_error,
        softmax_weight=weight,
        softmax_scale=softmax,
        factor=factor,
        measured=measured,
        advice=evidence if advised else None,
        standing=Standing(
            kind=method.kind,
            readiness=ready,
            training="none" if ready is Readiness.UNTRAINED else fine_tuning or "light",
            fine_tuning=fine_tuning,
            precedent=precedent_of(model, method.kind, reach),
            released=released_at(method.kind, factor),
            unseen=pairs.unseen_count > 0,
        ),
    )
