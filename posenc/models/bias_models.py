"""Models whose layers add a bias to the logits: BLOOM, MPT and Falcon's first kind (ALiBi), and T5's."""

from posenc import fields
from posenc.models.config_json import Keys
from posenc.models.families import FAMILIES, Family, SizeNames
from posenc.models.layers import (
    HEAD_LIMIT,
    HEAD_WIDTH_LIMIT,
    LAYER_LIMIT,
    LENGTH_LIMIT,
    WIDTH_LIMIT,
    read_sizes,
)
from posenc.models.model_config import LayerKind, ModelConfig, uniform_model
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.t5 import T5Config

_BUCKETS = fields.IntRange(low=2, high=65_536)
_POSITIVE = fields.FloatRange(low=0.0, high=1e6, closed=False)
_SIDES = fields.Choice(options=("local", "transient-global"))
_SUMMARIES = (
    "A query also sees a summary of every global_block_size tokens, with a bias of its own."
)
_ATTENTION_TYPE = fields.Choice(options=("multihead_attention",))
# These keys of MPT mean nothing where rope is off and every head has its own keys.
_UNUSED_BY_MPT = ("rope_theta", "rope_impl", "rope_dail_config", "rope_hf_config", "kv_n_heads")

_BLOOM = Family(
    config_class="BloomConfig", hidden_size=64, layers=2, heads=8,
    names=SizeNames(
        ("hidden_size", "n_embed"), ("n_layer", "num_hidden_layers"),
        ("num_attention_heads", "n_head"), (),
    ),
)  # fmt: skip
_MPT = Family(
    config_class="MptConfig", hidden_size=2_048, layers=24, heads=16,
    names=SizeNames(
        ("d_model", "hidden_size"), ("n_layers", "num_hidden_layers"),
        ("n_heads", "num_attention_heads"), ("max_seq_len",),
    ),
)  # fmt: skip
# Layers of the decoder where the key is absent; null stands for as many as in the encoder.
_SWITCH_DECODER_LAYERS = 12
T5_FAMILIES = {
    "t5": Family(config_class="T5Config", hidden_size=512, layers=6, heads=8),
    "mt5": Family(config_class="MT5Config", hidden_size=512, layers=8, heads=6),
    "umt5": Family(config_class="UMT5Config", hidden_size=512, layers=8, heads=6),
    "longt5": Family(config_class="LongT5Config", hidden_size=512, layers=6, heads=8),
    "switch_transformers": Family(
        config_class="SwitchTransformersConfig", hidden_size=768, layers=12, heads=12
    ),
}


def read_bloom(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a BLOOM config says: ALiBi, and the length of training as seq_length."""
    sizes = read_sizes(keys, _BLOOM)
    trained = keys.optional("seq_length", LENGTH_LIMIT)
    note = "The config names no length: ALiBi has a bias for every distance."
    if trained is not None:
        note = "seq_length is the length of BLOOM's training sequences; ALiBi has a bias for any distance."
    return uniform_model(
        model_type,
        sizes,
        AlibiConfig(heads=sizes.heads),
        context=trained,
        trained_length=trained,
        notes=(note,),
    )


def read_mpt(model_type: str, keys: Keys) -> ModelConfig:
    """Return what an MPT config says: ALiBi, or a learned table that transformers does not build."""
    sizes = read_sizes(keys, _MPT)
    keys.read.add("learned_pos_emb")  # means nothing where ALiBi is on
    attention = keys.section("attn_config") or Keys({}, keys.named("attn_config"), keys)
    alibi = attention.flag("alibi", True, "the default of transformers' MptAttentionConfig")
    largest = attention.get("alibi_bias_max", _POSITIVE, 8.0)
    scale = attention.optional("softmax_scale", _POSITIVE)
    attention.get("attn_type", _ATTENTION_TYPE, "multihead_attention")
    for name in _UNUSED_BY_MPT:
        attention.find(name)
    unsupported = ""
    if attention.flag("rope", False):
        unsupported = (
            "attn_config.rope is true: these layers use RoPE, which transformers' MPT does not build; "
            "not read here."
        )
    elif not alibi:
        unsupported = (
            "attn_config.alibi is false: such a model has a learned table (learned_pos_emb), which "
            "transformers does not build, or no positions; not read here."
        )
    elif largest != 8:
        unsupported = (
            f"ALiBi with an alibi_bias_max of {largest:g}, not 8: not among this version's schemes."
        )
    return uniform_model(
        model_type,
        sizes,
        None if unsupported else AlibiConfig(heads=sizes.heads),
        unsupported=unsupported,
        softmax_scale=scale,
        context=sizes.context,
    )


def read_falcon_alibi(model_type: str, keys: Keys) -> ModelConfig:
    """Return what the config of a Falcon with ALiBi says (Falcon-RW)."""
    sizes = read_sizes(keys, FAMILIES["falcon"])
    for name in ("rope_parameters", "rope_theta", "rope_scaling"):
        keys.read.add(name)  # means nothing where ALiBi is on
    note = (
        "The bias is added before the logits are scaled, so that it acts divided by "
        f"sqrt({sizes.head_dim}), and its slopes are rounded to bfloat16; the scheme is ALiBi's own."
    )
    return uniform_model(
        model_type,
        sizes,
        AlibiConfig(heads=sizes.heads),
        layer_notes=(note,),
        context=sizes.context,
    )


def read_t5(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a config of T5's kind says: a learned bias by bucket, both ways in the encoder."""
    family = T5_FAMILIES[model_type]
    why = family.source
    hidden = keys.get(("d_model", "hidden_size"), WIDTH_LIMIT, family.hidden_size, why)
    encoder_layers = keys.get(("num_layers", "num_hidden_layers"), LAYER_LIMIT, family.layers, why)
    decoder_layers = keys.optional("num_decoder_layers", LAYER_LIMIT) or encoder_layers
    if model_type == "switch_transformers" and "num_decoder_layers" not in keys.record:
        decoder_layers = keys.get("num_decoder_layers", LAYER_LIMIT, _SWITCH_DECODER_LAYERS, why)
    heads = keys.get(("num_heads", "num_attention_heads"), HEAD_LIMIT, family.heads, why)
    head_dim = keys.get(("d_kv", "head_dim"), HEAD_WIDTH_LIMIT, 64, why)
    buckets = keys.get("relative_attention_num_buckets", _BUCKETS, 32, why)
    distance = keys.get("relative_attention_max_distance", LENGTH_LIMIT, 128, why)
    keys.read.add("n_positions")  # the length of its training texts; no table has so many rows

    window: int | None = None
    sides: tuple[str, ...] = ()
    if model_type == "longt5":
        window = 2 * keys.get("local_radius", LENGTH_LIMIT, 127, why) + 1
        if keys.get("encoder_attention_type", _SIDES, "local", why) == "transient-global":
            sides = (_SUMMARIES,)

    def stack(name: str, layers: int, cache_width: int, *notes: str) -> LayerKind:
        both = name == "encoder"
        return LayerKind(
            name=name,
            layers=tuple(range(layers)),
            scheme=T5Config(
                heads=heads, buckets=buckets, max_distance=distance, bidirectional=both
            ),
            heads=heads,
            kv_heads=heads,
            head_dim=head_dim,
            cache_width=cache_width,
            softmax_scale=1.0,
            window=window if both else None,
            notes=notes,
        )

    shared = "All layers of a stack share the biases of the first."
    if model_type == "umt5":
        shared = "Every layer has biases of its own."
    cross = "Keys of the encoder's output, which the decoder's layers attend to besides, are not counted."
    return ModelConfig(
        model_type=model_type,
        hidden_size=hidden,
        layers=decoder_layers,
        context=None,
        trained_length=None,
        layer_kinds=(
            stack("decoder", decoder_layers, 2 * heads * head_dim, shared, cross),
            stack("encoder", encoder_layers, 0, shared, *sides),
        ),
        notes=("The config names no length: the bias has a bucket for every distance.",),
    )
