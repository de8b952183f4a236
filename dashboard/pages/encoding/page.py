"""Encoding: the numbers of each scheme, as formulas, clocks, waves and matrices."""

import pandas as pd
import streamlit as st

from dashboard.ab import AB
from dashboard.cache import memoize_on
from dashboard.charts import frames, theme
from dashboard.components.clock import Face
from dashboard.components.clock.component import clock_row
from dashboard.controls import pin, sidebar
from dashboard.controls.page_controls import SHOWN, UsedControls
from dashboard.frame import page
from dashboard.pages.encoding import charts, data, matrices, sentences, worked_example
from dashboard.pages.encoding.data import EncodingPage
from dashboard.pages.encoding.options import EncodingChoice
from dashboard.settings import Setting
from dashboard.text import plain
from posenc.analysis import embedding_sum, spectrum
from posenc.scheme_numbers import encoding
from posenc.schemes import SCHEMES

TABS = ("Matrix", "Wavelengths", "Added to token embeddings", "Worked by hand")


used_controls = UsedControls((*SHOWN, "base", "seed"))


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header, clocks = st.container(), st.container()
    places, pair, right = st.columns([5, 1.5, 1.4], vertical_alignment="bottom")
    formulas = right.popover("Formulas", icon=":material/function:")
    matrix, wavelengths, sums, worked = st.tabs(TABS, key="encoding_tab", on_change="rerun")
    tokens = sums.container(horizontal=True)
    controls = {"places": places, "pair": pair} | dict.fromkeys(("start", "scaled"), tokens)
    controls |= dict.fromkeys(("notation", "substituted"), formulas)
    chosen = sidebar.choices(EncodingChoice, controls)
    both = settings.map(lambda setting: data.read(setting, chosen))
    current = both.current

    with header:
        page.show_excluded(both, current.schemes, "Encoding")
        page.head("Encoding", both.map(sentences.headline))
        _cards(current)
    with clocks:
        _clocks(both)
    if matrix.open:
        with matrix:
            matrices.draw(both, both.map(lambda read: _joined(read, "slopes")))
    if wavelengths.open:
        with wavelengths:
            _wavelengths(both)
    if sums.open:
        read_sums = settings.map(lambda setting: data.read_sums(setting, chosen))
        with sums:
            matrices.draw_sums(read_sums, chosen.start, scaled=chosen.scaled)
        page.numbers(read_sums.map(lambda read: read.table), "position beside content")
    if worked.open:
        with worked:
            worked_example.draw(settings.current.base, chosen)
        examples = settings.map(lambda setting: worked_example.table(setting.base))
        page.numbers(examples, "worked example")

    page.how_to_read(
        "A pair is a wave and a clock hand: its angle is position times frequency, clockwise from "
        "the top. The thick arc shows the angles that occur in training. Rows of a matrix are "
        "positions, columns are features. Rows of learned and sinusoidal are added to the tokens. "
        "RoPE's table holds the cosines and sines that rotate queries and keys. ALiBi's bias is "
        "added to logits, query by key; the half that a causal model uses is drawn. Matrices with "
        "one unit share their colours."
    )
    lines = "\n\\\\[6pt] ".join(read.formula for read in current.schemes.values())
    page.definition(
        rf"\begin{{gathered}} {lines} \end{{gathered}}",
        "One line per scheme. In the sum, squared norms add, because content has mean 0 and is "
        "independent of position. A token whose entries have standard deviation s has the norm $s "
        "\\sqrt d$, and $s\\,d$ after multiplication by $\\sqrt d$.",
        encoding,
        spectrum,
        embedding_sum.content_and_position,
    )
    page.numbers(both.map(lambda read: _joined(read, "corner")), "first entries")
    page.numbers(both.map(_pair_numbers), "pairs")
    page.numbers(both.map(lambda read: _joined(read, "waves")), "waves")
    page.numbers(both.map(lambda read: _joined(read, "slopes")), "slopes")
    page.script(data.script(settings.current))


@memoize_on
def _pair_numbers(read: EncodingPage) -> pd.DataFrame:
    return _joined(read, "frequencies").drop(columns=["place", "trained"], errors="ignore")


@memoize_on
def _joined(read: EncodingPage, name: str) -> pd.DataFrame:
    """Return a table of every scheme under each other."""
    tables = [table for scheme in read.schemes.values() if len(table := getattr(scheme, name))]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _cards(read: EncodingPage) -> None:
    """Draw the formula of every scheme, as many beside each other as fit."""
    row = st.container(horizontal=True, horizontal_alignment="distribute", gap="small")
    for kind, scheme in read.schemes.items():
        with row.container(width="content", gap=None):
            st.markdown(f"**{SCHEMES[kind].label}**", help=SCHEMES[kind].summary)
            st.latex(scheme.formula, width="content")


def _clocks(both: AB[EncodingPage]) -> None:
    """Draw the chosen pairs as hands that turn and as waves, those of A beside those of B."""
    settings = both.map(lambda read: read.setting)
    names = pin.names(settings) if both.compared else {"B": "", "A": ""}
    faces = [
        Face(
            title=SCHEMES[kind].label,
            subtitle=_numbers(read.setting, kind, names[letter]),
            color=theme.COLOURS[kind],
            pairs=scheme.pairs,
            inv_freq=scheme.frequencies["inv_freq"].to_numpy()[[*scheme.pairs]],
            trained=read.setting.train_length,
            # Of each pair its sines, then its cosines.
            waves=scheme.waves["y"].to_numpy().reshape(len(scheme.pairs), 2, -1),
        )
        for kind in page.kinds(both.map(lambda read: read.with_pairs))
        for letter, read in zip("BA", both.each, strict=False)
        if (scheme := read.with_pairs.get(kind))
    ]
    if not faces:
        return
    clock_row(
        faces,
        key="clocks",
        first=10,  # where hands of different speeds stand apart
        last=max(max(setting.length - 1, setting.train_length) for setting in settings.each),
        trained=settings.current.train_length,
        text_alternative=" ".join(map(sentences.clocks, both.each)),
        two=both.compared,
    )
    for letter, read in zip("BA", both.each, strict=False):
        if ratios := sentences.ratios(read):
            st.caption(f"{plain(names[letter])}. {ratios}" if names[letter] else ratios)


def _numbers(setting: Setting, kind: str, name: str) -> str:
    """Return the width and the base of a scheme, which a lecturer sees while the controls are closed."""
    text = "; ".join(filter(None, (name, page.panel_note(setting, kind, rounded=False))))
    base = getattr(setting.config(kind), "base", None)
    return text if base is None or "base" in text else f"{text}, base {base:,.10g}"


def _wavelengths(both: AB[EncodingPage]) -> None:
    """Draw the wavelength of every pair."""
    kinds = page.kinds(both.map(lambda read: read.with_pairs))
    if not kinds:
        st.caption("None of these schemes has pairs.")
        return
    if both.current.with_pairs:
        st.caption(sentences.turns(both.current))
    page.curves(
        both.map(_wavelength_lines),
        charts.wavelengths,
        kinds,
        key="wavelengths",
        title="Wavelength of each pair",
        fields=("place", "wavelength"),
        log=True,
    )


@memoize_on
def _wavelength_lines(read: EncodingPage) -> pd.DataFrame:
    return frames.drawn(_joined(read, "frequencies"), "place")
