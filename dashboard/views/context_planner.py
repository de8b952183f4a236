"""Context planner: what it takes to read a longer context with a real model."""

import streamlit as st

from dashboard import choices, controls, page, planner, planner_panels, real_model
from dashboard.scripts import context_planner as script
from dashboard.text import plain
from posenc.analysis.base_search import smallest_base
from posenc.planner import plan
from posenc.planner.pairs import read_pairs
from posenc.presets import MODELS

settings = page.settings()
header = st.container()
row = st.container(horizontal=True, vertical_alignment="top")
real_model.select(row, "model_here_control", none=f"{MODELS[planner.DEFAULT].label} (none chosen)")
chosen = controls.choices(choices.PlanChoice, row)
real_model.own()
if (model := real_model.chosen()) is not None:
    real_model.besides(model)
every = planner_panels.asked(settings.now, chosen)
with header:
    loading = st.empty()
    with loading.container():
        st.title("Context planner", anchor=False)
        with st.spinner("Planning"):
            both = settings.map(lambda setting: planner.read(setting, chosen, every))
    found = both.now
    with loading.container():
        page.head("Context planner", both.map(lambda one: plain(one.headline)))
        st.caption(f"{plain(found.about)} Computed from formulas; nothing here is measured.")
planner_panels.offer(settings.now, chosen, found)

if len(found.methods):
    planner_panels.tables(found)
    planner_panels.sources(found)
    planner_panels.pictures(found)
planner_panels.beware(found)
planner_panels.paste(found)

if found.rope:
    page.how_to_read(
        "The table is ranked by what papers say, not by a measurement: whether a method works on *your* "
        "model is what the script to download measures. *Unseen pairs* made less than a turn in training "
        "and turn farther at the target. *Short texts* is the change of the expected logit of equal unit "
        "content within the trained length: what everyday prompts pay. *Kept*, *blended*, *divided*: "
        "frequency as trained, between, or divided by the whole factor. *K* is the expected logit at a "
        "quarter, half and the end of the target. *Stale keys*: the length from which keys that were "
        "rotated and cached no longer fit."
    )
    page.definition(
        r"B(k) = \sum_m \cos(k\,b^{-2m/d}) \ge 0 \;\; \forall k < L, \qquad "
        r"K(k) = \tfrac{1}{d}\left(2 a^2 \sum_m \cos(k\,\theta'_m) + d - r\right)",
        "B(k) is the bound of Men et al. 2024, arXiv 2405.14591, whose smallest base is searched with "
        "every base below it excluded. K is the expected logit of unit isotropic content at distance k, "
        "with frequencies and attention factor a of the method (Su et al. 2021, arXiv 2104.09864).",
        plan,
        read_pairs,
        smallest_base,
    )
page.numbers(found.methods, "methods")
page.numbers(found.pairs, "pairs")
page.numbers(found.kernel, "expected logit to the target")
page.numbers(found.bound, "base bound by distance")
page.numbers(found.resolution, "position resolution")
page.script(script.script(settings.now, chosen, every))
