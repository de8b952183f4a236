"""Quiz questions of the Similarity page, whose truth is read from the page's results."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch

from dashboard.compute.schemes import Similarity
from dashboard.frame.quiz import OneOf, Question, Slider
from dashboard.pages.similarity.data import first_below_half
from posenc.analysis import first_rise
from posenc.schemes import SCHEMES
from posenc.settings import Setting

Similarities = Mapping[str, Similarity]

NEVER, NONE = "never", "none of them"
YES, NO = "yes", "no"


def questions(setting: Setting, found: Similarities) -> list[Question[Similarities]]:
    """Return the questions on the schemes whose similarity is defined."""
    kinds = [kind for kind, one in found.items() if np.isfinite(one.mean).any()]
    labels = {kind: SCHEMES[kind].label for kind in kinds}
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
            text=f"At which distance does the position similarity of {labels[kind]} first drop below 0.5?",
            control=distances,
            truth=partial(_half, kind),
        )
        for kind in kinds
    ]
    asked += [
        Question(
            key=f"rise.{kind}",
            text=f"Does the position similarity of {labels[kind]} ever rise again with distance?",
            control=OneOf(options=(YES, NO)),
            truth=partial(_rises, kind),
        )
        for kind in kinds
    ]
    if len(kinds) > 1:
        first: Question[Similarities] = Question(
            key="half.first",
            text="Whose similarity drops below 0.5 at the shortest distance?",
            control=OneOf(options=(*labels.values(), NONE)),
            truth=_first_under_half,
        )
        asked.append(first)
    return asked


def _half(kind: str, found: Similarities) -> float | str:
    distance = first_below_half(found[kind])
    return NEVER if distance is None else float(distance)


def _rises(kind: str, found: Similarities) -> frozenset[str]:
    mean = found[kind].mean
    rise = first_rise(torch.from_numpy(mean[np.isfinite(mean)]))
    return frozenset({NO if rise is None else YES})


def _first_under_half(found: Similarities) -> frozenset[str]:
    under = {kind: first_below_half(one) for kind, one in found.items()}
    least = min((distance for distance in under.values() if distance is not None), default=None)
    if least is None:
        return frozenset({NONE})
    return frozenset(SCHEMES[kind].label for kind, distance in under.items() if distance == least)
