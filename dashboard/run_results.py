"""Measured results of trained models as sentences and tables: losses in three classes, accuracies."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from dashboard.text import listed
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED
from posenc.lab.runs import RunInfo
from posenc.lab.specification import Specification
from posenc.lab.summary import Curve, Effect
from posenc.lab.tasks import Language, Questions, Recall, questions_of
from posenc.text import count_of

ACCURACIES = "accuracy in training", "accuracy at the end"  # columns of tables, shares of 1


def measure(specification: Specification) -> str:
    """Return the measure by which models of a task are compared first."""
    return "context" if specification.task == Language.kind else specification.task


def farthest(specification: Specification) -> int:
    """Return the largest length or distance that training shows."""
    length = specification.train_length
    if specification.task == Language.kind:
        return length
    return questions_of(specification.task).farthest(length)


class HardlyLearned(NamedTuple):
    """The lowest loss of models, and the lower one of byte pairs, which know no position; nats per byte."""

    loss: float
    pair_loss: float

    def __str__(self) -> str:
        return (
            f"These models have hardly learned: their loss is {self.loss:.2f} nats or more, and the "
            f"frequencies of byte pairs, which know no position, reach {self.pair_loss:.2f}. What happens "
            "past the training length says nothing yet: train longer."
        )


def hardly_learned(curves: Sequence[Curve], infos: Iterable[RunInfo]) -> HardlyLearned | None:
    """Return the losses by which models as trained have learned less than byte pairs, None for others.

    infos: of their runs, on one text or on none.
    """
    pair_loss = next((info.pair_loss for info in infos if info.pair_loss is not None), None)
    losses = [
        loss
        for curve in curves
        if curve.variant == TRAINED
        and (loss := curve.at(curve.specification.train_length)) is not None
    ]
    if pair_loss is None or not losses or min(losses) < pair_loss:
        return None
    return HardlyLearned(min(losses), pair_loss)


def headline(curves: Sequence[Curve], hardly: HardlyLearned | None) -> str:
    """Return how each scheme as trained does past its training length, or that it is too early to tell."""
    if not curves:
        return "Every training of this comparison stopped early."
    if hardly:
        return str(hardly)
    return _losses(curves) if curves[0].measure == "context" else _accuracies(curves)


def table(curves: Sequence[Curve], hardly: HardlyLearned | None = None) -> pd.DataFrame:
    """Return a row per curve: what it measured in training, and past it, where models have learned."""
    language = bool(curves) and curves[0].measure == "context"
    row, length = (_loss_row, "breaks at") if language else (_accuracy_row, "half correct up to")
    frame = pd.DataFrame([row(curve, curves) for curve in curves])
    rates = [
        _short_rate(curve.specification.learning_rate, curve.specification.scheme_rate)
        for curve in curves
    ]
    if len({*rates}) > 1:
        frame = frame.assign(**{"learning rate": rates})
    if hardly:
        frame = frame.assign(**{"past training": "not judged", length: None})
    return frame.astype({length: "Int64"}) if length in frame else frame  # an integer or blank


def _short_rate(learning_rate: float, scheme_rate: float) -> str:
    return f"{learning_rate:g}" + ("" if scheme_rate == 1 else f", own ×{scheme_rate:g}")


def in_percent(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose accuracies are in percent, as people read them."""
    return table.assign(
        **{name: 100 * table[name].astype(float) for name in ACCURACIES if name in table}
    ).rename(columns={name: f"{name} (%)" for name in ACCURACIES})


def about(
    curves: Sequence[Curve], hardly: HardlyLearned | None = None, *, is_cut: bool = True
) -> str:
    """Return what lines and bands are, and the rules of the classes, where models have learned.

    is_cut: whether the lines of models whose text is cut to the training length are drawn, too.
    """
    specification = curves[0].specification
    if specification.task != Language.kind:
        task, trained = questions_of(specification.task), specification.train_length
        last = max(point.x for curve in curves for point in curve.points)
        return task.about.format(
            length=trained,
            farthest=farthest(specification),
            last=last,
            by_position=task.by_position(trained, last),
        )
    lines = about_lines(curves, is_cut=is_cut)
    if hardly:
        return lines
    return " ".join(part for part in (_lowest_loss(curves), lines, rules()) if part)


def about_lines(curves: Sequence[Curve], *, is_cut: bool = True) -> str:
    """Return what the lines, dots and bands of losses are; is_cut: as of `about`."""
    several = any(curve.seeds > 1 for curve in curves)
    bands = "; dots: single seeds; bands: lowest to highest seed" if several else ""
    length = count_of(curves[0].specification.train_length, "token")
    cut = f"; thin lines: the same models with their text cut to the last {length}."
    if not is_cut:
        cut = ". Cut text has no line here: its loss is measured by context, on other bytes."
    return f"Lines: {f'mean of {seeds(curves)}' if several else 'one seed each'}{bands}{cut}"


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
    return (
        f"{sentence} Recall at {recall_distances([curve for curve, _ in ends])}: {shares}; a rule "
        f"that knows the distance and compares no keys: {Recall.by_position(length, end):.0%}."
    )


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


def recall_past_training(curve: Curve) -> str:
    """Return the accuracy of recall at the longest distance in words; none where it was not learned."""
    last = curve.points[-1]
    if not summary.learned(curve):
        return "not learned"
    if last.x <= farthest(curve.specification):
        return f"ends at {last.x:,}"
    return f"{last.mean:.0%}"


def recall_distances(curves: Sequence[Curve]) -> str:
    """Return the longest distance of recall, and the longest that training shows."""
    distance = max(point.x for curve in curves for point in curve.points)
    return f"distance {distance:,}, trained up to {farthest(curves[0].specification):,}"


def seeds(curves: Sequence[Curve]) -> str:
    """Return with how many seeds models were trained: "3 seeds", "1 to 3 seeds"."""
    least, most = min(curve.seeds for curve in curves), max(curve.seeds for curve in curves)
    return f"{least} to {most} seeds" if most > least else count_of(most, "seed")


def at_base(curves: Sequence[Curve]) -> str:
    """Return at which base models were trained: " at base 10,000", "" where none has a base."""
    bases = _bases(curves)
    return f" at {bases}" if bases else ""


def sizes(curves: Sequence[Curve]) -> str:
    """Return width and base of models, as a saved chart names them."""
    width = f"width {curves[0].specification.model.width:,}"
    return ", ".join(filter(None, (width, _bases(curves))))


def _bases(curves: Sequence[Curve]) -> str:
    schemes = (curve.specification.record["scheme"] for curve in curves)
    bases = sorted({scheme["base"] for scheme in schemes if "base" in scheme})
    return f"base {listed([f'{base:,.10g}' for base in bases])}" if bases else ""


def nats(change: float) -> str:
    """Return a change of loss; its third decimal tells which side of a rule's limit it is on."""
    return f"{change:+.{2 if abs(change) >= 1 else 3}f} nats"


def lengths(curves: Sequence[Curve]) -> str:
    """Return the training length and the longest context of models that are compared."""
    longest = max(point.x for curve in curves for point in curve.points)
    length = count_of(curves[0].specification.train_length, "token")
    return f"trained on {length}, evaluated at {longest:,}"


def _losses(curves: Sequence[Curve]) -> str:
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


def _loss_row(curve: Curve, curves: Sequence[Curve]) -> dict[str, object]:
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


def _lowest_loss(curves: Sequence[Curve]) -> str:
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
        f"**{summary.label(best, curves)}, not trained with it**, has a loss at {2 * length:,} tokens that "
        f"is {change} than that of the same models with their text cut to {length:,} (95% interval "
        f"{low:.2f} to {high:.2f})."
    )


def _accuracy(curve: Curve) -> float | None:
    """Return the accuracy in training, a mean where several lengths or distances belong to it."""
    point = summary.in_range(curve)
    return None if point is None else point.mean


def _accuracies(curves: Sequence[Curve]) -> str:
    """Return the accuracy that each scheme has in training, and how far half of it stays right."""
    specification = curves[0].specification
    task = questions_of(specification.task)
    if not task.longer:
        return _at_every_x(curves, task)
    near, failed, far = [], [], []
    for curve in curves:
        accuracy = _accuracy(curve)
        if curve.variant != TRAINED or accuracy is None:
            continue
        name = summary.label(curve, curves)
        rate = summary.solve_rate(curve)
        groups = f" ({rate} trials solved it)" if rate and 0 < rate.solved < rate.trials else ""
        near.append(f"{name} {accuracy:.0%}{groups}")
        if summary.judged(curve, curves):
            reach = summary.reach(curve)
            far.append(f"{name} {'nowhere' if reach is None else f'{reach:,}'}")
        else:
            failed.append(name)
    where = f"{farthest(specification):,} {task.x}"
    where = f"1 to {where}" if specification.task == Recall.kind else where
    never = f"Not learned in training (below {summary.LEARNED:.0%}), so not judged past it"
    clauses = {f"Correct at {where}": near, "At least half correct up to": far, never: failed}
    return " ".join(f"{lead}: {listed(names)}." for lead, names in clauses.items() if names)


def details(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return accuracies in percent: a row per scheme and measure, a column per x."""
    rows = [
        {"scheme": f"{summary.label(curve, curves)}: {curve.measure}"}
        | {f"{point.x:,}": 100 * point.mean for point in curve.points}
        for curve in curves
    ]
    return pd.DataFrame(rows)


def _at_every_x(curves: Sequence[Curve], task: type[Questions]) -> str:
    """Return the accuracy of each scheme as trained at all that is evaluated."""
    trained = [curve for curve in curves if curve.variant == TRAINED]
    if not trained:
        return ""
    shares = [
        f"{summary.label(curve, curves)} {listed([f'{point.mean:.0%}' for point in curve.points])}"
        for curve in trained
    ]
    places = listed([f"{point.x:,}" for point in trained[0].points])
    solved = [rate for curve in trained if (rate := summary.solve_rate(curve)) and rate.solved]
    none = (
        "" if solved else f"No model has learned it in training ({summary.LEARNED:.0%} correct). "
    )
    return f"{none}{task.y.capitalize()} at {places} {task.x}: {'; '.join(shares)}."


def _accuracy_row(curve: Curve, curves: Sequence[Curve]) -> dict[str, object]:
    in_training, at_the_end = ACCURACIES
    longer = questions_of(curve.specification.task).longer
    rate, last = summary.solve_rate(curve), curve.points[-1]
    return {
        "scheme": summary.label(curve, curves),
        in_training: _accuracy(curve),
        "half correct up to": summary.reach(curve)
        if longer and summary.judged(curve, curves)
        else None,
        "solved in training": None if rate is None else str(rate),
        "evaluated to": last.x,
        at_the_end: last.mean if last.x > farthest(curve.specification) or not longer else None,
        "seeds": curve.seeds,
    }
