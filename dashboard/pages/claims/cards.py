"""Claims as cards: the sentence, its verdict as a word with an icon, the number, what was found."""

import inspect
from collections.abc import Sequence
from typing import Literal

import pandas as pd
import streamlit as st

from dashboard.ab import Pair
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.compute.schemes import Array
from dashboard.frame import page
from dashboard.pages.claims import data
from dashboard.text import plain
from posenc.claims import CLAIMS, Claim, Number, Status, Verdict

Colour = Literal["green", "blue", "orange", "red", "gray"]

BADGES: dict[Status, tuple[str, Colour]] = {
    Status.HOLDS: (":material/check:", "green"),
    Status.THEOREM: (":material/done_all:", "blue"),
    Status.PARTLY: (":material/contrast:", "orange"),
    Status.FALSE: (":material/close:", "red"),
    Status.NOT_HERE: (":material/model_training:", "orange"),
    Status.NOT_MEASURED: (":material/hourglass_empty:", "gray"),
    Status.UNDECIDED: (":material/remove:", "gray"),
}
HEADINGS = {
    "values": "The table's values",
    "content": "Beside content",
    "wavelengths": "Wavelengths",
    "distance": "Distance",
    "order": "Order",
    "tables": "Learned tables",
    "biases": "Biases on the logit",
    "models": "Trained models",
}
WEIGHTS = Scale(0.0, 1.0, "sequential", "attention weight")


def draw(both: Pair[data.ClaimsRead]) -> None:
    """Draw the cards that the filters leave, under the heading of their theme."""
    found, theme = both.now, ""
    for name in found.shown:
        claim = CLAIMS[name]
        if claim.theme != theme:
            theme = claim.theme
            st.subheader(HEADINGS[theme], anchor=False)
        with st.container(border=True, key=f"claim_{name}", gap="small"):
            card(claim, found.verdicts[name])
            if both.pinned is not None:
                st.caption(pinned(found.verdicts[name], both.pinned.verdicts[name]))
            if name == data.DRAWN and found.weights is not None:
                picture(*found.weights)
            drawer(claim, found.verdicts[name])


def card(claim: Claim, verdict: Verdict) -> None:
    """Draw the sentence with its verdict, what was found, and the number that decides."""
    icon, colour = BADGES[verdict.status]
    words, number = st.columns([3, 1], vertical_alignment="top")
    with words:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.badge(verdict.status.capitalize(), icon=icon, color=colour)
            st.markdown(f"**{plain(claim.sentence)}**", width="content")
        st.markdown(plain(verdict.sentence))
        st.markdown(f":small[{source(claim)}{control(verdict)}]")
    decides = verdict.decides
    if decides is not None:
        with number, st.container(gap=None):
            st.markdown(f"### {plain(decides.text)}")
            st.caption(plain(decides.name))


def pinned(now: Verdict, then: Verdict) -> str:
    """Say what the verdict of the pinned setting is, and how far the number moved."""
    said = f"A: {then.status.capitalize()}"
    ours, theirs = now.decides, then.decides
    if theirs is not None:
        said += f", {plain(theirs.text)}"
    if ours is None or theirs is None or ours.value is None or theirs.value is None:
        return said + "."
    if ours.name == theirs.name:
        said += f"; B minus A: {plain(f'{ours.value - theirs.value:.4g}')}"
    return said + "."


def source(claim: Claim) -> str:
    """The source, as a link."""
    return f"Source: [{plain(claim.source)}]({claim.link})."


def control(verdict: Verdict) -> str:
    """The control and its number, where there is one."""
    found = verdict.control
    return "" if found is None else f" Control: {plain(f'{found.name}: {found.text}')}."


def drawer(claim: Claim, verdict: Verdict) -> None:
    """Draw every number and the code of the test; sent only once somebody opens it."""
    more = st.expander(
        "Test and code", key=f"claim_code_{claim.id}", on_change="rerun", type="compact"
    )
    if not more.open:
        return
    with more:
        if verdict.numbers:
            st.table(numbers(verdict.numbers, verdict.control))
        st.caption(f"The verdict depends on {plain(data.reads(claim))}.")
        for function in (claim.test, *claim.steps):
            code = inspect.getsource(function)
            st.code(code[code.index("def ") :], language="python")  # without its decorator


def numbers(found: Sequence[Number], control: Number | None) -> pd.DataFrame:
    """All numbers of a verdict as text, the control last."""
    rows = {plain(number.name): plain(number.text) for number in found}
    if control is not None:
        rows[f"control: {plain(control.name)}"] = plain(control.text)
    return pd.DataFrame({"found": rows})


def picture(weights: Array, random: Array, whole: int) -> None:
    """Draw the attention weights of the drawn claim beside those of its control."""
    most = data.DRAWN_POSITIONS
    page.matrices(
        [
            Panel(
                title="Sinusoidal rows",
                values=Full(weights),
                subtitle=f"{whole:,} positions" + (f", the first {most}" if whole > most else ""),
            ),
            Panel(
                title="Random rows",
                values=Full(random),
                subtitle="control: the same key map",
            ),
        ],
        key="two_right",
        scale=WEIGHTS,
        height=280,
        text_alternative=(
            "Attention weights by query and key, from 0 to 1: with sinusoidal rows every query looks "
            "two positions to its right, with random rows it does not."
        ),
    )
