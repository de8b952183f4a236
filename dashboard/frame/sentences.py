"""Findings in words: every sentence is made from the numbers on its page and changes with them."""

from collections.abc import Mapping

import numpy as np
import streamlit as st

from dashboard.compute.schemes import Similarity
from dashboard.text import listed
from posenc.claims.claim import figure
from posenc.schemes import SCHEMES

_ROUNDING = 1e-6  # of float32 read-outs


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
    if past := kernels_beyond_one(found):
        st.info(past, icon=":material/info:")


def kernels_beyond_one(found: Mapping[str, Similarity]) -> str:
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
