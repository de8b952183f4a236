"""Extrapolation: what the formulas give past the training length, or what trained models do there."""

import streamlit as st

from dashboard import choices, controls, formula, measured, page

settings = page.settings()
header = st.container()
chosen = controls.choices(choices.ExtrapolationChoice)
halves = {"formula": formula.draw, "measured": measured.draw}
halves[chosen.half](settings, header)
