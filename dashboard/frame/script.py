"""This as Python: for every page a short script on `posenc` that prints the page's main numbers as CSV.

A script is text, made from the setting and the page's choices; tests run each and compare.
"""

from posenc import fields
from posenc.settings import Setting


def to_python(setting: Setting) -> str:
    """Return a setting as Python: what differs from the defaults, all of it legal where it is run."""
    default = fields.defaults(Setting)
    changed = [
        f"{name}={getattr(setting, name)!r}"
        for name in fields.rules(Setting)
        if getattr(setting, name) != default[name]
    ]
    if setting.own:
        changed.append(f"own={setting.own!r}")
    return f"Setting({', '.join(changed)})"


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


def whole_script(imports: str, setting: Setting, body: str) -> str:
    """Return a whole script: imports, the setting, the body."""
    return f"{imports.strip()}\n\nsetting = {to_python(setting)}\n{body.strip()}\n"
