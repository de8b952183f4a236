"""What measured runs say: their curves, and the frames, tables and sentences made of them."""

import numpy as np
import pandas as pd
import streamlit as st

from dashboard.compute import runs
from dashboard.compute.schemes import CACHE
from dashboard.text import listed
from posenc.lab import summary
from posenc.lab.evaluate import CLAMPED, TRAINED
from posenc.lab.runs import RunInfo
from posenc.lab.summary import Curve, Effect
from posenc.schemes import SCHEMES
from posenc.text import count_of, csv_cell

LABEL_GAP = 0.058  # least distance of two labels at line ends, as a fraction of the plot's height
PALE = 0.55  # strength of a line that is not the model as trained


def curves(found: list[RunInfo], measure: str) -> list[Curve]:
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
    """Return a row per point of every curve; a bucket of positions stands at its middle."""
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


def drawn(points: pd.DataFrame) -> pd.DataFrame:
    """Return what the chart needs beside `frame`: names, labels at line ends, a column per line.

    A line's own column holds its values for the tooltip at every x where it has one.
    """
    trained = points["read"] == TRAINED
    name = points["scheme"].where(trained, points["scheme"] + ", " + points["read"])
    found = points.assign(name=name, strength=np.where(trained, 1.0, PALE))
    last = ~found.duplicated("name", keep="last")
    early = last & trained & (found["x"] < found["x"].max())
    ends = np.where(early, name + " ends at " + found["x"].map("{:,.0f}".format), name)
    found["end"] = pd.Series(ends, found.index).where(last)
    found["stop"] = found["y"].where(early)
    found["end_y"] = found["y"].where(last)
    right = found.index[last & ~early]
    found.loc[right, "end_y"] = _apart(found.loc[right, "y"], np.ptp(found[["low", "high"]]))
    wide = found.pivot_table(index="x", columns="name", values="y")
    return found.join(wide, on="x")


def _apart(values: pd.Series, height: float) -> pd.Series:
    """Return where labels stand, so that no two of them overlap."""
    order = values.sort_values()
    gap = LABEL_GAP * height
    places = order.to_numpy(float).copy()
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    # A group stands centred on its lines, not above them.
    return pd.Series(places - (places - order.to_numpy()).mean(), order.index)


def classes(found: list[Curve]) -> pd.DataFrame:
    """Return a row per curve: loss at the training length and the longest, its class, where it breaks."""
    rows = []
    for curve in found:
        loss = summary.at_training_length(curve, found)
        last = curve.points[-1]
        if loss is None:
            continue
        effect = summary.effect(curve, loss)
        rows.append(
            {
                "scheme": summary.label(curve, found),
                "past training": str(effect or "not evaluated"),
                "breaks at": summary.first_degraded_length(curve, loss) if effect else None,
                "loss": loss,
                "perplexity": summary.perplexity(loss),
                "bits per byte": summary.bits_per_byte(loss),
                "evaluated to": last.x,
                "loss there": last.mean,
                "lowest seed": last.low,
                "highest seed": last.high,
                "perplexity ratio": summary.perplexity(last.mean - loss),
                "seeds": curve.seeds,
            }
        )
    return pd.DataFrame(rows)


def headline(found: list[Curve], train_length: int) -> str:
    """Return which class each scheme has past the training length."""
    groups: dict[str, list[str]] = {}
    for curve in found:
        loss = summary.at_training_length(curve, found)
        if curve.variant != TRAINED or loss is None:
            continue
        name = summary.label(curve, found)
        effect = summary.effect(curve, loss)
        if effect is not None:
            change = f"{name} ({curve.points[-1].mean - loss:+.2f} nats)"
            groups.setdefault(str(effect), []).append(change)
        elif any(_repeats(other, curve) for other in found):
            groups.setdefault("table", []).append(name)
        else:
            groups.setdefault("nothing", []).append(name)
    parts = []
    for effect in Effect:
        if names := groups.get(effect):
            parts.append(
                f"{listed(names)} {effect if len(names) == 1 else effect.removesuffix('s')}"
            )
    if names := groups.get("table"):
        tables = [f"the {name[0].lower()}{name[1:]} table" for name in names]
        parts.append(f"{listed(tables)} {'ends' if len(names) == 1 else 'end'} at {train_length:,}")
    if names := groups.get("nothing"):
        parts.append(f"{listed(names)} not evaluated past training")
    longest = max(point.x for curve in found for point in curve.points)
    return f"Trained on {count_of(train_length, 'token')}, evaluated at {longest:,}: {'; '.join(parts)}."


def details(found: list[Curve], train_length: int) -> str:
    """Return who is best at the training length, what bands are, and the rules of the classes."""
    least, most = min(curve.seeds for curve in found), max(curve.seeds for curve in found)
    seeds = f"{least} to {most} seeds" if most > least else count_of(most, "seed")
    band = (
        f"Lines: mean of {seeds}; bands: lowest to highest seed." if most > 1 else "One seed each."
    )
    steps = count_of(found[0].specification.steps, "training step")
    rules = " ".join(f"{str(effect).capitalize()}: {effect.rule}." for effect in Effect)
    return f"{_best(found, train_length)}{band[:-1]}; {steps}. {rules}"


def _best(found: list[Curve], train_length: int) -> str:
    """Return whose loss is lowest at the training length, and from whose it does not clearly differ."""
    trained = [curve for curve in found if curve.variant == TRAINED]
    lowest = summary.lowest(trained, train_length)
    if not lowest:
        return ""
    best, *others = (summary.label(curve, found) for curve in lowest)
    tie = f", not clearly different from {listed(others)}" if others else ""
    loss = lowest[0].at(train_length)
    return f"Lowest loss at {count_of(train_length, 'token')}: {best}, {loss:.2f}{tie}. "


def _repeats(other: Curve, curve: Curve) -> bool:
    """Whether `other` is the same scheme with its last row repeated, because there is no other."""
    return other.variant == CLAMPED and other.specification.scheme == curve.specification.scheme


def table(found: list[RunInfo]) -> pd.DataFrame:
    """Return the runs of a comparison, one row each."""
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
                "stopped": csv_cell(one.stopped or ""),  # the table has a download of its own
            }
        )
    return pd.DataFrame(rows)


def reads(points: pd.DataFrame) -> tuple[str, ...]:
    """Return the variants, as trained first."""
    found = sorted(points["read"].unique(), key=lambda name: (name != TRAINED, name))
    return tuple(str(name) for name in found)


def is_of(one: RunInfo | Curve, kind: str) -> bool:
    """Whether a run or curve is of this scheme."""
    return one.specification.scheme.kind == kind
