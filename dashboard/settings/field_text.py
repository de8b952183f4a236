"""Values of fields read from the text of a link, exactly as they stand there or not at all."""

import functools
import math
import re
from typing import Any

from dashboard.settings.labelled import LabelledIntRange, labels_of, number_text
from posenc import fields
from posenc.fields import described

# ASCII only and bounded: int() and float() also take Arabic digits, underscores and 5,000 digits.
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_MOST_QUOTED = 40  # characters


@functools.singledispatch
def describe(rule: fields.Rule, value: Any) -> str:
    """Return a legal value as a sentence of a page names it."""
    return described(value)


@describe.register
def _(rule: fields.MultiChoice, value: tuple[str, ...]) -> str:
    labels = labels_of(rule)
    return ", ".join(labels[word] for word in value)


@describe.register
def _(rule: LabelledIntRange, value: int) -> str:
    return number_text(rule, value)


@functools.singledispatch
def read(rule: fields.Rule, text: str) -> Any | None:
    """Return the legal value that a text means, None where it means none.

    A number may be spelled in another way, such as 1e4; a word may be the label that people read.
    """
    return text if rule.accepts(text) else None


@read.register
def _(rule: fields.IntRange, text: str) -> int | None:
    number = parse_number(text)
    if number is None or not number.is_integer():
        return None
    return int(number) if rule.accepts(int(number)) else None


@read.register
def _(rule: fields.FloatRange, text: str) -> float | None:
    number = parse_number(text)
    return number if number is not None and rule.accepts(number) else None


@read.register
def _(rule: fields.Choice, text: str) -> str | None:
    return _options_by_word(rule).get(text)


@read.register
def _(rule: fields.Flag, text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)


@read.register
def _(rule: fields.MultiChoice, text: str) -> tuple[str, ...] | None:
    asked = {*text.split(",")}
    by_word = _options_by_word(rule)
    if not asked <= by_word.keys():
        return None
    chosen = {by_word[word] for word in asked}
    value = tuple(option for option in rule.options if option in chosen)
    return value if rule.accepts(value) else None


@read.register
def _(rule: fields.Numbers, text: str) -> tuple[float, ...] | None:
    words = [] if text == fields.NO_NUMBERS else text.split(",", rule.most)
    numbers = [parse_number(word.strip()) for word in words]
    read_all = [number for number in numbers if number is not None]
    if len(read_all) < len(words):
        return None
    if rule.whole and all(number.is_integer() for number in read_all):
        read_all = [int(number) for number in read_all]
    return tuple(read_all) if rule.accepts(tuple(read_all)) else None


def _options_by_word(rule: fields.Choice | fields.MultiChoice) -> dict[str, str]:
    """Return the options of a rule by every word that means one: itself and its label."""
    labels = labels_of(rule)
    return {word: option for option in rule.options for word in (labels[option], option)}


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
