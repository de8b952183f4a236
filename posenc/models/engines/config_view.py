"""A config as readers of engines see it: the raw keys, and the block that transformers 5 hands on."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from posenc.models.family import FAMILIES
from posenc.models.model_config import LayerKind, ModelConfig
from posenc.models.rope_numbers import NEW, OLD
from posenc.models.rope_types import DEFAULT, ROPE_TYPES, SHARE_KEY, THETA, TRAINED
from posenc.schemes.rope import RopeConfig

Block = Mapping[str, Any]
LATENT = "deepseek_v3"
SERVED_BY_TYPE = ("default", "linear", "dynamic", "yarn", "longrope", "llama3")
_WITH_LENGTH = ("yarn", "longrope", "llama3")  # whose block transformers 5 gives the trained length


@dataclass(frozen=True)
class ConfigView:
    """One kind of layer with RoPE of a config.

    content: the keys of the text model, as they stand in the file. scheme: as transformers 5 reads
    them. length: of the text, in tokens. started: the context that a server is started with, None for
    its default.
    """

    model: ModelConfig
    content: Mapping[str, Any]
    kind: LayerKind
    scheme: RopeConfig
    length: int
    started: int | None

    @property
    def model_type(self) -> str:
        """The type by whose class the keys are read."""
        return self.model.read_as

    @property
    def is_latent(self) -> bool:
        """Whether one latent vector is cached for all heads, as in DeepSeek-V3."""
        return self.model_type == LATENT

    @property
    def is_local(self) -> bool:
        """Whether these are the layers of Gemma 3 that have a base of their own and no scaling."""
        return self.model_type == "gemma3_text" and self.kind.block_name == "sliding_attention"

    @property
    def context(self) -> int:
        """max_position_embeddings, or the default of the class."""
        return self.model.context or self.length

    @property
    def rope_type(self) -> str:
        """The rope_type as transformers 5 reads it, "" where it has no word for it."""
        entry = ROPE_TYPES.get(self.scheme.kind)
        return entry.words[0] if entry and entry.words else ""

    @property
    def plain_scale(self) -> float:
        """The softmax scale without the part that a rope block sets."""
        return self.kind.softmax_scale / (self.kind.block_scale or 1.0)

    @cached_property
    def old_block(self) -> Block:
        """The block rope_scaling as it stands in the file, {} without one or in local layers."""
        return {} if self.is_local else dict(self.content.get(OLD) or {})

    @property
    def own_block(self) -> Block:
        """The block that the class takes without one in the config, {} for most classes."""
        rope = FAMILIES.get(self.model_type, {}).get("rope", {})
        block: Block = rope.get("blocks", {}).get("", {})
        return block

    @cached_property
    def standard_block(self) -> Block:
        """The block rope_parameters of these layers after `standardize_rope_params` of transformers 5."""
        block: dict[str, Any] = {}
        if self.rope_type != DEFAULT:
            new = self.content.get(NEW) or {}
            block = dict(new.get(self.kind.block_name) or new or self.old_block or self.own_block)
        block |= {"rope_type": self.rope_type, THETA: self.scheme.base}
        if self.rope_type != DEFAULT:
            block["factor"] = getattr(self.scheme, "factor", 1.0)
        if self.rope_type in _WITH_LENGTH:
            block[TRAINED] = getattr(self.scheme, "trained_length", None)
        return block

    def old_base(self, default: float) -> float:
        """Return the base that stands beside the block in the first generation of keys."""
        name = "rope_local_base_freq" if self.is_local else THETA
        value = self.content.get(name)
        return default if value is None else float(value)

    def width(self, *, reads_share: bool) -> int:
        """Return the rotated width by the keys outside of a block, or of the whole head."""
        if self.is_latent:
            return self.scheme.rotary_dim
        share = self.content.get(SHARE_KEY, 1.0) if reads_share else 1.0
        return int(self.kind.head_dim * share)
