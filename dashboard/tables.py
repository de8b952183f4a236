"""Learned tables in words: those that ship, of runs made here, of an installed package, and uploads."""

import functools

from dashboard import run_descriptions, runs
from dashboard.visitor_files import cached_tables
from posenc.checkpoints import minilm_table
from posenc.checkpoints.position_table import Candidate
from posenc.checkpoints.sources import TRAINED_TABLE, named_table
from posenc.text import printable_name

FACTS = {
    "trained": "From a small language model that comes with posenc.",
    "random": "A random start, untrained.",
    "minilm": "The trained table of all-MiniLM-L6-v2, 512 x 384.",
}


@functools.cache
def minilm_installed() -> bool:
    """Whether the package with a real trained table is on this machine."""
    return minilm_table() is not None


def available(uploaded: tuple[str, ...]) -> list[str]:
    """Return the names of all tables that are held right now. uploaded: by this visitor."""
    packaged = ["minilm"] if minilm_installed() else []
    held = [name for name in uploaded if name in cached_tables]
    trained = runs.with_learned_table(runs.all_ids())
    return [
        "trained",
        "random",
        *packaged,
        *held,
        *(f"run-{n}" for n in trained if n != TRAINED_TABLE),
    ]


def facts(source: str) -> list[str]:
    """Return what is known of a table. Raises CheckpointError where it is not here."""
    what = FACTS.get(source)
    if what is None:
        rows, width = named_table(source).table.shape
        made = (
            "Learned by another small model" if source.startswith("run-") else "An uploaded table"
        )
        what = f"{made}, {rows} x {width}."
    if sentence := run_descriptions.table_description(source):
        return [what, sentence]
    return [what] if source == "random" else [what, *named_table(source).notes]


def candidate(table: Candidate) -> str:
    """Return one of several tables of a file as a list has it."""
    return f"{printable_name(table.name)}: {table.rows} x {table.width}"
