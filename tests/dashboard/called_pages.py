"""Pages as functions: called with a setting and options, read by their blocks; no Streamlit runs."""

import csv
import io
import re
from typing import Any

import numpy as np
import pandas as pd

from dashboard.blocks import Block, Chart, Clocks, Data, Drawer, Matrices, Page, Table, Text, walk
from dashboard.settings import Setting
from posenc.text import csv_cell
from tests.dashboard.independent_kernels import Small
from tests.dashboard.pages import KINDS, as_read

# An s behind "1 " that is no plural: verbs, and "1 falls at every step", of a rank correlation.
NO_PLURAL = "is|was|has|this|less|times|as|across|loss|bias|its|falls"
PLURAL_OF_ONE = re.compile(
    r"(?<![\d.,^⁻(-])1 (?:(?:trained|training|different|full|other) )?"
    rf"(?!(?:{NO_PLURAL})\b)[a-z]+s\b"
)


def small_setting(small: Small) -> Setting:
    """Return the setting of these numbers with every main scheme."""
    return Setting(**small, schemes=KINDS)


def python_of(page: Page) -> str:
    """Return the Python of a page, "" where it has none."""
    return "" if page.script is None else page.script()


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


def read_texts(page: Page) -> list[str]:
    """Return every text of a page as a reader has it, without its Markdown."""
    return [as_read(text) for text in texts(page)]


def blocks(page: Page, kind: type[Block]) -> list[Any]:
    """Return the blocks of a page that are of one kind."""
    return [block for block in page.all_blocks if isinstance(block, kind)]


def words_of(page: Page) -> list[str]:
    """Return every text of a page that is read as Markdown, those of closed drawers too."""
    drawers = [block for block in page.all_blocks if isinstance(block, Drawer)]
    found = [page.headline, page.beside, *page.reasons.values(), *(one.title for one in drawers)]
    for block in (*page.all_blocks, *walk([inner for one in drawers for inner in one.make()])):
        match block:
            case Text():
                found += [block.text, block.help]
            case Table():
                found += map(str, [*block.frame, *block.frame.to_numpy().ravel()])
            case Clocks():
                found += [f"{face.title} {face.subtitle}" for face in block.faces]
            case Matrices():
                found += [
                    block.text,
                    *(f"{panel.title}; {panel.subtitle}" for panel in block.panels),
                ]
    return found


def fields_read(node: Any, derived: set[str]) -> set[str]:
    """Return the columns that a chart's specification reads, and add what it derives to `derived`."""
    if isinstance(node, list):
        return set().union(*(fields_read(part, derived) for part in node)) if node else set()
    if not isinstance(node, dict):
        return set()
    own = {node["field"]} if isinstance(node.get("field"), str) else set()
    for transform in node.get("transform", ()):
        names = transform.get("as", ())
        derived |= {names} if isinstance(names, str) else {*names}
        own |= {*transform.get("fold", ())}
    return own.union(*(fields_read(part, derived) for part in node.values()))


def same_numbers(content: bytes, shown: pd.DataFrame) -> None:
    """Assert that a CSV holds a table's columns, rows and exact values: they are copied, not computed."""
    first, *rows = csv.reader(io.StringIO(content.decode()))
    assert first == list(shown)
    assert len(rows) == len(shown)
    for column, texts in zip(shown, zip(*rows, strict=True), strict=True):
        if shown[column].dtype.kind in "fi":
            numbers = [float(text or "nan") for text in texts]
            same = np.array_equal(numbers, shown[column].astype(float), equal_nan=True)
            kind = shown[column].dtype
            assert same, (
                f"{column} is {kind}: give a page float64, of which a file has every digit."
            )
        else:
            words = ["" if pd.isna(cell) else csv_cell(str(cell)) for cell in shown[column]]
            assert list(texts) == words, column
