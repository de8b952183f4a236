"""Ruled fields: the single source of default, range and help for validation, sliders and links."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from posenc.errors import ConfigError, shown
from posenc.field_rules import (
    NO_NUMBERS,
    Choice,
    Flag,
    Numbers,
    Real,
    Rule,
    Sentence,
    Several,
    Whole,
    Word,
    as_number,
)

__all__ = [
    "NO_NUMBERS", "Choice", "Flag", "Numbers", "Real", "Rule", "Sentence", "Several", "Whole", "Word",
    "check", "defaults", "ruled", "rules", "snap",
]  # fmt: skip


def ruled(default: Any, rule: Rule) -> Any:
    """Return a dataclass field with this default and rule."""
    return dataclasses.field(default=default, metadata={"rule": rule})


def rules(owner: Any) -> dict[str, Rule]:
    """Return the rule of every ruled field of a dataclass (or an instance), in order."""
    return {name: rule for name, (rule, _) in _ruled(_class(owner)).items()}


def defaults(owner: Any) -> dict[str, Any]:
    """Return the default of every ruled field of a dataclass, in order."""
    return {name: default for name, (_, default) in _ruled(_class(owner)).items()}


def _class(owner: Any) -> type:
    return owner if isinstance(owner, type) else type(owner)


@functools.cache  # asked thousands of times for every page that is drawn
def _ruled(owner: type) -> dict[str, tuple[Rule, Any]]:
    """Return rule and default of every ruled field of a class."""
    return {
        field.name: (field.metadata["rule"], field.default)
        for field in dataclasses.fields(owner)
        if "rule" in field.metadata
    }


def check(instance: Any) -> None:
    """Raise ConfigError naming the first field of `instance` whose value its rule refuses."""
    for name, rule in rules(instance).items():
        value = getattr(instance, name)
        if not rule.accepts(value):
            raise ConfigError(
                f"{type(instance).__name__}.{name} must be {rule.allowed()}, got {shown(value)}."
            )


def snap(owner: Any, raw: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Read the ruled fields of `owner` from text: legal values, and a sentence per change made."""
    values, notices = defaults(owner), []
    for name, rule in rules(owner).items():
        if name not in raw:
            continue
        value = rule.nearest(raw[name])
        said = value is not None
        if value is None:
            value = values[name]
        if not said or (rule.write(value) != raw[name] and not _says(raw[name], value)):
            notices.append(
                f"{rule.label} must be {rule.allowed()}; {rule.told(value)} "
                f"{'are' if isinstance(value, tuple) and len(value) > 1 else 'is'} used instead."
            )
        values[name] = value
    return values, notices


def _says(text: str, value: Any) -> bool:
    """Whether `text` is another way of writing exactly `value`, such as 1e4 for 10000."""
    if isinstance(value, tuple) and value and not isinstance(value[0], str):
        numbers = tuple(as_number(word.strip()) for word in text.split(","))
        return numbers == value
    if isinstance(value, tuple):
        return len(set(text.split(","))) == len(value)  # every word was taken
    return not isinstance(value, bool | str) and as_number(text) == value
