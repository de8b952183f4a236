"""The Encoding page's pictures: matrices in rows of one unit each, waves, clocks and sums."""

import functools

import numpy as np
import pandas as pd
import streamlit as st
import torch

from dashboard import (
    charts,
    encoding_charts,
    encoding_frames,
    encoding_sentences,
    frames,
    page,
    panels,
)
from dashboard.clock import Face, clock_row
from dashboard.compute import Array
from dashboard.encoding import Drawn, EncodingPage
from dashboard.matrix import Full, Panel, Scale, smallest
from dashboard.pair import Pair
from dashboard.sentences import number
from posenc import Setting
from posenc.analysis.embedding_sum import STARTS
from posenc.schemes import SCHEMES

LANE = 2.9  # from one wave to the next below it, where a wave goes from -1 to 1
ONE_ROW = 360  # height of a matrix that stands alone in its row, in CSS pixels
OUTLIERS = 0.999  # of the entries within the colours' ends; the others take the end's colour


def said(sentence: str) -> None:
    """Write a sentence where there is one to say."""
    if sentence:
        st.caption(sentence)


def matrices(both: Pair[EncodingPage]) -> None:
    """Draw every matrix; one colour scale never spans two units, so each unit has a row of its own."""
    found, setting = both.now, both.now.setting
    units: dict[str, dict[str, Drawn]] = {}
    for kind, one in found.drawn.items():
        units.setdefault(one.unit, {})[kind] = one
    alone = [unit for unit, drawn in units.items() if len(drawn) == 1]
    for unit in units:
        if unit not in alone:
            _row(unit, both)
    if alone:
        for unit, place in zip(alone, st.columns(max(2, len(alone))), strict=False):
            with place:
                _row(unit, both)
    for kind in found.absent:
        st.info(
            f"{SCHEMES[kind].label} puts no numbers in, so there is no matrix. {SCHEMES[kind].summary}",
            icon=":material/info:",
        )
    if found.absent:
        page.notes(setting, {kind: found.provenances[kind] for kind in found.absent})


def _row(unit: str, both: Pair[EncodingPage]) -> None:
    drawn = {kind: one for kind, one in both.now.drawn.items() if one.unit == unit}
    bias = not next(iter(drawn.values())).features
    panels.rows_of_both(
        both.map(
            lambda found: [
                _panel(found.setting, kind, one, found.provenances[kind])
                for kind, one in found.drawn.items()
                if one.unit == unit
            ]
        ),
        lambda shown: _scale(unit, [one.values.dense() for one in shown]),
        key=f"encoding_{unit.split()[0]}",
        unit="logits" if bias else "entries",
        row_label="query position" if bias else "position",
        column_label="key position" if bias else "dimension",
        height=ONE_ROW,
        text_alternative=(
            f"{unit.capitalize()} of {page.names(tuple(drawn))}, "
            + ("query by key" if bias else "position by dimension")
            + "; the arrow keys read a cell, and a table below holds the first numbers."
        ),
    )


def _panel(setting: Setting, kind: str, one: Drawn, provenance: str) -> Panel:
    picture, bias = one.picture, not one.features
    order = ""
    if not bias and not one.features[0].isdigit():
        order = ", ".join(one.features[:3]) + (", ..." if len(one.features) > 3 else "")
    cut = encoding_sentences.cut(one.values.shape, bias=bias, asked=setting.length)
    note = page.panel_note(setting, kind, provenance)
    return Panel(
        title=SCHEMES[kind].label,
        values=smallest(torch.from_numpy(picture)) if bias else Full(picture),
        subtitle="; ".join(part for part in (note, cut) if part),
        column_label=f"dimension: {order}" if order else None,
        boundary=setting.train_length if setting.train_length < len(picture) else None,
        color=charts.COLOURS[kind],
        features=not bias,
    )


def _scale(unit: str, pictures: list[Array]) -> Scale:
    """One scale for all matrices of a unit: even about 0, or from the least bias to 0."""
    if unit == "cosine or sine":
        return Scale(-1.0, 1.0, "diverging", unit)
    entries = np.abs(np.concatenate([picture.ravel() for picture in pictures]))
    entries = entries[np.isfinite(entries)]
    if unit == "logit":
        return Scale(-float(entries.max()) or -1.0, 0.0, "sequential", unit)
    most = float(np.quantile(entries, OUTLIERS, method="higher")) if len(entries) else 1.0
    return Scale(-most or -1.0, most or 1.0, "diverging", unit)


def waves(both: Pair[EncodingPage]) -> None:
    """Draw the chosen pairs of every scheme that has any, as waves under each other."""
    found, setting = both.now, both.now.setting
    if not found.pairs:
        return
    st.caption("Solid is sine, dotted cosine; the dashed line is the training length.")
    columns = st.columns(max(2, len(found.pairs)))
    for place, kind in zip(columns, found.pairs, strict=False):
        with place:
            st.markdown(f"**{SCHEMES[kind].label}**")
            page.chart(
                both.map(functools.partial(_waves_of, kind=kind)),
                encoding_charts.waves,
                kind,
                key=f"waves_{kind}",
            )
    shown = int(found.waves["x"].max()) + 1
    if shown < setting.length:
        st.caption(f"Waves are drawn over the first {shown:,} of {setting.length:,} positions.")


def _waves_of(found: EncodingPage, kind: str) -> pd.DataFrame:
    """Return the waves of one scheme as they are drawn, none where it is not shown."""
    if kind not in found.pairs:
        return pd.DataFrame()
    own = found.waves[found.waves["kind"] == kind]
    return frames.drawn(_in_lanes(own, found.pairs[kind], found.ladders[kind].wavelengths))


def _in_lanes(waves: pd.DataFrame, pairs: tuple[int, ...], wavelengths: Array) -> pd.DataFrame:
    """Put every pair under the one before it, and name its lane."""
    lane = waves["pair"].map({pair: -LANE * n for n, pair in enumerate(pairs)})
    names = {pair: f"pair {pair}: {number(wavelengths[pair])} positions a turn" for pair in pairs}
    return waves.drop(columns="kind").assign(
        lane=lane, level=lane + waves["y"], ceiling=lane + 1.05, name=waves["pair"].map(names)
    )


def clocks(both: Pair[EncodingPage]) -> None:
    """Draw the chosen pairs as hands that turn."""
    if not both.now.pairs:
        return
    st.subheader("Pairs as hands of a clock", anchor=False)
    _clocks(both.now, "clocks")
    if both.pinned is not None and both.pinned.pairs:
        st.caption("The pinned setting, A.")
        _clocks(both.pinned, "clocks_pinned")


def _clocks(found: EncodingPage, key: str) -> None:
    setting = found.setting
    faces = [
        Face(
            title=SCHEMES[kind].label,
            subtitle=page.panel_note(setting, kind, rounded=False),
            color=charts.COLOURS[kind],
            pairs=pairs,
            inv_freq=found.ladders[kind].inv_freq[[*pairs]],
            wavelengths=found.ladders[kind].wavelengths[[*pairs]],
            turns=found.ladders[kind].turns[[*pairs]],
        )
        for kind, pairs in found.pairs.items()
    ]
    clock_row(
        faces,
        key=key,
        last=max(setting.length - 1, setting.train_length),
        trained=setting.train_length,
        text_alternative=encoding_sentences.hands(found),
    )


def spectrum(both: Pair[EncodingPage]) -> None:
    """Draw wavelengths and shares of a turn over the ladder."""
    if both.now.spectrum.empty:
        return
    st.subheader("How far each pair turns", anchor=False)
    turning = {*both.now.ladders, *(both.pinned.ladders if both.pinned else ())}
    kinds = tuple(kind for kind in SCHEMES if kind in turning)
    drawn = both.map(lambda found: frames.drawn(found.spectrum, "place"))
    left, right = st.columns(2)
    with left:
        st.caption("Wavelength of every pair; the dashed line is the training length.")
        page.chart(drawn, encoding_charts.wavelengths, kinds, key="wavelengths")
    with right:
        st.caption("Share of a full turn that every pair makes within the training length.")
        page.chart(drawn, encoding_charts.shares, kinds, key="shares")


def example(found: EncodingPage, base: float) -> None:
    """Draw the formula beside its numbers at 4 positions and 8 dimensions."""
    left, right = st.columns(2)
    with left:
        st.latex(found.example_formula)
        st.latex(encoding_sentences.example_step(found, base))
    with right:
        numbers = {
            name: st.column_config.NumberColumn(format="%.4f")
            for name in found.example.columns
            if name != "position"
        }
        st.dataframe(found.example, hide_index=True, column_config=numbers)
        st.caption(encoding_sentences.example(found, base))


def sums(both: Pair[EncodingPage], start: str, *, scaled: bool) -> None:
    """Draw content, position and their sum, and how large one is beside the other."""
    found = both.now
    if not found.sums:
        return
    st.markdown(encoding_sentences.sums(found, scaled=scaled, start=start))
    for kind in found.sums:
        panels.rows_of_both(
            both.map(functools.partial(_sum_panels, kind=kind, start=start, scaled=scaled)),
            lambda shown: _scale("entry of a vector", [one.values.dense() for one in shown]),
            key=f"sum_{kind}",
            unit="entries",
            row_label="position",
            column_label="dimension",
            height=220,
            text_alternative=f"Token vectors, positions of {SCHEMES[kind].label} and their sum.",
        )
    adding = {*found.sums, *(both.pinned.sums if both.pinned else ())}
    page.chart(
        both.map(lambda one: encoding_frames.sum_marks(one.sums)),
        encoding_charts.ratios,
        tuple(kind for kind in SCHEMES if kind in adding),
        key="ratios",
    )
    # Told apart by scheme and start together, which A's rows need.
    page.table(both.map(encoding_frames.named_sums) if both.compared else found.sum_table)
    st.caption(
        "Norms are root mean squares. Ratio: token over position. Share: position's part of the sum's "
        "expected squared norm."
    )


def _sum_panels(found: EncodingPage, kind: str, start: str, *, scaled: bool) -> list[Panel]:
    if kind not in found.sums:
        return []
    one = found.sums[kind]
    content, position, total = (Full(picture) for picture in one.pictures)
    parts = {
        f"Tokens{' times sqrt(d)' if scaled else ''}": (content, f"drawn as {STARTS[start]}"),
        f"Position: {SCHEMES[kind].label}": (position, "its rows"),
        "Sum": (total, "what the first layer is given"),
    }
    rows, columns = one.pictures[0].shape
    return [
        Panel(
            title=title,
            values=picture,
            subtitle=f"{words}, the first {rows} positions and {columns} of {one.width:,}",
            color=charts.COLOURS[kind],
            features=True,
        )
        for title, (picture, words) in parts.items()
    ]
