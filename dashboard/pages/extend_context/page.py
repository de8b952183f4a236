"""Extend a model's context: what it takes to read longer texts with a real model."""

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from dashboard.controls import model_picker, sidebar
from dashboard.controls.page_controls import UsedControls
from dashboard.frame import page
from dashboard.pages.extend_context import data, panels
from dashboard.pages.extend_context.options import PlanChoice
from dashboard.settings import chosen_model
from dashboard.text import plain
from posenc import fields, limits
from posenc.analysis import smallest_base
from posenc.models.presets import MODELS
from posenc.planner import RANKING_RULES, plan, recommendation
from posenc.planner.report import EXPLAINED
from posenc.planner.scaling_effects import compare_pairs

TITLE = "Extend a model's context"
_LONGER = 4  # times the trained length of a newly chosen model
_PLANNED = "plan_model"  # the model of the last run
_SEARCHED = "plan_searched"  # the model and the target whose long search was asked for


used_controls = UsedControls(("model",), schemes=False, drawn=("model",))


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container()
    order = ("row", "own", "answer", "pills", "pictures")
    places = {name: st.container(horizontal=name == "row") for name in order}
    row, rest = places["row"], st.container()
    none = f"Example: {MODELS[data.DEFAULT].label}"
    model_picker.select(row, "model_here_control", none, width=340)
    with places["own"]:
        is_refused = model_picker.draw_own_config()
    if (
        is_refused
    ):  # a plan of another model, with its blocks to paste, would be taken for one of this
        with header:
            page.title(TITLE)
        st.info("Nothing is planned for a config that is refused: correct it, or remove it.")
        return
    token = data.model_token(settings.current)
    length, source = data.known_length(settings.current)
    _follow_model(token, length)
    controls = {"context": row, "trained": row}
    entered = st.session_state.get("trained", st.query_params.get("trained"))
    if any(data.can_scale(setting, bool(entered)) for setting in settings.each):
        controls["methods"] = places["pills"]
    chosen = sidebar.choices(
        PlanChoice,
        controls,
        empty={"trained": f"{length:,} from {source}" if length else "not known"},
    )
    asked = (token, chosen.context)  # never part of a link
    every = st.session_state.get(_SEARCHED) == asked
    with header:
        page.title(TITLE)
        with st.spinner("Planning"):
            both = settings.map(lambda setting: data.read(setting, chosen, every))
        page.head(TITLE, both.map(lambda read: plain(read.headline)))
    current = both.current
    with places["answer"]:
        panels.advice(current)
        panels.paste_and_cache(both)
    with places["pictures"]:
        if panels.pictures(both):
            st.session_state[_SEARCHED] = asked
            st.rerun()
    with rest:
        panels.order(current)
        panels.warnings(current)
        panels.beside_scalings(current)
        panels.sources(current)
        st.caption(plain(model_picker.about(chosen_model(token))))
        if (model := model_picker.chosen()) is not None:
            model_picker.list_other_facts(model, assumed=False)

    if current.plan.trained is not None:
        page.how_to_read(
            f"{plain(recommendation(current.plan))}\n\n"
            "The ranking follows makers, papers, and small models measured here. Only a measurement shows "
            f"whether a method works on *your* model: download the script.\n\n"
            "**How this is ranked**\n\n- " + "\n- ".join(RANKING_RULES) + f"\n\n{EXPLAINED}"
        )
        page.definition(
            r"B(k) = \sum_m \cos(k\,b^{-2m/d}) \ge 0 \;\; \forall k < L, \qquad "
            r"K(k) = \tfrac{1}{d}\left(2 a^2 \sum_m \cos(k\,\theta'_m) + d - r\right)",
            "B(k) is the bound of Men et al. 2024, arXiv 2405.14591. The search excludes every base below "
            "the smallest at which it holds. K is the expected logit of unit isotropic content at distance "
            "k, with frequencies and attention factor a of the method (Su et al. 2021, arXiv 2104.09864).",
            plan,
            compare_pairs,
            smallest_base,
        )
    page.numbers(both.map(lambda read: read.methods), "methods")
    page.numbers(both.map(lambda read: read.pairs), "pairs")
    page.numbers(both.map(lambda read: read.kernel), "expected logit to the target")
    page.numbers(both.map(lambda read: read.bound), "base bound by distance")
    page.script(data.script(settings.current, chosen, every))


def _follow_model(token: str, length: int | None) -> None:
    """Set numbers that belong to the model planned for before: its trained length, a target within it.

    length: the trained length of this model. At Back and Forward the address has the numbers.
    """
    last, st.session_state[_PLANNED] = st.session_state.get(_PLANNED, token), token
    run = get_script_run_ctx()
    if last == token or (run is not None and run.is_history_navigation):
        return
    st.session_state["trained"] = None
    target = st.session_state.get("context", fields.defaults(PlanChoice)["context"])
    if length is not None and target <= length:
        st.session_state["context"] = longer = min(_LONGER * length, limits.MAX_TRAIN_LENGTH)
        st.toast(f"The target is now {longer:,} tokens: this model was trained on {length:,}.")
