"""A config.json as a checked object, read key by key, and which of its keys bear on position.

Names of keys: the configuration classes of transformers 5.23, and published files with their own code.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from posenc import fields, limits
from posenc.errors import ConfigError, ConfigFileError, quoted
from posenc.text import printable_name

# Fields of our schemes by other names of keys.
_KEYS = {
    "dim": "head_dim",
    "base": "rope_theta",
    "sections": "mrope_section",
    "trained_length": "original_max_position_embeddings",
}


@runtime_checkable
class HasToDict(Protocol):
    """An object that returns its keys, as the configs of transformers do."""

    def to_dict(self) -> Mapping[str, Any]:
        """Return the keys of a config.json."""


ConfigSource = Mapping[str, Any] | HasToDict | str | bytes | bytearray | Path
_TEXT = fields.Word(pattern="(?s).*", in_words="a text")
_MAX_DEPTH = 32  # objects and lists inside one another


def read_object(source: ConfigSource) -> dict[str, Any]:
    """Return a config as a dict.

    source: a mapping, or an object with to_dict; JSON text or bytes of at most 1 MiB; or a path. Raises
    ConfigFileError.
    """
    record = _parse(_text_of(source))
    if not isinstance(record, dict):
        raise ConfigFileError(
            f"the config must be one JSON object in braces, got {as_json(record)}."
        )
    _check(record)
    return record


def as_json(value: object) -> str:
    """Return a value of a config in JSON's words, in at most 60 characters."""
    if isinstance(value, bool | list | dict | None):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= 60 else text[:57] + "..."
    return quoted(value)


def _allowed(rule: fields.Rule) -> str:
    return rule.allowed_list() if isinstance(rule, fields.Numbers) else rule.allowed()


def unusable(where: str, error: ConfigError) -> ConfigFileError:
    """Return the error of a scheme that takes no such numbers, in words of keys."""
    problem = re.sub(r"\b\w+Config\.(\w+)", lambda m: _KEYS.get(m[1], m[1]), str(error))
    return ConfigFileError(f"{where} cannot be used: {problem}", where)


def _text_of(source: ConfigSource) -> str:
    source = _as_mapping(source)
    if isinstance(source, Mapping):
        try:
            return json.dumps(dict(source), default=_plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigFileError(f"the config cannot be written as JSON: {error}.") from None
    if isinstance(source, str):
        text = source.removeprefix("\ufeff")
        start = text.lstrip()
        if not start or start[0] in '{["' or "\n" in text:
            return text
    elif not isinstance(source, bytes | bytearray | Path):
        raise ConfigFileError(
            "a config is a dict, an object whose to_dict returns one, JSON text, bytes or the path of a "
            f"config.json, got {type(source).__name__}."
        )
    content = source if isinstance(source, bytes | bytearray) else _read_file(Path(source))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigFileError(
            f"the config is not UTF-8 text: byte {error.start:,} belongs to no letter."
        ) from None


def _as_mapping(value: Any) -> Any:
    """Return the keys of an object that has to_dict, and anything else as it is."""
    is_class = isinstance(value, type)  # whose to_dict belongs to its objects
    return value.to_dict() if isinstance(value, HasToDict) and not is_class else value


def _plain(value: object) -> Any:
    # A dict of transformers may hold a torch dtype, or the config of a part.
    value = _as_mapping(value)
    return dict(value) if isinstance(value, Mapping) else f"<{type(value).__name__}>"


def _read_file(path: Path) -> bytes:
    name = printable_name(path.name)
    try:
        if path.is_file():
            with path.open("rb") as file:
                # Of a file of /proc that waits for news, the size is 0.
                return file.read(min(path.stat().st_size, limits.MAX_CONFIG_BYTES + 1))
        if path.is_dir():
            raise ConfigFileError(f"{name} is a directory; give the config.json in it.")
    except OSError as error:
        raise ConfigFileError(f"{name} cannot be read as a config.json.") from error
    raise ConfigFileError(
        f"there is no file {name}; give a dict, JSON text that begins with a brace, or the path of a "
        "config.json."
    )


def _parse(text: str) -> Any:
    if len(text) > limits.MAX_CONFIG_BYTES:
        raise ConfigFileError(
            f"the config is longer than {limits.MAX_CONFIG_BYTES:,} bytes, the most that is read."
        )
    if not text.strip():
        raise ConfigFileError("the config is empty.")
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise ConfigFileError(
            f"the config is not JSON: {error.msg} in line {error.lineno}, column {error.colno}."
        ) from None
    except ConfigFileError:
        raise
    except RecursionError:
        raise _too_deep("the config") from None
    except ValueError:
        raise ConfigFileError("the config holds a number of thousands of digits.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for key, value in pairs:
        if key in record:
            name = printable_name(key)
            raise ConfigFileError(f"{name} stands twice in one object; a key may stand once.", name)
        record[key] = value
    return record


def _check(value: Any, key: str = "", depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise _too_deep(key, key)
    may_be_infinite = key.endswith("time_step_limit")  # of Mamba's layers, by default
    if isinstance(value, float) and not (math.isfinite(value) or may_be_infinite):
        raise ConfigFileError(f"{key} must be a finite number, got {value}.", key)
    if isinstance(value, dict):
        for name, inner in value.items():
            _check(inner, f"{key}.{printable_name(name)}".lstrip("."), depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, key, depth + 1)


def _too_deep(place: str, key: str = "") -> ConfigFileError:
    return ConfigFileError(f"{place} nests objects and lists more than {_MAX_DEPTH} deep.", key)


_BEARS_ON_POSITION = re.compile(
    # The encoding itself.
    r"rope|nope|rotary|posi|(?:^|_)pos(?:_|$)|alibi|relative|bucket|axial|yarn|ntk|theta|freq|mscale|neox"
    r"|timescale|interleaved|llama_4"
    # Lengths.
    r"|n_ctx|context_len|long_context|max_seq|seq_len|seq_length|sequence_len|model_max_len|mem_len"
    # What a query sees, and in which layers.
    r"|sliding|window|chunk|causal|bidirectional|prefix_lm|sparse_att|^index_|indexer|compress|lsh_"
    r"|layer_types?$|layers_block|block_(?:types?|configs?)$|per_layer_config|hybrid|swa_|local_layer"
    r"|(?:attn|attention)_(?:layer|type|idx|interval|period|pattern|config|sink)|attn_layers"
    r"|(?:full|global|local|linear|dual|sparse)_(?:attn|attention)|^attention$|^attn$"
    # Layers that hold a state in place of a cache.
    r"|mamba|ssm|state_size|time_step|lru_|recurrent|kda_|linear_|conv_|conv1d"
    # Heads and what is cached of them.
    r"|(?:^|_)kv_(?!cache)|_kv$|multi_query|query_group|key_value|qk_(?:rope|nope|head)|v_head_dim|(?:^|_)(?:mla|cla)(?:_|$)"
    r"|head_(?:dim|size|width)|heads_per_layer|d_head|d_kv"
    # How logits are scaled.
    r"|(?:attn|attention)_temperature|temperature_tuning|floor_scale|attn_scale|log_scaling|logn|pre_attn_scalar|softmax_scale"
    r"|attention_multiplier|key_multiplier"
)
# Names of something else: quantization, pictures and sound, experts, generation.
_BEARS_ON_ANOTHER = re.compile(
    r"^compression_config$|vision|image|video|audio|patch|expert|moe_|^mlp_|^mtp_"
    r"|chunk_size_feed_forward|chunk_size_lm_head|token_id|dropout|implementation"
)
_LENGTH = re.compile(r"^n_ctx$|context_len|max_seq|seq_len|seq_length|sequence_len|model_max_len")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_PATTERNS = (
    "sliding_window_pattern", "_sliding_window_pattern", "max_window_layers",
    "prefix_dense_sliding_window_pattern",
    "global_attn_every_n_layers",
)  # fmt: skip
_NEUTRAL = {"rotary_scaling_factor": 1, "rope_ratio": 1, "rotary_pct": 1, "num_kv_shared_layers": 0}
# False there switches off what most models do.
_ON_BY_DEFAULT = re.compile(r"^(?:use_|is_)?(?:rope|rotary|causal)|neox|interleave")


def _has_no_effect(name: str, record: Mapping[str, Any], read: set[str]) -> bool:
    """Return whether an unread key of `record` has a value that changes nothing.

    read: the keys of `record` that were read.
    """
    value = record[name]
    if value is None:
        return True
    if name == "use_sliding_window":
        # A class that ignores this key uses its window anyway.
        has_none = "sliding_window" in record and record["sliding_window"] is None
        return value is False and (has_none or "sliding_window" not in read)
    if name in _PATTERNS and record.get("layer_types") is not None and "layer_types" in read:
        return True  # that list was made from it
    if name in ("sliding_window", "max_window_layers"):
        return record.get("use_sliding_window") is False and "sliding_window" not in read
    if name == "sliding_window_size" and record.get("sliding_window") is not None:
        return bool(value == record["sliding_window"])
    if "window" in name and value == -1:
        return True
    if _LENGTH.search(name):
        return any(record.get(key) is not None for key in _CONTEXT if key in read)
    if name in _NEUTRAL:
        return value == _NEUTRAL[name] and not isinstance(value, bool)
    if name == "cla_share_factor":
        return record.get("use_cla") is False
    if name == "use_mla":
        return value is ("kv_lora_rank" in read)
    return value is False and not _ON_BY_DEFAULT.search(name)


class Keys:
    """One object of a config, and which of its keys were read.

    null counts as absent, as in transformers. A key may have several names, which must agree.
    """

    def __init__(self, record: dict[str, Any], path: str = "", parent: Keys | None = None) -> None:
        self.record = record
        self.path = path
        self.assumed: list[str] = parent.assumed if parent else []
        self.sections: dict[str, Keys] = {}
        self.read: set[str] = set()

    def named(self, name: str) -> str:
        """Return a key's path from the top."""
        return f"{self.path}.{name}" if self.path else name

    def error(self, name: str, problem: str) -> ConfigFileError:
        """Return an error about a key; `problem` continues its name."""
        key = self.named(printable_name(name))
        return ConfigFileError(f"{key} {problem}.", key)

    def assume(self, sentence: str) -> None:
        """Note an assumption, once."""
        if sentence not in self.assumed:
            self.assumed.append(sentence)

    def find(self, names: str | Sequence[str]) -> tuple[str, Any] | None:
        """Return a key's name and value, or None where it is absent or null, and mark it as read."""
        names = (names,) if isinstance(names, str) else names
        self.read.update(names)
        entries = [(name, self.record[name]) for name in names if self.record.get(name) is not None]
        if not entries:
            return None
        first, value = entries[0]
        for name, other in entries[1:]:
            if other != value:
                raise self.error(
                    name, f"says {as_json(other)}, but {self.named(first)} says {as_json(value)};"
                    " they are two names of one number and must agree",
                )  # fmt: skip
        return first, value

    def name(self, names: str | Sequence[str]) -> str:
        """Return which of a key's names the config has, the first where it has none."""
        first = names if isinstance(names, str) else names[0]
        return (self.find(names) or (first,))[0]

    def get(
        self, names: str | Sequence[str], rule: fields.Rule, default: Any = None, why: str = ""
    ) -> Any:
        """Return a key's checked value, or its default; without a default the key is required.

        why: the reason for the default, which is noted as an assumption.
        """
        entry = self.find(names)
        first = names if isinstance(names, str) else names[0]
        if entry is None:
            if default is None:
                raise self.error(first, f"is missing; it must be {_allowed(rule)}")
            if why:
                state = "null" if first in self.record else "absent"
                text = rule.write(default)
                self.assume(f"{self.named(first)} is {state}: {text} is taken, {why}.")
            return default
        name, value = entry
        if isinstance(rule, fields.Numbers) and isinstance(value, list):
            value = tuple(value)
        self._check_rule(name, value, rule)
        return float(value) if isinstance(rule, fields.FloatRange) else value

    def _check_rule(self, name: str, value: Any, rule: fields.Rule) -> None:
        if not rule.accepts(value):
            got = [*value] if isinstance(value, tuple) else value
            raise self.error(name, f"must be {_allowed(rule)}, got {as_json(got)}")

    def optional(self, names: str | Sequence[str], rule: fields.Rule) -> Any:
        """Return a key's checked value, or None where it is absent or null."""
        return None if self.find(names) is None else self.get(names, rule)

    def flag(self, name: str, default: bool, why: str = "") -> bool:
        """Return true or false."""
        value: bool = self.get(name, fields.Flag(label=""), default, why)
        return value

    def text(self, name: str) -> str | None:
        """Return a text, or None where the key is absent or null."""
        text: str | None = self.optional(name, _TEXT)
        return text

    def entries(
        self, name: str, count: int, rule: fields.Rule, entry: str = "numbers"
    ) -> tuple[Any, ...]:
        """Return a list of exactly `count` values; the key is required. entry: what it lists."""
        values = (self.find(name) or (name, None))[1]
        required = f"must be a list of {count:,} {entry}"
        if values is None:
            raise self.error(name, f"is missing; it {required}")
        if not isinstance(values, list):
            raise self.error(name, f"{required}, got {as_json(values)}")
        if len(values) != count:
            raise self.error(name, f"{required}, got {len(values):,}")
        for index, value in enumerate(values):
            self._check_rule(f"{name}[{index}]", value, rule)
        return tuple(values)

    def by_layer(self, name: str, layers: int, rule: fields.Rule) -> tuple[Any, ...] | None:
        """Return a value per layer, or None where the key is absent or null."""
        if self.find(name) is None:
            return None
        return self.entries(name, layers, rule, "entries, one per layer")

    def section(self, name: str, *, empty: bool = False) -> Keys | None:
        """Return the keys of a nested object, or None where it is absent or null.

        empty: whether an object without keys counts; else it is None, too.
        """
        entry = self.find(name)
        if entry is None:
            return None
        if not isinstance(entry[1], dict):
            raise self.error(name, f"must be an object in braces or null, got {as_json(entry[1])}")
        if (entry[1] or empty) and name not in self.sections:
            self.sections[name] = Keys(entry[1], self.named(name), self)
        return self.sections.get(name)

    def unread(self) -> tuple[str, ...]:
        """Return the unread keys that bear on position, also those of the sections that were read."""
        own = [printable_name(self.named(name)) for name in self.record if self.is_unread(name)]
        return tuple(own) + tuple(key for part in self.sections.values() for key in part.unread())

    def is_unread(self, name: str) -> bool:
        """Return whether a key bears on position and was not read."""
        if name in self.read:
            return False
        if "rope_scaling" in self.path or "rope_parameters" in self.path:
            value = self.record[name]
            # "finetuned" is of YaRN's authors, whose "dynamic-yarn" alone reads it.
            is_neutral = name == "factor" and value == 1 and value is not True
            return not (value is None or is_neutral or name == "finetuned")
        bears = _BEARS_ON_POSITION.search(name) and not _BEARS_ON_ANOTHER.search(name)
        return bool(bears) and not _has_no_effect(name, self.record, self.read)
