"""Defaults of transformers 5.23's configuration classes with RoPE, for keys that a config leaves out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
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

# Ends of names of layers that use the keys and values of an earlier one, or the tokens its index chose, or
# that add embeddings of the last tokens.
SHARED, SHARED_INDEX, NGRAMS = ", shared cache", ", shared index", ", n-grams"
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
    """The base of a kind of layer; None where the class needs it to be given.

    names: its keys outside of a rope block. bare, bare_names: the same where the config has a block of
    this kind without a base. scaled: whether a first-generation rope_scaling applies to it. fills: whether
    the class fills a kind that is left out beside blocks of others.
    """

    default: float | None
    names: Names = ("rope_theta",)
    bare: float | None
    bare_names: Names = ("rope_theta",)
    scaled: bool = True
    fills: bool = True


@dataclass(frozen=True, kw_only=True)
class RopeFamily(Family):
    """A configuration class of transformers with RoPE; the defaults here are those of LlamaConfig.

    bases, blocks: base, and default rope block, by kind of layer; "" stands for all kinds.
    share: default rotated share of the head; None where the class always rotates the whole head.
    share_names: its keys outside of the rope block. scaled_share: the default where the block scales.
    type_alone: whether `type` in rope_scaling counts without rope_type.
    block_defaults: defaults of keys of a rope block.
    types: aliases of a rope_type. takes: the only rope_types that the class accepts; () for all.
    clockwise: whether the class rotates by minus the angle of a position.
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
    use_bidirectional_attention (flag; or word: all or vision); without it radius where a window of both
    sides counts one of them, width where it counts both and the query, else "".
    latent: keys and values come from one latent vector per token (DeepSeek's MLA). index_word: the class's
    word for layers where an index chooses the keys that a query sees, and has keys of its own.
    value_width: default width of a value where it differs from a key's. windowed_kv: factor on the heads
    of keys and values in layers with a window.
    unrotated: default number of features of such a head that are not rotated.
    no_rope: the config lists layers without RoPE. layer_bases: it may give the base of each layer, 0 for no
    RoPE, under layer_rope_theta.
    rotates: whether layers have RoPE: always, never, or if position_embedding_type is rope ("key").
    state: the name of layers that keep a state, or only see a picture, "" without any; state_size: the rule
    for its numbers, which without `state`, or with a `full_word`, every layer keeps beside its cache.
    full_word: the class's word for full attention; such layers with a window are <word>_sliding.
    query_factor: queries grow with their position by llama_4_scaling_beta of the rope block.
    rotary_key: the key under which the config may give the rotated width, "" without one.
    interleaved_sections: the class interleaves the axes of mrope_section, whatever the config says.
    head_dim_unset: whether an absent head_dim stays null, which fails in some of transformers' scalings.
    global_head_dim: default head width of full attention layers, where it differs.
    shared_layers: default number of last layers that use the keys and values of an earlier one; None
    without that key.
    compressed: default tokens per cache entry, by kind of layer, where layers cache several tokens as one.
    notes: what the layers do in addition to the scheme.
    """

    trained_length: int | None = None
    bases: Mapping[str, Base] = field(
        default_factory=lambda: {"": Base(default=10_000.0, bare=10_000.0)}
    )
    blocks: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    share: float | None = None
    share_names: Names = ("partial_rotary_factor",)
    scaled_share: float | None = None
    type_alone: bool = True
    block_defaults: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    takes: Names = ()
    layout: Layout = "half"
    clockwise: bool = False
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
    both_sides: Literal["", "flag", "word", "radius", "width"] = ""
    latent: bool = False
    index_word: str = ""
    value_width: int | None = None
    windowed_kv: int = 1
    unrotated: int = 128
    no_rope: bool = False
    layer_bases: bool = False
    rope_only_in_windows: bool = False
    rotates: Literal["always", "never", "key"] = "always"
    state: str = ""
    state_size: str = ""
    full_word: str = FULL
    query_factor: bool = False
    rotary_key: str = ""
    interleaved_sections: bool = False
    kv_heads_key: bool = True
    head_dim_key: bool = True
    head_dim_unset: bool = False
    global_head_dim: int | None = None
    shared_layers: int | None = None
    compressed: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def scales_softmax(self) -> bool:
        """Whether the class multiplies its softmax scale by what mscale_all_dim of a rope block says."""
        return self.latent and self.config_class != "Dots3NoteTextConfig"

    def word(self, kind: str) -> str:
        """Return the class's own word for a kind of layer."""
        if kind == INDEXED:
            return self.index_word
        if self.full_word == FULL:
            return kind
        return {FULL: self.full_word, SLIDING: f"{self.full_word}_sliding"}.get(kind, kind)

    def block_name(self, kind: str) -> str:
        """Return the name under which a config has the rope block of a kind of layer."""
        if self.compressed:
            return "compress" if kind in self.compressed else "main"
        return self.word(kind)

    def base_of(self, name: str) -> Base:
        """Return the base of a kind of layer, or of a rope block of that name."""
        base = self.bases.get(name) or self.bases.get(self.block_name(name))
        return base or self.bases.get("") or self.bases[FULL]


def family_of(model_type: str) -> RopeFamily:
    """Return the class of a model type; for an unknown type, one that requires every size."""
    return FAMILIES.get(model_type, _UNKNOWN)


_UNKNOWN = RopeFamily(
    config_class="RopeParameters", hidden_size=None, layers=None, heads=None, context=None,
    share=1.0, windows="if any", no_rope=True,
)  # fmt: skip


def _generated(*, base: Any, block: Any = None, names: Any = None, **own: Any) -> RopeFamily:
    # names: a key of this class alone, by size. base: by kind of layer, or of all.
    keys = {size: (key, *getattr(_NAMES, size)) for size, key in (names or {}).items()}
    own["names"] = _NAMES._replace(**({} if own["context"] else {"context": ()}) | keys)
    lists: dict[str, Any] = {
        name: tuple(value) for name, value in own.items() if isinstance(value, list)
    }
    if defaults := own.pop("block_defaults", None):
        lists["block_defaults"] = {key: tuple(value) for key, value in defaults.items()}
    bases = {}
    for kind, value in (base if isinstance(base, dict) else {"": {"default": base}}).items():
        listed = {key: tuple(names) for key, names in value.items() if key.endswith("names")}
        filled = {"bare": value["default"], "bare_names": listed.get("names", ("rope_theta",))}
        bases[kind] = Base(**filled | value | listed)
    blocks = ({"": block} if "" in bases else block) if block else {}
    return RopeFamily(**own | lists, bases=bases, blocks=blocks)


FAMILIES: dict[str, RopeFamily] = {
    name: _generated(**own) for name, own in json.loads(GENERATED.read_text("utf-8")).items()
}
FAMILIES["kimi_k2"] = FAMILIES["deepseek_v3"]  # its own code is a copy of this class
