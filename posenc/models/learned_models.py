"""Models with a learned table of positions: BERT, RoBERTa, GPT-2, OPT, DistilBERT."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from posenc import fields, limits
from posenc.errors import ConfigError, ConfigFileError
from posenc.models.config_json import Keys
from posenc.models.layers import HEAD_LIMIT, LAYER_LIMIT, LENGTH_LIMIT, WIDTH_LIMIT, divided_width
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.schemes.base import SchemeConfig
from posenc.schemes.learned import LearnedConfig

Names = tuple[str, ...]
_PADDING = fields.IntRange(low=0, high=limits.MAX_POSITION, label="")


@dataclass(frozen=True, kw_only=True)
class LearnedFamily:
    """One configuration class of transformers with a learned table.

    first_row: rows of the table before that of position 0: "padding" is one more than pad_token_id,
    a number is so many, and `added` says whether the class adds them to the rows that the config says.
    decoder: whether tokens see only what is before them, and keys are cached.
    """

    config_class: str
    hidden_size: int = 768
    layers: int = 12
    heads: int = 12
    rows: int = 512
    first_row: int | str = 0
    added: bool = False
    decoder: bool = False
    hidden_names: Names = ("hidden_size",)
    layer_names: Names = ("num_hidden_layers",)
    head_names: Names = ("num_attention_heads",)
    row_names: Names = ("max_position_embeddings",)


FAMILIES: Mapping[str, LearnedFamily] = MappingProxyType(
    {
        "bert": LearnedFamily(config_class="BertConfig"),
        "roberta": LearnedFamily(config_class="RobertaConfig", first_row="padding"),
        "xlm-roberta": LearnedFamily(config_class="XLMRobertaConfig", first_row="padding"),
        "distilbert": LearnedFamily(
            config_class="DistilBertConfig", layers=6,
            hidden_names=("dim", "hidden_size"), layer_names=("n_layers", "num_hidden_layers"),
            head_names=("n_heads", "num_attention_heads"),
        ),
        "gpt2": LearnedFamily(
            config_class="GPT2Config", rows=1_024, decoder=True,
            hidden_names=("n_embd", "hidden_size"), layer_names=("n_layer", "num_hidden_layers"),
            head_names=("n_head", "num_attention_heads"),
            row_names=("n_positions", "max_position_embeddings", "n_ctx"),
        ),
        "opt": LearnedFamily(
            config_class="OPTConfig", rows=2_048, first_row=2, added=True, decoder=True
        ),
    }
)  # fmt: skip


def read_learned_model(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a config with a learned table says. Raises ConfigFileError."""
    family = FAMILIES[model_type]
    why = f"the default of transformers' {family.config_class}"
    hidden = keys.whole(family.hidden_names, family.hidden_size, why, WIDTH_LIMIT)
    layers = keys.whole(family.layer_names, family.layers, why, LAYER_LIMIT)
    heads = keys.whole(family.head_names, family.heads, why, HEAD_LIMIT)
    rows = keys.whole(family.row_names, family.rows, why, LENGTH_LIMIT)
    head_dim = divided_width(keys, family.hidden_names, hidden, family.head_names, heads)
    first, rows = _first_row(keys, family, rows, why)
    if rows - first < 1:
        raise keys.error(
            family.row_names[0],
            f"must be more than the {first} rows before position 0, got {rows:,}",
        )
    scheme, unsupported = _scheme(keys, hidden, rows - first)
    caches = family.decoder or keys.flag("is_decoder", False, "")
    notes = ["The config holds the shape of the table, not its rows: they are untrained here."]
    if first:
        notes.append(
            f"The table has {rows:,} rows, of which {rows - first:,} are positions: position p takes "
            f"row p + {first}."
        )
    if not caches:
        notes.append("Every token sees both sides: nothing is cached.")
    kind = LayerKind(
        name="all",
        layers=tuple(range(layers)),
        scheme=scheme,
        unsupported=unsupported,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        cache_width=2 * hidden if caches else 0,
        softmax_scale=head_dim**-0.5 if keys.flag("scale_attn_weights", True, "") else 1.0,
        notes=_attention_notes(keys),
    )
    return ModelConfig(
        model_type=model_type,
        hidden_size=hidden,
        layers=layers,
        context=rows - first,
        trained_length=None,
        layer_kinds=(kind,),
        notes=tuple(notes),
    )


def _first_row(keys: Keys, family: LearnedFamily, rows: int, why: str) -> tuple[int, int]:
    """Return the row of position 0 and the number of all rows."""
    if isinstance(family.first_row, int):
        return family.first_row, rows + family.first_row if family.added else rows
    padding = keys.whole("pad_token_id", 1, why, _PADDING)
    return padding + 1, rows


def _scheme(keys: Keys, width: int, rows: int) -> tuple[SchemeConfig | None, str]:
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
    if keys.flag("sinusoidal_pos_embds", False, ""):
        return None, (
            "A table of sines and cosines of which only the rows in the checkpoint are known: paste the "
            "checkpoint instead."
        )
    try:
        return LearnedConfig(dim=width, max_len=rows), ""
    except ConfigError as error:
        raise ConfigFileError(
            f"{keys.named('hidden_size')} is too large: {error}", "hidden_size"
        ) from None


def _attention_notes(keys: Keys) -> tuple[str, ...]:
    if keys.flag("scale_attn_by_inverse_layer_idx", False, ""):
        return ("The logits of layer l, counted from 0, are divided by l + 1 besides.",)
    return ()
