"""Loss by the number of training steps, at the training length and past it."""

from collections.abc import Mapping, Sequence

from dashboard import notes, run_charts, runs
from dashboard.blocks import Block, Columns, Text
from posenc.lab import summary
from posenc.lab.runs import RunInfo
from posenc.lab.summary import Curve
from posenc.lab.tasks import Language

TITLE = "Steps of training"
SOURCE = "After Lin et al. 2025, arXiv 2503.02130, figure 5."


def blocks(
    shown: Sequence[RunInfo], comparisons: Mapping[str, Sequence[RunInfo]], far: int
) -> list[Block]:
    """Return loss by steps at the training length and at a context of `far` tokens.

    shown: the runs of the page. comparisons: all runs that may stand beside them. Nothing is drawn where no
    scheme was trained with several numbers of steps.
    """
    first = shown[0].specification
    if first.task != Language.kind:
        return []
    alike = summary.apart_from_steps(first)
    kinds = {info.specification.scheme.kind for info in shown}
    infos = [
        info
        for own in comparisons.values()
        if summary.apart_from_steps(own[0].specification) == alike
        for info in runs.of_kinds(own, kinds)
    ]
    near = runs.by_steps(infos, first.train_length)
    past = runs.by_steps(infos, far)
    if not near or not past:
        return []
    pictures: list[list[Block]] = [
        [
            Text(f"{place}, {x:,} tokens", "caption"),
            run_charts.by_length(f"steps_{key}", curves, where=f"{x:,} tokens"),
        ]
        for key, place, x, curves in (
            ("near", "At the training length", first.train_length, near),
            ("far", "Past it", far, past),
        )
    ]
    return [
        Text(TITLE, "heading"),
        Text(directions(near, past, (first.train_length, far))),
        Columns(pictures),
        Text(about(near), "caption"),
    ]


def directions(near: Sequence[Curve], past: Sequence[Curve], lengths: tuple[int, int]) -> str:
    """Return for which schemes the loss of the most steps is lower or higher in every trial.

    lengths: the contexts at which the two groups of losses stand, in tokens.
    """
    ends = {(curve.points[0].x, curve.points[-1].x) for curve in (*near, *past)}
    (fewest, most), *others = ends
    steps = "the fewest to the most" if others else f"{fewest:,} to {most:,}"
    sentences = []
    for x, curves in zip(lengths, (near, past), strict=True):
        clauses = []
        for word, sign in (("falls", -1), ("rises", 1)):
            kinds = dict.fromkeys(
                curve.specification.scheme.kind
                for curve in curves
                if all(sign * change > 0 for change in changes(curve))
            )
            if kinds:
                clauses.append(f"{word} for {notes.names((*kinds,))}")
        if clauses:
            sentences.append(f"at {x:,} tokens the loss {' and '.join(clauses)}")
    if not sentences:
        return "No scheme's loss changes in one direction in every trial."
    return f"From {steps} steps of training, in every trial: {'; '.join(sentences)}."


def changes(curve: Curve) -> list[float]:
    """Return the loss of the most steps minus that of the fewest, of each trial."""
    first, last = (dict(curve.points[place].by_trial) for place in (0, -1))
    return [last[trial] - first[trial] for trial in first]


def about(curves: Sequence[Curve]) -> str:
    """Return what a point is."""
    least = min(curve.seeds for curve in curves)
    agree = (
        f" By chance alone, {least} trials agree on a direction in {2 ** (1 - least):.0%} of cases."
    )
    return (
        "Mean of the trials that every number of steps has; dots are single trials. Each number of steps "
        f"has a schedule of its own, which ends at its last step. {SOURCE}{agree if least > 1 else ''}"
    )
