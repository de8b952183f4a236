"""Why order matters as Python: the differences between a word's two outputs, as CSV."""

from dashboard.pages.why_order_matters.data import NO_POSITION
from dashboard.pages.why_order_matters.options import OrderChoice, order_of
from posenc import fields
from posenc.settings import Setting


def script(setting: Setting, chosen: OrderChoice) -> str:
    """Return a program that prints the page's difference by word, every digit of it."""
    words = tuple(chosen.sentence.split())
    default = fields.defaults(Setting)
    said = {name: getattr(setting, name) for name in default if name != "device"}
    arguments = [f"{name}={value!r}" for name, value in said.items() if value != default[name]]
    arguments += [f"own={setting.own!r}"] if setting.own else []
    kinds = tuple(dict.fromkeys((NO_POSITION, *setting.schemes)))
    return f'''"""What one attention layer sees of word order."""

import csv
import sys
from collections import Counter

import torch

from posenc import PositionOutOfRange
from posenc.analysis import RandomLayer, read_orders
from posenc.settings import Setting

torch.set_num_threads(1)

words = {words!r}
order = {order_of(len(words), chosen.reorder)!r}  # the other order has words[order[i]] at place i
setting = Setting({", ".join(arguments)})

seen = Counter()
names = []
for word in words:
    seen[word] += 1
    names.append(word if words.count(word) == 1 else f"{{word}} ({{seen[word]}})")

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
        for word, difference in zip(names, found.differences.tolist()):
            out.writerow([scheme.config.label, mask, word, repr(difference)])
'''
