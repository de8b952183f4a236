"""A config.json as a checked object: one JSON object of finite numbers, each key once."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from posenc import limits
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
