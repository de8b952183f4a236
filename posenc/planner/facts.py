"""Facts of a plan beside its numbers, and why methods are left out.

A fact is a word and the numbers and names that belong to it; sentences.toml has a template for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from posenc.analysis import BaseWindow
from posenc.planner.methods import LARGER_BASE, UNSCALED, Method
from posenc.schemes.rope import RopeConfig


@dataclass(frozen=True)
class Fact:
    """A word, and the numbers and names that its sentence is made of."""

    word: str
    numbers: dict[str, Any]


def left_out(
    method: Method,
    trained: RopeConfig,
    current: RopeConfig,
    window: BaseWindow | None,
    *,
    configured: bool,
    searched: bool,
    behind: Sequence[str],
) -> Fact:
    """Return why a method is not compared.

    configured: whether the model's config has it already. searched: whether a larger base was looked for.
    behind: planned methods that direct comparisons put behind a larger base.
    """
    numbers: dict[str, Any] = {
        "label": method.label,
        "current": current.words,
        "scheme": trained.label,
        "base": trained.base,
    }
    if configured:
        word = "configured"
    elif method.name == UNSCALED.name:
        word = "as_trained"
    elif method is LARGER_BASE:
        word = "no_base" if window is None else "base_enough"
        if type(trained) is not RopeConfig:
            word = "not_plain"
        elif not searched:
            word, numbers["behind"] = "not_searched_ahead" if behind else "not_searched", behind
    else:
        word = "out_of_range" if type(trained) is RopeConfig else "not_plain"
    return Fact(word, numbers)
