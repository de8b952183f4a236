"""Train: models of your own size and text, in the background, for every visitor to see."""

import streamlit as st

from dashboard.controls import sidebar
from dashboard.controls.page_controls import UsedControls
from dashboard.frame import page
from dashboard.pages.train import board, form
from dashboard.pages.train.options import TrainingChoice
from posenc import fields
from posenc.lab.train import Trainer, learning_rate_at

used_controls = UsedControls(("schemes", "base"), schemes=False)


def draw() -> None:
    """Draw the page."""
    setting = page.setting()
    page.head(
        "Train",
        f"Train one small model per scheme ({page.names(setting.schemes)}) and evaluate it past its "
        "training length.",
    )
    left, right = st.columns(2, gap="medium")
    with left:
        form.draw_presets(setting)
        wide, narrow = st.columns(2), st.columns(3)  # Start belongs on the first screen
    columns = [*wide, *wide, *narrow]
    places = dict(zip(fields.rules(TrainingChoice), columns, strict=True))
    chosen = sidebar.choices(TrainingChoice, places)
    picture = right.container()
    with right:
        in_training = board.draw_jobs()  # first: the board does not wait for an estimate
    with left:
        linked = form.draw(setting, chosen, picture)
    if linked is None and not in_training:
        with picture:
            form.draw_example(setting)
    board.draw_finished(linked)
    page.how_to_read(
        "One background process trains at low priority; other jobs are queued. A job continues when you "
        "close this page and is the same for every visitor. Anyone can watch it and stop it. The "
        "same job started again continues from "
        "there, also after a restart of the server. Runs with the same sizes, text and seed are one "
        "run, whatever the text is called, so nothing is trained twice. Finished runs are on "
        "Extrapolation; the table of a learned run can be chosen in the sidebar."
    )
    page.definition(
        r"\eta_t = \eta \left( 0.1 + 0.9 \cdot \tfrac{1 + \cos(\pi\, t')}{2} \right)",
        "AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) after a linear warm-up over the first "
        "twentieth of the steps, gradients clipped to norm 1; t' runs from 0 to 1 over the rest.",
        learning_rate_at,
        Trainer.step,
    )
    page.script(form.script(setting, chosen))
