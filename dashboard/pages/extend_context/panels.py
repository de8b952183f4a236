"""The parts of Extend a model's context: verdict, what to paste, KV cache, pictures, warnings."""

from collections.abc import Callable

import pandas as pd
import streamlit as st

from dashboard.ab import Pair
from dashboard.frame import page
from dashboard.pages.extend_context import charts, table
from dashboard.pages.extend_context.data import PlannerRead, planned
from dashboard.pages.extend_context.options import PlanChoice
from dashboard.server.incidents import answered
from dashboard.text import plain
from posenc.planner.paste import LLAMA_CPP_SOURCE, VLLM_SOURCE
from posenc.planner.report import COLUMNS
from posenc.settings import Setting
from posenc.text import count_of

_ASKED = "plan_searched"  # the model and the target whose long search was asked for


def asked(setting: Setting, chosen: PlanChoice) -> bool:
    """Whether this visitor asked for the long search of this plan; never part of a link."""
    return bool(st.session_state.get(_ASKED) == (planned(setting), chosen.context))


def offer(setting: Setting, chosen: PlanChoice, found: PlannerRead) -> None:
    """Say what was left for later, and draw the button that computes it."""
    if not found.partial:
        return
    st.caption(found.partial)
    st.button(
        "Search the base and scan every distance",
        key="plan_search",
        on_click=_ask,
        args=(planned(setting), chosen.context),
        icon=":material/search:",
        help="Takes seconds to about a minute, the longer the target is.",
    )


@answered
def _ask(word: str, context: int) -> None:
    st.session_state[_ASKED] = (word, context)


def verdict(both: Pair[PlannerRead]) -> None:
    """Draw the summary and a recommendation for each amount of training."""
    found = both.now
    if found.assumed:
        st.caption(plain(found.assumed))
    if not found.advice:
        return
    for place, advice in zip(st.columns(len(found.advice)), found.advice, strict=True):
        with place.container(border=True, height="stretch"):
            st.caption(advice.title)
            st.markdown(f"**{plain(advice.method or 'Nothing known')}**")
            if advice.short:
                st.markdown(f"Logit change on short context: {advice.short}")
            st.caption(plain(advice.sentence))
            if advice.source:
                st.caption(f"Source: {plain(advice.source)}")


def paste_and_cache(both: Pair[PlannerRead]) -> None:
    """Draw what to paste beside the KV cache."""
    left, right = st.columns([2, 1]) if both.now.pasted else (None, st.container())
    if left is not None:
        with left:
            _paste(both.now)
    with right:
        st.subheader("KV cache per sequence", anchor=False)
        page.table(both.map(lambda one: one.cache))
        if both.now.windows:
            st.caption(plain(both.now.windows))
        layers(both.now)


def _table(frame: pd.DataFrame) -> None:
    """Draw a table of the ranked methods, the method always in sight."""
    columns = {
        table.STROKE: st.column_config.ImageColumn("", width=60, pinned=True),
        table.METHOD: st.column_config.TextColumn(pinned=True),
    }
    columns |= {
        column.title: st.column_config.TextColumn(help=column.help)
        for column in COLUMNS
        if column.help
    }
    st.dataframe(frame, hide_index=True, column_config=columns, height="content")


def pictures(both: Pair[PlannerRead], offer_search: Callable[[], None]) -> None:
    """Draw the compared methods and six pictures, a tab for each."""
    if not any(len(one.methods) for one in both.each):
        return
    labels = table.methods(both)
    pairs = both.map(lambda one: one.pairs)
    compared = table.tables(both)
    *places, waves, ratios, turns, logits, bound, precision = st.tabs(
        [
            *compared, "Wavelengths", "Change per pair", "Turns in training", "Expected logit",
            "B(k) and base", "bfloat16 positions",
        ]
    )  # fmt: skip
    for place, frame in zip(places, compared.values(), strict=True):
        with place:
            _table(frame)
            st.caption(both.now.ranking)
    with waves:
        st.caption(
            "Positions per full turn of each pair at the target. Dashed: the trained length. Longer waves "
            "never completed a turn in training."
        )
        page.chart(pairs, charts.wavelengths, labels, key="plan_wavelengths")
    with ratios:
        st.caption("1: frequency as trained. The lowest level: divided by the factor.")
        page.chart(pairs, charts.ramps, labels, key="plan_ramps")
    with turns:
        st.caption("Pairs under the dashed line completed less than one turn in training.")
        page.chart(pairs.map(_of_one), charts.turns, key="plan_turns")
    with logits:
        st.caption("Of equal unit content, by distance. Dashed: the trained length.")
        page.chart(both.map(lambda one: one.kernel), charts.kernels, labels, key="plan_kernels")
    with bound:
        st.caption(
            "The lowest value of every step. Below 0, a dissimilar token scores higher than a similar one. "
            f"{plain(both.now.base_bound)}"
        )
        bounds = both.map(lambda one: one.bound)
        ladders = tuple(
            dict.fromkeys(name for one in bounds.each if len(one) for name in one["ladder"])
        )
        page.chart(bounds, charts.bounds, ladders, key="plan_bounds")
        offer_search()
    with precision:
        st.caption(f"Dashed: one number per position. {plain(both.now.apart)}")
        page.picture(both.now.resolution, charts.resolution(), key="plan_resolution")


def _of_one(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one method: how often a pair turned in training is the same in all."""
    return pairs[pairs["method"] == pairs["method"].iloc[0]] if len(pairs) else pairs


def sources(found: PlannerRead) -> None:
    """Say what is known of each method, and where it comes from."""
    if not found.evidence:
        return
    with st.expander("Published and measured results", icon=":material/menu_book:"):
        if found.advice:
            st.markdown(plain(found.summary))
        st.markdown(
            "\n".join(f"- **{plain(label)}**: {plain(sentence)} *{plain(source)}*"
                      for label, sentence, source in found.evidence)
        )  # fmt: skip


def warnings(found: PlannerRead) -> None:
    """List the warnings, each with its rule and source, and the methods that are left out."""
    label = count_of(len(found.cautions), "warning")
    with st.expander(label, icon=":material/warning:"):
        columns = st.columns(2)
        for n, warning in enumerate(found.cautions):
            is_repeated = warning.sentence in found.headline + found.summary + found.assumed
            sentence = "As said above." if is_repeated else warning.sentence
            columns[n >= (len(found.cautions) + 1) // 2].markdown(
                f"{plain(sentence)}  \n*{plain(warning.rule)} Source: {plain(warning.source)}.*"
            )
        for reason in found.left_out:
            st.caption(plain(reason))


def layers(found: PlannerRead) -> None:
    """List what the target means for each kind of layer."""
    st.subheader("Layers", anchor=False)
    warned = {warning.sentence for warning in found.cautions}
    for note in found.layers:
        sentence = note.sentence
        if sentence in found.headline + found.summary:
            sentence = "as said above."
        elif sentence in warned:
            sentence = "as listed under Warnings."
        st.markdown(f"**{plain(note.layers)}**: {plain(sentence)} Source: {plain(note.source)}.")


def _paste(found: PlannerRead) -> None:
    """Draw what to paste, a tab for each method."""
    where = next((one.where for one in found.pasted.values() if one.where), "")
    st.subheader(
        "What to paste",
        anchor=False,
        help=f"Keys of config.json: {plain(where)}\n\nReplace MODEL. vLLM: {VLLM_SOURCE}. llama.cpp: "
        f"{LLAMA_CPP_SOURCE}.",
    )
    for tab, (label, pasted) in zip(st.tabs([*found.pasted]), found.pasted.items(), strict=True):
        with tab:
            blocks = [*pasted.texts.items()]
            for place, (_, text) in zip(
                st.tabs([title for title, _ in blocks]) if blocks else (), blocks, strict=True
            ):
                place.code(
                    text, language=None, wrap_lines=True
                )  # highlighting has too little contrast
            for reason in pasted.why:
                st.caption(plain(reason))
            if pasted.script:
                st.download_button(
                    "Download loss_by_position.py",
                    pasted.script.encode,  # sent only once somebody asks
                    file_name="loss_by_position.py",
                    mime="text/x-python",
                    key=f"loss_script_{label}",
                    on_click="ignore",
                    icon=":material/download:",
                    help="Measures loss by position on your own checkpoint, as it is and as planned.",
                )
