"""The formula view of Extrapolation: why schemes hold or break past the training length."""

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.ab import Pair
from dashboard.charts import frames, lines
from dashboard.compute import schemes
from dashboard.compute.result_cache import memoize_on
from dashboard.controls import sidebar
from dashboard.frame import page, quiz
from dashboard.pages.extrapolation import charts, questions, script
from dashboard.pages.extrapolation.formula import Read, coverage_sentence, read
from dashboard.pages.extrapolation.options import FormulaChoice
from posenc import analysis
from posenc.analysis.extrapolation import SAMPLED_DISTANCES
from posenc.settings import Setting

STEPS = (
    "A curve continues past the training length because its formula does. Two warnings come from the "
    "formula alone. A pair that completed no turn in training meets new angles. RoPE's sum of cosines "
    "B(k) can turn negative inside the context: a token then attends less to a similar token than to a "
    "random one. A learned table has rows and no formula, so it has no line."
)
CAPTIONS = {
    "similarity": "The dashed line is the training length.",
    "turns per pair": "A pair below one turn (dashed) meets angles that training never showed.",
    "nearest trained position": "Relative to the vector norm. 0: identical to a training position. A "
    "bias needs no small distance: it adds a number per distance to the logit, and no vector of the "
    "position enters the model. ALiBi's number keeps falling, so far tokens only fade further.",
}


def draw(settings: Pair[Setting], header: DeltaGenerator, row: DeltaGenerator) -> None:
    """Draw what the formulas give: the headline in `header`, the controls in `row`."""
    chosen = sidebar.choices(FormulaChoice, row)
    results = settings.map(lambda setting: read(setting, chosen))
    now = results.now
    page.left_out(now.reasons, now.past, "Extrapolation", page.reasons(results))
    picture = st.container()
    truths = (now.past, now.ladders)
    shows = quiz.ask(
        "formula",
        (now.setting.replace(length=2), now.length),  # positions shown have no effect here
        questions.of_formula(settings.now, truths),
        truths,
    )
    with header:
        page.head(
            "Extrapolation", results.map(lambda one: one.headline) if shows else quiz.WITHHELD
        )
    if shows:
        with picture:
            _picture(settings, results, chosen.reason)
    st.caption("A formula can be defined where a trained model fails. See Measured.")
    page.notes(now.setting, {kind: schemes.provenance(now.queries[kind]) for kind in now.past})
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
    if shows:
        _numbers(results)
        page.script(script.formula(settings.now, chosen))


def _picture(settings: Pair[Setting], results: Pair[Read], reason: str) -> None:
    """Draw one picture: its caption, its chart and, of turns, the table."""
    now, every = results.now, results.each
    kinds = page.kinds(settings)
    formulas = tuple(kind for kind in kinds if any(kind in one.formulas for one in every))
    rotary = tuple(kind for kind in kinds if any(one.ladders.get(kind) for one in every))
    drawn = rotary if reason == "turns per pair" else formulas
    if reason == "nearest trained position" and not any(len(one.nearest) for one in every):
        drawn = ()
    if not drawn:
        st.caption("No scheme shown has this picture at these settings.")
    elif reason == "turns per pair":
        page.curves(
            results.map(_turns),
            charts.turns,
            drawn,
            key="turns",
            fields=("pair", "turns"),
            log=True,
        )
        page.table(results.map(lambda one: one.table))
    else:
        past = reason == "similarity"
        page.curves(
            results.map(_past if past else _nearest),
            lines.by_offset,
            drawn,
            "query-key distance (tokens)" if past else "position",
            "position similarity" if past else "distance / norm",
            band=False,
            key="past" if past else "nearest",
        )
    st.caption(f"{CAPTIONS[reason]} {coverage_sentence(now.past, now.length)}")


@memoize_on
def _past(read: Read) -> pd.DataFrame:
    return frames.drawn(read.curves, most=SAMPLED_DISTANCES)


@memoize_on
def _nearest(read: Read) -> pd.DataFrame:
    return frames.drawn(read.nearest)


@memoize_on
def _turns(read: Read) -> pd.DataFrame:
    return frames.dotted(frames.drawn(read.turns, "pair"))


def _numbers(results: Pair[Read]) -> None:
    """Offer the numbers of all three pictures."""
    page.numbers(
        results.map(lambda one: one.curves),
        "past the training length",
        {"x": "distance", "y": "cosine"},
    )
    page.numbers(
        results.map(lambda one: one.nearest),
        "nearest trained position",
        {"x": "position", "y": "distance"},
    )
    page.numbers(results.map(lambda one: one.turns), "turns per pair")
    page.numbers(results.map(lambda one: one.table), "frequencies")
