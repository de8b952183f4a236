"""A config.json as Python values, strictly: one object, no key twice, no NaN, nothing without bound.

Which keys of a config.json bear on position, and which of those are known to change nothing.

The names are those of the configuration classes of transformers 5.23 (every causal model with RoPE), and
of published files with code of their own: what rotates and how, which layers are of which kind, what a
query sees, how wide and how many the heads of keys are, and how logits are scaled.

Reading a config key by key: what was read, what was assumed, and errors that name the key.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from posenc import fields, limits
from posenc.errors import ConfigFileError, shown
from posenc.text import printable_name

_BEARS = re.compile(
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
# Parts of names by which a key is of something else: quantisation, pictures and sound, experts, what is
# generated.
_ELSEWHERE = re.compile(
    r"^compression_config$|vision|image|video|audio|patch|expert|moe_|^mlp_|^mtp_"
    r"|chunk_size_feed_forward|chunk_size_lm_head|token_id|dropout|implementation"
)
_LENGTH = re.compile(r"^n_ctx$|context_len|max_seq|seq_len|seq_length|sequence_len|model_max_len")
CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_PATTERNS = (
    "sliding_window_pattern", "_sliding_window_pattern", "max_window_layers",
    "global_attn_every_n_layers",
)  # fmt: skip
# False there switches off what most models do.
_ON = re.compile(r"^(?:use_|is_)?(?:rope|rotary|causal)|neox|interleave")
# Keys of published files that their class never reads, by model type.
HARMLESS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "bloom": ("offset_alibi",),
        "gptj": ("rotary",),
        "modernbert": ("position_embedding_type",),
    }
)


def bears_on_position(name: str) -> bool:
    """Return whether a key bears on position, by its name."""
    return _BEARS.search(name) is not None and _ELSEWHERE.search(name) is None


def changes_nothing(name: str, record: Mapping[str, Any], read: set[str]) -> bool:
    """Return whether a key that was not read has a value that certainly changes nothing.

    record: the object that it stands in. read: the names that were read of it.
    """
    value = record[name]
    if value is None:
        return True
    if name == "use_sliding_window":
        # A class that does not read it has its window all the same, if it has one.
        has_none = "sliding_window" in record and record["sliding_window"] is None
        return value is False and (has_none or "sliding_window" not in read)
    if name in _PATTERNS and record.get("layer_types") is not None and "layer_types" in read:
        return True  # what that list was made from
    if name in ("sliding_window", "max_window_layers"):
        return record.get("use_sliding_window") is False and "sliding_window" not in read
    if name == "sliding_window_size" and record.get("sliding_window") is not None:
        return bool(value == record["sliding_window"])
    if "window" in name and value == -1:
        return True
    if _LENGTH.search(name):
        return any(record.get(one) is not None for one in CONTEXT if one in read)
    if name in ("rotary_scaling_factor", "rope_ratio"):
        return _is_one(value)
    if name == "num_kv_shared_layers":
        return bool(value == 0)
    if name == "use_mla":
        return value is ("kv_lora_rank" in read)
    return value is False and not _ON.search(name)


def block_key_changes_nothing(name: str, value: Any) -> bool:
    """Return whether a key of a rope block that was not read certainly changes nothing."""
    if name == "finetuned":  # of YaRN's authors: read by their "dynamic-yarn" alone
        return True
    return value is None or (name == "factor" and _is_one(value))


def _is_one(value: Any) -> bool:
    return value == 1 and value is not True


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
        self, names: str | Sequence[str], default: int | None, why: str, rule: fields.IntRange
    ) -> int:
        """Return a whole number, or the default with its reason noted; None makes the key required."""
        value: int = self._value(names, default, why, rule)
        return value

    def maybe_whole(self, names: str | Sequence[str], rule: fields.IntRange) -> int | None:
        """Return a whole number, or None where the key is absent or null."""
        found = self.find(names)
        return None if found is None else self.whole(found[0], None, "", rule)

    def real(
        self, names: str | Sequence[str], default: float | None, why: str, rule: fields.FloatRange
    ) -> float:
        """Return a number, or the default with its reason noted; None makes the key required."""
        return float(self._value(names, default, why, rule))

    def maybe_real(self, names: str | Sequence[str], rule: fields.FloatRange) -> float | None:
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

    def numbers(self, name: str, count: int, rule: fields.FloatRange) -> tuple[float, ...]:
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


Source = Mapping[str, Any] | str | bytes | bytearray | Path

# A text, or a bracket outside of texts. A text that is never closed runs to the end of the config: were it
# no match, the search would begin anew at each of its quotes and take time of the square of its length.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)
_DIGITS = 40  # of one number


def read_object(source: Source) -> dict[str, Any]:
    """Return the object that `source` is or holds, made of plain Python values.

    source: a mapping; bytes, which are JSON text and never a path; a text that begins with a brace or
    a bracket, which is JSON; or the path of a file of at most 1 MiB. Raises ConfigFileError.
    """
    if isinstance(source, Mapping):
        return _plain(source)
    if isinstance(source, bytes | bytearray):
        return _parsed(_decoded(bytes(source)))
    if isinstance(source, Path):
        return _parsed(_decoded(_content(source)))
    if not isinstance(source, str):
        raise ConfigFileError(
            "a config is a dict, JSON text, bytes or the path of a config.json, got "
            f"{type(source).__name__}."
        )
    text = source.removeprefix("\ufeff").lstrip()
    if text.startswith(("{", "[", '"')) or "\n" in text or not text:
        return _parsed(source)
    return _parsed(_decoded(_content(Path(source))))


def _content(path: Path) -> bytes:
    """Return the bytes of a regular file; its directory is never named in a message."""
    name = printable_name(path.name)
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise ConfigFileError(f"{name} is a directory; give the config.json in it.")
        if not stat.S_ISREG(found.st_mode):
            raise ConfigFileError(f"{name} is no regular file; give the path of a config.json.")
        with path.open("rb") as file:
            return file.read(limits.MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        raise ConfigFileError(
            f"there is no file {name}; give a dict, JSON text that begins with a brace, or the path "
            "of a config.json."
        ) from None
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        if isinstance(error, ConfigFileError):
            raise
        raise ConfigFileError(f"{name} cannot be read as a config.json.") from error


def _decoded(content: bytes) -> str:
    if len(content) > limits.MAX_CONFIG_BYTES:
        raise _too_long()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigFileError(
            f"the config is not UTF-8 text: byte {error.start:,} belongs to no letter."
        ) from None


def _too_long() -> ConfigFileError:
    return ConfigFileError(
        f"the config is longer than {limits.MAX_CONFIG_BYTES:,} bytes, the most that is read."
    )


def _parsed(text: str) -> dict[str, Any]:
    if len(text) > limits.MAX_CONFIG_BYTES:
        raise _too_long()
    text = text.removeprefix("\ufeff")
    _check_depth(text)
    try:
        found = json.loads(
            text,
            object_pairs_hook=_once,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except json.JSONDecodeError as error:
        raise ConfigFileError(
            f"the config is not JSON: {error.msg} in line {error.lineno}, column {error.colno}."
        ) from None
    if not isinstance(found, dict):
        raise ConfigFileError(
            f"the config must be one JSON object in braces, got a {_kind(found)}."
        )
    return found


def _check_depth(text: str) -> None:
    """Refuse what Python's own reader would go too deep for."""
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        mark = text[found.start()]
        depth += (mark in "[{") - (mark in "]}")
        if depth > limits.MAX_CONFIG_DEPTH:
            raise ConfigFileError(
                f"the config nests objects and lists more than {limits.MAX_CONFIG_DEPTH} deep."
            )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            name = printable_name(key)
            raise ConfigFileError(f"{name} stands twice in one object; a key may stand once.", name)
        found[key] = value
    return found


def _no_constant(word: str) -> None:
    raise ConfigFileError(f"the config holds {word}, which is no number of JSON.")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ConfigFileError(f"the config holds a number too large to keep: {shown(text)}.")
    return value


def _whole(text: str) -> int:
    if len(text.removeprefix("-")) > _DIGITS:
        raise ConfigFileError(f"the config holds a number of more than {_DIGITS} digits.")
    return int(text)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "number", float: "number", str: "text", list: "list"}
    return names.get(type(value), type(value).__name__)


def _plain(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy made of dicts, lists, texts and finite numbers alone."""
    left = limits.MAX_CONFIG_VALUES

    def copied(value: Any, key: str, depth: int) -> Any:
        nonlocal left
        left -= 1
        if depth > limits.MAX_CONFIG_DEPTH or left < 0:
            raise ConfigFileError(
                f"{key or 'the config'} is nested more than {limits.MAX_CONFIG_DEPTH} deep or holds "
                f"more than {limits.MAX_CONFIG_VALUES:,} values.",
                key,
            )
        if isinstance(value, Mapping):
            found = {}
            for name, inner in value.items():
                if type(name) is int:  # transformers' id2label; JSON writes such keys as text
                    name = str(name)
                if not isinstance(name, str):
                    raise ConfigFileError(
                        f"{key or 'the config'} has the key {shown(name)}; keys must be text.", key
                    )
                if name in found:
                    raise ConfigFileError(f"{name} stands twice in {key or 'the config'}.", name)
                found[name] = copied(inner, f"{key}.{printable_name(name)}".lstrip("."), depth + 1)
            return found
        if isinstance(value, list | tuple):
            return [copied(inner, key, depth + 1) for inner in value]
        if isinstance(value, float) and value - value != 0:
            raise ConfigFileError(f"{key} must be a finite number, got {value}.", key)
        if type(value) is int and abs(value) >= 10**_DIGITS:  # as of JSON text
            raise ConfigFileError(f"{key} is a number of more than {_DIGITS} digits.", key)
        if value is None or type(value) in (bool, int, float, str):
            return value
        return _simple(value, key)

    found: dict[str, Any] = copied(source, "", 0)
    return found


def _simple(value: object, key: str) -> Any:
    """Return what a member of an enumeration or a subclass of a plain type stands for."""
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    # A torch dtype or the like, as `to_dict` may leave it; no key that is read may hold it.
    return f"<{type(value).__name__}>" if key else value
