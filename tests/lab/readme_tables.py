"""The tables of the lab's README, and the numbers that stand in them, by pandas and scipy alone.

The runs are read from their Parquet files and from protocol.csv, not by the library.
"""

import functools
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from posenc.checkpoints.sources import RESULTS
from posenc.schemes import SCHEMES

README = (Path(__file__).parents[2] / "posenc" / "lab" / "README.md").read_text()
TEXT = " ".join(README.split())
LABELS = {kind: config.label for kind, config in SCHEMES.items()}


@functools.cache
def scores(part: str) -> pd.DataFrame:
    """Every score of the runs of a part's table: measure, variant, x, value; scheme, seed, rates."""
    record = pd.read_csv(RESULTS / "protocol.csv")
    table = record[(record["part"] == part) & (record["stage"] == "table")]
    runs = [
        pd.read_parquet(RESULTS / f"{run}.parquet").assign(run_id=run) for run in table["run_id"]
    ]
    return pd.concat(runs).merge(table, on="run_id").replace({"scheme": LABELS})


def specification(run: str) -> dict[str, Any]:
    """Return the settings of a run, from the metadata of its file."""
    metadata = pq.read_schema(RESULTS / f"{run}.parquet").metadata
    of_run: dict[str, Any] = json.loads(metadata[b"posenc"])["specification"]
    return of_run


def sweep_losses(part: str) -> pd.DataFrame:
    """The loss of every run of a part's sweep, with its scheme, rates and seeds."""
    record = pd.read_csv(RESULTS / "protocol.csv").replace({"scheme": LABELS})
    return record[(record["part"] == part) & (record["stage"] == "sweep")]


def rows_of_table(first_cell: str) -> list[tuple[str, list[list[str]]]]:
    """Return the header and the cells of every table whose first column is called so."""
    pattern = rf"^\| {first_cell}(.*)\|\n\|[-|]+\n((?:\|.*\n)+)"
    tables = re.findall(pattern, README, re.MULTILINE)
    return [(head, [cells(line) for line in body.splitlines()]) for head, body in tables]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]
