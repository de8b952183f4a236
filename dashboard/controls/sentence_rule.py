"""The rule of a field that holds a visitor's sentence."""

import unicodedata
from dataclasses import dataclass

from posenc import fields

# Joiners and the marks of flags belong to words and emoji; other format characters reorder or hide text.
_FORMAT = {0x200C, 0x200D, *range(0xE0020, 0xE0080)}


@dataclass(frozen=True, kw_only=True)
class Sentence(fields.Rule):
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

    def describe(self, value: str) -> str:
        return f"\u201c{value}\u201d"


def _is_text(letter: str) -> bool:
    """Whether a character is a space or can be seen as a part of a word."""
    if letter.isspace():
        return letter == " "
    return unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Cn") or (
        ord(letter) in _FORMAT
    )
