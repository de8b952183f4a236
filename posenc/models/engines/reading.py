"""A reading: what one engine makes of the RoPE of one kind of layer, and where its rules were read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from posenc.models.model_config import LayerKind

EngineName = Literal["transformers 5", "transformers 4", "vLLM", "SGLang", "llama.cpp", "MLX"]
# A quantity that decides between LongRoPE's lists: the length of the text, the positions of one step,
# the context that the server is started with, or nothing.
ChosenBy = Literal["", "text", "step", "served", "nothing"]
# The growth of the base under dynamic scaling: with the text, by a fixed amount, or not at all.
Growth = Literal["", "text", "fixed", "none"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The public files of one engine.

    release: the release or the commit that was read. url: the address that the paths continue.
    files: for every model. models: the file of each model type that was read.
    """

    release: str
    url: str
    files: tuple[str, ...]
    models: Mapping[str, str]

    def paths(self, model_type: str) -> tuple[str, ...]:
        """Return the files that a reading of this type rests on."""
        own = self.models.get(model_type)
        return (*self.files, *([own] if own else []))

    def links(self, model_type: str) -> tuple[str, ...]:
        """Return the addresses of these files."""
        return tuple(self.url + path for path in self.paths(model_type))


def _sources() -> dict[str, Source]:
    path = Path(__file__).parents[1] / "data" / "engines.json"
    records = json.loads(path.read_text("utf-8"))
    return {
        name: Source(**record | {"files": tuple(record["files"])})
        for name, record in records.items()
    }


SOURCES: Mapping[str, Source] = _sources()


@dataclass(frozen=True)
class Refusal:
    """A reason for which an engine loads no such config.

    word: "missing" or "type". key: the key that the engine needs, or whose value it does not know.
    """

    word: Literal["missing", "type", "keys"]
    key: str


@dataclass(frozen=True, eq=False, kw_only=True)
class EngineReading:
    """The RoPE of one kind of layer, as one engine has it.

    kind: of the layers. is_read: False where the engine's file for this model type, or its rule for
    this scaling, was not read; then nothing else is set. refused: why the engine loads no such config.
    rope_type: as which it reads the block. base: rope_theta as it has it. inv_freq: (pairs,) radians
    per position, float64, pair 0 first. attention_factor: of the cosines and sines of queries and of
    keys. softmax_scale: of q . k, without the attention factor. context: the most tokens of a sequence
    without an option; None where the engine sets no limit. rows: of its table of cosines; None where
    it computes the angles of every text. factors: LongRoPE's list that is used, "short" or "long".
    chosen_by: what decides between the two. served: the context that decided, where it is that of the
    server's start. growth: of the base under dynamic scaling.
    """

    engine: EngineName
    kind: LayerKind
    is_read: bool = True
    refused: Refusal | None = None
    rope_type: str = ""
    base: float | None = None
    inv_freq: Float[Tensor, " pairs"] | None = None
    attention_factor: float | None = None
    softmax_scale: float | None = None
    context: int | None = None
    rows: int | None = None
    factors: Literal["", "short", "long"] = ""
    chosen_by: ChosenBy = ""
    served: int | None = None
    growth: Growth = ""

    @property
    def release(self) -> str:
        """The release or the commit of the engine."""
        return SOURCES[self.engine].release

    @property
    def has_numbers(self) -> bool:
        """Whether there is anything to compare."""
        return self.is_read and self.refused is None
