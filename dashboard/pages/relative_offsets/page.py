"""Relative offsets: three separate claims, each with a control, each able to fail."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import altair as alt
import pandas as pd
from torch import Tensor

from dashboard import notes, results
from dashboard.blocks import (
    SHOWN,
    Block,
    Cards,
    Columns,
    Controls,
    Data,
    Definition,
    Drawer,
    Findings,
    Link,
    Matrices,
    Page,
    Table,
    Text,
    Uses,
    line_chart,
)
from dashboard.cache import cached
from dashboard.charts import lines, theme
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.pages.relative_offsets import data
from dashboard.pages.relative_offsets.data import ALONE, LINEAR, STRAIGHT, Verdict
from dashboard.settings import Setting
from dashboard.text import number
from posenc import Request, fields, rotation
from posenc.analysis import OffsetMap, linear_map
from posenc.analysis.offset_checks import OFFSETS
from posenc.claims import CLAIMS
from posenc.schemes import SCHEMES, alibi
from posenc.schemes.base import VectorScheme

USES = Uses(SHOWN)
TITLE = "Relative offsets"
HEIGHT = 220  # CSS pixels of a matrix
SUBSCRIPTS = str.maketrans(
    "0123456789", "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089"
)
YES, NO = ":green-badge[:material/check: yes]", ":red-badge[:material/close: no]"
NO_VECTORS = ":gray-badge[no vectors]"
ENTRY = Scale(-1.0, 1.0, "diverging", "entry of M")
PHI = (
    r"$\varphi(i)$ is the vector of position i: the stored row (learned, sinusoidal), or unit content "
    "after its rotation (RoPE). A pair of sinusoidal begins with its sine, as if it turned the other "
    "way: its minus sign stands below the diagonal, that of RoPE above it."
)
WITHOUT_VECTORS = (
    "no vectors of positions. The numbers in Data are of vectors made here, with the same inner products; "
    "each position adds a dimension to them, so no matrix of a fixed size moves all of them."
)
GUIDE = (
    "The three questions are independent: a scheme can meet one without the others. Where a formula gives "
    "the matrix, it is checked on every position: its error is then rounding. Where none does, a matrix is "
    "fitted to half of the positions and its error is that on the others; later positions come after all "
    "fitted ones. Every number stands beside that of a random table, which has no structure to find. With "
    "more features than fitted positions many matrices fit them equally well, so only the error on the "
    "other positions counts."
)
# Of each claim: its question, its formula, what its number is called and means, and its control.
QUESTIONS = {
    LINEAR: (
        "Does one matrix move every position?",
        r"$\varphi(i+k) = M_k\,\varphi(i)$ for every $i$",
        "error",
        "Error: the distance between moved and true vectors, over the length of the true ones. 0 is exact; "
        "unrelated vectors have about 1.41, the root of 2. Where no formula gives the matrix, it is fitted "
        r"to half of the positions and tried on the others. $\varphi(i)$ is the vector of position $i$.",
        "a random table",
    ),
    ALONE: (
        "Does similarity depend on the distance alone?",
        r"$K(i, i+k) = f(k)$ for every $i$",
        "spread",
        "Spread at equal distance: how much similarities at the same distance differ, relative to all of "
        "them. 0 means that the distance alone counts. Positions without content are compared here; with "
        r"content, a table that is added brings in the absolute position. $K(i, j)$ is the similarity of "
        "positions $i$ and $j$, not divided by lengths of vectors.",
        "a random table",
    ),
    STRAIGHT: (
        "Does the logit fall in a straight line?",
        r"$\ell(k) = a - s\,k$ for every $k$",
        "R²",
        r"R²: how well a straight line fits the logit $\ell$ by distance, which is not divided by lengths "
        "of vectors as position similarity is. Yes means exactly 1.",
        "random noise",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The offsets of M_k and of the composition, and whether a matrix is fitted, which takes seconds."""

    UNLINKED: ClassVar[tuple[str, ...]] = ("dense",)

    offset: int = fields.IntRange(
        low=1,
        high=64,
        label="Offset k",
        help="The number of positions that M moves a vector by.",
    ).field(1)
    second: int = fields.IntRange(
        low=1,
        high=64,
        label="Second offset",
        help="The number of positions of the move before it.",
    ).field(2)
    dense: bool = fields.Flag(
        label="Fit by least squares",
        help="Takes some seconds. Fits half of the positions, scores the others. Not saved in links.",
    ).field(False)


@cached
def page(setting: Setting, options: Options) -> Page:
    """Return the page."""
    requests = {kind: results.request(setting, kind) for kind in setting.schemes}
    claims, reasons = results.per_scheme(results.offset_claims, requests)
    if not claims:
        return Page(title=TITLE, headline=notes.NO_SCHEME, reasons=reasons)
    requests = {kind: requests[kind] for kind in claims}
    maps = {
        kind: results.offset_map(request, options.offset, options.second)
        for kind, request in requests.items()
    }
    sources = {kind: results.provenance(request) for kind, request in requests.items()}
    title_help = filter(None, (PHI, notes.panel_notes(setting, sources)))
    found = data.verdicts(maps, claims)
    without_vectors = tuple(
        kind
        for kind, request in requests.items()
        if not isinstance(request.build("cpu"), VectorScheme)
    )
    sizes = {kind: notes.panel_note(setting, kind, source) for kind, source in sources.items()}
    moving = {kind: found for kind, found in maps.items() if kind not in without_vectors}
    return Page(
        title=TITLE,
        headline=data.headline(found, options.offset, without_vectors),
        reasons=reasons,
        blocks=(
            Columns(
                (
                    [Controls(("offset",))],
                    [
                        Text(
                            moved(moving, options.offset, without_vectors),
                            help="\n\n".join(title_help),
                        )
                    ],
                ),
                (2, 3),
            ),
            *_matrices("offset_maps", options.offset, corners(moving), sizes),
            Cards(
                "claim_cards",
                {claim: _card(claim, found[claim], without_vectors) for claim in found},
                across=3,
            ),
            Drawer(
                "composition",
                f"Two moves in a row: {name_of(options.offset)}{name_of(options.second)}",
                lambda: _composition(moving, options, sizes),
                icon="stacks",
            ),
            Drawer(
                "map_errors_open",
                "Residual by offset",
                lambda: _errors(requests, without_vectors, notes.sizes(setting)),
                icon="show_chart",
            ),
            Controls(("dense",)),
            *(_fits(requests, options.offset) if options.dense else []),
            Data(title="One matrix per offset", frame=data.map_table(maps)),
            Data(title="Offset only and straight line", frame=data.claim_table(claims)),
        ),
        guide=GUIDE,
        definition=Definition(
            r"\varphi(i + k) = M_k\,\varphi(i), \qquad M_a M_b = M_{a+b}",
            "Sinusoidal and RoPE: a block rotation, one angle per pair. Learned: no closed form; one "
            "matrix is fitted to half the positions and scored on the other half. ALiBi has no vectors; "
            "those with its inner products gain a dimension per position, and the shift moves them along.",
            (rotation.pair_matrix, alibi.expanding_shift, linear_map.verify_map),
        ),
        script=lambda: data.script(setting, options.offset, options.second),
    )


def name_of(offset: int) -> str:
    """Return the name of the matrix that moves by an offset, such as M with a small 12."""
    return f"M{offset}".translate(SUBSCRIPTS)


def corners(maps: Mapping[str, OffsetMap]) -> dict[str, Tensor]:
    """Return the first entries of the matrix of every scheme that has one."""
    return {kind: found.corner for kind, found in maps.items() if found.corner is not None}


def moved(maps: Mapping[str, OffsetMap], offset: int, without_vectors: tuple[str, ...] = ()) -> str:
    """Say what the drawn matrices do, which schemes have none, and which have no vectors to move."""
    sentences = [rf"$M_{{{offset}}}$ moves the vector of every position by {offset}."]
    if drawn := corners(maps).values():
        sentences.append(f"Drawn: its first {max(map(len, drawn))} features.")
    undrawn = {kind: found.exists for kind, found in maps.items() if found.corner is None}
    if none := tuple(kind for kind, exists in undrawn.items() if exists is False):
        sentences.append(f"No exact matrix: {notes.names(none)}.")
    if unknown := tuple(kind for kind in undrawn if kind not in none):
        sentences.append(f"Matrix not computed: {notes.names(unknown)}.")
    if without_vectors:
        verb = "has" if len(without_vectors) == 1 else "have"
        sentences.append(f"{notes.names(without_vectors)} {verb} no vectors to move.")
    return " ".join(sentences)


def _composition(
    maps: Mapping[str, OffsetMap], options: Options, sizes: Mapping[str, str]
) -> list[Block]:
    """Return the first entries of every scheme's M_a M_b, and how far they are from M_(a+b)."""
    a, b = options.offset, options.second
    residuals = [found.composed for found in maps.values() if found.composed is not None]
    residual = f"at most {number(max(residuals))}" if residuals else "an unknown number here"
    composed = {
        kind: found.composed_corner
        for kind, found in maps.items()
        if found.composed_corner is not None
    }
    return [
        Controls(("second",)),
        Text(
            f"First by {b}, then by {a}: the product of two matrices moves by {a + b}. "
            rf"$M_{{{a}}}\,M_{{{b}}}$ differs from $M_{{{a + b}}}$ by {residual}, relative to its size.",
            both="composition",
        ),
        *_matrices("composed_maps", a + b, composed, sizes),
    ]


def _matrices(
    key: str, offset: int, corners: Mapping[str, Tensor], sizes: Mapping[str, str]
) -> list[Block]:
    """Return the first entries of every scheme's matrix. sizes: what each scheme is made of."""
    if not corners:
        return []
    panels = [
        Panel(
            title=SCHEMES[kind].label,
            values=Full(corner.numpy()),
            subtitle=f"{name_of(offset)}; {sizes[kind]}",
            color=theme.COLOURS[kind],
        )
        for kind, corner in corners.items()
    ]
    return [
        Matrices(
            key=key,
            panels=panels,
            scale=ENTRY,
            unit="entries",
            row_label="feature after",
            column_label="feature before",
            height=HEIGHT,
            text=f"The matrix that moves every position by {offset}, for "
            f"{notes.names(tuple(corners))}: entries from -1 to 1.",
        )
    ]


def _card(
    claim: str, verdicts: Mapping[str, Verdict], without_vectors: tuple[str, ...]
) -> list[Block]:
    """Return the question of a claim, and per scheme verdict, number and control."""
    question, formula, name, meaning, control = QUESTIONS[claim]
    made: Collection[str] = ()  # schemes whose vectors are made for this question alone
    if claim == LINEAR:
        made = [kind for kind in without_vectors if verdicts[kind].value is not None]
    rows = {SCHEMES[kind].label: _row(found, kind in made) for kind, found in verdicts.items()}
    table = pd.DataFrame({"": ["answer", name, control.removeprefix("a ")]} | rows)
    said = notes.by_scheme({kind: found.note for kind, found in verdicts.items()})
    caption = f"{meaning} Control: the same number for {control}."
    if made:
        said = "\n\n".join(filter(None, (f"{notes.names(tuple(made))}: {WITHOUT_VECTORS}", said)))
    blocks: list[Block] = [
        Text(f"**{question}**\n\n{formula}"),
        Table(table, key=claim),
        Text(caption, "caption", help=said),
    ]
    if claim == LINEAR:
        proof = {"theme": CLAIMS["linear_map"].theme, "claim": "linear_map"}
        blocks.append(Link("claims", "The proof, in Claims", proof))
    return blocks


def _row(found: Verdict, made: bool) -> list[str]:
    """Return verdict, number and control, "–" for none.

    made: whether the scheme has no vectors, so that the number is no answer about it.
    """
    if made or found.value is None:
        return [NO_VECTORS if made else "–", "–", "–"]
    control = "–" if found.control is None else number(found.control)
    return [YES if found.holds else NO, number(found.value), control]


def _errors(
    requests: Mapping[str, Request], without_vectors: tuple[str, ...], sizes: str
) -> list[Block]:
    """Return the residual by offset; a matrix per offset takes long. sizes: what made it, in words."""
    errors = {
        kind: results.map_errors(request)
        for kind, request in requests.items()
        if kind not in without_vectors
    }
    blocks: list[Block] = []
    drawn = tuple(kind for kind, found in errors.items() if found.error.isfinite().any())
    if drawn:
        blocks += line_chart(
            key="map_errors",
            title="Residual by offset",
            frame=data.by_offset(errors),
            names=drawn,
            draw=map_errors,
            columns={"x": "offset", "y": "error"},
            log=True,
            sizes=sizes,
        )
        blocks.append(Text("Thin grey dashes: control, the mean of random tables.", "caption"))
    if without_vectors:
        names = notes.names(without_vectors)
        verb = "has" if len(without_vectors) == 1 else "have"
        blocks.append(
            Text(f"{names} {verb} no vectors of positions to move, and no line.", "caption")
        )
    wide = [kind for kind, found in errors.items() if len(found.offset) < len(OFFSETS)]
    if wide:
        names = notes.names(tuple(wide))
        blocks.append(Text(f"Every third offset for the wide vectors of {names}.", "caption"))
    return blocks


def _fits(requests: Mapping[str, Request], offset: int) -> list[Block]:
    """Return one matrix per scheme, fitted by least squares."""
    fits = {kind: results.dense_fit(request, offset) for kind, request in requests.items()}
    table = data.dense_fits(fits)
    blocks: list[Block] = [Findings("dense_fits", table), Data(title="Dense fits", frame=table)]
    reasons = notes.by_scheme({kind: fit.reason for kind, fit in fits.items()})
    return [*blocks, Text(reasons, "caption")] if reasons else blocks


@theme.cached_spec
def map_errors(kinds: tuple[str, ...]) -> theme.Spec:
    """Return the error of one matrix per offset, on a log scale, with the random control as a thin line.

    Frame: scheme, x (offset), y (error), control.
    """
    x = alt.X("x:Q", title="offset k", scale=alt.Scale(type="log", base=2))
    y = alt.Y(
        "y:Q", title="relative error", scale=alt.Scale(type="log"), axis=theme.powers_of_ten()
    )
    spec = lines.line_spec(kinds, x, y, "offset k", form=".3e", points=True)
    control = (
        alt.Chart()
        .mark_line(strokeWidth=1, color="gray", strokeDash=[2, 3])
        .encode(x=x, y="mean(control):Q")
    )
    return spec | {"layer": [*spec["layer"], theme.spec_of(control)]}
