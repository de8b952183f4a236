"""What the PCA page says of a setting: scores, explained variance, both in words, and as Python."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dashboard import results
from dashboard.cache import cached, memoize_on
from dashboard.charts import frames
from dashboard.pages.pca.options import PLANES, PcaChoice
from dashboard.results import Array
from dashboard.script import requests_in_python, whole_script
from dashboard.settings import Setting
from posenc import Request
from posenc.analysis import SchemeProjection, components_explaining, scheme_projection
from posenc.schemes import SCHEMES

COMPONENTS = 12  # of which the explained variance is shown, more where SHARE takes more
SHARE = 0.9
AXES = ("PC1", "PC2", "PC3")
TIMES = ("once", "twice", "three times")

IMPORTS = """
import posenc
from posenc.analysis import scheme_projection
"""
BODY = """
fitted = {fitted}
print("kind,position,PC1,PC2,PC3")
for kind, request in requests.items():
    found = scheme_projection(request, fitted, components=3)
    for position, scores in enumerate(found.scores.tolist()):
        print(kind, position, *scores, sep=",")
"""


@dataclass(frozen=True)
class Read:
    """Every scheme's positions on their principal components."""

    setting: Setting
    results: dict[str, SchemeProjection]
    reasons: dict[str, str]

    @property
    def shares(self) -> dict[str, Array]:
        """The share of variance of every component, of the schemes whose positions differ."""
        shares = {kind: variance_shares(result) for kind, result in self.results.items()}
        return {kind: values for kind, values in shares.items() if values.any()}


@cached
def projected(request: Request, fitted: int) -> SchemeProjection:
    """Return principal components fitted on the first `fitted` positions, all of them projected."""
    results.check_table(request)
    results.one_thread_for_numpy()
    return scheme_projection(request, fitted, len(AXES))


def fitted_positions(setting: Setting, fit: str) -> int:
    """Return how many positions the components are fitted on. fit: seen or all."""
    return setting.length if fit == "all" else min(setting.train_length, setting.length)


@cached
def read(setting: Setting, fit: str) -> Read:
    """Return what the page shows of a setting. fit: seen or all, as the page's choice has it."""
    fitted = fitted_positions(setting, fit)
    requests = {kind: results.request(setting, kind) for kind in setting.schemes}
    return Read(setting, *results.per_scheme(projected, requests, fitted))


def variance_shares(result: SchemeProjection) -> Array:
    """Return the share of variance of every component."""
    shares: Array = result.projection.all_variance_ratios.numpy()
    return shares


def headline(read: Read) -> str:
    """Say how much of each scheme the first two components explain, "" without a scheme."""
    parts = [
        f"{shares[:2].sum():.0%} ({SCHEMES[kind].label})" for kind, shares in read.shares.items()
    ]
    if parts:
        return f"Variance explained by PC1 and PC2: {', '.join(parts)}."
    nothing = "All positions have the same vector, so there is nothing to project."
    return nothing if read.results else ""


def meaning(read: Read, chosen: PcaChoice) -> str:
    """Say what a percentage of the headline means, and why curves bend where they bend as theory says.

    Along positions in order, the first component changes its sign once, the second twice, and so on.
    """
    if not read.shares:
        return ""
    share = f"{[*read.shares.values()][-1][:2].sum():.0%}"
    fitted_on = "training" if chosen.fit == "seen" else "all"
    text = (
        f"{share} means: PC1 and PC2 show {share} of the spread (variance) of the vectors of {fitted_on} "
        "positions."
    )
    waves = [AXES.index(axis) for axis in PLANES.get(chosen.plot, ())]
    bent = []
    for kind in read.shares if waves else ():
        result = read.results[kind]
        scores = result.scores.numpy()[: len(result.scores) - result.past, waves]
        changes = np.diff(scores[~np.isnan(scores).any(axis=1)] > 0, axis=0).sum(axis=0)
        if (changes == np.array(waves) + 1).all():
            bent.append(SCHEMES[kind].label)
    if bent:
        times = f"{AXES[waves[0]]} changes its sign {TIMES[waves[0]]}, {AXES[waves[1]]} {TIMES[waves[1]]}"
        bends = f"Positions come in order, so the curve bends ({', '.join(bent)})"
        text += f" {bends}: along {fitted_on} positions, {times}."
    return text


def components_needed(read: Read) -> str:
    """Say how many components explain SHARE of each scheme's variance, "" where nothing varies."""
    parts = [
        f"{components_explaining(read.results[kind].projection, SHARE)} ({SCHEMES[kind].label})"
        for kind in read.shares
    ]
    if not parts:
        return ""
    return f"Components that explain {SHARE:.0%} of the variance: {', '.join(parts)}."


def explained(result: SchemeProjection) -> str:
    """Say what each of the first three components explains."""
    shares = variance_shares(result)
    if not shares.any():
        return "All positions have the same vector: nothing to project."
    parts = [f"{axis} {share:.1%}" for axis, share in zip(AXES, shares, strict=False)]
    return f"Variance explained: {', '.join(parts)}"


def fitted(result: SchemeProjection) -> str:
    """Say on which positions the axes were fitted, and which were only projected."""
    last = len(result.scores) - result.past - 1
    projected = f"; {last + 1:,}-{len(result.scores) - 1:,} projected" if result.past else ""
    absent = int(result.projection.missing.sum())
    missing = f"; {absent} positions are not finite and left out" if absent else ""
    return f"fitted on positions 0-{last:,}{projected}{missing}"


@memoize_on
def variance(read: Read) -> pd.DataFrame:
    """Return the share of variance that each component explains, and the first ones together."""
    needed = [components_explaining(result.projection, SHARE) for result in read.results.values()]
    count = max([COMPONENTS, *needed])
    parts = []
    for kind, result in read.results.items():
        shares = variance_shares(result)[:count]
        shares = np.pad(shares, (0, count - len(shares)))
        parts.append(
            {
                "scheme": SCHEMES[kind].label,
                "component": np.arange(1, count + 1),
                "own": shares,
                "share": np.cumsum(shares),
            }
        )
    return frames.stacked(parts, ["scheme", "component", "own", "share"])


@memoize_on
def variance_lines(read: Read) -> pd.DataFrame:
    """Return the cumulative variance as it is drawn."""
    return frames.drawn(variance(read).rename(columns={"component": "x", "share": "y"}))


@memoize_on
def scores(read: Read) -> pd.DataFrame:
    """Return the scores of every position as a table."""
    parts = [
        {"kind": kind, "position": (position := np.arange(len(result.scores)))}
        | dict(zip(AXES, result.scores.numpy().T, strict=True))
        | {"seen": np.where(position < read.setting.train_length, "inside", "past")}
        for kind, result in read.results.items()
    ]
    return frames.stacked(parts, ["kind", "position", *AXES, "seen"])


def script(setting: Setting, chosen: PcaChoice) -> str:
    """Return a script that prints the numbers called "scores"."""
    fitted = fitted_positions(setting, chosen.fit)
    return whole_script(IMPORTS, requests_in_python(setting), BODY.format(fitted=fitted))
