"""Advice on how a model can read a longer context: with no, little or much further training."""

from collections.abc import Iterator
from typing import NamedTuple

from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.evidence import INFERENCE_METHODS, InferenceMethod, Training
from posenc.planner.ranking import Readiness
from posenc.text import as_factor, count_of


class Advice(NamedTuple):
    """The advice for one amount of further training.

    method: its label, "" where no source reports one. short: the expected change on short context.
    sentence: what is known. source: of the sentence. equal: labels of the methods that share its rank.
    """

    title: str
    method: str
    short: str
    sentence: str
    source: str
    equal: tuple[str, ...] = ()


def at_inference(plan: ContextPlan) -> tuple[InferenceMethod, ...]:
    """Return the methods that are no scalings; () where nothing is to be extended, or without RoPE."""
    return INFERENCE_METHODS if plan.longer and plan.trained is not None else ()


# What a method takes that needs no fine-tuning.
TO_DO = {
    Readiness.OWN_SCALING: "use its own scaling as it is",
    Readiness.RECOMMENDED: "use the scaling that its makers recommend",
    Readiness.MADE: "measure with its own scaling as it is first",
    Readiness.UNTRAINED: "measure without training first",
}


def advice_of(plan: ContextPlan) -> tuple[Advice, ...]:
    """Return the highest-ranked method for each amount of training that a source supports.

    () where nothing is to be extended, or no method is compared.
    """
    return tuple(_advice(plan)) if plan.longer and plan.methods else ()


def _advice(plan: ContextPlan) -> Iterator[Advice]:
    titles: dict[str, Training] = {
        "No training": "none",
        "Light fine-tuning": "light",
        "Continued training": "continued",
    }
    for title, training in titles.items():
        if methods := plan.first_after(training):
            equal = [method.method.label for method in methods[1:]]
            yield _advice_of(title, methods[0])._replace(equal=tuple(equal))
        else:
            length = as_factor(plan.methods[0].factor)
            how = "without training" if title == "No training" else f"after {title.lower()}"
            yield Advice(
                title, "", "", f"No source reports a compared method at {length} {how}.", ""
            )


def _advice_of(title: str, first: MethodPlan) -> Advice:
    sentence, source = first.statements[0] if first.advice is None else first.statements[-1]
    if unseen := first.pairs.unseen_count:
        verb = "reaches" if unseen == 1 else "reach"
        sentence = f"{count_of(unseen, 'pair')} {verb} angles unseen in training. {sentence}"
    cost = first.short
    short = (
        f"mean {cost.mean:.3f}, largest {cost.worst:.3f}. For comparison: the logit of a token with itself "
        f"is {cost.at_zero:.3g}"
    )
    return Advice(title, first.method.label, short, sentence, source)
