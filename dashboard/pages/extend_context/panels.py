"""The parts of the Context planner under its headline: six pictures, what to beware of, what to paste."""

import pandas as pd
import streamlit as st

from dashboard.ab import Pair
from dashboard.controls.page_options import PlanChoice
from dashboard.frame import page
from dashboard.pages.extend_context import charts, table
from dashboard.pages.extend_context.data import PlannerRead, planned
from dashboard.server.incidents import answered
from dashboard.text import plain
from posenc.planner.paste import LLAMA_CPP_SOURCE, VLLM_SOURCE
from posenc.planner.report import COLUMNS
from posenc.settings import Setting

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


def tables(found: Pair[PlannerRead]) -> None:
    """Draw the ranked methods as two tables, the method always in sight."""
    columns = {
        table.STROKE: st.column_config.ImageColumn("", width=60, pinned=True),
        table.METHOD: st.column_config.TextColumn(pinned=True),
    }
    columns |= {
        column.title: st.column_config.TextColumn(help=column.help)
        for column in COLUMNS
        if column.help
    }
    for title, frame in table.tables(found).items():
        st.subheader(title, anchor=False)
        st.dataframe(frame, hide_index=True, column_config=columns, height="content")
    st.caption(found.now.ranking)


def pictures(found: Pair[PlannerRead]) -> None:
    """Draw the six panels, two beside each other."""
    labels = table.methods(found)
    pairs = found.map(lambda one: one.pairs)
    left, right = st.columns(2)
    with left:
        st.subheader("Wavelengths at the target", anchor=False)
        st.caption(
            "Positions per full turn of each pair. Dashed level: the trained length; waves above it "
            "never closed in training."
        )
        page.chart(pairs, charts.wavelengths, labels, key="plan_wavelengths")
    with right:
        st.subheader("What happens to each pair", anchor=False)
        st.caption("1 is a frequency kept as trained; the lowest level is divided by the factor.")
        page.chart(pairs, charts.ramps, labels, key="plan_ramps")
    left, right = st.columns(2)
    with left:
        st.subheader("Turns completed in training", anchor=False)
        st.caption("Pairs under the dashed line saw only a part of their circle.")
        page.chart(pairs.map(_of_one), charts.turns, key="plan_turns")
    with right:
        st.subheader("Expected logit to the target", anchor=False)
        st.caption("Of equal unit content by distance; the dashed line is the trained length.")
        page.chart(found.map(lambda one: one.kernel), charts.kernels, labels, key="plan_kernels")
    left, right = st.columns(2)
    with left:
        st.subheader("B(k) and the base it demands", anchor=False)
        st.caption(
            "The lowest value of every step; below 0, an unlike token outweighs a like one. "
            f"{plain(found.now.base_bound)}"
        )
        bounds = found.map(lambda one: one.bound)
        ladders = tuple(
            dict.fromkeys(name for one in bounds.each if len(one) for name in one["ladder"])
        )
        page.chart(bounds, charts.bounds, ladders, key="plan_bounds")
    with right:
        st.subheader("Positions as bfloat16", anchor=False)
        st.caption(f"Dashed: a number for every position. {plain(found.now.apart)}")
        page.picture(found.now.resolution, charts.resolution(), key="plan_resolution")


def _of_one(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one method: how often a pair turned in training is the same in all."""
    return pairs[pairs["method"] == pairs["method"].iloc[0]] if len(pairs) else pairs


def sources(found: PlannerRead) -> None:
    """Say where each statement about training comes from."""
    if not found.evidence:
        return
    with st.expander("What is published and measured of each method", icon=":material/menu_book:"):
        st.markdown(
            "\n".join(f"- **{plain(label)}**: {plain(said)} *{plain(source)}*"
                      for label, said, source in found.evidence)
        )  # fmt: skip


def beware(both: Pair[PlannerRead]) -> None:
    """List what to beware of, each with its rule and source, and the layers; memory of A, too."""
    found = both.now
    left, right = st.columns(2)
    with left:
        st.subheader("Warnings", anchor=False)
        for caution in found.cautions:
            said = caution.sentence
            if said in found.headline or said in found.assumed:
                said = "As said above."
            st.markdown(
                f"{plain(said)}  \n*{plain(caution.rule)} Source: {plain(caution.source)}.*"
            )
        if not found.cautions:
            st.caption("Nothing was found.")
        for reason in found.left_out:
            st.caption(plain(reason))
    with right:
        st.subheader("Keys and values of one sequence", anchor=False)
        page.table(both.map(lambda one: one.cache))
        if found.windows:
            st.caption(plain(found.windows))
        st.subheader("Layers", anchor=False)
        bewared = {caution.sentence for caution in found.cautions}
        for note in found.layers:
            said = note.sentence
            if said in found.headline:
                said = "as said above."
            elif said in bewared:
                said = "as listed under Warnings."
            st.markdown(f"**{plain(note.layers)}**: {plain(said)} Source: {plain(note.source)}.")


def paste(found: PlannerRead) -> None:
    """Draw what to paste, a tab for each method."""
    if not found.pasted:
        return
    st.subheader("Ready to paste", anchor=False)
    if where := next((one.where for one in found.pasted.values() if one.where), ""):
        st.caption(f"Keys of config.json: {plain(where)}")
    for tab, (label, pasted) in zip(st.tabs([*found.pasted]), found.pasted.items(), strict=True):
        with tab:
            for title, text in pasted.texts.items():
                st.caption(title)
                st.code(text, language="json" if text.startswith("{") else "bash", wrap_lines=True)
            for reason in pasted.why:
                st.caption(plain(reason))
            if pasted.script:
                st.caption(
                    "A script that measures loss by position on your own checkpoint, as it is and "
                    "as planned."
                )
                st.download_button(
                    "Download loss_by_position.py",
                    pasted.script.encode,  # sent only once somebody asks
                    file_name="loss_by_position.py",
                    mime="text/x-python",
                    key=f"loss_script_{label}",
                    on_click="ignore",
                    icon=":material/download:",
                )
    st.caption(f"vLLM: {VLLM_SOURCE}. llama.cpp: {LLAMA_CPP_SOURCE}. MODEL stands for your own.")
