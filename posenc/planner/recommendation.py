"""A plan in a few sentences: how much longer the target is, and what to do first."""

from posenc.planner.evidence import measured_factor
from posenc.planner.methods import (
    CONFIGURED,
    LARGER_BASE,
)
from posenc.planner.paste import needless_layers
from posenc.planner.plan import ContextPlan, MethodPlan
from posenc.planner.ranking import BEST, Readiness
from posenc.planner.sentences import layer_notes
from posenc.text import as_factor, count_of, joined, short_number, significant

_BOUND = "B(k) = sum cos(k theta) must stay at or above 0 for all distances below the context."
_MEN = "Men et al. 2024, arXiv 2405.14591"
_YARN = "Peng et al. 2023, arXiv 2309.00071"
_COSINE_LIMIT = 0.01
_CHUNKED = (
    "chunked_attention"  # layers of Llama 4 whose text is cut into chunks that see nothing else
)


def recommendation(plan: ContextPlan) -> str:
    """Return the plan in a few sentences: how much longer the target is, and what to do first."""
    if plan.trained is None:
        note = layer_notes(plan.model, plan.target, plan.trained_length)[0]
        return f"{plan.name} at {plan.target:,} tokens: {note.sentence}"
    if plan.trained_length is None:
        return f"{plan.name} to {plan.target:,}: its config does not say what it was trained on."
    if not plan.longer:
        return _not_longer(plan, plan.trained_length)
    stretch = as_factor(plan.reach / plan.trained_length)
    seen, there = "", ""
    if plan.reach != plan.target:
        seen, there = f" in the {plan.reach:,} tokens that a layer sees", " in those"
    if plan.own_length and plan.reach > plan.own_length:
        begin = (
            f"{plan.name} reads {plan.own_length:,} tokens with its own scaling; {plan.target:,} is "
            f"{as_factor(plan.reach / plan.own_length)} past that{seen}: measure it as configured first. "
            f"The methods below start from the {plan.trained_length:,} tokens before its scaling, {stretch}"
            f"{there}"
        )
    else:
        begin = f"{plan.name} from {plan.trained_length:,} to {plan.target:,} is {stretch}{seen}"
    first = suggested(plan)
    # A block that the config has already rescales nothing anew.
    is_new = first is not None and first.config != plan.kind.scheme
    needless = needless_layers(plan) if is_new else ""
    end = f" The config block below also rescales {needless}" if needless else ""
    return f"{begin}{_what_to_do(plan)}{end}"


def suggested(plan: ContextPlan) -> MethodPlan | None:
    """Return the method that the recommendation begins with; None where there is none."""
    if not plan.methods:
        return None
    first = plan.methods[0]
    if first.readiness in (*BEST, Readiness.UNTRAINED):
        return first
    tuned = _fine_tuned(plan)
    own = (
        method
        for method in plan.methods
        if plan.own_length and _is_own_kind(plan, method) and method.method.name != CONFIGURED
    )
    return next(iter((*tuned, *own)), first)


def _fine_tuned(plan: ContextPlan) -> list[MethodPlan]:
    """Return the methods of the first rank among those that sources fine-tuned to this factor.

    A larger base counts for plain RoPE only.
    """
    tuned = [
        method
        for method in plan.methods
        if method.readiness is Readiness.TRAINED
        and not (plan.own_length and method.method is LARGER_BASE)
    ]
    return [method for method in tuned if method.rank == tuned[0].rank]


def _is_own_kind(plan: ContextPlan, method: MethodPlan) -> bool:
    return plan.kind.scheme is not None and plan.kind.scheme.kind == method.config.kind


def _what_to_do(plan: ContextPlan) -> str:
    """Return the rest of the recommendation: what to do, without training and with it."""
    first = plan.methods[0] if plan.methods else None
    if first is not None and first.readiness is Readiness.OWN_SCALING:
        return f", which its own scaling ({first.config.words}) is made for: use it as it is."
    if first is not None and first.readiness is Readiness.MADE:
        return (
            f", which its own scaling ({first.config.words}) is made for. That the model was trained with "
            "it is not known: measure it as it is."
        )
    if first is not None and first.advice is not None:
        return (
            f". For {first.advice.models}, use {first.config.words} without training, as their makers "
            f"recommend for long texts ({first.advice.source}); a config does not name its model."
        )
    tuned = _fine_tuned(plan)
    fine_tune = ""
    if tuned:
        keep = "keeps" if len(tuned) == 1 else "keep"
        unseen = [method for method in tuned if method.pairs.unseen_count]
        end = f"which {keep} every pair within angles seen in training"
        end = f"though {_unseen(unseen[0])}" if unseen else end
        fine_tune = f"fine-tune with {joined((x.method.words for x in tuned), 'or')}, {end}."
    if first is not None and first.readiness is Readiness.UNTRAINED:
        after = f" If that is not enough, {fine_tune}" if tuned else ""
        return f". {_without_training(plan, trained=True)} Measure that first.{after}"
    choice = suggested(plan)
    if tuned:
        advice = f"Plan to {fine_tune}"
    elif plan.own_length and choice and _is_own_kind(plan, choice):
        advice = (
            f"Plan to train and to measure, first with {choice.method.words} at a larger factor."
        )
    else:
        advice = "Plan to train and to measure."
    return f". {advice} {_without_training(plan, bool(tuned))}"


def _without_training(plan: ContextPlan, trained: bool) -> str:
    """Say what is known without training; trained: whether a source trained to this factor."""
    tested = [method for method in plan.methods if method.readiness is Readiness.UNTRAINED]
    if tested:
        sentence = (
            f"Without training, {joined((x.method.words for x in tested), 'and')} "
            f"{'is' if len(tested) == 1 else 'are'} reported to work to "
            f"{as_factor(tested[0].method.evidence.untrained_to)}"
        )
        if tested[0].pairs.unseen_count:
            sentence += f", but {_unseen(tested[0])}"
    else:
        stretch = plan.methods[0].factor if plan.methods else 1.0
        sentence = (
            "No source reports that a method compared here keeps its perplexity at "
            f"{as_factor(stretch)} {'without training' if trained else 'with training or without'}"
        )
    measured = [
        method
        for method in tested or plan.methods
        if method.measured and not method.method.evidence.measured_as
    ]
    if not measured:
        return f"{sentence}."
    best = min(measured, key=lambda method: max(ratio.mean for ratio in method.measured))
    ratios = joined((significant(ratio.mean) for ratio in best.measured), "and")
    lengths = joined((f"{ratio.train_length:,}" for ratio in best.measured), "and")
    others = [method.method.words for method in measured if method is not best]
    than = f", less than {joined(others, 'and')}" if others else ""
    return (
        f"{sentence}. Measured here on small models trained on {lengths} bytes, at "
        f"{measured_factor(best.measured, best.factor)}: {best.method.words} raised their perplexity "
        f"{ratios} times{than}."
    )


def _unseen(method: MethodPlan) -> str:
    count, verb = method.pairs.unseen_count, "meets" if method.pairs.unseen_count == 1 else "meet"
    return (
        f"{count_of(count, 'pair')} of {len(method.pairs.before)} {verb} angles unseen in training"
    )


def _not_longer(plan: ContextPlan, trained_length: int) -> str:
    """Say that no distance is new, and whether the trained length is known or assumed."""
    trained = "taken as trained" if plan.assumed else "trained"
    own = next((method for method in plan.methods if method.method.name == CONFIGURED), None)
    most = plan.own_length or trained_length
    if own is not None and plan.scaled_in_training and plan.target <= most:
        return (
            f"{plan.name} was trained with the scaling of its config ({own.config.words}): use the config "
            f"as it is, at every length up to {most:,} tokens."
        )
    if plan.target <= trained_length:
        verb = "is" if plan.assumed else "was"
        sentence = (
            f"{plan.name} {verb} {trained} on {trained_length:,} tokens: {plan.target:,} need no "
            "scaling."
        )
        if own is not None and own.short.worst > 0:
            sentence += (
                f" The scaling of its config ({own.config.words}) acts at this length, too: turn it on for "
                "longer texts only."
            )
        return sentence
    test = "no training or test on texts of this length is known here."
    if plan.evidence is not None and not plan.evidence.kind:
        test = (
            "as released it is not known to be trained on texts of this length. "
            f"{plan.evidence.statement.removesuffix('.')} ({plan.evidence.source})."
        )
    layers = "layers with RoPE" if plan.model.main.scheme != plan.kind.scheme else "layers"
    return (
        f"{plan.name} at {plan.target:,} tokens, {trained} on {trained_length:,}: no distance is new, "
        f"because its {layers} see {plan.reach:,} tokens at most, but {test} {_through_layers(plan)}"
    )


def _through_layers(plan: ContextPlan) -> str:
    """Say how text beyond a window reaches a token."""
    kinds = plan.model.layer_kinds
    unlimited = sum(
        len(kind.layers) for kind in kinds if kind.window is None or kind.window >= plan.target
    )
    if unlimited:
        others = count_of(unlimited, "other layer")
        return f"Text beyond that is read by the {others} alone: measure first."
    if all(kind.name.startswith(_CHUNKED) for kind in kinds):
        return "Text before its chunk never reaches a token: measure first."
    # A window holds the token itself, and that of an encoder as many tokens on either side.
    is_encoder = not any(kind.cache_width for kind in kinds)
    sides, where = (2, "away on either side") if is_encoder else (1, "back")
    steps = [((kind.window or 1) - 1) // sides for kind in kinds]
    reach = sum(len(kind.layers) * step for kind, step in zip(kinds, steps, strict=True))
    layers = sum(len(kind.layers) for kind in kinds)
    each = f"{steps[0]:,} x {layers}" if len(kinds) == 1 else "the windows together"
    return (
        f"Text beyond a window reaches a token through the layers only, from at most {reach:,} tokens "
        f"{where} ({each}): measure first."
    )


def bound_sentence(plan: ContextPlan) -> str:
    """Return where B(k) falls below 0 and which base prevents it, in sentences; "" without RoPE."""
    if plan.trained is None:
        return ""
    begin = f"At base {short_number(plan.trained.base)}, B(k)"
    if plan.first_negative is None:
        return f"{begin} stays at or above 0 up to distance {plan.scanned:,}."
    begin = f"{begin} first falls below 0 at distance {plan.first_negative:,}."
    window = plan.base_window
    if window is not None:
        but = "; some larger bases fail again" if window.narrow else ""
        return f"{begin} Base {window.rounded:,.12g} keeps it at or above 0{but}."
    if plan.base_searched:
        return f"{begin} No base up to 1e12 keeps it at or above 0."
    return f"{begin} No base that keeps it at or above 0 was searched for."


def precision_sentence(plan: ContextPlan) -> str:
    """Return how many positions below the target bfloat16 and float32 distinguish, in a sentence."""
    return (
        f"Of {count_of(plan.target, 'position')}, bfloat16 distinguishes {plan.distinct_bfloat16:,} and "
        f"float32 {plan.distinct_float32:,}."
    )
