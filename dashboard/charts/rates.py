"""Loss at the training length by learning rate: a line per scheme, its chosen rate in a ring."""

import math
from collections.abc import Sequence

import altair as alt
import pandas as pd

from dashboard.charts.theme import (
    Spec,
    cached_spec,
    readout,
    scheme_colour,
    scheme_dash,
    scheme_points,
    shown,
    spec_of,
)
from posenc.lab.best_rates import TriedRates
from posenc.schemes import SCHEMES

HEIGHT = 260
COLUMNS = {"x": "learning rate", "y": "loss", "name": "", "chosen": "", "faint": ""}


def frame(tried: Sequence[TriedRates]) -> pd.DataFrame:
    """Return a row per rate: scheme, x, y, factor for own parameters, trials; chosen: y of the best.

    A scheme has a line for each factor, the fainter where the chosen rate is on another.
    """
    rows = []
    for each in tried:
        label = SCHEMES[each.kind].label
        for rate in each.rates:
            loss = rate.loss if math.isfinite(rate.loss) else math.nan
            own = "" if rate.scheme_rate == 1 else f", own parameters x{rate.scheme_rate:g}"
            rows.append(
                {
                    "scheme": label,
                    "name": f"{label}{own}",
                    "x": rate.learning_rate,
                    "y": loss,
                    "factor": rate.scheme_rate,
                    "trials": rate.trials,
                    "chosen": loss if rate == each.best else math.nan,
                    "faint": rate.scheme_rate != each.best.scheme_rate,
                }
            )
    return pd.DataFrame(rows)


def by_rate(drawn: pd.DataFrame, kinds: tuple[str, ...]) -> Spec:
    """Return the chart of a frame."""
    return _by_rate(kinds, tuple(drawn["name"].unique()), tuple(sorted({*drawn["x"]})))


@cached_spec
def _by_rate(kinds: tuple[str, ...], names: tuple[str, ...], rates: tuple[float, ...]) -> Spec:
    axis = alt.Axis(values=[*rates], format="~g", grid=False)
    x = alt.X(
        "x:Q", title="learning rate", scale=alt.Scale(type="log", nice=False, padding=12), axis=axis
    )
    y = alt.Y("y:Q", title="loss in training (nats)", scale=alt.Scale(zero=False))
    own = {"x": x, "color": scheme_colour(kinds), "detail": "name:N"}
    chosen, style = shown(kinds, {"strokeDash": scheme_dash(kinds)})
    strength = alt.when(~chosen).then(alt.value(0)).when("datum.faint").then(alt.value(0.5))
    line = alt.Chart().mark_line(strokeWidth=2, tooltip=None, point=scheme_points(kinds))
    line = line.encode(
        y=y, strokeDash=style["strokeDash"], opacity=strength.otherwise(alt.value(1)), **own
    )
    ring = alt.Chart().transform_filter("isValid(datum.chosen)")
    ring = ring.mark_point(size=220, strokeWidth=2, filled=False, tooltip=None)
    layers = [
        line.add_params(chosen),
        ring.encode(y="chosen:Q", opacity=style["opacity"], **own),
        readout(names, x, "learning rate", ".3~f", "name"),
    ]
    return spec_of(alt.layer(*layers).properties(height=HEIGHT))
