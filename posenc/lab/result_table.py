"""One table of trained schemes: means, paired differences from one of them, intervals and p-values.

Every difference is within pairs of trials: two runs of one trial share their weights at the start and their
data. p-values are corrected for the number of differences in the table (Holm 1979).
"""

import csv
import io
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from posenc.errors import RunError
from posenc.lab.best_rates import TriedRates, rate_text, scheme_of
from posenc.lab.evaluate import TRAINED
from posenc.lab.specification import Specification
from posenc.lab.statistics import POWER, PairedMean, detectable, holm
from posenc.lab.summary import (
    Curve,
    Effect,
    at_training_length,
    difference,
    effect,
    label,
)
from posenc.notebook import Shown, View
from posenc.text import count_of

LENGTHS = (1, 2, 16)  # training lengths at which losses are compared
TUNED_LENGTHS = (
    1,
    4,
    16,
)  # of models that were fine-tuned, by default at 4 times the training length
Values = list[str | int | float | None]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A mean loss at one context, in nats, and its difference from the reference at the same context.

    difference: within pairs of trials, None of the reference itself and where they share no trial.
    corrected: its p-value, corrected for all differences of the table; None for a single pair.
    """

    x: int
    mean: float
    difference: PairedMean | None
    corrected: float | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """A scheme in the table. trials: how many. effect: past the training length, None where none was read.

    rates: how many learning rates were tried, of which the scheme has the best. cells: None where the
    scheme was not evaluated at a context.
    """

    name: str
    trials: int
    learning_rate: float
    scheme_rate: float
    rates: int
    effect: Effect | None
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, kw_only=True)
class ResultTable(Shown):
    """Schemes that were trained alike, the lowest loss at the training length first.

    xs: the contexts, in tokens. reference: the name of the scheme whose loss is subtracted. controlled:
    whether that is, for fine-tuned models, the loss of the reference after the same steps. differences: how
    many the p-values are corrected for. detectable: by context, the smallest mean difference that the
    design finds with a chance of 80%, None where no difference has several pairs.
    """

    xs: tuple[int, ...]
    reference: str
    controlled: bool
    rows: tuple[Row, ...]
    differences: int
    detectable: tuple[float | None, ...]

    def header(self) -> list[str]:
        """Return the names of the columns of `values`."""
        names = ["scheme", "trials", "learning rate", "scheme rate", "rates tried", "past training"]
        for x in self.xs:
            gap = (f"minus {self.reference}", "low", "high", "p (Holm)")
            names += [f"{name} at {x}" for name in ("loss", *gap)]
        return names

    def values(self) -> Iterator[Values]:
        """Iterate over the rows as plain values, None where there is nothing."""
        for row in self.rows:
            values: Values = [
                row.name, row.trials, row.learning_rate, row.scheme_rate, row.rates
            ]  # fmt: skip
            values.append(None if row.effect is None else str(row.effect))
            for cell in row.cells:
                gap = None if cell is None else cell.difference
                values.append(None if cell is None else cell.mean)
                values += [None] * 3 if gap is None else [gap.mean, gap.low, gap.high]
                values.append(None if cell is None else cell.corrected)
            yield values

    def to_csv(self) -> str:
        """Return the table as CSV with every digit; infinite ends of an interval are left out."""
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator="\n")  # printed in a terminal, too
        writer.writerow(self.header())
        for values in self.values():
            plain = (v if not isinstance(v, float) or math.isfinite(v) else None for v in values)
            writer.writerow(["" if value is None else value for value in plain])
        return out.getvalue()

    def to_markdown(self) -> str:
        """Return the table for a README: one column for each context."""
        lines = ["| " + " | ".join(self.short_header()) + " |", "|" + "---|" * (3 + len(self.xs))]
        lines += ["| " + " | ".join(cells) + " |" for cells in self.short_rows()]
        return "\n".join([*lines, "", *self.notes()]) + "\n"

    def to_latex(self) -> str:
        r"""Return a `tabular` environment of LaTeX, for \usepackage{booktabs}."""
        lines = [rf"\begin{{tabular}}{{lrl{'r' * len(self.xs)}}}", r"\toprule"]
        lines += [" & ".join(map(latex_text, self.short_header())) + r" \\", r"\midrule"]
        lines += [" & ".join(map(latex_text, cells)) + r" \\" for cells in self.short_rows()]
        lines += [r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*lines, *(f"% {note}" for note in self.notes())]) + "\n"

    def notes(self) -> list[str]:
        """Return what the numbers are, a sentence each."""
        subtracted = self.reference
        if self.controlled:
            subtracted += " (after fine-tuning: with the same steps on texts of the same length)"
        notes = [
            f"Loss in nats; in brackets the difference from {subtracted} within pairs of trials with "
            "its 95% interval (Student's t).",
            "A star marks p <= 0.05 after Holm's correction for "
            f"{count_of(self.differences, 'difference')}.",
        ]
        if not self.differences:  # no scheme has two trials beside those of the reference
            notes = [
                f"Loss in nats; in brackets the difference from {subtracted}. One trial does not tell "
                "how much of it is chance: an interval needs two trials or more.",
            ]
        notes += self._rate_notes()
        for x, least in zip(self.xs, self.detectable, strict=True):
            if least is not None:
                notes.append(
                    f"At {x:,} tokens a true difference of {least:.3f} nats, of median spread between "
                    f"pairs, has a star with a chance of {POWER:.0%}."
                )
        return notes

    def _rate_notes(self) -> list[str]:
        """Return at which rates the schemes stand, where they differ or several were tried."""
        names = [f"{row.name} {rate_text(row.learning_rate, row.scheme_rate)}" for row in self.rows]
        tried = sorted({row.rates for row in self.rows})
        if tried == [1] and len({(row.learning_rate, row.scheme_rate) for row in self.rows}) == 1:
            return []
        notes = [f"Learning rates: {'; '.join(names)}."]
        if tried != [1]:
            most = f"{tried[0]} to {tried[-1]} rates" if len(tried) > 1 else f"{tried[0]} rates"
            notes[0] += f" Each has the lowest loss at the training length of {most}."
        if len(tried) > 1:
            notes.append(
                "A scheme with more rates has an advantage: "
                + "; ".join(f"{row.name} {row.rates}" for row in self.rows)
                + "."
            )
        return notes

    def view(self) -> View:
        columns = zip(*self.values(), strict=True)
        return View(
            title=f"Trained schemes against {self.reference}",
            numbers={"schemes": len(self.rows), "differences": self.differences},
            columns=dict(zip(self.header(), map(list, columns), strict=True)),
        )

    def short_header(self) -> list[str]:
        """Return the names of the columns of `short_rows`."""
        return ["scheme", "trials", "past training", *(f"{x:,} tokens" for x in self.xs)]

    def short_rows(self) -> Iterator[list[str]]:
        """Iterate over the rows as texts, a loss with its difference and interval in one cell."""
        for row in self.rows:
            cells = ["" if cell is None else _shown(cell) for cell in row.cells]
            yield [row.name, str(row.trials), "" if row.effect is None else str(row.effect), *cells]


def comparison_table(
    every: Sequence[Curve],
    reference: str = "rope",
    rates: Sequence[TriedRates] = (),
    *,
    fine_tuned: bool = False,
) -> ResultTable:
    """Return the table of a comparison's curves by context, without the fine-tuned models or of them alone.

    Fine-tuned models are a question of their own, whose differences are corrected apart; beside them stands
    the reference. reference, rates: see `result_table`, as are the errors.
    """
    asked = [
        curve
        for curve in every
        if (curve.specification.fine_tuning is not None) == fine_tuned
        or (
            fine_tuned and curve.variant == TRAINED and curve.specification.scheme.kind == reference
        )
    ]
    return result_table(asked, reference, TUNED_LENGTHS if fine_tuned else LENGTHS, rates)


def result_table(
    compared: Sequence[Curve],
    reference: str = "rope",
    lengths: Sequence[int] = LENGTHS,
    rates: Sequence[TriedRates] = (),
) -> ResultTable:
    """Return the table of curves by context of models that were trained alike.

    reference: the kind of the scheme that differences are from; the curve of the scheme as trained. A
    fine-tuned model is compared with the reference after the same steps, where it is among the curves.
    lengths: the contexts, in training lengths. rates: those that were tried for these schemes, among these
    runs or in a sweep of a protocol.
    Raises RunError where the reference is not among the curves, or where there are two of it.
    """
    found = [
        curve
        for curve in compared
        if curve.variant == TRAINED and curve.specification.scheme.kind == reference
    ]
    before = [curve for curve in found if curve.specification.fine_tuning is None]
    if len(before) != 1:
        raise RunError(
            f"A table needs one scheme of the kind {reference} to compare with, got {len(before)}."
        )
    (base,) = before
    controls = {curve.specification.fine_tuning: curve for curve in found if curve is not base}
    bases = {curve: controls.get(curve.specification.fine_tuning, base) for curve in compared}
    bases |= dict.fromkeys(controls.values(), base)
    xs = tuple(base.specification.train_length * length for length in lengths)
    gaps = {
        (curve, x): gap
        for curve in compared
        if curve is not base
        for x in xs
        if (gap := difference(curve, bases[curve], x)) is not None
    }
    several = [key for key, gap in gaps.items() if len(gap.by_trial) > 1]
    corrected = dict(zip(several, holm([gaps[key].p for key in several]), strict=True))
    tried = {each.scheme: len(each.rates) for each in rates}
    swept = {each.kind: len(each.rates) for each in rates if each.scheme is None}
    rows = []
    for curve in compared:
        loss = at_training_length(curve, compared)
        cells: list[Cell | None] = []
        for x in xs:
            mean, key = curve.at(x), (curve, x)
            cells.append(
                None
                if mean is None
                else Cell(x=x, mean=mean, difference=gaps.get(key), corrected=corrected.get(key))
            )
        spec = curve.specification
        rows.append(
            Row(
                name=label(curve, compared),
                trials=curve.seeds,
                learning_rate=spec.learning_rate,
                scheme_rate=spec.scheme_rate,
                rates=max(tried.get(scheme_of(spec), 1), swept.get(_chosen_for(spec), 1)),
                effect=None if loss is None else effect(curve, loss),
                cells=tuple(cells),
            )
        )
    rows.sort(key=lambda row: [math.inf if cell is None else cell.mean for cell in row.cells])
    least = []
    for x in xs:
        paired = [
            gap.by_trial for (_, at), gap in gaps.items() if at == x and len(gap.by_trial) > 1
        ]
        least.append(_least(paired, len(several)))
    return ResultTable(
        xs=xs,
        reference=base.specification.scheme.label,
        controlled=bool(controls),
        rows=tuple(rows),
        differences=len(several),
        detectable=tuple(least),
    )


def _chosen_for(specification: Specification) -> str:
    """Return the kind of the scheme for which the rate was chosen: before a fine-tuning."""
    tuning = specification.fine_tuning
    return (specification.scheme if tuning is None else tuning.before).kind


def _least(paired: Sequence[Sequence[float]], tests: int) -> float | None:
    """Return the smallest mean difference that is found, from the median spread of the differences."""
    finite = [gaps for gaps in paired if all(map(math.isfinite, gaps))]
    if not finite:
        return None
    deviation = statistics.median(statistics.stdev(gaps) for gaps in finite)
    return detectable(deviation, min(map(len, finite)), tests)


def _shown(cell: Cell) -> str:
    gap = cell.difference
    if gap is None:
        return f"{cell.mean:.3f}"
    star = "*" if cell.corrected is not None and cell.corrected <= 0.05 else ""
    if not math.isfinite(gap.low):
        return f"{cell.mean:.3f} ({gap.mean:+.3f})"
    return f"{cell.mean:.3f} ({gap.mean:+.3f}, {gap.low:+.3f} to {gap.high:+.3f}{star})"


def latex_text(text: str) -> str:
    """Return a text as LaTeX writes it."""
    text = text.replace("\u2013", "--")
    return "".join(f"\\{letter}" if letter in "&%$#_{}" else letter for letter in text)
