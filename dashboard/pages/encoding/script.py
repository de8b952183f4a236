"""The Encoding page as a script on `posenc` alone: prints the first entries of every matrix as CSV."""

from dashboard.compute import schemes
from dashboard.pages.encoding.data import CORNER
from dashboard.pages.encoding.options import EncodingChoice
from posenc import fields
from posenc.settings import Setting
from posenc.settings.setting import PRECISIONS

SCRIPT = '''\
"""What each scheme puts in: the first {corner} rows and columns of its matrix, as CSV."""

from posenc import encoding
from posenc.settings import Setting
{imports}
setting = Setting(
{arguments})
print("scheme,position,column,name,value")
for kind in setting.schemes:
    config = setting.config(kind)
    scheme = config.build(seed=setting.seed)
    known = min(setting.length, scheme.max_length or setting.length)
    found = encoding(scheme, known, head={head}, dtype={dtype})
    if found is None:  # nothing is put in
        continue
    width = found.values.shape[1]
    for i in range(min({corner}, setting.length)):
        for j in range(min({corner}, setting.length if found.is_bias else width)):
            name = f"key {{j}}" if found.is_bias else found.features[j]
            value = found.values[i, j].item() if i < known else float("nan")
            print(config.label, i, j, name, repr(value), sep=",")
'''


def script(setting: Setting, chosen: EncodingChoice) -> str:
    """Return a complete Python script that prints the page's table of first entries.

    chosen: changes nothing there, only what is drawn and how formulas are written.
    """
    default = fields.defaults(Setting)
    changed = {
        name: getattr(setting, name)
        for name in fields.rules(Setting)
        if name != "device" and getattr(setting, name) != default[name]
    }
    if setting.own:
        changed["own"] = setting.own
    dtype = PRECISIONS[setting.precision]
    heads = {schemes.query(setting, kind).head for kind in setting.schemes} - {"mean"}
    return SCRIPT.format(
        corner=CORNER,
        imports="" if dtype is None else "import torch\n",
        arguments="".join(f"    {name}={value!r},\n" for name, value in changed.items()),
        head=repr(next(iter(heads), "mean")),
        dtype=dtype,
    ).replace(
        "from posenc import encoding\nimport torch",
        "import torch\n\nfrom posenc import encoding",
    )
