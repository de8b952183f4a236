"""A plan in a few sentences, and what to beware of: each caution with its rule and where that is from."""

import math
from dataclasses import dataclass

import numpy as np

from posenc.planner.layer_notes import layer_notes
from posenc.planner.methods import (
    CONFIGURED,
    IN_CODE,
    LARGER_BASE,
    UNSCALED,
    Readiness,
    measured_at_words,
)
from posenc.planner.paste import needless_layers
from posenc.planner.plan import ContextPlan, MethodPlan
from posenc.schemes.rope import RopeConfig
from posenc.text import counted, listed, power, times

_MEN = "Men et al. 2024, arXiv 2405.14591"
_YARN = "Peng et al. 2023, arXiv 2309.00071"
_COSINE_LIMIT = 0.01


@dataclass(frozen=True)
class Caution:
    """Something to beware of. rule: what is checked. sentence: what was found. source: of the rule."""

    rule: str
    sentence: str
    source: str


def verdict(plan: ContextPlan) -> str:
    """Return the plan in a few sentences, made of its numbers: what to do first."""
    if plan.trained is None:
        note = layer_notes(plan.model, plan.target, plan.trained_length)[0]
        return f"{plan.name} at {plan.target:,} tokens: {note.sentence}"
    if plan.trained_length is None:
        return f"{plan.name} to {plan.target:,}: its config does not say what it was trained on."
    if not plan.longer:
        return _not_longer(plan, plan.trained_length)
    stretch = plan.reach / plan.trained_length
    if plan.own_length and plan.reach > plan.own_length:
        said = (
            f"{plan.name} reads {plan.own_length:,} tokens with its own scaling; {plan.target:,} is "
            f"{times(plan.reach / plan.own_length)} past that: measure it as configured first. The methods "
            f"below start from the {plan.trained_length:,} tokens before its scaling, {times(stretch)}"
        )
    else:
        said = f"{plan.name} from {plan.trained_length:,} to {plan.target:,} is {times(stretch)}"
        if plan.reach != plan.target:
            said += f" in the {plan.reach:,} tokens that a layer sees"
    needless = needless_layers(plan) if plan.methods else ""
    also = f" The config block below also rescales {needless}" if needless else ""
    return f"{said}{_recommended(plan)}{also}"


def suggested(plan: ContextPlan) -> MethodPlan | None:
    """Return the method that the verdict begins with, None where there is none.

    Without one that is made for it, recommended, tested or fine-tuned to this factor, it is the model's
    own kind of scaling, stretched; failing that the first of the ranking.
    """
    first = (Readiness.MADE, Readiness.RECOMMENDED, Readiness.UNTRAINED)
    if not plan.methods or plan.methods[0].readiness in first:
        return plan.methods[0] if plan.methods else None
    ready, seen = _fine_tuned(plan)
    same = [
        one
        for one in plan.methods
        if one.config.kind == _own_kind(plan) and one.method.name != CONFIGURED
    ]
    return (seen or ready or (same if plan.own_length else []) or [*plan.methods])[0]


def _fine_tuned(plan: ContextPlan) -> tuple[list[MethodPlan], list[MethodPlan]]:
    """Return the methods that sources fine-tuned to this factor, and those of them without unseen pairs."""
    ready = [
        one
        for one in plan.methods
        if one.readiness is Readiness.TRAINED
        and not (
            plan.own_length and one.method.name == LARGER_BASE.name
        )  # done with plain RoPE alone
    ]
    return ready, [one for one in ready if not one.pairs.unseen.any()]


def _own_kind(plan: ContextPlan) -> str:
    return "" if plan.kind.scheme is None else plan.kind.scheme.kind


def _recommended(plan: ContextPlan) -> str:
    """Return the rest of the verdict: what to do, without training and with it."""
    first = plan.methods[0] if plan.methods else None
    if first is not None and first.readiness is Readiness.MADE:
        return f", which its own scaling ({first.config.words}) is made for: use it as it is."
    if first is not None and first.advice is not None:
        return (
            f". For {first.advice.models}, use {first.config.words} without training, as their makers "
            f"recommend for long texts ({first.advice.source}); a config does not name its model."
        )
    if first is not None and first.readiness is Readiness.UNTRAINED:
        return f". {_untrained(plan, trained=True)} Measure that first."
    ready, seen = _fine_tuned(plan)
    if seen:
        keeps = "keeps" if len(seen) == 1 else "keep"
        said = (
            f"Plan to fine-tune with {listed(map(_called, seen), 'or')}, which {keeps} every pair "
        )
        said += "within angles seen in training."
    elif ready:
        said = f"Plan to fine-tune with {listed(map(_called, ready), 'or')}, though {_unseen(ready[0])}."
    else:
        said = "Plan to train and to measure."
        first = suggested(plan)
        if plan.own_length and first and first.config.kind == _own_kind(plan):
            said = f"Plan to train and to measure, first with {_called(first)} at a larger factor."
    return f". {said} {_untrained(plan, bool(ready))}"


def _untrained(plan: ContextPlan, trained: bool) -> str:
    """Say what is known of the compared methods without training, at this factor.

    trained: whether a source trained a model with one of them to this factor.
    """
    tested = [one for one in plan.methods if one.readiness is Readiness.UNTRAINED]
    if tested:
        verb = "is" if len(tested) == 1 else "are"
        said = (
            f"Without training, {listed(map(_called, tested), 'and')} {verb} reported to work to "
        )
        said += times(tested[0].method.evidence.untrained_to)
        said += f", but {_unseen(tested[0])}" if tested[0].pairs.unseen.any() else ""
    else:
        stretch = plan.methods[0].factor if plan.methods else 1.0
        how = "without training" if trained else "with training or without"
        said = "No source reports that a method compared here keeps its perplexity at "
        said += f"{times(stretch)} {how}"
    measured = [
        one
        for one in tested or plan.methods
        if one.measured and not one.method.evidence.measured_as
    ]
    if not measured:
        return f"{said}."
    best = min(measured, key=lambda one: max(ratio.mean for ratio in one.measured))
    ratios = listed((f"{ratio.mean:.3g}" for ratio in best.measured), "and")
    lengths = listed((f"{ratio.train_length:,}" for ratio in best.measured), "and")
    others = [_called(one) for one in measured if one is not best]
    than = f", less than {listed(others, 'and')}" if others else ""
    at = measured_at_words(best.measured, best.factor)
    return (
        f"{said}. Measured here on small models trained on {lengths} bytes, at {at}: {_called(best)} "
        f"raised their perplexity {ratios} times{than}."
    )


def _called(one: MethodPlan) -> str:
    """Return what a sentence calls a method."""
    if one.method.scaling is not None:
        return one.method.scaling.reading
    names = {UNSCALED.name: "no scaling", CONFIGURED: "its own scaling"}
    return names.get(one.method.name, f"a {one.method.label.lower()}")


def _unseen(one: MethodPlan) -> str:
    count = int(one.pairs.unseen.sum())
    verb = "meets" if count == 1 else "meet"
    return f"{counted(count, 'pair')} of {len(one.pairs.before)} {verb} angles unseen in training"


def _not_longer(plan: ContextPlan, trained_length: int) -> str:
    """Say that no distance is new, and whether the trained length is known or taken for granted."""
    if plan.target > trained_length:
        taken = "taken as trained" if plan.assumed else "trained"
        known = plan.evidence
        test = "no training or test on texts of this length is known here."
        if known is not None and not known.kind:
            said = known.statement.removesuffix(".")
            test = "as released it is not known to be trained on texts of this length. "
            test += f"{said} ({known.source})."
        return (
            f"{plan.name} at {plan.target:,} tokens, {taken} on {trained_length:,}: no distance is new, "
            f"because its layers see {plan.reach:,} tokens at most, but {test} {_through_layers(plan)}"
        )
    trained = "is taken as trained" if plan.assumed else "was trained"
    return f"{plan.name} {trained} on {trained_length:,} tokens: {plan.target:,} need no scaling."


def _through_layers(plan: ContextPlan) -> str:
    """Say how what lies beyond a window reaches a token."""
    open_layers = sum(
        len(kind.layers)
        for kind in plan.model.layer_kinds
        if kind.window is None or kind.window >= plan.target
    )
    if open_layers:
        others = counted(open_layers, "other layer")
        return f"Text beyond that is read by the {others} alone: measure first."
    reach = sum(len(kind.layers) * (kind.window or 0) for kind in plan.model.layer_kinds)
    layers = sum(len(kind.layers) for kind in plan.model.layer_kinds)
    each = (
        f"{plan.reach:,} x {layers}" if len(plan.model.layer_kinds) == 1 else "the windows together"
    )
    return (
        f"Text beyond a window reaches a token through the layers only, from at most {reach:,} tokens back "
        f"({each}): measure first."
    )


def bound_said(plan: ContextPlan) -> str:
    """Say in a sentence where B(k) turns negative and which base satisfies it; "" without RoPE."""
    if plan.trained is None:
        return ""
    return f"At base {power(plan.trained.base)} {_bound(plan)}."


def _bound(plan: ContextPlan) -> str:
    if plan.first_negative is None:
        return f"B(k) stays at or above 0 up to {plan.scanned:,}"
    said = f"B(k) turns negative at {plan.first_negative:,}"
    window = plan.base_window
    if window is not None:
        narrow = ", in a narrow window" if window.narrow else ""
        return f"{said}; base {window.rounded:,.12g} satisfies it{narrow}"
    if plan.base_searched:
        return f"{said}; no base up to 1e12 satisfies it"
    return f"{said}; which base satisfies it was not searched"


def resolution_said(plan: ContextPlan) -> str:
    """Say in a sentence how many positions below the target bfloat16 and float32 tell apart."""
    return (
        f"Of {counted(plan.target, 'position')} {plan.distinct_bfloat16:,} stay apart as bfloat16 "
        f"numbers, {plan.distinct_float32:,} as float32."
    )


def cautions(plan: ContextPlan) -> list[Caution]:
    """Return what to beware of, in the order in which it matters."""
    found: list[Caution] = []
    for sentence in plan.assumed:
        found.append(Caution("The trained length decides every number.", sentence, "its config"))
    found += _of_model(plan)
    found += _of_bound(plan)
    found += [caution for one in plan.methods for caution in _of_method(one, plan)]
    found += _of_layers(plan)
    found += _of_precision(plan)
    return found


def _of_model(plan: ContextPlan) -> list[Caution]:
    """Tell what is published of the model, unless a method already does."""
    known = plan.evidence
    past = plan.trained_length is not None and plan.target > plan.trained_length
    if known is None or not past or any(one.advice is not None for one in plan.methods):
        return []
    rule = (
        "What is published of a model counts more than a formula; a config does not name its model."
    )
    return [Caution(rule, known.statement, known.source)]


def _of_bound(plan: ContextPlan) -> list[Caution]:
    if plan.first_negative is None or plan.trained is None or plan.trained_length is None:
        return []
    rule = "B(k) = sum cos(k theta) must stay at or above 0 for all distances below the context."
    found = []
    if plan.first_negative < plan.trained_length:
        sentence = (
            f"Base {power(plan.trained.base)} breaks the bound at {plan.first_negative:,}, inside the "
            f"trained length of {plan.trained_length:,}: the bound is not a limit of what works."
        )
        found.append(Caution(rule, sentence, _MEN))
    window = plan.base_window
    if window is not None and window.narrow and window.end is not None:
        sentence = (
            f"Bases from {math.ceil(window.base):,} to {math.floor(window.end):,} pass, and larger ones "
            "fail again: a rounded base may be outside."
        )
        found.append(Caution(rule, sentence, _MEN))
    return found


def _of_method(one: MethodPlan, plan: ContextPlan) -> list[Caution]:
    found, name = [], one.method.label
    if one.stale_from is not None:
        found.append(
            Caution(
                "Keys are rotated once, when they are cached.",
                f"{name}: its frequencies change from {one.stale_from:,} tokens on, so keys cached "
                "before are stale unless they are kept unrotated or made again.",
                f"{_YARN}, section 3.3",
            )
        )
    if one.attention_factor != 1 and one.short.worst > 0 and one.stale_from is None:
        found.append(
            Caution(
                "An attention factor acts at every length.",
                f"{name}: logits of rotated features are {one.attention_factor**2:.3f} times as large "
                "in short texts, too.",
                f"{_YARN}, section 3.4",
            )
        )
    unseen = int(one.pairs.unseen.sum())
    configured = one.method.name == CONFIGURED
    shown = plan.own_length if configured and plan.own_length else plan.trained_length
    if unseen and one.method.name != UNSCALED.name and plan.longer:
        found.append(
            Caution(
                "A pair that made less than a turn in training knows no angle past its last one.",
                f"{name}: {counted(unseen, 'pair')} of {len(one.pairs.before)} "
                f"{'turns' if unseen == 1 else 'turn'} farther than texts of {shown:,} tokens show.",
                "Liu et al. 2023, arXiv 2310.05209",
            )
        )
    return found + _of_code(one, plan)


def _of_code(one: MethodPlan, plan: ContextPlan) -> list[Caution]:
    """Say how far public code is from a printed formula, where the plan has both."""
    other = IN_CODE.get(one.config.kind)
    code = next((two for two in plan.methods if other and two.config.kind == other.kind), None)
    if other is None or code is None:
        return []
    excess = code.pairs.after / one.pairs.after - 1
    pair = int(np.abs(excess).argmax())
    return [
        Caution(
            other.rule,
            f"The code's frequencies differ from the printed formula's by up to {excess[pair]:.0%}, at "
            f"pair {pair}; servers compute the code's.",
            other.source,
        )
    ]


def _of_layers(plan: ContextPlan) -> list[Caution]:
    found = []
    for kind, note in zip(
        plan.model.layer_kinds,
        layer_notes(plan.model, plan.target, plan.trained_length),
        strict=True,
    ):
        if len(plan.model.layer_kinds) > 1 or not isinstance(kind.scheme, RopeConfig):
            found.append(Caution(f"Layers: {note.layers}.", note.sentence, note.source))
        found += [Caution(f"Layers: {note.layers}.", said, "its config") for said in kind.notes]
    return found


def _of_precision(plan: ContextPlan) -> list[Caution]:
    found = []
    if plan.trained is not None and plan.distinct_bfloat16 < plan.target:
        found.append(
            Caution(
                "bfloat16 has 8 bits of precision.",
                f"{resolution_said(plan)} Angles must be made in float32 or better.",
                "counted",
            )
        )
    worst = max(plan.methods, key=_float32_error, default=None)
    if worst is not None and _float32_error(worst) > _COSINE_LIMIT:
        said = f"by up to {worst.cosine_error:.1e} where exact frequencies are rounded once"
        if worst.code_cosine_error is not None:
            said += f", and {worst.code_cosine_error:.1e} where they are made in float32, too, as "
            said += "transformers does"
        found.append(
            Caution(
                "float32 has 24 bits of precision.",
                f"{worst.method.label}: angles made in float32 put cosines wrong {said}.",
                "computed at every position",
            )
        )
    return found


def _float32_error(one: MethodPlan) -> float:
    """Return the larger of the two errors of float32 angles."""
    return max(one.cosine_error, one.code_cosine_error or 0.0)
