"""Ruled fields: the single source of default, range and help for validation, sliders and links.

What a field may hold: one rule for each kind of value, in words, as a check and read from text.
"""

import dataclasses
import functools
import math
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posenc.errors import ConfigError, shown

# ASCII only and bounded: int() and float() also take Arabic digits, underscores and 5,000 digits.
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


NO_NUMBERS = "none"


@dataclass(frozen=True, kw_only=True)
class Rule(ABC):
    """What a field may hold. `label` and `help` are shown to people, the rest is checked."""

    label: str = ""
    help: str = ""

    @abstractmethod
    def allowed(self) -> str:
        """Say in words what is allowed."""

    @abstractmethod
    def accepts(self, value: object) -> bool:
        """Whether `value` may be held as it is."""

    @abstractmethod
    def nearest(self, text: str) -> Any | None:
        """Return the legal value nearest to what `text` says, or None if it says nothing usable."""

    def write(self, value: Any) -> str:
        """Return the text that `nearest` reads back as `value`."""
        return str(value)

    def told(self, value: Any) -> str:
        """Return the value as a sentence names it."""
        return self.write(value)


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
        return (
            isinstance(value, int)
            and not isinstance(value, bool)
            and self.low <= value <= self.high
            and value % self.multiple_of == 0
        )

    def nearest(self, text: str) -> int | None:
        number = as_number(text)
        if number is None:
            return None
        return self.clamp(number)

    def clamp(self, number: float) -> int:
        """Return the legal value nearest to `number`."""
        step = self.multiple_of
        bounded = min(max(number, self.low), self.high)
        value = round(bounded / step) * step
        if value < self.low:
            value += step
        elif value > self.high:
            value -= step
        return int(value)


@dataclass(frozen=True, kw_only=True)
class FloatRange(Rule):
    """A finite number above `low` (or at it, if `closed`) and at most `high`; or 0, if `or_zero`."""

    low: float
    high: float
    closed: bool = True
    grid: tuple[float, ...] = ()
    or_zero: bool = False

    def allowed(self) -> str:
        edge = f"from {self.low:g}" if self.closed else f"greater than {self.low:g}"
        kind = "0 or a number" if self.or_zero else "a number"
        return f"{kind} {edge} {'to' if self.closed else 'and at most'} {self.high:g}"

    def accepts(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if self.or_zero and value == 0:
            return True
        return self.low <= value <= self.high and (self.closed or value > self.low)

    def nearest(self, text: str) -> float | None:
        number = as_number(text)
        if number is None:
            return None
        if self.or_zero and number < self.low / 2:
            return 0.0
        least = self.low if self.closed else math.nextafter(self.low, math.inf)
        return float(min(max(number, least), self.high))

    def write(self, value: float) -> str:
        return as_written(value)


@dataclass(frozen=True, kw_only=True)
class Choice(Rule):
    """One of a few words."""

    options: tuple[str, ...]

    def allowed(self) -> str:
        return "one of " + ", ".join(self.options)

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value in self.options

    def nearest(self, text: str) -> str | None:
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
    """Text of a fixed form; `described` says the form in words."""

    pattern: str
    described: str

    def allowed(self) -> str:
        return self.described

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and re.fullmatch(self.pattern, value, re.ASCII) is not None

    def nearest(self, text: str) -> str | None:
        return text if self.accepts(text) else None


# Joiners and the marks of flags belong to words and emoji; other format characters reorder or hide text.
_FORMAT = {0x200C, 0x200D, *range(0xE0020, 0xE0080)}


@dataclass(frozen=True, kw_only=True)
class Sentence(Rule):
    """`least` to `most` words of any language on one line, at most `longest` characters in all.

    Control characters and marks that turn the direction of text around are refused.
    """

    least: int
    most: int
    longest: int

    def allowed(self) -> str:
        return f"{self.least} to {self.most} words and at most {self.longest} characters"

    def accepts(self, value: object) -> bool:
        return (
            isinstance(value, str)
            and len(value) <= self.longest
            and self.least <= len(value.split()) <= self.most
            and all(_is_text(letter) for letter in value)
        )

    def nearest(self, text: str) -> str | None:
        if self.accepts(text):
            return text
        # Cut before it is looked at: a link may hold half a million letters.
        words = "".join(c if _is_text(c) else " " for c in text[: 4 * self.longest]).split()
        found = " ".join(words[: self.most])
        if len(found) > self.longest:
            found = found[: self.longest + 1].rpartition(" ")[0]
        return found if self.accepts(found) else None

    def told(self, value: str) -> str:
        return f"\u201c{value}\u201d"


@dataclass(frozen=True, kw_only=True)
class MultiChoice(Rule):
    """A non-empty choice of at most `most` words, kept in the order of `options`.

    `labels` are the same words as people know them, in the same order; text may use either.
    """

    options: tuple[str, ...]
    labels: tuple[str, ...]
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
        found = tuple(option for option, label in pairs if asked & {option, label})
        return found[: self.most] or None

    def write(self, value: tuple[str, ...]) -> str:
        return ",".join(value)

    def told(self, value: tuple[str, ...]) -> str:
        named = dict(zip(self.options, self.labels, strict=True))
        return ", ".join(named[word] for word in value)


@dataclass(frozen=True, kw_only=True)
class Numbers(Rule):
    """`least` to `most` numbers, each in [low, high] and a whole one if `whole`, such as 1,2.5,3.

    "none" is no number at all: an empty text would be lost in a link.
    """

    low: float
    high: float
    least: int
    most: int
    whole: bool = False

    def allowed(self) -> str:
        kind = "whole numbers" if self.whole else "numbers"
        return (
            f"{max(self.least, 1):,} to {self.most:,} {kind} from {self.low:g} to {self.high:g}, "
            f"with commas between them{f', or {NO_NUMBERS}' if self.least == 0 else ''}"
        )

    def accepts(self, value: object) -> bool:
        return (
            isinstance(value, tuple)
            and self.least <= len(value) <= self.most
            and all(self._accepts_one(number) for number in value)
        )

    def _accepts_one(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        return self.low <= value <= self.high

    def nearest(self, text: str) -> tuple[float, ...] | None:
        if text == NO_NUMBERS:
            return () if self.least == 0 else None
        words = text.split(",", self.most)[: self.most]
        numbers = [as_number(word.strip()) for word in words]
        if len(words) < self.least or any(number is None for number in numbers):
            return None
        bounded = [
            min(max(number, self.low), self.high) for number in numbers if number is not None
        ]
        return tuple(round(number) if self.whole else float(number) for number in bounded)

    def write(self, value: tuple[float, ...]) -> str:
        return ",".join(as_written(number) for number in value) or NO_NUMBERS

    def told(self, value: tuple[float, ...]) -> str:
        if len(value) > 4:  # a sentence has no room for a list of 64
            return f"{as_written(value[0])}, {as_written(value[1])}, ... ({len(value)} numbers)"
        return ", ".join(as_written(number) for number in value) or NO_NUMBERS


def as_written(value: float) -> str:
    """Return a number as it is read back, whole ones without a point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(value)


def _is_text(letter: str) -> bool:
    """Whether a character is a space or can be seen as a part of a word."""
    if letter.isspace():
        return letter == " "
    return unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Cn") or (
        ord(letter) in _FORMAT
    )


def as_number(text: str) -> float | None:
    """Return the number that a text is, None where it is none or NaN."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return None if math.isnan(number) else number


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
