"""The Encoding page's pairs: as waves, as hands of a clock, and how far each turns."""

from collections.abc import Callable, Collection

import numpy as np
import pandas as pd
import streamlit as st

from dashboard.ab import Pair
from dashboard.charts import frames, theme
from dashboard.components.clock import Face, clock_row
from dashboard.compute.result_cache import memoize_on
from dashboard.frame import page
from dashboard.pages.encoding import charts as encoding_charts
from dashboard.pages.encoding import sentences
from dashboard.pages.encoding.data import EncodingPage
from dashboard.text import number
from posenc.schemes import SCHEMES

LANE = 2.9  # from one wave to the next below it, where a wave goes from -1 to 1


def of_either(
    both: Pair[EncodingPage], of: Callable[[EncodingPage], Collection[str]]
) -> tuple[str, ...]:
    """Return the schemes that have something in either setting, in their fixed order."""
    return tuple(kind for kind in SCHEMES if any(kind in of(one) for one in both.each))


def waves(both: Pair[EncodingPage]) -> None:
    """Draw the chosen pairs of every scheme that has any, as waves under each other."""
    found, setting = both.now, both.now.setting
    kinds = of_either(both, lambda one: one.pairs)
    if not kinds:
        return
    st.caption("Solid is sine, dotted cosine; the dashed line is the training length.")
    columns = st.columns(max(2, len(kinds)))
    for place, kind in zip(columns, kinds, strict=False):
        with place:
            st.markdown(f"**{SCHEMES[kind].label}**{_whose(kind in found.pairs)}")
            # Where both have it, B's names stand for both.
            now = _waves_of(found, kind, "named")
            then = None
            if both.pinned is not None:
                names = "nameless" if kind in found.pairs else "named"
                then = _waves_of(both.pinned, kind, names)
            page.chart(
                Pair(now, then),
                encoding_charts.waves,
                kind,
                key=f"waves_{kind}",
            )
    shown = int(found.waves["x"].max()) + 1 if found.pairs else setting.length
    if shown < setting.length:
        st.caption(f"Waves are drawn over the first {shown:,} of {setting.length:,} positions.")


def _whose(now: bool) -> str:
    """Say of a scheme that the setting at hand does not show whose it is."""
    return "" if now else ", of the pinned setting, A, alone"


@memoize_on
def _waves_of(found: EncodingPage, kind: str, names: str) -> pd.DataFrame:
    """Return the waves of one scheme as they are drawn, none where it is not shown.

    names: "named" or "nameless", where another setting's names stand for them.
    """
    if kind not in found.pairs:
        return pd.DataFrame()
    own = found.waves[(found.waves["kind"] == kind).to_numpy()]
    pairs, turns = found.pairs[kind], found.ladders[kind].wavelengths
    level = own["y"].to_numpy()
    which = np.searchsorted(pairs, own["pair"].to_numpy())
    lane = -LANE * which  # every pair under the one before it
    said = [f"pair {pair}: {number(turns[pair])} positions a turn" for pair in pairs]
    numbers = {"y": level, "lane": lane, "level": lane + level, "ceiling": lane + 1.05}
    return pd.DataFrame(
        {
            "scheme": frames.word(SCHEMES[kind].label, len(own)),
            "pair": own["pair"].to_numpy(np.int32),
            "wave": own["wave"].array,
            "x": own["x"].to_numpy(np.int32),
            "boundary": own["boundary"].to_numpy(np.float32),
            "name": pd.Categorical.from_codes(which, pd.Index(said))
            if names == "named"
            else frames.word("", len(own)),
        }
        | {name: column.astype(np.float32) for name, column in numbers.items()}
    )


def clocks(both: Pair[EncodingPage]) -> None:
    """Draw the chosen pairs as hands that turn."""
    if not any(one.pairs for one in both.each):
        return
    st.subheader("Pairs as hands of a clock", anchor=False)
    if both.now.pairs:
        _clocks(both.now, "clocks")
    if both.pinned is not None and both.pinned.pairs:
        st.caption("The pinned setting, A.")
        _clocks(both.pinned, "clocks_pinned")


def _clocks(found: EncodingPage, key: str) -> None:
    setting = found.setting
    faces = [
        Face(
            title=SCHEMES[kind].label,
            subtitle=page.panel_note(setting, kind, rounded=False),
            color=theme.COLOURS[kind],
            pairs=pairs,
            inv_freq=found.ladders[kind].inv_freq[[*pairs]],
            wavelengths=found.ladders[kind].wavelengths[[*pairs]],
            turns=found.ladders[kind].turns[[*pairs]],
        )
        for kind, pairs in found.pairs.items()
    ]
    clock_row(
        faces,
        key=key,
        last=max(setting.length - 1, setting.train_length),
        trained=setting.train_length,
        text_alternative=sentences.hands(found),
    )


def spectrum(both: Pair[EncodingPage]) -> None:
    """Draw wavelengths and shares of a turn over the ladder."""
    kinds = of_either(both, lambda one: one.ladders)
    if not kinds:
        return
    st.subheader("How far each pair turns", anchor=False)
    left, right = st.columns(2)
    with left:
        st.caption("Wavelength of every pair; the dashed line is the training length.")
        page.curves(
            both.map(_ladders), encoding_charts.wavelengths, kinds, key="wavelengths",
            fields=("place", "wavelength"), log=True,
        )  # fmt: skip
    with right:
        st.caption("Share of a full turn that every pair makes within the training length.")
        page.curves(
            both.map(_ladders),
            encoding_charts.shares,
            kinds,
            key="shares",
            fields=("place", "share"),
        )


@memoize_on
def _ladders(found: EncodingPage) -> pd.DataFrame:
    return frames.dotted(frames.drawn(found.spectrum, "place"))
