"""Measure the app under load: `python -m tests.load`; figures of this machine, as a table.

Nothing here fails by a time: read the ratios. The faults must be none.
"""

import json
import sys
import tempfile
from pathlib import Path

import click

from posenc.lab.corpus import standard_library
from posenc.lab.queue import Queue
from posenc.lab.sweep import specifications
from tests.load.batches import run
from tests.load.figures import Figures, table
from tests.load.server import Served, served

PAGES = ("similarity", "overview", "encoding", "pca")  # those that send most


def training(place: Path) -> None:
    """Leave a start in the queue that keeps the server's background process at work."""
    wanted = specifications(
        ["rope"], corpus=standard_library(), widths=[128], layers=3, heads=4, steps=5_000,
        train_length=64,
    )  # fmt: skip
    Queue(place / "work" / "queue").add(wanted)


def growth(server: Served, reruns: int, warm: int) -> tuple[Figures, float]:
    """Return the figures of many reruns of four visitors, and by how many MB the server grew."""
    run(server, visitors=4, reruns=warm // 4, pause=0.0)
    before = server.memory()
    figures = run(server, visitors=4, reruns=reruns // 4, pause=0.0)
    return figures, server.memory() - before


@click.command()
@click.option(
    "--sessions", multiple=True, type=int, default=(1, 10, 25, 50, 100), show_default=True
)
@click.option("--page", "pages", multiple=True, default=PAGES, show_default=True)
@click.option("--pause", type=float, default=1.0, show_default=True, help="Seconds between turns.")
@click.option("--long-pause", type=float, default=10.0, show_default=True, help="From 50 on.")
@click.option("--reruns", type=int, default=8, show_default=True, help="Turns of each visitor.")
@click.option("--growth", "many", type=int, default=1_000, show_default=True)
@click.option("--trained/--not-trained", default=True, help="Measure beside a training run, too.")
@click.option("--json", "target", type=click.Path(path_type=Path))
def main(
    sessions: tuple[int, ...], pages: tuple[str, ...], pause: float, long_pause: float, reruns: int,
    many: int, trained: bool, target: Path | None,
) -> None:  # fmt: skip
    """Open the pages as many visitors at once and turn a control; report times, sizes and memory."""
    rows: list[tuple[str, Figures]] = []
    notes: dict[str, float] = {}
    for beside in (False, True) if trained else (False,):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            if beside:
                training(place)
            with served(place) as server:
                run(server, visitors=1, reruns=2, pause=0.0)
                notes.setdefault("base memory MB", server.memory())
                for page in pages:
                    for count in sessions:
                        figures = run(
                            server, visitors=count, reruns=reruns, page=page,
                            pause=long_pause if count >= 50 else pause,
                        )  # fmt: skip
                        title = f"{page}, {count}{', training' if beside else ''}"
                        rows.append((title, figures))
                        click.echo(table(rows[-1:]).splitlines()[1], err=True)
                if many and not beside:
                    figures, notes[f"growth over {many} reruns MB"] = growth(
                        server, many, many // 2
                    )
                    rows.append((f"{many} reruns", figures))
    click.echo(table(rows))
    for name, value in notes.items():
        click.echo(f"{name}: {value:,.1f}")
    if target:
        found = [{"batch": title} | figures.row() for title, figures in rows]
        target.write_text(json.dumps({"batches": found} | notes, indent=1))
    faults = sorted({fault for _, figures in rows for fault in figures.faults})
    for fault in faults:
        click.echo(f"fault: {fault}", err=True)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
