"""Quiz questions of the Similarity page, whose correct answers are read from the page's results."""

from collections.abc import Mapping

import numpy as np
import torch

from dashboard.compute.schemes import Similarity
from dashboard.frame.quiz import OneOf, Question, Slider
from dashboard.pages.similarity.data import first_below_half
from dashboard.settings import Setting
from posenc.analysis import first_rise
from posenc.schemes import SCHEMES

NEVER, NONE = "never", "none of them"


def questions(setting: Setting, similarities: Mapping[str, Similarity]) -> list[Question]:
    """Return the questions on the schemes whose similarity is defined."""
    means = {kind: result.mean[np.isfinite(result.mean)] for kind, result in similarities.items()}
    kinds = [kind for kind, mean in means.items() if mean.size]
    below = {kind: first_below_half(similarities[kind]) for kind in kinds}
    distances = Slider(
        stops=tuple(float(k) for k in range(1, setting.length)),
        unit="positions",
        near=1,
        within=0.1,
        beyond=NEVER,
    )
    asked = [
        Question(
            key=f"half.{kind}",
            text=f"At which distance does the position similarity of {SCHEMES[kind].label} first drop "
            "below 0.5?",
            control=distances,
            truth=NEVER if distance is None else float(distance),
        )
        for kind, distance in below.items()
    ]
    asked += [
        Question(
            key=f"rise.{kind}",
            text=f"Does the position similarity of {SCHEMES[kind].label} ever rise again with distance?",
            control=OneOf(options=("yes", "no")),
            truth=frozenset({"no" if first_rise(torch.from_numpy(means[kind])) is None else "yes"}),
        )
        for kind in kinds
    ]
    if len(kinds) > 1:
        shortest = min((distance for distance in below.values() if distance), default=None)
        first = [SCHEMES[kind].label for kind in kinds if shortest and below[kind] == shortest]
        asked.append(
            Question(
                key="half.first",
                text="Whose similarity drops below 0.5 at the shortest distance?",
                control=OneOf(options=(*(SCHEMES[kind].label for kind in kinds), NONE)),
                truth=frozenset(first or {NONE}),
            )
        )
    return asked
