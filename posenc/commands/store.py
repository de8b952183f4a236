"""The store of runs that a command works on: its option, how it is read, how lines name its runs."""

import click

from posenc.lab.runs import Store
from posenc.lab.specification import Specification

STORE = click.option("--store", help="Folder or URL of the runs; default $POSENC_RUNS.")


def reading(store: str | None) -> Store:
    """Open a store to read it, and say so where there is nothing in it."""
    opened = Store(store)
    if not opened.ids():
        click.echo(
            f"There are no runs in {opened.url}. Those that ship are in posenc/lab/results: "
            "--store reads another place.",
            err=True,
        )
    return opened


def say_left_out(store: Store) -> None:
    """Say which files of the store were left out, and why."""
    for clause in store.left_out():
        click.echo(f"{clause[0].upper()}{clause[1:]}.", err=True)


def run_name(specification: Specification) -> str:
    """Return what a line calls a run: its task, scheme and sizes."""
    base = getattr(specification.scheme, "base", None)
    parts = [specification.task, specification.scheme.label, f"L={specification.train_length}"]
    parts += [f"base={base:,.10g}"] if base is not None else []
    return " ".join([*parts, f"width={specification.model.width}", f"seed={specification.seed}"])
