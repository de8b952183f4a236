"""Sentences of a row: {expression} stands for its value, {expression:,} for it in that format.

An entry is a template, or an object of a template `text` that counts where the expression `if`
holds.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Entry = str | Mapping[str, str]

_VALUE = re.compile(r"\{([^{}:]+)(?::([^{}]*))?\}")


def filled(entries: Sequence[Entry], value_of: Callable[[str], Any]) -> Iterator[str]:
    """Yield the sentences that count. value_of: returns the value of an expression."""
    for entry in entries:
        if isinstance(entry, str) or value_of(entry["if"]):
            yield _VALUE.sub(lambda match: format(value_of(match[1]), match[2] or ""), _text(entry))


def expressions_in(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the expressions of templates."""
    for entry in entries:
        if not isinstance(entry, str):
            yield entry["if"]
        yield from (match[1] for match in _VALUE.finditer(_text(entry)))


def _text(entry: Entry) -> str:
    return entry if isinstance(entry, str) else entry["text"]
