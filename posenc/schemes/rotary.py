r"""What rotates: pairs of features of queries and keys, turned by a ladder of exact frequencies.

Su et al. 2021, arXiv 2104.09864, eq. 34; the attention factor: Peng et al. 2023, arXiv 2309.00071, eq. 21.
The rotation multiplies a pair by :math:`a\,e^{i p \theta_m}`, a = 1 but for some scalings.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import limits, tables
from posenc.device import float64_device
from posenc.hook_arguments import Positions, at_least_float32, check_tokens
from posenc.layout import Layout
from posenc.offset_maps import pair_matrix
from posenc.phases import Frequencies, Phases
from posenc.rotation import apply_rope, apply_rope_to_both
from posenc.rows import cosine_curve, cosine_sum, rotary_rows
from posenc.schemes.scheme import Head, SchemeConfig, rounded
from posenc.schemes.vector_scheme import VectorScheme


@runtime_checkable
class TurnsPairs(Protocol):
    """A scheme that multiplies pairs of features by cosines and sines of their angles."""

    phases: Phases
    rotary_layout: Layout

    def cos_sin(
        self, positions: Int[Tensor, " *n"]
    ) -> tuple[Float[Tensor, "*n p"], Float[Tensor, "*n p"]]:
        """Return what the pairs of a query are multiplied by, float64."""


class Rotary(VectorScheme):
    """Rotates queries and keys by position. Stores nothing: angles are made where needed.

    attention_factor: what every cosine and sine is multiplied by, of queries and of keys.
    """

    phases: Phases
    rotary_layout: Layout
    kernel_unit = "logit"
    pair_first = "cos"  # the vectors are unit content, rotated; always side by side: see `vectors`

    def __init__(
        self, config: SchemeConfig, *, width: int, frequencies: Frequencies, layout: Layout
    ) -> None:
        super().__init__(config)
        self.width = width
        self.phases, self.attention_factor = frequencies.phases, frequencies.attention_factor
        self.unpaired = width - 2 * self.phases.pairs
        self.rotary_layout = layout

    @property
    def inv_freq(self) -> Float[Tensor, " p"] | None:
        """Inverse frequencies in float64, radians per position, pair 0 the fastest."""
        return self.phases.inv_freq

    def cos_sin(
        self,
        positions: int | Int[Tensor, " *n"],
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> tuple[Float[Tensor, "*n p"], Float[Tensor, "*n p"]]:
        """Return what the pairs of a token are turned by, attention factor included.

        positions: a whole number n stands for 0 .. n-1.
        """
        place = torch.device(device) if device is not None else torch.get_default_device()
        if device is None and not isinstance(positions, int):
            place = positions.device
        return rotary_rows(
            positions, self.phases, dtype=dtype, device=place, scale=self.attention_factor
        )

    def rotate(
        self,
        q: Float[Tensor, "b h q d"],
        k: Float[Tensor, "b g k d"],
        q_positions: Positions = None,
        k_positions: Positions = None,
    ) -> tuple[Float[Tensor, "b h q d"], Float[Tensor, "b g k d"]]:
        if q_positions is not k_positions or q.shape[-2] != k.shape[-2] or q.device != k.device:
            return self.turn(q, q_positions), self.turn(k, k_positions)
        check_tokens(q, self.width, q_positions)
        check_tokens(k, self.width, k_positions)
        cos, sin = self._rows(torch.promote_types(q.dtype, k.dtype), q, q_positions)
        return apply_rope_to_both(q, k, cos, sin, layout=self.rotary_layout)

    def turn(
        self, x: Float[Tensor, "b h n d"], positions: Positions = None
    ) -> Float[Tensor, "b h n d"]:
        """Rotate every feature pair of `x` counter-clockwise by position times inverse frequency."""
        check_tokens(x, self.width, positions)
        cos, sin = self._rows(x.dtype, x, positions)
        return apply_rope(x, cos, sin, layout=self.rotary_layout)

    def _rows(
        self, dtype: torch.dtype, x: Float[Tensor, "b h n d"], positions: Positions
    ) -> tuple[Float[Tensor, "*n p"], Float[Tensor, "*n p"]]:
        """Cosines and sines that turn x, in `dtype` or float32 if that is wider."""
        cos, sin = self.cos_sin(
            x.shape[-2] if positions is None else positions,
            dtype=at_least_float32(dtype),
            device=x.device,
        )
        if cos.dim() == 3:  # one row of positions per batch entry, the same for every head
            cos, sin = cos[:, None], sin[:, None]
        return cos, sin

    def offset_map(
        self, offset: int, *, size: int = 1, head: Head = "mean"
    ) -> Float[Tensor, "d d"] | None:
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
        return (2 * self.attention_factor**2 * cosines + self.unpaired) / self.width

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
        limits.check_table(length, 2 * self.phases.pairs, start)
        at = torch.arange(start, start + length, device=float64_device(device))
        cos, sin = self.cos_sin(at)
        turned = torch.stack((rounded(cos, dtype), rounded(sin, dtype)), dim=-1).flatten(-2)
        untouched = turned.new_full((length, self.unpaired), self.width**-0.5)
        return torch.cat((turned * (2 / self.width) ** 0.5, untouched), dim=-1)
