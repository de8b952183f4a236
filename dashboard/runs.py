"""Finished runs for the pages: those that ship with the library, and those of this server's store."""

from importlib.resources import files

import pandas as pd
import streamlit as st

from dashboard.compute import CACHE
from dashboard.text import listed
from posenc.errors import RunError
from posenc.lab import summary
from posenc.lab.evaluate import TRAINED
from posenc.lab.runs import Run, Store
from posenc.lab.summary import Curve
from posenc.schemes import SCHEMES

SHIPPED = str(files("posenc.lab") / "results")


@st.cache_resource(max_entries=4, show_spinner=False)
def store(url: str) -> Store | None:
    """Return the store at a URL, "" for this server's own, or None where it cannot be opened."""
    try:
        return Store(url or None)
    except RunError:
        return None


def stores() -> list[Store]:
    """Return what ships and this server's own."""
    return [one for one in (store(SHIPPED), store("")) if one is not None]


def known() -> tuple[str, ...]:
    """Return the names of all runs there are now, the key of what is read of them."""
    return tuple(sorted({name for one in stores() for name in one.ids()}))


@st.cache_data(**CACHE)
def runs(names: tuple[str, ...]) -> list[Run]:
    """Return the runs of these names that can be read."""
    found: dict[str, Run] = {}
    for one in stores():
        for run in one:
            found.setdefault(run.run_id, run)
    return [found[name] for name in names if name in found]


@st.cache_data(**CACHE)
def curves(names: tuple[str, ...], measure: str, task: str, train_length: int) -> list[Curve]:
    """Return the curves of one measure of the runs of one task and training length."""
    chosen = [
        run
        for run in runs(names)
        if (run.specification.task, run.specification.train_length) == (task, train_length)
    ]
    order = list(SCHEMES)
    found = summary.curves(chosen, measure)
    return sorted(
        found,
        key=lambda one: (
            order.index(one.specification.scheme.kind),
            one.variant != TRAINED,
            one.variant,
        ),
    )


def label(curve: Curve) -> str:
    """Return a curve's name: its scheme's, and how it was read if not as trained."""
    name = curve.specification.scheme.label
    return name if curve.variant == TRAINED else f"{name}, {curve.variant}"


def frame(found: list[Curve]) -> pd.DataFrame:
    """One row per point of every curve."""
    rows = [
        {
            "scheme": curve.specification.scheme.label,
            "read": curve.variant,
            "x": point.x,
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
                "scheme": label(curve),
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
        name = curve.specification.scheme.label
        if best is None or loss < best[0]:
            best = (loss, name)
        said = summary.effect(curve, loss)
        if said is None:
            groups.setdefault(f"no row {train_length + 1:,} exists for", []).append(name)
        else:
            change = f"{name} (loss {curve.points[-1].mean - loss:+.2f})"
            verb = "was ignored by" if said is summary.Effect.IGNORED else str(said)
            groups.setdefault(f"longer context {verb}", []).append(change)
    longest = max(point.x for curve in found for point in curve.points)
    start = f"Best at {train_length:,} tokens: {best[1]}, loss {best[0]:.2f}. " if best else ""
    parts = [f"{what} {listed(names)}" for what, names in groups.items()]
    return f"{start}Read to {longest:,} tokens: " + "; ".join(parts) + "."


def copied(found: list[Curve], train_length: int) -> str:
    """Say how many strings each scheme copies at the training length, and half as long again."""
    further = train_length * 3 // 2
    parts = []
    for curve in found:
        inside, past = curve.at(train_length), curve.at(further)
        if curve.variant == TRAINED and inside is not None:
            then = "no row" if past is None else f"{past:.0%}"
            parts.append(f"{curve.specification.scheme.label} {inside:.0%}, then {then}")
    return f"At {train_length} and at {further} letters: " + "; ".join(parts) + "."
