"""Similarity: which positions look alike to attention, pair by pair and by offset."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from dashboard import notes, results
from dashboard.blocks import SHOWN, Columns, Controls, Matrices, Page, Text, Uses, line_chart
from dashboard.cache import cached
from dashboard.charts import frames, lines, theme
from dashboard.components.matrix import Panel, Scale
from dashboard.results import Array, Similarity
from dashboard.script import requests_in_python, whole_script
from dashboard.settings import Setting
from dashboard.settings.setting import MAX_SHOWN_LENGTH
from dashboard.text import listed, number
from posenc import fields
from posenc.analysis import similarity
from posenc.schemes import SCHEMES

USES = Uses(SHOWN)
FROM_ZERO = Scale(0.0, 1.0, "sequential", "position similarity")
FROM_MINUS_ONE = Scale(-1.0, 1.0, "diverging", "position similarity")
GUIDE = (
    "Content is fixed; only position varies. Row i, column j is the position similarity of "
    "query i and key j: 1 is identical, 0 unrelated, below 0 opposed. "
    f"{notes.HEIGHTS} If every diagonal of a matrix has one colour, only the distance matters. Cells "
    "without a value are hatched: a learned table ends at its last row. The dashed line is "
    "the training length. Click a cell to pin it; the link holds the pinned cell."
)
UNRELATED = (
    "Similarity is a cosine: two vectors of d independent random entries have 0 on average, with a "
    "standard deviation of $1/\\sqrt{d}$. Positions have more where some of their entries hardly change "
    "from one to the next, as slow waves do."
)
CHOOSE = "Choose a query and a key, or click a cell: their similarity then stands here."
DEFINITION = notes.similarity_definition(similarity.cosine_curve, similarity.cosine_matrix)
IMPORTS = """
import posenc
from posenc.analysis import scheme_similarity
"""
SCRIPT = """
print("scheme,distance,mean,low,high,spread")
for request in requests.values():
    found = scheme_similarity(request)
    rows = zip(found.distances, found.mean, found.low, found.high, found.deviation)
    for row in rows:
        print(request.config.label, *(value.item() for value in row), sep=",")
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the page beside the shared numbers: the pinned cell, and the colours."""

    reference: int = fields.IntRange(
        low=0,
        high=MAX_SHOWN_LENGTH - 1,
        label="Query",
        help="The position whose similarity to every key is drawn. A click on a matrix pins query and key.",
    ).field(0)
    key_position: int = fields.IntRange(
        low=0,
        high=MAX_SHOWN_LENGTH - 1,
        label="Key",
        help="The position whose similarity to the query is stated below.",
    ).field(0)
    from_zero: bool = fields.Flag(
        label="Colours from 0 to 1",
        help="Negative similarity takes the colour of 0. Otherwise all matrices use -1 to 1.",
    ).field(False)


@cached
def page(setting: Setting, options: Options) -> Page:
    """Return the page."""
    requests = {kind: results.request(setting, kind) for kind in setting.schemes}
    similarities, reasons = results.per_scheme(results.cosine, requests)
    if not similarities:
        return Page(title="Similarity", headline=notes.NO_SCHEME, reasons=reasons)
    query, key = (min(n, setting.length - 1) for n in (options.reference, options.key_position))
    rows = {kind: results.reference_row(requests[kind], query) for kind in similarities}
    boundary = frames.boundary(setting)
    scale = FROM_ZERO if options.from_zero else FROM_MINUS_ONE
    chart = partial(
        line_chart,
        names=tuple(similarities),
        labels=lines.LABEL_GAP,
        sizes=notes.sizes(setting),
    )
    curve = partial(lines.by_offset, y_title="position similarity", labels=True)
    matrices = Matrices(
        key="similarity",
        panels=_panels(setting, similarities),
        scale=scale,
        unit="similarity",
        cell=(query, key),
        takes_cell=("reference", "key_position"),
        text=f"Position similarity of query and key for {notes.names(tuple(similarities))}, from "
        f"{scale.low:g} to 1; the arrow keys read a cell, and the tables below hold the numbers of the "
        "curves.",
    )
    by_distance = [
        Text("By distance", "heading"),
        Text(
            "Line: mean over all pairs at a distance. Band: from the lowest pair to the highest; for a "
            "mean of heads, from the lowest head to the highest.",
            "caption",
        ),
        *chart(
            key="by_offset",
            title="Position similarity by distance",
            frame=frames.by_offset(similarities, boundary),
            draw=partial(curve, x_title="query-key distance (tokens)"),
            columns={"x": "distance", "y": "mean"},
        ),
    ]
    from_one_position = [
        Text("From one position", "heading"),
        Controls(("reference", "key_position")),
        Text(cell(rows, query, key) if query or key else CHOOSE, "caption", both="cell"),
        *chart(
            key="one_row",
            title=f"Position similarity of query {query:,} and each key",
            frame=frames.lines(rows, boundary),
            draw=partial(curve, x_title="key position", band=False),
            columns={"x": "position", "y": "cosine"},
        ),
        *_missing(options.reference, query, rows),
    ]
    jump = notes.last_row(setting)
    return Page(
        title="Similarity",
        headline=headline(similarities),
        reasons=reasons,
        blocks=(
            *notes.warnings(similarities),
            matrices,
            *_random_pair(similarities),
            Controls(("from_zero",)),
            Columns((by_distance, from_one_position)),
            *([Text(jump, "caption", both="last row")] if jump else []),
        ),
        guide=GUIDE,
        definition=DEFINITION,
        script=lambda: whole_script(IMPORTS, requests_in_python(setting), SCRIPT),
    )


def first_below_half(similarity: Similarity) -> int | None:
    """Return the first distance at which mean similarity is under one half, None if it never is."""
    below = np.flatnonzero(similarity.mean < 0.5)
    return int(below[0]) if len(below) else None


def headline(results: Mapping[str, Similarity]) -> str:
    """Say how far apart two positions still look alike, per scheme."""
    distances, sentences = [], []
    for kind, result in results.items():
        label, below = SCHEMES[kind].label, first_below_half(result)
        start = f", {result.kernel.start}" if result.kernel.untrained else ""
        if not np.isfinite(result.mean).any():
            sentences.append(f"{label} has no similarity at all.")
        elif below is None:
            sentences.append(f"{label} does not drop below 0.5 within the positions shown{start}.")
        else:
            distances.append(f"{below:,} ({label}{start})")
    if distances:
        first = f"Position similarity first drops below 0.5 at distance {', '.join(distances)}."
        sentences.insert(0, first)
    return " ".join(sentences)


def _random_pair(results: Mapping[str, Similarity]) -> list[Text]:
    """Say how similar two random positions are, against which a similarity is high or low."""
    values = [
        f"{number(result.random_pair)} ({SCHEMES[kind].label})"
        for kind, result in results.items()
        if np.isfinite(result.random_pair)
    ]
    if not values:
        return []
    sentence = f"Average similarity of two positions chosen at random: {', '.join(values)}."
    return [Text(sentence, "caption", help=UNRELATED, both="random pair")]


def cell(rows: Mapping[str, tuple[Array, Array] | None], query: int, key: int) -> str:
    """Say how similar one query and one key are, and which scheme has no row or no value at the key."""
    values: list[str] = []
    absent: list[str] = []
    undefined: list[str] = []
    for kind, row in rows.items():
        label = SCHEMES[kind].label
        if row is not None and key < len(row[1]):
            value = float(row[1][key])
            if math.isfinite(value):
                values.append(f"{number(value)} ({label})")
            else:
                undefined.append(label)
        elif row is not None:
            absent.append(label)
    if undefined:
        values.append(f"undefined ({listed(undefined)})")
    if absent:
        values.append(f"no row {key:,} ({listed(absent)})")
    similarities = ", ".join(values) or "no scheme has a value"
    return f"Query {query:,}, key {key:,}, distance {abs(query - key):,}: {similarities}."


def _missing(asked: int, query: int, rows: Mapping[str, object]) -> list[Text]:
    """Say that another query is used than was asked for, and which schemes have no row there."""
    texts = []
    if asked != query:
        texts.append(f"The last position shown is {query:,}; it is used as the query.")
    if missing := tuple(kind for kind, row in rows.items() if row is None):
        texts.append(f"{notes.names(missing)}: no row exists at position {query:,}.")
    return [Text(text, "caption") for text in texts]


def _panels(setting: Setting, similarities: Mapping[str, Similarity]) -> list[Panel]:
    """Return the panels of similarity, the training length drawn where it is inside."""
    panels = []
    for kind, result in similarities.items():
        drawn = result.matrix.shape[0]
        note = notes.panel_note(setting, kind, result.kernel.provenance)
        if drawn < setting.length:
            note += f"; the first {drawn} of {setting.length:,} positions"
        panels.append(
            Panel(
                title=SCHEMES[kind].label,
                values=result.matrix,
                subtitle=note,
                boundary=setting.train_length if setting.train_length < drawn else None,
                color=theme.COLOURS[kind],
            )
        )
    return panels
