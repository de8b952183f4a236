"""A Setting as text, each field that differs from its default, and as a record of all of them."""

from typing import Any

from dashboard.settings.setting import Setting
from posenc import fields
from posenc.fields import written
from posenc.schemes.sizes import own_defaults


def to_text(setting: Setting) -> dict[str, str]:
    """Return the text of every field that differs from its default."""
    default = fields.defaults(Setting)
    shared = [(name, getattr(setting, name)) for name in default]
    changes = [(name, value) for name, value in shared if value != default[name]]
    return {name: written(value) for name, value in [*changes, *setting.own]}


def record(setting: Setting) -> dict[str, Any]:
    """Return every field by its name, as JSON holds it, defaults too."""
    shared = {name: getattr(setting, name) for name in fields.rules(Setting)}
    return shared | own_defaults() | dict(setting.own)
