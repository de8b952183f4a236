"""What a model's config.json says of position: one value per kind of layer, and what was assumed.

Lengths are in tokens, widths in numbers.
"""

from dataclasses import dataclass
from typing import Any

from posenc.limits import check_count
from posenc.models import rope_formats
from posenc.models.layers import PlainSizes
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig

MAX_CONTEXT = 2**24  # float32 holds every whole position up to here
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "8 bit": 1}


@dataclass(frozen=True, kw_only=True)
class LayerKind:
    """The layers of a model that encode position in one way.

    name: the config's own word (full_attention, sliding_attention, no_rope), "all" where it has none.
    layers: indices of these layers, from 0.
    scheme: what encodes position here, or None where this version has no such scheme.
    unsupported: where `scheme` is None, one sentence that says what the layers do instead.
    heads, kv_heads: query heads, and heads of keys and values.
    head_dim: width of a query or key that meets in the product, the unrotated part included.
    cache_width: numbers that the cache of one token and one of these layers holds.
    softmax_scale: factor of q . k, without the attention factor of the scheme.
    window: how many tokens a query sees at most, itself included; None for all.
    notes: what the model does that `scheme` does not hold, a sentence each.
    """

    name: str
    layers: tuple[int, ...]
    scheme: SchemeConfig | None
    unsupported: str = ""
    heads: int
    kv_heads: int
    head_dim: int
    cache_width: int
    softmax_scale: float
    window: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def rotary_dim(self) -> int | None:
        """Number of features of a head that are rotated; None without RoPE."""
        return self.scheme.rotary_dim if isinstance(self.scheme, RopeConfig) else None

    def cached_tokens(self, length: int) -> int:
        """Return how many tokens' keys these layers keep to read `length` tokens."""
        return length if self.window is None else min(length, self.window)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A model's position encoding, as its config.json has it.

    model_type: the config's own word, of the text model where several are nested.
    read_as: the model type by whose class the keys were read, as `model_types` has it, "" for Llama's keys
        alone.
    assumption: one sentence where the config would be refused and was read on request: what the numbers
        rest on; "" for any other.
    hidden_size: width of a token vector; heads times head width may differ from it.
    layers: number of layers (of the decoder, where there are two stacks).
    context: how many tokens the config says the model takes; None where it names no such number.
    trained_length: length before scaling, only where the config says it (as
        original_max_position_embeddings): max_position_embeddings is never read as it.
    layer_kinds: one per kind of layer, the one that sees farthest first; together they are all layers.
    assumed: a sentence for every key that was absent or null and the default that was taken.
    notes: what else the config says that bears on position, a sentence each.
    ignored: keys that bear on position and were not read, () unless there is an assumption.
    section: the key of the object that all of this stands in (text_config), "" for the config itself.
    """

    model_type: str
    hidden_size: int
    layers: int
    context: int | None
    trained_length: int | None
    layer_kinds: tuple[LayerKind, ...]
    read_as: str = ""
    assumption: str = ""
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    section: str = ""

    @property
    def main(self) -> LayerKind:
        """The kind of layer that sees farthest: the one that a longer context is about."""
        return self.layer_kinds[0]

    @property
    def heads(self) -> int:
        """Query heads of the main kind of layer."""
        return self.main.heads

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values of the main kind of layer."""
        return self.main.kv_heads

    @property
    def head_dim(self) -> int:
        """Width of a head of the main kind of layer."""
        return self.main.head_dim

    @property
    def rotary_dim(self) -> int | None:
        """Rotated features of a head of the main kind of layer; None without RoPE."""
        return self.main.rotary_dim

    def cache_numbers(self, length: int, *, windows: bool = True) -> int:
        """Return how many numbers the caches of all layers hold for one sequence of `length` tokens.

        windows: whether a layer with a window keeps no more than its window.
        """
        return sum(
            len(kind.layers)
            * kind.cache_width
            * (kind.cached_tokens(length) if windows else length)
            for kind in self.layer_kinds
        )

    def to_rope_parameters(self) -> dict[str, Any]:
        """Return the second generation's `rope_parameters`, per layer type where the config has them.

        Empty for a model without RoPE.
        """
        return rope_formats.second_generation(self.read_as, self._schemes)

    def to_rope_scaling(self) -> dict[str, Any]:
        """Return the first generation's keys of config.json: rope_theta, rope_scaling and their like.

        Empty for a model without RoPE.
        """
        return rope_formats.first_generation(self.read_as, self._schemes)

    @property
    def _schemes(self) -> dict[str, SchemeConfig | None]:
        return {kind.name: kind.scheme for kind in self.layer_kinds}


def uniform_model(
    model_type: str,
    sizes: PlainSizes,
    scheme: SchemeConfig | None,
    *,
    kv_heads: int | None = None,
    is_cached: bool = True,
    softmax_scale: float | None = None,
    layer_notes: tuple[str, ...] = (),
    unsupported: str = "",
    context: int | None = None,
    trained_length: int | None = None,
    notes: tuple[str, ...] = (),
) -> ModelConfig:
    """Return a model whose layers are all alike, by default with keys and values for every head."""
    kv_heads = sizes.heads if kv_heads is None else kv_heads
    kind = LayerKind(
        name="all",
        layers=tuple(range(sizes.layers)),
        scheme=scheme,
        unsupported=unsupported,
        heads=sizes.heads,
        kv_heads=kv_heads,
        head_dim=sizes.head_dim,
        cache_width=2 * kv_heads * sizes.head_dim if is_cached else 0,
        softmax_scale=sizes.head_dim**-0.5 if softmax_scale is None else softmax_scale,
        notes=layer_notes,
    )
    return ModelConfig(
        model_type=model_type,
        hidden_size=sizes.hidden_size,
        layers=sizes.layers,
        context=context,
        trained_length=trained_length,
        layer_kinds=(kind,),
        notes=notes,
    )


def cache_gib(model: ModelConfig, length: int, *, windows: bool = True) -> dict[str, float]:
    """Return GiB (2^30 bytes) of the whole cache of one sequence of `length` tokens, by number type.

    layers x (numbers per token) x tokens x bytes: two times key/value heads times head width of each
    layer, or the latent vector of multi-head latent attention. The scales of an 8-bit cache are not
    counted. windows: whether a layer with a window keeps at most its window, which not every server
    does. Raises SchemeArgumentError for a length outside 1 .. 2^24.
    """
    check_count("length", length, 1, MAX_CONTEXT)
    numbers = model.cache_numbers(length, windows=windows)
    return {name: numbers * size / 2**30 for name, size in _BYTES.items()}


def full_cache_note(model: ModelConfig, length: int) -> str:
    """Return what a cache of every token needs, as a sentence; "" where no layer has a window."""
    windowed, whole = (cache_gib(model, length, windows=on)["bfloat16"] for on in (True, False))
    if windowed == whole:
        return ""
    return (
        f"Layers with a window are counted with their window alone; a server that keeps every token of "
        f"them needs {whole:,.4g} GiB in bfloat16."
    )
