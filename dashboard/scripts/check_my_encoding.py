"""Check my encoding as Python: what the chosen table is, as CSV."""

from dashboard.check import of_sidebar
from dashboard.check_frames import FIELDS
from dashboard.choices import CheckChoice
from dashboard.scripts import written
from posenc import Setting
from posenc.identification.examples import EXAMPLES

_SCRIPT = """\
import csv
import sys

from posenc.identification import identify
from posenc.identification.words import fit_sentence, headline, record
{imports}

{table}
found = identify(table, sines)
print(headline(found), fit_sentence(found), file=sys.stderr)
for one in found.deviations:
    print(one.sentence, file=sys.stderr)
said = record(found)
said["scheme"] = said["config"]["kind"] if said["config"] else None
names = {names!r}
rows = csv.writer(sys.stdout, lineterminator="\\n")
rows.writerow(names)
rows.writerow([said[name] for name in names])
"""


def script(setting: Setting, chosen: CheckChoice) -> str:
    """Return a script that prints what the chosen table is; an upload is read from its owner's file."""
    if chosen.table in EXAMPLES:
        imports = "import posenc\nfrom posenc.identification.examples import EXAMPLES"
        table = (
            f"setting = {written(of_sidebar(setting))}\n"
            f"table, sines = EXAMPLES[{chosen.table!r}].make(setting)"
        )
    else:
        imports = "from posenc.interop.number_tables import read_number_table"
        table = (
            f"# Uploaded as {chosen.table}; name your own file here, and the tensor if it has several.\n"
            'read = read_number_table("table.npy")\n'
            "table, sines = read.table, read.sines"
        )
    return _SCRIPT.format(imports=imports, table=table, names=["scheme", *FIELDS])
