"""Relative offsets as Python."""

from dashboard.frame.script import script as whole
from dashboard.pages.relative_offsets.options import OffsetChoice
from posenc.settings import Setting

IMPORTS = """
import posenc
from posenc.analysis import scheme_offset_claims, scheme_offset_map
from posenc.settings import Query, Setting
"""
BODY = """
offset, second = {offset}, {second}
print("scheme,closed,fitted,pairs,composed,spread along diagonals / overall,R squared")
for kind in setting.schemes:
    query = Query.of(setting, kind)
    found = scheme_offset_map(query, offset, second)
    claims = scheme_offset_claims(query)
    numbers = [found.closed, found.fitted, found.pairs, found.composed]
    numbers += [claims.only.error, claims.straight.r_squared]
    print(posenc.SCHEMES[kind].label, *("" if n is None else n for n in numbers), sep=",")
"""


def script(setting: Setting, chosen: OffsetChoice) -> str:
    """Return a script that prints the decisive number of every check."""
    return whole(IMPORTS, setting, BODY.format(offset=chosen.offset, second=chosen.second))
