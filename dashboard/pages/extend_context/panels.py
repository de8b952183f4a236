"""The parts of Extend a model's context: advice, what to paste, KV cache, pictures, warnings."""

import json
from collections import Counter

import pandas as pd
import streamlit as st

from dashboard.ab import AB
from dashboard.frame import page
from dashboard.pages.extend_context import charts
from dashboard.pages.extend_context.data import PlannerRead
from dashboard.text import plain
from posenc.models.model_config import full_cache_note
from posenc.planner import (
    RANKING,
    layer_notes,
    left_out_sentences,
    length_rows,
    loss_by_position_script,
    order_sentences,
    paste,
    study_tables,
    warnings_of,
)
from posenc.planner.advice import at_inference
from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.methods import CONFIGURED, UNSCALED
from posenc.planner.paste import SERVER_SOURCES
from posenc.planner.recommendation import bound_sentence
from posenc.planner.report import COLUMNS, COVERAGE, TRADE_OFFS
from posenc.text import count_of, joined


def advice(read: PlannerRead) -> None:
    """Draw a recommendation for each amount of training."""
    if read.assumed:
        st.caption(plain(read.assumed))
    if not read.advice:
        return
    for place, choice in zip(st.columns(len(read.advice)), read.advice, strict=True):
        with place.container(border=True, height="stretch"):
            st.caption(choice.title)
            st.markdown(f"**{plain(choice.method or 'None reported')}**")
            if choice.equal:
                others = plain(joined(choice.equal, "and"))
                st.markdown(f"Of the same rank: {others}. No source puts them in order.")
            if choice.short:
                st.markdown(f"Logit change on short context: {choice.short}.")
            st.caption(plain(choice.sentence))
            if choice.source:
                st.caption(f"Source: {plain(choice.source)}")


def paste_and_cache(both: AB[PlannerRead]) -> None:
    """Draw what to paste beside the KV cache and the layers."""
    plan = both.current.plan
    scaled = [
        method for method in plan.methods if plan.longer and method.method.name != UNSCALED.name
    ]
    places = st.columns([2, 1]) if scaled else [st.container()]
    if scaled:
        with places[0]:
            _paste(plan, scaled)
    with places[-1]:
        st.subheader("KV cache per sequence, GiB", anchor=False)
        page.table(both.map(_cache))
        if note := full_cache_note(plan.model, plan.target):
            st.caption(plain(note))
        lengths(both.current)
        layers(both.current)


def _cache(read: PlannerRead) -> pd.DataFrame:
    """Return the cache by number type, in all and of each kind of layer where there are several."""
    plan, numbers = read.plan, Counter[str]()
    for kind in plan.model.layer_kinds:
        numbers[kind.name.replace("_", " ")] += kind.cache_numbers(plan.target)
    cache = pd.DataFrame({"number type": [*plan.cache], "all layers": [*plan.cache.values()]})
    if len(numbers) > 1:
        for name, count in numbers.items():
            cache[name] = cache["all layers"] * (count / max(numbers.total(), 1))
    return cache


def _paste(plan: ContextPlan, methods: list[MethodPlan]) -> None:
    """Draw what to paste, a tab for each method, sent when it is opened."""
    where = next((where for method in methods if (where := paste(plan, method).where)), "")
    st.subheader(
        "What to paste",
        anchor=False,
        help=f"Keys of config.json: {plain(where)}\n\nReplace MODEL. {SERVER_SOURCES}",
    )
    tabs = st.tabs([method.method.label for method in methods], key="plan_paste", on_change="rerun")
    for tab, method in zip(tabs, methods, strict=True):
        if tab.open:
            with tab:
                _paste_of(plan, method)


def _paste_of(plan: ContextPlan, method: MethodPlan) -> None:
    written = paste(plan, method)
    st.caption(plain(f"{method.config.words or method.method.label}: {method.readiness_text}."))
    texts = {
        "config.json, transformers 5": json.dumps(written.rope_parameters, indent=2),
        "config.json, transformers 4": json.dumps(written.rope_scaling, indent=2),
        "vLLM": written.vllm,
        "SGLang": written.sglang,
        "llama.cpp": written.llama_cpp,
    }
    blocks = {title: text for title, text in texts.items() if text not in ("", "{}")}
    for place, text in zip(st.tabs([*blocks]) if blocks else (), blocks.values(), strict=True):
        # Without colours: those of the highlighting have too little contrast.
        place.code(text, language=None, wrap_lines=True)
    for reason in written.why:
        st.caption(plain(reason))
    st.download_button(
        "Download loss_by_position.py",
        lambda: loss_by_position_script(plan, method).encode(),  # sent only once somebody asks
        file_name="loss_by_position.py",
        mime="text/x-python",
        key="loss_script",
        on_click="ignore",
        icon=":material/download:",
        help="Measures loss by position on your own checkpoint, as it is"
        + (" and as planned." if method.method.name != CONFIGURED else "."),
    )


PICTURES = (TRADE_OFFS, COVERAGE, *charts.PICTURES)


def pictures(both: AB[PlannerRead]) -> bool:
    """Draw the compared methods, a tab for each picture, sent when it is opened.

    Returns whether a visitor asked for what was left for later.
    """
    if not any(len(read.methods) for read in both.each):
        return False
    tabs = st.tabs(PICTURES, key="plan_pictures", on_change="rerun")
    title, tab = next(pair for pair in zip(PICTURES, tabs, strict=True) if pair[1].open)
    with tab:
        if title in (TRADE_OFFS, COVERAGE):
            titles = [column.title for column in COLUMNS if column.part in ("", title)]
            methods = both.map(lambda read: read.methods)
            page.table(methods.map(lambda frame: frame[titles] if len(frame) else frame))
            st.caption(RANKING)
            return False
        picture = charts.PICTURES[title]
        frames = both.map(picture.frame)
        labels = (label for frame in frames.each if len(frame) for label in frame[picture.names])
        page.chart(
            frames, charts.lines, title, tuple(dict.fromkeys(labels)), key=picture.key, title=title
        )
        if title != charts.BOUND:
            st.caption(picture.caption)
            return False
        st.caption(f"{picture.caption} {plain(bound_sentence(both.current.plan))}")
        if not both.current.partial:
            return False
        st.caption(both.current.partial)
        return st.button(
            "Search the base and scan every distance",
            key="plan_search",
            icon=":material/search:",
            help="Takes seconds to about a minute, the longer the target is.",
        )


def beside_scalings(read: PlannerRead) -> None:
    """List the methods at inference that are no scalings, and what offers them."""
    methods = at_inference(read.plan)
    if not methods:
        return
    with st.expander("Other methods at inference", icon=":material/bolt:"):
        for method in methods:
            st.markdown(
                f"**{method.label}**: {plain(method.statement)} *{plain(method.source)}*  \n"
                f"Available in {plain(method.support)}."
            )


def order(read: PlannerRead) -> None:
    """Say what puts the methods in order, and where measures disagree."""
    sentences = order_sentences(read.plan, numbers=False)
    if not sentences:
        return
    with st.expander("What puts the methods in order", icon=":material/swap_vert:"):
        st.markdown("\n".join(f"- {plain(sentence)}" for sentence in sentences))
        for table in study_tables(read.plan):
            st.caption(plain(table.sentence))
            lines = [[*table.rows[0]], ["---", *["---:"] * (len(table.rows[0]) - 1)]]
            lines += [[*row.values()] for row in table.rows]
            st.markdown("\n".join(f"| {' | '.join(line)} |" for line in lines))


def sources(read: PlannerRead) -> None:
    """Say what is known of each method, and where it comes from."""
    if not read.plan.methods:
        return
    with st.expander("Published and measured results", icon=":material/menu_book:"):
        for method in read.plan.methods:
            for sentence, source in method.statements:
                st.markdown(
                    f"**{plain(method.method.label)}**: {plain(sentence)} *{plain(source)}*"
                )


def warnings(read: PlannerRead) -> None:
    """List the warnings that the page does not state elsewhere, and the methods that are left out."""
    listed = [each for each in warnings_of(read.plan) if each.sentence not in read.headline]
    if not (listed or read.plan.left_out):
        return
    with st.expander(count_of(len(listed), "warning"), icon=":material/warning:"):
        for warning in listed:
            st.markdown(
                f"{plain(warning.sentence)}  \n*{plain(warning.rule)} Source: {plain(warning.source)}.*"
            )
        for reason in left_out_sentences(read.plan):
            st.caption(plain(reason))


def lengths(read: PlannerRead) -> None:
    """List what the model was trained to, what is claimed of it and what benchmarks measured."""
    st.subheader(
        "Lengths of this model",
        anchor=False,
        help="RULER (Hsieh et al. 2024, arXiv 2404.06654) and NoLiMa (Modarressi et al. 2025, arXiv "
        "2502.05167) say to which length quality holds. Blank: none of them measured this model.",
    )
    for row in length_rows(read.plan):
        value = f"{row['tokens']} tokens. *{plain(row['source'])}*" if row["tokens"] else ""
        st.markdown(f"**{plain(row['length'])}**: {value}")


def layers(read: PlannerRead) -> None:
    """List what the target means for each kind of layer."""
    st.subheader("Layers", anchor=False)
    for note in layer_notes(read.plan.model, read.plan.target, read.plan.trained_length):
        sentence = "see above." if note.sentence in read.headline else note.sentence
        st.markdown(f"**{plain(note.layers)}**: {plain(sentence)} Source: {plain(note.source)}.")
