"""The tab Worked by hand: the sinusoidal table of 4 positions and 8 dimensions beside its formula."""

import numpy as np
import pandas as pd
import streamlit as st
import torch

from dashboard.cache import cached
from dashboard.frame import page
from dashboard.pages.encoding.options import EncodingChoice
from dashboard.text import listed
from posenc import formula, sinusoidal_table
from posenc.latex import number as latex_number
from posenc.schemes.sinusoidal import SinusoidalConfig

POSITIONS, WIDTH = 4, 8


@cached
def table(base: float) -> pd.DataFrame:
    """Return the table in full precision."""
    rows = sinusoidal_table(POSITIONS, WIDTH, base, dtype=torch.float64)
    frame = pd.DataFrame(rows.numpy(), columns=[str(i) for i in range(WIDTH)])
    frame.insert(0, "position", np.arange(POSITIONS))
    return frame


def draw(base: float, chosen: EncodingChoice) -> None:
    """Draw the formula, one number of position 3 and dimension 2 step by step, and the table."""
    config, numbers = SinusoidalConfig(dim=WIDTH, base=base), table(base)
    rates = config.build().frequencies.inv_freq.tolist()
    left, right = st.columns(2)
    with left:
        st.latex(formula(config, chosen.notation, numbers=chosen.substituted))
        st.latex(
            rf"PE_{{(3,\,2)}} = \sin\left(\frac{{3}}{{{{{latex_number(base)}}}^{{2/8}}}}\right)"
            rf" = \sin({3 * rates[1]:.6g}) = {numbers['2'].iloc[3]:.4f}"
        )
    with right:
        usual = "With base 10,000 these are the numbers of Vaswani et al."
        st.caption(
            f"Sinusoidal table of 4 positions and 8 dimensions, base {base:,.10g}, sine and cosine side by "
            f"side as in the paper. Its pairs turn by {listed([f'{rate:.4g}' for rate in rates])} radians "
            f"per position.{f' {usual}' if base == 10_000 else ''}"
        )
        columns = {
            name: st.column_config.NumberColumn(format="%.4f") for name in numbers.columns[1:]
        }
        page.small_table(numbers, columns)
