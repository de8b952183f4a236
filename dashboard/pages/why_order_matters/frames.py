"""Why order matters as tidy frames: a word's outputs in both orders, and attention weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dashboard.compute.schemes import Array
from posenc.schemes import SCHEMES

if TYPE_CHECKING:
    from dashboard.pages.why_order_matters.data import Seen


FEATURES = 4  # of every output, in the table of outputs


def labels(words: tuple[str, ...]) -> list[str]:
    """Return a name for every word: itself, with its occurrence where it stands more than once."""
    count, seen = Counter(words), Counter[str]()
    named = []
    for word in words:
        seen[word] += 1
        named.append(word if count[word] == 1 else f"{word} ({seen[word]})")
    return named


def summary(seen: Mapping[str, Seen]) -> pd.DataFrame:
    """Return one row for each scheme: the largest differences by mask, and the size of an output."""
    rows = []
    for kind, one in seen.items():
        free, masked = one.by_mask["no mask"], one.by_mask["causal mask"]
        rows.append(
            {
                "scheme": SCHEMES[kind].label,
                "no mask": free.largest,
                "causal mask": masked.largest,
                "mean of all words, no mask": free.pooled,
                "size of an output": free.size,
            }
        )
    return pd.DataFrame(rows)


def differences(words: tuple[str, ...], seen: Mapping[str, Seen]) -> pd.DataFrame:
    """Return how far each output moved, by scheme, mask and word."""
    parts = [
        pd.DataFrame(
            {
                "scheme": SCHEMES[kind].label,
                "mask": mask,
                "word": labels(words),
                "difference": found.differences,
            }
        )
        for kind, one in seen.items()
        for mask, found in one.by_mask.items()
    ]
    return pd.concat(parts, ignore_index=True)


def outputs(words: tuple[str, ...], seen: Mapping[str, Seen]) -> pd.DataFrame:
    """Return the first features of the outputs in both orders."""
    parts = []
    for kind, one in seen.items():
        for mask, found in one.by_mask.items():
            for order, values in (("first", found.outputs), ("other", found.other_outputs)):
                first = values[:, :FEATURES]
                frame = pd.DataFrame(first, columns=[f"feature {i}" for i in range(first.shape[1])])
                frame.insert(0, "word", labels(words))
                frame.insert(0, "order", order)
                frame.insert(0, "mask", mask)
                frame.insert(0, "scheme", SCHEMES[kind].label)
                parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def weights(words: tuple[str, ...], patterns: Mapping[str, tuple[Array, Array]]) -> pd.DataFrame:
    """Return the attention weights of both orders."""
    named = labels(words)
    count = len(words)
    parts = [
        pd.DataFrame(
            {
                "scheme": SCHEMES[kind].label,
                "order": order,
                "word": np.repeat(named, count),
                "looks at": np.tile(named, count),
                "weight": values.ravel(),
            }
        )
        for kind, both in patterns.items()
        for order, values in zip(("first", "other"), both, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)
