"""Defaults of transformers 5.23's configuration classes with RoPE, for keys that a config leaves out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from posenc.frequencies import Layout

VERSION = "5.23"

Names = tuple[str, ...]


class SizeNames(NamedTuple):
    """Names of the keys of a size, those of transformers' attribute maps included."""

    hidden_size: Names = ("hidden_size", "n_embd", "n_embed", "d_model")
    layers: Names = ("num_hidden_layers", "n_layer", "n_layers")
    heads: Names = ("num_attention_heads", "n_head", "n_heads")
    context: Names = ("max_position_embeddings", "n_positions")
    head_dim: Names = ("head_dim",)


_NAMES = SizeNames()

# Ends of names of layers that use the keys and values of an earlier one, or the tokens its index chose.
SHARED, SHARED_INDEX = ", shared cache", ", shared index"
FULL, SLIDING, CHUNKED, NO_ROPE, MLP, INDEXED, CROSS = (
    "full_attention", "sliding_attention", "chunked_attention", "no_rope", "mlp", "indexed_attention",
    "cross_attention",
)  # fmt: skip
Windows = Literal[
    "none", "every layer", "last layers", "late layers", "pattern", "if any", "listed", "if listed",
    "chunks",
]  # fmt: skip
GENERATED = Path(__file__).with_name("families.json")  # written from transformers' classes


@dataclass(frozen=True, kw_only=True)
class Family:
    """A configuration class of transformers; a size without a default is required.

    names: keys of each size. kv_heads: None for one per query head. head_dim: None for
    hidden_size / heads. kv_heads_key, head_dim_key: whether the class reads num_key_value_heads and
    head_dim.
    """

    config_class: str
    hidden_size: int | None = 4_096
    layers: int | None = 32
    heads: int | None = 32
    kv_heads: int | None = None
    head_dim: int | None = None
    context: int | None = 2_048
    names: SizeNames = _NAMES
    kv_heads_key: bool = False
    head_dim_key: bool = False

    @property
    def source(self) -> str:
        """The source of the defaults, as the end of a sentence."""
        return f"the default of transformers' {self.config_class}"


@dataclass(frozen=True, kw_only=True)
class Base:
    """The base of a kind of layer. names: its keys outside of `rope_parameters`."""

    default: float
    names: Names = ("rope_theta",)
    scaled: bool = True  # whether a first-generation rope_scaling applies to it


@dataclass(frozen=True, kw_only=True)
class RopeFamily(Family):
    """A configuration class of transformers with RoPE; the defaults here are those of LlamaConfig.

    bases, blocks: base, and default rope block, by kind of layer; "" stands for all kinds.
    share: default rotated share of the head; None where the class always rotates the whole head.
    share_names: its keys outside of the rope block.
    block_defaults: defaults of keys of a rope block.
    types: aliases of a rope_type. takes: the only rope_types that the class accepts; () for all.
    windows: which layers see `window` tokens; the last ones start at max_window_layers (default
    `first_windowed`), the late ones without the switch use_sliding_window; in a pattern layer `full_at` of
    every `period` layers has full attention; "if any" means all layers where the config has a window;
    "listed" all that layer_types does not list otherwise, "if listed" only those that it lists; "chunks"
    those with RoPE, and a chunk in place of a window.
    also_full: further layers of full attention in a pattern, from the end if negative.
    rope_only_in_windows: where the config has a window, layers of full attention do not rotate.
    scalar: default of query_pre_attn_scalar s, for a softmax scale of s^(-1/2). softmax_scale,
    scale_key: the scale where the class fixes it, and its key; scale_default None: head width^(-1/2).
    encoder: every token sees both sides, and nothing is cached. both_sides: type of the key
    use_bidirectional_attention (flag; or word: all or vision), "" without that key.
    latent: keys and values come from one latent vector per token (DeepSeek's MLA). indexed: an index
    chooses the keys that a query sees, and has keys of its own.
    value_width: default width of a value where it differs from a key's. windowed_kv: factor on the heads
    of keys and values in layers with a window.
    unrotated: default number of features of such a head that are not rotated.
    no_rope: the config lists layers without RoPE.
    rotates: whether layers have RoPE: always, never, or if position_embedding_type is rope ("key").
    state: the name of layers that keep a state, or only see a picture, "" without any; state_size: the rule
    for its numbers, which without `state`, or with a `full_word`, every layer keeps beside its cache.
    full_word: the class's word for full attention; such layers with a window are <word>_sliding.
    query_factor: queries grow with their position by llama_4_scaling_beta of the rope block.
    rotary_key: the config may give the rotated width under rotary_dim. interleaved_sections: the class
    interleaves the axes of mrope_section, whatever the config says.
    head_dim_unset: whether an absent head_dim stays null, which fails in some of transformers' scalings.
    global_head_dim: default head width of full attention layers, where it differs.
    shared_layers: default number of last layers that use the keys and values of an earlier one; None
    without that key.
    notes: what the layers do in addition to the scheme.
    """

    trained_length: int | None = None
    bases: Mapping[str, Base] = field(default_factory=lambda: {"": Base(default=10_000.0)})
    blocks: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    share: float | None = None
    share_names: Names = ("partial_rotary_factor",)
    block_defaults: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    takes: Names = ()
    layout: Layout = "half"
    windows: Windows = "none"
    window: int | None = None
    window_key: str = "sliding_window"
    first_windowed: int = 28
    period: int = 2
    period_key: str = ""
    full_at: int = -1
    also_full: tuple[int, ...] = ()
    scalar: int | None = None
    softmax_scale: float | None = None
    scale_key: str = ""
    scale_default: float | None = 1.0
    encoder: bool = False
    both_sides: Literal["", "flag", "word"] = ""
    latent: bool = False
    indexed: bool = False
    value_width: int | None = None
    windowed_kv: int = 1
    unrotated: int = 128
    no_rope: bool = False
    rope_only_in_windows: bool = False
    rotates: Literal["always", "never", "key"] = "always"
    state: str = ""
    state_size: str = ""
    full_word: str = FULL
    query_factor: bool = False
    rotary_key: bool = False
    interleaved_sections: bool = False
    kv_heads_key: bool = True
    head_dim_key: bool = True
    head_dim_unset: bool = False
    global_head_dim: int | None = None
    shared_layers: int | None = None
    notes: tuple[str, ...] = ()

    def word(self, kind: str) -> str:
        """Return the class's own word for a kind of layer."""
        if self.full_word == FULL:
            return kind
        return {FULL: self.full_word, SLIDING: f"{self.full_word}_sliding"}.get(kind, kind)

    def base_of(self, kind: str) -> Base:
        """Return the base of a kind of layer."""
        return self.bases.get(kind) or self.bases.get("") or self.bases[FULL]


def family_of(model_type: str) -> RopeFamily:
    """Return the class of a model type; for an unknown type, one that requires every size."""
    return FAMILIES.get(model_type, _UNKNOWN)


_UNKNOWN = RopeFamily(
    config_class="RopeParameters", hidden_size=None, layers=None, heads=None, context=None,
    share=1.0, windows="if any", no_rope=True,
)  # fmt: skip


def _all_layers(default: float, *names: str) -> Mapping[str, Base]:
    return {"": Base(default=default, names=names or ("rope_theta",))}


def _full_and_sliding(full: Base, sliding: Base) -> Mapping[str, Base]:
    return {FULL: full, SLIDING: sliding}


_SOFT_CAP = "Logits are capped by a tanh before the softmax (attn_logit_softcapping)."
_QWEN = RopeFamily(
    config_class="Qwen2Config", kv_heads=32, context=32_768, windows="last layers", window=4_096,
)  # fmt: skip
_QWEN_VL = RopeFamily(
    config_class="Qwen2VLTextConfig", hidden_size=8_192, layers=80, heads=64, kv_heads=8,
    context=32_768, windows="last layers", window=4_096, first_windowed=80, bases=_all_layers(1e6),
    block_defaults={"mrope_section": (16, 24, 24)},
)  # fmt: skip
_DEEPSEEK_V3 = RopeFamily(
    config_class="DeepseekV3Config", hidden_size=7_168, layers=61, heads=128, kv_heads=128,
    context=4_096, layout="interleaved", latent=True,
)  # fmt: skip

FAMILIES: dict[str, RopeFamily] = {
    "llama": RopeFamily(config_class="LlamaConfig"),
    "mistral": RopeFamily(
        config_class="MistralConfig", kv_heads=8, context=131_072, windows="every layer",
        window=4_096,
    ),
    "mixtral": RopeFamily(
        config_class="MixtralConfig", kv_heads=8, context=131_072, bases=_all_layers(1e6),
        windows="every layer", head_dim_unset=True,
    ),
    "qwen2": _QWEN,
    "qwen3": replace(_QWEN, config_class="Qwen3Config", head_dim=128),
    "qwen2_vl_text": _QWEN_VL,
    "qwen2_5_vl_text": replace(_QWEN_VL, config_class="Qwen2_5_VLTextConfig"),
    "gemma2": RopeFamily(
        config_class="Gemma2Config", hidden_size=2_304, layers=26, heads=8, kv_heads=4,
        head_dim=256, context=8_192, windows="pattern", window=4_096, scalar=256,
        notes=(_SOFT_CAP,),
    ),
    "gemma3_text": RopeFamily(
        config_class="Gemma3TextConfig", hidden_size=2_304, layers=26, heads=8, kv_heads=4,
        head_dim=256, context=131_072, windows="pattern", window=4_096, period=6,
        period_key="sliding_window_pattern", scalar=256, both_sides="flag",
        bases=_full_and_sliding(
            Base(default=1e6), Base(default=1e4, names=("rope_local_base_freq",), scaled=False)
        ),
    ),
    "phi3": RopeFamily(
        config_class="Phi3Config", hidden_size=3_072, context=4_096, share=1.0,
        windows="every layer", trained_length=4_096, types={"yarn": "longrope"},
        takes=("default", "longrope"),
    ),
    "gpt_neox": RopeFamily(
        config_class="GPTNeoXConfig", hidden_size=6_144, layers=44, heads=64,
        bases=_all_layers(1e4, "rotary_emb_base", "rope_theta"), share=0.25,
        share_names=("rotary_pct", "partial_rotary_factor"), kv_heads_key=False, head_dim_key=False,
    ),
    "deepseek_v2": RopeFamily(config_class="DeepseekV2Config", layout="interleaved", latent=True),
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,  # its own code is a copy of this class
    "gpt_oss": RopeFamily(
        config_class="GptOssConfig", hidden_size=2_880, layers=36, heads=64, kv_heads=8,
        head_dim=64, context=131_072, bases=_all_layers(1.5e5), windows="pattern", window=128,
        blocks={"": {
            "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "truncate": False, "original_max_position_embeddings": 4_096,
        }},
        notes=("Each head has a learned logit more in its softmax, the attention sink.",),
    ),
    "olmo3": RopeFamily(
        config_class="Olmo3Config", windows="pattern", window=4_096, period=4,
        bases=_full_and_sliding(Base(default=5e5), Base(default=5e5, scaled=False)),
    ),
    "falcon": RopeFamily(
        config_class="FalconConfig", hidden_size=4_544, heads=71, head_dim_key=False,
    ),
    "modernbert": RopeFamily(
        config_class="ModernBertConfig", hidden_size=768, layers=22, heads=12, context=8_192,
        bases=_full_and_sliding(
            Base(default=1.6e5, names=("global_rope_theta",)),
            Base(default=1e4, names=("local_rope_theta",)),
        ),
        windows="pattern", window=128, window_key="local_attention", period=3,
        period_key="global_attn_every_n_layers", full_at=0, encoder=True,
        kv_heads_key=False, head_dim_key=False,
    ),
    "gemma4_text": RopeFamily(
        config_class="Gemma4TextConfig", hidden_size=2_304, layers=30, heads=8, kv_heads=4,
        head_dim=256, context=131_072, windows="pattern", window=512, period=6,
        bases=_full_and_sliding(Base(default=1e6, names=()), Base(default=1e4, names=())),
        softmax_scale=1.0, global_head_dim=512, both_sides="word", shared_layers=0,
        blocks={FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25}},
    ),
}  # fmt: skip


FAMILIES |= {
    "gpt_neox_japanese": replace(
        FAMILIES["gpt_neox"], config_class="GPTNeoXJapaneseConfig", hidden_size=2_560, layers=32,
        heads=32, share=1.0,
    ),
    "phi4_multimodal": replace(
        FAMILIES["phi3"], config_class="Phi4MultimodalConfig", kv_heads=8, context=131_072
    ),
    "modernbert-decoder": replace(
        FAMILIES["modernbert"], config_class="ModernBertDecoderConfig", encoder=False
    ),
    "gemma4_unified_text": replace(
        FAMILIES["gemma4_text"], config_class="Gemma4UnifiedTextConfig", context=262_144, window=1_024
    ),
    "gemma3n_text": replace(
        FAMILIES["gemma3_text"], config_class="Gemma3nTextConfig", hidden_size=2_048, layers=35,
        kv_heads=2, context=32_768, window=512, period=5, period_key="", scalar=None,
        softmax_scale=1.0, both_sides="", shared_layers=15,
    ),
}  # fmt: skip


def _generated(*, base: Any, block: Any = None, names: Any = None, **own: Any) -> RopeFamily:
    # names: a key of this class alone, by size.
    keys = {size: (key, *getattr(_NAMES, size)) for size, key in (names or {}).items()}
    names = _NAMES._replace(**({} if own["context"] else {"context": ()}) | keys)
    own |= {name: tuple(own[name]) for name in ("also_full", "notes") if name in own}
    own |= {"names": names}
    if isinstance(base, dict):  # by kind of layer, and only in rope_parameters
        bases = {kind: Base(default=value, names=()) for kind, value in base.items()}
        return RopeFamily(bases=bases, blocks=block or {}, **own)
    return RopeFamily(bases=_all_layers(base), blocks={"": block} if block else {}, **own)


FAMILIES = {
    name: _generated(**own) for name, own in json.loads(GENERATED.read_text("utf-8")).items()
} | FAMILIES
