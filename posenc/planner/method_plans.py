"""The plan of each method: its config at the target, what it costs and what ranks it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from posenc import fields
from posenc.analysis import first_negative_offset
from posenc.models.rope_writing import softmax_scale
from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.evidence import MeasuredRatio, fine_tuned_at, measured_at
from posenc.planner.facts import Fact
from posenc.planner.layers import own_length
from posenc.planner.methods import (
    CONFIGURED,
    LARGER_BASE,
    METHODS,
    NAMES,
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
    precedent_of,
    ranks,
    readiness,
    released_at,
)
from posenc.planner.scaling_effects import (
    Pairs,
    compare_pairs,
    kernel_at,
    short_cost,
    stale_from,
    worst_cosine_error,
)
from posenc.schemes.rope import RopeConfig, rope_frequencies


@dataclass(frozen=True)
class Extension:
    """A plan, without its methods yet, for a model with RoPE whose trained length is known.

    scheme: RoPE of its config. trained_length: tokens of its training texts before any scaling.
    """

    plan: ContextPlan
    scheme: RopeConfig
    trained_length: int

    @property
    def trained(self) -> RopeConfig:
        """RoPE before any scaling."""
        return self.scheme.as_trained()

    @property
    def stretch(self) -> float:
        """The part of the target that a query sees, over the trained length."""
        return self.plan.reach / self.trained_length

    @property
    def current(self) -> RopeConfig:
        """RoPE as the model's weights expect it at present."""
        return self.scheme if self.plan.trained_with_scaling else self.trained

    @property
    def own_length(self) -> int:
        """Tokens that the model reaches as it is configured, its trained length at least."""
        return self.plan.own_length or self.trained_length


def method_plans(
    extension: Extension, names: Sequence[str]
) -> tuple[list[MethodPlan], tuple[Fact, ...]]:
    """Return a plan of each method, the first in rank first, and why others are left out.

    names: keys of METHODS. The scaling of the model's config is a method, too.
    """
    scheme, trained = extension.scheme, extension.trained
    plans: list[MethodPlan] = []
    missing: list[Fact] = []
    if scheme != trained:
        # Dynamic NTK leaves frequencies as trained up to the trained length.
        is_unchanged = scheme.at_length(extension.plan.target).slowest_divisor == 1
        configured = as_configured(
            extension.plan.target,
            own_length(extension.plan.model, extension.plan.kind),
            was_trained=extension.plan.trained_with_scaling or is_unchanged,
        )
        plans.append(_method_plan(extension, configured, scheme))
    for method, config in _configs(extension, names):
        known = config == scheme != trained
        if config is None or known:
            why = left_out(
                method,
                trained,
                scheme if known else extension.current,
                extension.plan.base_window,
                configured=known,
                searched=extension.plan.base_searched,
                behind=_behind_larger_base(names, extension.stretch),
            )
            missing.append(why)
        else:
            plans.append(_method_plan(extension, method, config))
    return _ranked(plans, extension.stretch), tuple(missing)


def _ranked(plans: Sequence[MethodPlan], stretch: float) -> list[MethodPlan]:
    """Return the methods with their ranks, the first one first."""
    numbers = ranks([method.standing for method in plans], stretch)
    ranked = [replace(method, rank=rank) for method, rank in zip(plans, numbers, strict=True)]
    return sorted(ranked, key=lambda method: (method.rank, NAMES.index(method.method.name)))


def _behind_larger_base(names: Sequence[str], factor: float) -> list[str]:
    """Return the methods that direct comparisons after light training put behind a larger base."""
    labels = []
    for method in (METHODS[name] for name in names):
        result = compared(LARGER_BASE.kind, method.kind, factor, "light")
        if result is not None and result.verdict == "first":
            labels.append(method.label)
    return labels


def _configs(
    extension: Extension, names: Sequence[str]
) -> Iterator[tuple[Method, RopeConfig | None]]:
    """Yield every method of `names` that fits with its config, None where it has none."""
    trained, scheme, window = extension.trained, extension.scheme, extension.plan.base_window
    longer = extension.plan.reach > extension.trained_length
    if not longer and UNSCALED.name in names:
        no_new = NEW_LENGTH if extension.plan.target > extension.trained_length else NO_NEW_DISTANCE
        yield no_new, trained if extension.current == trained else None
    for method in (METHODS[name] for name in names if longer):
        if method is UNSCALED:
            yield method, trained
        elif method.scaling is None:
            larger = window is not None and window.rounded > trained.base
            yield method, trained.replace(base=window.rounded) if window and larger else None
        else:
            scaled = scaled_for(
                method.scaling,
                trained,
                text=extension.plan.target,
                reach=extension.plan.reach,
                trained_length=extension.trained_length,
            )
            if scaled is not None and scaled.kind == scheme.kind:
                scaled = _of_own_kind(extension, scaled)
            if (
                scaled is not None
                and (least := _factor_of_makers(extension, scaled.kind)) is not None
            ):
                scaled = scaled.replace(factor=least)
            yield method, scaled


def _of_own_kind(extension: Extension, scaled: RopeConfig) -> RopeConfig:
    """Return the model's own scaling to the target: its ramp and the like stay as they are."""
    # Within its context the model has its scaling already.
    if extension.current == extension.scheme and extension.plan.reach <= extension.own_length:
        return extension.scheme
    changed = ("factor", "trained_length", "length", "attention_factor")
    values = {name: getattr(scaled, name) for name in fields.rules(scaled) if name in changed}
    return extension.scheme.replace(**values)


def _factor_of_makers(extension: Extension, kind: str) -> float | None:
    """Return the least factor by which the model's makers recommend a kind of scaling, None for none."""
    evidence = extension.plan.evidence
    if evidence is None or evidence.kind != kind:
        return None
    is_theirs = extension.trained_length == evidence.preset.trained_length
    return evidence.factor_for(extension.plan.reach) if is_theirs else None


def _method_plan(extension: Extension, method: Method, config: RopeConfig) -> MethodPlan:
    """Return one method's plan, not ranked yet."""
    method = replace(method, evidence=method.evidence.of(extension.plan.model))
    evidence = extension.plan.evidence
    text, reach, length = extension.plan.target, extension.plan.reach, extension.trained_length
    longer, factor = reach > length, reach / length
    measured = _measured(extension, method, config) if longer else ()
    is_tuned = longer and method.evidence.training == "fine-tuning"
    advised = longer and evidence is not None and evidence.recommends(config, reach)
    inv_freq, attention_factor = rope_frequencies(config, length=text)
    weight, softmax = softmax_scale(extension.plan.model.rotary_kind.block_scale, config)
    pairs = _pairs(extension, method, config)
    ready = readiness(method.evidence, factor, recommended=advised, measured=measured)
    fine_tuning = method.evidence.fine_tuning(factor)
    distances = sorted({reach // 4, reach // 2, reach - 1})
    kernel = kernel_at(config, distances, text).tolist()
    return MethodPlan(
        method=method,
        config=config,
        attention_factor=attention_factor,
        pairs=pairs,
        short=short_cost(extension.current, config, length),
        kernel=dict(zip(distances, kernel, strict=True)),
        first_negative=first_negative_offset(inv_freq, extension.plan.scanned),
        stale_from=stale_from(config, length, text),
        cosine_error=worst_cosine_error(inv_freq, text),
        code_cosine_error=_error_in_code(config, inv_freq, text),
        softmax_weight=weight,
        softmax_scale=softmax,
        factor=factor,
        measured=measured,
        fine_tuned=fine_tuned_at(config.kind, factor) if is_tuned else None,
        advice=evidence if advised else None,
        standing=Standing(
            kind=method.kind,
            readiness=ready,
            training="none" if ready is Readiness.UNTRAINED else fine_tuning or "light",
            fine_tuning=fine_tuning,
            precedent=precedent_of(extension.plan.model, method.kind, reach),
            released=released_at(method.kind, factor),
            unseen=pairs.unseen_count > 0,
        ),
    )


def _measured(
    extension: Extension, method: Method, config: RopeConfig
) -> tuple[MeasuredRatio, ...]:
    """Return what small models measured of a method without training, as its readiness needs it."""
    other_base = type(config) is RopeConfig and config != extension.trained
    if method.evidence.training not in ("fine-tuning", "fails") or other_base:
        return ()
    kind = method.evidence.measured_as or config.kind
    return measured_at(kind, extension.stretch)


def _pairs(extension: Extension, method: Method, config: RopeConfig) -> Pairs:
    """Return the frequencies of training and those at the target."""
    sizes = {"text": extension.plan.target, "reach": extension.plan.reach}
    divisor = extension.stretch
    if config != config.as_trained():
        divisor = config.at_length(extension.plan.target).slowest_divisor
    pairs = compare_pairs(
        extension.trained,
        config,
        trained_length=extension.trained_length,
        factor=max(divisor, 1.0),
        **sizes,
    )
    if method.name == CONFIGURED and config == extension.current:
        # The model was trained with its scaling, up to the context that this is made for.
        own = compare_pairs(
            config, config, trained_length=extension.own_length, factor=1.0, **sizes
        )
        pairs = replace(pairs, unseen=own.unseen)
    return pairs


def _error_in_code(
    config: RopeConfig, inv_freq: Float[Tensor, " pairs"], length: int
) -> float | None:
    """Return the largest error of cosines with transformers' frequencies; None where it has none."""
    if not config.in_transformers:
        return None
    computed, _ = rope_frequencies(config, length=length, mode="transformers")
    return worst_cosine_error(inv_freq, length, computed=computed)
