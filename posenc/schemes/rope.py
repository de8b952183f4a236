r"""RoPE: queries and keys turned by an angle proportional to their position.

Su et al. 2021, RoFormer, arXiv 2104.09864, section 3.2.2 and eq. 34. Pair m of a head of rotary
width r is multiplied by :math:`e^{i p \theta_m}`, :math:`\theta_m = b^{-2m/r}`, so a logit depends
on the offset alone. With unit isotropic content q = k the expected logit at offset o is

.. math:: K(o) = \frac{1}{d}\Bigl(2 \sum_m \cos(o\,\theta_m) + d - r\Bigr).

Layout "interleaved" pairs features (2m, 2m+1) as in the paper, GPT-J and the original LLaMA; "half"
pairs (m, m + r/2) as GPT-NeoX and transformers do. Partial rotary (GPT-J, GPT-NeoX, Phi) turns the
first r features with a ladder made for r, and leaves the rest alone.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import fields, limits, tables
from posenc.device import float64_device
from posenc.errors import ConfigError
from posenc.formula import Writer
from posenc.hook_arguments import Positions, check_tokens
from posenc.layout import Layout
from posenc.offset_maps import pair_matrix
from posenc.phases import Phases
from posenc.rotation import apply_rope, apply_rope_to_both
from posenc.rows import cosine_curve, cosine_sum, rotary_rows
from posenc.schemes.rope_scaling import SCALINGS, Scaling, Unscaled, stretching
from posenc.schemes.scheme import Head, SchemeConfig, VectorScheme, rounded


@dataclass(frozen=True, kw_only=True)
class RopeConfig(SchemeConfig):
    """Rotary position embedding of a head of width `dim`."""

    kind: Literal["rope"] = "rope"
    dim: int = fields.ruled(
        128, fields.Whole(low=2, high=limits.MAX_DIM, multiple_of=2, label="Head width")
    )
    base: float = fields.ruled(
        10000.0,
        fields.Real(low=limits.MIN_BASE, high=limits.MAX_BASE, closed=False, label="Base"),
    )
    layout: Layout = fields.ruled(
        "interleaved",
        fields.Choice(
            options=("interleaved", "half"),
            label="RoPE layout",
            help="Which features form a pair: neighbours (paper), or m and m + half (GPT-NeoX).",
        ),
    )
    partial_rotary_factor: float = fields.ruled(
        1.0,
        fields.Real(
            low=0.001,
            high=1.0,
            label="RoPE rotated share",
            help="Share of the head width that is rotated; the rest carries no position.",
        ),
    )

    scaling: Scaling = Unscaled()  # noqa: RUF009  (frozen, without fields)

    label: ClassVar[str] = "RoPE"
    summary: ClassVar[str] = "Turns queries and keys by an angle proportional to their position."
    paper: ClassVar[str] = "Su et al. 2021, arXiv 2104.09864"
    shared: ClassVar[dict[str, str]] = {"dim": "rope_width", "base": "base"}

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
        """Number of features that are rotated: the factor times the width, cut to a whole number."""
        # The factor 0.29 of 100 is 28.999999999999996 in binary; what is meant is 29.
        return math.floor(self.dim * self.partial_rotary_factor + 1e-9)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        scaling = dict(record["scaling"])
        return cls(**record | {"scaling": SCALINGS[scaling["kind"]](**scaling)})

    def stretched(self, factor: float) -> dict[str, SchemeConfig]:
        if self.scaling != Unscaled():
            return {}  # stretched already: a second factor would replace the first
        found = stretching(self.rotary_dim, self.base, factor)
        return {scaling.label: self.replace(scaling=scaling) for scaling in found}

    def formula(self, write: Writer) -> str:
        return write.rotation("rotary_dim", self.layout, self.scaling.words)

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> "Rope":
        return Rope(self)


class Rope(VectorScheme):
    """Rotates queries and keys by position. Stores nothing: angles are made where needed."""

    config: RopeConfig
    phases: Phases
    kernel_unit = "logit"
    pair_first = "cos"  # the vectors are unit content, rotated; always side by side: see `vectors`

    def __init__(self, config: RopeConfig) -> None:
        super().__init__(config)
        self.phases = config.scaling.ladder(config.rotary_dim, config.base)
        self.unpaired = config.dim - config.rotary_dim
        self.rotary_layout = config.layout

    @property
    def inv_freq(self) -> Float[Tensor, " p"]:
        """Inverse frequencies in float64, radians per position, pair 0 the fastest."""
        return self.phases.inv_freq

    def rotate(
        self,
        q: Float[Tensor, "b h q d"],
        k: Float[Tensor, "b g k d"],
        q_positions: Positions = None,
        k_positions: Positions = None,
    ) -> tuple[Float[Tensor, "b h q d"], Float[Tensor, "b g k d"]]:
        if q_positions is not k_positions or q.shape[-2] != k.shape[-2] or q.device != k.device:
            return self.turn(q, q_positions), self.turn(k, k_positions)
        check_tokens(q, self.config.dim, q_positions)
        check_tokens(k, self.config.dim, k_positions)
        cos, sin = self._rows(torch.promote_types(q.dtype, k.dtype), q, q_positions)
        return apply_rope_to_both(q, k, cos, sin, layout=self.config.layout)

    def turn(
        self, x: Float[Tensor, "b h n d"], positions: Positions = None
    ) -> Float[Tensor, "b h n d"]:
        """Rotate every feature pair of `x` counter-clockwise by position times inverse frequency."""
        check_tokens(x, self.config.dim, positions)
        cos, sin = self._rows(x.dtype, x, positions)
        return apply_rope(x, cos, sin, layout=self.config.layout)

    def _rows(
        self, dtype: torch.dtype, x: Float[Tensor, "b h n d"], positions: Positions
    ) -> tuple[Float[Tensor, "*n p"], Float[Tensor, "*n p"]]:
        """Cosines and sines that turn x, in `dtype` or float32 if that is wider."""
        cos, sin = rotary_rows(
            x.shape[-2] if positions is None else positions,
            self.phases,
            dtype=torch.promote_types(dtype, torch.float32),
            device=x.device,
        )
        if cos.dim() == 3:  # one row of positions per batch entry, the same for every head
            cos, sin = cos[:, None], sin[:, None]
        return cos, sin

    def offset_map(
        self, offset: int, *, size: int = 1, head: Head = "mean"
    ) -> Float[Tensor, "d d"]:
        """Return M_k: per pair [cos; sin] -> [[cos a, -sin a], [sin a, cos a]] [cos; sin]."""
        cos, sin = tables.cos_sin(torch.tensor(offset), self.phases, dtype=torch.float64)
        return pair_matrix(cos, sin, "interleaved", "cos", self.unpaired)

    def offset_kernel(
        self,
        offsets: Int[Tensor, " *n"],
        head: Head = "mean",
        dtype: torch.dtype | None = None,
    ) -> Float[Tensor, " *n"]:
        return self._expected_logit(cosine_sum(offsets, self.phases))

    def half_curve(self, length: int, device: torch.device) -> Float[Tensor, " n"]:
        return self._expected_logit(cosine_curve(length, self.phases, device))

    def _expected_logit(self, cosines: Float[Tensor, " *n"]) -> Float[Tensor, " *n"]:
        """Return K from the sum of cosines: every pair adds two of them, the untouched tail its width."""
        return (2 * cosines + self.unpaired) / self.config.dim

    def vectors(
        self,
        length: int,
        *,
        head: Head = "mean",
        start: int = 0,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "n d"]:
        self.check_kernel_request(length, head)
        width, rotary = self.config.dim, self.config.rotary_dim
        limits.check_table(length, rotary, start)
        at = torch.arange(start, start + length, device=float64_device(device))
        cos, sin = tables.cos_sin(at, self.phases, dtype=torch.float64)
        turned = torch.stack((rounded(cos, dtype), rounded(sin, dtype)), dim=-1).flatten(-2)
        untouched = turned.new_full((length, width - rotary), width**-0.5)
        return torch.cat((turned * (2 / width) ** 0.5, untouched), dim=-1)
