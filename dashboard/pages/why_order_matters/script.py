"""Why order matters as Python: the differences between a word's two outputs, as CSV."""

from dashboard.frame import script as frame_script
from dashboard.pages.why_order_matters.data import NO_POSITION
from dashboard.pages.why_order_matters.options import OrderChoice, order_of
from posenc.settings import Setting

_IMPORTS = """
import csv
import sys

import torch

from posenc import PositionOutOfRange
from posenc.analysis import RandomLayer, read_orders
from posenc.settings import Setting

torch.set_num_threads(1)
"""


def script(setting: Setting, chosen: OrderChoice) -> str:
    """Return a program that prints the page's difference by word, every digit of it."""
    words = tuple(chosen.sentence.split())
    kinds = tuple(dict.fromkeys((NO_POSITION, *setting.schemes)))
    body = f"""
words = {words!r}
order = {order_of(len(words), chosen.reorder)!r}  # the other order has words[order[i]] at place i

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
    return frame_script.script(_IMPORTS, setting, body)
