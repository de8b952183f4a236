"""At a glance: the schemes compared in one table, and their similarity by distance."""

from collections.abc import Mapping
from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd

from dashboard import notes, results, run_accuracies, run_losses, runs
from dashboard.blocks import (
    SHOWN,
    Block,
    Cards,
    Chart,
    Data,
    Definition,
    Drawer,
    Page,
    Table,
    Text,
    Uses,
)
from dashboard.cache import cached
from dashboard.charts import frames, theme
from dashboard.charts.theme import Spec
from dashboard.pages.at_a_glance import comparison, properties
from dashboard.results import Similarity
from dashboard.scheme_facts import EMBEDDING
from dashboard.script import requests_in_python, whole_script
from dashboard.settings import Setting
from dashboard.text import listed, number, plain
from posenc.analysis import Properties, similarity
from posenc.analysis import properties as analysis
from posenc.schemes import SCHEMES

USES = Uses(SHOWN)
TITLE = "At a glance"
HEIGHT = 160  # of a curve
GUIDE = (
    "The table compares the schemes at the current setting. Depends on offset only: whether the position "
    "kernel of a pair follows from its distance. Where rows of a table are added to token vectors, their "
    "products with those vectors depend on the absolute position.\n\n"
    "A curve is the mean similarity of all pairs at a distance. Its band is the range. Content is fixed; "
    f"only position varies. {notes.HEIGHTS} The dashed line is the training length of the "
    "sidebar.\n\n"
    "Distances and norms are in the unit of each scheme's vectors; values are the vectors' entries. "
    "The spread at equal distance is that of similarity along diagonals over its overall spread: "
    "0 where only the distance matters, about 1 for noise. Kendall tau is 1 where similarity falls "
    "at every step."
)
DEFINITION = Definition(
    r"\begin{aligned} K(i, j) &= \varphi(i) \cdot \varphi(j) \\"
    r"\lVert\varphi(i) - \varphi(j)\rVert^2 &= K(i,i) + K(j,j) \\ &\quad - 2K(i,j) \end{aligned}",
    "The position kernel K is what position contributes to attention between a query and a "
    "key of fixed content. Distances, norms and invariance below are measured on it.",
    (analysis.measure, similarity.similarity_by_offset),
)
IMPORTS = """
import posenc
from posenc.analysis import scheme_properties
"""
SCRIPT = """
names = (
    "positions", "smallest_distance", "neighbour_mean", "norm_low", "norm_high", "value_low",
    "value_high", "translation_invariance_error", "first_rise", "kendall_tau",
)
print("scheme", *names, sep=",")
for request in requests.values():
    found = scheme_properties(request)
    values = [getattr(found, name) for name in names]
    print(request.config.label, *("" if v is None else v for v in values), sep=",")
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """At a glance asks nothing beside the shared numbers."""


@cached
def page(setting: Setting, options: Options) -> Page:
    """Return the page."""
    requests = {kind: results.request(setting, kind) for kind in setting.schemes}
    # Scheme by scheme: a long rounded kernel is kept until the next one, and asked for twice.
    both, reasons = results.per_scheme(
        lambda request: (results.cosine(request), results.measured(request)), requests
    )
    if not both:
        return Page(title=TITLE, headline=notes.NO_SCHEME, reasons=reasons)
    similarities = {kind: similarity_of for kind, (similarity_of, _) in both.items()}
    measured = {kind: properties_of for kind, (_, properties_of) in both.items()}
    compared = comparison.table({kind: requests[kind] for kind in both}, measured)
    return Page(
        title=TITLE,
        headline=headline(similarities, measured),
        reasons=reasons,
        blocks=(
            *notes.warnings(similarities),
            Table(compared),
            *_losses(tuple(both)),
            *_equal_width(setting, similarities),
            Cards("curves", _curves(setting, similarities, measured, compared), border=False),
            Drawer(
                "properties",
                "Measured properties",
                lambda: [Table(properties.table(measured), "properties")],
                icon="straighten",
            ),
            Data(title="Measured properties", frame=properties.numbers(measured)),
            Data(title="Comparison", frame=compared),
        ),
        guide=GUIDE,
        definition=DEFINITION,
        script=lambda: whole_script(IMPORTS, requests_in_python(setting), SCRIPT),
    )


def _losses(kinds: tuple[str, ...]) -> list[Block]:
    """Say what the losses and the recall of the table are."""
    measured, recalls = runs.shipped_loss(kinds), runs.shipped_recall(kinds)
    parts = []
    if measured:
        parts.append(
            f"Loss past training: change per byte in small models {run_losses.lengths(measured)}. "
            f"{run_losses.rules()}"
        )
    if recalls:
        distances = run_accuracies.recall_distances(recalls)
        parts.append(f"Recall past training: share of correct answers at {distances}.")
    return [Text(" ".join(parts), "caption", help=run_losses.rules_in_percent())] if parts else []


def _equal_width(setting: Setting, similarities: Mapping[str, Similarity]) -> list[Block]:
    """Say how far sinusoidal and RoPE similarities differ where their widths are equal."""
    both = {"sinusoidal", "rope"} <= {*similarities}
    if not (both and setting.equal_width and setting.of_model("rope") is None):
        return []
    gap = float(np.abs(similarities["sinusoidal"].mean - similarities["rope"].mean).max())
    same = "At equal base and width, sinusoidal and RoPE have the same position similarity"
    if gap < properties.OFFSET_ONLY:
        return [Text(f"{same}: the largest measured difference is {number(gap)}.")]
    exactly = "if RoPE rotates all features exactly. At this setting they differ by up to"
    return [Text(f"{same} {exactly} {number(gap)}.")]


def _curves(
    setting: Setting,
    similarities: Mapping[str, Similarity],
    measured: Mapping[str, Properties],
    compared: pd.DataFrame,
) -> dict[str, list[Block]]:
    """Return each scheme's curve and what its positions tell, on axes that all share."""
    curves = frames.by_offset(similarities, frames.boundary(setting))
    ends = {"last": curves["x"].max(), "least": curves[["y", "low"]].min().min()}
    cells: dict[str, list[Block]] = {}
    for (kind, result), where in zip(similarities.items(), compared["acts on"], strict=True):
        label = SCHEMES[kind].label
        note = notes.panel_note(setting, kind, result.kernel.provenance)
        sentence = properties.sentence(measured[kind], result, added=where == EMBEDDING)
        cells[kind] = [
            Text(label, "heading", help=plain(note)),
            Chart(
                key=f"curve_{kind}",
                title=f"{label}: position similarity by distance",
                frame=curves[(curves["scheme"] == label).to_numpy()].assign(**ends),
                names=(kind,),
                draw=small_curve,
                columns={"x": "distance", "y": "mean", "last": "", "least": ""},
                sizes=notes.sizes(setting),
            ),
            Text(sentence, "caption", both=kind),
        ]
    return cells


def headline(similarities: Mapping[str, Similarity], measured: Mapping[str, Properties]) -> str:
    """Say which schemes let similarity fall with every step and which do not."""
    groups: dict[str, list[str]] = {}
    rises = []
    for kind, result in measured.items():
        label = SCHEMES[kind].label
        if similarities[kind].kernel.untrained:
            label += f", {similarities[kind].kernel.start}"
        if not np.isfinite(similarities[kind].mean).any():
            what = "is undefined (no vector has a direction)"
        elif result.positions < 2:
            what = "has no distances to compare"
        elif result.kendall_tau is None:
            what = "does not change at all"
        elif result.kendall_tau > 1 - 1e-12:
            what = "falls at every step"
        elif result.first_rise is None:
            what = "never rises, but stays level at some steps"
        else:
            rises.append(f"{result.first_rise:,} ({label})")
            continue
        groups.setdefault(what, []).append(label)
    parts = [f"{what} for {listed(labels)}" for what, labels in groups.items()]
    if rises:
        parts.append(f"first rises again at distance {', '.join(rises)}")
    return f"Position similarity {'; it '.join(parts)}."


@theme.cached_spec
def small_curve(kinds: tuple[str, ...]) -> Spec:
    """Return one scheme's curve by distance, small, on the axes of all that stand beside it.

    Frame: scheme, x, y, low, high, boundary, last, least (the ends of both axes).
    """
    (kind,) = kinds
    axis = alt.Axis(tickCount=4)
    x = alt.X("x:Q", title="query-key distance (tokens)", scale=alt.Scale(nice=False), axis=axis)
    y = alt.Y("y:Q", title="similarity", axis=axis)
    tip = [
        alt.Tooltip("scheme:N", title="scheme"),
        alt.Tooltip("x:Q", title="distance", format=","),
        alt.Tooltip("y:Q", title="position similarity", format=".3g"),
    ]
    band = alt.Chart().mark_area(opacity=0.2, color=theme.COLOURS[kind])
    line = alt.Chart().mark_line(
        color=theme.COLOURS[kind], strokeWidth=2, strokeDash=theme.STROKES[kind]
    )
    ends = alt.Chart().mark_point(opacity=0, tooltip=None)
    layers = [
        band.encode(x=x, y="low:Q", y2="high:Q"),
        line.encode(x=x, y=y, tooltip=tip),
        theme.boundary_rule(),
        ends.encode(x=alt.X("max(last):Q"), y=alt.Y("min(least):Q")),
    ]
    return theme.spec_of(alt.layer(*layers).properties(height=HEIGHT))
