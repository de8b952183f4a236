"""The parts of Extend a model's context: advice, what to paste, KV cache, pictures, warnings."""

import json

import pandas as pd
import streamlit as st

from dashboard.ab import AB
from dashboard.frame import page
from dashboard.pages.extend_context import charts
from dashboard.pages.extend_context.data import PlannerRead
from dashboard.text import plain
from posenc.models.model_config import full_cache_note
from posenc.planner import RANKING, layer_notes, loss_by_position_script, paste, warnings_of
from posenc.planner.advice import at_inference
from posenc.planner.methods import UNSCALED
from posenc.planner.paste import SERVER_SOURCES
from posenc.planner.plan import ContextPlan, MethodPlan
from posenc.planner.report import COLUMNS, COVERAGE, TRADE_OFFS
from posenc.planner.warnings import bound_sentence
from posenc.text import count_of


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
    left, right = st.columns([2, 1]) if scaled else (None, st.container())
    if left is not None:
        with left:
            _paste(plan, scaled)
    with right:
        st.subheader("KV cache per sequence, GiB", anchor=False)
        page.table(both.map(_cache))
        if note := full_cache_note(plan.model, plan.target):
            st.caption(plain(note))
        layers(both.current)


def _cache(read: PlannerRead) -> pd.DataFrame:
    """Return the cache by number type, in all and of each kind of layer where there are several."""
    cache, kinds = pd.Series(read.plan.cache), read.plan.model.layer_kinds
    numbers = pd.Series([kind.cache_numbers(read.plan.target) for kind in kinds])
    shares = numbers.groupby([kind.name for kind in kinds], sort=False).sum() / max(
        numbers.sum(), 1
    )
    parts = {
        str(name).replace("_", " "): cache.to_numpy() * share for name, share in shares.items()
    }
    whole = {"number type": cache.index, "all layers": cache.to_numpy()}
    return pd.DataFrame(whole | (parts if len(parts) > 1 else {}))


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
        "config.json, transformers 5": written.rope_parameters,
        "config.json, transformers 4": written.rope_scaling,
        "vLLM": written.vllm,
        "SGLang": written.sglang,
        "llama.cpp": written.llama_cpp,
    }
    blocks = {
        title: text if isinstance(text, str) else json.dumps(text, indent=2)
        for title, text in texts.items()
        if text
    }
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
        help="Measures loss by position on your own checkpoint, as it is and as planned.",
    )


WAVELENGTHS = "Wavelengths"
PICTURES = (
    TRADE_OFFS,
    COVERAGE,
    WAVELENGTHS,
    "Change per pair",
    "Expected logit",
    "B(k) and base",
)


def pictures(both: AB[PlannerRead], first: str | None = None) -> bool:
    """Draw the compared methods, a tab for each picture, sent when it is opened.

    first: the tab that is open at first. Returns whether a visitor asked for what was left for later.
    """
    if not any(len(read.methods) for read in both.each):
        return False
    methods = both.map(lambda read: read.methods)
    labels = _labels(methods, "method")
    pairs = both.map(lambda read: read.pairs)
    tabs = st.tabs(PICTURES, default=first, key="plan_pictures", on_change="rerun")
    name, tab = next(pair for pair in zip(PICTURES, tabs, strict=True) if pair[1].open)
    with tab:
        if name in (TRADE_OFFS, COVERAGE):
            titles = [column.title for column in COLUMNS if column.part in ("", name)]
            page.table(methods.map(lambda frame: frame[titles] if len(frame) else frame))
            st.caption(RANKING)
        elif name == WAVELENGTHS:
            page.chart(pairs, charts.wavelengths, labels, key="plan_wavelengths", title=name)
            st.caption(
                "Positions per full turn of each pair at the target. Dashed: the trained length. Longer "
                "waves never completed a turn in training."
            )
        elif name == "Change per pair":
            page.chart(pairs, charts.ratios, labels, key="plan_ratios", title=name)
            st.caption(
                "1 is the frequency of training. At the lowest level it is divided by the factor."
            )
        elif name == "Expected logit":
            page.chart(
                both.map(lambda read: read.kernel),
                charts.kernels,
                labels,
                key="plan_kernels",
                title=name,
            )
            st.caption(
                "Expected logit of equal unit content by distance. Dashed: the trained length."
            )
        else:
            bounds = both.map(lambda read: read.bound)
            page.chart(
                bounds, charts.bounds, _labels(bounds, "ladder"), key="plan_bounds", title=name
            )
            st.caption(
                "The lowest B(k) in each step of distance. Below 0, a dissimilar token scores higher "
                f"than a similar one. {plain(bound_sentence(both.current.plan))}"
            )
            return _search(both.current.partial)
    return False


def _labels(frames: AB[pd.DataFrame], column: str) -> tuple[str, ...]:
    """Return the labels of both, those of B first."""
    return tuple(
        dict.fromkeys(label for frame in frames.each if len(frame) for label in frame[column])
    )


def _search(partial: str) -> bool:
    """Draw the button that computes what was left for later; return whether it was pressed."""
    if not partial:
        return False
    st.caption(partial)
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
        for reason in read.plan.left_out:
            st.caption(plain(reason))


def layers(read: PlannerRead) -> None:
    """List what the target means for each kind of layer."""
    st.subheader("Layers", anchor=False)
    for note in layer_notes(read.plan.model, read.plan.target, read.plan.trained_length):
        sentence = "see above." if note.sentence in read.headline else note.sentence
        st.markdown(f"**{plain(note.layers)}**: {plain(sentence)} Source: {plain(note.source)}.")
