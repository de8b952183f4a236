"""PCA: the shape that positions make, on the three directions in which they differ most."""

from functools import partial

import numpy as np
import pandas as pd

from dashboard import notes, results
from dashboard.blocks import (
    SHOWN,
    Block,
    Cards,
    Chart,
    Controls,
    Data,
    Definition,
    Page,
    Text,
    Uses,
    line_chart,
)
from dashboard.cache import cached
from dashboard.charts.theme import Spec
from dashboard.pages.pca import charts, data
from dashboard.pages.pca.data import AXES, Found
from dashboard.pages.pca.options import PLANES, VARIANCE, Options
from dashboard.pages.pca.panels import lay_out
from dashboard.results import Array
from dashboard.settings import Setting
from dashboard.text import number, plain
from posenc.analysis import pca as projection
from posenc.schemes import SCHEMES

USES = Uses(SHOWN)
# What the dots of a plot are, for a saved picture and a screen reader.
DOTS = "dots from dark, the first position, to bright, the last; hollow: past the training length"
EXPLAINED = "Variance explained by the first components"
EXPLAINED_COLUMNS = {"x": "component", "y": "share"}
GUIDE_TO_POSITIONS = (
    "Each dot is a position; a line joins neighbours. Plots of one scheme share a scale. A unit has the "
    "same length on both axes. A distance of 1 is the typical length of a position vector (root mean "
    "square norm). Hollow dots lie past the training length.\n\n"
    "An arch (horseshoe effect) does not mean that positions have two properties. Their order alone makes "
    "it: when near positions are similar and far ones are not, the components are waves along the order, "
    "PC1 with about half a period and PC2 with a whole one (Diaconis, Goel and Holmes 2008, arXiv "
    "0811.1477). Corners come from few pairs: their fast waves do not cancel. RoPE has the pairs of one "
    "head, Sinusoidal those of the whole model."
)
GUIDE_TO_VARIANCE = (
    "A line per scheme: the share of the variance that the first components explain together. The dashed "
    f"line is at {data.SHARE:.0%}. The fewer components a scheme needs to reach it, the more a plot of two "
    "components shows."
)
GUIDE = (
    "Read the explained variance first. It is high for a trained learned table, because "
    "training moves its rows along few directions. It is low for sinusoidal and RoPE: every "
    "frequency adds a circle in its own plane, and only slow circles are smooth enough to "
    "lead. It is low for ALiBi, because positions that are far apart are almost unrelated."
)
DEFINITION = Definition(
    r"z_i = (\varphi(i) - \bar\varphi)\,W, \qquad "
    r"W = \text{leading eigenvectors of } \operatorname{cov}(\varphi)",
    "The vectors of Learned and Sinusoidal are the rows of their tables. Those of RoPE are unit content, "
    "rotated. ALiBi has no vectors. PCA needs only their inner products, which are the similarities "
    r"$e^{-s|i-j|}$ of ALiBi. The sign of a component is arbitrary: the first clearly positive or negative "
    "position is made positive.",
    (projection.project, projection.project_gram),
)


@cached
def page(setting: Setting, options: Options) -> Page:
    """Return the page."""
    requests = {kind: results.request(setting, kind) for kind in setting.schemes}
    fitted = data.fitted_positions(setting, options.fit)
    found, reasons = results.per_scheme(data.projected, requests, fitted)
    if not found:
        return Page(title="PCA", headline=notes.NO_SCHEME, reasons=reasons)
    shares = data.shares_of(found)
    meaning = data.meaning(found, shares, options)
    draws_variance = options.plot == VARIANCE
    draw = _variance if draws_variance else _positions
    return Page(
        title="PCA",
        headline=data.headline(shares),
        reasons=reasons,
        blocks=(
            *([Text(meaning, "caption")] if meaning else []),
            Controls(("plot", "fit", "same_scale")),
            *draw(setting, options, found),
            Data(title="Scores", frame=data.scores(found, setting.train_length)),
        ),
        guide=f"{GUIDE_TO_VARIANCE if draws_variance else GUIDE_TO_POSITIONS}\n\n{GUIDE}",
        definition=DEFINITION,
        script=lambda: data.script(setting, options),
    )


def _variance(setting: Setting, options: Options, found: Found) -> list[Block]:
    """Return the curves of explained variance, and how many components explain most of it."""
    shares = data.shares_of(found)
    needed = data.components_needed(found, shares)
    return [
        *([Text(needed, both="components")] if shares else []),
        *line_chart(
            key="explained",
            title=EXPLAINED,
            sizes=notes.sizes(setting),
            frame=data.variance(found),
            names=tuple(found),
            draw=charts.explained,
            columns=EXPLAINED_COLUMNS,
        ),
    ]


def _positions(setting: Setting, options: Options, found: Found) -> list[Block]:
    """Return a plot of positions for each scheme."""
    plane = PLANES[options.plot]
    jump = notes.last_row(setting)
    return [
        charts.legend(),
        Cards(
            "positions",
            _plots(setting, found, plane, options.fit),
            across=2,
            presented=4,
            least=charts.WIDTH,
            border=False,
            each=True,
            lay_out=partial(lay_out, plane=plane, same_scale=options.same_scale),
        ),
        *([Text(jump, "caption", both="last row")] if jump else []),
        Data(title=EXPLAINED, frame=data.variance(found), columns=EXPLAINED_COLUMNS),
    ]


def ends_spoken(scores: Array, plane: tuple[str, str]) -> str:
    """Say where the first and the last position are drawn. scores: (positions, components)."""
    across, up = (AXES.index(axis) for axis in plane)
    ends = [
        f"position {position} at {number(scores[position, across])}, {number(scores[position, up])}"
        for position in (0, len(scores) - 1)
    ]
    return f"{' and '.join(plane)}: {'; '.join(ends)}."


def _plots(
    setting: Setting, found: Found, plane: tuple[str, str], fit: str
) -> dict[str, list[Block]]:
    """Return the heading of each scheme, what its components explain, its plot and why it looks so."""

    def draw(_: tuple[str, ...]) -> Spec:
        return charts.positions(*plane)

    fitted = data.fitted_positions(setting, fit)
    cells: dict[str, list[Block]] = {}
    for kind, result in found.items():
        label = SCHEMES[kind].label
        request = results.request(setting, kind)
        note = notes.panel_note(setting, kind, results.provenance(request), rounded=result.rounded)
        explained, fitted_on = data.explained(result), data.fitted(result)
        help = plain("; ".join(filter(None, (note, fitted_on))))
        cells[kind] = [Text(label, "heading", help=help), Text(explained, "caption")]
        why = data.why_shape(request, fitted, plane)
        if data.variance_shares(result).any():
            scores = result.scores.numpy()
            position = np.arange(len(scores))
            columns = {"position": position, **dict(zip(AXES, scores.T, strict=True))}
            cells[kind].append(
                Chart(
                    key=f"projection_{kind}",
                    title=label,
                    frame=pd.DataFrame(columns | {"past": position >= setting.train_length}),
                    names=(kind,),
                    draw=draw,
                    x="position",
                    alt="; ".join(filter(None, (explained, fitted_on, note, DOTS)))
                    + f". {ends_spoken(scores, plane)}",
                    sizes=note,
                    listed=False,
                )
            )
            cells[kind] += [Text(why, "caption")] if why else []
    return cells
