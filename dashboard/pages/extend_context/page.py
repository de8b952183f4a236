"""Extend a model's context: what it takes to read longer texts with a real model."""

import streamlit as st

from dashboard.controls import model_picker, sidebar
from dashboard.frame import page
from dashboard.pages.extend_context import data, panels, script
from dashboard.pages.extend_context.options import PlanChoice
from dashboard.text import plain
from posenc.analysis import smallest_base
from posenc.models.presets import MODELS
from posenc.planner import plan, recommendation
from posenc.planner.report import EXPLAINED
from posenc.planner.scaling_effects import compare_pairs
from posenc.settings import chosen_model

TITLE = "Extend a model's context"
_SEARCHED = "plan_searched"  # the model and the target whose long search was asked for


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container()
    row = st.container(horizontal=True, vertical_alignment="top")
    none = f"{MODELS[data.DEFAULT].label} (none chosen)"
    model_picker.select(row, "model_here_control", none, width=340)
    model_picker.own()
    answer, pills, rest = st.container(), st.container(), st.container()
    chosen = sidebar.choices(
        PlanChoice,
        {"context": row, "trained": row, "methods": pills},
        empty={"trained": data.length_hint(settings.now)},
    )
    token = data.model_token(settings.now)
    asked = (token, chosen.context)  # never part of a link
    every = st.session_state.get(_SEARCHED) == asked
    with header:
        page.title(TITLE)
        with st.spinner("Planning"):
            both = settings.map(lambda setting: data.read(setting, chosen, every))
        page.head(TITLE, both.map(lambda one: plain(one.headline)))
    found = both.now
    with answer:
        panels.advice(found)
        panels.paste_and_cache(both)
    with rest:
        if panels.pictures(both):
            st.session_state[_SEARCHED] = asked
            st.rerun()
        panels.warnings(found)
        panels.sources(found)
        st.caption(plain(model_picker.about(chosen_model(token))))
        if (model := model_picker.chosen()) is not None:
            model_picker.besides(model, assumed=False)

    if found.plan.trained is not None:
        page.how_to_read(
            f"{plain(recommendation(found.plan))}\n\n"
            "The ranking follows papers, makers, and small models measured here. Only a measurement shows "
            f"whether a method works on *your* model: download the script. {EXPLAINED}"
        )
        page.definition(
            r"B(k) = \sum_m \cos(k\,b^{-2m/d}) \ge 0 \;\; \forall k < L, \qquad "
            r"K(k) = \tfrac{1}{d}\left(2 a^2 \sum_m \cos(k\,\theta'_m) + d - r\right)",
            "B(k) is the bound of Men et al. 2024, arXiv 2405.14591. The search excludes every base below "
            "the smallest that satisfies it. K is the expected logit of unit isotropic content at distance "
            "k, with frequencies and attention factor a of the method (Su et al. 2021, arXiv 2104.09864).",
            plan,
            compare_pairs,
            smallest_base,
        )
    page.numbers(both.map(lambda one: one.methods), "methods")
    page.numbers(both.map(lambda one: one.pairs), "pairs")
    page.numbers(both.map(lambda one: one.kernel), "expected logit to the target")
    page.numbers(both.map(lambda one: one.bound), "base bound by distance")
    page.script(script.script(settings.now, chosen, every))
