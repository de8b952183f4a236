"""`posenc protocol`: a plan of runs, how long they take, and the runs themselves in slices."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from posenc.checkpoints.sources import RESULTS
from posenc.cli.runs import PLUGIN, READ_STORE, refuse_to_write
from posenc.lab.context_gain import context_losses
from posenc.lab.listing import run_name
from posenc.lab.methods import methods
from posenc.lab.protocol import SHIPPED, Part, Protocol, read_protocol
from posenc.lab.protocol_record import ship
from posenc.lab.run_once import Speed, calibrate, run_once
from posenc.lab.runs import Store
from posenc.lab.specification import Specification
from posenc.lab.sweep import read_text
from posenc.text import count_of

FAILED = 1  # exit status where a run failed


@click.command(
    name="protocol",
    help="Print the parts of a plan of runs (FILE, or the plan of the results that ship), how many runs "
    "are in the store and the minutes of the others on one core of this machine. With --run, make them.",
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--run", "part", metavar="PART", help="Make the runs of a part, its sweep first.")
@click.option(
    "--minutes", type=click.FloatRange(0), help="Begin no further run after so many minutes."
)
@click.option(
    "--share",
    type=(click.IntRange(0), click.IntRange(1)),
    metavar="I N",
    help="Every N-th run from the I-th, so that N commands side by side share the work.",
)
@click.option(
    "--methods",
    "described",
    metavar="PART",
    help="Print a paragraph on the stored runs of a part, for a paper.",
)
@click.option(
    "--ship",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write to this folder the runs of the tables that are in the store, and protocol.csv: the part of "
    "each, and the losses of the sweeps. As a store it goes on where this one stands.",
)
@click.option(
    "--texts",
    is_flag=True,
    help="Print the sizes of the texts, and the loss of byte counts after 0, 1, ... bytes of context.",
)
@READ_STORE
@PLUGIN
def run_protocol(
    file: Path | None, part: str | None, described: str | None, folder: Path | None, texts: bool,
    minutes: float | None, share: tuple[int, int] | None, store: str | None,
) -> None:  # fmt: skip
    protocol, opened = read_protocol(file or SHIPPED), Store(store)
    if texts:
        for text in dict.fromkeys(each.text for each in protocol.parts.values() if each.text):
            click.echo(_text_line(text))
        return
    if folder is not None:
        ship(protocol.record(opened), opened, Store(folder))
        return
    if described is not None:
        click.echo(methods(protocol, described, opened))
        return
    if part is None:
        speed = calibrate()
        for each in protocol.parts.values():
            click.echo(_line(protocol, each, opened, speed))
        return
    if store == str(RESULTS):
        refuse_to_write()
    opened.check_writable()
    end = None if minutes is None else time.monotonic() + 60 * minutes
    place, parts = share or (0, 1)
    failed = False
    while end is None or time.monotonic() <= end:
        left = _left(protocol, part, opened)
        mine = (run for run in left if int(run.run_id, 16) % parts == place % parts)
        specification = next(mine, None)
        if specification is None:
            break
        corpus = read_text(protocol.part(part).text) if specification.corpus else None
        try:
            run = run_once(specification, corpus, opened)
        except KeyboardInterrupt:
            click.echo("\nStopped. The same command goes on from here.", err=True)
            sys.exit(130)
        failed |= run.stopped is not None
        click.echo(f"{run.run_id}  {run_name(specification)}  {run.stopped or 'done'}")
    if failed:
        sys.exit(FAILED)


def _left(protocol: Protocol, name: str, store: Store) -> Iterator[Specification]:
    """Iterate over the runs of a part that the store lacks, by scheme: of its sweep, then the others.

    The others of a scheme are known when its sweep is complete.
    """
    for kind in protocol.part(name).schemes:
        swept = protocol.sweep_losses(name, kind, store)
        yield from (run for run, loss in swept.items() if loss is None)
        runs = protocol.runs(name, store, kind)
        yield from (run for run in runs if not store.has(run.run_id))


def _text_line(text: str) -> str:
    """Return a line on a text: its bytes, and how much its context can help."""
    corpus = read_text(text)
    losses = ", ".join(f"{loss:.3f}" for loss in context_losses(corpus))
    return (
        f"{text}: {corpus.name}, {len(corpus.train):,} bytes and {len(corpus.validation):,} for "
        f"validation; loss after 0, 1, ... bytes of context: {losses}"
    )


def _line(protocol: Protocol, part: Part, store: Store, speed: Speed) -> str:
    """Return a line on a part: its runs, how many of them are stored, and minutes for the others."""
    swept: dict[Specification, float | None] = {}
    for kind in part.schemes:
        swept |= protocol.sweep_losses(part.name, kind, store)
    left = [run for run, loss in swept.items() if loss is None]
    every = protocol.planned(part.name)
    done = sum(store.has(run.run_id) for run in protocol.runs(part.name, store))
    # Rates change no minute, so runs whose rates are not known yet take as long as planned.
    seconds = sum(map(speed.seconds, left))
    seconds += sum(map(speed.seconds, every)) * (1 - done / max(1, len(every)))
    whole = count_of(len(swept) + len(every), "run")
    made = len(swept) - len(left) + done
    return f"{part.name} {part.digest}: {part.title}. {made} of {whole}, {seconds / 60:,.0f} minutes left"
