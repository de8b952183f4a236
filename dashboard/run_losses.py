"""Losses of trained models as sentences and rows: classes past the training length, what is lowest."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from dashboard import run_accuracies, run_descriptions
from dashboard.text import listed
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED
from posenc.lab.summary import Curve, Effect
from posenc.lab.tasks import Recall
from posenc.text import count_of


def sentence(curves: Sequence[Curve]) -> str:
    """Return which class each scheme has past the training length, and the change of its loss."""
    length = curves[0].specification.train_length
    groups: dict[Effect | None, list[str]] = {}
    for curve in curves:
        if curve.variant == TRAINED and curve.at(length) is not None:
            effect, change, _ = past_training(curve)
            name = summary.label(curve, curves)
            text = name if change is None else f"{name} ({nats(change)})"
            groups.setdefault(effect, []).append(text)
    parts = []
    for effect in (*Effect, None):
        if names := groups.get(effect):
            one, several = (effect, effect.plural) if effect else ("ends", "end")
            verb = one if len(names) == 1 else several
            parts.append(f"{listed(names)} {verb}" + ("" if effect else f" at {length:,}"))
    return f"{lengths(curves).capitalize()}: {'; '.join(parts)}."


def lengths(curves: Sequence[Curve]) -> str:
    """Return the training length and the longest context of models that are compared."""
    longest = max(point.x for curve in curves for point in curve.points)
    length = count_of(curves[0].specification.train_length, "token")
    return f"trained on {length}, evaluated at {longest:,}"


class PastTraining(NamedTuple):
    """The change of the loss past the training length; None where no longer context was evaluated.

    change: nats, at the longest context. text: both for a badge or a list.
    """

    effect: Effect | None
    change: float | None
    text: str


def past_training(curve: Curve) -> PastTraining:
    """Return how the loss of a curve changes past its training length."""
    loss, last = curve.at(curve.specification.train_length), curve.points[-1]
    effect = None if loss is None else summary.effect(curve, loss)
    if loss is None or effect is None:
        return PastTraining(None, None, f"ends at {last.x:,} tokens")
    return PastTraining(effect, last.mean - loss, f"{effect}: {nats(last.mean - loss)}")


def nats(change: float) -> str:
    """Return a change of loss; its third decimal tells which side of a rule's limit it is on."""
    return f"{change:+.{2 if abs(change) >= 1 else 3}f} nats"


def rules() -> str:
    """Return the rule of each class past the training length."""
    text = " ".join(f"{str(effect).capitalize()}: {effect.rule}." for effect in Effect)
    return text.replace(": ", ": loss ", 1)


def rules_in_percent() -> str:
    """Return what the limits of the rules are in percent of perplexity."""
    held, degraded = summary.HELD, summary.DEGRADED
    return (
        f"A loss that is {held:.3f} nats higher is a perplexity that is {math.expm1(held):.0%} higher; "
        f"{degraded:.3f} nats are {math.expm1(degraded):.0%}."
    )


def row(curve: Curve, curves: Sequence[Curve]) -> dict[str, object]:
    """Return the losses of a curve as a row of the table."""
    loss, last = summary.at_training_length(curve, curves), curve.points[-1]
    is_longer = last.x > curve.specification.train_length  # a table may end there
    own = curve.at(curve.specification.train_length)  # most variants have none
    row: dict[str, object] = {"scheme": summary.label(curve, curves)}
    if loss is not None:
        effect = summary.effect(curve, loss)
        row |= {
            "past training": str(effect or "ends"),
            "breaks at": summary.first_degraded_length(curve, loss) if effect else None,
            "loss": own,
            "perplexity": None if own is None else summary.perplexity(own),
            "bits per byte": None if own is None else summary.bits_per_byte(own),
            "change at the end": last.mean - loss if effect else None,
            "perplexity ratio": summary.perplexity(last.mean - loss) if effect else None,
        }
    return row | {
        "evaluated to": last.x,
        "loss at the end": last.mean if is_longer else None,
        "lowest seed": last.low if is_longer else None,
        "highest seed": last.high if is_longer else None,
        "seeds": curve.seeds,
    }


def lowest(curves: Sequence[Curve]) -> str:
    """Return which scheme has the lowest loss at the training length, and which may be as low."""
    length = curves[0].specification.train_length
    lowest = summary.lowest([curve for curve in curves if curve.variant == TRAINED], length)
    if not lowest:
        return ""
    best, *others = (summary.label(curve, curves) for curve in lowest)
    tie = f", not clearly different from {listed(others)}" if others else ""
    return f"Lowest loss at {count_of(length, 'token')}: {best}, {lowest[0].at(length):.2f}{tie}."


def lowest_cut(curves: Sequence[Curve]) -> str:
    """Return that every model of the longest text is clearly worse than one whose text is cut, if so.

    A model whose text is cut to its last L tokens has its loss at the training length L everywhere.
    """
    length = curves[0].specification.train_length
    longest = max(point.x for curve in curves for point in curve.points)
    cut = {curve: loss for curve in curves if (loss := curve.at(length)) is not None}
    whole = {curve: loss for curve in curves if (loss := curve.at(longest)) is not None}
    if longest == length or not cut or not whole:
        return ""
    best, lowest = min(cut, key=cut.__getitem__), min(whole, key=whole.__getitem__)
    gap = summary.difference(best, lowest, length, longest)
    if gap is None or not gap.counts or gap.mean > 0:
        return ""
    return (
        f"**{summary.label(best, curves)} that sees only the last {length:,} tokens has a loss of "
        f"{cut[best]:.2f}**, less than any of these models that sees {longest:,}: the lowest is "
        f"{summary.label(lowest, curves)}, {whole[lowest]:.2f}."
    )


def untrained_scaling(curves: Sequence[Curve]) -> str:
    """Return how cutting the text compares with the best way to read twice as much without training.

    Such a way is a scaling of RoPE, or a table whose last row is repeated. "" where none was read, or where
    the difference may be 0.
    """
    length = curves[0].specification.train_length
    plain = {
        curve.specification: curve
        for curve in curves
        if curve.variant == TRAINED and curve.specification.fine_tuning is None
    }
    read = {
        curve: loss
        for curve in curves
        if curve.variant != TRAINED
        and curve.specification in plain
        and (loss := curve.at(2 * length)) is not None
    }
    if not read:
        return ""
    best = min(read, key=read.__getitem__)
    gap = summary.difference(best, plain[best.specification], 2 * length, length)
    if gap is None or not gap.counts:
        return ""
    change = f"{abs(gap.mean):.2f} nats {'higher' if gap.mean > 0 else 'lower'}"
    low, high = sorted((abs(gap.low), abs(gap.high)))
    return (
        f"**{summary.label(best, curves)}, scaled after training**: at {2 * length:,} tokens its loss is "
        f"{change} than that of the same models that see only the last {length:,} (95% interval {low:.2f} "
        f"to {high:.2f})."
    )


def lines(curves: Sequence[Curve], *, is_cut: bool = True) -> str:
    """Return what the lines, dots and bands of losses are; is_cut: as of `about`."""
    several = any(curve.seeds > 1 for curve in curves)
    bands = "; dots: single seeds; bands: lowest to highest seed" if several else ""
    length = count_of(curves[0].specification.train_length, "token")
    cut = f"; thin lines: the same models with their text cut to the last {length}."
    if not is_cut:
        cut = ". Cut text has no line here: its loss is measured by context, on other bytes."
    means = f"mean of {run_descriptions.seeds(curves)}" if several else "one seed each"
    return f"Lines: {means}{bands}{cut}"


def beyond_loss(recall: Sequence[Curve] = ()) -> str:
    """Return what a loss leaves open, and what models recall of the farthest values.

    recall: curves of accuracy by distance; those that did not learn the task say nothing.
    """
    sentence = (
        "**Loss is not everything:** a model can keep it low by ignoring distant tokens. Recall and Copy "
        "show whether it still uses them."
    )
    ends = [(curve, curve.points[-1]) for curve in recall if summary.judged(curve, recall)]
    if not ends:
        return sentence
    shares = listed([f"{summary.label(curve, recall)} {end.mean:.0%}" for curve, end in ends])
    length = recall[0].specification.train_length
    end = max(point.x for _, point in ends)
    distances = run_accuracies.recall_distances([curve for curve, _ in ends])
    return (
        f"{sentence} Recall at {distances}: {shares}; a rule that knows the distance and compares no "
        f"keys: {Recall.by_position(length, end):.0%}."
    )
