"""Results become tidy frames: fixed column names, one row per mark."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pandas as pd

from dashboard.compute import Array, Projected, Similarity
from dashboard.pair import Pair
from posenc import Setting
from posenc.analysis.offset_checks import DenseFit, OffsetClaims, OffsetMap
from posenc.analysis.past_length import Ladder, Past
from posenc.analysis.properties import Properties
from posenc.schemes import SCHEMES

MOST_POINTS = 1_024  # marks of one line; a screen has no more columns


def by_offset(found: Mapping[str, Similarity], boundary: float | None) -> pd.DataFrame:
    """Mean cosine similarity by distance, with the range along each diagonal."""
    parts = [
        pd.DataFrame(
            {
                "scheme": SCHEMES[kind].label,
                "x": result.offsets,
                "y": result.mean,
                "low": result.low,
                "high": result.high,
                "spread": result.spread,
            }
        )
        for kind, result in found.items()
    ]
    frame = pd.concat(parts, ignore_index=True)
    # The last distance asked for, so that a scheme with fewer positions is drawn on the same axis.
    return _with_boundary(frame, boundary).assign(last=frame["x"].max())


def lines(curves: Mapping[str, tuple[Array, Array] | None], boundary: float | None) -> pd.DataFrame:
    """One line per scheme; a scheme without values has no rows."""
    parts = [
        pd.DataFrame({"scheme": SCHEMES[kind].label, "x": curve[0], "y": curve[1]})
        for kind, curve in curves.items()
        if curve is not None
    ]
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list("xy"))
    return _with_boundary(frame, boundary)


# A score this many times further out than 99 of 100 is left out of the picture, and named beside it:
# one outlier (BERT's position 0 is one) would press all others into a dot.
FAR = 2.0


APART = ["kind", "setting", "far"]  # what tells panels apart and is not drawn in one


class Projections(Protocol):
    """What one setting has projected."""

    @property
    def found(self) -> Mapping[str, Projected]: ...

    @property
    def setting(self) -> Setting: ...


def projections(read: Pair[Projections]) -> pd.DataFrame:
    """Scores of every position on three components, with what all panels of the page share.

    lowest, highest: ends of the axes; a position with a score past them is `far`, and not drawn.
    place: from 0, the first position, to 1, the last of any scheme: the colour. setting: B, or A.
    """
    settings = {"B": read.now} | ({} if read.pinned is None else {"A": read.pinned})
    parts, usual = [], 0.0
    for name, one in settings.items():
        for kind, result in one.found.items():
            part = pd.DataFrame(result.scores, columns=["PC1", "PC2", "PC3"])
            position = np.arange(len(part))
            part.insert(0, "position", position)
            part["seen"] = np.where(position < one.setting.train_length, "inside", "past")
            parts.append(part.assign(kind=kind, setting=name))
            # By panel: all of a scheme that is larger than the others are no outliers. A few
            # positions have no usual size.
            share = 0.99 if len(part) >= 20 else 1.0
            usual = max(usual, float(_sizes(part).quantile(share, interpolation="lower")))
    frame = pd.concat(parts, ignore_index=True)
    sizes = _sizes(frame)
    extent = float(sizes[sizes <= FAR * usual].max() if usual > 0 else 1.0)
    return frame.assign(
        place=frame["position"] / max(1, frame["position"].max()),
        far=sizes > extent,
        lowest=-extent,
        highest=extent,
    )


def of_panel(scores: pd.DataFrame, kind: str, *, pinned: bool) -> pd.DataFrame:
    """Return the scores of one scheme under one setting."""
    return scores[(scores["kind"] == kind) & (scores["setting"] == ("A" if pinned else "B"))]


def _sizes(frame: pd.DataFrame) -> pd.Series:
    return frame[["PC1", "PC2", "PC3"]].abs().max(axis=1)


def explained(found: Mapping[str, Projected]) -> pd.DataFrame:
    """Share of variance explained by the first components together."""
    parts = [
        pd.DataFrame(
            {
                "scheme": SCHEMES[kind].label,
                "component": np.arange(1, len(result.explained) + 1),
                "own": result.explained,
                "share": np.cumsum(result.explained),
            }
        )
        for kind, result in found.items()
    ]
    return pd.concat(parts, ignore_index=True)


def drawn(frame: pd.DataFrame, column: str = "x", most: int = MOST_POINTS) -> pd.DataFrame:
    """Return what a line needs to be drawn: at most `most` values of a column, in 32 bits.

    The values kept are evenly spaced, the first and the last among them; a screen shows no more, and
    a third of the bytes travel: names as numbers, and no integer of 64 bits, which a browser
    converts one by one. The tables below a chart hold every number in full.
    """
    if column not in frame:
        return frame  # nothing to draw
    values = np.unique(frame[column])
    if len(values) > most:
        kept = values[np.unique(np.linspace(0, len(values) - 1, most).round().astype(int))]
        frame = frame[frame[column].isin(kept)]
    frame = frame.drop(columns="spread", errors="ignore")
    narrow = dict.fromkeys(frame.select_dtypes("float64").columns, "float32")
    narrow |= dict.fromkeys(frame.select_dtypes("int64").columns, "int32")
    narrow |= dict.fromkeys(frame.columns.intersection(["scheme"]), "category")
    return frame.astype(narrow)


def compared(now: pd.DataFrame, then: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of B, each followed by A's of the same name (the first column) and the change.

    A change is B minus A, of numbers only.
    """
    if now.empty or then.empty:
        return pd.concat([now.assign(setting="B"), then.assign(setting="A")], ignore_index=True)
    name = str(now.columns[0])
    if now[name].duplicated().any() or then[name].duplicated().any():
        raise ValueError(f"rows are compared by {name}, which must name each of them once.")
    rows = []
    for key in dict.fromkeys([*now[name], *then[name]]):
        ours, theirs = (frame[frame[name] == key].head(1) for frame in (now, then))
        rows += [one.assign(setting=said) for one, said in ((ours, "B"), (theirs, "A")) if len(one)]
        if len(ours) and len(theirs):
            change = {
                column: [ours[column].iloc[0] - theirs[column].iloc[0]]
                for column in now
                if column in then and now[column].dtype.kind in "fi"
            }
            rows.append(pd.DataFrame({name: [key], "setting": ["B - A"]} | change))
    whole = pd.concat(rows, ignore_index=True)
    return whole[[name, "setting", *(column for column in now if column != name)]]


def boundary(setting: Setting, last: float) -> float | None:
    """Return where the training length is drawn, None where it lies past what is shown."""
    return setting.train_length if setting.train_length <= last else None


def _with_boundary(frame: pd.DataFrame, position: float | None) -> pd.DataFrame:
    return frame.assign(boundary=np.nan if position is None else float(position))


PROPERTY_LABELS = {
    "smallest_distance": "closest two positions, apart",
    "neighbour_mean": "neighbours, mean distance",
    "norm_low": "norm, least",
    "norm_high": "norm, largest",
    "value_low": "value, least",
    "value_high": "value, largest",
    "translation_invariance_error": "shift-invariance error",
    "first_rise": "similarity first rises at distance",
    "kendall_tau": "order kept by similarity (tau)",
}


def of(frame: pd.DataFrame, scheme: str) -> pd.DataFrame:
    """Return the rows of one scheme, none of a frame without any."""
    return frame[frame["scheme"] == scheme] if len(frame) else frame


def properties_table(measured: Properties, pinned: Properties | None = None) -> pd.DataFrame:
    """The measured properties of one scheme, one row each, as text for a narrow column.

    pinned: the same of the pinned setting, A, in a second column, with the change in a third.
    """

    def column(of: Properties) -> dict[str, str]:
        return {
            text: _shown(getattr(of, name), "never" if name == "first_rise" else "none")
            for name, text in PROPERTY_LABELS.items()
        }

    if pinned is None:
        return pd.DataFrame({"measured": column(measured)})
    changes = {}
    for name, text in PROPERTY_LABELS.items():
        now, then = getattr(measured, name), getattr(pinned, name)
        changes[text] = "" if now is None or then is None else f"{now - then:+.3g}"
    return pd.DataFrame({"B": column(measured), "A": column(pinned), "B - A": changes})


def _shown(value: float | None, missing: str) -> str:
    return missing if value is None else f"{value:.4g}"


def properties(measured: Mapping[str, Properties]) -> pd.DataFrame:
    """The measured properties of all schemes, one row per scheme, in full precision."""
    return pd.DataFrame(
        [
            {"scheme": SCHEMES[kind].label, "positions": found.positions}
            | {name: getattr(found, name) for name in PROPERTY_LABELS}
            for kind, found in measured.items()
        ]
    )


def offset_maps(found: Mapping[str, OffsetMap]) -> pd.DataFrame:
    """Check 1 at one offset, one row per scheme: each number beside its control."""
    rows = [
        {"scheme": SCHEMES[kind].label}
        | {name: getattr(one, field) for field, name in MAP_COLUMNS.items()}
        | {"verdict": one.verdict}
        for kind, one in found.items()
    ]
    return pd.DataFrame(rows).astype(dict.fromkeys(MAP_COLUMNS.values(), float))


MAP_COLUMNS = {
    "closed": "closed form",
    "closed_control": "closed form, random table",
    "fitted": "fitted matrix",
    "fitted_control": "fitted matrix, random table",
    "pairs": "fit per pair",
    "pairs_control": "fit per pair, random table",
    "composed": "M_a M_b against M_(a+b)",
}
_LEAST_ERROR = 1e-17  # where an exact 0 is drawn on a logarithmic axis


def map_errors(found: Mapping[str, Mapping[str, Array]]) -> pd.DataFrame:
    """Check 1 over offsets: the error that each verdict rests on, and its random control."""
    parts = []
    for kind, errors in found.items():
        parts.append(
            pd.DataFrame(
                {
                    "scheme": SCHEMES[kind].label,
                    "offset": errors["offset"],
                    "error": np.maximum(errors["error"], _LEAST_ERROR),
                    "control": errors["control"],
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def dense_fits(found: Mapping[str, DenseFit]) -> pd.DataFrame:
    """The fits that know nothing of the scheme, or why there is none."""
    rows = []
    for kind, dense in found.items():
        fit = dense.fit
        rows.append(
            {
                "scheme": SCHEMES[kind].label,
                "held out": fit.held_out_error if fit else None,
                "later positions": fit.later_error if fit else None,
                "random, held out": fit.control_held_out if fit else None,
                "random, later": fit.control_later if fit else None,
                "in sample": fit.in_sample_error if fit else None,
                "rank": f"{fit.rank} of {fit.dimension}" if fit else "",
                "pairs of positions fitted": fit.fitted if fit else None,
            }
        )
    numbers = ("held out", "later positions", "random, held out", "random, later", "in sample")
    kinds = dict.fromkeys(numbers, "float64") | {"pairs of positions fitted": "Int64"}
    return pd.DataFrame(rows).astype(kinds)


def offset_only(claims: Mapping[str, OffsetClaims]) -> pd.DataFrame:
    """Check 2, one row per scheme."""
    return pd.DataFrame(
        [
            {
                "scheme": SCHEMES[kind].label,
                "spread along diagonals / overall": found.only.error,
                "random table": found.only.control,
                "note": found.only.reason or "",
            }
            for kind, found in claims.items()
        ]
    ).astype({"spread along diagonals / overall": float, "random table": float})


def straight_line(claims: Mapping[str, OffsetClaims]) -> pd.DataFrame:
    """Check 3, one row per scheme."""
    return pd.DataFrame(
        [
            {
                "scheme": SCHEMES[kind].label,
                "R squared": found.straight.r_squared,
                "slope per position": found.straight.slope,
                "R squared of noise": found.straight.control,
                "note": found.straight.reason or "",
            }
            for kind, found in claims.items()
        ]
    ).astype({"R squared": float})


def past_curves(found: Mapping[str, Past], train_length: int) -> pd.DataFrame:
    """Cosine similarity past the training length; a scheme without values there has no rows."""
    curves = {
        kind: (one.offsets, one.cosine) if len(one.offsets) else None for kind, one in found.items()
    }
    return lines(curves, train_length)


def nearest(found: Mapping[str, Past]) -> pd.DataFrame:
    """Distance of unseen positions to the nearest seen one."""
    curves = {
        kind: (one.nearest_positions, one.nearest) if len(one.nearest) else None
        for kind, one in found.items()
    }
    return lines(curves, None)


def turns(ladders: Mapping[str, Ladder | None]) -> pd.DataFrame:
    """Turns of every pair within the training length."""
    parts = [
        pd.DataFrame(
            {"scheme": SCHEMES[kind].label, "pair": np.arange(len(one.turns)), "turns": one.turns}
        )
        for kind, one in ladders.items()
        if one
    ]
    empty = pd.DataFrame({"scheme": [], "pair": [], "turns": []})
    return pd.concat(parts, ignore_index=True) if parts else empty


def ladders(found: Mapping[str, Ladder | None]) -> pd.DataFrame:
    """What the frequencies do within the training length, one row per scheme that has any."""
    return pd.DataFrame(
        [
            {
                "scheme": SCHEMES[kind].label,
                "pairs with a full turn": f"{one.full_turn_pairs} of {len(one.turns)}",
                "critical dimension": f"{one.critical_dimension} of {one.rotary_dim}",
                "B(k) first negative at": f"{one.first_negative:,}"
                if one.first_negative is not None
                else f"not below {one.scanned:,}",
            }
            for kind, one in found.items()
            if one
        ]
    )
