"""What measured runs say: their curves, and the frames, tables and sentences made of them."""

import math

import pandas as pd
import streamlit as st

from dashboard import runs
from dashboard.compute import CACHE
from dashboard.text import listed
from posenc.csv_cells import cell
from posenc.lab import summary
from posenc.lab.evaluate import CLAMPED, TRAINED
from posenc.lab.run import Heading
from posenc.lab.summary import Curve
from posenc.schemes import SCHEMES
from posenc.words import counted


def curves(found: list[Heading], measure: str) -> list[Curve]:
    """Return the curves of one measure of these runs, schemes in their fixed order.

    A run that cannot be read now is left out, and is there again when it can.
    """
    return _curves(tuple(one.run_id for one in found if runs.run(one.run_id)), measure)


@st.cache_data(**CACHE)
def _curves(names: tuple[str, ...], measure: str) -> list[Curve]:
    order = list(SCHEMES)
    return sorted(
        summary.curves([runs.whole(name) for name in names], measure),
        key=lambda one: (
            order.index(one.specification.scheme.kind),
            repr(one.specification.scheme),
            one.variant != TRAINED,
            one.variant,
        ),
    )


def frame(found: list[Curve]) -> pd.DataFrame:
    """One row per point of every curve; a bucket of positions stands at its middle."""
    rows = [
        {
            "scheme": curve.specification.scheme.label,
            "read": summary.read_as(curve, found),
            "x": (point.x + point.until - 1) / 2 if point.until else point.x,
            "y": point.mean,
            "low": point.low,
            "high": point.high,
            "seeds": curve.seeds,
        }
        for curve in found
        for point in curve.points
    ]
    columns = ["scheme", "read", "x", "y", "low", "high", "seeds"]
    return pd.DataFrame(rows, columns=columns)


def elbows(found: list[Curve]) -> pd.DataFrame:
    """What each curve says: loss at the training length and furthest out, elbow, effect."""
    rows = []
    for curve in found:
        loss = summary.at_training_length(curve, found)
        last = curve.points[-1]
        if loss is None:
            continue
        said = summary.effect(curve, loss)
        elbow = summary.elbow(curve, loss)
        rows.append(
            {
                "scheme": summary.label(curve, found),
                "loss": loss,
                "perplexity": summary.perplexity(loss),
                "bits per byte": summary.bits_per_byte(loss),
                "read to": f"{last.x:,}",
                "loss there": last.mean,
                "perplexity, times": summary.perplexity(last.mean - loss),
                "elbow": "not read" if said is None else f"{elbow:,}" if elbow else "none",
                "longer context": said or "not read",
                "seeds": curve.seeds,
            }
        )
    return pd.DataFrame(rows)


def headline(found: list[Curve], train_length: int) -> str:
    """Say which scheme is best at the training length and what longer context did to each."""
    best: tuple[float, str] | None = None
    groups: dict[str, list[str]] = {}
    for curve in found:
        loss = summary.at_training_length(curve, found)
        if curve.variant != TRAINED or loss is None:
            continue
        name = summary.label(curve, found)
        if math.isfinite(loss) and (best is None or loss < best[0]):
            best = (loss, name)
        said = summary.effect(curve, loss)
        if said is None and any(_repeats(other, curve) for other in found):
            groups.setdefault(f"no row {train_length + 1:,} exists for", []).append(name)
        elif said is None:
            groups.setdefault("nothing longer was read of", []).append(name)
        else:
            change = f"{name} (loss {curve.points[-1].mean - loss:+.2f})"
            verb = "was ignored by" if said is summary.Effect.IGNORED else str(said)
            groups.setdefault(f"longer context {verb}", []).append(change)
    longest = max(point.x for curve in found for point in curve.points)
    start = f"Best at {train_length:,} tokens: {best[1]}, loss {best[0]:.2f}. " if best else ""
    parts = [f"{what} {listed(names)}" for what, names in groups.items()]
    least, most = min(curve.seeds for curve in found), max(curve.seeds for curve in found)
    several = f"{least} to {most}" if most > least else f"{least}"
    seeds = f"Means of {several} seeds" if most > 1 else "One seed each"
    steps = counted(found[0].specification.steps, "training step")
    ends = [f"{start}Read to {longest:,} tokens: {'; '.join(parts)}.", f"{seeds}, {steps}."]
    if any(what.startswith("longer context") for what in groups):
        ends.append(f"Helped or hurt: perplexity moved by more than {summary.counts()}.")
    return " ".join(ends)


def _repeats(other: Curve, curve: Curve) -> bool:
    """Whether `other` is the same scheme with its last row repeated, because there is no other."""
    return other.variant == CLAMPED and other.specification.scheme == curve.specification.scheme


def shares(found: list[Curve], inside: int, unit: str) -> str:
    """Say what share each scheme gets right at its training length, and how far half stays right."""
    near, far = [], []
    for curve in found:
        share = curve.at(inside)
        if curve.variant == TRAINED and share is not None:
            reach = summary.reach(curve)
            near.append(f"{summary.label(curve, found)} {share:.0%}")
            far.append(
                f"{summary.label(curve, found)} {'nowhere' if reach is None else f'{reach:,}'}"
            )
    return f"Right at {inside:,} {unit}: {listed(near)}. At least half up to: {listed(far)}."


def table(found: list[Heading]) -> pd.DataFrame:
    """The runs of a comparison, one row each."""
    rows = []
    for one in found:
        whole = runs.run(one.run_id)
        rows.append(
            {
                "run": one.run_id,
                "scheme": one.specification.scheme.label,
                "seed": one.specification.seed,
                "last loss": whole.losses[-1] if whole and whole.losses else None,
                "seconds": one.seconds,
                "device": one.specification.device,
                "stopped": cell(one.stopped or ""),  # the table has a download of its own
            }
        )
    return pd.DataFrame(rows)


def reads(frame: pd.DataFrame) -> tuple[str, ...]:
    """Ways of reading, as trained first."""
    found = sorted(frame["read"].unique(), key=lambda name: (name != TRAINED, name))
    return tuple(str(name) for name in found)


def is_of(one: Heading | Curve, kind: str) -> bool:
    """Whether a run or curve is of this scheme."""
    return one.specification.scheme.kind == kind
