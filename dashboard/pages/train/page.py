"""Train: models of your own size and text, in the background, for every visitor to see."""

import streamlit as st

from dashboard.compute import run_names
from dashboard.controls import page_options, sidebar
from dashboard.frame import page
from dashboard.pages.train import board, script
from dashboard.pages.train import form as training
from posenc import fields
from posenc.lab.train import Trainer, learning_rate_at


def draw() -> None:
    """Draw the page."""
    setting = page.setting()
    page.head(
        "Train your own",
        "A small model per scheme, alike in everything else, is trained here and read past its training "
        "length.",
    )
    st.caption(
        f"Schemes ({page.names(setting.schemes)}) and base are those of the sidebar; the other numbers "
        "there change nothing here."
    )
    form = st.container(horizontal=True, gap="small")
    places = {name: form.container(width=240) for name in fields.rules(page_options.TrainingChoice)}
    chosen = sidebar.choices(page_options.TrainingChoice, places)
    place = st.container()
    board.board()  # first: who watches does not wait for an estimate
    with place:
        linked = training.offer(setting, chosen)
    board.shelf(linked)
    run_names.own()
    page.how_to_read(
        "One background process trains at low priority, the others wait. A start goes on when you close "
        "this page and is the same for every visitor: anyone can watch it, and anyone can stop "
        "it, but of one "
        "whose owner is known only the owner; the same start later goes on from there. If the "
        ""
        "server ends, it goes on from its last checkpoint when the server is back. The same "
        "sizes, text and "
        "seed are one run, whatever the text is called, so nothing is trained twice. A finished "
        "run stands under Extrapolation, measured; the table of a learned one can be chosen in the sidebar."
    )
    page.definition(
        r"\eta_t = \eta \left( 0.1 + 0.9 \cdot \tfrac{1 + \cos(\pi\, t')}{2} \right)",
        "AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) after a linear warm-up over the first "
        "twentieth of the steps, gradients clipped to norm 1; t' runs from 0 to 1 over the rest.",
        learning_rate_at,
        Trainer.step,
    )
    page.script(script.script(setting, training.fitted(chosen)))
