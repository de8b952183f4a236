"""`read_config`: a model's config.json, of either generation, as its position encoding.

A model's config as one word of a link: the keys that bear on position, packed, and read back.

The word is "config-" and the base64url text (RFC 4648, section 5, without padding) of the zlib stream
(RFC 1950, whose checksum tells a damaged link) of JSON. It stands for itself: whoever has it reads the
same model, and no key of the config but those that were read is in it. A config that is read on request
alone, by assuming a model type, carries that type, so that whoever opens the link is told.
"""

import base64
import binascii
import dataclasses
import json
import re
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from posenc.errors import ConfigFileError, shown
from posenc.models import bias_models
from posenc.models.config_json import Keys, Source, read_object
from posenc.models.families import FAMILIES
from posenc.models.learned_models import LEARNED_FAMILIES, read_learned_model
from posenc.models.model_config import ModelConfig
from posenc.models.rope_models import read_gptj, read_rope_model
from posenc.schemes.rope import RopeConfig
from posenc.text import listed, printable_name

Reader = Callable[[str, Keys], ModelConfig]


def _falcon(model_type: str, keys: Keys) -> ModelConfig:
    if keys.flag("alibi", False):
        return bias_models.read_falcon_alibi(model_type, keys)
    return read_rope_model(model_type, keys)


READERS: Mapping[str, Reader] = MappingProxyType(
    dict.fromkeys(FAMILIES, read_rope_model)
    | dict.fromkeys(LEARNED_FAMILIES, read_learned_model)
    | {
        "bloom": bias_models.read_bloom,
        "mpt": bias_models.read_mpt,
        "falcon": _falcon,
        "gptj": read_gptj,
        "t5": bias_models.read_t5,
        "mt5": bias_models.read_t5,
    }
)
# A model of pictures and text, by the type of its text model where that is not written.
_TEXT_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "gemma3": "gemma3_text",
        "gemma4": "gemma4_text",
        "qwen2_vl": "qwen2_vl_text",
        "qwen2_5_vl": "qwen2_5_vl_text",
        "RefinedWeb": "falcon",
        "RefinedWebModel": "falcon",
    }
)
# Models of several parts whose text model is what its own config says, as of transformers 5.23.
_WRAPPERS = (
    "gemma3", "gemma4", "qwen2_vl", "qwen2_5_vl", "idefics3", "internvl", "llava", "llava_next",
    "llava_onevision", "mistral3", "smolvlm",
)  # fmt: skip
# Keys of published files that their class never reads.
_NO_EFFECT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "bloom": ("offset_alibi",),
        "gptj": ("rotary",),
        "modernbert": ("position_embedding_type",),
    }
)


def model_types() -> tuple[str, ...]:
    """Return the model types that are known; others are refused, or read as one of these on request."""
    return tuple(sorted({*READERS, *_TEXT_TYPES}))


def read_config(source: Source, assume: str | None = None) -> ModelConfig:
    """Read what a Hugging Face config.json says of position, per kind of layer.

    source: a mapping, JSON text, bytes (always JSON), or the path of a config.json of at most 1 MiB. Both
    generations of rope keys are read, as transformers 5.23 reads them, and `text_config` where the
    model is nested. Keys that are absent take transformers' default, and the result's `assumed` says
    so. Raises ConfigFileError, which names the key, what it holds and what is accepted, where the config
    is unknown, contradictory or out of range.

    assume: a model type, such as llama, as which an unknown `model_type` is read instead of being
    refused. Keys that bear on position and cannot be read are then left out, of a known type, too. The
    result's `assumption` says what was assumed. A type that is known is always read as itself.
    """
    return read_keys(read_object(source), assume)[0]


def read_keys(record: dict[str, Any], assume: str | None = None) -> tuple[ModelConfig, Keys]:
    """Return what a config's object says, and its keys, which know by now what was read of them."""
    if isinstance(assume, str):
        assume = _TEXT_TYPES.get(assume, assume)
    if assume is not None and not (isinstance(assume, str) and assume in READERS):
        raise ConfigFileError(
            f"assume must be a model type that is known, such as {_examples()}, got {shown(assume)}."
        )
    top = Keys(record)
    outer = top.text("model_type")
    keys = top.section("text_config") or top
    own_type = keys.text("model_type") or outer
    if own_type is None and assume is None:
        if "hidden_size" in keys.record:
            key = keys.named("model_type")
            problem = f"{key} is missing, and nothing is guessed"
            raise _refusal(problem, key, "llama", "read it as a Llama model")
        raise keys.error("model_type", f"is missing; it must be one such as {_examples()}")
    own_type = own_type or ""
    known = _TEXT_TYPES.get(own_type, own_type)
    if known not in READERS and assume is None:
        key = keys.named("model_type")
        raise _refusal(
            f'{key} "{_shown_type(own_type)}" is not known, and nothing is guessed',
            key, "llama", "read it as a Llama model",
        )  # fmt: skip
    read_as = known if known in READERS else str(assume)
    around = "" if keys is top or outer is None or outer in _WRAPPERS else outer
    if around and assume is None:
        raise _refusal(
            f'model_type "{_shown_type(around)}" is not known as one that holds a text model, and nothing '
            "is guessed",
            "model_type", read_as, f'read its text_config as model_type "{read_as}"',
        )  # fmt: skip
    # Of an unknown type every size must be there: no class is known to take defaults from.
    by_keys_alone = read_as == "llama" and known != "llama"
    found = READERS[read_as]("" if by_keys_alone else read_as, keys)
    keys.read.update(_NO_EFFECT.get(read_as, ()))
    _count_agreeing(keys, found)
    if keys is not top:  # some programs write the text model's keys twice
        twice = [one for one in top.record if top.record[one] == keys.record.get(one)]
        top.read.update(one for one in twice if top.is_unread(one))
    unread = top.unread()
    if unread and assume is None:
        plural = len(unread) > 1
        raise _refusal(
            f"{_listed(unread)} {'bear' if plural else 'bears'} on position and "
            f'{"are" if plural else "is"} not read for model_type "{_shown_type(own_type)}"',
            unread[0], read_as, f"read the file without {'them' if plural else 'it'}",
        )  # fmt: skip
    found = dataclasses.replace(
        found,
        model_type=known,
        read_as="" if by_keys_alone else read_as,
        assumption=_assumption(own_type, read_as if known not in READERS else "", around, unread),
        assumed=tuple(keys.assumed),
        ignored=unread,
        section=keys.path,
    )
    return found, top


def _count_agreeing(keys: Keys, model: ModelConfig) -> None:
    """Count keys as read that say of a model what it does as it was read."""
    ropes = [kind.scheme for kind in model.layer_kinds if isinstance(kind.scheme, RopeConfig)]
    says: dict[str, tuple[object, ...]] = {"num_key_value_heads": (model.kv_heads,)}
    if all(kind.cache_width for kind in model.layer_kinds):
        says["is_causal"] = (True,)
    if ropes:
        says["position_embedding_type"] = ("rope", "rotary")
        neighbours = any(scheme.layout == "interleaved" for scheme in ropes)
        says |= dict.fromkeys(("rope_interleaved", "interleaved"), (neighbours,))
    for name, values in says.items():
        value = keys.record.get(name)
        if any(value == one and type(value) is type(one) for one in values):
            keys.find(name)


def _refusal(problem: str, key: str, assume: str, effect: str) -> ConfigFileError:
    """Return the error for a config that can be read all the same, on request."""
    said = f'{problem}; to {effect}, use --assume {assume} (in Python, assume="{assume}").'
    return ConfigFileError(said, key, assume, f"{problem}.")


def _assumption(own_type: str, assumed: str, around: str, unread: tuple[str, ...]) -> str:
    """Return the sentence on what a reading on request rests on, "" where it rests on nothing."""
    without = f" Not read: {_listed(unread)}." if unread else ""
    if assumed:
        unknown = f'model_type "{_shown_type(own_type)}" is not known' if own_type else (
            "the config names no model_type"
        )  # fmt: skip
        named = "a Llama model" if assumed == "llama" else f'model_type "{assumed}"'
        return (
            f"Read as {named} on request: {unknown}, so that layout, layers, windows and cache may "
            f"differ from the real ones.{without}"
        )
    if around:
        return (
            f'Read by its text_config, of model_type "{_shown_type(own_type)}", on request: model_type '
            f'"{_shown_type(around)}" is not known, so that what a token sees and the cache may differ '
            f"from the real ones.{without}"
        )
    if not unread:
        return ""
    return (
        f"Read without {_listed(unread)} on request: what {'they' if len(unread) > 1 else 'it'} would "
        "change is not in these numbers."
    )


def _listed(names: tuple[str, ...]) -> str:
    """Return names as a list in words, the first few of many."""
    found = [name[-_SHOWN:] for name in names[:_NAMED]]
    if len(names) > _NAMED:
        found.append(f"{len(names) - _NAMED:,} more")
    return listed(found, "and")


def _shown_type(own_type: str) -> str:
    return printable_name(own_type)[:_SHOWN]


def _examples() -> str:
    return ", ".join(("llama", "qwen3", "gemma3_text", "bert", "bloom"))


_NAMED = 5  # keys that a sentence names
_SHOWN = 60  # characters of a name of somebody else's


MAX_TOKEN = 4_096  # characters
MAX_TOKEN_CONTENT = 65_536  # bytes that a token may unpack to
PREFIX = "config-"
ASSUMED = "posenc_assume"  # beside the keys of a config, and never one of them
PATTERN = rf"{PREFIX}[A-Za-z0-9_-]{{1,{MAX_TOKEN - len(PREFIX)}}}"


def config_token(source: Source, assume: str | None = None) -> str:
    """Return the word of a config.json, for `read_config_token`.

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
        if len(word) > MAX_TOKEN or len(content) > MAX_TOKEN_CONTENT:
            raise ConfigFileError(
                f"the keys of this config that bear on position are too many for a link: packed they have "
                f"{len(word):,} characters, and {MAX_TOKEN:,} is the most."
            )
        if read_config_token(word) == model:
            return word
    raise ConfigFileError("the keys of this config that bear on position cannot be put in a link.")


def read_config_token(word: str) -> ModelConfig:
    """Return the model that a word of `config_token` stands for. Raises ConfigFileError."""
    record = read_object(_unpacked(word))
    assume = Keys(record).text(ASSUMED)
    record.pop(ASSUMED, None)
    return read_keys(record, assume)[0]


def _unpacked(word: str) -> bytes:
    """Return the JSON text in a word, never more than MAX_MODEL_TEXT bytes of it."""
    if not re.fullmatch(PATTERN, word, re.ASCII):
        raise ConfigFileError(
            f"the word of a config is {PREFIX} and at most {MAX_TOKEN:,} characters in all, "
            "letters, digits, - and _."
        )
    packed = word.removeprefix(PREFIX)
    reader = zlib.decompressobj()
    try:
        content = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        text = reader.decompress(content, MAX_TOKEN_CONTENT + 1)
    except (binascii.Error, zlib.error):
        raise ConfigFileError("the word of a config cannot be unpacked; was it cut?") from None
    if len(text) > MAX_TOKEN_CONTENT:
        raise ConfigFileError(
            f"the word of a config unpacks to more than {MAX_TOKEN_CONTENT:,} bytes."
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
        elif value is not None and keys.is_unread(name):
            # What kind of value it is, or which number, can decide whether it counts as read.
            kept[name] = value if isinstance(value, int | float) else type(value)()
    return kept
