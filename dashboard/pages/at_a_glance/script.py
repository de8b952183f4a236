"""At a glance as Python."""

from dashboard.frame.script import script as whole
from posenc.settings import Setting

IMPORTS = """
import posenc
from posenc.analysis import scheme_properties
from posenc.settings import Query, Setting
"""
BODY = """
names = (
    "positions", "smallest_distance", "neighbour_mean", "norm_low", "norm_high", "value_low",
    "value_high", "translation_invariance_error", "first_rise", "kendall_tau",
)
print("scheme", *names, sep=",")
for kind in setting.schemes:
    found = scheme_properties(Query.of(setting, kind))
    values = [getattr(found, name) for name in names]
    print(posenc.SCHEMES[kind].label, *("" if v is None else v for v in values), sep=",")
"""


def script(setting: Setting) -> str:
    """Return a script that prints the numbers called "measured properties"."""
    return whole(IMPORTS, setting, BODY)
