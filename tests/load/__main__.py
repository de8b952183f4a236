"""Measure the app under load: `python -m tests.load`; figures of this machine, as a table.

Batches are "new", where every setting is asked for the first time and by one visitor, or "seen", where all
turn a control of one link through its 71 stops, which others may have done before.

Nothing here fails by a time: read the ratios. The faults must be none.
"""

import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from dashboard.server import jobs
from posenc.lab.corpus import standard_library
from posenc.lab.sweep import specifications
from tests.load.batches import Figures, run, table
from tests.load.server import Replicas, Served, replicas

MANY = 50  # sessions that pause for long, as people who read
PAGES = ("similarity", "overview", "encoding", "pca")  # those that send most


def training(place: Path) -> None:
    """Leave starts in the folder of jobs that keep the server's background process at work for hours."""
    for width in (128, 192, 256):
        wanted = specifications(
            ["rope"], corpus=standard_library(), widths=[width], layers=3, heads=4, steps=5_000,
            train_length=64, seeds=5,
        )  # fmt: skip
        jobs.add(place / "work" / "jobs", wanted, waiting=8)


def trains(place: Path) -> bool:
    folder = place / "work" / "jobs"
    return any(jobs.progress(folder, job.name).step for job in jobs.jobs(folder))


def measured(server: Served | Replicas, place: Path | None, **asked: Any) -> Figures:
    """Return the figures of a batch; place: where something must be trained meanwhile."""
    before = place is None or trains(place)
    figures = run(server, **asked)
    if not (before and (place is None or trains(place))):
        figures.faults.append("nothing was being trained")
    return figures


def growth(server: Served | Replicas, reruns: int, warm: int) -> tuple[Figures, float]:
    """Return the figures of many reruns of four visitors, and by how many MB the server grew."""
    run(server, visitors=4, reruns=warm // 4, pause=0.0)
    before = server.memory()
    figures = run(server, visitors=4, reruns=reruns // 4, pause=0.0)
    return figures, server.memory() - before


@click.command()
@click.option(
    "--sessions", multiple=True, type=int, default=(1, 10, 25, 50, 100), show_default=True
)
@click.option("--servers", type=int, default=1, show_default=True, help="Processes of one store.")
@click.option("--page", "pages", multiple=True, default=PAGES, show_default=True)
@click.option("--pause", type=float, default=1.0, show_default=True, help="Seconds between turns.")
@click.option("--long-pause", type=float, default=10.0, show_default=True, help="From 50 on.")
@click.option("--reruns", type=int, default=8, show_default=True, help="Turns of each visitor.")
@click.option("--growth", "many", type=int, default=1_000, show_default=True)
@click.option("--trained/--not-trained", default=True, help="Measure beside a training run, too.")
@click.option("--json", "target", type=click.Path(path_type=Path))
def main(
    sessions: tuple[int, ...], servers: int, pages: tuple[str, ...], pause: float, long_pause: float,
    reruns: int, many: int, trained: bool, target: Path | None,
) -> None:  # fmt: skip
    """Open the pages as many visitors at once and turn a control; report times, sizes and memory."""
    rows: list[tuple[str, Figures]] = []
    notes: dict[str, float] = {}

    def note(title: str, figures: Figures) -> None:
        rows.append((title, figures))
        click.echo(table(rows[-1:]).splitlines()[1], err=True)

    for beside in (False, True) if trained else (False,):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            if beside:
                training(place)
            profile = {"POSENC_PROFILE": "shared", "POSENC_RUNNING": "1"}
            with replicas(place, servers, **profile) as server:
                run(server, visitors=servers, reruns=2, pause=0.0)
                notes.setdefault("base memory MB", server.memory())
                while beside and not trains(place):
                    time.sleep(1)
                for page, count in itertools.product(pages, sessions):
                    many_at_once = count >= MANY
                    for said in ("new",) if many_at_once else ("new", "seen"):
                        asked = {
                            "visitors": count, "page": page, "alike": said == "seen",
                            "reruns": reruns // 2 if many_at_once else reruns,
                            "pause": long_pause if many_at_once else pause,
                        }  # fmt: skip
                        figures = measured(server, place if beside else None, **asked)
                        note(f"{page}, {count}, {said}{', training' if beside else ''}", figures)
                if many and not beside:
                    name = f"growth over {many} reruns MB"
                    figures, notes[name] = growth(server, many, many // 2)
                    note(f"{many} reruns", figures)
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
