"""Models whose layers add a bias to the logits: BLOOM, MPT and Falcon's first kind (ALiBi), and T5."""

from posenc import fields
from posenc.errors import ConfigError
from posenc.models.config_json import Keys
from posenc.models.layers import (
    HEAD_LIMIT,
    HEAD_WIDTH_LIMIT,
    LAYER_LIMIT,
    LENGTH_LIMIT,
    WIDTH_LIMIT,
    divided_width,
    falcon_kv_heads,
)
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.base import SchemeConfig
from posenc.schemes.t5 import T5Config

_BUCKETS = fields.IntRange(low=2, high=65_536, label="")
_POSITIVE = fields.FloatRange(low=0.0, high=1e6, closed=False, label="")


def read_bloom(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a BLOOM config says: ALiBi, and the length of training as seq_length."""
    why = "the default of transformers' BloomConfig"
    hidden_names, head_names = ("hidden_size", "n_embed"), ("n_head", "num_attention_heads")
    hidden = keys.whole(hidden_names, 64, why, WIDTH_LIMIT)
    layers = keys.whole(("n_layer", "num_hidden_layers"), 2, why, LAYER_LIMIT)
    heads = keys.whole(head_names, 8, why, HEAD_LIMIT)
    head_dim = divided_width(keys, hidden_names, hidden, head_names, heads)
    trained = keys.maybe_whole("seq_length", LENGTH_LIMIT)
    kind = _alibi(layers, heads, heads, head_dim)
    return ModelConfig(
        model_type=model_type,
        hidden_size=hidden,
        layers=layers,
        context=trained,
        trained_length=trained,
        layer_kinds=(kind,),
        notes=_bloom_notes(trained),
    )


def _bloom_notes(trained: int | None) -> tuple[str, ...]:
    if trained is None:
        return ("The config names no length: ALiBi has a bias for every distance.",)
    return (
        "seq_length is the length of BLOOM's training sequences; ALiBi has a bias for any distance.",
    )


def read_mpt(model_type: str, keys: Keys) -> ModelConfig:
    """Return what an MPT config says: ALiBi, or a learned table that transformers does not build."""
    why = "the default of transformers' MptConfig"
    hidden_names, head_names = ("d_model", "hidden_size"), ("n_heads", "num_attention_heads")
    hidden = keys.whole(hidden_names, 2_048, why, WIDTH_LIMIT)
    layers = keys.whole(("n_layers", "num_hidden_layers"), 24, why, LAYER_LIMIT)
    heads = keys.whole(head_names, 16, why, HEAD_LIMIT)
    context = keys.whole("max_seq_len", 2_048, why, LENGTH_LIMIT)
    head_dim = divided_width(keys, hidden_names, hidden, head_names, heads)
    learned = keys.flag("learned_pos_emb", True, "")  # means nothing where ALiBi is on
    attention = keys.section("attn_config") or Keys({}, keys.named("attn_config"), keys)
    alibi = attention.flag("alibi", True, "the default of transformers' MptAttentionConfig")
    largest = attention.real("alibi_bias_max", 8.0, "", _POSITIVE)
    scale = attention.maybe_real("softmax_scale", _POSITIVE)
    attention.word("attn_type", "multihead_attention", "", ("multihead_attention",))
    rope = attention.flag("rope", False, "")
    for name in ("rope_theta", "rope_impl", "rope_dail_config", "rope_hf_config", "kv_n_heads"):
        attention.find(name)  # means nothing where rope is off and every head has its own keys
    unsupported = ""
    if rope:
        unsupported = (
            "attn_config.rope is true: these layers use RoPE, which transformers' MPT does not build; "
            "not read here."
        )
    elif not alibi and not learned:
        unsupported = (
            "attn_config.alibi and learned_pos_emb are false: such a model has no positions that are read "
            "here."
        )
    elif not alibi:
        unsupported = (
            "attn_config.alibi is false: such a model has a learned table, which transformers does not "
            "build; not read here."
        )
    elif largest != 8:
        unsupported = (
            f"ALiBi with an alibi_bias_max of {largest:g}, not 8: not among this version's schemes."
        )
    kind = _alibi(
        layers, heads, heads, head_dim, unsupported=unsupported, scale=scale or head_dim**-0.5
    )
    return ModelConfig(
        model_type=model_type,
        hidden_size=hidden,
        layers=layers,
        context=context,
        trained_length=None,
        layer_kinds=(kind,),
    )


def read_falcon_alibi(model_type: str, keys: Keys) -> ModelConfig:
    """Return what the config of a Falcon with ALiBi says (Falcon-RW)."""
    why = "the default of transformers' FalconConfig"
    hidden_names = ("hidden_size", "n_embed")
    head_names = ("num_attention_heads", "n_head")
    hidden = keys.whole(hidden_names, 4_544, why, WIDTH_LIMIT)
    layers = keys.whole(("num_hidden_layers", "n_layer"), 32, why, LAYER_LIMIT)
    heads = keys.whole(head_names, 71, why, HEAD_LIMIT)
    context = keys.whole("max_position_embeddings", 2_048, why, LENGTH_LIMIT)
    head_dim = divided_width(keys, hidden_names, hidden, head_names, heads)
    for name in ("rope_parameters", "rope_theta", "rope_scaling"):
        keys.find(name)  # means nothing where ALiBi is on
    note = (
        "The bias is added before the logits are scaled, so that it acts divided by "
        f"sqrt({head_dim}), and its slopes are rounded to bfloat16; the scheme is ALiBi's own."
    )
    kind = _alibi(layers, heads, falcon_kv_heads(keys, heads), head_dim, notes=(note,))
    return ModelConfig(
        model_type=model_type,
        hidden_size=hidden,
        layers=layers,
        context=context,
        trained_length=None,
        layer_kinds=(kind,),
    )


def read_t5(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a T5 config says: a learned bias by bucket of distance, both ways in the encoder."""
    why = "the default of transformers' T5Config"
    hidden = keys.whole(("d_model", "hidden_size"), 512, why, WIDTH_LIMIT)
    encoder = keys.whole(("num_layers", "num_hidden_layers"), 6, why, LAYER_LIMIT)
    decoder = keys.maybe_whole("num_decoder_layers", LAYER_LIMIT) or encoder
    heads = keys.whole(("num_heads", "num_attention_heads"), 8, why, HEAD_LIMIT)
    head_dim = keys.whole(("d_kv", "head_dim"), 64, why, HEAD_WIDTH_LIMIT)
    buckets = keys.whole("relative_attention_num_buckets", 32, why, _BUCKETS)
    distance = keys.whole("relative_attention_max_distance", 128, why, LENGTH_LIMIT)
    keys.find("n_positions")  # the length of its training texts; no table has so many rows
    kinds = []
    for name, count, width, notes in (
        ("decoder", decoder, 2 * heads * head_dim, (_SHARED, _CROSS)),
        ("encoder", encoder, 0, (_SHARED,)),
    ):
        scheme, unsupported = _t5(heads, buckets, distance, bidirectional=name == "encoder")
        kind = LayerKind(
            name=name,
            layers=tuple(range(count)),
            scheme=scheme,
            unsupported=unsupported,
            heads=heads,
            kv_heads=heads,
            head_dim=head_dim,
            cache_width=width,
            softmax_scale=1.0,
            notes=notes,
        )
        kinds.append(kind)
    return ModelConfig(
        model_type=model_type,
        hidden_size=hidden,
        layers=decoder,
        context=None,
        trained_length=None,
        layer_kinds=tuple(kinds),
        notes=("The config names no length: the bias has a bucket for every distance.",),
    )


_SHARED = "All layers of a stack share the biases of the first."
_CROSS = (
    "Keys of the encoder's output, which the decoder's layers attend to besides, are not counted."
)


def _t5(
    heads: int, buckets: int, distance: int, *, bidirectional: bool
) -> tuple[T5Config | None, str]:
    """Return the scheme of one stack, or why there is none."""
    try:
        return T5Config(
            heads=heads, buckets=buckets, max_distance=distance, bidirectional=bidirectional
        ), ""
    except ConfigError as error:
        return None, f"T5 relative bias of other numbers than are known here: {error}"


def _alibi(
    layers: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    unsupported: str = "",
    scale: float | None = None,
    notes: tuple[str, ...] = (),
) -> LayerKind:
    scheme: SchemeConfig | None = None if unsupported else AlibiConfig(heads=heads)
    return LayerKind(
        name="all",
        layers=tuple(range(layers)),
        scheme=scheme,
        unsupported=unsupported,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        cache_width=2 * kv_heads * head_dim,
        softmax_scale=head_dim**-0.5 if scale is None else scale,
        notes=notes,
    )
