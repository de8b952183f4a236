"""Reading a model's config.json as its position encoding, by the row of its model type."""

import dataclasses
import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from posenc.errors import ConfigError, ConfigFileError, quoted
from posenc.models import sentences
from posenc.models.config_json import ConfigSource, read_object, unusable
from posenc.models.family import (
    FAMILIES,
    TEXT_TYPES,
    UNKNOWN,
    kind_of,
    model_types,
    reason_of,
    row_of,
    stacks_of,
)
from posenc.models.layer_facts import LayerFacts
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.models.record import TEXT, Record
from posenc.models.rope_numbers import NEW, OLD
from posenc.models.rope_types import TRAINED
from posenc.models.stack import Layers, Stack
from posenc.models.unread import unread_keys
from posenc.schemes.query_growth import Growth
from posenc.text import printable_name

# Keys of the encoder of a model of images and text.
_OF_IMAGES = {"patch_size", "embed_dim", "image_size", "spatial_merge_size", "temporal_patch_size"}
_EXAMPLES = "llama, qwen3, gemma3_text, bert, bloom"


def read_config(source: ConfigSource, assume: str | None = None) -> ModelConfig:
    """Return the position encoding of a Hugging Face config.json, per kind of layer.

    source: a mapping, an object whose to_dict returns one (a config of transformers), JSON text or
        bytes, or the path of a config.json; at most 1 MiB. Both generations of rope keys are read,
        and `text_config` where the model is nested. Absent keys take the defaults of transformers
        5.23, which the result's `assumed` lists.
    assume: a model type, such as llama, as which a config is read whose own type is unknown or leaves
        keys unread that bear on position. Such keys that are left all the same are then ignored; the
        result's `assumption` says so.
    Raises ConfigFileError where the config is unknown, contradictory or out of range.
    """
    return read_record(read_object(source), assume).model


@dataclass(frozen=True)
class Reading:
    """A config that was read.

    content: the object of its text model. read: the keys of it that the class reads, those of nested
    objects with dots. unread: those that bear on position and are not read. Where an assumed type
    takes the place of the config's own, both are of the two types: without the own type's, what is
    kept of the config would read as that type.
    """

    model: ModelConfig
    content: Mapping[str, Any]
    read: Collection[str]
    unread: Collection[str]


def read_record(record: dict[str, Any], assume: str | None = None) -> Reading:
    """Return the model of a config with the keys that its class reads. See `read_config`."""
    if isinstance(assume, str):
        assume = TEXT_TYPES.get(assume, assume)
    if assume is not None and not (isinstance(assume, str) and assume in FAMILIES):
        raise ConfigFileError(
            f"assume must be a model type that is known, such as {_EXAMPLES}, got {quoted(assume)}."
        )
    top = Record(record)
    outer = _type(top)
    section = top.section("text_config")
    text = section if section is not None and section.content else top
    own = _type(text) or outer
    known = TEXT_TYPES.get(own, own)
    _check_parts(record, text, own)
    if known not in FAMILIES and assume is None:
        raise _unknown_type(record, text, own)
    read_as = known if known in FAMILIES else str(assume)
    is_wrapped = text is not top and bool(outer) and not _holds_text(outer)
    if is_wrapped and assume is None:
        raise sentences.refusal(
            f'model_type "{_short(outer)}" is not known as one that holds a text model, and '
            "nothing is guessed",
            "model_type", read_as, f'read its text_config as model_type "{read_as}"',
        )  # fmt: skip
    reading = _read_as(read_as, known, record, text)
    if reading.model.ignored and assume is None:
        raise sentences.unread(reading.model.ignored, _short(own), read_as)
    if reading.model.ignored and assume and assume != read_as:
        read_as, own_reading = assume, reading
        reading = _read_as(read_as, known, record, text)
        reading = dataclasses.replace(
            reading,
            read={*own_reading.read, *reading.read},
            unread={*own_reading.unread, *reading.unread},
        )
    assumption = sentences.assumption(
        _short(own),
        "" if read_as == known else read_as,
        _short(outer) if is_wrapped else "",
        reading.model.ignored,
        is_known=known in FAMILIES,
    )
    return dataclasses.replace(
        reading, model=dataclasses.replace(reading.model, assumption=assumption)
    )


def _read_as(read_as: str, known: str, record: Mapping[str, Any], text: Record) -> Reading:
    """Return the text model of a config by the row of a type. known: its own type."""
    # No class is known whose defaults an unknown type takes, so every size is required.
    name = UNKNOWN if read_as == "llama" and known != "llama" else read_as
    try:
        model, read = _read(name, text.content, text.path)
    except ConfigError as error:  # each number is within its limits, together no scheme takes them
        raise unusable(text.path or "the config", error) from None
    unread = [*unread_keys(text.content, read, model, row_of(name), text.path), *model.ignored]
    if text.path:  # some programs write the text model's keys twice
        twice = {key for key, value in record.items() if value == text.content.get(key)}
        unread += unread_keys(record, {*twice, "text_config"}, model, {}, "")
    model = dataclasses.replace(
        model,
        model_type=known,
        read_as="" if name == UNKNOWN else name,
        ignored=tuple(unread),
        section=text.path,
    )
    return Reading(model, text.content, read, unread)


def _type(record: Record) -> str:
    return str(record.get("model_type", TEXT) or "")


def _holds_text(model_type: str) -> bool:
    return kind_of(model_type) == "text_part"


def _check_parts(record: Mapping[str, Any], text: Record, own: str) -> None:
    """Raise ConfigFileError where a type of several models has no text model."""
    if text.path or not (_holds_text(own) or own in TEXT_TYPES):
        return
    if "vision_config" not in record and (of_image := _OF_IMAGES & {*record}):
        name = min(of_image)
        raise ConfigFileError(
            f'model_type "{own}" is of a model of images and text, but {name} is of its encoder of '
            "images alone: give the whole file.",
            name,
        )
    if _holds_text(own) and "hidden_size" not in record:
        reason = reason_of(own)
        reason = reason.replace("missing", "empty") if "text_config" in record else reason
        raise ConfigFileError(f'model_type "{own}" is not read: {reason}.', "text_config")


def _unknown_type(record: dict[str, Any], text: Record, own: str) -> ConfigFileError:
    """Return the error of a type that is not read; it offers Llama where that goes."""
    key = text.named("model_type")
    problem = f"{key} is missing: add it, such as llama, qwen3, gemma3_text, bert or bloom"
    if own:
        problem = f'{key} "{_short(own)}" {_not_read(own)}'
    elif "hidden_size" not in text.content:
        return ConfigFileError(f"{problem}.", key)
    if kind_of(own) not in ("", "rope") or not _reads_as_llama(record):
        return ConfigFileError(f"{problem}.", key)
    return sentences.refusal(problem, key, "llama", "read it as a Llama model")


def _reads_as_llama(record: dict[str, Any]) -> bool:
    """Return whether a config has what is read on request, so that the request is no dead end."""
    try:
        read_record(record, "llama")
    except ConfigFileError:
        return False
    return True


def _not_read(model_type: str) -> str:
    """Return that a type is not read, and why where that is known."""
    if reason := reason_of(model_type):
        return f"is not read: {reason}"
    near = difflib.get_close_matches(
        model_type[:60].lower().replace("-", "_"), model_types(), n=1, cutoff=0.85
    )
    also = f" (the nearest known type is {near[0]})" if near else ""
    return f"is not known, and nothing is guessed{also}"


def _short(model_type: str) -> str:
    return printable_name(model_type)[:60]


def _read(name: str, content: Mapping[str, Any], path: str) -> tuple[ModelConfig, set[str]]:
    """Return the model by the row of a name, and the keys that its class reads."""
    stacks = [Stack(content, part, path, stack) for stack, part in stacks_of(name).items()]
    first = stacks[0]
    kinds: list[LayerKind] = []
    for stack in stacks:
        layers = stack.layers()
        own = [_layer_kind(each, stack, layers) for each in layers]
        kinds += sorted(own, key=_order)
    model = ModelConfig(
        model_type=name,
        hidden_size=first.value("hidden_size"),
        layers=first.count(),
        context=first.context(),
        trained_length=_trained_length(first.record) if first.rope else first.trained_length(),
        layer_kinds=tuple(kinds),
        assumed=sentences.assumed(stacks),
        notes=sentences.model_notes(first, kinds),
        ignored=tuple(dict.fromkeys(key for stack in stacks for key in stack.record.unread)),
        kept=tuple((key, first.value(text)) for key, text in first.rope.get("needs", {}).items()),
    )
    return model, {key for stack in stacks for key in stack.keys_read()}


def _layer_kind(layers: Layers, stack: Stack, all_layers: list[Layers]) -> LayerKind:
    facts = layers.facts
    return LayerKind(
        facts=_layer_facts(layers, stack, all_layers),
        layers=layers.indices,
        scheme=layers.scheme,
        heads=facts.get("heads", 0),
        kv_heads=facts.get("kv_heads", 0),
        head_dim=facts.get("head_dim", 0),
        cache_width=layers.cache_width,
        softmax_scale=float(facts.get("scale", 0.0)),
        block_scale=layers.block_scale,
        window=facts.get("window"),
        causal=bool(facts.get("causal", True)),
        chunked=bool(facts.get("chunked")),
        softcap=facts.get("softcap"),
        sinks=bool(facts.get("sinks")),
        bias_scale=float(facts.get("bias_scale", 1.0)),
        growth=_growth(facts),
        rows=facts.get("rows"),
        state=int(facts["state"]),
    )


def _growth(facts: Mapping[str, Any]) -> Growth | None:
    if not facts.get("growth"):
        return None
    return Growth(
        rate=float(facts["growth"]), length=facts["growth_length"], first=facts["growth_first"]
    )


def _layer_facts(layers: Layers, stack: Stack, all_layers: list[Layers]) -> LayerFacts:
    facts, latent, source = layers.facts, None, None
    has_attention = layers.scheme is not None
    if has_attention and facts["rope_dim"] < facts["head_dim"]:
        latent = facts["rope_dim"], facts["head_dim"], stack.value("kv_lora_rank")
    if layers.is_shared:
        alike = (each for each in all_layers if each.word == layers.word and not each.is_shared)
        source = max(index for each in alike for index in each.indices)
    return LayerFacts(
        word=layers.word,
        stack=stack.name,
        is_only=len(all_layers) == 1,
        is_full=layers.word == stack.full_word,
        has_attention=has_attention,
        in_blocks=bool(stack.rope),
        rotates=layers.rotates,
        source=source,
        base=layers.base,
        bases_differ=bool(layers.base) and len({each.base for each in all_layers} - {0.0}) > 1,
        latent=latent,
        own_notes=sentences.own_notes(layers, stack) if has_attention else (),
    )


def _order(kind: LayerKind) -> tuple[bool, bool, bool, tuple[int, ...]]:
    """Return what puts the kind first that sees farthest."""
    return not kind.heads, kind.window is not None, kind.facts.lacks_rope, kind.layers


def _trained_length(record: Record) -> int | None:
    """Return original_max_position_embeddings of the first rope block with it, or of the config."""
    blocks = [block for name in (NEW, OLD) if (block := record.section(name)) is not None]
    blocks += [
        part
        for block in blocks
        for name, value in block.content.items()
        if isinstance(value, dict) and (part := block.section(name)) is not None
    ]
    beside: int | None = record.get(TRAINED)
    if beside is None:
        lengths = (block.get(TRAINED) for block in blocks)
        return next((length for length in lengths if length is not None), None)
    own = blocks[0].get(TRAINED) if blocks else None
    if own not in (None, beside):
        raise record.error(
            TRAINED,
            f"says {beside:,}, but {blocks[0].named(TRAINED)} says {own:,}; they must agree",
        )
    return beside
