"""The formula half of Extrapolation: what a scheme's formula gives past the training length."""

from collections.abc import Mapping

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import (
    charts,
    choices,
    compute,
    controls,
    exercise,
    frames,
    page,
    past_length,
    predictions,
    sentences,
)
from posenc import Setting
from posenc.analysis import extrapolation

STEPS = (
    "Curves continue because their formulas do. Two warnings come from the formula alone: pairs that "
    "never completed a turn in training, and, for RoPE, a sum of cosines B(k) that turns negative "
    "inside the context, where a token attends less to its like than to a random one. A learned table "
    "has rows and no formula, so it has no line."
)


def draw(setting: Setting, header: DeltaGenerator) -> None:
    """Draw what the formulas give, their headline in `header`."""
    chosen = controls.choices(choices.FormulaChoice)
    length = int(chosen.reach) * setting.train_length
    # Formulas are read exactly: what rounding does is the other pages' subject.
    exact = setting.replace(precision="float32")
    queries = {kind: compute.query(exact, kind, length) for kind in exact.schemes}
    past, reasons = compute.each(compute.past, queries, setting.train_length)
    page.left_out(reasons, past)
    ladders = {kind: compute.ladder(query, setting.train_length) for kind, query in queries.items()}
    looks = exercise.ask(
        "formula",
        (exact.replace(length=2), length),  # positions shown change nothing here
        predictions.of_formula(setting, (past, ladders)),
        (past, ladders),
    )
    with header:
        page.head(
            "Extrapolation, from the formula",
            sentences.extrapolation(setting, past) if looks else exercise.WITHHELD,
        )
        st.info(
            "This page reads formulas past the training length. A formula that is defined there is not a "
            "model that works there: that takes trained models, which the other half of this page reads.",
            icon=":material/info:",
        )

    numbers = _pictures(setting, past, ladders, length) if looks else {}
    page.notes(exact, {kind: compute.provenance(queries[kind]) for kind in past})
    st.caption(
        "Positions shown and precision change nothing on this page: formulas are read exactly."
    )

    page.how_to_read(STEPS)
    page.definition(
        r"d_\mathrm{crit} = 2\left\lceil \tfrac{d}{2} \log_b \tfrac{L}{2\pi} \right\rceil, \qquad "
        r"B(k) = \sum_m \cos(k\,\theta_m)",
        "Critical dimension, twice the pairs that complete a turn: Liu et al. 2023, arXiv 2310.05209. Base "
        "bound: Men et al. 2024, arXiv 2405.14591. Both are statements about formulas.",
        extrapolation.critical_dimension,
        extrapolation.first_negative_offset,
        extrapolation.phase_coverage,
        extrapolation.kernel_past,
        extrapolation.nearest_seen_distance,
    )
    for name, frame in numbers.items():
        page.numbers(frame, name)


def _pictures(
    setting: Setting,
    past: Mapping[str, past_length.Past],
    ladders: Mapping[str, past_length.Ladder | None],
    length: int,
) -> dict[str, pd.DataFrame]:
    """Draw the curves and the table; return their numbers by name."""
    formulas = tuple(kind for kind, one in past.items() if one.limit is None)
    st.subheader("Similarity past the training length", anchor=False)
    curves = frames.past_curves(past, setting.train_length)
    if formulas:
        st.vega_lite_chart(
            frames.drawn(curves, most=past_length.DRAWN_OFFSETS),
            charts.by_offset(
                formulas, "distance, query minus key", "cosine similarity", band=False
            ),
            key="past",
        )
    st.caption(sentences.outside(past, length))

    nearest, turned = frames.nearest(past), frames.turns(ladders)
    left, right = st.columns(2)
    if len(nearest):
        with left:
            st.subheader("Distance to the nearest seen position", anchor=False)
            st.caption(
                "Over the vector's own norm: 0 repeats a position of training, 1.41 is unrelated."
            )
            st.vega_lite_chart(
                frames.drawn(nearest),
                charts.by_offset(formulas, "position", "distance / norm", band=False),
                key="nearest",
            )
    if len(turned):
        with right:
            st.subheader("Turns within the training length", anchor=False)
            st.caption(
                "A pair under one turn (dashed) meets angles past it that training never showed."
            )
            st.vega_lite_chart(
                frames.drawn(turned, "pair"),
                charts.turns(tuple(kind for kind, found in ladders.items() if found)),
                key="turns",
            )
    table = frames.ladders(ladders)
    if len(table):
        page.table(table)
    return {
        "past the training length": curves.rename(columns={"x": "distance", "y": "cosine"}),
        "nearest seen position": nearest.rename(columns={"x": "position", "y": "distance"}),
        "turns per pair": turned,
        "frequencies": table,
    }
