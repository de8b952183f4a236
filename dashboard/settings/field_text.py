"""Values of fields read from any text of a visitor: the nearest legal one, and what was changed."""

import functools
import math
import re
from collections.abc import Mapping
from typing import Any

from posenc import fields
from posenc.fields import described, written

# ASCII only and bounded: int() and float() also take Arabic digits, underscores and 5,000 digits.
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_MOST_QUOTED = 40  # characters


def snap(owner: Any, raw: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the ruled fields of `owner`, read from text, and a sentence for each text changed."""
    values, notices = fields.defaults(owner), []
    for name, rule in fields.rules(owner).items():
        if name not in raw:
            continue
        value = nearest(rule, raw[name])
        if value is not None:
            values[name] = value
        if value is None or not (written(value) == raw[name] or _reads_as(raw[name], value)):
            several = isinstance(values[name], tuple) and len(values[name]) > 1
            used, verb = describe(rule, values[name]), "are" if several else "is"
            if value is None:
                used, verb = f"the default ({used})", "is"
            notices.append(f"{_fault(rule, raw[name])}; {used} {verb} used instead.")
    return values, notices


@functools.singledispatch
def describe(rule: fields.Rule, value: Any) -> str:
    """Return a legal value as a sentence of a page names it."""
    return described(value)


@describe.register
def _(rule: fields.MultiChoice, value: tuple[str, ...]) -> str:
    named = dict(zip(rule.options, rule.labels or rule.options, strict=True))
    return ", ".join(named[word] for word in value)


@functools.singledispatch
def nearest(rule: fields.Rule, text: str) -> Any | None:
    """Return the legal value nearest to what `text` says, or None if it says nothing usable."""
    return text if rule.accepts(text) else None


@nearest.register
def _(rule: fields.IntRange, text: str) -> int | None:
    number = parse_number(text)
    return None if number is None else clamp(rule, number)


def clamp(rule: fields.IntRange, number: float) -> int:
    """Return the legal value nearest to `number`."""
    step = rule.multiple_of
    bounded = min(max(number, rule.low), rule.high)
    least, most = math.ceil(rule.low / step), rule.high // step
    return step * min(max(round(bounded / step), least), most)


@nearest.register
def _(rule: fields.FloatRange, text: str) -> float | None:
    number = parse_number(text)
    if number is None:
        return None
    if rule.or_zero and number < rule.low / 2:
        return 0.0
    least = rule.low if rule.closed else math.nextafter(rule.low, math.inf)
    return float(min(max(number, least), rule.high))


@nearest.register
def _(rule: fields.Choice, text: str) -> str | None:
    text = dict(zip(rule.labels, rule.options, strict=False)).get(text, text)
    return text if text in rule.options else None


@nearest.register
def _(rule: fields.Flag, text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)


@nearest.register
def _(rule: fields.MultiChoice, text: str) -> tuple[str, ...] | None:
    asked = set(text.split(","))
    pairs = zip(rule.options, rule.labels or rule.options, strict=True)
    chosen = tuple(option for option, label in pairs if asked & {option, label})
    return chosen[: rule.most] or None


@nearest.register
def _(rule: fields.Numbers, text: str) -> tuple[float, ...] | None:
    if text == fields.NO_NUMBERS:
        return () if rule.least == 0 else None
    words = text.split(",", rule.most)[: rule.most]
    numbers = [parse_number(word.strip()) for word in words]
    if len(words) < rule.least or any(number is None for number in numbers):
        return None
    bounded = [min(max(number, rule.low), rule.high) for number in numbers if number is not None]
    return tuple(round(number) if rule.whole else float(number) for number in bounded)


def _fault(rule: fields.Rule, text: str) -> str:
    """Return in words what is wrong with a text that `nearest` had to change."""
    if not isinstance(rule, fields.MultiChoice):
        return f"{rule.label} must be {rule.allowed()}, not {quoted_text(text)}"
    words = {*text[:1_000].split(",")} - {*rule.options, *rule.labels, ""}
    if not words:
        return f"{rule.label} must be 1 to {rule.most} choices"
    more = f" and {len(words) - 1} more" if len(words) > 1 else ""
    verb = "are" if more else "is"
    return f"{quoted_text(min(words))}{more} {verb} not in the list {rule.label}"


def quoted_text(text: str) -> str:
    """Return the beginning of a visitor's text in quotes, without what could be markup."""
    shown = re.sub(r"[^\w.,+ -]", "?", text[:_MOST_QUOTED])
    return f"'{shown}{'...' if len(text) > _MOST_QUOTED else ''}'"


def parse_number(text: str) -> float | None:
    """Return the number that a text is, None where it is none or NaN."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return None if math.isnan(number) else number


def _reads_as(text: str, value: Any) -> bool:
    """Return whether `text` is another spelling of exactly `value`, such as 1e4 for 10000."""
    if isinstance(value, tuple) and value and not isinstance(value[0], str):
        return value == tuple(parse_number(number.strip()) for number in text.split(","))
    if isinstance(value, tuple):
        return len(set(text.split(","))) == len(value)  # every word was taken
    return not isinstance(value, bool | str) and parse_number(text) == value
