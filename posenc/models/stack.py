"""The kinds of layers of one stack of a model, by the data of its class.

A row of families.json has these keys, all but `class` optional. An expression is one of
posenc.models.expressions; a name in it is that of a key of the config, of an entry of `named`, or
of a fact that is known already. here(list) is the entry that all layers of a kind have, own(key) what
per_layer_config gives them, per_head(width) the part of one head, given(key) the value without the
default of the class, and of_scheme(word, field) a field of the scheme of a kind of layer, in `agree`
alone.

class: the configuration class of transformers. defaults: of its keys. names: the names of a key.
named: expressions by a name, for other expressions.
layers: which layer is of which kind (see posenc.models.layer_words); count: an expression of their
  number.
rope_layers: the same for the words rope and no_rope, for a class that lists the layers without
  RoPE.
kinds: by word, the facts of these layers that differ from those of the row; attention: false for
  layers that keep a state or nothing.
Facts of all layers, in this order; each is an expression that may use those before it: heads,
  kv_heads, head_dim, rope_dim (the width of which a share rotates), value_dim, cache (numbers per
  token), scale (of q . k), window (tokens that a query sees), state (numbers per sequence), rows
  (of a table that is never lengthened), rotates (which starts as what rope_layers says), softcap,
  sinks (of attention), chunked (whether the window is the length of chunks), bias_scale, growth,
  growth_length and growth_first (of queries; see posenc.logits.rule.Growth).
causal: whether tokens see only what is before them, and keys are cached. cached: false for a class
  without a cache. context, trained: lengths in tokens. shared: how many of the last layers use the
  keys of an earlier layer.
rope: see posenc.models.rope_blocks. layer_bases: the key of a list of the base of each layer, 0
  for no RoPE.
position: kind of scheme and an expression for each of its fields, in place of RoPE by blocks.
must_be: allowed values of a key, or the template of an error that counts where `if` holds. agree:
  expressions of which one is the value that a key must have where it is given.
first_row: an expression of the row of position 0 in a table. notes, about: see
  posenc.models.sentences.
also: keys that the class has and that change none of this. sections: keys of nested objects that it
  reads.
alternatives: parts of a row that count where the expression `if` holds. stacks: parts of a row by
  the name of a stack, for an encoder and a decoder.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from posenc import limits
from posenc.errors import ConfigError, ConfigFileError
from posenc.fields import FloatRange
from posenc.models.config_json import as_json
from posenc.models.expressions import parsed
from posenc.models.family import Row
from posenc.models.layer_words import layer_words, lists_of
from posenc.models.position_keys import bears_on_position
from posenc.models.record import key_names
from posenc.models.rope_bases import bases_of
from posenc.models.rope_blocks import BlockReader, check_blocks
from posenc.models.rope_numbers import NEW, OLD, Head
from posenc.models.rope_types import THETA, TRAINED
from posenc.models.row_keys import OF_KIND, ONE_KIND, declared_keys, keys_in
from posenc.models.row_values import RowValues
from posenc.models.templates import filled
from posenc.schemes import SCHEMES
from posenc.schemes.base import NoneConfig, SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.text import joined, printable_name

_BASE = FloatRange(low=0.0, high=limits.MAX_BASE)


@dataclass(frozen=True, kw_only=True)
class Layers:
    """The layers of a stack that are alike.

    word: of their kind. rotates: whether their class rotates them. is_shared: whether they use the
    keys of an earlier layer. base: their own, 0 where the config lists none. block_scale: the part
    of the softmax scale that their rope block sets. facts: by the names of OF_KIND.
    """

    word: str
    indices: tuple[int, ...]
    scheme: SchemeConfig | None
    rotates: bool
    is_shared: bool
    base: float
    cache_width: int
    block_scale: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class Stack(RowValues):
    """One stack of layers of a config.

    content: the object of the config. row: of its class. path: the key of the object. name: of the
    stack. words, causal: of the layers, once they were read.
    """

    def __init__(
        self, content: Mapping[str, Any], row: Row, path: str = "", name: str = ""
    ) -> None:
        super().__init__(content, row, path)
        self.name = name
        self.words: tuple[str, ...] = ()
        self.causal = True
        self._keys: set[str] = set()  # of rope blocks and outside of them
        self.bases = bases_of(self.rope) if self.rope else {}

    @property
    def rope(self) -> Row:
        """The data of the class's RoPE; empty without RoPE by blocks."""
        return self.row.get("rope") or {}

    @property
    def full_word(self) -> str:
        """The word of the class for layers that see the whole text."""
        return next(iter(self.row.get("kinds", ONE_KIND)))

    def context(self) -> int | None:
        """Return the length in tokens that the config names, None without one."""
        return self.fact("context") or None

    def trained_length(self) -> int | None:
        """Return the length of training where the class has a key of its own for it."""
        return self.fact("trained") or None

    def layers(self) -> list[Layers]:
        """Return the layers that are alike. Raises ConfigFileError for what is not read."""
        self._check_nulls()
        self._check_switches()
        record, row, count = self.record, self.row, self.count()
        self.causal = bool(self.fact("causal"))
        self.facts = {"causal": self.causal}
        kinds = row.get("kinds", ONE_KIND)
        bases = self._bases(count)
        rotating = self._rotating(count, bases)
        words = self.words = layer_words(
            record, row.get("layers", {}), kinds, count,
            lambda index: self._word(index, count, rotating[index]),
        )  # fmt: skip
        if not any(kinds[word].get("attention", True) for word in words):
            lists = lists_of(row.get("layers", {}), kinds)
            key = next((record.raw(name)[0] for name in lists if record.says(name)), "layer_types")
            raise record.error(key, "names no layer with attention, which alone has positions")
        shared = self._shared(words)
        groups: dict[tuple[str, bool, bool, float], list[int]] = {}
        for index, word in enumerate(words):
            is_shared = index >= count - shared
            alike = word, self._rotates(word, rotating[index]), is_shared, bases[index]
            groups.setdefault(alike, []).append(index)
        layers = [self._layers(*alike, tuple(indices)) for alike, indices in groups.items()]
        if self.rope:
            self._check_rope(layers)
        self._check_per_layer()
        self._check_agreement(layers)
        return layers

    def _check_rope(self, layers: list[Layers]) -> None:
        """Note the keys of rope blocks that no layer reads."""
        with_heads = [each for each in layers if each.scheme is not None]
        words = {each.word for each in with_heads}
        rotates = {word: any(e.rotates for e in with_heads if e.word == word) for word in words}
        check_blocks(self.record, self.rope, self.row.get("kinds", ONE_KIND), rotates)
        if not any(rotates.values()):
            self._keys |= {NEW, OLD, THETA, TRAINED}
        for word, base in self.bases.items():
            if word not in words:
                self._keys |= {*base.names}

    def _check_per_layer(self) -> None:
        """Note the keys of per_layer_config that no layer reads."""
        section = self.record.raw("per_layer_config")[1]
        parts = section.items() if self.own_keys and isinstance(section, dict) else ()
        for index, part in parts:
            for name, value in part.items() if isinstance(part, dict) else ():
                is_read = index.isdecimal() and (int(index), name) in self.own_keys
                if value is not None and bears_on_position(name) and not is_read:
                    key = printable_name(f"per_layer_config.{index}.{name}")
                    self.record.unread.append(self.record.named(key))

    def _word(self, index: int, count: int, rotates: bool) -> str:
        expression = self.row.get("layers", {}).get("word")
        if expression is None:
            return self.full_word
        return str(self.value(expression, index=index, layers=count, rotates=rotates))

    def _rotating(self, count: int, bases: tuple[float, ...]) -> tuple[bool, ...]:
        """Return whether each layer has RoPE, by a list of the config."""
        if self.record.says(self.row.get("layer_bases", "")):
            return tuple(map(bool, bases))
        rule = self.row.get("rope_layers")
        if rule is None:
            return (True,) * count
        words = layer_words(
            self.record, rule, ("rope", "no_rope"), count,
            lambda index: str(self.value(rule["word"], index=index, layers=count)),
        )  # fmt: skip
        return tuple(word == "rope" for word in words)

    def _rotates(self, word: str, is_listed: bool) -> bool:
        """Return whether layers of a kind rotate. is_listed: as the list of a config says of them."""
        self.facts["rotates"] = is_listed
        return bool(self.fact("rotates", self.row.get("kinds", ONE_KIND)[word]))

    def _bases(self, count: int) -> tuple[float, ...]:
        key = self.row.get("layer_bases", "")
        listed = self.record.entries(key, count) or (0.0,) * count
        return tuple(
            self.record.checked(f"{key}[{index}]", base, _BASE) for index, base in enumerate(listed)
        )

    def _shared(self, words: tuple[str, ...]) -> int:
        """Return how many of the last layers use the keys of an earlier one of their kind."""
        count = len(words)
        key, shared = "num_kv_shared_layers", self.fact("shared")
        if not self.record.says(key):
            shared = min(shared, count - 1)
        if shared and {*words[: max(count - shared, 0)]} != {*words}:
            problem = "must leave a layer of every kind with keys and values of its own"
            raise self.record.error(key, problem)
        return int(shared)

    def _check_nulls(self) -> None:
        """Refuse a null head_dim of a class that has a rule or another name of its own for it."""
        has_own = "head_dim" in self.row or key_names(self.row, "head_dim")[0] != "head_dim"
        if has_own and self.record.has_null("head_dim"):
            raise self.record.no_null("head_dim")

    def _check_switches(self) -> None:
        """Raise ConfigFileError where a key has a value with which the class is not read."""
        record = self.record
        for section in self.row.get("sections", {}):
            record.section(section)
        for key, allowed in self.row.get("must_be", {}).items():
            value = record.raw(key)[1]
            value = record.defaults.get(key) if value is None else value
            if isinstance(allowed, Mapping):
                shown = "null" if record.has_null(key) else as_json(value)
                for problem in filled([allowed], self.value):
                    raise record.error(key, f"{problem}, got {shown}")
            elif not is_one_of(value, allowed):
                values = [as_json(each) for each in allowed if each is not None] or ["absent"]
                problem = f"must be {joined(values, 'or')}, got {as_json(value)}, which is not read"
                raise record.error(key, problem)

    def _check_agreement(self, layers: list[Layers]) -> None:
        """Raise ConfigFileError where a key says something else than what the class takes."""
        self.schemes = {each.word: each.scheme for each in layers}
        for key, expressions in self.row.get("agree", {}).items():
            value = self.record.raw(key)[1]
            if value is None:
                continue
            allowed = [self.value(expression) for expression in expressions]
            if not is_one_of(value, allowed):
                shown = joined([as_json(each) for each in allowed], "or")
                source = self._source({each for text in expressions for each in parsed(text).names})
                raise self.record.error(key, f"must be {shown} {source}, got {as_json(value)}")

    def _source(self, keys: Collection[str]) -> str:
        """Return which keys decide a value, with theirs."""
        values = []
        for key in sorted(keys):
            default = "" if self.record.says(key) else " by default"
            values.append(f"{self.record.raw(key)[0]} {as_json(self.value(key))}{default}")
        return f"with {joined(values, 'and')}" if values else "in this model"

    def _layers(
        self, word: str, rotates: bool, is_shared: bool, base: float, indices: tuple[int, ...]
    ) -> Layers:
        kind: Row = self.row.get("kinds", ONE_KIND)[word]
        self.indices, self.facts = indices, {"causal": self.causal, "rotates": rotates}
        if not kind.get("attention", True):
            return Layers(
                word=word, indices=indices, scheme=None, rotates=False, is_shared=False, base=0.0,
                cache_width=0, facts={"state": int(self.fact("state", kind))},
            )  # fmt: skip
        for name in OF_KIND:
            self.facts[name] = self.fact(name, kind)
        facts = {**self.facts, "rotates": rotates}
        self._check_heads(facts, kind)
        if "window" in kind and facts["window"] is None and word != "full_attention":
            raise self._without_window(word, kind)
        scheme, block_scale = self._scheme(word, facts, base)
        facts["scale"] *= block_scale or 1.0
        is_cached = facts["causal"] and not is_shared and self.row.get("cached", True)
        return Layers(
            word=word, indices=indices, scheme=scheme, rotates=facts["rotates"],
            is_shared=is_shared, base=base, block_scale=block_scale,
            cache_width=int(facts["cache"]) if is_cached else 0, facts=facts,
        )  # fmt: skip

    def _without_window(self, word: str, kind: Row) -> ConfigFileError:
        """Return the error of layers that the config, or else its class, names without their window."""
        if self.record.says("layer_types"):
            return self.record.error("layer_types", f"names {word} layers, but no window is given")
        key = min(keys_in(self.row, kind["window"], len(OF_KIND)))
        return self.record.error(key, f"must be a number of tokens for the {word} layers, got null")

    def _check_heads(self, facts: Mapping[str, Any], kind: Row) -> None:
        heads, kv_heads = facts["heads"], facts["kv_heads"]
        if kv_heads > heads or heads % kv_heads:
            keys = keys_in(self.row, kind.get("kv_heads", self._of["kv_heads"]), 1)
            of_value = (key for key in sorted(keys) if self.record.raw(key)[1] == kv_heads)
            raise self.record.error(
                next(of_value, "num_key_value_heads"),
                f"must divide the {heads:,} query heads, got {kv_heads:,}",
            )

    def _scheme(
        self, word: str, facts: Mapping[str, Any], base: float
    ) -> tuple[SchemeConfig, float | None]:
        """Return the scheme of a kind, and the part of its softmax scale that a block sets."""
        position = self.row.get("position")
        if position is not None:
            return self._position(position), None
        if not facts["rotates"]:
            return NoneConfig(), 1.0 if self.rope.get("scales_softmax") else None
        head = Head(
            head_dim=facts["head_dim"],
            rope_dim=facts["rope_dim"],
            layout="interleaved" if self.value(self.rope.get("interleaved", False)) else "half",
            context_key=self.record.raw("max_position_embeddings")[0],
            context=self.fact("context"),
        )
        reader = BlockReader(self.record, self.rope, self.bases, word, head)
        scheme = reader.scheme()
        self._keys |= reader.numbers.outer
        if base and isinstance(scheme, RopeConfig):
            scheme = scheme.replace(base=base)
        return scheme, reader.numbers.block_scale

    def _position(self, position: Row) -> SchemeConfig:
        """Return a scheme other than a rope block. Raises ConfigFileError for what it cannot take."""
        values = {name: self.value(each) for name, each in position.items() if name != "kind"}
        try:
            return SCHEMES[position["kind"]](**values)
        except ConfigError as error:
            field_name, _, problem = str(error).partition(" ")
            field_name = field_name.rpartition(".")[2]
            keys = keys_in(self.row, position.get(field_name), len(OF_KIND))
            key = min(keys, default="hidden_size")
            raise self.record.error(
                key, f"cannot be used: {field_name} {problem.removesuffix('.')}"
            ) from None

    def keys_read(self) -> Iterator[str]:
        """Yield the keys that the class reads, under every name."""
        yield from self.record.spellings(self._keys | declared_keys(self.row))


def is_one_of(value: Any, values: Any) -> bool:
    """Return whether a value is one of several; true is not 1, while 1 is 1.0."""
    return any(
        value == each and isinstance(value, bool) is isinstance(each, bool) for each in values
    )
