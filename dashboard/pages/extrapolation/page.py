"""Extrapolation: what the formulas give past the training length, or what trained models do there."""

import streamlit as st

from dashboard.controls import page_options, sidebar
from dashboard.frame import page
from dashboard.pages.extrapolation import formula, measured


def draw() -> None:
    """Draw the page."""
    settings = page.settings()
    header = st.container()
    chosen = sidebar.choices(page_options.ExtrapolationChoice)
    halves = {"formula": formula.draw, "measured": measured.draw}
    halves[chosen.half](settings, header)
