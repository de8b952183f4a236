"""Why order matters: one attention layer reads a sentence in two orders, with and without position."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from dashboard.cache import cached
from dashboard.pages.why_order_matters.options import Options, order_of
from dashboard.results import Array, per_scheme
from dashboard.script import to_python, whole_script
from dashboard.settings import Setting
from dashboard.text import word_labels
from posenc import Request
from posenc.analysis import OrderReading, RandomLayer, read_orders
from posenc.schemes import SCHEMES

NO_POSITION = "none"  # first, whatever is chosen: every scheme is compared with it
SAME = 1e-12  # what rounding in float64 leaves of outputs about 1
_IMPORTS = """
import csv
import sys

import torch

import posenc
from posenc.analysis import RandomLayer, read_orders

torch.set_num_threads(1)
"""


@dataclass(frozen=True, eq=False)
class SchemeOutputs:
    """Outputs of an attention layer with one scheme, without and with a causal mask.

    provenance: where the numbers of a table come from. readings: without the mask, then with it.
    """

    layer: RandomLayer
    provenance: str
    readings: Sequence[OrderReading]


@dataclass(frozen=True, eq=False)
class WhyPosition:
    """All that the page shows of one setting.

    other: the words in the other order; mirrored: whether that is the first one reversed.
    patterns: by scheme, which head is drawn and its weights, (2, n, n), in the first order and in the
    other. differences: a row per scheme, mask and word. weights: `patterns`, a row per pair of words.
    """

    words: tuple[str, ...]
    other: tuple[str, ...]
    mirrored: bool
    causal: bool
    schemes: Mapping[str, SchemeOutputs]
    reasons: Mapping[str, str]
    patterns: Mapping[str, tuple[str, Array]]
    differences: pd.DataFrame
    weights: pd.DataFrame

    def reading(self, kind: str) -> OrderReading:
        """Return what a scheme's layer gives under the mask of the page."""
        return self.schemes[kind].readings[self.causal]


def read(setting: Setting, options: Options) -> WhyPosition:
    """Return everything the page shows of a setting and its options."""
    words = tuple(options.sentence.split())
    order = order_of(words, options)
    names = ("dim", "heads", "equal_width", "seed", "learned_source")
    layer_setting = Setting(length=2, **{name: getattr(setting, name) for name in names})
    kinds = dict.fromkeys((NO_POSITION, *setting.schemes))
    requests = {kind: setting.request(kind, "cpu", len(words)) for kind in kinds}
    schemes, reasons = per_scheme(_read_scheme, requests, layer_setting, words, order)
    patterns = {
        kind: _pattern(outputs.readings[options.causal], options.pattern_head)
        for kind, outputs in schemes.items()
    }
    readings = [reading for outputs in schemes.values() for reading in outputs.readings]
    names_of_words, labels = word_labels(words), [SCHEMES[kind].label for kind in schemes]
    return WhyPosition(
        words=words,
        other=tuple(words[index] for index in order),
        mirrored=order == tuple(reversed(range(len(words)))),
        causal=options.causal,
        schemes=schemes,
        reasons=reasons,
        patterns=patterns,
        differences=_tidy(
            torch.stack([reading.differences for reading in readings]).numpy(),
            "difference",
            scheme=labels,
            mask=("no mask", "causal mask"),
            word=names_of_words,
        ),
        weights=_tidy(
            np.stack([weights for _, weights in patterns.values()]),
            "weight",
            scheme=labels,
            order=("first", "other"),
            query=names_of_words,
            key=names_of_words,
        ),
    )


@cached
def _read_scheme(
    request: Request, setting: Setting, words: tuple[str, ...], order: tuple[int, ...]
) -> SchemeOutputs:
    """Return what one scheme's layer gives; `setting` holds only what changes the layer."""
    scheme = request.build("cpu")
    layer = RandomLayer.of(setting.sizes, scheme)
    readings = [read_orders(scheme, layer, words, order, causal=causal) for causal in (False, True)]
    return SchemeOutputs(layer, scheme.provenance, readings)


def _pattern(reading: OrderReading, chosen: int) -> tuple[str, Array]:
    """Return which head is drawn, 0 being the mean, and its weights in both orders."""
    both = np.stack([reading.patterns.numpy(), reading.other_patterns.numpy()])
    heads = both.shape[1]
    if chosen == 0:
        name, weights = f"mean of {heads} heads", both.mean(axis=1)
    else:
        head = min(chosen, heads)
        name, weights = f"head {head} of {heads}", both[:, head - 1]
    return "one head" if heads == 1 else name, weights


def _tidy(values: Array, name: str, **axes: Sequence[str]) -> pd.DataFrame:
    """Return values as a column, a row each, beside the names along each axis."""
    rows = pd.MultiIndex.from_product([*axes.values()], names=[*axes])
    return pd.DataFrame({name: values.ravel()}, rows).reset_index()


def script(setting: Setting, options: Options) -> str:
    """Return a program that prints the page's difference by word, every digit of it."""
    words = tuple(options.sentence.split())
    kinds = tuple(dict.fromkeys((NO_POSITION, *setting.schemes)))
    body = f"""
words = {words!r}
order = {order_of(words, options)!r}  # the other order has words[order[i]] at place i

out = csv.writer(sys.stdout)
out.writerow(["scheme", "mask", "word", "difference"])
for config in configs:
    scheme = config.build(seed=sizes.seed)
    layer = RandomLayer.of(sizes, scheme)
    for mask in ("no mask", "causal mask"):
        try:
            found = read_orders(scheme, layer, words, order, causal=mask == "causal mask")
        except posenc.PositionOutOfRange as error:
            print(error, file=sys.stderr)
            continue
        for n, difference in enumerate(found.differences.tolist()):
            nth = f" ({{words[: n + 1].count(words[n])}})" if words.count(words[n]) > 1 else ""
            out.writerow([scheme.config.label, mask, words[n] + nth, repr(difference)])
"""
    configs = "".join(f"    {to_python(setting.config(kind))},\n" for kind in kinds)
    values = f"sizes = {to_python(setting.sizes)}\nconfigs = [\n{configs}]"
    return whole_script(_IMPORTS, values, body)
