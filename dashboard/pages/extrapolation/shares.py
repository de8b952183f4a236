"""Tasks whose score is a share of right answers, copying and recall: how they are drawn and said."""

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from dashboard.compute import run_words
from dashboard.frame import page
from dashboard.pages.extrapolation import charts, run_frames
from dashboard.text import plain
from posenc.lab.runs import RunInfo
from posenc.lab.specification import Specification
from posenc.lab.tasks import Copy, Recall


@dataclass(frozen=True)
class Share:
    """How a task whose score is a share of right answers is drawn and said."""

    title: str
    unit: str
    y_title: str
    says: str
    chance: float | None = None  # the share that guessing gets right, where that is not 0


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
        "Four key-value pairs stand at random places, and one of the keys asks for its value: the share "
        "of right answers. Training on {length} tokens shows distances up to {farthest}; past that, pairs "
        "and question stand past the training length. The dotted line is guessing among the four values. A "
        "learned table whose last row is repeated gives all later positions the same vector.",
        Recall.CHANCE,
    ),
}


def draw(
    schemes: tuple[str, ...], runs_drawn: list[RunInfo], *, say: bool = True
) -> dict[str, pd.DataFrame]:
    """Draw the share of right answers of a task by length or distance; return the numbers.

    say: whether the shares are said, too, which the page's headline may do already.
    """
    if not runs_drawn:
        return {}
    one = runs_drawn[0].specification
    found = run_frames.curves(runs_drawn, one.task)
    if not found:
        return {}
    share = SHARES[one.task]
    st.subheader(share.title, anchor=False)
    says = share.says.format(length=one.train_length, farthest=_shown(one))
    st.caption(plain(f"{says} {share_sentence(runs_drawn)}" if say else says))
    st.caption(plain(f"{run_words.whole(one)}."))
    frame = run_frames.frame(found)
    kinds = tuple(kind for kind in schemes if any(run_frames.is_of(curve, kind) for curve in found))
    page.picture(
        frame.assign(boundary=float(_shown(one)), **_chance(share)),
        charts.measured(
            kinds,
            run_frames.reads(frame),
            share.unit,
            share.y_title,
            log=one.task == Recall.kind,
            chance=share.chance is not None,
        ),
        key=f"measured_{one.task}",
    )
    st.caption(charts.strokes(run_frames.reads(frame)))
    if share.chance is not None:
        inside = pd.Series(run_frames.in_range(found), index=frame.index, dtype=float)
        frame = frame.assign(**{"in range": inside}, **_chance(share))
    return {f"measured {one.task}": frame.rename(columns={"x": share.unit, "y": "share"})}


def share_sentence(runs_drawn: list[RunInfo]) -> str:
    """Say the shares within the training range, and how far half of the answers stay right."""
    one = runs_drawn[0].specification
    found = run_frames.curves(runs_drawn, one.task)
    if not found:
        return "Every training of this comparison stopped early."
    unit = SHARES[one.task].unit
    if one.task == Recall.kind:
        return run_frames.recalled(found, _shown(one), unit)
    return run_frames.shares(found, one.train_length, unit)


def _chance(share: Share) -> dict[str, float]:
    return {} if share.chance is None else {"chance": share.chance}


def _shown(one: Specification) -> int:
    """Return the largest length or distance that training shows."""
    return Recall.farthest(one.train_length) if one.task == Recall.kind else one.train_length
