"""Curves that lie on each other: which do, in words, and widths by which all of them are seen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dashboard.ab import Pair
from dashboard.charts.theme import Spec
from dashboard.compute.schemes import Array
from dashboard.frame import page
from dashboard.text import listed

CLOSE = 1 / 400  # of the curves' own range: less than the width of a line on any screen
THIN, WIDER = 2, 6  # CSS pixels of the last curve of a group, and more for each one under it
PALE = 0.45  # opacity of those under it


def groups(
    frame: pd.DataFrame, x: str = "x", y: str = "y", *, log: bool = False
) -> list[list[str]]:
    """Return the schemes whose curves cannot be told apart, those that can left out.

    frame: scheme, x (rising within a scheme), y. Two curves are alike where, at every x of the coarser
    one that the other reaches, two at least, they differ by no more than CLOSE of the range of all y.
    log: whether y is drawn on a log scale.
    """
    if y not in frame or "scheme" not in frame:
        return []
    curves = {}
    names = pd.Categorical(frame["scheme"])
    wide, high = frame[x].to_numpy(np.float64), frame[y].to_numpy(np.float64)
    for code in dict.fromkeys(names.codes.tolist()):
        name, own = names.categories[code], names.codes == code
        across, up = wide[own], high[own]
        with np.errstate(divide="ignore", invalid="ignore"):
            up = np.log(up) if log else up
        kept = np.isfinite(across) & np.isfinite(up)
        if kept.any():
            curves[str(name)] = across[kept], up[kept]
    values = [up for _, up in curves.values()]
    reach = CLOSE * (max(map(np.max, values)) - min(map(np.min, values))) if values else 0.0
    found: list[list[str]] = []
    for name, curve in curves.items():
        for group in found:
            if _alike(curves[group[0]], curve, float(reach)):
                group.append(name)
                break
        else:
            found.append([name])
    return [group for group in found if len(group) > 1]


def _alike(one: tuple[Array, Array], other: tuple[Array, Array], reach: float) -> bool:
    """Whether two curves differ by at most `reach` wherever both are, read where the coarser is."""
    coarse, fine = sorted((one, other), key=lambda curve: len(curve[0]))
    shared = (coarse[0] >= fine[0][0]) & (coarse[0] <= fine[0][-1])
    if shared.sum() < min(2, len(coarse[0])):
        return False
    there = np.interp(coarse[0][shared], *fine)
    return bool(np.abs(there - coarse[1][shared]).max() <= reach + 1e-12 * np.abs(there).max())


def seen(frame: pd.DataFrame, found: list[list[str]]) -> pd.DataFrame:
    """Return the frame with width and strength of every line: those under another are wider and paler.

    found: the schemes that coincide, as `groups` gives them.
    """
    if "scheme" not in frame:
        return frame
    wide = {
        name: THIN + WIDER * under for group in found for under, name in enumerate(reversed(group))
    }
    names = pd.Categorical(frame["scheme"])
    widths = np.array([wide.get(name, THIN) for name in names.categories], np.int8)
    strengths = np.where(widths > THIN, PALE, 1.0).astype(np.float32)
    return frame.assign(width=widths[names.codes], strength=strengths[names.codes])


def said(found: list[list[str]]) -> str:
    """Say which lines coincide, "" where all can be told apart."""
    if not found:
        return ""
    beneath = "the one beneath is" if sum(map(len, found)) == 2 else "those beneath are"
    return f"{'; '.join(f'{listed(group)} coincide' for group in found)}: {beneath} drawn wider."


@dataclass(frozen=True)
class Lines:
    """Curves ready to be drawn: width and strength of every line in the frame, and which coincide."""

    frame: pd.DataFrame
    groups: list[list[str]]


def lines(frame: pd.DataFrame, x: str = "x", y: str = "y", *, log: bool = False) -> Lines:
    """Return the curves of a frame, ready to be drawn; x, y and log as for `groups`."""
    found = groups(frame, x, y, log=log)
    return Lines(seen(frame, found), found)


def draw(
    curves: Pair[Lines], build: Callable[..., Spec], *arguments: Any, key: str, **more: Any
) -> None:
    """Draw a chart of lines as `page.chart` does, so that each is seen, and say which coincide."""
    found, then = curves.now.groups, curves.pinned
    # A's lines are as wide as B's of the same name.
    frames = Pair(curves.now.frame, None if then is None else seen(then.frame, found))
    page.chart(frames, build, *arguments, key=key, **more)
    if found:
        st.caption(said(found))
