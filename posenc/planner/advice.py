"""What to do to read a longer context, for each amount of training."""

from collections.abc import Iterator
from dataclasses import dataclass

from posenc.planner.methods import LARGER_BASE, Readiness
from posenc.planner.plan import ContextPlan, MethodPlan
from posenc.text import as_factor, count_of


@dataclass(frozen=True)
class Advice:
    """What to do with one amount of training.

    method: its label, "" where no source reports one. short: the expected change on short context.
    sentence: what is known. source: of the sentence.
    """

    title: str
    method: str
    short: str
    sentence: str
    source: str


# What a method takes that needs no fine-tuning.
TO_DO = {
    Readiness.OWN_SCALING: "use its own scaling as it is",
    Readiness.RECOMMENDED: "use the scaling that its makers recommend",
    Readiness.UNTRAINED: "measure without training first",
}
# Methods whose sources trained on billions of tokens; the others took some hundred steps of fine-tuning.
_CONTINUED = ("llama3", LARGER_BASE.name)


def times_longer(factor: float) -> str:
    """Return a factor in words, such as 16x."""
    return f"{as_factor(factor).removeprefix('x')}x"


def advice_of(plan: ContextPlan) -> tuple[Advice, ...]:
    """Return the highest-ranked method for each amount of training that a source supports.

    () where nothing is to be extended, or no method is compared.
    """
    return tuple(_advice(plan)) if plan.longer and plan.methods else ()


def _advice(plan: ContextPlan) -> Iterator[Advice]:
    tuned = [one for one in plan.methods if one.readiness is Readiness.TRAINED]
    choices = {
        "No training": [one for one in plan.methods if one.readiness in TO_DO],
        "Light fine-tuning": [one for one in tuned if one.method.name not in _CONTINUED],
        "Continued training": [one for one in tuned if one.method.name in _CONTINUED],
    }
    for title, methods in choices.items():
        if methods:
            yield _advice_of(title, methods[0])
        else:
            length = times_longer(plan.methods[0].factor)
            how = "without training" if title == "No training" else f"after {title.lower()}"
            yield Advice(
                title, "", "", f"No source reports a compared method at {length} {how}.", ""
            )


def _advice_of(title: str, first: MethodPlan) -> Advice:
    sentence, source = first.statements[0] if first.advice is None else first.statements[-1]
    if unseen := first.pairs.unseen_count:
        verb = "reaches" if unseen == 1 else "reach"
        sentence = f"{count_of(unseen, 'pair')} {verb} angles unseen in training. {sentence}"
    short = f"mean {first.short.mean:.3f}, largest {first.short.worst:.3f}"
    return Advice(title, first.method.label, short, sentence, source)
