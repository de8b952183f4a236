"""What tests of Check my encoding share: its uploader, its data by title, tables kept as uploads."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from streamlit.testing.v1 import AppTest

from dashboard import visitor_files
from dashboard.blocks import Data, Page
from dashboard.settings import Setting
from posenc.checkpoints.array_files import NumberTable
from tests.dashboard.pages import drawn, visit

FOUND, COLUMNS = "What this table is", "Differences of every column"
SCORES, PROBES = "Scores of two layouts", "Probes of positions"
BFLOAT16 = "RoPE cache in bfloat16"
PAGE = "check_my_encoding"
SMALL = {"dim": "64", "heads": "2", "length": "48", "train_length": "32"}
SETTING = Setting(dim=64, heads=2, length=48, train_length=32)


def open_uploader(link: dict[str, str] = SMALL) -> AppTest:
    return drawn(visit(PAGE, link))


def numbers(shown: Page, title: str) -> pd.DataFrame:
    """Return the data of a page under a title."""
    (block,) = [b for b in shown.all_blocks if isinstance(b, Data) and b.title == title]
    return block.frame


def upload(at: AppTest, content: bytes, name: str = "table.npy", *, sines: bool = False) -> AppTest:
    """Give a file to the page's uploader, or to the second one for sines."""
    box: Any = at.main.get("file_uploader")[int(sines)]
    box.set_value((name, content, "application/octet-stream")).run()
    return at


def hold(rows: np.ndarray, source: str, sines: np.ndarray | None = None) -> str:
    second = None if sines is None else torch.tensor(sines)
    table = NumberTable(torch.tensor(rows), second, "")
    return visitor_files.cache_numbers(visitor_files.UploadedNumbers(table, source))
