"""A config.json as a token for links, and back.

A token is "config-" and the unpadded base64url text of zlib-compressed JSON: the keys that were read,
and the assumed model type if there is one.
"""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Collection, Mapping
from typing import Any

from posenc.errors import ConfigFileError
from posenc.models.config_json import ConfigSource, read_object
from posenc.models.model_config import ModelConfig
from posenc.models.read_config import Reading, read_record
from posenc.models.record import TEXT, Record
from posenc.models.rope_types import FACTOR_LISTS, SECTIONS
from posenc.text import printable_name

MAX_TOKEN = 4_096  # characters
MAX_TOKEN_CONTENT = 65_536  # bytes that a token may unpack to
PREFIX = "config-"
ASSUMED = "posenc_assume"  # key of the assumed model type in a token
PATTERN = rf"{PREFIX}[A-Za-z0-9_-]{{1,{MAX_TOKEN - len(PREFIX)}}}"


def config_token(source: ConfigSource, assume: str | None = None) -> str:
    """Return a config.json as a token, for `read_config_token`.

    source, assume: as of `read_config`. Raises ConfigFileError, also for too many keys.
    """
    record = read_object(source)
    reading = read_record(record, assume)
    model, content = reading.model, kept_part(record, reading)
    if model.assumption:
        content[ASSUMED] = model.read_as or "llama"
    # Sorted keys give one token per config, but the order of some keys (which block is first) counts.
    for sort_keys in (True, False):
        text = json.dumps(content, sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False)
        encoded = text.encode("utf-8", "surrogatepass")
        packed = zlib.compress(encoded, level=9)
        token = PREFIX + base64.urlsafe_b64encode(packed).rstrip(b"=").decode("ascii")
        if len(token) > MAX_TOKEN or len(encoded) > MAX_TOKEN_CONTENT:
            raise ConfigFileError(
                f"the keys of this config that bear on position are too many for a token: packed they "
                f"have {len(token):,} characters, and {MAX_TOKEN:,} is the most."
            )
        if read_config_token(token) == model:
            return token
    raise ConfigFileError(
        "the keys of this config that bear on position cannot be packed as a token."
    )


def read_config_token(token: str) -> ModelConfig:
    """Return the model of a token of `config_token`. Raises ConfigFileError."""
    return read_record(*token_content(token)).model


def token_content(token: str) -> tuple[dict[str, Any], str | None]:
    """Return the keys that a token holds, and the model type that was assumed, None for its own.

    Raises ConfigFileError.
    """
    record = read_object(_unpack(token))
    assume: str | None = Record(record).get(ASSUMED, TEXT)
    record.pop(ASSUMED, None)
    return record, assume


def _unpack(token: str) -> bytes:
    if not isinstance(token, str) or not re.fullmatch(PATTERN, token, re.ASCII):
        raise ConfigFileError(
            f"the token of a config is {PREFIX} and at most {MAX_TOKEN:,} characters in all, "
            "letters, digits, - and _."
        )
    packed = token.removeprefix(PREFIX)
    reader = zlib.decompressobj()
    try:
        content = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        text = reader.decompress(content, MAX_TOKEN_CONTENT + 1)
    except (binascii.Error, zlib.error):
        raise ConfigFileError("the token of a config cannot be unpacked; was it cut?") from None
    if len(text) > MAX_TOKEN_CONTENT:
        raise ConfigFileError(
            f"the token of a config unpacks to more than {MAX_TOKEN_CONTENT:,} bytes."
        )
    if not reader.eof or reader.unused_data:
        raise ConfigFileError("the token of a config cannot be unpacked; was it cut?")
    return text


def kept_part(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """Return the keys of a config that are read, and placeholders of those that bear on position.

    A name of the config's own programs, or another text that is not read, is never kept.
    """
    model = reading.model
    part = _kept(reading.content, {*reading.read, "model_type"}, reading.unread, model.section)
    if not model.section:
        return part
    outer = {name: value for name, value in record.items() if name != model.section}
    return _kept(outer, {"model_type"}, reading.unread, "") | {model.section: part}


# Keys of nested objects whose text or list is read.
_NESTED = {"rope_type", "type", SECTIONS, "xdrope_section", *FACTOR_LISTS}


def _kept(
    content: Mapping[str, Any], read: Collection[str], unread: Collection[str], path: str
) -> dict[str, Any]:
    """Return what is kept of one object. unread: with their paths. path: its key from the top."""
    nested = _NESTED | {name.rpartition(".")[2] for name in read if "." in name}
    part: dict[str, Any] = {}
    for name, value in content.items():
        if name in read:
            part[name] = _nested(value, nested) if isinstance(value, dict) else value
        elif printable_name(f"{path}.{name}" if path else name) in unread:
            part[name] = _placeholder(value)
    return part


def _nested(content: Mapping[str, Any], kept: Collection[str]) -> dict[str, Any]:
    """Return a nested object with its numbers, and with those of its texts and lists that are read."""
    return {
        name: _nested(value, kept)
        if isinstance(value, dict)
        else value
        if name in kept
        else _placeholder(value)
        for name, value in content.items()
    }


def _placeholder(value: Any) -> Any:
    """Return an empty value of the same type; a number, true, false or null as it is."""
    return type(value)() if isinstance(value, str | list | dict) else value
