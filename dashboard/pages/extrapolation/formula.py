"""The view "formula" of Extrapolation: why schemes hold or break past the training length."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import results
from dashboard.ab import AB
from dashboard.cache import cached
from dashboard.charts import frames, lines, theme
from dashboard.controls import sidebar
from dashboard.frame import page
from dashboard.pages.extrapolation.options import NEAREST, TURNS, FormulaChoice
from dashboard.script import requests_in_python, whole_script
from dashboard.settings import Setting
from dashboard.text import listed, number
from posenc import analysis
from posenc.analysis import SchemeCoverage, SchemeKernelPast
from posenc.analysis.extrapolation import SAMPLED_DISTANCES
from posenc.schemes import SCHEMES

HEIGHT = 320
NO_PICTURE = "No scheme shown has this picture at these settings."
STEPS = (
    "A curve continues past the training length because its formula does. Two warnings come from the "
    "formula alone. A pair that completed no turn in training meets new angles. RoPE's sum of cosines "
    "B(k) can turn negative inside the context: a token then attends less to a similar token than to a "
    "random one. A learned table has rows and no formula, so it has no line."
)
TURNS_CAPTION = "A pair below the dashed line, one turn, meets angles that training never showed."
NEAREST_CAPTION = (
    "Relative to the vector norm. 0: identical to a training position. A bias needs no small distance: it "
    "adds a number per distance to the logit, and no vector of the position enters the model. ALiBi's "
    "number keeps falling, so far tokens only fade further."
)

IMPORTS = """
import posenc
from posenc.analysis import scheme_kernel_past
"""
SCRIPT = """
print("scheme,distance,cosine")
for request in requests.values():
    found = scheme_kernel_past(request, {trained})
    for distance, cosine in zip(found.distances.tolist(), found.cosine.tolist()):
        print(request.config.label, distance, cosine, sep=",")
"""


@dataclass(frozen=True)
class Read:
    """What the formulas of one setting give, evaluated at `length` positions."""

    setting: Setting
    length: int
    past: dict[str, SchemeKernelPast]
    reasons: dict[str, str]
    headline: str
    curves: pd.DataFrame
    nearest: pd.DataFrame


@dataclass(frozen=True)
class Turns:
    """What the frequencies of one setting's schemes do within the training length."""

    length: int
    coverage: dict[str, SchemeCoverage]
    curves: pd.DataFrame
    table: pd.DataFrame


@cached
def read(setting: Setting, reach: int) -> Read:
    """Return what the formulas of a setting give up to `reach` times the training length."""
    # Formulas are evaluated exactly: other pages are about rounding.
    exact, trained = setting.replace(precision="float32"), setting.train_length
    length = reach * trained
    requests = {kind: results.request(exact, kind, length) for kind in exact.schemes}
    past, reasons = results.per_scheme(results.past, requests, trained)
    curves = {
        kind: (kernel.distances.numpy(), kernel.cosine.numpy())
        for kind, kernel in past.items()
        if len(kernel.distances)
    }
    nearest = {
        kind: (kernel.positions.numpy(), kernel.relative.numpy())
        for kind, kernel in past.items()
        if len(kernel.relative)
    }
    return Read(
        setting=exact,
        length=length,
        past=past,
        reasons=reasons,
        headline=headline(setting, past) if past else "",
        curves=frames.lines(curves, float(trained)),
        nearest=frames.lines(nearest),
    )


@cached
def read_turns(setting: Setting) -> Turns:
    """Return the turns of every pair within the training length."""
    exact, length = setting.replace(precision="float32"), setting.train_length
    requests = {kind: results.request(exact, kind, length) for kind in exact.schemes}
    ranges, _ = results.per_scheme(results.coverage, requests, length)
    coverage = {kind: covered for kind, covered in ranges.items() if covered is not None}
    curves = {
        kind: (np.arange(len(covered.turns)), covered.turns.numpy())
        for kind, covered in coverage.items()
    }
    return Turns(length, coverage, frames.lines(curves), frequencies(coverage))


def frequencies(coverage: Mapping[str, SchemeCoverage]) -> pd.DataFrame:
    """Return a row per scheme: what its frequencies do within the training length."""
    return pd.DataFrame(
        [
            {
                "scheme": SCHEMES[kind].label,
                "pairs with a full turn": f"{covered.full_turn_pairs} of {len(covered.turns)}",
                "critical dimension": f"{covered.critical_dimension} of {covered.rotary_dim}",
                "B(k) first negative at": f"not below {covered.scanned:,}"
                if covered.first_negative is None
                else f"{covered.first_negative:,}",
            }
            for kind, covered in coverage.items()
        ]
    )


def headline(setting: Setting, past: Mapping[str, SchemeKernelPast]) -> str:
    """Return where similarity leaves its range in training, schemes that do the same together."""
    length = setting.train_length
    groups: dict[tuple[str, str, str], list[str]] = {}
    for kind, kernel in past.items():
        if kernel.limit is not None:
            at = f"at {kernel.limit:,}"
            what = "ends with its table", "end with their tables", at
        elif not len(kernel.distances):
            what = "has", "have", "a value that depends on the query's position, too"
        elif kernel.outside is None:
            what = "is", "are", "defined"
        elif kernel.outside == 0:
            what = "stays", "stay", "within the range of similarity that training showed"
        else:
            at = f"from distance {kernel.first_outside:,} on"
            what = "leaves", "leave", f"the range of similarity that training showed, {at}"
        groups.setdefault(what, []).append(SCHEMES[kind].label)
    parts = [
        f"{listed(labels)} {singular if len(labels) == 1 else plural} {rest}"
        for (singular, plural, rest), labels in groups.items()
    ]
    return f"Past the training length, {length:,}: {'; '.join(parts)}."


def turns_headline(turns: Turns) -> str:
    """Return how many pairs of each scheme complete a turn in training."""
    counts = [
        f"{covered.full_turn_pairs:,} of {len(covered.turns):,} ({SCHEMES[kind].label})"
        for kind, covered in turns.coverage.items()
    ]
    if not counts:
        return "No scheme shown has pairs that turn."
    end = "The others meet new angles past it."
    return f"Pairs that complete a turn within {turns.length:,} tokens: {listed(counts)}. {end}"


def nearest_headline(result: Read) -> str:
    """Return how far the position of each scheme that is farthest from training is from it."""
    farthest = [
        f"{number(float(kernel.relative.max()))} ({SCHEMES[kind].label})"
        for kind, kernel in result.past.items()
        if len(kernel.relative)
    ]
    if not farthest:
        return NO_PICTURE
    return (
        f"Up to position {result.length - 1:,}, the largest distance to the nearest position of training, "
        f"relative to the norm: {listed(farthest)}."
    )


def draw(settings: AB[Setting], header: DeltaGenerator, row: DeltaGenerator) -> None:
    """Draw what the formulas give: the headline in `header`, the controls in `row`."""
    chosen = sidebar.choices(FormulaChoice, row)
    results = settings.map(lambda setting: read(setting, int(chosen.reach)))
    current = results.current
    page.show_excluded(results, current.past, "Extrapolation")
    if chosen.reason == TURNS:
        turns = settings.map(read_turns)
        headlines = turns.map(turns_headline)
    elif chosen.reason == NEAREST:
        headlines = results.map(nearest_headline)
    else:
        headlines = results.map(lambda result: result.headline)
    with header:
        page.head("Extrapolation", headlines)
    if chosen.reason == TURNS:
        _draw_turns(turns, current)
    else:
        _draw_curves(settings, results, chosen.reason)
    body = SCRIPT.format(trained=current.setting.train_length)
    values = requests_in_python(current.setting, current.length)
    page.script(whole_script(IMPORTS, values, body))
    st.caption("A formula can be defined where a trained model fails. See Measured.")
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


def _caption(text: str, current: Read) -> None:
    """Draw the caption of a picture; its tooltip says what each scheme really is."""
    sources = {
        kind: results.provenance(results.request(current.setting, kind, current.length))
        for kind in current.past
    }
    st.caption(text, help=page.panel_notes(current.setting, sources))


def _draw_curves(settings: AB[Setting], results: AB[Read], reason: str) -> None:
    """Draw similarity by distance, or the distance of each position to the nearest trained one."""
    current = results.current
    if reason == NEAREST:
        curves = results.map(lambda result: frames.drawn(result.nearest))
        titles, key = ("position", "distance / norm"), "nearest"
        title, lead = "Distance to the nearest training position", NEAREST_CAPTION
        page.numbers(
            results.map(lambda result: result.nearest), reason, {"x": "position", "y": "distance"}
        )
    else:
        curves = results.map(lambda result: frames.drawn(result.curves, most=SAMPLED_DISTANCES))
        titles, key = ("query-key distance (tokens)", "position similarity"), "past"
        title, lead = "Position similarity by distance", "The dashed line is the training length."
        page.numbers(
            results.map(lambda result: result.curves),
            "past the training length",
            {"x": "distance", "y": "cosine"},
        )
    labels = {label for frame in curves.each for label in frame.get("scheme", ())}
    kinds = tuple(kind for kind in page.kinds(settings) if SCHEMES[kind].label in labels)
    if kinds:
        page.curves(
            curves, lines.by_offset, kinds, *titles, band=False, height=HEIGHT, key=key, title=title
        )
    else:
        st.caption(NO_PICTURE)
    sampled = any(len(each.distances) and each.outside is None for each in current.past.values())
    how = "at a sample of distances" if sampled else "at every distance"
    _caption(f"{lead} Evaluated up to distance {current.length - 1:,}, {how}.", current)


def _draw_turns(turns: AB[Turns], current: Read) -> None:
    """Draw the turns of every pair, and what follows from them as a table."""
    kinds = page.kinds(turns.map(lambda result: result.coverage))
    if not kinds:
        st.caption(NO_PICTURE)
        return
    curves, tables = turns.map(lambda result: result.curves), turns.map(lambda result: result.table)
    title = "Turns of each pair within the training length"
    page.curves(curves.map(frames.drawn), turns_chart, kinds, key="turns", title=title, log=True)
    _caption(TURNS_CAPTION, current)
    page.table(tables)
    page.numbers(curves, "turns per pair", {"x": "pair", "y": "turns"})
    page.numbers(tables, "frequencies")


@cache
def turns_chart(kinds: tuple[str, ...], *, pinned: bool = False) -> theme.Spec:
    """Full turns that each pair makes within the training length, log scale, with one turn marked.

    Frame: scheme, x (pair), y (turns); pinned: setting, too.
    """
    x_title, y_title = "pair (0: highest frequency)", "turns within the training length"
    x = alt.X("x:Q", title=x_title, scale=alt.Scale(nice=False))
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(type="log"), axis=theme.decades("~g"))
    spec = lines.line_spec(kinds, x, y, x_title, height=HEIGHT, pinned=pinned)
    one_turn = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], color="gray")
    return spec | {"layer": [*spec["layer"], theme.spec_of(one_turn.encode(y=alt.datum(1)))]}
