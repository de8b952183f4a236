"""Start: what each scheme does, what happens past the training length, and where to go on."""

from typing import Literal

import pandas as pd
import streamlit as st

from dashboard import run_results, runs
from dashboard.ab import AB
from dashboard.charts import frames, lines, loss, theme
from dashboard.controls.page_controls import UsedControls
from dashboard.controls.widgets import control
from dashboard.frame import page
from dashboard.pages.start import data, diagram
from dashboard.scheme_facts import compact_formula
from dashboard.settings import Setting
from posenc import fields
from posenc.analysis import similarity
from posenc.lab.summary import Curve, Effect
from posenc.schemes import SchemeConfig

TITLE = "How Transformers know where words are"
HEIGHT = 228
DIAL = 135  # CSS pixels of a slider under the left picture
DIAGRAM = 200  # CSS pixels: as wide as a card on a small laptop
BADGES: dict[Effect | None, Literal["green", "orange", "red", "gray"]] = {
    Effect.HOLDS: "green", Effect.DEGRADES: "orange", Effect.BREAKS: "red", None: "gray",
}  # fmt: skip


used_controls = UsedControls(("schemes", "length", "device"), drawn=("base", "dim", "equal_width"))


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    read = settings.map(data.read)
    page.show_excluded(read, read.current.results, TITLE)
    page.head(TITLE, settings.map(_headline))
    page.show_notices(read.current.results)
    measured = settings.map(lambda setting: runs.shipped_loss(setting.schemes))
    if measured.current:
        lengths = run_results.lengths(measured.current)
        st.caption(f"Badges: change of the loss (nats per byte) in small models {lengths}.")
    curves = {curve.specification.scheme.kind: curve for curve in measured.current}
    cards = st.grid(4, gap="xsmall", key="cards")
    for kind, where in read.current.places.items():
        with cards.container(border=True, height="stretch", gap=None):
            _card(settings.current.config(kind), where, curves.get(kind))
    left, right = st.columns(2, gap="medium")
    with left:
        _similarity(settings, read)
    with right:
        _loss(settings, measured)
    row = st.container(border=True, horizontal=True, horizontal_alignment="distribute")
    page.link(row, "lessons")
    page.link(row, "lessons", "Present in class", present="true")
    for folder in ("at_a_glance", "extrapolation", "extend_context", "check_my_encoding"):
        page.link(row, folder)

    page.how_to_read(
        "Each line of the left picture shows how position similarity changes when query and key "
        "move apart. Content is fixed; only position varies. Compare shapes, not heights. A line "
        "that falls and stays low favours near tokens. Where a line rises again, some far "
        "positions look like near ones. RoPE acts on the width of one head, sinusoidal on the "
        "whole model: at equal width their lines coincide. The right picture shows small trained "
        "models."
    )
    page.define_similarity(similarity.similarity_by_offset)
    page.numbers(
        read.map(lambda result: result.curves), "start curves", {"x": "distance", "y": "mean"}
    )


def _headline(setting: Setting) -> str:
    names = page.names(setting.schemes)
    return f"Compare {names}: what they do, and what happens past the training length."


def _card(config: SchemeConfig, place: str, curve: Curve | None) -> None:
    """Draw where a scheme acts, its formula, and how it does past the training length."""
    top = st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    )
    top.markdown(f"**{config.label}**")
    if curve is not None:
        past = run_results.past_training(curve)
        top.badge(past.text, color=BADGES[past.effect])
    st.image(
        diagram.attention_block(place, theme.COLOURS[config.kind]),
        width=DIAGRAM,
        alt=f"An attention block: {config.label} acts on {place or 'nothing'}.",
    )
    st.latex(compact_formula(config))
    st.caption(config.summary)


def _similarity(settings: AB[Setting], read: AB[data.Start]) -> None:
    """Draw similarity by distance, with the controls that move it under it."""
    notes = {kind: result.kernel.provenance for kind, result in read.current.results.items()}
    title = "Position similarity by distance"
    st.subheader(
        title,
        anchor=False,
        help="\n\n".join(
            filter(None, (page.panel_notes(settings.current, notes), page.last_row(settings)))
        ),
    )
    page.curves(
        read.map(lambda result: frames.drawn(result.curves)),
        lines.by_offset,
        page.kinds(settings),
        "query-key distance (tokens)",
        "position similarity",
        band=False,
        height=HEIGHT,
        key="start",
        title=title,
    )
    rules = fields.rules(Setting)
    row = st.container(horizontal=True, vertical_alignment="center")
    for name in ("base", "dim"):
        control(row.container(width=DIAL), name, rules[name])
    control(row, "equal_width", rules["equal_width"])


def _loss(settings: AB[Setting], measured: AB[list[Curve]]) -> None:
    """Draw the loss of the shipped models by context length."""
    if not measured.current:
        return
    specification = measured.current[0].specification
    title = f"Measured loss, trained on {specification.train_length:,} tokens"
    st.subheader(
        title,
        anchor=False,
        help=f"Small models of width {specification.model.width:,}, {specification.steps:,} steps, mean of "
        f"{measured.current[0].seeds} seeds. The dashed line is their training length.",
    )
    kinds = page.kinds(settings)
    drawn = _loss_frame(kinds)
    spec = loss.by_length(drawn, kinds, "context", bands=False, height=HEIGHT)
    page.picture(drawn, spec, key="loss", title=title)
    st.caption(run_results.rules(), help=run_results.rules_in_percent())


@st.cache_resource(max_entries=64, ttl=runs.RETRY_SECONDS, show_spinner=False)
def _loss_frame(kinds: tuple[str, ...]) -> pd.DataFrame:
    return loss.frame(runs.shipped_loss(kinds))
