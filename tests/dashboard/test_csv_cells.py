"""Cells of exported CSV files: no spreadsheet takes a text for a formula, and numbers stay numbers."""

import csv
import io

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard import export
from dashboard.charts import csv_file
from dashboard.components.matrix import Row, Scale
from dashboard.components.matrix.payload import Panel
from dashboard.components.matrix.values import Full
from posenc.text import csv_cell

CELLS = {
    "=1+1": "'=1+1",
    "+1+cmd|' /C calc'!A0": "'+1+cmd|' /C calc'!A0",
    "-2+3": "'-2+3",
    "@SUM(A1)": "'@SUM(A1)",
    "\t=1": "' =1",
    "\r=1": "' =1",
    "\n=1": "' =1",
    "\0=1": "' =1",
    "a\r=1": "a =1",
    "  =1": "'  =1",
    "\uff1d1+1": "'\uff1d1+1",  # a wide =
    "-": "'-",
    "-1_0": "'-1_0",
}
CELLS |= {text: text for text in ("-0.5", "+3e-7", "-inf", "-.5", "-nan", "a=1", "'quoted", "")}


def test_cell_is_marked_where_a_spreadsheet_would_compute_it() -> None:
    assert {text: csv_cell(text) for text in CELLS} == CELLS
    assert csv_cell(-0.5) == -0.5


@settings(max_examples=20)
@given(
    st.lists(st.text(max_size=12) | st.sampled_from([*CELLS]), min_size=1, max_size=6),
    st.lists(st.floats(), min_size=6, max_size=6),
)
def test_file_reads_back_as_its_cells(words: list[str], numbers: list[float]) -> None:
    frame = pd.DataFrame(
        {"=name": words, "value": numbers[: len(words)], "kind": pd.Categorical(words)}
    )
    text = csv_file.written(frame).decode("utf-8", "surrogatepass")
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["'=name", "value", "kind"]
    assert len(rows) == len(words)
    for row, word, number in zip(rows, words, numbers, strict=False):
        assert row[0] == row[2] == csv_cell(word)
        assert row[0].lstrip()[:1] not in ("=", "@")
        assert not set(row[0]) & {"\0", "\r", "\n", "\t"}
        # Numbers are written with all their digits, so that the same bits are read.
        assert row[1] == "" if np.isnan(number) else float(row[1]) == number


def test_cells_of_a_matrix_are_marked_and_exact() -> None:
    values = np.array([[-0.5, 1e-7], [np.pi, -2.0]])
    ticks = ((0, "=1+1"), (1, "-3"))
    panel = Panel(title="@SUM(A1)", values=Full(values), row_ticks=ticks)
    row = Row(panels=(panel,), key="m", scale=Scale(low=-2.0, high=4.0), text_alternative="m")
    cells = [*csv.DictReader(io.StringIO(export.matrix_csv(row).decode()))]
    assert [line["panel"] for line in cells] == ["'@SUM(A1)"] * 4
    assert [line["row name"] for line in cells] == ["'=1+1", "'=1+1", "-3", "-3"]
    assert [np.float32(line["value"]) for line in cells] == [*values.astype(np.float32).ravel()]
