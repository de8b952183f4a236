"""Both halves of Extrapolation as Python."""

from dashboard.frame.script import script as whole
from dashboard.pages.extrapolation.options import FormulaChoice
from posenc.settings import Setting

FORMULA_IMPORTS = """
import posenc
from posenc.analysis import scheme_kernel_past
from posenc.settings import Query, Setting
"""
FORMULA = """
length = {reach} * setting.train_length
print("scheme,distance,cosine")
for kind in setting.schemes:
    query = Query.of(setting, kind, length=length)
    found = scheme_kernel_past(query, setting.train_length)
    for distance, cosine in zip(found.distances.tolist(), found.cosine.tolist()):
        print(posenc.SCHEMES[kind].label, distance, cosine, sep=",")
"""
MEASURED_IMPORTS = """
import posenc
from posenc.checkpoints.sources import RESULTS
from posenc.lab import Store, summary
from posenc.settings import Setting
"""
MEASURED = """
store = Store({store})
runs = [run for run in store if run.specification.scheme.kind in setting.schemes]
runs = [run for run in runs if summary.comparison(run.specification) == "{comparison}"]
curves = summary.curves(runs, "{measure}")
print("scheme,read,x,mean,low,high,seeds")
for curve in curves:
    for point in curve.points:
        label = curve.specification.scheme.label
        values = point.x, point.mean, point.low, point.high, curve.seeds
        print(label, curve.variant, *values, sep=",")
"""


def formula(setting: Setting, chosen: FormulaChoice) -> str:
    """Return a script that prints the numbers called "past the training length"."""
    exact = setting.replace(precision="float32")
    return whole(FORMULA_IMPORTS, exact, FORMULA.format(reach=chosen.reach))


def measured(setting: Setting, comparison: str, measure: str, *, ships: bool) -> str:
    """Return a script that prints the curves of a comparison, of runs that ship or of one's own."""
    store = "str(RESULTS)" if ships else ""
    body = MEASURED.format(comparison=comparison, measure=measure, store=store)
    return whole(MEASURED_IMPORTS, Setting(schemes=setting.schemes), body)
