"""Text on pages: numbers and lists in words, and text of visitors and files, never read as formatting."""

import re
from collections.abc import Mapping, Sequence

from posenc.claims.claim import figure
from posenc.text import significant

# GitHub's Markdown makes links of bare addresses after it has taken the backslashes away: an invisible
# joiner inside each keeps it text.
_ADDRESS = re.compile(r"(?<=:/)(?=/)|(?<=www)(?=\.)|(?<=@)", re.IGNORECASE)
ID_DIGITS = 6  # of an id, after equal names
JOINER = "\u2060"
# What turns a line round or cannot be seen: told as an escape, so that a name is what it looks like.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def plain(text: str) -> str:
    """Escape what Markdown would read as a link, an image, emphasis, a directive or a formula.

    Control characters, and those that turn the direction of a line, become escapes that can be seen.
    """
    text = _UNSEEN.sub(lambda one: one[0].encode("unicode_escape").decode("ascii"), text)
    text = _ADDRESS.sub(JOINER, text)
    return "".join(f"\\{c}" if c in "\\`*_{}[]()#+-.!|$:<>~&@/" else c for c in text)


def quoted_words(words: Sequence[str]) -> str:
    """Return a sentence in quotes as literal text, kept apart from the direction of ours."""
    return f"\u201c\u2068{plain(' '.join(words))}\u2069\u201d"


def listed(words: list[str] | tuple[str, ...]) -> str:
    """Return words as a list in a sentence: a, b and c."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def duration(seconds: float) -> str:
    """Write seconds as people say them."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def number(value: float, digits: int = 3) -> str:
    """Write a measured number with a few significant digits, small ones as a power of ten."""
    if value == 0:
        return "0"
    text = figure(value) if abs(value) < 10.0**-digits else significant(value, digits)
    return text.replace(" ", "\N{NO-BREAK SPACE}")  # no line ends inside a number


def unbroken(text: str) -> str:
    """Return a sentence with powers of ten that no line ends inside of, such as 2.1 × 10⁻¹⁶."""
    return text.replace(" × 10", "\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10")


def with_ids(names: Mapping[str, str]) -> dict[str, str]:
    """Return names by key, such as table-12ab...; equal ones end with the beginning of their id."""
    shown = [*names.values()]
    ids = {key: key.partition("-")[2][:ID_DIGITS] for key in names}
    return {
        key: f"{name}, {ids[key]}" if ids[key] and shown.count(name) > 1 else name
        for key, name in names.items()
    }


def word_labels(words: tuple[str, ...]) -> list[str]:
    """Return a name for every word: itself, with its occurrence where it stands more than once."""
    return [
        word if words.count(word) == 1 else f"{word} ({words[: n + 1].count(word)})"
        for n, word in enumerate(words)
    ]
