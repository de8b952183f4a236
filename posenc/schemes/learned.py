"""Learned absolute positions: one trainable vector per position, added to the token vectors.

Gehring et al. 2017, arXiv 1705.03122; BERT (Devlin et al. 2018, arXiv 1810.04805); GPT-2. Rows start as
N(0, 0.02). A position past the table is an error.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posenc import fields, limits
from posenc.device import float64_device, resolve_device
from posenc.errors import ConfigError, PositionOutOfRange, SchemeArgumentError
from posenc.hook_arguments import Positions, Tokens, check_tokens, is_readable, resolve_positions
from posenc.latex import Writer
from posenc.schemes.base import DimOf, Request, SchemeConfig, VectorScheme, rounded
from posenc.schemes.sizes import Sizes
from posenc.schemes.trainable import copy_parameters, drawn_parameter

_ROWS = 256  # drawn at a time: a longer table begins with a shorter one's rows


@dataclass(frozen=True, kw_only=True)
class LearnedConfig(SchemeConfig):
    """A trained vector per position (Gehring et al. 2017, arXiv 1705.03122; BERT, arXiv 1810.04805).

    dim: width of the vectors, in features (1 to 65,536).
    max_len: rows of the table, one per position (1 to 2,147,483,647).
    source: "random" for an untrained table, a name for `posenc.checkpoints.sources.named_table`, or
        "given" for a table of `Learned.from_table`; the shape of a named table replaces dim and max_len.
    """

    kind: Literal["learned"] = "learned"
    dim: int = fields.IntRange(low=1, high=limits.MAX_DIM, label="Width").field(512)
    max_len: int = fields.IntRange(
        low=1, high=limits.MAX_POSITION, label="Rows of the table"
    ).field(512)
    source: str = fields.Word(
        pattern=rf"random|given|trained|minilm|{limits.TABLE}|{limits.RUN}|.{{1,4096}}\.safetensors",
        in_words="random, given, trained, minilm, the name of a held table or of a run, or the path "
        "of a .safetensors file",
        label="Learned table",
    ).field("random")
    label: ClassVar[str] = "Learned"
    summary: ClassVar[str] = "Adds a trained row per position to the token vectors."
    sizes_used: ClassVar[tuple[str, ...]] = ("dim", "train_length", "learned_source")
    dim_of: ClassVar[DimOf] = "model"

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        rows, source = sizes.learned_rows, sizes.learned_source
        return {"dim": sizes.dim, "max_len": rows, "source": source}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim * self.max_len > limits.MAX_TABLE_ELEMENTS:
            raise ConfigError(
                f"LearnedConfig.max_len times dim must be at most {limits.MAX_TABLE_ELEMENTS:,}, got "
                f"{self.max_len:,} x {self.dim:,}."
            )

    @property
    def uses(self) -> tuple[str, ...]:
        # A named table has a shape of its own.
        return (*super().uses, "seed") if self.source == "random" else ("learned_source",)

    def formula(self, write: Writer) -> str:
        shape = rf"{write.value('max_len')} \times {write.value('dim')}"
        return rf"{write.entry('j')} = W_{{{write.position},\,j}},\ W \in \mathbb{{R}}^{{{shape}}}"

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> "Learned":
        if self.source == "given":
            raise SchemeArgumentError(
                "this config describes a table that was given; make it again with Learned.from_table."
            )
        if self.source != "random":
            from posenc.checkpoints.sources import named_table  # most schemes read no files

            named = named_table(self.source)
            scheme = Learned.from_table(named.table, named.provenance, source=self.source)
            return scheme.to(resolve_device(device))
        limits.check_seed(seed)
        # On the CPU by a generator of its own: the same table on every device.
        generator = torch.Generator("cpu").manual_seed(seed)
        blocks = [
            drawn_parameter(generator, _ROWS, self.dim) for _ in range(-(-self.max_len // _ROWS))
        ]
        weight = torch.cat(blocks)[: self.max_len].detach()
        weight = weight.to(resolve_device(device))
        scheme = Learned(self, weight, f"random start, seed {seed}, untrained")
        scheme.seed = seed
        return scheme


class Learned(VectorScheme):
    """Adds row p of a trainable table to the token at position p.

    Past the table it raises PositionOutOfRange, or adds NaN on accelerators, in compiled graphs and where
    torch.func maps positions.
    """

    config: LearnedConfig
    stationary = False
    seed: int = 0

    def __init__(
        self, config: LearnedConfig, weight: Float[Tensor, "n d"], provenance: str
    ) -> None:
        super().__init__(config)
        self.weight = nn.Parameter(weight)
        self.max_length = config.max_len
        self.provenance = provenance
        self.untrained = config.source == "random"

    @classmethod
    def from_table(
        cls, table: Float[Tensor, "n d"], provenance: str, *, source: str = "given"
    ) -> Self:
        """Return the scheme of a trained table; source: its name for `LearnedConfig.source`."""
        if table.dim() != 2 or 0 in table.shape or not table.is_floating_point():
            raise SchemeArgumentError(
                "a learned table has the shape (positions, width) and a floating dtype, "
                f"got {tuple(table.shape)} of {table.dtype}."
            )
        config = LearnedConfig(dim=table.shape[1], max_len=table.shape[0], source=source)
        return cls(config, table.detach().clone(), provenance)

    def reset_parameters(self) -> None:
        """Fill the table with that which `build` gave: drawn by the seed, or a named one.

        For a scheme that was built on the meta device and materialised by `to_empty`. Raises
        SchemeArgumentError for a table that was given.
        """
        copy_parameters(self.config.build(device="cpu", seed=self.seed), self)

    def embed(self, x: Tokens, positions: Positions = None) -> Tokens:
        check_tokens(x, self.config.dim, positions)
        if positions is None:
            self._check_range(0, x.shape[-2] - 1)
            return x + self.weight[: x.shape[-2]].to(x.dtype)
        rows = resolve_positions(positions, x.shape[-2], x)
        if is_readable(positions):
            if positions.numel():
                self._check_range(int(positions.min()), int(positions.max()))
            return x + functional.embedding(rows, self.weight).to(x.dtype)
        inside = (rows >= 0) & (rows < self.config.max_len)
        vectors = functional.embedding(rows.clamp(0, self.config.max_len - 1), self.weight)
        return x + torch.where(inside[..., None], vectors, torch.nan).to(x.dtype)

    def vectors(self, request: Request) -> Float[Tensor, "n d"]:
        stop = request.start + request.length
        self._check_range(request.start, stop - 1)
        rows = self.weight[request.start : stop].detach()
        device = rows.device if request.device is None else request.device
        return rounded(rows.to(float64_device(device)).to(torch.float64), request.dtype)

    def _check_range(self, first: int, last: int) -> None:
        if first < 0 or last >= self.config.max_len:
            position = first if first < 0 else last
            raise PositionOutOfRange(
                f"The learned table has rows for positions 0 to {self.config.max_len - 1:,}; "
                f"position {position:,} has none.",
                limit=self.config.max_len,
            )
