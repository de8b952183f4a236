"""Extrapolation: trained models past their training length, and what their formulas say of it."""

import streamlit as st

from dashboard.controls import sidebar
from dashboard.controls.page_controls import UsedControls, option
from dashboard.frame import page
from dashboard.pages.extrapolation import formula, measured
from dashboard.pages.extrapolation.options import ExtrapolationChoice, FormulaChoice
from posenc import fields


def used_controls() -> UsedControls:
    """Return the controls of the view: trained models have their own numbers."""
    if option("half", "measured") == "measured":
        return UsedControls(("schemes",), schemes=False)
    return UsedControls(("schemes", "train_length", "device"), never=("length", "precision"))


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container()
    row = st.container(horizontal=True, vertical_alignment="top")
    named = {*st.query_params}
    if not named & {*fields.rules(ExtrapolationChoice)} and named & {*fields.rules(FormulaChoice)}:
        # A link of an earlier version, which opened on the formula and did not name its default.
        st.session_state.setdefault("half", "formula")
    if {"half", "comparison"} <= named and "variants" not in named:
        # A copied link names every option; earlier versions drew all variants and had no option for them.
        st.session_state.setdefault("variants", True)
    chosen = sidebar.choices(ExtrapolationChoice, row)
    view = measured if chosen.half == "measured" else formula
    view.draw(settings, header, row)
