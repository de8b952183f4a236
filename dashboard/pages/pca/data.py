"""Numbers of the PCA page: scores, explained variance, both in words, and as Python."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from dashboard import results
from dashboard.cache import cached
from dashboard.charts import frames
from dashboard.pages.pca.options import PLANES, Options
from dashboard.results import Array
from dashboard.script import requests_in_python, whole_script
from dashboard.settings import Setting
from dashboard.text import listed
from posenc import Request
from posenc.analysis import SchemeProjection, components_explaining, scheme_projection
from posenc.kernel import position_vectors
from posenc.schemes import SCHEMES
from posenc.schemes.base import VectorScheme
from posenc.text import count_of, joined

COMPONENTS = 12  # of which the explained variance is shown, more where SHARE takes more
SHARE = 0.9
AXES = ("PC1", "PC2", "PC3")
# What each component separates where it changes its sign once, twice, three times along the positions.
SEPARATES = (
    "early positions from late ones",
    "the middle from both ends",
    "the first and third stretch of positions from the second and fourth",
)
ORDER = "near positions are alike and far ones are not (horseshoe effect)."  # why a curve bends
ZIGZAG = 1 / 20  # share of the training positions with a sharp turn, above which a curve zigzags
PAIRED = ("sinusoidal", "rope")  # whose vectors are pairs of a sine and a cosine

Found = Mapping[str, SchemeProjection]  # by scheme

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


@cached
def projected(request: Request, fitted: int) -> SchemeProjection:
    """Return principal components fitted on the first `fitted` positions, all of them projected."""
    results.check_table(request)
    results.one_thread_for_numpy()
    return scheme_projection(request, fitted, len(AXES))


def fitted_positions(setting: Setting, fit: str) -> int:
    """Return how many positions the components are fitted on. fit: seen or all."""
    return setting.length if fit == "all" else min(setting.train_length, setting.length)


def shares_of(found: Found) -> dict[str, Array]:
    """Return the share of variance of every component, of the schemes whose positions differ."""
    shares = {kind: variance_shares(result) for kind, result in found.items()}
    return {kind: values for kind, values in shares.items() if values.any()}


def variance_shares(result: SchemeProjection) -> Array:
    """Return the share of variance of every component."""
    shares: Array = result.projection.all_variance_ratios.numpy()
    return shares


def headline(shares: Mapping[str, Array]) -> str:
    """Say how much of each scheme the first two components explain."""
    if not shares:
        return "All positions have the same vector, so there is nothing to project."
    both = {kind: own[:2].sum() for kind, own in shares.items()}
    most, less = (
        [
            f"{SCHEMES[kind].label} ({share:.0%})"
            for kind, share in both.items()
            if (share > 0.5) == many
        ]
        for many in (True, False)
    )
    if not less:
        return f"PC1 and PC2 show most of the variance of {listed(most)}."
    if not most:
        return f"PC1 and PC2 show less than half of the variance of {listed(less)}."
    return (
        f"PC1 and PC2 show most of the variance of {listed(most)}, but not of {joined(less, 'or')}."
    )


def meaning(found: Found, shares: Mapping[str, Array], options: Options) -> str:
    """Say what the variance of the headline is, and what components separate where curves bend.

    As theory says, the first component changes its sign once along the positions, the second twice, and
    so on.
    """
    if not shares:
        return ""
    fitted_on = "training" if options.fit == "seen" else "all"
    text = f"Variance: how far the vectors of {fitted_on} positions are spread."
    waves = [AXES.index(axis) for axis in PLANES.get(options.plot, ())]
    bent = []
    for kind in shares if waves else ():
        result = found[kind]
        scores = result.scores.numpy()[: len(result.scores) - result.past, waves]
        changes = np.diff(scores[~np.isnan(scores).any(axis=1)] > 0, axis=0).sum(axis=0)
        if (changes == np.array(waves) + 1).all():
            bent.append(SCHEMES[kind].label)
    if bent:
        parts = " and ".join(f"{AXES[wave]} separates {SEPARATES[wave]}" for wave in waves)
        bend = f"curves of {listed(bent)} bend" if bent[1:] else f"curve of {bent[0]} bends"
        text += f" The {bend} because {ORDER} Here {parts}."
    return text


@cached
def why_shape(request: Request, fitted: int, plane: tuple[str, str]) -> str:
    """Say why a curve zigzags in training, or what PCA uses of a scheme without vectors; "" for others."""
    scheme = request.build("cpu")
    if not isinstance(scheme, VectorScheme):
        label = scheme.config.label
        return (
            f"{label} has no position vectors. PCA uses vectors whose inner products are the similarities "
            f"of {label}, with one dimension per position."
        )
    result = projected(request, fitted)
    trained = len(result.scores) - result.past
    turns = sharp_turns(result.scores.numpy()[:trained, [AXES.index(axis) for axis in plane]])
    if scheme.config.kind not in PAIRED or turns <= ZIGZAG * trained:
        return ""
    pairs = (position_vectors(scheme, 1).shape[1] - scheme.unpaired) // 2
    return (
        f"The curve zigzags at {count_of(turns, 'training position')}: these vectors have "
        f"{count_of(pairs, 'pair')} of sine and cosine, too few for the fast waves to cancel."
    )


def sharp_turns(points: Array) -> int:
    """Return at how many points a path turns by more than a right angle. points: (n, 2)."""
    steps = np.diff(points, axis=0)
    return int(((steps[1:] * steps[:-1]).sum(axis=1) < 0).sum())


def components_needed(found: Found, kinds: Iterable[str]) -> str:
    """Say how many components explain SHARE of the variance of these schemes."""
    parts = [
        f"{components_explaining(found[kind].projection, SHARE)} ({SCHEMES[kind].label})"
        for kind in kinds
    ]
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


def variance(found: Found) -> pd.DataFrame:
    """Return the share of variance that each component explains, x, and the first ones together, y."""
    needed = [components_explaining(result.projection, SHARE) for result in found.values()]
    count = max([COMPONENTS, *needed])
    parts = []
    for kind, result in found.items():
        shares = variance_shares(result)[:count]
        shares = np.pad(shares, (0, count - len(shares)))
        parts.append(
            {
                "scheme": SCHEMES[kind].label,
                "x": np.arange(1, count + 1),
                "own": shares,
                "y": np.cumsum(shares),
            }
        )
    return frames.stacked(parts, ["scheme", "x", "own", "y"])


def scores(found: Found, train_length: int) -> pd.DataFrame:
    """Return the scores of every position as a table."""
    parts = [
        {"kind": kind, "position": (position := np.arange(len(result.scores)))}
        | dict(zip(AXES, result.scores.numpy().T, strict=True))
        | {"seen": np.where(position < train_length, "inside", "past")}
        for kind, result in found.items()
    ]
    return frames.stacked(parts, ["kind", "position", *AXES, "seen"])


def script(setting: Setting, options: Options) -> str:
    """Return a script that prints the numbers called "Scores"."""
    fitted = fitted_positions(setting, options.fit)
    return whole_script(IMPORTS, requests_in_python(setting), BODY.format(fitted=fitted))
