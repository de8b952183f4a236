"""Choices and numbers some of which have other words on pages than in links and files."""

from collections.abc import Mapping
from dataclasses import dataclass

from posenc import fields

_NAMED = 20  # options that a message names, so that it stays short


@dataclass(frozen=True, kw_only=True)
class LabelledChoice(fields.Choice):
    """One of a few words. labels: the words that people read for some options."""

    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class LabelledMultiChoice(fields.MultiChoice):
    """One to `most` of a few words. labels: the words that people read for some options."""

    labels: Mapping[str, str]

    def allowed(self) -> str:
        names = [*labels_of(self).values()]
        more = len(names) - _NAMED
        listed = ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"1 to {min(self.most, len(names))} of {listed}"


@dataclass(frozen=True, kw_only=True)
class LabelledIntRange(fields.IntRange):
    """A whole number. labels: the words that people read for some numbers."""

    labels: Mapping[int, str]


def labels_of(rule: fields.Choice | fields.MultiChoice) -> dict[str, str]:
    """Return the word that people read for each option of a rule; without a label, the option itself."""
    match rule:
        case LabelledChoice(labels=labels) | LabelledMultiChoice(labels=labels):
            return {option: labels.get(option, option) for option in rule.options}
    return {option: option for option in rule.options}


def number_text(rule: LabelledIntRange, value: int) -> str:
    """Return the word that people read for a number; without a label, the number itself."""
    return rule.labels.get(value, f"{value:,}")
