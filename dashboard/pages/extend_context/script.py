"""Extend a model's context as Python: every method of a plan, ranked, as CSV."""

from dashboard.pages.extend_context.data import SCANNED, entered_length, model_token, takes_long
from dashboard.pages.extend_context.options import PlanChoice
from posenc.settings import Setting, chosen_model

_SCRIPT = """\
import csv
import sys

from posenc.planner import COLUMNS, plan, recommendation
from posenc.settings import chosen_model

model = chosen_model({model!r})
found = plan(
    model.config, {context}, name=model.preset.label, trained_length={trained}, methods={methods!r},
    search_base={search}, scan={scan},
)
{assumption}print(recommendation(found), file=sys.stderr)
rows = csv.writer(sys.stdout, lineterminator="\\n")
rows.writerow([column.title for column in COLUMNS])
for one in found.methods:
    rows.writerow([column.value(one) for column in COLUMNS])
"""

_ASSUMPTION = "print(model.config.assumption, file=sys.stderr)\n"


def script(setting: Setting, chosen: PlanChoice, every: bool = False) -> str:
    """Return a script that prints the ranked table of the setting's model."""
    model = model_token(setting)
    length = entered_length(chosen)
    every = every or not takes_long(model, chosen)
    return _SCRIPT.format(
        model=model,
        context=chosen.context,
        trained="model.preset.trained_length" if length is None else length,
        methods=list(chosen.methods),
        search=every,
        scan=None if every else SCANNED,
        assumption=_ASSUMPTION if chosen_model(model).config.assumption else "",
    )
