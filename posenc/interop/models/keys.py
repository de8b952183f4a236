"""Reading a config key by key: what was read, what was assumed, and errors that name the key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc import fields
from posenc.errors import ConfigFileError, shown
from posenc.interop.models.position_keys import (
    bears_on_position,
    block_key_changes_nothing,
    changes_nothing,
)
from posenc.interop.shown_name import printable_name


class Keys:
    """One object of a config, by its keys.

    Every key that is asked for counts as read; null counts as absent, as transformers has it. A key
    may go by several names: two of them with unlike values are an error.
    """

    def __init__(self, record: dict[str, Any], path: str = "", parent: Keys | None = None) -> None:
        self.record = record
        self.path = path
        self.assumed: list[str] = parent.assumed if parent else []
        self.children: list[Keys] = []
        self.sections: dict[str, Keys] = {}
        self.read: set[str] = set()
        if parent:
            parent.children.append(self)

    def named(self, name: str) -> str:
        """Return a key with its way from the top."""
        return f"{self.path}.{name}" if self.path else name

    def find(self, names: str | Sequence[str]) -> tuple[str, Any] | None:
        """Return the name that stands here and its value, or None where all are absent or null."""
        names = (names,) if isinstance(names, str) else names
        self.read.update(names)
        found = [(name, self.record[name]) for name in names if self.record.get(name) is not None]
        for name, value in found[1:]:
            if value != found[0][1]:
                raise self.error(
                    name, f"says {shown(value)}, but {self.named(found[0][0])} says {shown(found[0][1])};"
                    " they are two names of one number and must agree",
                )  # fmt: skip
        return found[0] if found else None

    def error(self, name: str, problem: str) -> ConfigFileError:
        """Return an error about a key; `problem` goes on from its name."""
        key = self.named(printable_name(name))
        return ConfigFileError(f"{key} {problem}.", key)

    def assume(self, sentence: str) -> None:
        """Note an assumption, once."""
        if sentence not in self.assumed:
            self.assumed.append(sentence)

    def whole(
        self, names: str | Sequence[str], default: int | None, why: str, rule: fields.Whole
    ) -> int:
        """Return a whole number, or the default with its reason noted; None makes the key required."""
        value: int = self._value(names, default, why, rule)
        return value

    def maybe_whole(self, names: str | Sequence[str], rule: fields.Whole) -> int | None:
        """Return a whole number, or None where the key is absent or null."""
        found = self.find(names)
        return None if found is None else self.whole(found[0], None, "", rule)

    def real(
        self, names: str | Sequence[str], default: float | None, why: str, rule: fields.Real
    ) -> float:
        """Return a number, or the default with its reason noted; None makes the key required."""
        return float(self._value(names, default, why, rule))

    def maybe_real(self, names: str | Sequence[str], rule: fields.Real) -> float | None:
        """Return a number, or None where the key is absent or null."""
        found = self.find(names)
        return None if found is None else self.real(found[0], None, "", rule)

    def flag(self, name: str, default: bool, why: str) -> bool:
        """Return true or false; an absent flag is assumed in silence only where `why` is empty."""
        value: bool = self._value(name, default, why, fields.Flag(label=""))
        return value

    def word(self, name: str, default: str | None, why: str, options: Sequence[str]) -> str:
        """Return one of a few words."""
        value: str = self._value(
            name, default, why, fields.Choice(options=tuple(options), label="")
        )
        return value

    def text(self, name: str) -> str | None:
        """Return a text, or None where the key is absent or null."""
        found = self.find(name)
        if found is None:
            return None
        if not isinstance(found[1], str):
            raise self.error(name, f"must be a text, got {shown(found[1])}")
        return found[1]

    def numbers(self, name: str, count: int, rule: fields.Real) -> tuple[float, ...]:
        """Return a list of exactly `count` numbers; the key is required."""
        values = self._list(name, count, "numbers")
        for index, value in enumerate(values):
            if not rule.accepts(value):
                raise self.error(
                    f"{name}[{index}]", f"must be {rule.allowed()}, got {shown(value)}"
                )
        return tuple(float(value) for value in values)

    def words(self, name: str, count: int, options: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return a list of `count` of the options, or None where the key is absent or null."""
        if self.find(name) is None:
            return None
        values = self._list(name, count, "entries, one per layer")
        for index, value in enumerate(values):
            # 1 is not true here: JSON tells them apart.
            if not any(value == one and type(value) is type(one) for one in options):
                raise self.error(
                    f"{name}[{index}]",
                    f"must be one of {', '.join(map(str, options))}, got {shown(value)}",
                )
        return tuple(values)

    def section(self, name: str) -> Keys | None:
        """Return the keys of an object in this one, or None where it is absent, null or empty."""
        found = self.find(name)
        if found is None:
            return None
        if not isinstance(found[1], dict):
            raise self.error(name, f"must be an object in braces or null, got {shown(found[1])}")
        if not found[1]:
            return None
        if (
            name not in self.sections
        ):  # one reading of each, so that what was read is known in one place
            self.sections[name] = Keys(found[1], self.named(name), self)
        return self.sections[name]

    def ignored(self) -> tuple[str, ...]:
        """Return the keys, here and in what was read of this, that bear on position and were not read."""
        own = [printable_name(self.named(name)) for name in self.record if self.speaks(name)]
        return tuple(own) + tuple(key for child in self.children for key in child.ignored())

    def speaks(self, name: str) -> bool:
        """Whether a key bears on position and was not read, by its name or place and its value."""
        if name in self.read:
            return False
        if self._is_rope_block():
            return not block_key_changes_nothing(name, self.record[name])
        return bears_on_position(name) and not changes_nothing(name, self.record, self.read)

    def _is_rope_block(self) -> bool:
        return "rope_scaling" in self.path or "rope_parameters" in self.path

    def _list(self, name: str, count: int, what: str) -> list[Any]:
        found = self.find(name)
        if found is None:
            raise self.error(name, f"is missing; it must be a list of {count:,} {what}")
        values = found[1]
        if not isinstance(values, list):
            raise self.error(name, f"must be a list of {count:,} {what}, got {shown(values)}")
        if len(values) != count:
            raise self.error(name, f"must be a list of {count:,} {what}, got {len(values):,}")
        return values

    def _value(self, names: str | Sequence[str], default: Any, why: str, rule: fields.Rule) -> Any:
        found = self.find(names)
        first = names if isinstance(names, str) else names[0]
        if found is None:
            if default is None:
                raise self.error(first, f"is missing; it must be {rule.allowed()}")
            if why:
                said = "null" if first in self.record else "absent"
                value = rule.write(default)
                self.assume(f"{self.named(first)} is {said}: {value} is taken, {why}.")
            return default
        name, value = found
        if not rule.accepts(value):
            raise self.error(name, f"must be {rule.allowed()}, got {shown(value)}")
        return value
