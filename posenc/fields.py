"""Dataclass fields with rules: default, range and help, checked where an instance is made."""

import dataclasses
import functools
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from posenc.errors import ConfigError, quoted

NO_NUMBERS = "none"


@dataclass(frozen=True, kw_only=True)
class Rule(ABC):
    """Constraint on the values of a field. label, help: shown to users; see `rules`."""

    label: str = ""
    help: str = ""

    @abstractmethod
    def allowed(self) -> str:
        """Return in words what is allowed."""

    @abstractmethod
    def accepts(self, value: object) -> bool:
        """Return whether `value` is allowed as it is."""

    def field(self, default: Any) -> Any:
        """Return a dataclass field with this rule and a default."""
        return dataclasses.field(default=default, metadata={"rule": self})


@dataclass(frozen=True, kw_only=True)
class IntRange(Rule):
    """A whole number in [low, high], a multiple of `multiple_of`."""

    low: int
    high: int
    multiple_of: int = 1

    def allowed(self) -> str:
        kind = "a whole number" if self.multiple_of == 1 else f"a multiple of {self.multiple_of}"
        return f"{kind} from {self.low:,} to {self.high:,}"

    def accepts(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return self.low <= value <= self.high and value % self.multiple_of == 0


@dataclass(frozen=True, kw_only=True)
class FloatRange(Rule):
    """A finite number above `low` (or at it, if `closed`) and at most `high`; or 0, if `or_zero`."""

    low: float
    high: float
    closed: bool = True
    or_zero: bool = False

    def allowed(self) -> str:
        edge = "from" if self.closed else "greater than"
        kind = "0 or a number" if self.or_zero else "a number"
        most = "to" if self.closed else "and at most"
        return f"{kind} {edge} {plain_number(self.low)} {most} {plain_number(self.high)}"

    def accepts(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if self.or_zero and value == 0:
            return True
        return self.low <= value <= self.high and (self.closed or value > self.low)


@dataclass(frozen=True, kw_only=True)
class Choice(Rule):
    """One of a few words."""

    options: tuple[str, ...]

    def allowed(self) -> str:
        return "one of " + ", ".join(self.options)

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value in self.options


@dataclass(frozen=True, kw_only=True)
class Flag(Rule):
    """On or off."""

    def allowed(self) -> str:
        return "true or false"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True, kw_only=True)
class Word(Rule):
    """Text that matches a pattern. in_words: the pattern in words."""

    pattern: str
    in_words: str

    def allowed(self) -> str:
        return self.in_words

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and re.fullmatch(self.pattern, value, re.ASCII) is not None


@dataclass(frozen=True, kw_only=True)
class MultiChoice(Rule):
    """One to `most` of a few words, in the order of `options`."""

    options: Collection[str]
    most: int

    def allowed(self) -> str:
        return f"1 to {min(self.most, len(self.options))} of {', '.join(self.options)}"

    def accepts(self, value: object) -> bool:
        if not isinstance(value, tuple) or not 1 <= len(value) <= self.most:
            return False
        return list(value) == [option for option in self.options if option in value]


@dataclass(frozen=True, kw_only=True)
class Numbers(Rule):
    """`least` to `most` numbers in [low, high], integers if `whole`, such as 1,2.5,3 or none."""

    low: float
    high: float
    least: int
    most: int
    whole: bool = False

    def allowed(self) -> str:
        none = f", or {NO_NUMBERS}" if self.least == 0 else ""
        return f"{self._count(max(self.least, 1))}, with commas between them{none}"

    def allowed_list(self) -> str:
        """Return what a list of JSON must be."""
        return f"a list of {self._count(self.least)}"

    def _count(self, least: int) -> str:
        kind = "whole numbers" if self.whole else "numbers"
        ends = f"{plain_number(self.low)} to {plain_number(self.high)}"
        return f"{least:,} to {self.most:,} {kind} from {ends}"

    def accepts(self, value: object) -> bool:
        return (
            isinstance(value, tuple)
            and self.least <= len(value) <= self.most
            and all(self._accepts_number(number) for number in value)
        )

    def _accepts_number(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        return self.low <= value <= self.high


def plain_number(value: float) -> str:
    """Return the end of a range as people write it: 1,000,000, 0.001, and 1e12 or 1e-6 for long ones."""
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{value:,.10g}")


def format_number(value: float) -> str:
    """Return a number as it is read back, whole ones without a point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(value)


def written(value: Any) -> str:
    """Return a legal value as files and links hold it: true, 10000, half, or 1,2.5 for several."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(written, value)) or NO_NUMBERS
    return format_number(value) if isinstance(value, int | float) else str(value)


def described(value: Any) -> str:
    """Return a legal value as a sentence names it; of many numbers the first two and their count."""
    if isinstance(value, tuple) and value:
        first, second = (*map(written, value), "")[:2]
        return (
            f"{first}, {second}, ... ({len(value)} numbers)"
            if len(value) > 4
            else ", ".join(map(written, value))
        )
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return plain_number(value) if number else written(value)


def rules(owner: Any) -> MappingProxyType[str, Rule]:
    """Return the rule of every ruled field of a dataclass or an instance, in order.

    A rule without a help of its own has that of the docstring; see `help_of`.
    """
    return _rules_of(owner if isinstance(owner, type) else type(owner))


@functools.cache
def _rules_of(owner: type) -> MappingProxyType[str, Rule]:
    described = help_of(owner)
    ruled: dict[str, Rule] = {}
    for field in dataclasses.fields(owner):
        if "rule" in field.metadata:
            rule: Rule = field.metadata["rule"]
            ruled[field.name] = replace(rule, help=rule.help or described.get(field.name, ""))
    return MappingProxyType(ruled)


def help_of(owner: type) -> dict[str, str]:
    """Return what docstrings say of the fields of a dataclass: the text of each line `name: text`.

    Lines that are indented below belong to it. A class says it in place of those that it inherits from.
    """
    names = {field.name for field in dataclasses.fields(owner)}
    texts: dict[str, str] = {}
    for cls in reversed(owner.__mro__):
        docstring = inspect.cleandoc(cls.__dict__.get("__doc__") or "")
        for name, text in re.findall(r"(?m)^(\w+): (.+(?:\n    .+)*)", docstring):
            if name in names:
                text = " ".join(text.split())
                texts[name] = text[0].upper() + text[1:]
    return texts


def defaults(owner: Any) -> dict[str, Any]:
    """Return the default of every ruled field of a dataclass or an instance, in order."""
    return {
        field.name: field.default for field in dataclasses.fields(owner) if "rule" in field.metadata
    }


def check(instance: Any) -> None:
    """Raise ConfigError naming the first field of `instance` whose value its rule refuses."""
    for name, rule in rules(instance).items():
        value = getattr(instance, name)
        if not rule.accepts(value):
            raise ConfigError(
                f"{type(instance).__name__}.{name} must be {rule.allowed()}, got {quoted(value)}."
            )
