"""GPT-J: RoPE on the first rotary_dim features of a head, in neighbouring pairs, with a fixed base."""

from posenc.errors import ConfigError
from posenc.interop.models.families import SIZES
from posenc.interop.models.keys import Keys
from posenc.interop.models.model_config import LayerKind, ModelConfig
from posenc.interop.models.sizes import (
    EVEN_WIDTH_LIMIT,
    HEAD_LIMIT,
    LAYER_LIMIT,
    LENGTH_LIMIT,
    WIDTH_LIMIT,
    divided_width,
)
from posenc.schemes.rope import RopeConfig

BASE = 10_000.0  # written into the code of GPT-J; no key changes it


def read_gptj(model_type: str, keys: Keys) -> ModelConfig:
    """Return what a GPT-J config says. Raises ConfigFileError."""
    why = "the default of transformers' GPTJConfig"
    hidden_names, head_names = ("n_embd", "hidden_size"), ("n_head", "num_attention_heads")
    hidden = keys.whole(hidden_names, 4_096, why, WIDTH_LIMIT)
    layers = keys.whole(("n_layer", "num_hidden_layers"), 28, why, LAYER_LIMIT)
    heads = keys.whole(head_names, 16, why, HEAD_LIMIT)
    context = keys.whole(("n_positions", *SIZES["context"][:1]), 2_048, why, LENGTH_LIMIT)
    head_dim = divided_width(keys, hidden_names, hidden, head_names, heads)
    rotary = keys.whole("rotary_dim", 64, why, EVEN_WIDTH_LIMIT)
    if rotary > head_dim:
        raise keys.error("rotary_dim", f"must be at most the head width {head_dim}, got {rotary}")
    try:
        scheme = RopeConfig(
            dim=head_dim,
            base=BASE,
            layout="interleaved",
            partial_rotary_factor=rotary / head_dim,
        )
    except ConfigError as error:
        raise keys.error("rotary_dim", f"cannot be used: {str(error).rstrip('.')}") from None
    kind = LayerKind(
        name="all",
        layers=tuple(range(layers)),
        scheme=scheme,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        cache_width=2 * hidden,
        softmax_scale=head_dim**-0.5,
    )
    return ModelConfig(
        model_type=model_type,
        hidden_size=hidden,
        layers=layers,
        context=context,
        trained_length=None,
        layer_kinds=(kind,),
        notes=(
            "Pairs are neighbouring features, as in the paper.",
            "The base 10,000 is written into the model's code; no key changes it.",
        ),
    )
