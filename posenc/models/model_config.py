"""A model's position encoding, per kind of layer, and the size of its KV cache."""

import math
from dataclasses import dataclass
from typing import Any

from posenc.limits import check_count
from posenc.models import layer_sentences, rope_writing
from posenc.models.layer_facts import LayerFacts
from posenc.schemes.base import SchemeConfig
from posenc.schemes.query_growth import Growth
from posenc.schemes.rope import RopeConfig
from posenc.text import significant

MAX_CONTEXT = 2**24  # float32 holds every whole position up to here
BLOCK = 16  # tokens that vLLM reserves at once by default
NUMBER_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "8 bit": 1}  # of a cached number


@dataclass(frozen=True, kw_only=True)
class LayerKind:
    """The layers of a model that encode position in the same way.

    facts: what tells them from other layers of the model; name and notes are made of it.
    layers: indices of these layers, from 0.
    scheme: None for layers without attention; `unsupported` then says what they do.
    heads, kv_heads: query heads, and heads of keys and values.
    head_dim: width of a query or key, the unrotated part included.
    cache_width: numbers cached per token and layer. state: numbers kept per sequence and layer.
    softmax_scale: factor of q . k, without the attention factor of the scheme. block_scale: the part of
    it that the rope block sets by mscale_all_dim, None where the class takes none from it.
    window: number of tokens that a query sees at most, itself included; None for all. causal: whether
    later tokens are hidden. chunked: whether the window is the length of chunks of the text. softcap: c of
    the cap c tanh(logit / c), None without one. sinks: whether each head has a logit more in its softmax.
    bias_scale: factor of the scheme's bias. growth: of queries with their positions.
    rows: positions in a table of sines that the class makes and never lengthens; None without one.
    """

    facts: LayerFacts
    layers: tuple[int, ...]
    scheme: SchemeConfig | None
    heads: int
    kv_heads: int
    head_dim: int
    cache_width: int
    softmax_scale: float
    block_scale: float | None = None
    window: int | None = None
    causal: bool = True
    chunked: bool = False
    softcap: float | None = None
    sinks: bool = False
    bias_scale: float = 1.0
    growth: Growth | None = None
    rows: int | None = None
    state: int = 0

    @property
    def name(self) -> str:
        """The config's term (full_attention, sliding_attention, no_rope), or "all"."""
        return layer_sentences.name_of(self.facts)

    @property
    def block_name(self) -> str:
        """The config's own word of these layers, under which a rope block of theirs stands."""
        return self.facts.word

    @property
    def unsupported(self) -> str:
        """The sentence on what layers without a scheme do instead, "" for others."""
        return layer_sentences.unsupported(self.facts, self.state)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the model does in addition to `scheme`."""
        return tuple(layer_sentences.notes_of(self.facts, self.state))

    @property
    def rotary_dim(self) -> int | None:
        """Number of features of a head that are rotated; None without RoPE."""
        return self.scheme.rotary_dim if isinstance(self.scheme, RopeConfig) else None

    def cache_numbers(self, length: int, *, windows: bool = True, block: int = 1) -> int:
        """Return the numbers that these layers cache, or keep as a state, for `length` tokens.

        windows: whether a layer with a window caches only its window. block: tokens that are reserved at
        once; a window may begin inside a block.
        """
        blocks = math.ceil(length / block)
        if windows and self.window:
            blocks = min(blocks, math.ceil((self.window - 1) / block) + 1)
        return len(self.layers) * (self.state + self.cache_width * blocks * block)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A model's position encoding, as its config.json has it.

    model_type: the config's term, of the text model where models are nested.
    read_as: the model type by whose class the keys were read, "" for Llama's keys alone.
    assumption: what was assumed on request, as a sentence, or "".
    hidden_size: width of a token vector; heads times head width may differ from it.
    layers: number of layers (of the decoder, where there are two stacks).
    context: the length in tokens that the config names, or None.
    trained_length: original_max_position_embeddings, or None where the config has no such key.
    layer_kinds: the kinds of layers, the one that sees farthest first.
    assumed: a sentence for every absent or null key that took a default.
    notes: what else the config says about position, a sentence each.
    ignored: keys that bear on position and were not read; () unless there is an assumption.
    section: the key of the nested model (text_config), or "".
    kept: keys that every rope block of the class has beside its scheme, and their values
    (llama_4_scaling_beta of Mistral's).
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
    kept: tuple[tuple[str, float], ...] = ()

    @property
    def main(self) -> LayerKind:
        """The kind of layer that sees farthest."""
        return self.layer_kinds[0]

    @property
    def rotary_kind(self) -> LayerKind:
        """The kind of layer with RoPE that sees farthest; without any, the main kind."""
        rotary = (kind for kind in self.layer_kinds if isinstance(kind.scheme, RopeConfig))
        return next(rotary, self.main)

    def cache_numbers(self, length: int, *, windows: bool = True, block: int = 1) -> int:
        """Return the numbers that all layers keep for one sequence; as `LayerKind.cache_numbers`."""
        return sum(
            kind.cache_numbers(length, windows=windows, block=block) for kind in self.layer_kinds
        )

    def to_rope_parameters(self) -> dict[str, Any]:
        """Return the second generation's `rope_parameters`; {} without RoPE."""
        return rope_writing.second_generation(self.read_as, self._schemes, dict(self.kept))

    def to_rope_scaling(self) -> dict[str, Any]:
        """Return the first generation's rope_theta, rope_scaling and related keys; {} without RoPE."""
        return rope_writing.first_generation(self.read_as, self._schemes, dict(self.kept))

    @property
    def _schemes(self) -> list[tuple[str, SchemeConfig | None]]:
        return [(kind.block_name, kind.scheme) for kind in self.layer_kinds]


def cache_gib(
    model: ModelConfig, length: int, *, windows: bool = True, block: int = 1
) -> dict[str, float]:
    """Return the KV cache of one sequence of `length` tokens in GiB (2^30 bytes), by number type.

    The scales of an 8-bit cache are not counted. windows, block: as in `LayerKind.cache_numbers`. Raises
    SchemeArgumentError for a length outside 1 .. 2^24.
    """
    check_count("length", length, 1, MAX_CONTEXT)
    numbers = model.cache_numbers(length, windows=windows, block=block)
    return {name: numbers * size / 2**30 for name, size in NUMBER_BYTES.items()}


def full_cache_note(model: ModelConfig, length: int) -> str:
    """Return what servers reserve beyond the tokens of windows, and for states; "" if that is no more."""
    tokens, whole, blocks = (
        significant(cache_gib(model, length, windows=windows, block=block)["bfloat16"], 4)
        for windows, block in ((True, 1), (False, 1), (True, BLOCK))
    )
    sentences = []
    if whole != tokens:
        sentences.append(
            "Layers with a window are counted with their window alone; a server that keeps every token of "
            f"them needs {whole} GiB in bfloat16."
        )
    if blocks != tokens:
        sentences.append(
            f"In whole blocks of {BLOCK} tokens, which vLLM reserves by default, it is up to {blocks} GiB "
            "in bfloat16."
        )
    if state := model.cache_numbers(0) * NUMBER_BYTES["bfloat16"]:
        sentences.append(
            f"{significant(state / 2**20, 4)} MiB of the bfloat16 cache is state, whose size does not "
            "grow with the text; transformers and llama.cpp keep it in float32, up to twice as much."
        )
    return " ".join(sentences)
