"""The view "by protocol" of Extrapolation: ranks of all schemes by task, and what changes a rank."""

import itertools
from collections.abc import Iterator, Sequence
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
from posenc.lab.ranks import Column, Ranks, State, ranked_parts, ranks
from posenc.lab.runs import Store
from posenc.lab.statistics import holm
from posenc.lab.tasks import TASKS
from posenc.schemes import SCHEMES
from posenc.text import count_of

MOST_FIRST = 4  # schemes that share the first rank and are named
UNMEASURED = {State.LEFT_OUT, State.NOT_MEASURED}
CELLS = (
    "Rank 1 is the best; 1–4 means that the scheme may be any of the first four. Means over the trials: "
    "↓ loss in nats, lower is better; ↑ share of correct answers, higher is better. –: no rank, "
    "because the scheme was not run or has not learned the task."
)
RULES = (
    "Schemes that the trials do not tell apart share ranks. Where the trials are too few for any rank, the "
    "mean stands alone. A trial has learned a task where 90% of its answers in training or more are right, "
    "a scheme where its mean is so high. One that has not has no rank, and no mean past training, but on "
    "copying, where an answer is a whole string. Not run: not planned for this task."
)
POSSIBLE = "The ranks that the trials leave to a scheme: 1 alone is clearly the best."
LOWER, HIGHER = (
    "Mean loss in nats: lower is better.",
    "Mean share of correct answers: higher is better.",
)
NO_RANK = "–"
GUIDE = (
    "A rank is a range: 1–4 means that the scheme may be the best or the fourth, because the trials do not "
    "tell it apart from the others. A single 1 is clearly the best. Each scheme has the learning "
    "rate that was best for it in a sweep. Runs of a trial share the weights at the start and the data. "
    "Text is ranked by loss, other tasks by the share of correct answers. A scheme that has not learned a "
    "task in training has no rank, but on copying. "
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
    return Page(
        title="Extrapolation",
        headline=headline(found, columns),
        blocks=(
            top,
            Text(CELLS, "caption", help=RULES),
            Findings("ranks", pd.DataFrame(_rows(found, columns)), _helps(found, columns)),
            Text(about(found, columns), "caption"),
            Text(WHY),
            *changes(found, columns),
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
    """Return the heading of a column. A loss is read at a context, which is not the training length."""
    read = "read at " if column.loss else ""
    return f"{part_name(column.part)}, {read}{column.measure}"


def _heads(column: Column) -> tuple[str, str]:
    """Return the headings of the ranks of a column and of its means."""
    if column.loss:
        part = part_name(column.part)
        return f"{part}, possible ranks", f"{part}, loss at {column.measure} ↓"
    return f"{name(column)}, possible ranks", f"{name(column)} ↑"


def _helps(found: Ranks, columns: Sequence[int]) -> dict[str, str]:
    """Return what the columns of the table hold, by heading."""
    helps: dict[str, str] = {}
    for place in columns:
        ranks, means = _heads(found.columns[place])
        helps |= {ranks: POSSIBLE, means: LOWER if found.columns[place].loss else HIGHER}
    return helps


def has_different_ranks(found: Ranks, place: int) -> bool:
    """Return whether the trials of a column tell some scheme from another: not all share all ranks."""
    ranked = [rank for cells in found.rows.values() if (rank := cells[place].rank)]
    return any(rank.last - rank.first + 1 < len(ranked) for rank in ranked)


def never_learned(found: Ranks, place: int) -> bool:
    """Return whether no scheme of a column has learned its task, so that none has a rank."""
    states = {cells[place].state for cells in found.rows.values()}
    return states <= {State.NOT_LEARNED, State.LEFT_OUT}


def headline(found: Ranks, columns: Sequence[int]) -> str:
    """Return which schemes may be the best in each column that has ranks."""
    compared = [place for place in columns if _ranked(found, place) > 1]
    if not compared:
        return "Too few schemes are measured here for a rank."
    parts, winners = [], 0
    for place in compared:
        if not has_different_ranks(found, place):
            continue
        first = [
            SCHEMES[kind].label
            for kind, cells in found.rows.items()
            if (rank := cells[place].rank) is not None and rank.first == 1
        ]
        schemes = count_of(_ranked(found, place), "scheme")
        winners += len(first) == 1
        if len(first) > MOST_FIRST:
            words = f"{len(first)} of {schemes} may be the best"
        elif len(first) > 1:
            words = f"{listed(first)} may be the best of {schemes}"
        else:
            words = f"{first[0]} is clearly the best of {schemes}"
        parts.append(f"{name(found.columns[place])}: {words}.")
    if not winners:
        parts.insert(0, "No scheme is clearly the best.")
    return " ".join(parts)


def _ranked(found: Ranks, place: int) -> int:
    """Return how many schemes have a rank in a column."""
    return sum(cells[place].rank is not None for cells in found.rows.values())


def _too_few(found: Ranks, columns: Sequence[int]) -> str:
    """Return in which columns the trials tell no scheme from another, "" where there is none."""
    alike = [
        place
        for place in columns
        if _ranked(found, place) > 1 and not has_different_ranks(found, place)
    ]
    if not alike:
        return ""
    named = "; ".join(
        f"{name(found.columns[place])} ({_ranked(found, place)} schemes, "
        f"{count_of(found.columns[place].trials, 'trial')})"
        for place in alike
    )
    return f"Without ranks, because a test of all pairs of schemes needs more trials: {named}."


def about(found: Ranks, columns: Sequence[int]) -> str:
    """Return how many trials the ranks have, and which parts have no column yet."""
    drawn = [found.columns[place] for place in columns if not never_learned(found, place)]
    trials = {part_name(column.part): column.trials for column in drawn}
    counts = {*trials.values()}
    sentences = []
    if len(counts) == 1:
        sentences = [f"{count_of(counts.pop(), 'trial')} each."]
    elif counts:
        sentences = [f"Trials: {', '.join(f'{part} {number}' for part, number in trials.items())}."]
    waiting = [part.name for part in ranked_parts(runs.protocol()) if part.name not in found.pairs]
    if waiting:
        sentences.append(f"No runs yet: {listed(list(map(part_name, waiting)))}.")
    if too_few := _too_few(found, columns):
        sentences.append(too_few)
    if failed := [name(found.columns[place]) for place in columns if never_learned(found, place)]:
        sentences.append(f"Without a column, because no scheme has learned it: {listed(failed)}.")
    missing = [
        SCHEMES[kind].label
        for kind, cells in found.rows.items()
        if (states := {cells[place].state for place in columns}) <= UNMEASURED
        and State.NOT_MEASURED in states
    ]
    if missing:
        sentences.append(f"Not measured yet: {listed(missing)}.")
    return " ".join(sentences)


def changes(found: Ranks, columns: Sequence[int]) -> list[Block]:
    """Return how many pairs of schemes change places between two tasks, and between two lengths of a text.

    columns: places of those at one length. Two schemes clearly change places where one is clearly better in
    one column and clearly worse in the other.
    """
    ranked = [place for place in columns if has_different_ranks(found, place)]
    pairs = [*itertools.combinations(ranked, 2), *_ends_of_texts(found)]
    parts = []
    for one, other in pairs:
        swapped, compared = swaps(found, one, other)
        if not compared:
            continue
        words = f"{_of_both(found.columns[one], found.columns[other])}: "
        if swapped:
            better, worse = (SCHEMES[kind].label for kind in swapped[0])
            words += (
                f"{len(swapped)} of {compared:,}, for example {better}, better in the first, and {worse}, "
                "better in the second"
            )
        else:
            words += f"none of {compared:,}"
        parts.append(words)
    lines = "\n".join(f"- {part}." for part in parts)
    return [Text(f"Pairs of schemes that clearly change places here:\n{lines}")] if parts else []


def _ends_of_texts(found: Ranks) -> Iterator[tuple[int, int]]:
    """Iterate over the texts: the places of the column of training and of that of the longest context."""
    parts: dict[str, list[int]] = {}
    for place, column in enumerate(found.columns):
        if column.loss and has_different_ranks(found, place):
            parts.setdefault(column.part, []).append(place)
    for places in parts.values():
        first, last = (
            each(places, key=lambda place: found.columns[place].x) for each in (min, max)
        )
        if first != last:
            yield first, last


def _of_both(one: Column, other: Column) -> str:
    """Return the names of two columns, of which one text is named once."""
    if one.part == other.part:
        return f"{name(one)} and at {other.measure}"
    return f"{name(one)} and {name(other)}"


def swaps(found: Ranks, one: int, other: int) -> tuple[list[tuple[str, str]], int]:
    """Return the pairs of schemes that clearly change places between two columns, and how many are in both.

    The first of a pair is better in column `one`; the pairs that lie farthest apart there come first.
    """
    both = {
        kind: (cells[one], cells[other])
        for kind, cells in found.rows.items()
        if cells[one].rank is not None and cells[other].rank is not None
    }
    pairs = [
        (better, worse)
        for better, worse in itertools.permutations(both, 2)
        if worse in both[better][0].better_than and better in both[worse][1].better_than
    ]

    def apart(pair: tuple[str, str]) -> float:
        (before, _), (after, _) = both[pair[0]], both[pair[1]]
        return abs((before.mean or 0.0) - (after.mean or 0.0))

    return sorted(pairs, key=apart, reverse=True), len(both) * (len(both) - 1) // 2


def _rows(found: Ranks, columns: Sequence[int]) -> list[dict[str, str]]:
    """Return the table, sorted by the mean of what has a rank in its first column, else by the next.

    A column in which no scheme has learned the task, and a scheme that was not measured, stand below it.
    """
    drawn = [place for place in columns if not never_learned(found, place)]

    def order(kind: str) -> list[tuple[bool, float]]:
        keys = []
        for place in drawn:
            rank, mean = found.rows[kind][place].rank, found.rows[kind][place].mean or 0.0
            keys.append((rank is None, mean if found.columns[place].loss else -mean))
        return keys

    kinds = [
        kind
        for kind, cells in found.rows.items()
        if not {cells[place].state for place in drawn} <= UNMEASURED
    ]
    return [
        {"scheme": SCHEMES[kind].label}
        | {head: words for place in drawn for head, words in _cells(found, kind, place).items()}
        for kind in sorted(kinds, key=order)
    ]


def _cells(found: Ranks, kind: str, place: int) -> dict[str, str]:
    """Return what a scheme has in a column: its rank, where the trials leave one, and its mean."""
    column = found.columns[place]
    ranks_head, means_head = _heads(column)
    mean = {means_head: _words(found, kind, place)}
    if not has_different_ranks(found, place):
        return mean
    rank = found.rows[kind][place].rank
    return {ranks_head: NO_RANK if rank is None else str(rank)} | mean


def _words(found: Ranks, kind: str, place: int) -> str:
    """Return a mean in words, with the trials where some are missing or did not learn the task."""
    column, cell = found.columns[place], found.rows[kind][place]
    if cell.state == State.LEFT_OUT:
        return "not run"
    # What was not learned is a share of correct answers in training, and says nothing past it.
    has_mean = cell.rank is not None or (cell.state == State.NOT_LEARNED and column.in_training)
    if not has_mean or cell.mean is None:
        words = str(cell)
    else:
        words = f"{cell.mean:.3f}" if column.loss else f"{cell.mean:.0%}"
    notes = []
    if 0 < cell.trials < column.trials:
        notes.append(f"{cell.trials} of {count_of(column.trials, 'trial')}")
    if cell.solved is not None and cell.state != State.ENDS:
        some = 0 < cell.solved.solved < cell.solved.trials
        if some or (has_mean and not cell.solved.solved):
            notes.append(f"{cell.solved} learned it")
    return f"{words} ({', '.join(notes)})" if notes else words


def part_name(name: str) -> str:
    """Return what a part is called on the page: its task, or its text."""
    part = runs.protocol().part(name)
    task = TASKS[task_of(part)].label
    return task if part.text is None else f"{task} ({name})"


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
