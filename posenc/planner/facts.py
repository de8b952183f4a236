"""Facts of a plan, and the one way to say them: sentences.toml has a template for each."""

import string
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.text import as_factor, count_of, joined, significant

TEMPLATES = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Fact:
    """A word, and the numbers and names that its sentence is made of."""

    word: str
    numbers: dict[str, Any]


class _Sentences(string.Formatter):
    """Fills a template in: {n:count pair} is 2 pairs, {n:verb reaches reach} agrees with n.

    A number may be a fact itself, whose template is in the table "parts".
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a number as its template asks for it."""
        if isinstance(value, Fact):
            return say("parts", value)
        match format_spec.split():
            case ["count", noun]:
                return count_of(value, noun.replace("_", " "))
            case ["verb", one, many]:
                return one if value == 1 else many
            case ["list", last]:
                return joined((_in_list(each) for each in value), last)
            case ["factor"]:
                return as_factor(value)
            case ["digits"]:
                return significant(value)
        text: str = super().format_field(value, format_spec)
        return text


_SENTENCES = _Sentences()


def _in_list(value: str | float | Fact) -> str:
    """Return a name, a whole number or a number of three digits, as lists in sentences have them."""
    if isinstance(value, Fact):
        return say("parts", value)
    if isinstance(value, int):
        return f"{value:,}"
    return significant(value) if isinstance(value, float) else value


def say_template(template: str, fact: Fact) -> str:
    """Return a fact by a template, whose braces name its numbers."""
    return _SENTENCES.vformat(template, (), fact.numbers)


def say_with_source(table: str, fact: Fact) -> tuple[str, str]:
    """Return a fact as a sentence and its source, by the two templates that a table has for it."""
    template = TEMPLATES[table][fact.word]
    return say_template(template["sentence"], fact), say_template(template["source"], fact)


def say(table: str, fact: Fact) -> str:
    """Return a fact by its template in a table of sentences.toml."""
    return say_template(TEMPLATES[table][fact.word], fact)
