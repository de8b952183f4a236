"""Ranks of schemes by task and by distance past training, with the ties that the trials leave.

A scheme's rank is a range: from one more than the number of schemes that are clearly better, to the number
of all ranked schemes less those that are clearly worse. So schemes that the trials do not tell apart share
ranks. One is clearly better where the mean difference within pairs of trials has p <= 0.05, corrected for
all pairs of schemes in all columns of its part (Holm 1979).
"""

import csv
import io
import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from posenc.lab.best_rates import TriedRates, recorded_rates, tried_rates
from posenc.lab.evaluate import TRAINED
from posenc.lab.parts import RunsOfPart, runs_of_part, task_of
from posenc.lab.protocol import Part, Protocol
from posenc.lab.protocol_record import Recorded, shipped_record
from posenc.lab.result_table import latex_text
from posenc.lab.runs import Run
from posenc.lab.specification import Trial
from posenc.lab.statistics import CONFIDENCE, holm, paired_mean
from posenc.lab.summary import Curve, SolveRate, curves, in_range, judged, solve_rate
from posenc.lab.tasks import TASKS, Language, Questions
from posenc.notebook import Shown, View
from posenc.schemes import SCHEMES
from posenc.text import count_of

TIMES = (1, 2, 4, 16)  # training lengths at which schemes are ranked


class State(StrEnum):
    """Whether a scheme has a rank in a column, and why not."""

    RANKED = "ranked"
    NOT_LEARNED = "not learned"
    ALONE = "measured alone"
    ENDS = "ends in training"
    STOPPED = "stopped early"
    NOT_MEASURED = "not measured yet"
    LEFT_OUT = "not in this part"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A measure by which schemes are ranked: a part of the protocol at a length or at another measure.

    measure: "1,024 tokens". times: the length over that of training, None where x is no length.
    trials: how many each scheme shall have. loss: whether a lower value is better.
    """

    part: str
    title: str
    measure: str
    x: int
    times: int | None
    in_training: bool
    trials: int
    loss: bool


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The ranks that the trials leave to a scheme: 1 to 1 where it is clearly the best of all."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}\u2013{self.last}"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A scheme in a column. mean: of `trials` trials, nats or a share of 1, None where there is no value.

    rank: None unless ranked. solved: how many trials learned the task, None for losses. better_than: the
    schemes than which it is clearly better.
    """

    state: State
    mean: float | None = None
    trials: int = 0
    rank: Rank | None = None
    solved: SolveRate | None = None
    better_than: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return str(self.state if self.rank is None else self.rank)


@dataclass(frozen=True, kw_only=True)
class Ranks(Shown):
    """The ranks of all schemes: rows[kind] has a cell for each of `columns`.

    pairs, digests: by part, for how many differences its p-values are corrected, and its digest.
    """

    columns: tuple[Column, ...]
    rows: Mapping[str, tuple[Cell, ...]]
    pairs: Mapping[str, int]
    digests: Mapping[str, str]

    @property
    def missing(self) -> dict[str, list[str]]:
        """By part, the labels of the schemes that have not been measured in any of its columns."""
        found: dict[str, list[str]] = {}
        for kind, cells in self.rows.items():
            for column, cell in zip(self.columns, cells, strict=True):
                if column.in_training and cell.state == State.NOT_MEASURED:
                    found.setdefault(column.part, []).append(SCHEMES[kind].label)
        return found

    def header(self) -> list[str]:
        """Return the names of the columns of `values`."""
        return [
            "part", "measure", "x", "scheme", "first rank", "last rank", "state", "mean", "trials",
            "solved",
        ]  # fmt: skip

    def values(self) -> Iterator[list[str | int | float | None]]:
        """Iterate over the cells as plain values, column by column, without those left out."""
        for index, column in enumerate(self.columns):
            for kind, cells in self.rows.items():
                cell = cells[index]
                if cell.state == State.LEFT_OUT:
                    continue
                first, last = (
                    (None, None) if cell.rank is None else (cell.rank.first, cell.rank.last)
                )
                yield [
                    column.part, column.measure, column.x, SCHEMES[kind].label, first, last,
                    str(cell.state), cell.mean, cell.trials,
                    None if cell.solved is None else str(cell.solved),
                ]  # fmt: skip

    def to_csv(self) -> str:
        """Return every cell as a row of CSV, with every digit."""
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.header())
        for values in self.values():
            writer.writerow(["" if value is None else value for value in values])
        return out.getvalue()

    def to_markdown(self) -> str:
        """Return the table for a README: a row for each scheme, a column for each part and measure."""
        names = ["scheme", *(f"{column.title}, {column.measure}" for column in self.columns)]
        lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
        lines += ["| " + " | ".join(cells) + " |" for cells in self._short_rows()]
        return "\n".join([*lines, "", *self.notes()]) + "\n"

    def to_latex(self) -> str:
        r"""Return a `tabular` environment of LaTeX, for \usepackage{booktabs}."""
        titles = ["", *(column.title for column in self.columns)]
        measures = ["scheme", *(column.measure for column in self.columns)]
        lines = [rf"\begin{{tabular}}{{l{'c' * len(self.columns)}}}", r"\toprule"]
        lines += [" & ".join(map(latex_text, words)) + r" \\" for words in (titles, measures)]
        lines.append(r"\midrule")
        lines += [" & ".join(map(latex_text, cells)) + r" \\" for cells in self._short_rows()]
        lines += [r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*lines, *(f"% {note}" for note in self.notes())]) + "\n"

    def notes(self) -> list[str]:
        """Return what the ranks are, a sentence each."""
        notes = [
            "Ranks are ranges: schemes that the trials do not tell apart share ranks (paired differences, "
            f"p <= {1 - CONFIDENCE:.2f} after Holm's correction for all pairs of a part)."
        ]
        for part, labels in self.missing.items():
            notes.append(f"Not measured yet in {part}: {', '.join(labels)}.")
        if not self.columns:
            return ["No run of the protocol is here."]
        named = ", ".join(f"{part} {digest}" for part, digest in self.digests.items())
        notes.append(f"Protocol: {named}.")
        return notes

    def view(self) -> View:
        columns = zip(*self.values(), strict=True)
        return View(
            title="Ranks of schemes by task",
            numbers={"schemes": len(self.rows), "columns": len(self.columns)},
            columns=dict(zip(self.header(), map(list, columns), strict=True)),
        )

    def _short_rows(self) -> Iterator[list[str]]:
        for kind, cells in self.rows.items():
            shown = ["" if cell.state == State.LEFT_OUT else str(cell) for cell in cells]
            yield [SCHEMES[kind].label, *shown]


def ranked_parts(protocol: Protocol) -> list[Part]:
    """Return the first part of each task and text, which has the table that schemes are ranked by."""
    parts: dict[tuple[str, str | None], Part] = {}
    for part in protocol.parts.values():
        parts.setdefault((task_of(part), part.text), part)
    return [*parts.values()]


def ranks(
    protocol: Protocol, runs: Iterable[Run], record: Sequence[Recorded] | None = None
) -> Ranks:
    """Return the ranks of all schemes in every part that has a run, as far as the runs are made.

    A run counts at the rate that the sweep of its part has chosen, by its runs or by a record of
    losses, by default that of the runs that ship.
    """
    rows = shipped_record() if record is None else record
    every, columns, pairs = list(runs), [], {}
    cells: dict[str, dict[Column, Cell]] = {}
    for part in ranked_parts(protocol):
        swept = recorded_rates(rows, part.like)
        own = _at_swept_rates(runs_of_part(part, protocol.part(part.like), every), swept)
        if not own.runs:
            continue
        by_column, pairs[part.name] = _part_cells(own)
        for column, own_cells in by_column.items():
            columns.append(column)
            for kind, cell in own_cells.items():
                cells.setdefault(kind, {})[column] = cell
    left_out = Cell(state=State.LEFT_OUT)
    by_kind = {
        kind: tuple(cells[kind].get(column, left_out) for column in columns)
        for kind in SCHEMES
        if kind in cells
    }
    digests = {name: protocol.part(name).digest for name in pairs}
    return Ranks(columns=tuple(columns), rows=by_kind, pairs=pairs, digests=digests)


def _at_swept_rates(own: RunsOfPart, swept: Iterable[TriedRates]) -> RunsOfPart:
    """Return the runs at the rates that the sweep has chosen, that of the runs before that of a file."""
    best = {each.kind: each.best for each in (*swept, *tried_rates(own.sweep))}
    chosen = [
        run
        for run in own.runs
        if (rate := best.get(run.specification.scheme.kind)) is not None
        and rate.learning_rate == run.specification.learning_rate
        and rate.scheme_rate == run.specification.scheme_rate
    ]
    return replace(own, runs=tuple(chosen))


def _part_cells(own: RunsOfPart) -> tuple[dict[Column, dict[str, Cell]], int]:
    """Return the cells of a part by column and scheme, and the number of pairs that are compared."""
    part, task = own.part, task_of(own.part)
    measure = "context" if task == Language.kind else task
    stopped = {run.specification.scheme.kind for run in own.runs if run.stopped is not None}
    by_kind = {
        curve.specification.scheme.kind: curve
        for curve in curves(own.runs, measure)
        if curve.variant == TRAINED
    }
    every = list(by_kind.values())
    columns = _columns(part, every)
    values = {
        column: {
            kind: found
            for kind, curve in by_kind.items()
            if _is_ranked(curve, every) and (found := _values(curve, column))
        }
        for column in columns
    }
    better_than, pairs = _better_than(values)
    cells: dict[Column, dict[str, Cell]] = {}
    for column in columns:
        own_ranks = _ranks(better_than[column])
        for kind in part.schemes:
            curve = by_kind.get(kind)
            rank = own_ranks.get(kind)
            state = State.RANKED
            if rank is None:
                state = _state(curve, every, has_stopped=kind in stopped)
            found = {} if curve is None else _values(curve, column)
            if state == State.RANKED and len(own_ranks) == 1:
                state, rank = State.ALONE, None
            solved = None if curve is None or column.loss else solve_rate(curve, every)
            cells.setdefault(column, {})[kind] = Cell(
                state=state,
                mean=statistics.fmean(found.values()) if found else None,
                trials=len(found),
                rank=rank,
                solved=solved,
                better_than=frozenset(better_than[column].get(kind, ())),
            )
    return cells, pairs


def _columns(part: Part, every: Sequence[Curve]) -> list[Column]:
    """Return the columns of a part: training, then what its task reads past it."""
    if not every:
        return []
    spec = every[0].specification
    length, task = spec.train_length, TASKS[spec.task]
    measured = sorted({point.x for curve in every for point in curve.points})
    is_text = not issubclass(task, Questions)
    found: list[tuple[str, int, int | None]]
    if issubclass(task, Questions) and not task.longer:
        found = [
            (f"{x}% ignored", x, 1 if task.as_in_training(length, x) else None) for x in measured
        ]
        found.sort(key=lambda each: each[2] is None)
    else:
        found = []
        for times in TIMES:
            x = times * length
            if issubclass(task, Questions):
                # Recall is asked at odd distances, the farthest in training first.
                x = task.farthest(length) if times == 1 else (x - 1) | 1 if task.doubles else x
            unit = "distance" if issubclass(task, Questions) and task.doubles else task.unit
            if x in measured:
                name = f"distance {x:,}" if unit == "distance" else count_of(x, unit)
                found.append((name, x, times))
    return [
        Column(
            part=part.name, title=part.title, measure=name, x=x, times=times, in_training=times == 1,
            trials=len(part.trials), loss=is_text,
        )
        for name, x, times in found
    ]  # fmt: skip


def _values(curve: Curve, column: Column) -> dict[Trial, float]:
    """Return the value of each trial in a column, of accuracies in training the mean over all of it."""
    if column.in_training and not column.loss:
        point = in_range(curve)
        return {} if point is None else dict(point.by_trial)
    return dict(next((p.by_trial for p in curve.points if p.x == column.x), ()))


def _is_ranked(curve: Curve, every: Sequence[Curve]) -> bool:
    return curve.specification.task == Language.kind or judged(curve, every)


def _state(curve: Curve | None, every: Sequence[Curve], *, has_stopped: bool) -> State:
    if curve is None:
        return State.STOPPED if has_stopped else State.NOT_MEASURED
    if not _is_ranked(curve, every):
        return State.NOT_LEARNED
    return State.ENDS


def _better_than(
    values: Mapping[Column, Mapping[str, Mapping[Trial, float]]],
) -> tuple[dict[Column, dict[str, set[str]]], int]:
    """Return the schemes than which each of a column is clearly better, and how many pairs there are."""
    gaps = {}
    for column, by_kind in values.items():
        for one, other in itertools.combinations(by_kind, 2):
            trials = sorted(by_kind[one].keys() & by_kind[other].keys())
            if len(trials) > 1:
                apart = [by_kind[one][trial] - by_kind[other][trial] for trial in trials]
                gaps[column, one, other] = paired_mean(apart)
    corrected = dict(zip(gaps, holm([gap.p for gap in gaps.values()]), strict=True))
    found: dict[Column, dict[str, set[str]]] = {
        column: {kind: set() for kind in own} for column, own in values.items()
    }
    for (column, one, other), gap in gaps.items():
        if corrected[column, one, other] <= 1 - CONFIDENCE:
            one_wins = (gap.mean < 0) == column.loss
            better, worse = (one, other) if one_wins else (other, one)
            found[column][better].add(worse)
    return found, len(gaps)


def _ranks(better_than: Mapping[str, set[str]]) -> dict[str, Rank]:
    """Return the ranks of the schemes of a column."""
    worse_than = {
        kind: sum(kind in others for others in better_than.values()) for kind in better_than
    }
    return {
        kind: Rank(first=1 + worse_than[kind], last=len(better_than) - len(better_than[kind]))
        for kind in better_than
    }
