"""Tasks whose score is a share of right answers, copying and recall: how they are drawn and said."""

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from dashboard import page, run_charts, run_frames, run_words
from dashboard.text import plain
from posenc.lab.evaluate import farthest
from posenc.lab.run import Heading
from posenc.lab.tasks import Copy, Recall


@dataclass(frozen=True)
class Share:
    """How a task whose score is a share of right answers is drawn and said."""

    title: str
    unit: str
    y_title: str
    says: str


SHARES = {
    Copy.kind: Share(
        "Copying a string",
        "letters",
        "share copied without a fault",
        "Trained on strings of up to {length} letters, asked for up to twice as many: the share that "
        "comes back without a single fault (Kazemnejad et al. 2023, arXiv 2305.19466).",
    ),
    Recall.kind: Share(
        "Recalling a value by its key",
        "tokens between value and question",
        "share recalled",
        "Four keys with their values early in {length} tokens of training, one asked for later: the "
        "share of right answers. Guessing among the four values gives 25%.",
    ),
}


def draw(schemes: tuple[str, ...], runs_drawn: list[Heading]) -> dict[str, pd.DataFrame]:
    """Draw the share of right answers of a task by length or distance; return the numbers."""
    if not runs_drawn:
        return {}
    one = runs_drawn[0].specification
    found = run_frames.curves(runs_drawn, one.task)
    if not found:
        return {}
    share = SHARES[one.task]
    st.subheader(share.title, anchor=False)
    st.caption(share.says.format(length=one.train_length) + f" {said(runs_drawn)}")
    st.caption(plain(f"{run_words.whole(one)}."))
    frame = run_frames.frame(found)
    kinds = tuple(kind for kind in schemes if any(run_frames.is_of(curve, kind) for curve in found))
    page.picture(
        frame.assign(boundary=float(one.train_length)),
        run_charts.measured(
            kinds, run_frames.reads(frame), share.unit, share.y_title, log=one.task == Recall.kind
        ),
        key=f"measured_{one.task}",
    )
    st.caption(run_charts.strokes(run_frames.reads(frame)))
    return {f"measured {one.task}": frame.rename(columns={"x": share.unit, "y": "share"})}


def said(runs_drawn: list[Heading]) -> str:
    """Say the shares at the training length, and how far half of the answers stay right."""
    one = runs_drawn[0].specification
    found = run_frames.curves(runs_drawn, one.task)
    if not found:
        return "Every training of this comparison stopped early."
    inside = one.train_length
    if one.task == Recall.kind:
        inside = farthest(inside)
    return run_frames.shares(found, inside, SHARES[one.task].unit)
