"""The Claims page as Python: every verdict at one setting, as CSV."""

from dashboard.frame import script as frame_script
from posenc.settings import Setting

_IMPORTS = """
import csv
import sys

from posenc.claims import CLAIMS
from posenc.settings import Setting
"""
_BODY = """
rows = csv.writer(sys.stdout, lineterminator="\\n")
rows.writerow(["id", "state", "number", "control"])
for name, claim in CLAIMS.items():
    verdict = claim.test(claim.relevant(setting))
    numbers = [one and one.value for one in (verdict.decides, verdict.control)]
    rows.writerow([name, verdict.status, *("" if x is None else repr(x) for x in numbers)])
"""


def script(setting: Setting) -> str:
    """Return a script that prints id, verdict, deciding number and control of every claim."""
    return frame_script.script(_IMPORTS, setting, _BODY)
