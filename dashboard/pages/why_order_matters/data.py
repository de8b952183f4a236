"""Why order matters: one attention layer reads a sentence in two orders, with and without position."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dashboard.compute.result_cache import cache_result
from dashboard.compute.schemes import Array
from dashboard.frame.script import script as whole
from dashboard.pages.why_order_matters.options import OrderChoice, SwapChoice, order_of
from posenc.analysis import OrderReading, RandomLayer, read_orders
from posenc.errors import CheckpointError, PositionOutOfRange
from posenc.schemes import SCHEMES
from posenc.settings import Query, Setting

NO_POSITION = "none"  # first, whatever is chosen: every scheme is compared with it
MASKS = ("no mask", "causal mask")
SAME = 1e-12  # what rounding in float64 leaves of outputs about 1
_IMPORTS = """
import csv
import sys

import torch

from posenc import PositionOutOfRange
from posenc.analysis import RandomLayer, read_orders
from posenc.settings import Setting

torch.set_num_threads(1)
"""


@dataclass(frozen=True, eq=False)
class SchemeOutputs:
    """What one scheme's layer gives, by mask; the layer and where a table's numbers come from."""

    layer: RandomLayer
    provenance: str
    by_mask: Mapping[str, OrderReading]


@dataclass(frozen=True, eq=False)
class WhyPosition:
    """All that the page shows of one setting.

    order: the other order as a permutation; `other[i]` is `words[order[i]]`. mask: that of `patterns`.
    patterns: by scheme, the weights (n, n) of the head drawn, in the first order and in the other.
    differences: a row per scheme, mask and word. weights: `patterns`, a row per pair of words.
    """

    words: tuple[str, ...]
    other: tuple[str, ...]
    order: tuple[int, ...]
    mask: str
    schemes: Mapping[str, SchemeOutputs]
    reasons: Mapping[str, str]
    patterns: Mapping[str, tuple[Array, Array]]
    heads: Mapping[str, str]
    differences: pd.DataFrame
    weights: pd.DataFrame

    @property
    def mirrored(self) -> bool:
        """Whether the other order is the first one reversed."""
        return self.order == tuple(range(len(self.words)))[::-1]

    def reading(self, kind: str) -> OrderReading:
        """Return what a scheme's layer gives under the mask of the page."""
        return self.schemes[kind].by_mask[self.mask]


@cache_result
def read(setting: Setting, chosen: OrderChoice, swap: SwapChoice) -> WhyPosition:
    """Return everything the page shows of a setting and its choices."""
    words = tuple(chosen.sentence.split())
    order = order_of(len(words), chosen.reorder, swap)
    names = ("dim", "heads", "equal_width", "seed", "learned_source")
    layer_setting = Setting(length=2, **{name: getattr(setting, name) for name in names})
    schemes: dict[str, SchemeOutputs] = {}
    reasons: dict[str, str] = {}
    for kind in dict.fromkeys((NO_POSITION, *setting.schemes)):
        query = Query.of(setting, kind, "cpu", len(words))
        try:
            schemes[kind] = _read_scheme(query, layer_setting, words, order)
        except (CheckpointError, PositionOutOfRange) as reason:
            reasons[kind] = str(reason)
    mask, head, named = MASKS[chosen.causal], chosen.pattern_head, labels(words)
    patterns = {kind: _pattern(outputs.by_mask[mask], head) for kind, outputs in schemes.items()}
    return WhyPosition(
        words=words,
        other=tuple(words[index] for index in order),
        order=order,
        mask=mask,
        schemes=schemes,
        reasons=reasons,
        patterns=patterns,
        heads={kind: _head(outputs.layer.heads, head) for kind, outputs in schemes.items()},
        differences=_differences(named, schemes),
        weights=_weights(named, patterns),
    )


@cache_result
def _read_scheme(
    query: Query, setting: Setting, words: tuple[str, ...], order: tuple[int, ...]
) -> SchemeOutputs:
    """Return what one scheme's layer gives; `setting` holds only what changes the layer."""
    scheme = query.build("cpu")
    layer = RandomLayer.of(setting, scheme)
    by_mask = {
        mask: read_orders(scheme, layer, words, order, causal=mask == "causal mask")
        for mask in MASKS
    }
    return SchemeOutputs(layer, scheme.provenance, by_mask)


def labels(words: tuple[str, ...]) -> list[str]:
    """Return a name for every word: itself, with its occurrence where it stands more than once."""
    count, place = Counter(words), Counter[str]()
    named = []
    for word in words:
        place[word] += 1
        named.append(word if count[word] == 1 else f"{word} ({place[word]})")
    return named


def _head(heads: int, chosen: int) -> str:
    """Say which head is drawn of a layer with so many."""
    if heads == 1:
        return "one head"
    return f"mean of {heads} heads" if chosen == 0 else f"head {min(chosen, heads)} of {heads}"


def _pattern(reading: OrderReading, chosen: int) -> tuple[Array, Array]:
    """Return the weights of one head, or their mean over heads, in both orders."""
    first, other = reading.patterns.numpy(), reading.other_patterns.numpy()
    if chosen == 0:
        return first.mean(axis=0), other.mean(axis=0)
    head = min(chosen, len(first)) - 1
    return first[head], other[head]


def _differences(named: list[str], schemes: Mapping[str, SchemeOutputs]) -> pd.DataFrame:
    """Return the change of each output, by scheme, mask and word."""
    rows = [
        {"scheme": SCHEMES[kind].label, "mask": mask, "word": word, "difference": difference}
        for kind, outputs in schemes.items()
        for mask, reading in outputs.by_mask.items()
        for word, difference in zip(named, reading.differences.tolist(), strict=True)
    ]
    return pd.DataFrame(rows)


def _weights(named: list[str], patterns: Mapping[str, tuple[Array, Array]]) -> pd.DataFrame:
    """Return the attention weights of both orders."""
    count = len(named)
    parts = [
        pd.DataFrame(
            {
                "scheme": SCHEMES[kind].label,
                "order": order,
                "query": np.repeat(named, count),
                "key": np.tile(named, count),
                "weight": values.ravel(),
            }
        )
        for kind, both in patterns.items()
        for order, values in zip(("first", "other"), both, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def script(setting: Setting, chosen: OrderChoice, swap: SwapChoice) -> str:
    """Return a program that prints the page's difference by word, every digit of it."""
    words = tuple(chosen.sentence.split())
    kinds = tuple(dict.fromkeys((NO_POSITION, *setting.schemes)))
    body = f"""
words = {words!r}
order = {order_of(len(words), chosen.reorder, swap)!r}  # the other order has words[order[i]] at place i

out = csv.writer(sys.stdout)
out.writerow(["scheme", "mask", "word", "difference"])
for kind in {kinds!r}:
    scheme = setting.config(kind).build(seed=setting.seed)
    layer = RandomLayer.of(setting, scheme)
    for mask in ("no mask", "causal mask"):
        try:
            found = read_orders(scheme, layer, words, order, causal=mask == "causal mask")
        except PositionOutOfRange as error:
            print(error, file=sys.stderr)
            continue
        for n, difference in enumerate(found.differences.tolist()):
            nth = f" ({{words[: n + 1].count(words[n])}})" if words.count(words[n]) > 1 else ""
            out.writerow([scheme.config.label, mask, words[n] + nth, repr(difference)])
"""
    return whole(_IMPORTS, setting, body)
