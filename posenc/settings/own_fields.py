"""Fields that belong to one scheme each, by names such as "rope.layout": rules, defaults, text."""

import functools
from collections.abc import Mapping
from typing import Any

from posenc import fields
from posenc.errors import ConfigError, shown
from posenc.schemes import SCHEMES
from posenc.schemes.base import SchemeConfig


def rules() -> dict[str, fields.Rule]:
    """Return the rules of the fields that belong to one scheme each, such as "rope.layout"."""
    return {name: rule for name, (rule, _) in _all(tuple(SCHEMES.items())).items()}


def defaults() -> dict[str, Any]:
    """Return the defaults of the fields that belong to one scheme each."""
    return {name: default for name, (_, default) in _all(tuple(SCHEMES.items())).items()}


@functools.lru_cache(maxsize=4)  # of one registry; tests have others
def _all(schemes: tuple[tuple[str, type[SchemeConfig]], ...]) -> dict[str, tuple[fields.Rule, Any]]:
    """Return rule and default of every scheme's own fields."""
    return {
        f"{kind}.{name}": (rule, fields.defaults(config)[name])
        for kind, config in schemes
        for name, rule in config.own_rules().items()
    }


def canonical(own: object) -> tuple[tuple[str, Any], ...]:
    """Return `own` sorted and without defaults, so that equal settings compare equal."""
    default = defaults()
    pairs = own if isinstance(own, tuple) else (None,)
    if not all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
        raise ConfigError(
            'Setting.own must be a tuple of pairs such as ("rope.layout", "half"), '
            f"got {shown(own)}."
        )
    keys = [key for key, _ in pairs]
    for key in keys:
        if key not in default or keys.count(key) > 1:
            kind = key.partition(".")[0]
            near = (
                [name for name in default if name.startswith(f"{kind}.")] if kind in SCHEMES else []
            )
            named = ", ".join(near) or "fields of one scheme such as rope.layout"
            raise ConfigError(f"Setting.own may hold {named}, each once, got {shown(key)}.")
    return tuple(sorted((key, value) for key, value in pairs if value != default[key]))


def snap(raw: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields that text sets to another than their default, and what had to be changed."""
    values: dict[str, Any] = {}
    notices: list[str] = []
    for kind, config in SCHEMES.items():
        prefix = f"{kind}."
        names = {prefix + name: name for name in config.own_rules()}
        given = {name: raw[key] for key, name in names.items() if key in raw}
        snapped, changed = fields.snap(config, given)
        default = fields.defaults(config)
        values |= {
            f"{kind}.{name}": snapped[name] for name in given if snapped[name] != default[name]
        }
        notices += changed
    return values, notices
