"""The Claims page as Python: every verdict at one setting, as CSV."""

from dashboard.pages.claims.options import ClaimsChoice
from posenc import fields
from posenc.settings import Setting

_SCRIPT = """\
import csv
import sys

from posenc.claims import CLAIMS
from posenc.settings import Setting

setting = Setting({arguments})
rows = csv.writer(sys.stdout, lineterminator="\\n")
rows.writerow(["id", "state", "number", "control"])
for name, claim in CLAIMS.items():
    verdict = claim.test(setting)
    numbers = [one and one.value for one in (verdict.decides, verdict.control)]
    rows.writerow([name, verdict.status, *("" if x is None else repr(x) for x in numbers)])
"""


def script(setting: Setting, chosen: ClaimsChoice) -> str:
    """Return a script that prints id, verdict, deciding number and control of every claim.

    What was filtered is printed too, as in the table of numbers; learned tables that were uploaded
    are known to the server alone, so that script then needs a source of its own.
    """
    default = fields.defaults(Setting)
    # Schemes, device and model change no verdict.
    names = [name for name in default if name not in ("schemes", "device", "model")]
    said = {name: getattr(setting, name) for name in names}
    parts = [f"{name}={value!r}" for name, value in said.items() if value != default[name]]
    if setting.own:
        parts.append(f"own={setting.own!r}")
    return _SCRIPT.format(arguments=", ".join(parts))
