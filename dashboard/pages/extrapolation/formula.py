"""The formula half of Extrapolation: what a scheme's formula gives past the training length."""

from dataclasses import dataclass

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.ab import Pair
from dashboard.charts import frames, theme
from dashboard.compute import schemes
from dashboard.compute.result_cache import kept, once
from dashboard.controls import sidebar
from dashboard.controls.page_options import FormulaChoice
from dashboard.frame import coinciding, page, predictions, quiz, sentences
from dashboard.pages.extrapolation import past_frames, script
from posenc import analysis
from posenc.analysis import SchemeCoverage, SchemeKernelPast
from posenc.analysis.extrapolation import SAMPLED_DISTANCES
from posenc.settings import Query, Setting

STEPS = (
    "Curves continue because their formulas do. Two warnings come from the formula alone: pairs that "
    "never completed a turn in training, and, for RoPE, a sum of cosines B(k) that turns negative "
    "inside the context, where a token attends less to its like than to a random one. A learned table "
    "has rows and no formula, so it has no line."
)


@dataclass(frozen=True)
class Read:
    """What the formulas of one setting give, read to `length` positions."""

    setting: Setting
    length: int
    queries: dict[str, Query]
    past: dict[str, SchemeKernelPast]
    reasons: dict[str, str]
    ladders: dict[str, SchemeCoverage | None]
    headline: str
    curves: pd.DataFrame
    nearest: pd.DataFrame
    turns: pd.DataFrame
    table: pd.DataFrame

    @property
    def formulas(self) -> set[str]:
        """The schemes that have a formula to read."""
        return {kind for kind, one in self.past.items() if len(one.distances)}


@kept
def read(setting: Setting, chosen: FormulaChoice) -> Read:
    """Return what the formulas of a setting give."""
    # Formulas are read exactly: what rounding does is the other pages' subject.
    exact = setting.replace(precision="float32")
    length = int(chosen.reach) * setting.train_length
    queries = {kind: schemes.query(exact, kind, length) for kind in exact.schemes}
    past, reasons = schemes.each(schemes.past, queries, setting.train_length)
    ladders = {kind: schemes.coverage(queries[kind], setting.train_length) for kind in past}
    return Read(
        setting=exact,
        length=length,
        queries=queries,
        past=past,
        reasons=reasons,
        ladders=ladders,
        headline=sentences.extrapolation(setting, past) if past else "",
        curves=past_frames.past_curves(past, setting.train_length),
        nearest=past_frames.nearest(past),
        turns=past_frames.turns(ladders),
        table=past_frames.ladders(ladders),
    )


def draw(settings: Pair[Setting], header: DeltaGenerator) -> None:
    """Draw what the formulas give, their headline in `header`."""
    chosen = sidebar.choices(FormulaChoice)
    found = settings.map(lambda setting: read(setting, chosen))
    now = found.now
    page.left_out(now.reasons, now.past, "Extrapolation, from the formula", page.reasons(found))
    results = (now.past, now.ladders)
    looks = quiz.ask(
        "formula",
        (now.setting.replace(length=2), now.length),  # positions shown change nothing here
        predictions.of_formula(settings.now, results),
        results,
    )
    with header:
        page.head(
            "Extrapolation, from the formula",
            found.map(lambda one: one.headline) if looks else quiz.WITHHELD,
        )
        st.info(
            "This page reads formulas past the training length. A formula that is defined there is not a "
            "model that works there: that takes trained models, which the other half of this page reads.",
            icon=":material/info:",
        )

    if looks:
        _pictures(settings, found)
    page.notes(now.setting, {kind: schemes.provenance(now.queries[kind]) for kind in now.past})
    st.caption(
        "Positions shown and precision change nothing on this page: formulas are read exactly."
    )
    page.how_to_read(STEPS)
    page.definition(
        r"d_\mathrm{crit} = 2\left\lceil \tfrac{d}{2} \log_b \tfrac{L}{2\pi} \right\rceil, \qquad "
        r"B(k) = \sum_m \cos(k\,\theta_m)",
        "Critical dimension, twice the pairs that complete a turn: Liu et al. 2023, arXiv 2310.05209. Base "
        "bound: Men et al. 2024, arXiv 2405.14591. Both are statements about formulas.",
        analysis.critical_dimension,
        analysis.first_negative_offset,
        analysis.spectrum,
        analysis.kernel_past,
        analysis.nearest_trained_distance,
    )
    if looks:
        _numbers(found)
        page.script(script.formula(settings.now, chosen))


def _pictures(settings: Pair[Setting], found: Pair[Read]) -> None:
    """Draw the curves and the table."""
    now = found.now
    every = found.each
    formulas = tuple(k for k in page.kinds(settings) if any(k in one.formulas for one in every))
    st.subheader("Similarity past the training length", anchor=False)
    if formulas:
        coinciding.draw(
            found.map(_past),
            theme.by_offset, formulas, "distance, query minus key", "cosine similarity",
            band=False, key="past",
        )  # fmt: skip
    st.caption(sentences.outside(now.past, now.length))

    left, right = st.columns(2)
    if any(len(one.nearest) for one in every):
        with left:
            st.subheader("Distance to the nearest seen position", anchor=False)
            st.caption(
                "Over the vector's own norm: 0 repeats a position of training, 1.41 is unrelated."
            )
            coinciding.draw(
                found.map(_nearest),
                theme.by_offset, formulas, "position", "distance / norm",
                band=False, key="nearest",
            )  # fmt: skip
    if any(len(one.turns) for one in every):
        turning = tuple(
            kind for kind in page.kinds(settings) if any(one.ladders.get(kind) for one in every)
        )
        with right:
            st.subheader("Turns within the training length", anchor=False)
            st.caption(
                "A pair under one turn (dashed) meets angles past it that training never showed."
            )
            coinciding.draw(
                found.map(_turns), theme.turns, turning, key="turns",
            )  # fmt: skip
    if any(len(one.table) for one in every):
        page.table(found.map(lambda one: one.table))


@once
def _past(read: Read) -> coinciding.Lines:
    return coinciding.lines(frames.drawn(read.curves, most=SAMPLED_DISTANCES))


@once
def _nearest(read: Read) -> coinciding.Lines:
    return coinciding.lines(frames.drawn(read.nearest))


@once
def _turns(read: Read) -> coinciding.Lines:
    return coinciding.lines(
        frames.dotted(frames.drawn(read.turns, "pair")), "pair", "turns", log=True
    )


def _numbers(found: Pair[Read]) -> None:
    page.numbers(
        found.map(lambda one: one.curves),
        "past the training length",
        {"x": "distance", "y": "cosine"},
    )
    page.numbers(
        found.map(lambda one: one.nearest),
        "nearest seen position",
        {"x": "position", "y": "distance"},
    )
    page.numbers(found.map(lambda one: one.turns), "turns per pair")
    page.numbers(found.map(lambda one: one.table), "frequencies")
