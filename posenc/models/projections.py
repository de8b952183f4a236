"""The query and key projections of one layer of a checkpoint, by head, as the model's config has them.

Only the tensors of that layer are read. How their rows are ordered depends on the class of transformers:

- separate: a matrix for queries and one for keys, head after head.
- grouped: one matrix; per key head its query heads, then the key, then the value (GPT-NeoX, Falcon).
- stacked: one matrix; all queries, then all keys, then all values (Phi-3, ModernBERT, DBRX).
- latent: a head's rotated features are its last ones; the rotated key, of all heads, follows the latent
  vector (DeepSeek-V2 2024, arXiv 2405.04434, section 2.1.3). Only the rotated features are returned.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from posenc.checkpoints.sharded import Checkpoint
from posenc.errors import CheckpointError
from posenc.limits import check_count
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.text import first_of, printable_name

# By the last word of a module's name; the first of a row that a layer has is taken.
_QUERIES = ("q_b_proj", "q_proj", "query")
_KEYS = ("k_proj", "key")
_LATENT_KEYS = ("kv_a_proj_with_mqa",)
_FUSED = ("query_key_value", "Wqkv", "qkv_proj", "qkv")
_NORMS = ("q_norm", "q_layernorm", "query_norm", "query_layernorm", "q_ln")
# Order of the rows of a fused matrix, by model type.
GROUPED = frozenset(("falcon", "gpt_neox", "gpt_neox_japanese", "persimmon", "bloom"))
STACKED = frozenset(("dbrx", "modernbert", "modernbert-decoder", "mpt", "phi3", "phi4_multimodal"))
# Types whose query projection has a gate beside each head, of as many rows.
GATED = frozenset(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"))
_LAYER = re.compile(r"(?P<before>(?:[^.]+\.)*?)(?P<layer>\d+)\.(?P<after>.+)")
# Parts of names of other attention: of images and sound, across two stacks, of an index, of extra heads.
_OTHER = re.compile(r"vision|visual|image|audio|cross|indexer|mtp|encoder_attn", re.IGNORECASE)
_PACKED = re.compile(r"\.(?:qweight|weight_packed|weight_scale|weight_scale_inv|SCB|absmax)$")


class ProjectionsMissing(CheckpointError):
    """The checkpoint names no query and key projections of a layer."""


@dataclass(frozen=True, eq=False)
class Projections:
    """The query and key projections of one layer; the first features of a head are those that rotate.

    queries (heads, features, width), keys (kv_heads, features, width), and their biases, or None.
    scheme: of the layer; of the rotated features alone where these alone are returned.
    softmax_scale: of the layer's logits. normalised: whether the layer normalises queries and keys after
    the projections. tensors: the names of what was read.
    """

    layer: int
    queries: Float[Tensor, "heads features width"]
    keys: Float[Tensor, "kv_heads features key_width"]
    query_bias: Float[Tensor, "heads features"] | None
    key_bias: Float[Tensor, "kv_heads features"] | None
    scheme: SchemeConfig
    softmax_scale: float
    normalised: bool
    tensors: tuple[str, ...]


def read_projections(checkpoint: Checkpoint, model: ModelConfig, layer: int) -> Projections:
    """Return the query and key projections of a layer, counted from 0.

    Raises SchemeArgumentError for a layer that the model has not, and CheckpointError where the layer has
    no attention or the checkpoint projections of another width, as ProjectionsMissing where it has none.
    """
    check_count("layer", layer, 0, model.layers - 1)
    kind = next(kind for kind in model.layer_kinds if layer in kind.layers)
    if kind.scheme is None:
        raise CheckpointError(f"Layer {layer} has no queries and keys. {kind.unsupported}")
    names = _Names.of(checkpoint, layer)
    source = names if kind.facts.source is None else _Names.of(checkpoint, kind.facts.source)
    reader = _Reader(checkpoint, model, kind)
    if fused := names.find(_FUSED):
        queries, keys, biases = reader.fused(fused)
        read = [fused]
    else:
        query, key = names.find(_QUERIES), source.find(_KEYS) or source.find(_LATENT_KEYS)
        if query is None or key is None:
            raise ProjectionsMissing(names.why_none(checkpoint, layer))
        read = [query, key]
        latent = kind.facts.latent
        queries, keys, biases = (
            reader.separate(query, key) if latent is None else reader.latent(query, key, latent)
        )
    scheme = kind.scheme
    if kind.facts.latent is not None and isinstance(scheme, RopeConfig):
        scheme = dataclasses.replace(scheme, dim=scheme.rotary_dim, partial_rotary_factor=1.0)
    return Projections(
        layer, queries, keys, *biases, scheme, kind.softmax_scale, bool(names.find(_NORMS)), tuple(read)
    )  # fmt: skip


def projection_names(names: Iterable[str], layers: Collection[int] | None = None) -> list[str]:
    """Return those names of tensors that `read_projections` reads for some layers, None for all."""
    words = {*_QUERIES, *_KEYS, *_LATENT_KEYS, *_FUSED}
    found = []
    for name in names:
        match = _LAYER.fullmatch(name)
        if match is None or (layers is not None and int(match["layer"]) not in layers):
            continue
        module, _, part = match["after"].rpartition(".")
        if part in ("weight", "bias") and module.rpartition(".")[2] in words:
            found.append(name)
    return found


_Split = tuple[Tensor, Tensor, tuple[Tensor | None, Tensor | None]]


@dataclass(frozen=True)
class _Names:
    """The names of a layer's weights, by the last word of their module."""

    modules: Mapping[str, str]

    @classmethod
    def of(cls, checkpoint: Checkpoint, layer: int) -> "_Names":
        modules: dict[str, list[str]] = {}
        for name in checkpoint.files:
            match = _LAYER.fullmatch(name)
            if match is None or int(match["layer"]) != layer or _OTHER.search(name):
                continue
            module, _, part = match["after"].rpartition(".")
            if part == "weight":
                modules.setdefault(module.rpartition(".")[2], []).append(name)
        for word in (*_QUERIES, *_KEYS, *_LATENT_KEYS, *_FUSED):
            if len(modules.get(word, ())) > 1:
                listed = first_of([printable_name(name) for name in modules[word]], 3)
                raise CheckpointError(f"Layer {layer} has several projections {word}: {listed}.")
        return cls({word: names[0] for word, names in modules.items()})

    def find(self, words: tuple[str, ...]) -> str | None:
        """Return the name of the first of these that the layer has."""
        return next((self.modules[word] for word in words if word in self.modules), None)

    def why_none(self, checkpoint: Checkpoint, layer: int) -> str:
        """Return a sentence on why there are no projections."""
        packed = next((name for name in checkpoint.files if _PACKED.search(name)), None)
        if packed is not None:
            return (
                f"The weights are packed in 8 bits or less, as {printable_name(packed)} shows; "
                "a checkpoint in 16 or 32 bits is read."
            )
        if not checkpoint.files:
            return "The checkpoint holds no tensors."
        names = first_of([printable_name(name, 48) for name in checkpoint.files], 3)
        return (
            f"The checkpoint holds no query and key projections of layer {layer}, such as "
            f"layers.{layer}.self_attn.q_proj.weight; it holds {names}."
        )


@dataclass(frozen=True)
class _Reader:
    """Reads and divides the projections of one kind of layer."""

    checkpoint: Checkpoint
    model: ModelConfig
    kind: LayerKind

    def separate(self, query: str, key: str) -> _Split:
        """Return both from a matrix each; a gate beside each query head is left out."""
        heads, kv_heads, features = self.kind.heads, self.kind.kv_heads, self.kind.head_dim
        gates = 2 if self.model.read_as in GATED else 1
        queries, query_bias = self._by_head(query, heads, gates * features)
        keys, key_bias = self._by_head(key, kv_heads, features)
        if query_bias is not None:
            query_bias = query_bias[:, :features]
        return queries[:, :features], keys, (query_bias, key_bias)

    def fused(self, name: str) -> _Split:
        """Return both from one matrix with the values."""
        heads, kv_heads, features = self.kind.heads, self.kind.kv_heads, self.kind.head_dim
        rows, bias = self._by_head(name, heads + 2 * kv_heads, features)
        read_as, group = self.model.read_as, heads // kv_heads

        def divided(part: Tensor) -> tuple[Tensor, Tensor]:
            if read_as in STACKED:
                return part[:heads], part[heads : heads + kv_heads]
            by_group = part.unflatten(0, (kv_heads, group + 2))
            return by_group[:, :group].flatten(0, 1), by_group[:, group]

        if read_as not in GROUPED | STACKED:
            raise CheckpointError(
                f"The order of the rows of {printable_name(name)}, which has queries, keys and values, is "
                f"not known for the model type {printable_name(read_as)}."
            )
        biases = (None, None) if bias is None else divided(bias)
        return *divided(rows), biases

    def latent(self, query: str, key: str, latent: tuple[int, int, int]) -> _Split:
        """Return the rotated features of every query head and of the one key of all heads."""
        rotated, features, width = latent
        queries, query_bias = self._by_head(query, self.kind.heads, features, None)
        keys, key_bias = self._by_head(key, 1, width + rotated)
        biases = tuple(
            None if bias is None else bias[:, -rotated:] for bias in (query_bias, key_bias)
        )
        return queries[:, -rotated:], keys[:, -rotated:], (biases[0], biases[1])

    def _by_head(
        self, name: str, heads: int, features: int, width: int | None = -1
    ) -> tuple[Tensor, Tensor | None]:
        """Return a matrix and its bias, by head. width: of its inputs; -1 for the model's, None for any."""
        wanted = self.model.hidden_size if width == -1 else width
        shape = self.checkpoint.entry(name).shape
        if len(shape) != 2 or shape[0] != heads * features or wanted not in (None, shape[1]):
            inputs = "" if wanted is None else f" of {wanted:,} inputs"
            raise CheckpointError(
                f"Tensor {printable_name(name)} has the shape {list(shape)}, but the config has "
                f"{heads:,} x {features:,} rows{inputs}: the files are of two models."
            )
        weight = self.checkpoint.read(name).tensor.unflatten(0, (heads, features))
        bias = name.removesuffix("weight") + "bias"
        if bias not in self.checkpoint.files:
            return weight, None
        values = self.checkpoint.read(bias).tensor
        if values.shape != (heads * features,):
            raise CheckpointError(
                f"Tensor {printable_name(bias)} has the shape {list(values.shape)}; {heads * features:,} "
                "numbers were expected."
            )
        return weight, values.unflatten(0, (heads, features))
