"""This as Python: for every page a short script on `posenc` that prints the page's main numbers as CSV.

A script is text, made from the setting and the page's choices; tests run each and compare.
"""

import dataclasses
from pathlib import Path
from typing import Any

import torch

import posenc
from dashboard.settings import Setting
from posenc.plugins import loaded_plugins


def to_python(value: Any) -> str:
    """Return a config, sizes or a request as Python: its class and what differs from the defaults."""
    changed = []
    for field in dataclasses.fields(value):
        current = getattr(value, field.name)
        if current != field.default:
            is_value = dataclasses.is_dataclass(current)
            changed.append(f"{field.name}={to_python(current) if is_value else _literal(current)}")
    return f"{_class_in_python(value)}({', '.join(changed)})"


def _class_in_python(value: Any) -> str:
    name = type(value).__name__
    if hasattr(posenc, name):
        return f"posenc.{name}"
    return f"posenc.SCHEMES[{value.kind!r}]"  # of a scheme that was added


def _literal(value: object) -> str:
    return str(value) if isinstance(value, torch.dtype) else repr(value)


def requests_in_python(setting: Setting, length: int | None = None) -> str:
    """Return `requests` as Python: what every scheme of a setting is asked for, by its kind."""
    lines = (
        f'    "{kind}": {to_python(setting.request(kind, length=length))},'
        for kind in setting.schemes
    )
    return "\n".join(("requests = {", *lines, "}"))


def uploaded(setting: Setting) -> str:
    """Return a comment where the script needs a file that only its owner has."""
    if not setting.learned_source.startswith("table-"):
        return ""
    return (
        f"# The uploaded table {setting.learned_source} has to be read again from its file first:\n"
        "#   from posenc.checkpoints import find_position_tables, read_header, read_position_table\n"
        "#   from posenc.checkpoints.sources import add_finder\n"
        '#   content = open("model.safetensors", "rb").read()\n'
        "#   name = find_position_tables(read_header(content))[0].name\n"
        '#   table = read_position_table(content, name, file_name="model.safetensors")\n'
        f"#   add_finder({{{setting.learned_source!r}: table}}.get)\n"
    )


def whole_script(imports: str, values: str, body: str) -> str:
    """Return a whole script: imports, the values of the setting, the body."""
    imports = imports.strip()
    if "torch." in values and "import torch" not in imports:
        imports = f"import torch\n\n{imports}"
    if "posenc.SCHEMES[" in values:  # of a scheme that was added, by these files
        names = (Path(file).name for file in loaded_plugins())
        values = "".join(f"posenc.load_plugin({name!r})\n" for name in names) + values
    return f"{imports}\n\n{values}\n{body.strip()}\n"
