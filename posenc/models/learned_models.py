"""Models that add a table of positions: BERT, RoBERTa, GPT-2, OPT, BART, Marian, Whisper and others."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from posenc import fields, limits
from posenc.errors import ConfigError, ConfigFileError
from posenc.models.config_json import Keys
from posenc.models.families import Family, SizeNames
from posenc.models.layers import WIDTH_LIMIT, read_sizes
from posenc.models.model_config import ModelConfig, uniform_model
from posenc.schemes.base import SchemeConfig
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.sinusoidal import SinusoidalConfig

_PADDING = fields.IntRange(low=0, high=limits.MAX_POSITION)


@dataclass(frozen=True, kw_only=True)
class LearnedFamily(Family):
    """One configuration class of transformers with a learned table.

    first_row: the row of position 0, "padding" for one more than pad_token_id. added: whether the
    class adds the rows before it to those that the config says.
    decoder: whether tokens see only what is before them, and keys are cached. table_width: default of
    embedding_size, the width of the table where it is not that of the layers. multi_query: whether the
    class has this key, by default true: one head of keys and values.
    waves: whether the table is of sines and cosines. unlike: what it is where no scheme has its rows.
    """

    first_row: int | str = 0
    added: bool = False
    decoder: bool = False
    table_width: int | None = None
    multi_query: bool = False
    waves: bool = False
    unlike: str = ""


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
}  # fmt: skip


def _stacks(
    config_class: str, hidden_size: int, layers: tuple[int, int], heads: int, rows: int, **more: Any
) -> tuple[LearnedFamily, LearnedFamily]:
    """Return the families of the decoder and the encoder. layers: of the encoder, then of the decoder."""
    encoder, decoder = (
        LearnedFamily(
            config_class=config_class, hidden_size=hidden_size, layers=count, heads=heads, context=rows,
            added=True, decoder=stack == "decoder",
            names=SizeNames(
                ("d_model", "hidden_size"), (f"{stack}_layers",), (f"{stack}_attention_heads",),
                ("max_position_embeddings",),
            ),
            **more,
        )
        for stack, count in zip(("encoder", "decoder"), layers, strict=True)
    )  # fmt: skip
    return decoder, encoder


_WHISPER, _FRAMES = _stacks("WhisperConfig", 384, (4, 4), 6, 448)
# By model type: the decoder and the encoder, each with a table of its own.
STACK_FAMILIES: Mapping[str, tuple[LearnedFamily, LearnedFamily]] = {
    "bart": _stacks("BartConfig", 1_024, (12, 12), 16, 1_024, first_row=2),
    "mbart": _stacks("MBartConfig", 1_024, (12, 12), 16, 1_024, first_row=2),
    "mvp": _stacks("MvpConfig", 1_024, (12, 12), 16, 1_024, first_row=2),
    "plbart": _stacks("PLBartConfig", 768, (6, 6), 12, 1_024, first_row=2),
    "blenderbot": _stacks("BlenderbotConfig", 2_560, (2, 24), 32, 128),
    "blenderbot-small": _stacks("BlenderbotSmallConfig", 512, (8, 8), 16, 512),
    "marian": _stacks("MarianConfig", 1_024, (12, 12), 16, 1_024, waves=True),
    "pegasus": _stacks("PegasusConfig", 1_024, (12, 12), 16, 1_024, waves=True),
    "whisper": (
        replace(_WHISPER, names=_WHISPER.names._replace(context=("max_target_positions",))),
        replace(
            _FRAMES, context=1_500, names=_FRAMES.names._replace(context=("max_source_positions",)),
            unlike="A table of sines and cosines is added to the frames of audio; its frequencies run from "
            "1 to 1/10,000 with both ends included: not among this version's schemes.",
        ),
    ),
}  # fmt: skip


def read_stacks(model_type: str, keys: Keys) -> ModelConfig:
    """Return what the config of an encoder and a decoder with tables of positions says."""
    decoder, encoder = (_read(model_type, keys, family) for family in STACK_FAMILIES[model_type])
    family = STACK_FAMILIES[model_type][0]
    # Keys of published files that the classes do not read, where they agree with what these do.
    keys.read |= {"num_hidden_layers", "num_attention_heads"}
    for name, values in (
        ("static_position_embeddings", (family.waves,)),
        ("extra_pos_embeddings", (1,) if family.waves else (family.first_row,)),
    ):
        if keys.record.get(name) in values:
            keys.read.add(name)
    kinds = replace(decoder.main, name="decoder"), replace(encoder.main, name="encoder")
    note = "Keys of the encoder's output, which the decoder's layers attend to besides, are not counted."
    return replace(decoder, layer_kinds=kinds, notes=(*decoder.notes, note))


def read_learned_model(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a config with a learned table says."""
    family = LEARNED_FAMILIES[model_type]
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
    if rows <= first:
        raise keys.error(
            family.names.context[0],
            f"must be more than the {first} rows before position 0, got {rows:,}",
        )
    width = sizes.hidden_size
    if family.table_width is not None:
        width = keys.get("embedding_size", WIDTH_LIMIT, family.table_width, family.source)
    if family.multi_query and keys.flag("multi_query", True):
        sizes = replace(sizes, kv_heads=1)
    scheme: SchemeConfig | None
    scheme, unsupported = None, family.unlike
    notes = []
    if family.waves:
        scheme = SinusoidalConfig(dim=width, layout="half")
        notes.append(
            f"The class makes {rows:,} rows of its table of sines and cosines: longer texts are an error."
        )
    elif not unsupported:
        scheme, unsupported = _scheme(keys, width, rows - first)
        notes.append(
            "The config holds the shape of the table, not its rows: they are untrained here."
        )
    if first:
        notes.append(
            f"The table has {rows:,} rows, of which {rows - first:,} are positions: position p takes "
            f"row p + {first}."
        )
    if not family.decoder:
        notes.append("Every token sees both sides: nothing is cached.")
    layer_notes: tuple[str, ...] = ()
    if keys.flag("scale_attn_by_inverse_layer_idx", False):
        layer_notes = ("The logits of layer l, counted from 0, are divided by l + 1 besides.",)
    return uniform_model(
        model_type,
        sizes,
        scheme,
        unsupported=unsupported,
        is_cached=family.decoder,
        softmax_scale=None if keys.flag("scale_attn_weights", True) else 1.0,
        layer_notes=layer_notes,
        context=rows - first,
        notes=tuple(notes),
    )


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
