"""The facts of a recommendation: how much longer the target is, and what to do first."""

import dataclasses
from collections.abc import Iterator, Sequence

from posenc.models.layer_words import CHUNKED
from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.evidence import derivatives_of, measured_factor
from posenc.planner.facts import Fact, say
from posenc.planner.methods import CONFIGURED
from posenc.planner.paste import needless_layers
from posenc.planner.ranking import BEST, NO_TRAINING, Readiness
from posenc.planner.sentences import layer_notes


def recommendation(plan: ContextPlan) -> str:
    """Return the plan in a few sentences: how much longer the target is, and what to do first."""
    said = "".join(say("verdict", fact) for fact in recommendation_facts(plan))
    return " ".join(filter(None, (said.strip(), how_far(plan))))


def to_do(plan: ContextPlan) -> str:
    """Return what to do first about a longer target, as a clause that names methods; "" without any.

    It is the action of `recommendation`, without reports and measurements.
    """
    return "".join(say("to_do", fact) for fact in _to_do(plan))


def how_far(plan: ContextPlan) -> str:
    """Return to what length RULER found that the suggested method works, in a sentence; "" if not known."""
    return "".join(say("how_far", fact) for fact in _how_far(plan))


def bound_sentence(plan: ContextPlan) -> str:
    """Return where B(k) falls below 0 and which base prevents it, in sentences; "" without RoPE."""
    return "".join(say("bound", fact) for fact in _bound(plan))


def precision_sentence(plan: ContextPlan) -> str:
    """Return how many positions below the target bfloat16 and float32 distinguish, in a sentence."""
    numbers = {"bfloat16": plan.distinct_bfloat16, "float32": plan.distinct_float32}
    return say("precision", Fact("distinct", {"target": plan.target, **numbers}))


def recommendation_facts(plan: ContextPlan) -> Iterator[Fact]:
    """Yield the facts of a recommendation, in the order in which they are said."""
    lengths = {"name": plan.name, "target": plan.target, "trained": plan.trained_length}
    if plan.trained is None:
        note = layer_notes(plan.model, plan.target, plan.trained_length)[0]
        yield Fact("without_rope", lengths | {"note": note.sentence})
        return
    if plan.trained_length is None:
        yield Fact("trained_unknown", lengths)
        return
    if not plan.longer:
        yield from _not_longer(plan, lengths)
        return
    numbers = lengths | {"reach": plan.reach, "stretch": plan.reach / plan.trained_length}
    in_window = plan.reach != plan.target
    if plan.own_length and plan.reach > plan.own_length:
        numbers |= {"own": plan.own_length, "past": plan.reach / plan.own_length}
        yield Fact("past_own_in_window" if in_window else "past_own", numbers)
    else:
        yield Fact("longer_in_window" if in_window else "longer", numbers)
    yield from _what_to_do(plan)
    first = suggested(plan)
    # A block that the config has already rescales nothing anew.
    is_new = first is not None and first.config != plan.kind.scheme
    if is_new and (needless := needless_layers(plan)) is not None:
        yield needless


def suggested(plan: ContextPlan) -> MethodPlan | None:
    """Return the method that the recommendation begins with; None where there is none."""
    if not plan.methods:
        return None
    first = plan.methods[0]
    if first.readiness in NO_TRAINING:
        return first
    tuned = _fine_tuned(plan)
    own = (
        method
        for method in plan.methods
        if plan.own_length and _is_own_kind(plan, method) and method.method.name != CONFIGURED
    )
    return next(iter((*tuned, *own)), first)


def _to_do(plan: ContextPlan) -> Iterator[Fact]:
    if not plan.methods:
        return
    first, tuned = plan.methods[0], _fine_tuned(plan)
    if first.readiness in NO_TRAINING:
        word, methods = first.readiness.value, plan.first_after("none")
    elif tuned:
        word, methods = "fine_tune", tuned
    elif (choice := suggested(plan)) and plan.own_length and _is_own_kind(plan, choice):
        word, methods = "larger_factor", (choice,)
    else:
        word, methods = "train_and_measure", ()
    if plan.own_length and plan.reach > plan.own_length:
        yield Fact("past_own", {"own": plan.own_length})
    yield Fact(word, {"methods": [method.method.words for method in methods]})


def _how_far(plan: ContextPlan) -> Iterator[Fact]:
    """Yield what RULER found of models extended by the suggested method, or of the model as it is."""
    first = suggested(plan) if plan.longer else None
    if first is not None and first.readiness not in BEST:
        extended = derivatives_of(plan.model, first.method.kind)
        if extended:
            longest = max(one.effective for one in extended)
            yield Fact("extended", {"count": len(extended), "effective": longest})
        return
    measured = plan.known_lengths.effective if plan.known_lengths else ()
    for one in measured:
        if one.benchmark == "RULER":
            yield Fact(one.bound or "itself", {"model": one.model, "effective": one.tokens})


def _fine_tuned(plan: ContextPlan) -> tuple[MethodPlan, ...]:
    """Return the methods that come first after the least fine-tuning that a source reports."""
    return plan.first_after("light", plain=True) or plan.first_after("continued", plain=True)


def _is_own_kind(plan: ContextPlan, method: MethodPlan) -> bool:
    return plan.kind.scheme is not None and plan.kind.scheme.kind == method.config.kind


def _what_to_do(plan: ContextPlan) -> Iterator[Fact]:
    """Yield the rest of a recommendation: what to do, without training and with it."""
    first = plan.methods[0] if plan.methods else None
    if first is not None and first.readiness in (Readiness.OWN_SCALING, Readiness.MADE):
        word = "own_scaling" if first.readiness is Readiness.OWN_SCALING else "made_for"
        yield Fact(word, {"scheme": first.config.words})
        return
    if first is not None and first.advice is not None:
        advice = first.advice
        numbers = {"models": advice.models, "source": advice.source}
        yield Fact("makers", numbers | {"scheme": first.config.words})
        return
    tuned = _fine_tuned(plan)
    if first is not None and first.readiness is Readiness.UNTRAINED:
        yield from _without_training(plan, trained=True)
        yield Fact("measure_first", {})
        if tuned:
            yield Fact("if_not_enough", {})
            yield from _fine_tune(tuned)
        return
    choice = suggested(plan)
    if tuned:
        yield Fact("plan_to", {})
        yield from _fine_tune(tuned)
    elif plan.own_length and choice and _is_own_kind(plan, choice):
        yield Fact("larger_factor", {"method": choice.method.words})
    else:
        yield Fact("train_and_measure", {})
    yield from _without_training(plan, trained=bool(tuned))


def _fine_tune(tuned: Sequence[MethodPlan]) -> Iterator[Fact]:
    names = [method.method.words for method in tuned]
    unseen = next((method for method in tuned if method.pairs.unseen_count), None)
    numbers = {"methods": names, "count": len(names)}
    if unseen is None:
        yield Fact("fine_tune", numbers)
    else:
        yield Fact("fine_tune_unseen", numbers | _unseen(unseen))


def _without_training(plan: ContextPlan, trained: bool) -> Iterator[Fact]:
    """Yield what is known without training; trained: whether a source trained to this factor."""
    tested = [method for method in plan.methods if method.readiness is Readiness.UNTRAINED]
    if tested:
        first = plan.first_after("none")
        numbers = {
            "methods": [method.method.words for method in first],
            "count": len(first),
            "factor": first[0].method.evidence.untrained_to,
        } | _unseen(first[0])
        yield Fact("reported_unseen" if numbers["unseen"] else "reported", numbers)
        yield from _disagreement(plan, first[0])
    else:
        stretch = plan.methods[0].factor if plan.methods else 1.0
        word = "no_report_untrained" if trained else "no_report"
        yield Fact(word, {"factor": stretch})
    measured = [
        method
        for method in tested or plan.methods
        if method.measured and not method.method.evidence.measured_as
    ]
    if not measured:
        return
    ratios = sorted(
        ((method.method.words, ratio) for method in measured for ratio in method.measured),
        key=lambda named: named[1].mean,
    )
    least = ratios[0][1]
    yield Fact(
        "measured",
        {
            "length": least.train_length,
            "seeds": least.seeds,
            "factor": measured_factor([ratio for _, ratio in ratios], measured[0].factor),
            "rises": [
                Fact("rise", {"method": name} | dataclasses.asdict(ratio)) for name, ratio in ratios
            ],
        },
    )


def _disagreement(plan: ContextPlan, method: MethodPlan) -> Iterator[Fact]:
    """Yield with which methods comparisons without training disagree about a method."""
    kind = method.method.kind
    pairs = [
        {pair.first, pair.second}
        for pair in plan.comparisons
        if (pair.training, pair.verdict) == ("none", "disagree")
    ]
    others = [other.method.words for other in plan.methods if {kind, other.method.kind} in pairs]
    if others:
        yield Fact("comparisons_disagree", {"method": method.method.words, "others": others})


def _unseen(method: MethodPlan) -> dict[str, int]:
    return {"unseen": method.pairs.unseen_count, "pairs": len(method.pairs.before)}


def _not_longer(plan: ContextPlan, lengths: dict[str, object]) -> Iterator[Fact]:
    """Yield that no distance is new, and whether the trained length is known or assumed."""
    own = next((method for method in plan.methods if method.method.name == CONFIGURED), None)
    most = plan.own_length or plan.trained_length or 0
    if own is not None and plan.trained_with_scaling and plan.target <= most:
        yield Fact("as_it_is", lengths | {"scheme": own.config.words, "most": most})
        return
    if plan.trained_length is not None and plan.target <= plan.trained_length:
        yield Fact("no_scaling_assumed" if plan.assumed else "no_scaling", lengths)
        if own is not None and own.short.worst > 0:
            yield Fact("acts_here_too", {"scheme": own.config.words})
        return
    partly = plan.model.main.scheme != plan.kind.scheme
    layers = {"layers": Fact("rope_layers" if partly else "layers", {}), "reach": plan.reach}
    word = "no_new_distance_assumed" if plan.assumed else "no_new_distance"
    yield Fact(word, lengths | layers)
    if plan.evidence is not None and not plan.evidence.kind:
        statement = plan.evidence.statement.removesuffix(".")
        yield Fact("as_released", {"statement": statement, "source": plan.evidence.source})
    else:
        yield Fact("no_test", {})
    yield _through_layers(plan)


def _through_layers(plan: ContextPlan) -> Fact:
    """Return how text beyond a window reaches a token."""
    kinds = plan.model.layer_kinds
    unlimited = sum(
        len(kind.layers) for kind in kinds if kind.window is None or kind.window >= plan.target
    )
    if unlimited:
        return Fact("other_layers", {"count": unlimited})
    if all(kind.facts.word == CHUNKED for kind in kinds):  # as Llama 4's: chunks see nothing else
        return Fact("chunks", {})
    # A window holds the token itself, and that of an encoder as many tokens on either side.
    is_encoder = not any(kind.cache_width for kind in kinds)
    sides = 2 if is_encoder else 1
    steps = [((kind.window or 1) - 1) // sides for kind in kinds]
    reach = sum(len(kind.layers) * step for kind, step in zip(kinds, steps, strict=True))
    layers = sum(len(kind.layers) for kind in kinds)
    if len(kinds) == 1:
        word = "windows_both_sides" if is_encoder else "windows"
    else:
        word = "windows_together_both_sides" if is_encoder else "windows_together"
    return Fact(word, {"reach": reach, "step": steps[0], "layers": layers})


def _bound(plan: ContextPlan) -> Iterator[Fact]:
    if plan.trained is None:
        return
    base = plan.trained.base
    if plan.first_negative is None:
        yield Fact("stays", {"base": base, "scanned": plan.scanned})
        return
    yield Fact("falls", {"base": base, "distance": plan.first_negative})
    window = plan.base_window
    if window is not None:
        yield Fact("narrow" if window.narrow else "keeps", {"base": window.rounded})
    else:
        yield Fact("none_found" if plan.base_searched else "not_searched", {})
