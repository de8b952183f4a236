"""Pages as functions: called with a setting and options, read by their blocks; no Streamlit runs."""

import re
from typing import Any

import numpy as np
import pandas as pd

from dashboard.blocks import Block, Chart, Data, Matrices, Page, Text
from dashboard.settings import Setting
from tests.dashboard.independent_kernels import Small
from tests.dashboard.pages import KINDS

# An s behind "1 " that is no plural: verbs, and "1 falls at every step", of a rank correlation.
NO_PLURAL = "is|was|has|this|less|times|as|across|loss|bias|its|falls"
PLURAL_OF_ONE = re.compile(
    r"(?<![\d.,^⁻(-])1 (?:(?:trained|training|different|full|other) )?"
    rf"(?!(?:{NO_PLURAL})\b)[a-z]+s\b"
)


def small_setting(small: Small) -> Setting:
    """Return the setting of these numbers with every main scheme."""
    return Setting(**small, schemes=KINDS)


def block_of(page: Page, kind: type[Block], key: str) -> Any:
    """Return the block of a kind with this key."""
    blocks = [block for block in page.all_blocks if type(block) is kind]
    (block,) = [block for block in blocks if vars(block)["key"] == key]
    return block


def chart(page: Page, key: str) -> Chart:
    block: Chart = block_of(page, Chart, key)
    return block


def numbers(page: Page, key: str) -> pd.DataFrame:
    """Return the full numbers of a chart, as the drawer Data and the export have them."""
    return chart(page, key).numbers()


def data(page: Page, title: str) -> pd.DataFrame:
    """Return numbers that no picture shows, as the drawer Data and the export have them."""
    (block,) = [b for b in page.all_blocks if isinstance(b, Data) and b.title == title]
    return block.numbers()


def panel_values(page: Page, key: str) -> dict[str, np.ndarray]:
    """Return every cell of a row of matrices by the title of the panel."""
    row: Matrices = block_of(page, Matrices, key)
    return {panel.title: panel.values.dense() for panel in row.panels}


def texts(page: Page) -> list[str]:
    """Return every text of a page, of boxes and headings too."""
    return [block.text for block in page.all_blocks if isinstance(block, Text)]
