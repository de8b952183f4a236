"""Dataclass fields with rules: default, range and help, as a check in code and as text in a link."""

import dataclasses
import functools
import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from posenc.errors import ConfigError, quoted

# ASCII only and bounded: int() and float() also take Arabic digits, underscores and 5,000 digits.
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
NO_NUMBERS = "none"
_MOST_QUOTED = 40  # characters


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

    @abstractmethod
    def nearest(self, text: str) -> Any | None:
        """Return the legal value nearest to what `text` says, or None if it says nothing usable."""

    def write(self, value: Any) -> str:
        """Return the text that `nearest` reads back as `value`."""
        return str(value)

    def field(self, default: Any) -> Any:
        """Return a dataclass field with this rule and a default."""
        return dataclasses.field(default=default, metadata={"rule": self})

    def describe(self, value: Any) -> str:
        """Return the value as a sentence names it."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return plain_number(value) if number else self.write(value)

    def fault(self, text: str) -> str:
        """Return in words what is wrong with a text that `nearest` had to change."""
        return f"{self.label} must be {self.allowed()}, not {quoted_text(text)}"


@dataclass(frozen=True, kw_only=True)
class IntRange(Rule):
    """A whole number in [low, high], a multiple of `multiple_of`; `grid` are the slider's stops."""

    low: int
    high: int
    multiple_of: int = 1
    grid: tuple[int, ...] = ()

    def allowed(self) -> str:
        kind = "a whole number" if self.multiple_of == 1 else f"a multiple of {self.multiple_of}"
        return f"{kind} from {self.low:,} to {self.high:,}"

    def accepts(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return self.low <= value <= self.high and value % self.multiple_of == 0

    def nearest(self, text: str) -> int | None:
        number = parse_number(text)
        return None if number is None else self.clamp(number)

    def clamp(self, number: float) -> int:
        """Return the legal value nearest to `number`."""
        step = self.multiple_of
        bounded = min(max(number, self.low), self.high)
        least, most = math.ceil(self.low / step), self.high // step
        return step * min(max(round(bounded / step), least), most)


@dataclass(frozen=True, kw_only=True)
class FloatRange(Rule):
    """A finite number above `low` (or at it, if `closed`) and at most `high`; or 0, if `or_zero`."""

    low: float
    high: float
    closed: bool = True
    grid: tuple[float, ...] = ()
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

    def nearest(self, text: str) -> float | None:
        number = parse_number(text)
        if number is None:
            return None
        if self.or_zero and number < self.low / 2:
            return 0.0
        least = self.low if self.closed else math.nextafter(self.low, math.inf)
        return float(min(max(number, least), self.high))

    def write(self, value: float) -> str:
        return format_number(value)


@dataclass(frozen=True, kw_only=True)
class Choice(Rule):
    """One of a few words. labels: the words as people read them, where those differ."""

    options: tuple[str, ...]
    labels: tuple[str, ...] = ()

    def allowed(self) -> str:
        return "one of " + ", ".join(self.options)

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value in self.options

    def nearest(self, text: str) -> str | None:
        text = dict(zip(self.labels, self.options, strict=False)).get(text, text)
        return text if text in self.options else None


@dataclass(frozen=True, kw_only=True)
class Flag(Rule):
    """On or off."""

    def allowed(self) -> str:
        return "true or false"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)

    def nearest(self, text: str) -> bool | None:
        return {"true": True, "false": False}.get(text)

    def write(self, value: bool) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, kw_only=True)
class Word(Rule):
    """Text that matches a pattern. in_words: the pattern in words."""

    pattern: str
    in_words: str

    def allowed(self) -> str:
        return self.in_words

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and re.fullmatch(self.pattern, value, re.ASCII) is not None

    def nearest(self, text: str) -> str | None:
        return text if self.accepts(text) else None


@dataclass(frozen=True, kw_only=True)
class MultiChoice(Rule):
    """One to `most` of a few words, in the order of `options`. labels: other spellings of them."""

    options: Collection[str]
    labels: Collection[str]
    most: int

    def allowed(self) -> str:
        return f"1 to {min(self.most, len(self.options))} of " + ", ".join(self.labels)

    def accepts(self, value: object) -> bool:
        if not isinstance(value, tuple) or not 1 <= len(value) <= self.most:
            return False
        return list(value) == [option for option in self.options if option in value]

    def nearest(self, text: str) -> tuple[str, ...] | None:
        asked = set(text.split(","))
        pairs = zip(self.options, self.labels, strict=True)
        chosen = tuple(option for option, label in pairs if asked & {option, label})
        return chosen[: self.most] or None

    def fault(self, text: str) -> str:
        words = {*text[:1_000].split(",")} - {*self.options, *self.labels, ""}
        if not words:
            return f"{self.label} must be 1 to {self.most} choices"
        more = f" and {len(words) - 1} more" if len(words) > 1 else ""
        verb = "are" if more else "is"
        return f"{quoted_text(min(words))}{more} {verb} not in the list {self.label}"

    def write(self, value: tuple[str, ...]) -> str:
        return ",".join(value)

    def describe(self, value: tuple[str, ...]) -> str:
        named = dict(zip(self.options, self.labels, strict=True))
        return ", ".join(named[word] for word in value)


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

    def nearest(self, text: str) -> tuple[float, ...] | None:
        if text == NO_NUMBERS:
            return () if self.least == 0 else None
        words = text.split(",", self.most)[: self.most]
        numbers = [parse_number(word.strip()) for word in words]
        if len(words) < self.least or any(number is None for number in numbers):
            return None
        bounded = [
            min(max(number, self.low), self.high) for number in numbers if number is not None
        ]
        return tuple(round(number) if self.whole else float(number) for number in bounded)

    def write(self, value: tuple[float, ...]) -> str:
        return ",".join(format_number(number) for number in value) or NO_NUMBERS

    def describe(self, value: tuple[float, ...]) -> str:
        if len(value) > 4:  # a sentence has no room for a list of 64
            first, second, *_ = map(format_number, value)
            return f"{first}, {second}, ... ({len(value)} numbers)"
        return ", ".join(format_number(number) for number in value) or NO_NUMBERS


def quoted_text(text: str) -> str:
    """Return the beginning of a visitor's text in quotes, without what could be markup."""
    shown = re.sub(r"[^\w.,+ -]", "?", text[:_MOST_QUOTED])
    return f"'{shown}{'...' if len(text) > _MOST_QUOTED else ''}'"


def plain_number(value: float) -> str:
    """Return the end of a range as people write it: 1,000,000, 0.001, and 1e12 or 1e-6 for long ones."""
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{value:,.10g}")


def format_number(value: float) -> str:
    """Return a number as it is read back, whole ones without a point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(value)


def parse_number(text: str) -> float | None:
    """Return the number that a text is, None where it is none or NaN."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return None if math.isnan(number) else number


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


def snap(owner: Any, raw: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the ruled fields of `owner`, read from text, and a sentence for each text changed."""
    values, notices = defaults(owner), []
    for name, rule in rules(owner).items():
        if name not in raw:
            continue
        value = rule.nearest(raw[name])
        if value is not None:
            values[name] = value
        if value is None or not (rule.write(value) == raw[name] or _reads_as(raw[name], value)):
            several = isinstance(values[name], tuple) and len(values[name]) > 1
            used, verb = rule.describe(values[name]), "are" if several else "is"
            if value is None:
                used, verb = f"the default ({used})", "is"
            notices.append(f"{rule.fault(raw[name])}; {used} {verb} used instead.")
    return values, notices


def _reads_as(text: str, value: Any) -> bool:
    """Return whether `text` is another spelling of exactly `value`, such as 1e4 for 10000."""
    if isinstance(value, tuple) and value and not isinstance(value[0], str):
        return value == tuple(parse_number(number.strip()) for number in text.split(","))
    if isinstance(value, tuple):
        return len(set(text.split(","))) == len(value)  # every word was taken
    return not isinstance(value, bool | str) and parse_number(text) == value
