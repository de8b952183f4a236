"""What measured runs say: their curves, and the frames, tables and sentences made of them."""

import pandas as pd
import streamlit as st

from dashboard.compute import runs
from dashboard.compute.schemes import CACHE
from dashboard.text import listed
from posenc.lab import summary
from posenc.lab.evaluate import CLAMPED, TRAINED
from posenc.lab.runs import RunInfo
from posenc.lab.summary import Curve
from posenc.lab.tasks import Recall
from posenc.schemes import SCHEMES
from posenc.text import count_of, csv_cell


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
    """Return a row per curve: loss at the training length and the longest, its class, where it breaks."""
    rows = []
    for curve in found:
        loss = summary.at_training_length(curve, found)
        last = curve.points[-1]
        if loss is None:
            continue
        said = summary.effect(curve, loss)
        elbow = summary.first_degraded_length(curve, loss)
        rows.append(
            {
                "scheme": summary.label(curve, found),
                "loss": loss,
                "perplexity": summary.perplexity(loss),
                "bits per byte": summary.bits_per_byte(loss),
                "read to": f"{last.x:,}",
                "loss there": last.mean,
                "perplexity, times": summary.perplexity(last.mean - loss),
                "longer context": said or "not read",
                "breaks at": "not read" if said is None else f"{elbow:,}" if elbow else "nowhere",
                "seeds": curve.seeds,
            }
        )
    return pd.DataFrame(rows)


def headline(found: list[Curve], train_length: int) -> str:
    """Say which scheme is best at the training length and which class each has past it."""
    groups: dict[str, list[str]] = {}
    for curve in found:
        loss = summary.at_training_length(curve, found)
        if curve.variant != TRAINED or loss is None:
            continue
        name = summary.label(curve, found)
        said = summary.effect(curve, loss)
        if said is None and any(_repeats(other, curve) for other in found):
            groups.setdefault(f"no row {train_length + 1:,} exists for", []).append(name)
        elif said is None:
            groups.setdefault("nothing longer was read of", []).append(name)
        else:
            change = f"{name} (loss {curve.points[-1].mean - loss:+.2f})"
            groups.setdefault(str(said), []).append(change)
    longest = max(point.x for curve in found for point in curve.points)
    start = _best(found, train_length)
    classes = [str(said) for said in summary.Effect]
    parts = []
    for name in classes:
        if names := groups.pop(name, []):
            parts.append(f"{listed(names)} {name if len(names) == 1 else name.removesuffix('s')}")
    classed = bool(parts)
    parts += [f"{what} {listed(names)}" for what, names in groups.items()]
    least, most = min(curve.seeds for curve in found), max(curve.seeds for curve in found)
    several = f"{least} to {most}" if most > least else f"{least}"
    seeds = f"Means of {several} seeds" if most > 1 else "One seed each"
    steps = count_of(found[0].specification.steps, "training step")
    ends = [
        f"{start}Evaluated at up to {longest:,} tokens: {'; '.join(parts)}.",
        f"{seeds}, {steps}.",
    ]
    if classed:
        ends.append(classes_defined())
    return " ".join(ends)


def classes_defined() -> str:
    """Return the rules of the classes in one sentence."""
    rules = "; ".join(f"{said}: {said.rule}" for said in summary.Effect)
    return f"{rules[0].upper()}{rules[1:]}; each against the training length."


def _best(found: list[Curve], train_length: int) -> str:
    """Say whose loss is lowest at the training length, and from whose it does not clearly differ."""
    trained = [curve for curve in found if curve.variant == TRAINED]
    lowest = summary.lowest(trained, train_length)
    if not lowest:
        return ""
    best, *others = (summary.label(curve, found) for curve in lowest)
    loss = lowest[0].at(train_length)
    if not others:
        return f"Best at {train_length:,} tokens: {best}, loss {loss:.2f}. "
    return (
        f"Lowest mean loss at {train_length:,} tokens: {best}, {loss:.2f}; over the seeds it does not "
        f"clearly differ from {listed(others)}. "
    )


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


def recalled(found: list[Curve], farthest: int, unit: str) -> str:
    """Say what share each scheme recalls within the trained distances, and how far half stays right.

    Of a scheme that has not learned the task within them nothing is said past them.
    """
    near, failed, far = [], [], []
    for curve in found:
        share = summary.in_range(curve)
        if curve.variant != TRAINED or share is None:
            continue
        label = summary.label(curve, found)
        near.append(f"{label} {share.mean:.0%}")
        if summary.learned(curve):
            reach = summary.reach(curve)
            far.append(f"{label} {'nowhere' if reach is None else f'{reach:,}'}")
        else:
            failed.append(label)
    said = [
        f"Right within the training range, 1 to {farthest:,} {unit}: {listed(near)}; guessing gives "
        f"{Recall.CHANCE:.0%}."
    ]
    if failed:
        below = f"Below {summary.LEARNED:.0%} there, so longer distances say nothing"
        said.append(f"{below}: {listed(failed)}.")
    if far:
        said.append(f"At least half up to: {listed(far)}.")
    return " ".join(said)


def in_range(found: list[Curve]) -> list[float | None]:
    """Return the share within the training range for every row of `frame`, of its scheme as trained."""
    shares = [summary.in_range(curve, found) for curve in found]
    return [
        None if share is None else share.mean
        for curve, share in zip(found, shares, strict=True)
        for _ in curve.points
    ]


def table(found: list[RunInfo]) -> pd.DataFrame:
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
                "stopped": csv_cell(one.stopped or ""),  # the table has a download of its own
            }
        )
    return pd.DataFrame(rows)


def reads(frame: pd.DataFrame) -> tuple[str, ...]:
    """Ways of reading, as trained first."""
    found = sorted(frame["read"].unique(), key=lambda name: (name != TRAINED, name))
    return tuple(str(name) for name in found)


def is_of(one: RunInfo | Curve, kind: str) -> bool:
    """Whether a run or curve is of this scheme."""
    return one.specification.scheme.kind == kind
