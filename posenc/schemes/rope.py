r"""RoPE: queries and keys rotated by an angle proportional to their position.

Su et al. 2021, arXiv 2104.09864, section 3.2.2 and eq. 34. Pair m of a head of rotary width r is
multiplied by :math:`e^{i p \theta_m}`, :math:`\theta_m = b^{-2m/r}`, so a logit depends on the offset
alone. With unit isotropic content q = k the expected logit at offset o is

.. math:: K(o) = \frac{1}{d}\Bigl(2 a^2 \sum_m \cos(o\,\theta_m) + d - r\Bigr).

The attention factor a of a scaling (Peng et al. 2023, arXiv 2309.00071, eq. 21) multiplies cosines and
sines. Layout "interleaved" pairs features (2m, 2m+1) as in the paper, GPT-J and the original LLaMA;
"half" pairs (m, m + r/2) as GPT-NeoX and transformers do. Partial rotary rotates the first r features.
A model that rotates clockwise multiplies by :math:`e^{-i p \theta_m}`, as if offsets had the other sign.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import fields, limits, tables
from posenc.errors import ConfigError, SchemeArgumentError, quoted
from posenc.frequencies import Frequencies, Layout
from posenc.hook_arguments import Keys, Positions, Queries, at_least_float32, check_tokens
from posenc.latex import Writer, number
from posenc.rotation import apply_rope, apply_rope_to_both, pair_matrix
from posenc.schemes.base import (
    BASE,
    EVEN_HEAD_WIDTH,
    DimOf,
    Head,
    Request,
    Scheme,
    SchemeConfig,
    VectorScheme,
    rounded,
)
from posenc.schemes.sizes import Sizes

At = int | Int[Tensor, " *n"]  # positions; n stands for 0 .. n-1
Rows = tuple[Float[Tensor, "*n p"], Float[Tensor, "*n p"]]
# Kinds of RoPE whose frequencies transformers 5.23 computes, in float32; NTK-aware as a larger base.
IN_TRANSFORMERS = frozenset(
    (
        "rope",
        "rope_linear",
        "rope_ntk",
        "rope_dynamic",
        "rope_yarn",
        "rope_longrope",
        "rope_llama3",
        "rope_proportional",
        "rope_sections",
    )
)


@dataclass(frozen=True, kw_only=True)
class RopeConfig(SchemeConfig):
    """Rotary position embedding of queries and keys (Su et al. 2021, arXiv 2104.09864, section 3.2).

    dim: width of a head, in features (even, 2 to 65,536).
    base: pair m rotates by base^(-2m/d) radians per position, where d features rotate (above 1, at most
        1e12).
    layout: which features form a pair: neighbours (interleaved, as in the paper), or m and m + half
        (half, as in GPT-NeoX).
    partial_rotary_factor: share of the head width that rotates; the rest carries no position (0.001 to
        1).
    clockwise: position p turns a pair by minus its angle, as in nanochat. Cosines, sines and the
        position kernel stay the same; a query and a key at offset o have the product of those at -o.
    """

    kind: str = "rope"
    dim: int = EVEN_HEAD_WIDTH.field(128)
    base: float = BASE.field(10000.0)
    layout: Layout = fields.Choice(
        options=("interleaved", "half"),
        label="RoPE layout",
    ).field("interleaved")
    partial_rotary_factor: float = fields.FloatRange(
        low=0.001,
        high=1.0,
        label="RoPE rotated share",
    ).field(1.0)
    clockwise: bool = fields.Flag(label="Clockwise").field(False)

    label: ClassVar[str] = "RoPE"
    summary: ClassVar[str] = "Rotates queries and keys by angles proportional to their positions."
    sizes_used: ClassVar[tuple[str, ...]] = ("dim", "heads", "equal_width", "base")
    dim_of: ClassVar[DimOf] = "head"
    of_models: ClassVar[tuple[str, ...]] = ("clockwise",)

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"dim": sizes.rotary_width, "base": sizes.base}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rotary_dim < 2 or self.rotary_dim % 2:
            raise ConfigError(
                f"RopeConfig.partial_rotary_factor {self.partial_rotary_factor:g} of width "
                f"{self.dim} rotates {self.rotary_dim} features; it must be an even number of 2 "
                "or more."
            )

    @property
    def rotary_dim(self) -> int:
        """Number of features that are rotated."""
        # 0.29 of 100 is 28.999999999999996 in binary; this returns 29.
        return math.floor(self.dim * self.partial_rotary_factor + 1e-9)

    def record(self) -> dict[str, Any]:
        record = super().record()
        if not self.clockwise:
            del record["clockwise"]
        # The names of runs hash this record, which had a scaling when the first runs were trained.
        return record | {"scaling": {"kind": "none"}} if type(self) is RopeConfig else record

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        values = dict(record)
        if cls is RopeConfig and values.pop("scaling", None) not in (None, {"kind": "none"}):
            raise ConfigError("RopeConfig.scaling is a scheme of its own now, such as rope_linear.")
        return super().from_record(values)

    @property
    def float32_rotary_dim(self) -> int:
        """`rotary_dim` as transformers computes it: 28 for 0.29 of 100, a little less in binary."""
        return int(self.dim * self.partial_rotary_factor)

    # A scaling overrides these.

    @property
    def words(self) -> str:
        """The scaling in words, "" for plain RoPE."""
        return ""

    def frequencies(self) -> Frequencies:
        """Return the exact inverse frequencies, fast to slow."""
        return self.unscaled()

    def attention_scaling(self) -> float:
        """Return the factor of cosines and sines."""
        return 1.0

    def float32_frequencies(self) -> Float[Tensor, " pairs"]:
        """Return the frequencies in float32, by the operations of transformers."""
        return 1.0 / float32_powers(self.base, self.float32_rotary_dim)

    def frequency_formula(self, write: Writer) -> tuple[str, ...]:
        """Return a pair's frequency in LaTeX, then the definitions of its symbols."""
        return (rf"\frac{{1}}{{{write.power('rotary_dim')}}}",)

    @property
    def slowest_divisor(self) -> float:
        """Divisor of the slowest frequency; 1 without a scaling."""
        return 1.0

    def as_trained(self) -> "RopeConfig":
        """Return RoPE before any scaling."""
        return self

    def unscaled(self) -> Frequencies:
        """Return the frequencies base^(-2m/r) of RoPE before any scaling."""
        return Frequencies.geometric(self.rotary_dim, self.base)

    @property
    def in_transformers(self) -> bool:
        """Whether transformers computes these frequencies, by `float32_frequencies`."""
        return self.kind in IN_TRANSFORMERS

    def formula(self, write: Writer) -> str:
        scale = self.attention_scaling()
        lines = [*self.frequency_formula(write), *([f"a = {number(scale)}"] if scale != 1 else [])]
        factor = "" if scale == 1 else r"a\,"
        return write.rotation(self.layout, "rotary_dim", lines, factor, clockwise=self.clockwise)

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> "Rope":
        return Rope(self)


class RotaryScheme(Scheme):
    """A scheme that rotates pairs of features of a head of this `width`. It stores nothing."""

    frequencies: Frequencies
    rotary_layout: Layout
    width: int
    clockwise: bool = False
    kernel_unit = "logit"

    def rows(self, at: At, dtype: torch.dtype, device: torch.device, sign: int = 1) -> Rows:
        """Return the cosine and sine factors of a query's pairs, of a key's for sign -1."""
        raise NotImplementedError

    def cos_sin(self, positions: Int[Tensor, " *n"]) -> Rows:
        """Return the cosine and sine factors of a query's pairs, float64."""
        return self.rows(positions, torch.float64, positions.device)

    def rotate(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> tuple[Queries, Keys]:
        return self._rotated(q, q_positions, 1), self._rotated(k, k_positions, -1)

    def _rotated(self, x: Tensor, positions: Positions, sign: int) -> Tensor:
        check_tokens(x, self.width, positions)
        return apply_rope(x, *self._rows_of(x, positions, sign), layout=self.rotary_layout)

    def _rows_of(self, x: Tensor, positions: Positions, sign: int = 1) -> Rows:
        at = x.shape[-2] if positions is None else positions
        cos, sin = self.rows(at, at_least_float32(x.dtype), x.device, sign)
        sin = -sin if self.clockwise else sin
        return (cos[:, None], sin[:, None]) if cos.dim() == 3 else (cos, sin)  # of all heads


class Rope(RotaryScheme, VectorScheme):
    """Rotates queries and keys by position."""

    config: RopeConfig
    pair_first = "cos"

    def __init__(self, config: RopeConfig) -> None:
        super().__init__(config)
        self.width = config.dim
        self.frequencies = config.frequencies()
        self.attention_factor = config.attention_scaling()
        self.unpaired = config.dim - 2 * self.frequencies.pairs
        self.rotary_layout = config.layout
        self.clockwise = config.clockwise

    def rows(self, at: At, dtype: torch.dtype, device: torch.device, sign: int = 1) -> Rows:
        return tables.rotary_rows(
            at, self.frequencies, dtype=dtype, device=device, scale=self.attention_factor
        )

    def rotate(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> tuple[Queries, Keys]:
        check_tokens(q, self.width, q_positions)
        check_tokens(k, self.width, k_positions)
        alike = q.shape[-2] == k.shape[-2] and q.device == k.device and q.dtype == k.dtype
        if q_positions is not k_positions or not alike:
            return super().rotate(q, k, q_positions, k_positions)
        cos, sin = self._rows_of(q, q_positions)
        return apply_rope_to_both(q, k, cos, sin, layout=self.rotary_layout)

    def offset_map(self, offset: int, size: int = 1, head: Head = "mean") -> Tensor | None:
        cos, sin = tables.cos_sin(torch.tensor(offset), self.frequencies, dtype=torch.float64)
        return pair_matrix(cos, sin, "interleaved", "cos", self.unpaired)

    def offset_kernel(
        self, offsets: Int[Tensor, " *n"], head: Head = "mean", dtype: torch.dtype | None = None
    ) -> Float[Tensor, " *n"]:
        cosines = tables.cosine_sum(offsets, self.frequencies)
        return (2 * self.attention_factor**2 * cosines + self.unpaired) / self.width

    def vectors(self, request: Request) -> Float[Tensor, "n d"]:
        limits.check_table(request.length, 2 * self.frequencies.pairs, request.start)
        planes = (rounded(plane, request.dtype) for plane in self.cos_sin(request.positions))
        rotated = torch.stack((*planes,), dim=-1).flatten(-2) * (2 / self.width) ** 0.5
        untouched = rotated.new_full((request.length, self.unpaired), self.width**-0.5)
        return torch.cat((rotated, untouched), dim=-1)


def float32_powers(base: float, rotary_dim: int, pairs: int | None = None) -> Float[Tensor, " n"]:
    """Return base^(2m/rotary_dim) of the first `pairs` in float32, as transformers computes it.

    The number computed at once matters: a processor may round the last of a row differently.
    """
    last = rotary_dim if pairs is None else 2 * pairs
    even = torch.arange(0, last, 2, dtype=torch.float32, device="cpu")
    powers: Tensor = base ** (even / rotary_dim)
    return powers


def rope_frequencies(
    config: RopeConfig,
    *,
    length: int | None = None,
    mode: Literal["exact", "transformers"] = "exact",
) -> tuple[Float[Tensor, " pairs"], float]:
    """Return (inv_freq, attention_factor) of RoPE with any scaling.

    length: of the text, for dynamic NTK and LongRoPE; None is the config's own. mode: "exact" is the
    formula in float64; "transformers" is float32, bit for bit as transformers 5.23 computes it on a CPU.
    inv_freq: (pairs,) in radians per position, pair 0 first. attention_factor multiplies the cosines
    and sines of queries and of keys. Raises SchemeArgumentError.
    """
    if not isinstance(config, RopeConfig):
        raise SchemeArgumentError(
            f"config must be one of RoPE or of a scaling of it, got {quoted(config)}."
        )
    if length is not None:
        limits.check_count("length", length, 1, limits.MAX_POSITION)
        config = config.at_length(length)
    limits.check_choice("mode", mode, ("exact", "transformers"))
    if mode == "exact":
        return config.frequencies().inv_freq.clone(), config.attention_scaling()
    if not config.in_transformers:
        raise SchemeArgumentError(f"transformers has no {config.label}: use mode 'exact'.")
    with torch.no_grad():
        return config.float32_frequencies(), config.attention_scaling()
