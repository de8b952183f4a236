r"""RoPE: queries and keys turned by an angle proportional to their position.

Su et al. 2021, RoFormer, arXiv 2104.09864, section 3.2.2 and eq. 34. Pair m of a head of rotary
width r is multiplied by :math:`e^{i p \theta_m}`, :math:`\theta_m = b^{-2m/r}`, so a logit depends
on the offset alone. With unit isotropic content q = k the expected logit at offset o is

.. math:: K(o) = \frac{1}{d}\Bigl(2 a^2 \sum_m \cos(o\,\theta_m) + d - r\Bigr).

Here a is the attention factor of a scaling (posenc/schemes/rope_scaling), 1 of plain RoPE: it multiplies
cosines and sines, of queries and of keys, and so not the features that are left alone.

Layout "interleaved" pairs features (2m, 2m+1) as in the paper, GPT-J and the original LLaMA; "half"
pairs (m, m + r/2) as GPT-NeoX and transformers do. Partial rotary (GPT-J, GPT-NeoX, Phi) turns the
first r features with a ladder made for r, and leaves the rest alone.

What rotates: pairs of features of queries and keys, turned by a ladder of exact frequencies.

Su et al. 2021, arXiv 2104.09864, eq. 34; the attention factor: Peng et al. 2023, arXiv 2309.00071, eq. 21.
The rotation multiplies a pair by :math:`a\,e^{i p \theta_m}`, a = 1 but for some scalings.

The frequencies of a RoPE config and its attention factor, exact or as transformers computes them.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import fields, limits, tables
from posenc.device import float64_device
from posenc.errors import ConfigError, SchemeArgumentError, shown
from posenc.formula import Writer, number
from posenc.frequencies import Frequencies, Layout
from posenc.hook_arguments import Positions, at_least_float32, check_tokens
from posenc.rotation import apply_rope, apply_rope_to_both, pair_matrix
from posenc.schemes.base import BASE, Head, SchemeConfig, VectorScheme, rounded
from posenc.tables import cosine_sum, rotary_rows


@runtime_checkable
class TurnsPairs(Protocol):
    """A scheme that multiplies pairs of features by cosines and sines of their angles."""

    frequencies: Frequencies
    rotary_layout: Layout

    def cos_sin(
        self, positions: Int[Tensor, " *n"]
    ) -> tuple[Float[Tensor, "*n p"], Float[Tensor, "*n p"]]:
        """Return what the pairs of a query are multiplied by, float64."""


class Rotary(VectorScheme):
    """Rotates queries and keys by position. Stores nothing: angles are made where needed.

    attention_factor: what every cosine and sine is multiplied by, of queries and of keys.
    """

    frequencies: Frequencies
    rotary_layout: Layout
    kernel_unit = "logit"
    pair_first = "cos"  # the vectors are unit content, rotated; always side by side: see `vectors`

    def __init__(
        self,
        config: SchemeConfig,
        *,
        width: int,
        frequencies: Frequencies,
        attention_factor: float,
        layout: Layout,
    ) -> None:
        super().__init__(config)
        self.width = width
        self.frequencies, self.attention_factor = frequencies, attention_factor
        self.unpaired = width - 2 * self.frequencies.pairs
        self.rotary_layout = layout

    @property
    def inv_freq(self) -> Float[Tensor, " p"] | None:
        """Inverse frequencies in float64, radians per position, pair 0 the fastest."""
        return self.frequencies.inv_freq

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
            positions, self.frequencies, dtype=dtype, device=place, scale=self.attention_factor
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
        cos, sin = tables.cos_sin(torch.tensor(offset), self.frequencies, dtype=torch.float64)
        return pair_matrix(cos, sin, "interleaved", "cos", self.unpaired)

    def offset_kernel(
        self,
        offsets: Int[Tensor, " *n"],
        head: Head = "mean",
        dtype: torch.dtype | None = None,
    ) -> Float[Tensor, " *n"]:
        return self._expected_logit(cosine_sum(offsets, self.frequencies))

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
        limits.check_table(length, 2 * self.frequencies.pairs, start)
        at = torch.arange(start, start + length, device=float64_device(device))
        cos, sin = self.cos_sin(at)
        turned = torch.stack((rounded(cos, dtype), rounded(sin, dtype)), dim=-1).flatten(-2)
        untouched = turned.new_full((length, self.unpaired), self.width**-0.5)
        return torch.cat((turned * (2 / self.width) ** 0.5, untouched), dim=-1)


@dataclass(frozen=True, kw_only=True)
class RopeConfig(SchemeConfig):
    """Rotary position embedding of a head of width `dim`."""

    kind: str = "rope"
    dim: int = fields.ruled(
        128, fields.IntRange(low=2, high=limits.MAX_DIM, multiple_of=2, label="Head width")
    )
    base: float = fields.ruled(10000.0, BASE)
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
        fields.FloatRange(
            low=0.001,
            high=1.0,
            label="RoPE rotated share",
            help="Share of the head width that is rotated; the rest carries no position.",
        ),
    )

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

    def record(self) -> dict[str, Any]:
        found = super().record()
        # As runs were named while the scaling was a part of RoPE's own config.
        return found | {"scaling": {"kind": "none"}} if type(self) is RopeConfig else found

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        given = dict(record)
        if cls is RopeConfig and given.pop("scaling", None) not in (None, {"kind": "none"}):
            raise ConfigError("RopeConfig.scaling is a scheme of its own now, such as rope_linear.")
        return super().from_record(given)

    @property
    def words(self) -> str:
        """What was done to the ladder, in words; nothing was to plain RoPE's."""
        return ""

    def stretch(self, length: int) -> float | None:
        """Return by what the slowest frequencies are divided in a text of `length`, None for none."""
        return None

    @property
    def made_for(self) -> float | None:
        """How many tokens the scaling reaches, None where it does not say or follows the text."""
        return None

    def as_trained(self) -> "RopeConfig":
        """Return RoPE before any scaling; a ladder that is no scaling of another one stays."""
        return self

    def unscaled(self) -> Frequencies:
        """Return the ladder base^(-2m/r) as it was trained."""
        return Frequencies.geometric(self.rotary_dim, self.base)

    def frequencies(self) -> Frequencies:
        """Return the frequencies that this config turns by."""
        return self.unscaled()

    def attention_scaling(self) -> float:
        """Return what cosines and sines are multiplied by."""
        return 1.0

    @property
    def in_transformers(self) -> bool:
        """Whether transformers computes these frequencies, in float32."""
        return type(self) is RopeConfig or (
            type(self).float32_ladder is not RopeConfig.float32_ladder
        )

    def float32_frequencies(self) -> Float[Tensor, " pairs"]:
        """Return the frequencies as transformers computes them, bit for bit, float32."""
        if not self.in_transformers:
            raise SchemeArgumentError(f"transformers has no {self.label}: use mode 'exact'.")
        # It cuts 0.29 of 100, which is a little less than 29 in binary, to 28.
        return self.float32_ladder(int(self.dim * self.partial_rotary_factor))

    def float32_ladder(self, rotary_dim: int) -> Float[Tensor, " pairs"]:
        """Return the float32 frequencies for this rotary width by the operations of transformers."""
        return 1.0 / float32_powers(self.base, rotary_dim)

    def formula(self, write: Writer) -> str:
        scale = self.attention_scaling()
        lines = [*self.rate_formula(write), *([f"a = {number(scale)}"] if scale != 1 else [])]
        return write.rotation(self.layout, "rotary_dim", lines, "" if scale == 1 else r"a\,")

    def rate_formula(self, write: Writer) -> tuple[str, ...]:
        """Return in LaTeX what a pair's frequency equals, then the definitions of what stands there."""
        return (rf"\frac{{1}}{{{write.power('rotary_dim')}}}",)

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> "Rope":
        return Rope(self)


class Rope(Rotary):
    """Rotates queries and keys of one config."""

    config: RopeConfig

    def __init__(self, config: RopeConfig) -> None:
        super().__init__(
            config,
            width=config.dim,
            frequencies=config.frequencies(),
            attention_factor=config.attention_scaling(),
            layout=config.layout,
        )

    @property
    def inv_freq(self) -> Float[Tensor, " p"]:
        """Inverse frequencies in float64, radians per position, pair 0 the fastest."""
        return self.frequencies.inv_freq


def float32_powers(base: float, rotary_dim: int, pairs: int | None = None) -> Float[Tensor, " n"]:
    """Return base^(2m/rotary_dim) in float32, as transformers computes it, of the first `pairs`.

    How many are computed at once matters: a processor may round the last ones of a row otherwise.
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

    length: of the text, for scalings that depend on it (dynamic NTK, LongRoPE); None is the config's
    own. mode: "exact" is float64, the formula in the config's module; "transformers" is float32, bit
    for bit what transformers 5.23 computes on a CPU (its length a Python number), on which its users'
    models run. inv_freq: (pairs,) in radians per position, pair 0 first. attention_factor multiplies
    the cosines and sines of queries and of keys. Raises SchemeArgumentError.
    """
    if not isinstance(config, RopeConfig):
        raise SchemeArgumentError(
            f"config must be one of RoPE or of a scaling of it, got {shown(config)}."
        )
    if length is not None:
        limits.check_count("length", length, 1, limits.MAX_POSITION)
        config = config.at_length(length)
    if mode == "exact":
        return config.frequencies().inv_freq.clone(), config.attention_scaling()
    if mode != "transformers":
        raise SchemeArgumentError(f"mode must be 'exact' or 'transformers', got {shown(mode)}.")
    with torch.no_grad():
        return config.float32_frequencies(), config.attention_scaling()
