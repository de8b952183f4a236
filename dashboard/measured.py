"""The measured half of Extrapolation: trained models read past their training length."""

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import charts, choices, page, runs
from posenc import Setting
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED, contexts

STEPS = (
    "Every model of a comparison has the same size, weights at the start, data, order and steps; only "
    "the scheme differs. The same target tokens are scored at every context length, so a curve that "
    "rises is not due to other targets. A band runs from the lowest seed to the highest. Loss comes "
    "first: a scheme that is flat but worse at the training length is not better. A learned table has "
    "no row past the training length; its line stops there, and repeating its last row is a line of "
    "its own. RoPE may be read by another frequency ladder without more training."
)


COPIED = 20  # letters of the copy task's training, as in its paper


def draw(setting: Setting, chosen: choices.ExtrapolationChoice, header: DeltaGenerator) -> None:
    """Draw the runs of one training length, their headline in `header`."""
    length, names = int(chosen.trained), runs.known()
    found = [
        curve
        for curve in runs.curves(names, "context", "language", length)
        if curve.specification.scheme.kind in setting.schemes
    ]
    if not found:
        with header:
            page.head("Extrapolation, measured", _nothing(setting, length))
        return
    kinds = tuple(kind for kind in setting.schemes if any(_is(curve, kind) for curve in found))
    with header:
        page.head("Extrapolation, measured", runs.headline(found, length))
    missing = tuple(kind for kind in setting.schemes if kind not in kinds)
    if missing:
        st.caption(f"No run of {page.names(missing)} here.")
    st.subheader("Loss of the same tokens by context length", anchor=False)
    context = runs.frame(found)
    st.vega_lite_chart(
        context.assign(boundary=float(length)),
        charts.measured(kinds, _reads(context), "tokens of context", "loss, nats per byte"),
        key="measured_context",
    )
    st.caption(charts.strokes(_reads(context)))
    table = runs.elbows(found)
    page.table(table)
    st.caption(
        f"Loss, perplexity and bits per byte at {length:,} tokens; then the longest context read, "
        "the loss there and perplexity as a multiple; the elbow is the first length past 1.1 times."
    )
    st.caption(
        "Dimension, base and the other numbers of the sidebar change nothing here: a run has its own."
    )
    st.subheader("Loss by position in one long text", anchor=False)
    by_position = [
        curve
        for curve in runs.curves(names, "position", "language", length)
        if curve.specification.scheme.kind in setting.schemes
    ]
    positions = runs.frame(by_position)
    st.vega_lite_chart(
        positions[positions["x"] > 0].assign(boundary=float(length)),
        # The strokes of the first chart, said above.
        charts.measured(kinds, _reads(context), "position", "loss, nats per byte"),
        key="measured_position",
    )
    _copying(setting, names)
    page.how_to_read(STEPS)
    page.definition(
        r"\ell(n) = -\frac{1}{|S|} \sum_{t \in S} \log p(x_t \mid x_{t-n}, \dots, x_{t-1})",
        "Loss of the targets S with n tokens before each, n alone changing: after Press et al. 2022, "
        "arXiv 2108.12409, section 2.2.",
        contexts,
        summary.elbow,
        summary.effect,
    )
    with st.expander("Specification of the runs", icon=":material/assignment:"):
        st.json(found[0].specification.record, expanded=1)
    page.numbers(context.rename(columns={"x": "context", "y": "loss"}), "measured loss by context")
    page.numbers(
        positions.rename(columns={"x": "position", "y": "loss"}), "measured loss by position"
    )
    page.numbers(table, "measured elbows")


def _reads(frame: pd.DataFrame) -> tuple[str, ...]:
    """Ways of reading, as trained first."""
    found = sorted(frame["read"].unique(), key=lambda name: (name != TRAINED, name))
    return tuple(str(name) for name in found)


def _nothing(setting: Setting, length: int) -> str:
    return (
        f"No model of {page.names(setting.schemes)} was trained on {length:,} tokens yet: "
        f"`python -m posenc train --train-length {length}` makes one."
    )


def _copying(setting: Setting, names: tuple[str, ...]) -> None:
    """Draw how many strings come back without a fault, by their length."""
    found = [
        curve
        for curve in runs.curves(names, "copy", "copy", COPIED)
        if curve.specification.scheme.kind in setting.schemes
    ]
    if not found:
        return
    st.subheader("Copying a string", anchor=False)
    st.caption(
        f"Trained on strings of up to {COPIED} letters, asked for up to {2 * COPIED}: the share that "
        "comes back without a single fault (Kazemnejad et al. 2023, arXiv 2305.19466). "
        + runs.copied(found, COPIED)
    )
    copied = runs.frame(found)
    kinds = tuple(kind for kind in setting.schemes if any(_is(curve, kind) for curve in found))
    reads = _reads(copied)
    st.vega_lite_chart(
        copied.assign(boundary=float(COPIED)),
        charts.measured(kinds, reads, "letters", "share copied without a fault", log=False),
        key="measured_copy",
    )
    st.caption(charts.strokes(reads))
    page.numbers(copied.rename(columns={"x": "letters", "y": "share"}), "measured copying")


def _is(curve: summary.Curve, kind: str) -> bool:
    return curve.specification.scheme.kind == kind
