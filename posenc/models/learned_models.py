"""Models that add a table of positions: BERT, RoBERTa, GPT-2, OPT, BART, Marian, Whisper and others."""

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from posenc import fields, limits
from posenc.errors import ConfigError, ConfigFileError
from posenc.models.config_json import Keys
from posenc.models.families import FULL, SLIDING, Family, SizeNames
from posenc.models.layers import WIDTH_LIMIT, read_sizes
from posenc.models.model_config import ModelConfig, uniform_model
from posenc.schemes.base import SchemeConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.sinusoidal import SinusoidalConfig

_SIDES = fields.IntRange(low=2, high=2**20, multiple_of=2)
_GLOBAL = "Tokens that are marked as global see all others, and are seen by all."
_PADDING = fields.IntRange(low=0, high=limits.MAX_POSITION)


@dataclass(frozen=True, kw_only=True)
class LearnedFamily(Family):
    """One configuration class of transformers with a learned table.

    first_row: the row of position 0, "padding" for one more than pad_token_id. added: whether the
    class adds the rows before it to those that the config says.
    decoder: whether tokens see only what is before them, and keys are cached unless `uncached`.
    table_width: default of width_key, the width of the table where it is not that of the layers.
    multi_query: whether the class has this key, by default true: one head of keys and values.
    waves: "" for learned rows; of sines and cosines, whether their frequencies are the paper's, or run from
    1 to 1/10,000 with both ends. grows: whether the class makes more rows for longer texts.
    window: default of attention_window, the tokens that a query sees beside itself. period: kinds of layers
    that repeat, of which those of name local see `window` tokens. sparse: default of attention_type.
    softmax_scale: the factor of q . k, None for head width^(-1/2).
    """

    first_row: int | str = 0
    added: bool = False
    decoder: bool = False
    uncached: bool = False
    table_width: int | None = None
    width_key: str = "embedding_size"
    multi_query: bool = False
    waves: Literal["", "paper", "both ends"] = ""
    grows: bool = False
    window: int | None = None
    period: tuple[str, ...] = ()
    sparse: str = ""
    softmax_scale: float | None = None


def _family(*, names: Mapping[str, list[str]] | None = None, **own: Any) -> LearnedFamily:
    keys: dict[str, Any] = {size: tuple(value) for size, value in (names or {}).items()}
    own["period"] = tuple(own.get("period", ()))
    return LearnedFamily(names=SizeNames()._replace(**keys), **own)


# Defaults of transformers' classes and the forms of their tables; tests compare each with its class.
_TABLES = json.loads(Path(__file__).with_name("tables.json").read_text("utf-8"))
LEARNED_FAMILIES: Mapping[str, LearnedFamily] = {
    name: _family(**own) for name, own in _TABLES["one stack"].items()
}
# By model type: the decoder and the encoder, each with a table of its own.
STACK_FAMILIES: Mapping[str, tuple[LearnedFamily, LearnedFamily]] = {
    name: (_family(**decoder), _family(**encoder))
    for name, (decoder, encoder) in _TABLES["decoder and encoder"].items()
}
_FAIRSEQ: Mapping[str, Any] = {"first_row": "padding", "waves": "both ends", "grows": True}


def read_stacks(model_type: str, keys: Keys) -> ModelConfig:
    """Return what the config of an encoder and a decoder with tables of positions says."""
    decoder, encoder = (_read(model_type, keys, family) for family in STACK_FAMILIES[model_type])
    family = STACK_FAMILIES[model_type][0]
    # Keys of published files that the classes do not read, where they agree with what these do.
    keys.read |= {"num_hidden_layers", "num_attention_heads"}
    if model_type == "speech_to_text":  # of what is done to the sound before positions are added
        keys.read |= {"num_conv_layers", "conv_kernel_sizes", "conv_channels"}
    for name, values in (
        ("static_position_embeddings", (bool(family.waves),)),
        ("extra_pos_embeddings", (1,) if family.waves else (family.first_row,)),
    ):
        if keys.record.get(name) in values:
            keys.read.add(name)
    cross = "Keys of the encoder's output, which the decoder's layers attend to besides, are not counted."
    kinds = tuple(
        replace(
            kind, name=stack + f", {kind.name}".removesuffix(", all"), notes=(*kind.notes, *notes)
        )
        for stack, model, notes in (("decoder", decoder, (cross,)), ("encoder", encoder, ()))
        for kind in model.layer_kinds
    )
    return replace(decoder, layer_kinds=kinds)


def read_learned_model(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a config with a learned table says."""
    family = LEARNED_FAMILIES[model_type]
    if model_type == "trocr" and not keys.flag("use_learned_position_embeddings", True):
        family = replace(family, **_FAIRSEQ)
    return _read(
        model_type, keys, replace(family, decoder=family.decoder or keys.flag("is_decoder", False))
    )


def _read(model_type: str, keys: Keys, family: LearnedFamily) -> ModelConfig:
    """Return what the config says of one stack of layers."""
    sizes = read_sizes(keys, family)
    rows = sizes.context
    first = family.first_row
    if not isinstance(first, int):
        first = keys.get("pad_token_id", _PADDING, 1, family.source) + 1
    rows += first if family.added else 0
    if rows <= first and not family.grows:
        raise keys.error(
            family.names.context[0],
            f"must be more than the {first} rows before position 0, got {rows:,}",
        )
    width = sizes.hidden_size
    if family.table_width is not None:
        width = keys.get(family.width_key, WIDTH_LIMIT, family.table_width, family.source)
    if family.multi_query and keys.flag("multi_query", True):
        sizes = replace(sizes, kv_heads=1)
    scheme: SchemeConfig | None
    scheme, unsupported = None, ""
    notes = []
    if family.waves:
        if width < 4:
            raise keys.error(family.names.hidden_size[0], f"must be at least 4, got {width}")
        # 10,000^(-m / (width / 2 - 1)) as a power of another base
        power = width / (width - 2) if family.waves == "both ends" else 1.0
        scheme = SinusoidalConfig(dim=width, base=1e4**power, layout="half")
        notes.append(
            "The class makes a longer table of sines and cosines for longer texts."
            if family.grows
            else f"The class makes {rows:,} rows of sines and cosines: longer texts are an error."
        )
    else:
        scheme, unsupported = _scheme(keys, width, rows - first)
        notes.append(
            "The config holds the shape of the table, not its rows: they are untrained here."
        )
    if first and family.grows:
        notes.append(f"Position p takes the row of position p + {first}.")
    elif first:
        notes.append(
            f"The table has {rows:,} rows, of which {rows - first:,} are positions: position p takes "
            f"row p + {first}."
        )
    if not family.decoder:
        notes.append("Every token sees both sides: nothing is cached.")
    elif family.uncached:
        notes.append("The class has no cache: for each new token it reads the whole text again.")
    layer_notes: tuple[str, ...] = ()
    if keys.flag("scale_attn_by_inverse_layer_idx", False):
        layer_notes = ("The logits of layer l, counted from 0, are divided by l + 1 besides.",)
    if family.sparse and _is_sparse(keys, family) and not family.decoder:
        layer_notes += (
            "In long texts a query sees the first and the last block of tokens, those beside its own and "
            "some by chance.",
        )
    scale = family.softmax_scale if keys.flag("scale_attn_weights", True) else 1.0
    model = uniform_model(
        model_type,
        sizes,
        scheme,
        unsupported=unsupported,
        is_cached=family.decoder and not family.uncached,
        softmax_scale=scale,
        layer_notes=layer_notes,
        context=sizes.context if family.grows else rows - first,
        notes=tuple(notes),
    )
    windows = _windows(keys, family, sizes.layers)
    kinds = []
    for window in sorted({*windows}, key=lambda window: -(window or math.inf)):
        layers = tuple(index for index, other in enumerate(windows) if other == window)
        name = FULL if window is None else SLIDING
        name += f", {window:,}" if len({*windows} - {None}) > 1 else ""
        name = name if len({*windows}) > 1 else "all"
        more = () if window is None or family.decoder else (_GLOBAL,)
        kind = replace(
            model.main,
            name=name,
            layers=layers,
            window=window,
            rows=rows - first if family.waves and not family.grows else None,
            notes=(*layer_notes, *more),
        )
        kinds.append(kind)
    return replace(model, layer_kinds=tuple(kinds))


def _is_sparse(keys: Keys, family: LearnedFamily) -> bool:
    rule = fields.Choice(options=("block_sparse", "original_full"))
    return bool(keys.get("attention_type", rule, family.sparse, family.source) == "block_sparse")


def _windows(keys: Keys, family: LearnedFamily, layers: int) -> tuple[int | None, ...]:
    """Return how many tokens a query of each layer sees, None for all."""
    if family.window is None:
        return (None,) * layers
    if not family.period:  # to both sides
        if isinstance(keys.record.get("attention_window"), list):
            sides = keys.by_layer("attention_window", layers, _SIDES)
        else:
            sides = (keys.get("attention_window", _SIDES, family.window, family.source),) * layers
        return tuple(side + 1 for side in sides or ())
    words = _expanded(keys, family, layers)
    window = keys.get("window_size", WIDTH_LIMIT, family.window, family.source)
    return tuple(window if word == "local" else None for word in words)


def _expanded(keys: Keys, family: LearnedFamily, layers: int) -> list[str]:
    """Return the word of each layer by GPT-Neo's attention_types: lists of words, each with its count."""
    keys.read.add("attention_layers")  # the class makes this list of the other
    entry = keys.find("attention_types")
    listed: Any = entry[1] if entry else [[family.period, 12]]
    try:
        words = (w for names, n in listed if names for _ in range(int(n)) for w in names)
        expanded = list(itertools.islice(words, layers + 1))
    except (TypeError, ValueError):
        expanded = []
    if len(expanded) != layers or not {*map(str, expanded)} <= {*family.period}:
        names = " or ".join(family.period)
        raise keys.error(
            "attention_types",
            f"must make {names} for each of {layers:,} layers, as [[[words], count]]",
        )
    return expanded


def _scheme(keys: Keys, width: int, rows: int) -> tuple[LearnedConfig | None, str]:
    """Return the scheme, or None and what the layers do instead."""
    kind = keys.text("position_embedding_type") or "absolute"
    if kind.startswith("relative_key"):
        return None, (
            f'Relative keys of {rows:,} positions ("{kind}", Shaw et al. 2018): not among this '
            "version's schemes."
        )
    if kind != "absolute":
        raise keys.error(
            "position_embedding_type",
            f"must be absolute, relative_key or relative_key_query, got {kind!r:.60}",
        )
    if keys.flag("sinusoidal_pos_embds", False):
        return None, (
            "A table of sines and cosines of which only the rows in the checkpoint are known: paste the "
            "checkpoint instead."
        )
    try:
        return LearnedConfig(dim=width, max_len=rows), ""
    except ConfigError as error:
        message = f"{keys.named('hidden_size')} is too large: {error}"
        raise ConfigFileError(message, "hidden_size") from None
