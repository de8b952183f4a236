"""A model's config as one word of a link: the keys that bear on position, packed, and read back.

The word is "config-" and the base64url text (RFC 4648, section 5, without padding) of the zlib stream
(RFC 1950, whose checksum tells a damaged link) of JSON. It stands for itself: whoever has it reads the
same model, and no key of the config but those that were read is in it. A config that is read on request
alone, by assuming a model type, carries that type, so that whoever opens the link is told.
"""

import base64
import binascii
import json
import re
import zlib
from typing import Any

from posenc import limits
from posenc.errors import ConfigFileError
from posenc.interop.models.config_reader import read_keys
from posenc.interop.models.json_text import Source, read_object
from posenc.interop.models.keys import Keys
from posenc.interop.models.model_config import ModelConfig

PREFIX = "config-"
ASSUMED = "posenc_assume"  # beside the keys of a config, and never one of them
PATTERN = rf"{PREFIX}[A-Za-z0-9_-]{{1,{limits.MAX_MODEL_WORD - len(PREFIX)}}}"


def config_word(source: Source, assume: str | None = None) -> str:
    """Return the word of a config.json, for `read_config_word`.

    source, assume: as of `read_config`. Raises ConfigFileError where `read_config` does, and where what
    bears on position is too much for a link.
    """
    model, keys = read_keys(read_object(source), assume)
    kept = _kept(keys)
    if model.assumption:
        kept[ASSUMED] = model.read_as or "llama"
    # One order of keys for one config; but of some keys (which block is first) the order is read.
    for ordered in (True, False):
        text = json.dumps(kept, sort_keys=ordered, separators=(",", ":"), ensure_ascii=False)
        content = text.encode("utf-8", "surrogatepass")
        packed = zlib.compress(content, level=9)
        word = PREFIX + base64.urlsafe_b64encode(packed).rstrip(b"=").decode("ascii")
        if len(word) > limits.MAX_MODEL_WORD or len(content) > limits.MAX_MODEL_TEXT:
            raise ConfigFileError(
                f"the keys of this config that bear on position are too many for a link: packed they have "
                f"{len(word):,} characters, and {limits.MAX_MODEL_WORD:,} is the most."
            )
        if read_config_word(word) == model:
            return word
    raise ConfigFileError("the keys of this config that bear on position cannot be put in a link.")


def read_config_word(word: str) -> ModelConfig:
    """Return the model that a word of `config_word` stands for. Raises ConfigFileError."""
    record = read_object(_unpacked(word))
    assume = Keys(record).text(ASSUMED)
    record.pop(ASSUMED, None)
    return read_keys(record, assume)[0]


def _unpacked(word: str) -> bytes:
    """Return the JSON text in a word, never more than MAX_MODEL_TEXT bytes of it."""
    if not re.fullmatch(PATTERN, word, re.ASCII):
        raise ConfigFileError(
            f"the word of a config is {PREFIX} and at most {limits.MAX_MODEL_WORD:,} characters in all, "
            "letters, digits, - and _."
        )
    packed = word.removeprefix(PREFIX)
    reader = zlib.decompressobj()
    try:
        content = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        text = reader.decompress(content, limits.MAX_MODEL_TEXT + 1)
    except (binascii.Error, zlib.error):
        raise ConfigFileError("the word of a config cannot be unpacked; was it cut?") from None
    if len(text) > limits.MAX_MODEL_TEXT:
        raise ConfigFileError(
            f"the word of a config unpacks to more than {limits.MAX_MODEL_TEXT:,} bytes."
        )
    if not reader.eof or reader.unused_data:
        raise ConfigFileError("the word of a config cannot be unpacked; was it cut?")
    return text


def _kept(keys: Keys) -> dict[str, Any]:
    """Return the keys that were read, as they stand; of those only noticed no texts, lists or objects.

    null stays: it may mean another thing than an absent key.
    """
    kept: dict[str, Any] = {}
    for name, value in keys.record.items():
        if name in keys.sections:
            kept[name] = _kept(keys.sections[name]) or {"": None}  # an empty one is no section
        elif name in keys.read:
            kept[name] = value
        elif value is not None and keys.speaks(name):
            # What kind of value it is, or which number, can decide whether it counts as read.
            kept[name] = value if isinstance(value, int | float) else type(value)()
    return kept
