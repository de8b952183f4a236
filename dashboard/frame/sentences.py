"""Findings in words: every sentence is made from the numbers on its page and changes with them."""

from collections.abc import Mapping

import numpy as np
import streamlit as st

from dashboard.compute.schemes import Similarity
from dashboard.text import listed
from posenc.analysis import OffsetClaims, OffsetMap, Properties
from posenc.analysis.offset_checks import TOO_FEW_POSITIONS
from posenc.claims.claim import figure
from posenc.schemes import SCHEMES

_ROUNDING = 1e-6  # of float32 read-outs
OFFSET_ONLY = 1e-6  # spread along diagonals that rounding alone leaves


def number(value: float, digits: int = 3) -> str:
    """Write a measured number with a few significant digits, small ones as a power of ten."""
    if value == 0:
        return "0"
    if abs(value) < 10.0**-digits:
        return figure(value)
    return f"{value:,.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


def show_notices(found: Mapping[str, Similarity]) -> None:
    """Tell what a person must know before believing a panel: untrained, moved, undefined."""
    for kind, result in found.items():
        if result.kernel.notice:
            st.warning(result.kernel.notice, icon=":material/memory:")
        if result.undefined:
            st.warning(
                f"{SCHEMES[kind].label}: {result.undefined} positions have no cosine similarity, "
                "because their vector is zero or not finite.",
                icon=":material/info:",
            )
    if past := past_one(found):
        st.info(past, icon=":material/info:")


def past_one(found: Mapping[str, Similarity]) -> str:
    """Say which kernels scaled to their diagonal leave -1 .. 1, "" where none does.

    Only a kernel that is no Gram matrix does, so that its ratio is the cosine of no angle.
    """
    far = {}
    for kind, result in found.items():
        drawn = np.abs(result.matrix.values)
        farthest = np.fmax.reduce(drawn, axis=None, initial=0)  # NaN: a cell without a value
        if farthest > 1 + _ROUNDING:
            far[kind] = farthest
    if not far:
        return ""
    named = listed([f"{SCHEMES[kind].label} ({value:.4g})" for kind, value in far.items()])
    its, kernel = ("their", "kernels are") if len(far) > 1 else ("its", "kernel is")
    return (
        f"Past 1, where the colours end: {named}. As {its} {kernel} no inner product of vectors, the ratio "
        "to the diagonal is the cosine of no angle; tables and the read-out have the exact values."
    )


def overview(found: Mapping[str, Similarity], measured: Mapping[str, Properties]) -> str:
    """Say which schemes let similarity fall with every step and which do not."""
    groups: dict[str, list[str]] = {}
    for kind, one in measured.items():
        label = SCHEMES[kind].label
        if not np.isfinite(found[kind].mean).any():
            what = "is undefined, because no vector has a direction"
        elif one.positions < 2:
            what = "cannot be told from one position"
        elif one.kendall_tau is None:
            what = "does not change at all"
        elif one.kendall_tau > 1 - 1e-12:
            what = "falls at every step"
        elif one.first_rise is None:
            what = "never rises, but stays level at some steps"
        else:
            what = f"first rises again at distance {one.first_rise:,}"
        if found[kind].kernel.untrained:
            what += f", but that is {found[kind].kernel.start}"
        groups.setdefault(what, []).append(label)
    parts = [f"for {listed(labels)} it {what}" for what, labels in groups.items()]
    return "As two positions move apart, their similarity: " + "; ".join(parts) + "."


def properties(measured: Properties, found: Similarity) -> str:
    """One sentence on one scheme: are its positions told apart, and does distance alone count?"""
    if measured.smallest_distance is None or measured.closest_pair is None:
        return "One position: nothing to compare."
    if measured.smallest_distance == 0:
        i, j = measured.closest_pair
        told = f"Positions {i:,} and {j:,} cannot be told apart"
    else:
        told = f"All {measured.positions:,} positions differ, by {measured.smallest_distance:.3g} or more"
    error = measured.translation_invariance_error
    if error is None and measured.translation_reason == TOO_FEW_POSITIONS:
        shift = "too few to say whether only the distance counts"
    elif error is None:
        shift = "all pairs of positions count alike"
    elif error < 1e-6:
        shift = "only the distance counts"
    else:
        shift = f"the place counts too (shift-invariance error {error:.2g})"
    untrained = f" Untrained: this is {found.kernel.start}." if found.kernel.untrained else ""
    if found.kernel.start == "untrained noise":
        untrained = untrained and " Untrained: this is noise, not a learned table."
    return f"{told}; {shift}.{untrained}"


def show_equal_width(found: Mapping[str, Similarity]) -> None:
    """State the measured difference between sinusoidal and RoPE where their widths are equal."""
    if "sinusoidal" not in found or "rope" not in found:
        return
    gap = float(np.abs(found["sinusoidal"].mean - found["rope"].mean).max())
    if gap < 1e-6:
        st.markdown(
            "At equal base and width the sinusoidal inner product is half the width times RoPE's "
            f"expected logit, so their similarities are equal: largest measured difference {number(gap)}."
        )
    else:
        st.markdown(
            "At equal base and width sinusoidal and RoPE similarities would be equal if RoPE rotated "
            f"all features exactly; as set they differ by up to {number(gap)}."
        )


def offsets(maps: Mapping[str, OffsetMap], claims: Mapping[str, OffsetClaims]) -> str:
    """Say which schemes meet which of the three claims."""
    groups: dict[str, list[str]] = {}
    for kind, one in maps.items():
        groups.setdefault(one.verdict, []).append(SCHEMES[kind].label)
    parts = [f"{listed(labels)}: {verdict}" for verdict, labels in groups.items() if verdict]
    straight = [
        SCHEMES[kind].label
        for kind, claim in claims.items()
        if claim.straight.r_squared is not None and claim.straight.r_squared > 1 - 1e-9
    ]
    alone = [
        SCHEMES[kind].label
        for kind, claim in claims.items()
        if claim.only.error is not None and claim.only.error < OFFSET_ONLY
    ]
    only = f" Depends on the offset only: {listed(alone)}." if alone else ""
    line = f" A straight line in the offset: {listed(straight)} only." if straight else ""
    return "One matrix per offset. " + "; ".join(parts) + "." + only + line
