"""One object of a config: the value of each key, from it or from the defaults of its class."""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posenc import fields, limits
from posenc.errors import ConfigFileError
from posenc.models.config_json import as_json
from posenc.text import printable_name

MAX_LAYERS = 4_096
MAX_WIDTH = 2**20  # of a token vector
LENGTH = fields.IntRange(low=2, high=limits.MAX_POSITION)
POSITIVE = fields.FloatRange(low=0.0, high=float(MAX_WIDTH), closed=False)
SHARE = fields.FloatRange(low=0.0, high=1.0, closed=False)
EVEN_WIDTH = fields.IntRange(low=2, high=limits.MAX_DIM, multiple_of=2)
TEXT = fields.Word(pattern="(?s).*", in_words="a text")
_FLAG = fields.Flag(label="")
_HEADS = fields.IntRange(low=1, high=limits.MAX_HEADS)
_HEAD_WIDTH = fields.IntRange(low=2, high=limits.MAX_DIM)
_WIDTH = fields.IntRange(low=1, high=MAX_WIDTH)
_LAYERS = fields.IntRange(low=1, high=MAX_LAYERS)
_COUNT = fields.IntRange(low=0, high=limits.MAX_POSITION)
_TOKENS = fields.IntRange(low=1, high=limits.MAX_POSITION)
# The rule of a key: the first whose pattern is in its name.
_RULES: tuple[tuple[str, fields.Rule], ...] = (
    (r"rope_theta$|rotary_emb_base$|_base_freq$", limits.BASE),
    (r"^partial_rotary_factor$|^rotary_pct$", SHARE),
    (r"scalar$|multiplier$|^attn_scale$|scaling_beta$|softmax_scale$|softcapping$", POSITIVE),
    (
        r"^use_|alibi$|^is_|_tuning$|_eq_v$|architecture$|multi_query$|interleave$|^scale_attn_",
        _FLAG,
    ),
    (r"(?:num|n)_\w*heads$|n_head$|n_head_kv$|kv_heads$|num_experts_per_tok$|n_?groups$", _HEADS),
    (r"^(?:num_(?:hidden_|decoder_)?layers|n_layers?|encoder_layers|decoder_layers)$", _LAYERS),
    (r"^qk_(?:rope|nope)_head_dim$|^rotary_dim$", EVEN_WIDTH),
    (r"max_position|n_positions|max_seq_len|seq_length|model_max_len|max_distance$", LENGTH),
    (r"^local_radius$|^floor_scale$", LENGTH),
    (r"^(?:global_|attention_|v_)?head_dim$|^kv_channels$|^d_kv$", _HEAD_WIDTH),
    (r"interval$|period$|pattern$|_freq$|every_n|group_size$|_cycles$", _LAYERS),
    (r"window|radius|chunk|^index_", _TOKENS),
    (
        r"hidden_size|n_embd|d_model|lora_rank|embedding_size|head_dim$|_d_state$|state_size$",
        _WIDTH,
    ),
    (r"kernel|_d_conv$|mamba_expand$|conv1d_width$|conv_L_cache$|cca_time", _LAYERS),
    (r"type$|use_bidirectional_attention", TEXT),
    (r"", _COUNT),
)
# Keys whose value may be one for all layers or a list with one for each, by the rule of an entry;
# None: the value is checked where it is used.
_LISTS: Mapping[str, fields.Rule | None] = {
    "attention_window": fields.IntRange(low=2, high=MAX_WIDTH, multiple_of=2),
    "num_attention_heads_per_layer": _HEADS,
    "layer_types": TEXT,
    "layers_block_type": TEXT,
    "per_layer_config": None,
    "rope_scaling_layers": fields.IntRange(low=0, high=MAX_LAYERS),
    "use_bidirectional_attention": None,
}
# Keys for which null is a value of its own: no window, as many key heads as query heads, false.
_MAY_BE_NULL = re.compile(
    r"num_key_value_heads|sliding_window|chunk_size|^attention_window_size$|^local_attention$"
    r"|mamba_d_ssm|softmax_scale|softcapping|^num_kv_heads|n_head_kv|^rope_interleave$"
)


@dataclass(frozen=True)
class Taken:
    """A default that was taken. null: whether the key is null, and not absent."""

    key: str
    value: Any
    null: bool


def key_names(row: Mapping[str, Any], name: str) -> Sequence[str]:
    """Return the names of a key in a class, the first that counts first. row: of the class."""
    names: Sequence[str] = row.get("names", {}).get(name, (name,))
    return names


@functools.cache
def rule_of(name: str) -> fields.Rule:
    """Return the rule of a key's value."""
    return next(rule for pattern, rule in _RULES if re.search(pattern, name))


class Record:
    """One object of a config.

    content: the object. path: its key from the top. defaults, names: of its class: the default of a
    key, and its names in the order in which they count. taken: the defaults that were taken.
    unread: keys of rope blocks that bear on position and are not read.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        path: str = "",
        defaults: Mapping[str, Any] | None = None,
        names: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.content = content
        self.path = path
        self.defaults = defaults or {}
        self.names: Mapping[str, Sequence[str]] = names or {}
        self.taken: dict[str, Taken] = {}
        self.unread: list[str] = []

    def named(self, name: str) -> str:
        """Return a key's path from the top."""
        return f"{self.path}.{name}" if self.path else name

    def error(self, name: str, problem: str) -> ConfigFileError:
        """Return an error about a key; `problem` continues its name."""
        key = self.named(printable_name(name))
        return ConfigFileError(f"{key} {problem}.", key)

    def no_null(self, name: str) -> ConfigFileError:
        """Return an error about a key whose null the class does not take for its default."""
        problem = "is null, which its class does not take for its default; state it or leave it out"
        return self.error(name, problem)

    def take(self, name: str, key: str, value: Any, *, null: bool = False) -> None:
        """Note that a default was taken, once for each name."""
        self.taken.setdefault(name, Taken(key, value, null))

    def raw(self, name: str) -> tuple[str, Any]:
        """Return which of a key's names the config has, and its value; None if it has none."""
        names = self.names.get(name, (name,))
        given = [(each, value) for each in names if (value := self._at(each)) is not None]
        if not given:
            return names[0], None
        first, value = given[0]
        for other, another in given[1:]:
            if another != value:
                raise self.error(
                    other,
                    f"says {as_json(another)}, but {self.named(first)} says {as_json(value)}; they "
                    "are two names of one number and must agree",
                )
        return first, value

    def _at(self, name: str) -> Any:
        if "." not in name:
            return self.content.get(name)
        value: Any = self.content
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def says(self, name: str) -> bool:
        """Return whether the config has a value of a key."""
        return self.raw(name)[1] is not None

    def has_null(self, name: str) -> bool:
        """Return whether a key stands in the config as null."""
        names = self.names.get(name, (name,))
        return any(each in self.content and self.content[each] is None for each in names)

    def get(self, name: str, rule: fields.Rule | None = None, *, required: bool = False) -> Any:
        """Return a key's checked value or the default of the class; None without either."""
        key, value = self.raw(name)
        if value is None:
            return self._default(name, key, rule, required)
        if rule is None and name in _LISTS:
            return self._entries(key, value, _LISTS[name])
        return self.checked(key, value, rule or rule_of(key))

    def _entries(self, key: str, value: Any, rule: fields.Rule | None) -> Any:
        if rule is None or not isinstance(value, list):
            return value if rule is None else self.checked(key, value, rule)
        return tuple(
            self.checked(f"{key}[{index}]", entry, rule) for index, entry in enumerate(value)
        )

    def _default(self, name: str, key: str, rule: fields.Rule | None, required: bool) -> Any:
        default, null = self.defaults.get(name), self.has_null(name)
        if default is None or (null and _MAY_BE_NULL.search(name)):
            if required:
                raise self.error(key, f"is missing; it must be {(rule or rule_of(key)).allowed()}")
            return None
        if null and name == "head_dim":
            raise self.no_null(key)
        self.take(name, self.named(key), default, null=null)
        return default

    def checked(self, key: str, value: Any, rule: fields.Rule) -> Any:
        """Return a value that a rule accepts; whole numbers become floats where it takes floats."""
        is_list = isinstance(rule, fields.Numbers)
        if is_list and isinstance(value, list):
            value = tuple(value)
        if not rule.accepts(value):
            allowed = rule.allowed_list() if isinstance(rule, fields.Numbers) else rule.allowed()
            got = [*value] if isinstance(value, tuple) else value
            raise self.error(key, f"must be {allowed}, got {as_json(got)}")
        return float(value) if isinstance(rule, fields.FloatRange) else value

    def section(self, name: str) -> "Record | None":
        """Return a nested object, None where it is absent or null."""
        value = self._at(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, f"must be an object in braces or null, got {as_json(value)}")
        part = Record(value, self.named(name))
        part.taken, part.unread = self.taken, self.unread
        return part

    def entries(self, name: str, count: int, entry: str = "entries, one per layer") -> Any:
        """Return a list of `count` values, None where the key is absent. entry: what it lists."""
        key, value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != count:
            got = f"{len(value):,}" if isinstance(value, list) else as_json(value)
            raise self.error(key, f"must be a list of {count:,} {entry}, got {got}")
        return value

    def spellings(self, names: Iterable[str]) -> Iterator[str]:
        """Yield every name of some keys, and the objects in which they stand."""
        for name in names:
            for each in self.names.get(name, (name,)):
                yield each
                yield each.partition(".")[0]
