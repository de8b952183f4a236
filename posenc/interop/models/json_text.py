"""A config.json as Python values, strictly: one object, no key twice, no NaN, nothing without bound."""

import json
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc import limits
from posenc.errors import ConfigFileError, shown
from posenc.interop.shown_name import printable_name

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
