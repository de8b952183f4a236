"""The page Check my encoding as its tests use it: files that are given, tables by NumPy, what is said."""

import csv
import io
import math

import numpy as np
import pandas as pd
from streamlit.testing.v1 import AppTest

from tests.pages import as_read, drawn, visit

PAGE = "check_my_encoding"
FOUND, COLUMNS = "what this table is", "largest difference by column"
LAYOUTS, PROBES = "scores of two layouts", "probes of positions"
SMALL = {"dim": "64", "heads": "2", "length": "48", "train_length": "32"}


def said(at: AppTest) -> list[str]:
    return [as_read(one.value) for one in at.main.markdown]


def waves(
    rows: int, width: int, base: float = 1e4, start: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines (rows, pairs) by NumPy alone."""
    ladder = np.array([base ** (-2 * m / width) for m in range(width // 2)])
    angles = np.arange(start, start + rows)[:, None] * ladder
    return np.cos(angles), np.sin(angles)


def beside(sin: np.ndarray, cos: np.ndarray) -> np.ndarray:
    return np.stack((sin, cos), -1).reshape(len(sin), -1)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def give(content: bytes, name: str = "table.npy", sines: bytes | None = None) -> AppTest:
    at = drawn(visit(PAGE, SMALL, check_upload=True))
    at.main.get("file_uploader")[0].set_value((name, content, "application/octet-stream")).run()
    if sines is not None:
        second = at.main.get("file_uploader")[1]
        second.set_value(("sines.npy", sines, "application/octet-stream")).run()
    return at


def compare(printed: str, frame: pd.DataFrame) -> None:
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert len(rows) == len(frame)
    for n, row in enumerate(rows):
        for name, text in row.items():
            value = frame[name].iloc[n]
            if text == "":
                assert value is None or (isinstance(value, float) and math.isnan(value)), name
            elif isinstance(value, str):
                assert text == value
            else:
                assert float(text) == float(value), name
