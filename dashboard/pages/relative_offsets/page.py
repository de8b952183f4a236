"""Relative offsets: three separate claims, each with a control, each able to fail."""

import functools

import altair as alt
import pandas as pd
import streamlit as st

from dashboard import results
from dashboard.ab import AB
from dashboard.charts import frames, lines, theme
from dashboard.components.matrix import Full, Panel, Scale
from dashboard.controls import sidebar
from dashboard.controls.page_controls import SHOWN, UsedControls
from dashboard.frame import page, panels
from dashboard.pages.relative_offsets import data
from dashboard.pages.relative_offsets.options import OffsetChoice
from dashboard.text import listed, number, plain
from posenc import rotation
from posenc.analysis import linear_map
from posenc.analysis.offset_checks import OFFSETS
from posenc.schemes import alibi

SUBSCRIPTS = str.maketrans(
    "0123456789", "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089"
)
YES, NO = ":green-badge[:material/check: yes]", ":red-badge[:material/close: no]"
ENTRY = Scale(-1.0, 1.0, "diverging", "entry of M")


used_controls = UsedControls(SHOWN)


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header, title = st.container(), st.container()
    controls, meaning = st.columns([3, 2], vertical_alignment="center")
    chosen = sidebar.choices(OffsetChoice, controls.container(horizontal=True))
    read = settings.map(lambda setting: data.read(setting, chosen))
    current = read.current
    with header:
        page.show_excluded(read, current.claims, "Relative offsets")
        page.head("Relative offsets", read.map(data.headline))
    sources = {kind: results.provenance(request) for kind, request in current.requests.items()}
    notes = page.panel_notes(settings.current, sources)
    meaning_of_phi = (
        r"$\varphi(i)$ is the vector of position i: the stored row (learned, sinusoidal), unit content "
        "after its rotation (RoPE), or a vector whose inner products are the weight factors (ALiBi)."
    )
    title.subheader(
        "The matrix that moves a position",
        anchor=False,
        help="\n\n".join(filter(None, (meaning_of_phi, notes))),
    )
    a, b = chosen.offset, chosen.second
    undrawn = {kind: found.verdict for kind, found in current.maps.items() if found.corner is None}
    none = tuple(kind for kind, verdict in undrawn.items() if verdict.startswith("no such matrix"))
    unknown = tuple(kind for kind in undrawn if kind not in none)
    meaning.markdown(
        rf"$M_k$ moves a position by $k$. $M_{{{a}}}\,M_{{{b}}} = M_{{{a + b}}}$ with relative residual "
        f"{_composed(current)}."
        + (f" No exact matrix: {page.names(none)}." if none else "")
        + (f" Matrix not computed: {page.names(unknown)}." if unknown else "")
    )
    _draw_maps(read, chosen)
    _draw_cards(read.current, "")
    if read.pinned is not None and read.pinned.claims:
        st.caption(page.setting_name("A"))
        _draw_cards(read.pinned, "A: ")
    _draw_errors(read, page.kinds(settings))
    _draw_fits(read, chosen.offset)

    page.how_to_read(
        "The three claims are independent: a scheme can meet one without the others. Residuals "
        "are relative: 1 is no better than predicting zero. Every kernel that depends on the "
        "offset alone has an exact shift matrix. The question is whether one finite matrix, "
        "fitted on some positions, also fits the others. Every fit stands beside the same fit on "
        "a random table. A closed form is checked, not fitted: where it is true, its error is "
        "rounding. In the dense fit, a rank below the width means that the fit interpolates. "
        "Later positions come after all fitted positions."
    )
    page.definition(
        r"\varphi(i + k) = M_k\,\varphi(i), \qquad M_a M_b = M_{a+b}",
        "Sinusoidal and RoPE: a block rotation, one angle per pair. ALiBi: each head's vectors gain a "
        "dimension per position, and the shift moves them along. Learned: no closed form; one matrix is "
        "fitted to half the positions and scored on the other half.",
        rotation.pair_matrix,
        alibi.expanding_shift,
        linear_map.verify_map,
    )
    page.numbers(read.map(data.map_table), "one matrix per offset")
    page.numbers(read.map(data.claim_table), "offset only and straight line")
    page.script(data.script(settings.current, chosen))


def _draw_cards(read: data.Read, prefix: str) -> None:
    """Draw the three claims beside each other: question, and per scheme verdict, number and control."""
    cards = (
        (
            r"Is a shift linear?** $\varphi(i+k) = M_k\,\varphi(i)$",
            "Relative residual: 0 is exact.",
            "a random table",
        ),
        (
            r"Depends on the offset only?** $K(i, i+k) = f(k)$",
            "Spread along diagonals over overall spread: 0 is yes. $K$ is of positions alone: with "
            "content, a table that is added brings in the absolute position.",
            "a random table",
        ),
        (
            r"A straight line?** $\ell(k) = a - s\,k$",
            r"$R^2$ of the logit $\ell$ against the distance: only 1 is a line.",
            "noise",
        ),
    )
    for column, (question, meaning, reference), verdicts in zip(
        st.columns(3), cards, data.verdicts(read), strict=True
    ):
        with column.container(border=True, height="stretch"):
            st.markdown(f"**{prefix}{question}")
            for kind, verdict in verdicts.items():
                text = f":gray-badge[–] {page.label(kind)}"
                if verdict.value is not None:
                    text = f"{YES if verdict.holds else NO} {page.label(kind)}: {number(verdict.value)}"
                    if verdict.control is not None:
                        control = number(verdict.control)
                        text += f" :small[({reference.removeprefix('a ')}: {control})]"
                st.markdown(text, help=plain(verdict.note) or None)
            st.caption(f"{meaning} In parentheses: the same for {reference}.")


def _composed(read: data.Read) -> str:
    """Return the largest residual of the composition, of the schemes that have one."""
    residuals = [result.composed for result in read.maps.values() if result.composed is not None]
    return f"{number(max(residuals))} at most" if residuals else "of no scheme here"


def _draw_maps(read: AB[data.Read], chosen: OffsetChoice) -> None:
    """Draw the first entries of every scheme's M_a and M_a M_b: of B, of A, their difference."""
    drawn = read.map(lambda result: _panels(result, chosen))
    if drawn.current:
        panels.rows_of_both(
            drawn,
            lambda _: ENTRY,
            key="offset_maps",
            unit="entries",
            row_label="feature after",
            column_label="feature before",
            together=2,
            height=170 if read.compared else 220,
            text_alternative=(
                f"The matrix that moves every position by {chosen.offset}, and by {chosen.second} "
                f"before that, for {', '.join(panel.title for panel in drawn.current[::2])}: entries from "
                "-1 to 1."
            ),
        )


def _panels(read: data.Read, chosen: OffsetChoice) -> list[Panel]:
    first, second = (
        f"M{offset}".translate(SUBSCRIPTS) for offset in (chosen.offset, chosen.second)
    )
    moved, composed = (
        f"{first}: {chosen.offset}",
        f"{first}{second}: {chosen.offset + chosen.second}",
    )
    return [
        Panel(
            title=page.label(kind) + added,
            values=Full(corner.numpy()),
            subtitle=f"{text} further, first {len(corner)} features",
            color=theme.COLOURS[kind],
        )
        for kind, result in read.maps.items()
        for added, text, corner in (
            ("", moved, result.corner),
            (", composed", composed, result.composed_corner),
        )
        if corner is not None
    ]


def _draw_errors(read: AB[data.Read], kinds: tuple[str, ...]) -> None:
    """Draw the residual by offset once somebody opens it: a matrix per offset takes long."""
    drawer = st.expander(
        "Residual by offset", key="map_errors_open", on_change="rerun", icon=":material/show_chart:"
    )
    if not drawer.open:
        return
    errors = read.map(data.by_offset)
    checked = pd.concat(errors.each).dropna(subset="y")["scheme"].unique()
    drawn = tuple(kind for kind in kinds if page.label(kind) in checked)
    with drawer:
        if drawn:
            page.curves(
                errors.map(frames.drawn), map_errors, drawn, key="map_errors",
                title="Residual by offset", log=True,
            )  # fmt: skip
            st.caption("Thin grey dashes: control, the mean of random tables.")
        rows = errors.current.groupby("scheme", sort=False).size()
        if wide := [str(name) for name, count in rows.items() if count < len(OFFSETS)]:
            st.caption(f"Every third offset for the wide vectors of {listed(wide)}.")
    page.numbers(errors, "map errors by offset", {"x": "offset", "y": "error"})


def _draw_fits(read: AB[data.Read], offset: int) -> None:
    """Fit one matrix per scheme by least squares, once somebody asks."""
    fitting = st.toggle(
        "Fit by least squares",
        key="dense",
        help="Takes some seconds. Fits half of the positions, scores the others. Not saved in links.",
    )
    if not fitting:
        return
    fits = read.map(
        lambda result: {
            kind: results.dense_fit(request, offset) for kind, request in result.requests.items()
        }
    )
    dense = fits.map(data.dense_fits)
    page.table(dense)
    page.numbers(dense, "dense fits")
    st.caption(page.by_scheme({kind: fit.reason or "" for kind, fit in fits.current.items()}))


@functools.cache
def map_errors(kinds: tuple[str, ...], *, pinned: bool = False) -> theme.Spec:
    """Error of one matrix per offset, log scale, with the random control as a thin line.

    Frame: scheme, x (offset), y (error), control; pinned: setting, too.
    """
    x = alt.X("x:Q", title="offset k", scale=alt.Scale(type="log", base=2))
    y = alt.Y("y:Q", title="relative error", scale=alt.Scale(type="log"), axis=theme.decades(".0e"))
    spec = lines.line_spec(kinds, x, y, "offset k", form=".3e", points=True, pinned=pinned)
    control = (
        alt.Chart()
        .mark_line(strokeWidth=1, color="gray", strokeDash=[2, 3])
        .encode(x=x, y="mean(control):Q")
    )
    return spec | {"layer": [*spec["layer"], theme.spec_of(control)]}
