"""What formulas give past the training length: results, frames and sentences of the formula view."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dashboard.charts.frames import lines
from dashboard.compute import schemes
from dashboard.compute.result_cache import cache_result
from dashboard.pages.extrapolation.options import FormulaChoice
from dashboard.text import listed
from posenc.analysis import SchemeCoverage, SchemeKernelPast
from posenc.schemes import SCHEMES
from posenc.settings import Query, Setting
from posenc.text import count_of


@dataclass(frozen=True)
class Read:
    """What the formulas of one setting give, evaluated at `length` positions."""

    setting: Setting
    length: int
    queries: dict[str, Query]
    past: dict[str, SchemeKernelPast]
    reasons: dict[str, str]
    ladders: dict[str, SchemeCoverage | None]
    headline: str
    curves: pd.DataFrame
    nearest: pd.DataFrame
    turns: pd.DataFrame
    table: pd.DataFrame

    @property
    def formulas(self) -> set[str]:
        """The schemes that have a formula to evaluate."""
        return {kind for kind, one in self.past.items() if len(one.distances)}


@cache_result
def read(setting: Setting, chosen: FormulaChoice) -> Read:
    """Return what the formulas of a setting give."""
    # Formulas are evaluated exactly: other pages are about rounding.
    exact = setting.replace(precision="float32")
    length = int(chosen.reach) * setting.train_length
    queries = {kind: schemes.query(exact, kind, length) for kind in exact.schemes}
    past, reasons = schemes.each(schemes.past, queries, setting.train_length)
    ladders = {kind: schemes.coverage(queries[kind], setting.train_length) for kind in past}
    return Read(
        setting=exact,
        length=length,
        queries=queries,
        past=past,
        reasons=reasons,
        ladders=ladders,
        headline=headline(setting, past) if past else "",
        curves=past_curves(past, setting.train_length),
        nearest=nearest(past),
        turns=turns(ladders),
        table=frequencies(ladders),
    )


def past_curves(found: Mapping[str, SchemeKernelPast], train_length: int) -> pd.DataFrame:
    """Cosine similarity past the training length; a scheme without values there has no rows."""
    curves = {
        kind: (one.distances.numpy(), one.cosine.numpy()) if len(one.distances) else None
        for kind, one in found.items()
    }
    return lines(curves, train_length)


def nearest(found: Mapping[str, SchemeKernelPast]) -> pd.DataFrame:
    """Distance of positions past training to the nearest trained position."""
    curves = {
        kind: (one.positions.numpy(), one.relative.numpy()) if len(one.relative) else None
        for kind, one in found.items()
    }
    return lines(curves, None)


def turns(ladders: Mapping[str, SchemeCoverage | None]) -> pd.DataFrame:
    """Turns of every pair within the training length."""
    parts = [
        pd.DataFrame(
            {
                "scheme": SCHEMES[kind].label,
                "pair": np.arange(len(one.turns)),
                "turns": one.turns.numpy(),
            }
        )
        for kind, one in ladders.items()
        if one
    ]
    empty = pd.DataFrame({"scheme": [], "pair": [], "turns": []})
    return pd.concat(parts, ignore_index=True) if parts else empty


def frequencies(found: Mapping[str, SchemeCoverage | None]) -> pd.DataFrame:
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


def headline(setting: Setting, past: Mapping[str, SchemeKernelPast]) -> str:
    """Return where each formula leaves the values of training, each finding once."""
    length = setting.train_length
    groups: dict[tuple[str, str], list[str]] = {}
    for kind, one in past.items():
        if one.limit is not None:
            what = (
                f"ends with its table at {one.limit:,}",
                f"end with their tables at {one.limit:,}",
            )
        elif not len(one.distances):
            rest = "a value that depends on the query's position, too"
            what = f"has {rest}", f"have {rest}"
        elif one.outside is None:
            what = "is defined", "are defined"
        elif one.outside == 0:
            what = "stays within the values of training", "stay within the values of training"
        else:
            at = "at once" if one.first_outside == length else f"at {one.first_outside:,}"
            rest = f"the values of training {at}"
            what = f"leaves {rest}", f"leave {rest}"
        groups.setdefault(what, []).append(SCHEMES[kind].label)
    parts = [
        f"{listed(labels)} {many if len(labels) > 1 else one}"
        for (one, many), labels in groups.items()
    ]
    return f"Past the training length, {length:,}: {'; '.join(parts)}."


def coverage_sentence(past: Mapping[str, SchemeKernelPast], length: int) -> str:
    """Return how densely the formulas were evaluated, and which schemes have no curve."""
    parts = []
    curves = [one for one in past.values() if len(one.distances)]
    if curves:
        scanned = curves[0].outside is not None
        how = "at every distance" if scanned else "at a sample of distances"
        parts.append(f"Evaluated up to distance {length - 1:,}, {how}.")
        if not scanned:
            parts.append("The nearest trained position is not computed at this length.")
    parts += [
        f"{SCHEMES[kind].label} does not depend on the distance alone, so it has no curve."
        for kind, one in past.items()
        if one.limit is None and not len(one.distances)
    ]
    parts += [
        f"{SCHEMES[kind].label} is a table of {count_of(one.limit, 'row')} and has no formula."
        for kind, one in past.items()
        if one.limit is not None
    ]
    return " ".join(parts)
