"""Encoding: the numbers that each scheme puts in, as matrix, waves, hands, wavelengths and formula."""

import streamlit as st

from dashboard.controls import sidebar
from dashboard.frame import page
from dashboard.pages.encoding import data, frames, panels, script, sentences
from dashboard.pages.encoding import pairs as encoding_pairs
from dashboard.pages.encoding.options import EncodingChoice
from posenc.analysis import embedding_sum, spectrum
from posenc.encoding import encoding as encoding_of


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header, matrices = st.container(), st.container()
    st.subheader("Pairs as waves", anchor=False)
    # Pills beside something else are cut where there is little room.
    ladder, pairs, waves = st.container(), st.container(horizontal=True), st.container()
    clocks, turning = st.container(), st.container()
    st.subheader("Worked by hand", anchor=False)
    letters, example = st.container(horizontal=True), st.container()
    st.subheader("Added to token embeddings", anchor=False)
    tokens, sums = st.container(horizontal=True), st.container()
    places = {"places": ladder, "pair": pairs} | dict.fromkeys(("start", "scaled"), tokens)
    places |= dict.fromkeys(("notation", "substituted"), letters)
    chosen = sidebar.choices(EncodingChoice, places)
    found = settings.map(lambda setting: data.read(setting, chosen))
    setting, now = settings.now, found.now

    with header:
        page.left_out(now.reasons, now.provenances, "Encoding", page.reasons(found))
        page.head("Encoding", found.map(sentences.headline))
    with matrices:
        panels.matrices(found)
    with waves:
        encoding_pairs.waves(found)
        panels.said(sentences.without_pairs(now))
    with clocks:
        encoding_pairs.clocks(found)
    with turning:
        encoding_pairs.spectrum(found)
        panels.said(sentences.turning(setting, now))
    with example:
        panels.example(now, setting.base)
    with sums:
        panels.sums(found, chosen.start, scaled=chosen.scaled)
        panels.said(sentences.nothing_added(now))

    page.how_to_read(
        "Rows of a matrix are positions, columns the features that the scheme works on: rows of learned "
        "and sinusoidal are added to the tokens, RoPE's table holds the cosine and sine by which pairs of "
        "queries and keys are turned, ALiBi's bias is added to logits (query by key; a causal model reads "
        "the lower half). Matrices of one unit share their colours. Every pair is a wave, and a hand: its "
        "angle is position times frequency, from the top and clockwise. The thick arc is what training "
        "shows of it."
    )
    lines = "\n\\\\[6pt] ".join(now.formulas.values())
    page.definition(
        rf"\begin{{gathered}} {lines} \end{{gathered}}",
        "One line per scheme. In the sum, squared norms add, because content has mean 0 and knows nothing "
        "of position: of entries of deviation s a token has norm $s \\sqrt d$, multiplied $s\\,d$.",
        encoding_of,
        spectrum,
        embedding_sum.content_and_position,
    )
    page.numbers(found.map(lambda one: one.corner), "first entries")
    page.numbers(found.map(frames.numbers_of_pairs), "pairs")
    page.numbers(found.map(frames.numbers_of_waves), "waves")
    page.numbers(found.map(lambda one: one.example), "worked example")
    page.numbers(found.map(lambda one: one.sum_table), "position beside content")
    page.script(script.script(setting, chosen))
