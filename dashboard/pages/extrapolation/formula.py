"""The view "formula" of Extrapolation: why schemes hold or break past the training length."""

from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from dashboard import notes, results
from dashboard.blocks import (
    Block,
    Controls,
    Data,
    Definition,
    Findings,
    Page,
    Text,
    line_chart,
)
from dashboard.cache import cached
from dashboard.charts import frames, lines, theme
from dashboard.pages.extrapolation.options import NEAREST, TURNS, Options
from dashboard.script import requests_in_python, whole_script
from dashboard.settings import Setting
from dashboard.text import listed, number
from posenc import analysis
from posenc.analysis import SchemeCoverage, SchemeKernelPast
from posenc.schemes import SCHEMES

HEIGHT = 320
TITLE = "Extrapolation"
NOTHING = "No scheme shown has this picture at these settings."
NO_PICTURE = (Text(NOTHING, "caption"),)
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
DEFINITION = Definition(
    r"d_\mathrm{crit} = 2\left\lceil \tfrac{d}{2} \log_b \tfrac{L}{2\pi} \right\rceil, \qquad "
    r"B(k) = \sum_m \cos(k\,\theta_m)",
    "Critical dimension, twice the pairs that complete a turn: Liu et al. 2023, arXiv 2310.05209. Base "
    "bound: Men et al. 2024, arXiv 2405.14591. Both are statements about formulas.",
    (
        analysis.critical_dimension,
        analysis.first_negative_offset,
        analysis.spectrum,
        analysis.kernel_past,
        analysis.nearest_trained_distance,
    ),
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


@cached
def page(setting: Setting, options: Options) -> Page:
    """Return the page. Formulas are evaluated exactly: other pages are about rounding."""
    exact, trained = setting.replace(precision="float32"), setting.train_length
    length = int(options.reach) * trained
    requests = {kind: results.request(exact, kind, length) for kind in exact.schemes}
    past, reasons = results.per_scheme(results.past, requests, trained)
    controls = Controls(("half", "reason", "reach"))
    if not past:
        return Page(title=TITLE, headline=notes.NO_SCHEME, reasons=reasons, blocks=(controls,))
    sources = {kind: results.provenance(requests[kind]) for kind in past}
    panels, sizes = notes.panel_notes(exact, sources) or "", notes.sizes(exact)
    if options.reason == TURNS:
        coverage = read_coverage(exact)
        answer, blocks = turns_headline(coverage, trained), _turns(coverage, panels, sizes)
    elif options.reason == NEAREST:
        answer = nearest_headline(past, length)
        blocks = _nearest(past, f"{NEAREST_CAPTION} {evaluated(past, length)}", panels, sizes)
    else:
        answer = headline(setting, past)
        parts = (
            "The dashed line is the training length.",
            left(past, trained),
            evaluated(past, length),
        )
        blocks = _similarity(past, trained, " ".join(filter(None, parts)), panels, sizes)
    return Page(
        title=TITLE,
        headline=answer,
        reasons=reasons,
        blocks=(
            controls,
            *blocks,
            Text("A formula can be defined where a trained model fails. See Measured.", "caption"),
        ),
        guide=STEPS,
        definition=DEFINITION,
        script=lambda: whole_script(
            IMPORTS, requests_in_python(exact, length), SCRIPT.format(trained=trained)
        ),
    )


def read_coverage(setting: Setting) -> dict[str, SchemeCoverage]:
    """Return what the frequencies of each scheme that has some do within the training length."""
    length = setting.train_length
    requests = {kind: results.request(setting, kind, length) for kind in setting.schemes}
    ranges, _ = results.per_scheme(results.coverage, requests, length)
    return {kind: covered for kind, covered in ranges.items() if covered is not None}


def _similarity(
    past: Mapping[str, SchemeKernelPast], trained: int, caption: str, panels: str, sizes: str
) -> list[Block]:
    """Return similarity by distance. panels: what each scheme really is. sizes: what made the chart."""
    curves = {
        kind: (kernel.distances.numpy(), kernel.cosine.numpy())
        for kind, kernel in past.items()
        if len(kernel.distances)
    }
    chart = line_chart(
        key="past",
        sizes=sizes,
        title="Position similarity by distance",
        frame=frames.lines(curves, float(trained)),
        names=tuple(curves),
        draw=similarity_spec,
        columns={"x": "distance", "y": "cosine"},
    )
    return [*(chart if curves else NO_PICTURE), Text(caption, "caption", help=panels)]


def _nearest(
    past: Mapping[str, SchemeKernelPast], caption: str, panels: str, sizes: str
) -> list[Block]:
    """Return how far each position is from the nearest one of training."""
    curves = {
        kind: (kernel.positions.numpy(), kernel.relative.numpy())
        for kind, kernel in past.items()
        if len(kernel.relative)
    }
    chart = line_chart(
        key="nearest",
        sizes=sizes,
        title="Distance to the nearest training position",
        frame=frames.lines(curves),
        names=tuple(curves),
        draw=nearest_spec,
        columns={"x": "position", "y": "distance"},
    )
    return [*(chart if curves else NO_PICTURE), Text(caption, "caption", help=panels)]


def _turns(coverage: Mapping[str, SchemeCoverage], panels: str, sizes: str) -> list[Block]:
    """Return the turns of every pair, and what follows from them as a table."""
    if not coverage:
        return [*NO_PICTURE]
    curves = {
        kind: (np.arange(len(covered.turns)), covered.turns.numpy())
        for kind, covered in coverage.items()
    }
    chart = line_chart(
        log=True,
        key="turns",
        sizes=sizes,
        title="Turns of each pair within the training length",
        frame=frames.lines(curves),
        names=tuple(curves),
        draw=turns_spec,
        columns={"x": "pair", "y": "turns"},
    )
    table = frequencies(coverage)
    return [
        *chart,
        Text(TURNS_CAPTION, "caption", help=panels),
        Findings("frequencies", table),
        Data(title="Frequencies", frame=table),
    ]


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
            what = "stays", "stay", "within the range of similarity seen in training"
        else:
            rest = f"the range of similarity seen in training at distance {kernel.first_outside:,}"
            what = "first leaves", "first leave", rest
        groups.setdefault(what, []).append(SCHEMES[kind].label)
    parts = [
        f"{listed(labels)} {singular if len(labels) == 1 else plural} {rest}"
        for (singular, plural, rest), labels in groups.items()
    ]
    return f"Past the training length, {length:,}: {'; '.join(parts)}."


def left(past: Mapping[str, SchemeKernelPast], trained: int) -> str:
    """Return what becomes of similarities that leave the range in training, "" where none does.

    trained: the training length.
    """
    fading, returning = [], []
    for kind, kernel in past.items():
        if kernel.outside:
            if (kernel.cosine.diff() < 0).all():
                fading.append(SCHEMES[kind].label)
            elif kernel.outside < int((kernel.distances >= trained).sum()):
                returning.append(SCHEMES[kind].label)
    parts = []
    if returning:
        verb = "returns" if len(returning) == 1 else "return"
        parts.append(f"{listed(returning)} later {verb} into the range.")
    if fading:
        parts.append(
            f"The similarity of {listed(fading)} falls at every distance: leaving the range only makes "
            "far tokens count less, as in training."
        )
    return " ".join(parts)


def turns_headline(coverage: Mapping[str, SchemeCoverage], length: int) -> str:
    """Return how many pairs of each scheme complete a turn in training, of this length."""
    counts = [
        f"{covered.full_turn_pairs:,} of {len(covered.turns):,} ({SCHEMES[kind].label})"
        for kind, covered in coverage.items()
    ]
    if not counts:
        return "No scheme shown has pairs that turn."
    end = "The others meet new angles past it."
    return f"Pairs that complete a turn within {length:,} tokens: {listed(counts)}. {end}"


def nearest_headline(past: Mapping[str, SchemeKernelPast], length: int) -> str:
    """Return how far the position of each scheme that is farthest from training is from it.

    length: up to which positions are read.
    """
    farthest = [
        f"{number(float(kernel.relative.max()))} ({SCHEMES[kind].label})"
        for kind, kernel in past.items()
        if len(kernel.relative)
    ]
    if not farthest:
        return NOTHING
    return (
        f"Up to position {length - 1:,}, the largest distance to the nearest position of training, "
        f"relative to the norm: {listed(farthest)}."
    )


def evaluated(past: Mapping[str, SchemeKernelPast], length: int) -> str:
    """Return up to which distance the formulas were read, and at which of the distances."""
    sampled = any(len(kernel.distances) and kernel.outside is None for kernel in past.values())
    how = "at a sample of distances" if sampled else "at every distance"
    return f"Evaluated up to distance {length - 1:,}, {how}."


def similarity_spec(kinds: tuple[str, ...]) -> theme.Spec:
    """Return position similarity by distance."""
    titles = "query-key distance (tokens)", "position similarity"
    return lines.by_offset(kinds, *titles, band=False, height=HEIGHT)


def nearest_spec(kinds: tuple[str, ...]) -> theme.Spec:
    """Return the distance of each position to the nearest one of training."""
    return lines.by_offset(kinds, "position", "distance / norm", band=False, height=HEIGHT)


@theme.cached_spec
def turns_spec(kinds: tuple[str, ...]) -> theme.Spec:
    """Return full turns of each pair within the training length, log scale, with one turn marked.

    Frame: scheme, x (pair), y (turns).
    """
    x_title, y_title = "pair (0: highest frequency)", "turns within the training length"
    x = alt.X("x:Q", title=x_title, scale=alt.Scale(nice=False))
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(type="log"), axis=theme.decades("~g"))
    spec = lines.line_spec(kinds, x, y, x_title, height=HEIGHT)
    one_turn = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], color="gray")
    return spec | {"layer": [*spec["layer"], theme.spec_of(one_turn.encode(y=alt.datum(1)))]}
