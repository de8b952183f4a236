"""What Why position draws: a difference per word on a log axis, and attention patterns in pairs."""

import functools

import altair as alt
import numpy as np
import pandas as pd

from dashboard.ab import Pair
from dashboard.charts import theme
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.frame import panels
from dashboard.pages.why_order_matters.data import MASKS, SAME, WhyPosition
from dashboard.pages.why_order_matters.frames import labels
from posenc.schemes import SCHEMES

WEIGHT = Scale(0.0, 1.0, "sequential", "attention weight")
LEAST = 1e-17  # where a difference of exactly 0 is drawn
LONGEST_TICK = 10  # letters of a word beside a matrix


@functools.cache
def differences(kinds: tuple[str, ...], *, pinned: bool = False) -> theme.Spec:
    """A mark per word: how far its outputs differ, by scheme and mask.

    Frame: scheme, mask, word, difference, same (below it only rounding); pinned: setting, too.
    """
    order = [SCHEMES[kind].label for kind in kinds]
    marks = (
        alt.Chart()
        .mark_point(size=90, strokeWidth=2)
        .encode(
            x=alt.X(
                "difference:Q",
                title="difference of a word's two outputs",
                scale=alt.Scale(type="log", domain=[LEAST, 100], nice=False),
                axis=alt.Axis(format=".0e", values=[10.0**n for n in range(-16, 3, 4)]),
            ),
            y=alt.Y("scheme:N", sort=order, title=None, scale=alt.Scale(domain=order)),
            yOffset=alt.YOffset("mask:N", sort=list(MASKS), scale=alt.Scale(domain=list(MASKS))),
            color=alt.Color(
                "scheme:N",
                scale=alt.Scale(domain=order, range=[theme.COLOURS[kind] for kind in kinds]),
                legend=None,
            ),
            shape=alt.Shape(
                "mask:N",
                scale=alt.Scale(domain=list(MASKS), range=["circle", "triangle-right"]),
                legend=alt.Legend(title=None, orient="top"),
            ),
            **({"opacity": theme.by_setting(pinned)["opacity"]} if pinned else {}),
            tooltip=[
                *theme.told(pinned), "mask:N", "word:N", alt.Tooltip("difference:Q", format=".4g")
            ],
        )
    )  # fmt: skip
    rounding = (
        alt.Chart()
        .mark_rule(aria=False, strokeDash=[5, 4], opacity=0.7, color="gray")
        .encode(x="min(same):Q")
    )
    return theme.spec_of(alt.layer(marks, rounding).properties(height={"step": 26}))


def marks(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the differences as they can stand on a logarithmic axis."""
    return frame.assign(difference=np.maximum(frame["difference"], LEAST), same=SAME)


def ticks(words: tuple[str, ...]) -> list[tuple[int, str]]:
    """Return the words as short marks of an axis."""
    return [
        (n, word if len(word) <= LONGEST_TICK else word[: LONGEST_TICK - 1] + "\u2026")
        for n, word in enumerate(labels(words))
    ]


def pattern_row(both: Pair[WhyPosition]) -> None:
    """Draw the patterns of every scheme, both orders beside each other, words in the same places."""
    found = both.now
    names = ", ".join(SCHEMES[kind].label for kind in found.patterns)
    panels.rows_of_both(
        both.map(_panels),
        lambda _: WEIGHT,
        key="order_patterns",
        unit="weights",
        row_label="word that looks",
        column_label="word looked at",
        together=2,
        height=max(180, 27 * len(found.words)),
        text_alternative=(
            f"Attention weights between {len(found.words)} words for {names}, each in both orders, "
            "from 0 to 1; the arrow keys read a cell, and the table of weights below holds them all."
        ),
    )


def _panels(found: WhyPosition) -> list[Panel]:
    at = ticks(found.words)
    return [
        Panel(
            title=f"{SCHEMES[kind].label}, {order}",
            values=Full(values),
            subtitle=found.heads[kind],
            row_ticks=at,
            column_ticks=at,
            color=theme.COLOURS[kind],
        )
        for kind, both in found.patterns.items()
        for order, values in zip(("first order", "other order"), both, strict=True)
    ]
