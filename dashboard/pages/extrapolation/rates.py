"""The learning rates behind a comparison: which each scheme has, and what the others gave."""

from collections.abc import Sequence

from dashboard import run_descriptions, runs
from dashboard.blocks import Block, Chart, Text
from dashboard.charts import rates as chart
from dashboard.text import listed
from posenc.lab.best_rates import TriedRates
from posenc.lab.runs import RunInfo
from posenc.schemes import SCHEMES
from posenc.text import count_of, joined

TITLE = "Learning rates tried"


def blocks(shown: Sequence[RunInfo], run_ids: tuple[str, ...]) -> list[Block]:
    """Return the picture of the rates of these runs, or of their sweep; nothing where one rate was tried.

    run_ids: of all runs, among which those of the sweep may be.
    """
    tried, swept = runs.rates(shown), False
    if not _several(tried):
        tried, swept = runs.swept(shown, run_ids), True
    if not _several(tried):
        return []
    frame, specification = chart.frame(tried), shown[0].specification
    return [
        Text(TITLE, "heading"),
        Chart(
            key="rates",
            title=TITLE,
            frame=frame,
            names=tuple(each.kind for each in tried),
            draw=lambda kinds: chart.by_rate(frame, kinds),
            columns=chart.COLUMNS,
            x="",
            sizes=f"{run_descriptions.title(specification)}, width {specification.model.width:,}",
        ),
        Text(about(tried, swept=swept), "caption"),
    ]


def about(tried: Sequence[TriedRates], *, swept: bool) -> str:
    """Return what the picture shows, and that schemes with more rates have an advantage.

    swept: whether the models are those of a sweep, trained to choose the rates of others.
    """
    trials = sorted({rate.trials for each in tried for rate in each.rates})
    most = (
        f"{trials[0]} to {trials[-1]} trials" if len(trials) > 1 else count_of(trials[0], "trial")
    )
    models = f"in a sweep with {most} each" if swept else f"mean of {most}"
    sentence = f"A ring marks the rate of the models above: the lowest loss in training, {models}."
    sentence += "".join(f" {_own_lines(each)}" for each in tried if len(_factors(each)) > 1)
    numbers = {SCHEMES[each.kind].label: len(each.rates) for each in tried}
    if len({*numbers.values()}) == 1:
        return sentence
    counts = listed([f"{name} {number}" for name, number in numbers.items()])
    return f"{sentence} A scheme with more rates has an advantage: {counts}."


def _factors(tried: TriedRates) -> list[float]:
    """Return the rates of a scheme's own parameters, as multiples of the learning rate."""
    return sorted({rate.scheme_rate for rate in tried.rates})


def _own_lines(tried: TriedRates) -> str:
    """Say why a scheme has several lines, all but one of them pale."""
    factors = _factors(tried)
    return (
        f"{SCHEMES[tried.kind].label} has {len(factors)} lines: the rate of its own parameters is "
        f"{joined((f'{factor:g}' for factor in factors), 'or')} times the learning rate; pale is what "
        "was not chosen."
    )


def _several(tried: Sequence[TriedRates]) -> bool:
    return any(len(each.rates) > 1 for each in tried)
