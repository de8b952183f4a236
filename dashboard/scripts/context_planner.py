"""The Context planner as Python: every method of a plan, ranked, as CSV."""

from dashboard.choices import PlanChoice
from dashboard.planner import SCANNED, planned, takes_long
from posenc import Setting

_SCRIPT = """\
import csv
import sys

from posenc.planner import plan, verdict
from posenc.shared_model import shared_model

model = shared_model({model!r})
found = plan(
    model.config, {context}, name=model.label, methods={methods!r},
    search_base={search}, scan={scan},
)
print(verdict(found), file=sys.stderr)
rows = csv.writer(sys.stdout, lineterminator="\\n")
rows.writerow(
    ["method", "training", "unseen pairs", "short texts, mean", "short texts, worst", "kept",
     "blended", "divided", "attention factor", "stale keys from", "B(k) < 0 at", "K at the end",
     "float32 cosine error"]
)
for one in found.methods:
    counts = [one.pairs.count(state) for state in ("kept", "blended", "divided")]
    rows.writerow(
        [one.method.label, one.usable, int(one.pairs.unseen.sum()), repr(one.short.mean),
         repr(one.short.worst), *counts, repr(one.attention_factor), one.stale_from,
         one.first_negative, repr([*one.kernel.values()][-1]), repr(one.cosine_error)]
    )
"""


def script(setting: Setting, chosen: PlanChoice, every: bool = False) -> str:
    """Return a script that prints the ranked table of the setting's model."""
    model = planned(setting)
    every = every or not takes_long(model, chosen)
    return _SCRIPT.format(
        model=model,
        context=chosen.context,
        methods=list(chosen.methods),
        search=every,
        scan=None if every else SCANNED,
    )
