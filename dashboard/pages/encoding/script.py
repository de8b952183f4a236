"""The Encoding page as a script on `posenc` alone: prints the first entries of every matrix as CSV."""

from dashboard.frame.script import script as whole
from dashboard.pages.encoding.data import CORNER
from posenc.settings import Setting

IMPORTS = """
from posenc import encoding
from posenc.settings import Query, Setting, known
"""
BODY = """
print("scheme,position,column,name,value")
for kind in setting.schemes:
    query = Query.of(setting, kind)
    scheme = query.build("cpu")
    rows = known(scheme, setting.length)
    numbers = encoding(scheme, rows, head=query.head, dtype=query.dtype)
    if numbers is None:  # a scheme without numbers
        continue
    width = setting.length if numbers.is_bias else numbers.values.shape[1]
    for i in range(min({corner}, setting.length)):
        for j in range(min({corner}, width)):
            name = f"key {{j}}" if numbers.is_bias else numbers.features[j]
            value = numbers.values[i, j].item() if i < rows else float("nan")
            print(scheme.config.label, i, j, name, repr(value), sep=",")
"""


def script(setting: Setting) -> str:
    """Return a complete Python script that prints the page's table of first entries."""
    return whole(IMPORTS, setting, BODY.format(corner=CORNER))
