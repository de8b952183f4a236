"""Encoding: the numbers of each scheme, as formulas, clocks, waves and matrices."""

import numpy as np
import pandas as pd
import streamlit as st

from dashboard.ab import AB
from dashboard.charts import frames, theme
from dashboard.components.clock import Face, clock_row
from dashboard.compute.result_cache import memoize_on
from dashboard.controls import sidebar
from dashboard.frame import page
from dashboard.pages.encoding import charts, data, matrices, script, sentences
from dashboard.pages.encoding.data import EncodingPage, Example
from dashboard.pages.encoding.options import EncodingChoice
from dashboard.text import number
from posenc.analysis import embedding_sum, spectrum
from posenc.encoding import encoding
from posenc.schemes import SCHEMES

LANE = 2.9  # from one wave to the next below it, where a wave goes from -1 to 1
TABS = ("Matrix", "Wavelengths", "Added to token embeddings", "Worked by hand")


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header, clocks = st.container(), st.container()
    places, pair, right = st.columns([5, 1.5, 1.4], vertical_alignment="bottom")
    formulas = right.popover("Formulas", icon=":material/function:")
    waves = st.container()
    matrix, wavelengths, sums, worked = st.tabs(TABS, key="encoding_tab", on_change="rerun")
    tokens = sums.container(horizontal=True)
    controls = {"places": places, "pair": pair} | dict.fromkeys(("start", "scaled"), tokens)
    controls |= dict.fromkeys(("notation", "substituted"), formulas)
    chosen = sidebar.choices(EncodingChoice, controls)
    both = settings.map(lambda setting: data.read(setting, chosen))
    now = both.now

    with header:
        page.show_excluded(both, now.schemes, "Encoding")
        page.head("Encoding", both.map(sentences.headline))
        _cards(now)
    with clocks:
        _clocks(both)
    with waves:
        _waves(both)
    if matrix.open:
        with matrix:
            matrices.draw(both)
    if wavelengths.open:
        with wavelengths:
            _wavelengths(both)
    if sums.open:
        read_sums = settings.map(lambda setting: data.read_sums(setting, chosen))
        with sums:
            matrices.draw_sums(read_sums, chosen.start, scaled=chosen.scaled)
        page.numbers(read_sums.map(lambda one: one.table), "position beside content")
    if worked.open:
        examples = settings.map(lambda setting: data.read_example(setting, chosen))
        with worked:
            _worked_example(examples.now)
        page.numbers(examples.map(lambda one: one.table), "worked example")

    page.how_to_read(
        "A pair is a wave and a clock hand: its angle is position times frequency, clockwise from "
        "the top. The thick arc shows the angles that occur in training. Rows of a matrix are "
        "positions, columns are features. Rows of learned and sinusoidal are added to the tokens. "
        "RoPE's table holds the cosines and sines that rotate queries and keys. ALiBi's bias is "
        "added to logits, query by key; the half that a causal model uses is drawn. Matrices with "
        "one unit share their colours."
    )
    lines = "\n\\\\[6pt] ".join(one.formula for one in now.schemes.values())
    page.definition(
        rf"\begin{{gathered}} {lines} \end{{gathered}}",
        "One line per scheme. In the sum, squared norms add, because content has mean 0 and is "
        "independent of position. A token whose entries have standard deviation s has the norm $s "
        "\\sqrt d$, and $s\\,d$ after multiplication by $\\sqrt d$.",
        encoding,
        spectrum,
        embedding_sum.content_and_position,
    )
    page.numbers(both.map(lambda one: _joined(one, "corner")), "first entries")
    page.numbers(both.map(_pair_numbers), "pairs")
    page.numbers(both.map(lambda one: _joined(one, "waves")), "waves")
    page.numbers(both.map(lambda one: _joined(one, "slopes")), "slopes")
    page.script(script.script(settings.now))


@memoize_on
def _pair_numbers(read: EncodingPage) -> pd.DataFrame:
    return _joined(read, "frequencies").drop(columns=["place", "trained"], errors="ignore")


@memoize_on
def _joined(read: EncodingPage, name: str) -> pd.DataFrame:
    """Return a table of every scheme under each other."""
    tables = [table for one in read.schemes.values() if len(table := getattr(one, name))]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _cards(read: EncodingPage) -> None:
    """Draw the formula of every scheme, as many beside each other as fit."""
    row = st.container(horizontal=True, horizontal_alignment="distribute", gap="small")
    for kind, one in read.schemes.items():
        with row.container(width="content", gap=None):
            st.markdown(f"**{SCHEMES[kind].label}**", help=SCHEMES[kind].summary)
            st.latex(one.formula, width="content")


def _clocks(both: AB[EncodingPage]) -> None:
    """Draw the chosen pairs as hands that turn, of A under those of B."""
    for read, key in zip(both.each, ("clocks", "clocks_pinned"), strict=False):
        if not read.pairs:
            continue
        if key == "clocks_pinned":
            st.caption("Pinned setting, A.")
        setting = read.setting
        faces = [
            Face(
                title=SCHEMES[kind].label,
                subtitle=page.panel_note(setting, kind, rounded=False),
                color=theme.COLOURS[kind],
                pairs=pairs,
                inv_freq=read.frequencies[kind]["inv_freq"].to_numpy()[[*pairs]],
                wavelengths=read.frequencies[kind]["wavelength"].to_numpy()[[*pairs]],
                turns=read.frequencies[kind]["turns"].to_numpy()[[*pairs]],
            )
            for kind, pairs in read.pairs.items()
        ]
        clock_row(
            faces,
            key=key,
            last=max(setting.length - 1, setting.train_length),
            trained=setting.train_length,
            text_alternative=sentences.clocks(read),
        )


def _waves(both: AB[EncodingPage]) -> None:
    """Draw the chosen pairs of every scheme that has any as waves, and the slopes of ALiBi beside them."""
    read, setting = both.now, both.now.setting
    kinds = page.kinds(both.map(lambda one: one.pairs))
    slopes = both.map(lambda one: _joined(one, "slopes"))
    has_slopes = any(len(one) for one in slopes.each)
    columns = st.columns(max(2, len(kinds) + has_slopes))
    for column, kind in zip(columns, kinds, strict=False):
        with column:
            st.markdown(f"**{SCHEMES[kind].label}: sine solid, cosine dotted**")
            # Where both have it, B's names stand for both.
            names = "nameless" if kind in read.pairs else "named"
            pinned = None if both.pinned is None else _waves_of(both.pinned, kind, names)
            page.chart(
                AB(_waves_of(read, kind, "named"), pinned),
                charts.waves,
                kind,
                key=f"waves_{kind}",
            )
    if has_slopes:
        with columns[len(kinds)]:
            st.markdown("**ALiBi: slope of each head**")
            page.chart(slopes, charts.slopes, key="slopes")
    if kinds and setting.length > (most := data.MOST_WAVE_POSITIONS):
        st.caption(f"Waves are drawn over the first {most:,} of {setting.length:,} positions.")


@memoize_on
def _waves_of(read: EncodingPage, kind: str, names: str) -> pd.DataFrame:
    """Return the waves of one scheme as they are drawn, none where it is not shown.

    names: "named" or "nameless", where another setting's names stand for them.
    """
    if kind not in read.pairs:
        return pd.DataFrame()
    own = read.schemes[kind].waves
    pairs, wavelengths = read.pairs[kind], read.frequencies[kind]["wavelength"]
    # Of each pair its sines, then its cosines.
    values = own["y"].to_numpy().reshape(len(pairs), 2, -1)
    count = values.shape[-1]
    lane = np.repeat(-LANE * np.arange(len(pairs)), count)  # every pair under the one before it
    texts = [f"pair {pair}: {number(wavelengths[pair])} positions per turn" for pair in pairs]
    levels = {
        "sin": lane + values[:, 0].ravel(),
        "cos": lane + values[:, 1].ravel(),
        "lane": lane,
        "ceiling": lane + 1.05,
        "boundary": np.full(len(lane), own["boundary"].iloc[0]),
    }
    return pd.DataFrame(
        {
            "scheme": frames.word(SCHEMES[kind].label, len(lane)),
            "pair": np.repeat(np.array(pairs, np.int32), count),
            "x": np.tile(np.arange(count, dtype=np.int32), len(pairs)),
            "name": pd.Categorical.from_codes(np.arange(len(lane)) // count, pd.Index(texts))
            if names == "named"
            else frames.word("", len(lane)),
        }
        | {name: column.astype(np.float32) for name, column in levels.items()}
    )


def _wavelengths(both: AB[EncodingPage]) -> None:
    """Draw the wavelength of every pair."""
    kinds = page.kinds(both.map(lambda one: one.frequencies))
    if not kinds:
        st.caption("None of these schemes has pairs.")
        return
    if both.now.frequencies:
        st.caption(sentences.turns(both.now))
    page.curves(
        both.map(_wavelength_lines),
        charts.wavelengths,
        kinds,
        key="wavelengths",
        fields=("place", "wavelength"),
        log=True,
    )


@memoize_on
def _wavelength_lines(read: EncodingPage) -> pd.DataFrame:
    return frames.drawn(_joined(read, "frequencies"), "place")


def _worked_example(example: Example) -> None:
    """Draw the formula beside its numbers at 4 positions and 8 dimensions."""
    left, right = st.columns(2)
    with left:
        st.latex(example.formula)
        st.latex(sentences.example_step(example))
    with right:
        st.caption(sentences.example(example))
        numbers = {
            name: st.column_config.NumberColumn(format="%.4f")
            for name in example.table.columns
            if name != "position"
        }
        page.small_table(example.table, numbers)
