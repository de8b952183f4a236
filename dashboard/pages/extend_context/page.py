"""Context planner: what it takes to read a longer context with a real model."""

import streamlit as st

from dashboard.controls import model_picker, page_options, sidebar
from dashboard.frame import page
from dashboard.pages.extend_context import data, panels, script
from dashboard.text import plain
from posenc.analysis import smallest_base
from posenc.models.presets import MODELS
from posenc.planner import plan
from posenc.planner.report import EXPLAINED
from posenc.planner.scaling_effects import compare_pairs


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container()
    row = st.container(horizontal=True, vertical_alignment="top")
    none = f"{MODELS[data.DEFAULT].label} (none chosen)"
    model_picker.select(row, "model_here_control", none, width=340)
    pills = st.container()
    chosen = sidebar.choices(
        page_options.PlanChoice, {"context": row, "trained": row, "methods": pills}
    )
    model_picker.own()
    if (model := model_picker.chosen()) is not None:
        model_picker.besides(model, assumed=False)
    every = panels.asked(settings.now, chosen)
    with header:
        loading = st.empty()
        with loading.container():
            st.title("Context planner", anchor=False)
            with st.spinner("Planning"):
                both = settings.map(lambda setting: data.read(setting, chosen, every))
        found = both.now
        with loading.container():
            page.head("Context planner", both.map(lambda one: plain(one.headline)), found.assumed)
            st.caption(
                f"{plain(found.about)} Numbers are computed from formulas; what "
                "was measured on small models is quoted with its conditions."
            )
    panels.offer(settings.now, chosen, found)

    if any(len(one.methods) for one in both.each):
        panels.tables(both)
        panels.sources(found)
        panels.pictures(both)
    panels.beware(both)
    panels.paste(found)

    if found.rope:
        page.how_to_read(
            "The table is ranked by what papers and makers report, by what small models measured "
            "here do, and "
            ""
            "by the pairs that meet unseen angles: whether a method works on *your* model is what "
            "the script "
            f"to download measures. {EXPLAINED}"
        )
        page.definition(
            r"B(k) = \sum_m \cos(k\,b^{-2m/d}) \ge 0 \;\; \forall k < L, \qquad "
            r"K(k) = \tfrac{1}{d}\left(2 a^2 \sum_m \cos(k\,\theta'_m) + d - "
            r"r\right)",
            "B(k) is the bound of Men et al. 2024, arXiv 2405.14591, whose smallest base is "
            "searched with "
            "every base below it excluded. K is the expected logit of unit isotropic content at "
            "distance k, "
            "with frequencies and attention factor a of the method (Su et al. 2021, arXiv 2104.09864).",
            plan,
            compare_pairs,
            smallest_base,
        )
    page.numbers(both.map(lambda one: one.methods), "methods")
    page.numbers(both.map(lambda one: one.pairs), "pairs")
    page.numbers(both.map(lambda one: one.kernel), "expected logit to the target")
    page.numbers(both.map(lambda one: one.bound), "base bound by distance")
    page.numbers(found.resolution, "position resolution")
    page.script(script.script(settings.now, chosen, every))
