"""Models that add a table of positions: BERT, RoBERTa, GPT-2, OPT, BART, Marian, Whisper and others."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    decoder: whether tokens see only what is before them, and keys are cached. table_width: default of
    width_key, the width of the table where it is not that of the layers. multi_query: whether the
    class has this key, by default true: one head of keys and values.
    waves: "" for learned rows; of sines and cosines, whether their frequencies are the paper's, or run from
    1 to 1/10,000 with both ends. grows: whether the class makes more rows for longer texts.
    window: default of attention_window, the tokens that a query sees beside itself. period: kinds of layers
    that repeat, of which those of name local see `window` tokens. sparse: default of attention_type.
    softmax_scale: the factor of q . k, None for head width^(-1/2).
    """

    first_row: int | str = 0
    added: bool = False
    decoder: bool = False
    table_width: int | None = None
    width_key: str = "embedding_size"
    multi_query: bool = False
    waves: Literal["", "paper", "both ends"] = ""
    grows: bool = False
    window: int | None = None
    period: tuple[str, ...] = ()
    sparse: str = ""
    softmax_scale: float | None = None


_BERT = LearnedFamily(config_class="BertConfig", hidden_size=768, layers=12, heads=12, context=512)
_GPT2 = replace(
    _BERT, config_class="GPT2Config", context=1_024, decoder=True,
    names=SizeNames(
        ("n_embd", "hidden_size"), ("n_layer", "num_hidden_layers"),
        ("n_head", "num_attention_heads"), ("n_positions", "max_position_embeddings", "n_ctx"),
    ),
)  # fmt: skip
LEARNED_FAMILIES: Mapping[str, LearnedFamily] = {
    "bert": _BERT,
    "roberta": replace(_BERT, config_class="RobertaConfig", first_row="padding"),
    "xlm-roberta": replace(_BERT, config_class="XLMRobertaConfig", first_row="padding"),
    "xlm-roberta-xl": replace(
        _BERT, config_class="XLMRobertaXLConfig", hidden_size=2_560, layers=36, heads=32, context=514,
        first_row="padding",
    ),
    "camembert": replace(_BERT, config_class="CamembertConfig", first_row="padding"),
    "data2vec-text": replace(_BERT, config_class="Data2VecTextConfig", first_row="padding"),
    "roberta-prelayernorm": replace(
        _BERT, config_class="RobertaPreLayerNormConfig", first_row="padding"
    ),
    "xmod": replace(_BERT, config_class="XmodConfig", first_row="padding"),
    "bert-generation": replace(
        _BERT, config_class="BertGenerationConfig", hidden_size=1_024, layers=24, heads=16
    ),
    "ernie": replace(_BERT, config_class="ErnieConfig"),
    "megatron-bert": replace(
        _BERT, config_class="MegatronBertConfig", hidden_size=1_024, layers=24, heads=16
    ),
    "roc_bert": replace(_BERT, config_class="RoCBertConfig"),
    "splinter": replace(_BERT, config_class="SplinterConfig"),
    "electra": replace(
        _BERT, config_class="ElectraConfig", hidden_size=256, heads=4, table_width=128
    ),
    "albert": replace(
        _BERT, config_class="AlbertConfig", hidden_size=4_096, heads=64, table_width=128
    ),
    "distilbert": replace(
        _BERT, config_class="DistilBertConfig", layers=6,
        names=SizeNames(
            ("dim", "hidden_size"), ("n_layers", "num_hidden_layers"),
            ("n_heads", "num_attention_heads"),
        ),
    ),
    "gpt2": _GPT2,
    "gpt_bigcode": replace(_GPT2, config_class="GPTBigCodeConfig", multi_query=True),
    "opt": replace(
        _BERT, config_class="OPTConfig", context=2_048, first_row=2, added=True, decoder=True
    ),
    "biogpt": replace(
        _BERT, config_class="BioGptConfig", hidden_size=1_024, layers=24, heads=16, context=1_024,
        first_row=2, added=True, decoder=True,
    ),
    "openai-gpt": replace(_GPT2, config_class="OpenAIGPTConfig", context=512),
    "ctrl": replace(
        _GPT2, config_class="CTRLConfig", hidden_size=1_280, layers=48, heads=16, context=256,
        waves="paper",
    ),
    "rembert": replace(
        _BERT, config_class="RemBertConfig", hidden_size=1_152, layers=32, heads=18, table_width=256,
        width_key="input_embedding_size",
    ),
    "big_bird": replace(
        _BERT, config_class="BigBirdConfig", context=4_096, sparse="block_sparse"
    ),
    "longformer": replace(
        _BERT, config_class="LongformerConfig", first_row="padding", window=512
    ),
    "gpt_neo": replace(
        _BERT, config_class="GPTNeoConfig", hidden_size=2_048, layers=24, heads=16, context=2_048,
        decoder=True, window=256, period=("global", "local"), softmax_scale=1.0,
        names=SizeNames(
            ("hidden_size",), ("num_layers", "num_hidden_layers"), ("num_heads", "num_attention_heads")
        ),
    ),
    "xglm": replace(
        _BERT, config_class="XGLMConfig", hidden_size=1_024, layers=24, heads=16, context=2_048,
        decoder=True, first_row="padding", waves="both ends", grows=True,
        names=SizeNames(
            ("d_model", "hidden_size"), ("num_layers", "num_hidden_layers"),
            ("attention_heads", "num_attention_heads"),
        ),
    ),
    "trocr": replace(
        _BERT, config_class="TrOCRConfig", hidden_size=1_024, heads=16, decoder=True, first_row=2,
        added=True,
        names=SizeNames(("d_model",), ("decoder_layers",), ("decoder_attention_heads",)),
    ),
}  # fmt: skip


def _stacks(
    config_class: str, hidden_size: int, layers: tuple[int, int], heads: int,
    rows: int | tuple[tuple[str, int], tuple[str, int]], **more: Any,
) -> tuple[LearnedFamily, LearnedFamily]:  # fmt: skip
    """Return the families of the decoder and the encoder.

    layers: of the encoder, then of the decoder. rows: of both tables, or the key and rows of each.
    """
    keys = (("max_position_embeddings", rows),) * 2 if isinstance(rows, int) else rows
    encoder, decoder = (
        LearnedFamily(
            config_class=config_class, hidden_size=hidden_size, layers=count, heads=heads, context=length,
            added=True, decoder=stack == "decoder",
            names=SizeNames(
                ("d_model", "hidden_size"), (f"{stack}_layers",), (f"{stack}_attention_heads",), (key,)
            ),
            **more,
        )
        for stack, count, (key, length) in zip(("encoder", "decoder"), layers, keys, strict=True)
    )  # fmt: skip
    return decoder, encoder


_FAIRSEQ: Mapping[str, Any] = {"first_row": "padding", "waves": "both ends", "grows": True}
_AUDIO = (("max_source_positions", 1_500), ("max_target_positions", 448))
_WHISPER, _FRAMES = _stacks("WhisperConfig", 384, (4, 4), 6, _AUDIO)
_LED, _LED_ENCODER = _stacks(
    "LEDConfig", 1_024, (12, 12), 16,
    (("max_encoder_position_embeddings", 16_384), ("max_decoder_position_embeddings", 1_024)),
)  # fmt: skip
# By model type: the decoder and the encoder, each with a table of its own.
STACK_FAMILIES: Mapping[str, tuple[LearnedFamily, LearnedFamily]] = {
    "bart": _stacks("BartConfig", 1_024, (12, 12), 16, 1_024, first_row=2),
    "mbart": _stacks("MBartConfig", 1_024, (12, 12), 16, 1_024, first_row=2),
    "mvp": _stacks("MvpConfig", 1_024, (12, 12), 16, 1_024, first_row=2),
    "plbart": _stacks("PLBartConfig", 768, (6, 6), 12, 1_024, first_row=2),
    "blenderbot": _stacks("BlenderbotConfig", 2_560, (2, 24), 32, 128),
    "blenderbot-small": _stacks("BlenderbotSmallConfig", 512, (8, 8), 16, 512),
    "marian": _stacks("MarianConfig", 1_024, (12, 12), 16, 1_024, waves="paper"),
    "pegasus": _stacks("PegasusConfig", 1_024, (12, 12), 16, 1_024, waves="paper"),
    "m2m_100": _stacks("M2M100Config", 1_024, (12, 12), 16, 1_024, **_FAIRSEQ),
    "nllb-moe": _stacks("NllbMoeConfig", 1_024, (12, 12), 16, 1_024, **_FAIRSEQ),
    "fsmt": _stacks("FSMTConfig", 1_024, (12, 12), 16, 1_024, **_FAIRSEQ),
    "speech_to_text": _stacks(
        "Speech2TextConfig", 256, (12, 6), 4,
        (("max_source_positions", 6_000), ("max_target_positions", 1_024)), **_FAIRSEQ,
    ),
    "bigbird_pegasus": _stacks(
        "BigBirdPegasusConfig", 1_024, (16, 16), 16, 4_096, sparse="block_sparse"
    ),
    "led": (_LED, replace(_LED_ENCODER, window=512)),
    "whisper": (_WHISPER, replace(_FRAMES, waves="both ends")),
}  # fmt: skip


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
    kinds = tuple(
        replace(kind, name=stack + f", {kind.name}".removesuffix(", all"))
        for stack, model in (("decoder", decoder), ("encoder", encoder))
        for kind in model.layer_kinds
    )
    note = "Keys of the encoder's output, which the decoder's layers attend to besides, are not counted."
    return replace(decoder, layer_kinds=kinds, notes=(*decoder.notes, note))


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
        is_cached=family.decoder,
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
            model.main, name=name, layers=layers, window=window, notes=(*layer_notes, *more)
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
