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
import scipy.stats

from posenc.checkpoints.sources import RESULTS
from posenc.schemes import SCHEMES

README = (Path(__file__).parents[2] / "posenc" / "lab" / "README.md").read_text()
TEXT = " ".join(README.split())
PARTS = ("code", "prose")  # in the order of their tables
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


def interval(values: "pd.Series[float]") -> tuple[float, float, float]:
    """The mean of paired differences with Student's 95% interval."""
    half = scipy.stats.t.ppf(0.975, len(values) - 1) * scipy.stats.sem(values)
    return values.mean(), values.mean() - half, values.mean() + half


def starred(gaps: dict[Any, Any]) -> set[Any]:
    """The keys of the differences that keep p <= 0.05 after Holm's correction for all of them."""
    p_values = {key: scipy.stats.ttest_1samp(gap, 0).pvalue for key, gap in gaps.items()}
    highest, found = 0.0, set()
    for left, key in enumerate(sorted(p_values, key=lambda key: p_values[key])):
        highest = max(highest, (len(p_values) - left) * p_values[key])
        if highest <= 0.05:
            found.add(key)
    return found


def named(frame: pd.DataFrame) -> "pd.Series[str]":
    """The scheme of each score, and how it was read unless as it was trained."""
    read = frame["variant"].where(frame["variant"] != "as trained", "")
    return frame["scheme"] + read.where(read == "", ", " + read)


def losses_by_context(part: str) -> Any:
    """The loss of every trial: a row for each scheme as it was read, a column for each length and seed."""
    losses = scores(part).query("measure == 'context'")
    return losses.assign(label=named(losses)).pivot_table(
        index="label", columns=["x", "seed"], values="value"
    )
