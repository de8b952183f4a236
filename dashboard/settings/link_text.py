"""A Setting as text: each field that differs from its default, and back from any text."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dashboard.settings.chosen_model import chosen_model
from dashboard.settings.field_text import clamp, snap
from dashboard.settings.setting import (
    MAX_SHOWN_ELEMENTS,
    Setting,
    head_count,
    largest_width,
)
from posenc import fields
from posenc.errors import ConfigError, ConfigFileError, quoted
from posenc.fields import written
from posenc.schemes import SCHEMES
from posenc.schemes.sizes import own_defaults


def to_text(setting: Setting) -> dict[str, str]:
    """Return the text of every field that differs from its default; `from_text` reads it back."""
    default = fields.defaults(Setting)
    shared = [(name, getattr(setting, name)) for name in default]
    changes = [(name, value) for name, value in shared if value != default[name]]
    return {name: written(value) for name, value in [*changes, *setting.own]}


def record(setting: Setting) -> dict[str, Any]:
    """Return every field by its name, as JSON holds it, defaults too."""
    shared = {name: getattr(setting, name) for name in fields.rules(Setting)}
    return shared | own_defaults() | dict(setting.own)


def read_text(raw: Mapping[str, str]) -> tuple[Setting, list[str]]:
    """Return the setting that texts of its fields mean as they stand, and the names of all others.

    Left out is what is no field, what a rule does not read as it is written, and what does not go with the
    other numbers: one such field if that is enough, else every one that does not go with those before it.
    """
    left_out = [name for name, text in raw.items() if not _is_legal(name, text)]
    texts = {name: text for name, text in raw.items() if name not in left_out}
    for name in (None, *texts):
        rest = {other: text for other, text in texts.items() if other != name}
        setting, notices = from_text(rest)
        if not notices:
            return setting, [*left_out, *([name] if name else [])]
    kept: dict[str, str] = {}
    for name, text in texts.items():
        if from_text(kept | {name: text})[1]:
            left_out.append(name)
        else:
            kept[name] = text
    return from_text(kept)[0], left_out


def _is_legal(name: str, text: str) -> bool:
    """Whether a text is a value of a field, and this value alone."""
    kind, _, own = name.rpartition(".")
    if not kind:
        return name in fields.rules(Setting) and not snap(Setting, {name: text})[1]
    config = SCHEMES.get(kind)
    if config is None or own not in config.own_rules():
        return False
    return not snap(config, {own: text})[1]


def from_text(raw: Mapping[str, str]) -> tuple[Setting, list[str]]:
    """Return the legal setting nearest to the text of its fields, and a sentence for each change."""
    for name, text in raw.items():
        if not isinstance(text, str):
            raise ConfigError(
                f"from_text takes a text for every field, got {quoted(text)} for {name}."
            )
    values, notices = snap(Setting, raw)
    notices += _fit_model(values) + _fit_together(values)
    own: dict[str, Any] = {}
    for kind, config in SCHEMES.items():
        keys = {f"{kind}.{name}": name for name in config.own_rules()}
        texts = {name: raw[key] for key, name in keys.items() if key in raw}
        snapped, changes = snap(config, texts)
        own |= {f"{kind}.{name}": snapped[name] for name in texts}
        notices += changes
    setting, default = Setting(**values), own_defaults()
    for key, value in own.items():
        try:
            if value != default[key]:
                setting = setting.replace(own=(*setting.own, (key, value)))
        except ConfigError as error:
            notices.append(f"{error} The default is used instead.")
    return setting, notices


def _fit_model(values: dict[str, Any]) -> list[str]:
    """Take away a model that cannot be read, in place; return what was wrong with it."""
    try:
        if values["model"]:
            chosen_model(values["model"])
    except ConfigFileError as error:
        values["model"] = ""
        return [f"The model cannot be used: {error.problem} No model is chosen."]
    return []


def _fit_together(values: dict[str, Any]) -> list[str]:
    """Make dimension, heads, the head shown and positions agree, in place; return the changes."""
    notices = []
    dim, heads = values["dim"], values["heads"]
    if dim < 2 * heads:
        values["heads"] = max(n for n in range(1, heads + 1) if dim % (2 * n) == 0)
        notices.append(
            f"Heads must leave each an even width: {values['heads']} "
            f"{'head is' if values['heads'] == 1 else 'heads are'} used for dimension {dim:,} "
            f"instead of {heads}."
        )
    elif dim % (2 * heads):
        rule = fields.rules(Setting)["dim"]
        assert isinstance(rule, fields.IntRange)
        values["dim"] = clamp(replace(rule, multiple_of=2 * heads), dim)
        notices.append(
            f"Model dimension must be a multiple of twice the heads ({2 * heads}): "
            f"{values['dim']:,} is used instead of {dim:,}."
        )
    model = chosen_model(values["model"]) if values["model"] else None
    widest = largest_width(values["dim"], model)
    longest = MAX_SHOWN_ELEMENTS // widest
    if values["length"] > longest:
        width = "model dimension" if widest == values["dim"] else "the width of the model"
        notices.append(
            f"Positions shown times {width} must be at most {MAX_SHOWN_ELEMENTS:,}: "
            f"{longest:,} positions are used instead of {values['length']:,}."
        )
        values["length"] = longest
    most = head_count(values["heads"], model)
    if values["alibi_head"] > most:
        notices.append(f"Head shown must be from 0 (the mean) to {most}; the mean is used instead.")
        values["alibi_head"] = 0
    return notices
