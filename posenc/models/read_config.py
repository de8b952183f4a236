"""Reading a model's config.json as its position encoding, and writing it as a token.

A token is "config-" and the unpadded base64url text of zlib-compressed JSON: the keys that were read,
and the assumed model type if there is one.
"""

import base64
import binascii
import dataclasses
import difflib
import functools
import json
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from posenc.errors import ConfigError, ConfigFileError, quoted
from posenc.models import bias_models
from posenc.models.config_json import ConfigSource, Keys, read_object, unusable
from posenc.models.families import FAMILIES
from posenc.models.learned_models import (
    LEARNED_FAMILIES,
    STACK_FAMILIES,
    read_learned_model,
    read_stacks,
)
from posenc.models.model_config import ModelConfig
from posenc.models.rope_models import read_gptj, read_roformer, read_rope_model
from posenc.models.step_models import read_step
from posenc.models.vision_models import VISION_FAMILIES, read_vision_model
from posenc.schemes.rope import RopeConfig
from posenc.text import count_of, joined, printable_name

Reader = Callable[[str, Keys], ModelConfig]


def _falcon(model_type: str, keys: Keys) -> ModelConfig:
    has_bias = keys.flag("alibi", False)
    model = (bias_models.read_falcon_alibi if has_bias else read_rope_model)(model_type, keys)
    kind = model.main
    if kind.kv_heads == kind.heads or not keys.flag("new_decoder_architecture", False):
        return model
    copies = 2 * kind.heads * kind.head_dim
    note = (
        f"The cache is counted with its {count_of(kind.kv_heads, 'head')} of keys and values, as servers "
        f"keep them; that of transformers has a copy for every query head, {copies:,} numbers per token "
        "and layer."
    )
    kinds = tuple(
        dataclasses.replace(each, notes=(*each.notes, note)) for each in model.layer_kinds
    )
    return dataclasses.replace(model, layer_kinds=kinds)


READERS: Mapping[str, Reader] = {
    **dict.fromkeys(FAMILIES, read_rope_model),
    **dict.fromkeys(LEARNED_FAMILIES, read_learned_model),
    **dict.fromkeys(STACK_FAMILIES, read_stacks),
    **dict.fromkeys(VISION_FAMILIES, read_vision_model),
    "bloom": bias_models.read_bloom,
    "mpt": bias_models.read_mpt,
    "falcon": _falcon,
    "codegen": read_gptj,
    "gptj": read_gptj,
    "roformer": read_roformer,
    "step3p5": read_step,
    **dict.fromkeys(bias_models.T5_FAMILIES, bias_models.read_t5),
}
TYPES = Path(__file__).with_name("model_types.json")  # written from the source of transformers
# Why a type is not read, by what its class does with position.
_REASONS = {
    "text_part": "it holds a text model, whose config is text_config, which is missing",
    "parts": "it is made of several models, of which no text_config is its text model: give "
    "the config of one of them, with its own model_type, as a file",
    "rope": "its class has RoPE, and how it rotates is not established",
    "rope_part": "its class rotates features, but it is no text model, and its positions are not read",
    "image": "its positions are those of patches or pixels of an image, not of tokens of a text",
    "none": "its class has no attention, and no position encoding that acts on it",
    "buckets": "it adds a bias by bucket of distance, as T5 does, and what else it does is not read",
    "relative": "it has a relative encoding of its own, such as Transformer-XL's or DeBERTa's, not RoPE",
    "added": "it adds learned or fixed position vectors to the tokens and has no RoPE",
    "no_rope": "its class has no RoPE, and what it does with position is not read",
    "audio": "it is a model of speech or audio, whose positions are not read",
}
# Keys of the encoder of a model of images and text.
_OF_IMAGES = {"patch_size", "embed_dim", "image_size", "spatial_merge_size", "temporal_patch_size"}
# A model of pictures and text, by the type of its text model where that is not written.
_TEXT_TYPES = {
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen4_exp": "qwen4_exp_text",
    "minimax_m3_vl": "minimax_m3_vl_text",
    "dots3_note": "dots3_note_text",
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
}
# Types whose layers cannot be described here, as runs of their classes show, and why.
_NOT_READ = {
    "mistral_large4_text": "is not read, because its frequencies are multiplied by learned numbers, which "
    "stand in its checkpoint",
    "moshi": "is not read, because its cache keeps sliding_window tokens and its mask has no window, so "
    "that what a token sees depends on how the text is fed",
}
# Keys of published files that their class never reads.
_NO_EFFECT = {
    "bloom": "offset_alibi", "gptj": "rotary", "modernbert": "position_embedding_type",
    "mimo_v2_flash": "attention_chunk_size",
    "doge": "keep_window_size",  # a note of its layers says what it does
}  # fmt: skip


@functools.cache
def _kinds() -> dict[str, str]:
    """Return what the class of each type that is not read does with position."""
    kinds: dict[str, str] = json.loads(TYPES.read_text("utf-8"))
    return kinds


def model_types() -> tuple[str, ...]:
    """Return the known model types."""
    return tuple(sorted({*READERS, *_TEXT_TYPES}))


def read_config(source: ConfigSource, assume: str | None = None) -> ModelConfig:
    """Return the position encoding of a Hugging Face config.json, per kind of layer.

    source: a mapping, an object whose to_dict returns one (a config of transformers), JSON text or bytes,
        or the path of a config.json; at most 1 MiB. Both generations of rope keys are read, and
        `text_config` where the model is nested. Absent keys take the defaults of transformers 5.23, which
        the result's `assumed` lists.
    assume: a model type, such as llama, as which an unknown `model_type` is read. Keys that bear on
        position and cannot be read are then ignored; the result's `assumption` says so.
    Raises ConfigFileError where the config is unknown, contradictory or out of range.
    """
    return read_keys(read_object(source), assume)[0]


def read_keys(record: dict[str, Any], assume: str | None = None) -> tuple[ModelConfig, Keys]:
    """Return the model of a config, and its keys after they were read."""
    if isinstance(assume, str):
        assume = _TEXT_TYPES.get(assume, assume)
    if assume is not None and not (isinstance(assume, str) and assume in READERS):
        raise ConfigFileError(
            f"assume must be a model type that is known, such as {_EXAMPLES}, got {quoted(assume)}."
        )
    top = Keys(record)
    outer = top.text("model_type")
    keys = top.section("text_config") or top
    own = keys.text("model_type") or outer or ""
    known = _TEXT_TYPES.get(own, own)
    holds_text = keys is top and (_kinds().get(own) == "text_part" or own in _TEXT_TYPES)
    if holds_text and "vision_config" not in record and (of_image := _OF_IMAGES & {*record}):
        name = min(of_image)
        raise ConfigFileError(
            f'model_type "{own}" is of a model of images and text, but {name} is of its encoder of images '
            "alone: give the model_type of that encoder, or the whole file.",
            name,
        )
    if keys is top and _kinds().get(own) == "text_part" and "hidden_size" not in record:
        reason = _REASONS["text_part"]
        reason = reason.replace("missing", "empty") if "text_config" in record else reason
        raise ConfigFileError(f'model_type "{own}" is not read: {reason}.', "text_config")
    if known not in READERS and assume is None:
        key = keys.named("model_type")
        problem = f"{key} is missing: add it, such as llama, qwen3, gemma3_text, bert or bloom"
        if own:
            problem = f'{key} "{_short(own)}" {_not_read(own)}'
        elif "hidden_size" not in keys.record:
            raise ConfigFileError(f"{problem}.", key)
        if _kinds().get(own, "rope") != "rope" or not _reads_as_llama(record):
            raise ConfigFileError(f"{problem}.", key)
        raise _refusal(problem, key, "llama", "read it as a Llama model")
    read_as = known if known in READERS else str(assume)
    unknown = keys is not top and outer is not None and _kinds().get(outer) != "text_part"
    wrapper = outer if unknown and outer else ""
    if wrapper and assume is None:
        raise _refusal(
            f'model_type "{_short(wrapper)}" is not known as one that holds a text model, and nothing '
            "is guessed",
            "model_type", read_as, f'read its text_config as model_type "{read_as}"',
        )  # fmt: skip
    # No class is known whose defaults an unknown type takes, so every size is required.
    read_as_class = "" if read_as == "llama" and known != "llama" else read_as
    try:
        model = READERS[read_as](read_as_class, keys)
    except ConfigError as error:  # each number is within its limits, together no scheme takes them
        raise unusable(keys.path or "the config", error) from None
    keys.read.add(_NO_EFFECT.get(read_as, ""))
    _mark_agreeing_keys(keys, model)
    if keys is not top:  # some programs write the text model's keys twice
        duplicates = [name for name in top.record if top.record[name] == keys.record.get(name)]
        top.read.update(filter(top.is_unread, duplicates))
    unread = top.unread()
    if unread and assume is None:
        bear, are, them = ("bear", "are", "them") if len(unread) > 1 else ("bears", "is", "it")
        raise _refusal(
            f'{_listed(unread)} {bear} on position and {are} not read for model_type "{_short(own)}"',
            unread[0], read_as, f"read the file without {them}",
        )  # fmt: skip
    assumed_type = read_as if known not in READERS else ""
    model = dataclasses.replace(
        model,
        model_type=known,
        read_as=read_as_class,
        assumption=_assumption(own, assumed_type, wrapper, unread),
        assumed=tuple(keys.assumed),
        ignored=unread,
        section=keys.path,
    )
    return model, top


def _reads_as_llama(record: dict[str, Any]) -> bool:
    """Return whether a config has what is read on request, so that the request is no dead end."""
    try:
        read_keys(record, "llama")
    except ConfigFileError:
        return False
    return True


def _not_read(model_type: str) -> str:
    """Return that a type is not read, and why where that is known."""
    if reason := _NOT_READ.get(model_type):
        return reason
    if reason := _REASONS.get(_kinds().get(model_type, "")):
        return f"is not read: {reason}"
    near = difflib.get_close_matches(
        model_type[:_MAX_NAME_LENGTH].lower().replace("-", "_"), model_types(), n=1, cutoff=0.85
    )
    also = f" (the nearest known type is {near[0]})" if near else ""
    return f"is not known, and nothing is guessed{also}"


def _mark_agreeing_keys(keys: Keys, model: ModelConfig) -> None:
    """Mark keys as read whose values agree with the model."""
    ropes = [kind.scheme for kind in model.layer_kinds if isinstance(kind.scheme, RopeConfig)]
    agreeing: dict[str, tuple[object, ...]] = {"num_key_value_heads": (model.main.kv_heads,)}
    if model.main.cache_width and model.main.name != "decoder":
        agreeing["is_causal"] = (True,)
    if ropes:
        interleaved = any(scheme.layout == "interleaved" for scheme in ropes)
        gptj = ("rope_gptj",) if interleaved else ()
        agreeing["position_embedding_type"] = ("rope", "rotary", *gptj)
        first = next(kind for kind in model.layer_kinds if 0 in kind.layers)
        if first.window is not None:
            agreeing["order_of_interleaved_layers"] = ("local_attn_first",)
        agreeing |= dict.fromkeys(("rope_interleaved", "interleaved"), (interleaved,))
        agreeing |= dict.fromkeys(
            ("rotary_dim", "attn_rotary_emb", "qk_rope_head_dim"), (ropes[0].rotary_dim,)
        )
        agreeing["use_rotary_pos_emb"] = (True,)
        agreeing["rotary_emb_fraction"] = (ropes[0].partial_rotary_factor,)
        # Also where the class reads them from its rope block alone.
        if len(bases := {scheme.base for scheme in ropes}) == 1:
            (theta,) = bases
            agreeing |= dict.fromkeys(("rotary_emb_base", "rope_theta"), (theta, int(theta)))
        if len(shares := {scheme.partial_rotary_factor for scheme in ropes}) == 1:
            (share,) = shares
            alike = (share, int(share)) if share == 1 else (share,)
            agreeing |= dict.fromkeys(("rotary_pct", "partial_rotary_factor"), alike)
    windowed = [kind for kind in model.layer_kinds if kind.window and kind.kv_heads]
    if (
        windowed and keys.record.get("model_type") == "mimo_v2_flash"
    ):  # its class sets all of them so
        kind, main = windowed[0], model.main
        own = {
            "swa_num_attention_heads": kind.heads,
            "swa_num_key_value_heads": kind.kv_heads,
            "swa_head_dim": kind.head_dim,
            "add_swa_attention_sink_bias": True,
            "swa_v_head_dim": kind.cache_width // kind.kv_heads - kind.head_dim,
            "hybrid_layer_pattern": [int(index in kind.layers) for index in range(model.layers)],
        }
        agreeing |= {name: (value,) for name, value in own.items()}
        for of, base in (("swa_rope_theta", kind.scheme), ("rope_theta", main.scheme)):
            if isinstance(base, RopeConfig):
                agreeing |= {of: (base.base, int(base.base))}
                agreeing |= {"partial_rotary_factor": (base.partial_rotary_factor,)}
    for name, values in agreeing.items():
        value = keys.record.get(name)
        if any(value == agreed and type(value) is type(agreed) for agreed in values):
            keys.read.add(name)


def _refusal(problem: str, key: str, assume: str, effect: str) -> ConfigFileError:
    message = f'{problem}; to {effect}, use --assume {assume} (in Python, assume="{assume}").'
    return ConfigFileError(message, key, assume, f"{problem}.")


def _assumption(own: str, assumed_type: str, wrapper: str, unread: tuple[str, ...]) -> str:
    """Return what was assumed on request, as a sentence, or ""."""
    without = f" Not read: {_listed(unread)}." if unread else ""
    if assumed_type:
        why = f'model_type "{_short(own)}" is not known'
        why = why if own else "the config names no model_type"
        kind = "a Llama model" if assumed_type == "llama" else f'model_type "{assumed_type}"'
        return (
            f"Read as {kind} on request: {why}, so that layout, layers, windows and cache may "
            f"differ from the real ones.{without}"
        )
    if wrapper:
        return (
            f'Read by its text_config, of model_type "{_short(own)}", on request: model_type '
            f'"{_short(wrapper)}" is not known, so that what a token sees and the cache may differ '
            f"from the real ones.{without}"
        )
    if not unread:
        return ""
    they = "they" if len(unread) > 1 else "it"
    return f"Read without {_listed(unread)} on request: what {they} would change is not in these numbers."


def _listed(names: tuple[str, ...]) -> str:
    parts = [name[-_MAX_NAME_LENGTH:] for name in names[:_MAX_NAMES]]
    if len(names) > _MAX_NAMES:
        parts.append(f"{len(names) - _MAX_NAMES:,} more")
    return joined(parts, "and")


def _short(model_type: str) -> str:
    return printable_name(model_type)[:_MAX_NAME_LENGTH]


_EXAMPLES = "llama, qwen3, gemma3_text, bert, bloom"
_MAX_NAMES = 5  # keys that a sentence lists
_MAX_NAME_LENGTH = 60  # characters

MAX_TOKEN = 4_096  # characters
MAX_TOKEN_CONTENT = 65_536  # bytes that a token may unpack to
PREFIX = "config-"
ASSUMED = "posenc_assume"  # key of the assumed model type in a token
PATTERN = rf"{PREFIX}[A-Za-z0-9_-]{{1,{MAX_TOKEN - len(PREFIX)}}}"


def config_token(source: ConfigSource, assume: str | None = None) -> str:
    """Return a config.json as a token, for `read_config_token`.

    source, assume: as of `read_config`. Raises ConfigFileError, also for too many keys.
    """
    model, keys = read_keys(read_object(source), assume)
    content = read_part(keys)
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
    record = read_object(_unpack(token))
    assume = Keys(record).text(ASSUMED)
    record.pop(ASSUMED, None)
    return read_keys(record, assume)[0]


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


def read_part(keys: Keys) -> dict[str, Any]:
    """Return the keys that were read, and placeholders for unread ones that bear on position."""
    part: dict[str, Any] = {}
    for name, value in keys.record.items():
        if name in keys.sections:
            part[name] = read_part(keys.sections[name]) or {"": None}  # {} would be no section
        elif name in keys.read:
            part[name] = value
        elif value is not None and keys.is_unread(name):
            # The type of a value, or a number, can decide whether it counts as read.
            part[name] = value if isinstance(value, int | float) else type(value)()
    return part
