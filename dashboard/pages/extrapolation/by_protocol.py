"""The view "by protocol" of Extrapolation: ranks of all schemes by task, and what changes a rank."""

from collections.abc import Sequence
from functools import partial

import pandas as pd

from dashboard import runs
from dashboard.blocks import (
    Block,
    Code,
    Controls,
    Data,
    Definition,
    Drawer,
    Findings,
    Page,
    Text,
)
from dashboard.pages.extrapolation.options import RANKED_AT, Options
from dashboard.script import whole_script
from dashboard.settings import Setting
from dashboard.text import listed
from posenc.checkpoints.file_store import store_url
from posenc.errors import PosencError
from posenc.lab.methods import methods
from posenc.lab.parts import task_of
from posenc.lab.ranks import Cell, Column, Ranks, State, ranked_parts, ranks
from posenc.lab.runs import Store
from posenc.lab.statistics import holm
from posenc.lab.tasks import TASKS
from posenc.schemes import SCHEMES
from posenc.text import count_of

MOST_FIRST = 4  # schemes that share the first rank and are named
MOST_CHANGES = 3  # schemes whose change of rank is named
CELLS = (
    "A cell has the rank, 1 for the best, and the mean: loss in nats, or the share of correct answers. "
    "Schemes that the trials do not tell apart share ranks."
)
GUIDE = (
    "A rank is a range: 1–4 means that the scheme may be the best or the fourth, because the trials do not "
    "tell it apart from the others. A single 1 is clearly the best. Each scheme has the learning "
    "rate that was best for it in a sweep. Runs of a trial share the weights at the start and the data. "
    "Text is ranked by loss, other tasks by the share of correct answers. A scheme that has not learned a "
    "task in training has no rank. Left out: the plan of the runs does not have the scheme in this part. "
    "Flip-flop has no length past training: texts with other shares of ignored instructions stand beside "
    "each length."
)
DEFINITION = Definition(
    r"1 + b_i \le r_i \le n - w_i",
    "Of n schemes, b are clearly better and w clearly worse than scheme i. "
    "A scheme is clearly better where the mean difference within pairs of trials has p <= 0.05 (Student's "
    "t), after the correction of Holm 1979 for all pairs of schemes in all columns of a task.",
    (ranks, holm),
)
WHY = (
    "**Which scheme is best depends on the protocol.** Kazemnejad et al. 2023 (arXiv 2305.19466) score "
    "exact answers at up to twice the length: NoPE is first in copying, addition and "
    "other tasks. Zhou et al. 2024 (arXiv 2402.09371) reach addition of 2.5 times the length with FIRE "
    "(arXiv 2310.04418) and index hints, with large differences between seeds. Press et al. 2022 (arXiv "
    "2108.12409) score the loss of text, where near tokens matter most: ALiBi keeps it. Each is true of "
    "its task, its lengths and its training."
)
IMPORTS = """
from posenc.checkpoints.sources import RESULTS
from posenc.lab import Store
from posenc.lab.protocol import read_protocol
from posenc.lab.ranks import ranks
"""
SCRIPT = """
runs = [*Store(str(RESULTS)), *Store()]
print(ranks(read_protocol(), runs).to_csv(), end="")
"""


def page(setting: Setting, options: Options) -> Page:
    """Return the page, which depends on the runs that are there, so that it is never cached."""
    found = runs.of_protocol(runs.all_ids())
    columns = at(found, RANKED_AT[options.ranked_at])
    top = Controls(("half", *(("ranked_at",) if found.columns else ())))
    if not found.columns:
        return Page(
            title="Extrapolation",
            headline="No model of the protocol is here yet, so no scheme has a rank.",
            blocks=(top, Text(_plan(), "caption"), Text(WHY)),
            guide=GUIDE,
            definition=DEFINITION,
        )
    table = pd.DataFrame(_rows(found, columns))
    return Page(
        title="Extrapolation",
        headline=headline(found, columns),
        blocks=(
            top,
            Text(f"{CELLS} {about(found, columns)}", "caption"),
            Findings("ranks", table),
            Text(" ".join(filter(None, (WHY, changes(found))))),
            Drawer(
                "ranks_paper",
                "For a paper: methods and LaTeX",
                partial(_paper, found),
                icon="article",
            ),
            Data(title="Ranks", frame=found.to_frame()),
        ),
        guide=GUIDE,
        definition=DEFINITION,
        script=lambda: whole_script(IMPORTS, "", SCRIPT),
    )


def at(found: Ranks, times: int) -> list[int]:
    """Return the places of the columns at a length; what is no length stands beside all past training."""
    return [
        place
        for place, column in enumerate(found.columns)
        if column.times == times or (column.times is None and times > 1)
    ]


def name(column: Column) -> str:
    """Return the heading of a column."""
    return f"{part_name(column.part)}, {column.measure}"


def headline(found: Ranks, columns: Sequence[int]) -> str:
    """Return which schemes may be the best in each column, or that the trials tell none apart."""
    parts = []
    for place in columns:
        first = [
            SCHEMES[kind].label
            for kind, cells in found.rows.items()
            if (rank := cells[place].rank) is not None and rank.first == 1
        ]
        ranked = sum(cells[place].rank is not None for cells in found.rows.values())
        if ranked < 2:
            continue
        if len(first) == ranked:
            words = f"the trials tell none of {ranked} schemes apart"
        elif len(first) > MOST_FIRST:
            words = f"{len(first)} of {ranked} schemes may be the best"
        elif len(first) > 1:
            words = f"{listed(first)} may be the best of {count_of(ranked, 'scheme')}"
        else:
            words = f"{first[0]} is clearly the best of {count_of(ranked, 'scheme')}"
        parts.append(f"{name(found.columns[place])}: {words}.")
    return " ".join(parts) or "Too few schemes are measured here for a rank."


def about(found: Ranks, columns: Sequence[int]) -> str:
    """Return how many trials the ranks have, and which parts have no column yet."""
    trials = {part_name(c.part): c.trials for c in (found.columns[place] for place in columns)}
    counts = {*trials.values()}
    if len(counts) == 1:
        sentences = [f"{count_of(counts.pop(), 'trial')} each."]
    else:
        sentences = [f"Trials: {', '.join(f'{part} {number}' for part, number in trials.items())}."]
    waiting = [part.name for part in ranked_parts(runs.protocol()) if part.name not in found.pairs]
    if waiting:
        sentences.append(f"No runs yet: {listed(list(map(part_name, waiting)))}.")
    return " ".join(sentences)


def changes(found: Ranks) -> str:
    """Return the schemes whose ranges of ranks lie farthest apart in two columns, "" for none."""
    gaps = []
    for kind, cells in found.rows.items():
        ranked = [
            (cell.rank, name(column))
            for column, cell in zip(found.columns, cells, strict=True)
            if cell.rank is not None
        ]
        if ranked:
            best = min(ranked, key=lambda each: each[0].last)
            worst = max(ranked, key=lambda each: each[0].first)
            gaps.append((worst[0].first - best[0].last, SCHEMES[kind].label, best, worst))
    gaps.sort(key=lambda gap: (-gap[0], gap[1]))
    parts = [
        f"{label} has rank {best[0]} on {best[1]} and {worst[0]} on {worst[1]}"
        for gap, label, best, worst in gaps[:MOST_CHANGES]
        if gap > 0
    ]
    return f"Here, over all lengths, {'; '.join(parts)}." if parts else ""


def _rows(found: Ranks, columns: Sequence[int]) -> list[dict[str, str]]:
    """Return the table, sorted by its first column of ranks, ties by the next; without a rank last."""

    def order(kind: str) -> list[tuple[bool, int]]:
        own = (found.rows[kind][place].rank for place in columns)
        return [(rank is None, 0 if rank is None else rank.first + rank.last) for rank in own]

    kinds = [
        kind
        for kind, cells in found.rows.items()
        if any(cells[place].state != State.LEFT_OUT for place in columns)
    ]
    return [
        {"scheme": SCHEMES[kind].label}
        | {
            name(found.columns[place]): _words(found.columns[place], found.rows[kind][place])
            for place in columns
        }
        for kind in sorted(kinds, key=order)
    ]


def _words(column: Column, cell: Cell) -> str:
    """Return a cell in words, with the trials where some are missing or did not learn the task."""
    if cell.state == State.LEFT_OUT:
        return "left out"
    learned = None
    if cell.solved is not None and cell.solved.solved < cell.solved.trials:
        learned = f"{cell.solved} learned it"
    if cell.state == State.NOT_LEARNED and cell.solved is not None and cell.solved.solved:
        return f"only {learned}"
    notes = [learned] if learned and cell.state != State.NOT_LEARNED else []
    if 0 < cell.trials < column.trials:
        notes.insert(0, f"{cell.trials} of {count_of(column.trials, 'trial')}")
    words = str(cell)
    if cell.rank is not None and cell.mean is not None:
        words += f" · {cell.mean:.3f}" if column.loss else f" · {cell.mean:.0%}"
    return f"{words} ({', '.join(notes)})" if notes else words


def part_name(name: str) -> str:
    """Return what a part is called on the page: its task, or its text."""
    part = runs.protocol().part(name)
    return TASKS[task_of(part)].label if part.text is None else name.capitalize()


def _plan() -> str:
    """Return what the protocol will measure."""
    parts = [
        f"{part_name(part.name)} ({len(part.schemes)} schemes, {count_of(len(part.trials), 'trial')})"
        for part in ranked_parts(runs.protocol())
    ]
    return f"The protocol ranks schemes on {listed(parts)}."


def _paper(found: Ranks) -> list[Block]:
    """Return the paragraph on methods of every part, and the table as LaTeX."""
    blocks: list[Block] = []
    for part in found.pairs:
        if paragraph := _methods(part):
            blocks += [Text(f"Methods, {part_name(part)}"), Code(paragraph)]
    in_csv = Text("As CSV: `posenc runs --ranks csv`.")
    return [*blocks, Text("LaTeX, for booktabs"), Code(found.to_latex()), in_csv]


def _methods(part: str) -> str:
    """Return the paragraph on the runs of a part, "" where the store has none at the planned rates."""
    for url in (runs.SHIPPED, store_url()):
        try:
            return methods(runs.protocol(), part, Store(url))
        except PosencError:
            continue
    return ""
