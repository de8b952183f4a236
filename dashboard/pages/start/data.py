"""What the first page says: the effect of position alone, and what trained models measured."""

from dataclasses import dataclass

import pandas as pd

from dashboard.charts import frames
from dashboard.compute import runs, schemes
from dashboard.compute.result_cache import kept, once
from dashboard.compute.schemes import Similarity
from dashboard.controls.page_options import MeasuredChoice
from dashboard.frame import coinciding, sentences
from dashboard.pages.extrapolation import run_frames
from dashboard.text import listed
from posenc import fields
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED
from posenc.lab.specification import Specification
from posenc.lab.summary import Curve
from posenc.settings import Setting
from posenc.text import count_of


@dataclass(frozen=True)
class Start:
    """The curves of one setting, a sentence on them, and why a scheme has none."""

    found: dict[str, Similarity]
    reasons: dict[str, str]
    curves: pd.DataFrame
    sentence: str


@kept
def read(setting: Setting) -> Start:
    """Return what the page shows of a setting."""
    queries = {kind: schemes.query(setting, kind) for kind in setting.schemes}
    found, reasons = schemes.each(schemes.cosine, queries)
    curves = frames.by_offset(found, None) if found else pd.DataFrame()
    return Start(found, reasons, curves, sentences.similarity(found) if found else "")


@once
def lines(read: Start) -> coinciding.Lines:
    """Return the curves of a setting as they are drawn."""
    return coinciding.lines(frames.drawn(read.curves))


def measured(setting: Setting) -> str:
    """Say what the runs that ship measured past their training length, "" where none is here."""
    default: str = fields.defaults(MeasuredChoice)["comparison"]
    headings = [
        one
        for one in runs.headings(runs.shipped())
        if summary.comparison(one.specification) == default
        and one.specification.scheme.kind in setting.schemes
    ]
    found = [one for one in run_frames.curves(headings, "context") if one.variant == TRAINED]
    if not found:
        return ""
    length = found[0].specification.train_length
    longest = max(point.x for one in found for point in one.points)
    rises, ends = [], []
    for one in found:
        at_length, far = one.at(length), one.at(longest)
        label = one.specification.scheme.label
        if at_length is None:
            continue
        if far is None:
            ends.append(f"{label} has no row {one.points[-1].x + 1:,} there")
        else:
            rises.append((far - at_length, label))
    parts = [_changes("rises", [one for one in rises if one[0] >= 0])]
    parts += [_changes("falls", [one for one in rises if one[0] < 0]), *ends]
    said = "; ".join(part for part in parts if part)
    return (
        f"Small models trained here on {length:,} tokens ({_models(found[0].specification, found)}) "
        f"and read at {longest:,}: {said}."
    )


def _models(one: Specification, found: list[Curve]) -> str:
    """Name the runs' own numbers; the controls beside them move only the curves."""
    bases = sorted(
        {base for curve in found if (base := getattr(curve.specification.scheme, "base", None))}
    )
    based = [f"base {listed([f'{base:,.10g}' for base in bases])}"] if bases else []
    own = ", ".join([f"their own width {one.model.width:,}", *based])
    return f"{own}; {count_of(one.steps, 'step')}"


def _changes(verb: str, rises: list[tuple[float, str]]) -> str:
    """Say by how much loss changes, the unit once, the smallest change first."""
    if not rises:
        return ""
    said = [
        f"{abs(rise):.2f} for {label}" for rise, label in sorted(rises, key=lambda r: abs(r[0]))
    ]
    return f"loss {verb} by {listed(said).replace(' for', ' nats a byte for', 1)}"
