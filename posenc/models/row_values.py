"""The values of a row's expressions in a config. See posenc.models.stack for the keys of a row."""

from collections.abc import Mapping
from typing import Any

from posenc import limits
from posenc.errors import ConfigFileError
from posenc.models.config_json import as_json
from posenc.models.expressions import Scope, parsed
from posenc.models.family import Row
from posenc.models.record import MAX_LAYERS, Record, rule_of
from posenc.models.row_keys import OF_KIND, OF_STACK, keys_in
from posenc.schemes.base import SchemeConfig
from posenc.text import joined

_REQUIRED = ("hidden_size", "num_attention_heads", "max_position_embeddings")


class RowValues:
    """Values of the expressions of a row in one object of a config.

    content: the object. row: of its class. path: the key of the object. facts: the values of names that
    are known already. indices: of the layers that are asked for. schemes: by the word of their kind.
    own_keys: those of per_layer_config that were asked for, each with the index of a layer.
    """

    def __init__(self, content: Mapping[str, Any], row: Row, path: str = "") -> None:
        self.record = Record(content, path, row.get("defaults"), row.get("names"))
        self.row = row
        self.facts: dict[str, Any] = {}
        self.indices: tuple[int, ...] = ()
        self.schemes: dict[str, SchemeConfig | None] = {}
        self.own_keys: set[tuple[int, str]] = set()
        self._scope = Scope(
            self._value_of,
            {
                "given": lambda name: self.record.raw(name)[1],
                "here": self._entry_of_kind,
                "of_scheme": self._of_scheme,
                "own": self._own,
                "per_head": self._per_head,
            },
        )
        for part in row.get("alternatives", ()):
            if self.value(part["if"]):
                self.row = {**row, **part}
                break
        self._of = {**OF_KIND, **OF_STACK, **self.row}

    def value(self, expression: Any, **names: Any) -> Any:
        """Return the value of an expression; anything but a text is its own value.

        names: values of further names. Raises ConfigFileError where a key is null that must not be.
        """
        if not isinstance(expression, str):
            return expression
        outer, self.facts = self.facts, {**self.facts, **names} if names else self.facts
        try:
            return parsed(expression).value(self._scope)
        except TypeError:  # null, or a list, where a number is needed
            raise self._unusable(expression) from None
        finally:
            self.facts = outer

    def _unusable(self, expression: str) -> ConfigFileError:
        """Return an error about the keys of an expression that has no value, a null one first."""
        keys = sorted(keys_in(self.row, expression, len(OF_KIND))) or ["hidden_size"]
        if null := next(filter(self.record.has_null, keys), None):
            return self.record.no_null(null)
        values = {key: as_json(self.record.raw(key)[1]) for key in keys}
        first, *others = keys
        shared = joined([f"{key} {values[key]}" for key in others], "and") if others else ""
        problem = f"cannot be used{shared and f' with {shared}'}, got {values[first]}"
        return self.record.error(first, problem)

    def _value_of(self, name: str) -> Any:
        if (fact := self.facts.get(name)) is not None:
            return fact
        if name in (named := self.row.get("named", {})):
            return parsed(named[name]).value(self._scope)
        return self.record.get(name, required=name in _REQUIRED)

    def fact(self, name: str, kind: Row | None = None) -> Any:
        """Return a fact of a kind of layer, or of the stack."""
        return self.value(kind[name] if kind and name in kind else self._of[name])

    def _entry_of_kind(self, values: Any, key: str = "layer_types") -> Any:
        """Return the entry of a list that all layers of this kind have; another value as it is.

        key: whose error it is where they differ.
        """
        if not isinstance(values, tuple | list):
            return values
        own = {values[index] for index in self.indices if index < len(values)}
        if len(values) != self.count() or len(own) != 1:
            raise self.record.error(
                key,
                "must be such that every list has an entry per layer, the same for all of a kind",
            )
        return own.pop()

    def _own(self, name: str) -> Any:
        """Return a key that per_layer_config gives all layers of this kind, or None."""
        section = self.record.raw("per_layer_config")[1] or {}
        if not isinstance(section, dict) or not all(
            key.isdecimal() and isinstance(part, dict) for key, part in section.items()
        ):
            raise self.record.error("per_layer_config", "must be objects by the number of a layer")
        parts = {int(key): part.get(name) for key, part in section.items()}
        self.own_keys |= {(index, name) for index in self.indices}
        listed = [parts.get(index) for index in range(self.count())]
        value = self._entry_of_kind(listed, "per_layer_config")
        return value and self.record.checked(f"per_layer_config.{name}", value, rule_of(name))

    def _of_scheme(self, word: str, field_name: str) -> Any:
        """Return a field of the scheme of a kind of layer, None where no layer is of it."""
        return getattr(self.schemes.get(word), field_name, None)

    def _per_head(self, width: int) -> int:
        """Return the part of a width that one head has; the heads must divide it."""
        heads = self.value("heads")
        if width % heads or not 2 <= width // heads <= limits.MAX_DIM:
            raise self.record.error(
                self.record.raw("num_attention_heads")[0],
                f"must divide {self.record.raw('hidden_size')[0]} {width:,} into heads of 2 to "
                f"{limits.MAX_DIM:,}, got {heads:,}",
            )
        return int(width // heads)

    def count(self) -> int:
        """Return the number of layers."""
        rule = self.row.get("layers", {})
        count = self.value(rule.get("count", "num_hidden_layers"))
        if count is None:
            allowed = rule_of("num_hidden_layers").allowed()
            raise self.record.error("num_hidden_layers", f"is missing; it must be {allowed}")
        if not (isinstance(count, int) and 1 <= count <= MAX_LAYERS):
            problem = f"must make 1 to {MAX_LAYERS:,} layers, got {as_json(count)}"
            raise self.record.error("num_hidden_layers", problem)
        return int(count)
