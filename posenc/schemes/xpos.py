r"""xPos: RoPE with an exponential decay in the distance, fastest for the fastest pair.

Sun et al. 2022, arXiv 2212.10554, section 3 and its code: with :math:`\zeta_m = (2m/d + \gamma) / (1 +
\gamma)`, :math:`\gamma = 0.4`, B = 512, pair m of a query at position i is multiplied by
:math:`\zeta_m^{(i-o)/B}`, that of a key at j by :math:`\zeta_m^{-(j-o)/B}`. Logits grow towards later
keys, so attention must be causal, and do not depend on the origin o, but keys far from it overflow.
Kernel: the expected logit of unit isotropic content q = k, not symmetric,
:math:`K(k) = \frac{2}{d} \sum_m \zeta_m^{-k/B} \cos(k\,\theta_m)`.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import fields, limits
from posenc.device import float64_device
from posenc.errors import PositionOutOfRange
from posenc.frequencies import Frequencies, Layout
from posenc.hook_arguments import Positions, check_whole, is_readable, resolve_positions
from posenc.latex import Writer
from posenc.schemes.base import (
    BASE,
    EVEN_HEAD_WIDTH,
    DimOf,
    Head,
    Request,
    SchemeConfig,
    rounded,
)
from posenc.schemes.rope import At, RotaryScheme, Rows
from posenc.schemes.sizes import Sizes
from posenc.tables import cos_sin

GAMMA = 0.4
_HEADROOM = 64.0  # largest entry of a key before scaling


@dataclass(frozen=True, kw_only=True)
class XposConfig(SchemeConfig):
    """RoPE whose pairs decay with the distance (Sun et al. 2022, arXiv 2212.10554, section 3).

    dim: width of a head, in features (even, 2 to 65,536).
    base: pair m rotates by base^(-2m/dim) radians per position (above 1, at most 1e12).
    scale_base: positions over which the fastest pair shrinks to two sevenths (64 to 65,536).
    origin: position that is not scaled; far from it keys overflow, in float16 soonest (0 to 1,048,576).
    """

    kind: Literal["xpos"] = "xpos"
    dim: int = EVEN_HEAD_WIDTH.field(128)
    base: float = BASE.field(1e4)
    scale_base: float = fields.FloatRange(
        low=64.0,
        high=65_536.0,
        label="xPos scale base",
    ).field(512.0)
    origin: int = fields.IntRange(
        low=0,
        high=limits.MAX_TRAIN_LENGTH,
        label="xPos origin",
    ).field(0)

    label: ClassVar[str] = "xPos"
    summary: ClassVar[str] = (
        "Rotates queries and keys as RoPE does; a pair counts less the farther back the key is."
    )
    sizes_used: ClassVar[tuple[str, ...]] = ("dim", "heads", "equal_width", "base")
    dim_of: ClassVar[DimOf] = "head"

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"dim": sizes.rotary_width, "base": sizes.base}

    def formula(self, write: Writer) -> str:
        zeta = rf"\zeta_{write.pair}"
        pair = rf"2{write.pair}/{write.value('dim')}"
        lines = [
            rf"\frac{{1}}{{{write.power('dim')}}}",
            rf"{zeta} = \frac{{{pair} + {GAMMA}}}{{{1 + GAMMA}}}",
            r"\text{the other sign for keys}",
        ]
        share = rf"({write.position} - {write.value('origin')})/{write.value('scale_base')}"
        return write.rotation("interleaved", "dim", lines, rf"{zeta}^{{+{share}}}\,")

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> "Xpos":
        return Xpos(self)


class Xpos(RotaryScheme):
    """Rotates and scales queries and keys, each by its own position."""

    config: XposConfig
    rotary_layout: Layout = "interleaved"
    no_vectors = "its kernel shrinks towards earlier keys and grows towards later ones"

    def __init__(self, config: XposConfig) -> None:
        super().__init__(config)
        self.width = config.dim
        self.frequencies = Frequencies.geometric(config.dim, config.base)
        pairs = torch.arange(self.frequencies.pairs, dtype=torch.float64, device="cpu")
        # A plain attribute, not a buffer: casting a model must not round it.
        self._log_zeta = ((2 * pairs / config.dim + GAMMA) / (1 + GAMMA)).log()

    def rows(self, at: At, dtype: torch.dtype, device: torch.device, sign: int = 1) -> Rows:
        place = float64_device(device)
        at = torch.arange(at) if isinstance(at, int) else at.long()
        at = at.to(place)
        decay = self._decay(at - self.config.origin, sign)
        cos, sin = cos_sin(at, self.frequencies, dtype=torch.float64)
        return (cos * decay).to(dtype).to(device), (sin * decay).to(dtype).to(device)

    def _decay(self, distances: Int[Tensor, " *n"], sign: int) -> Float[Tensor, "*n p"]:
        """Return zeta^(sign distance / B), float64."""
        shares = distances.double()[..., None] * (sign / self.config.scale_base)
        return (shares * self._log_zeta.to(distances.device)).exp()

    def _rotated(self, x: Tensor, positions: Positions, sign: int) -> Tensor:
        rotated = super()._rotated(x, positions, sign)
        self._check_range(resolve_positions(positions, x.shape[-2], x), x.dtype)
        return rotated

    def farthest(self, dtype: torch.dtype) -> int:
        """Return the largest distance from the origin at which keys fit in a dtype."""
        room = math.log(torch.finfo(dtype).max / _HEADROOM) * self.config.scale_base
        return math.floor(room / -self._log_zeta[0].item())

    def _check_range(self, positions: Int[Tensor, " *n"], dtype: torch.dtype) -> None:
        """Raise PositionOutOfRange where positions on the CPU are too far from the origin."""
        if not is_readable(positions) or 0 in positions.shape:
            return
        origin, far = self.config.origin, self.farthest(dtype)
        position = max(map(int, positions.aminmax()), key=lambda p: abs(p - origin))
        if abs(position - origin) > far:
            raise PositionOutOfRange(
                f"xPos scales keys beyond what {str(dtype).removeprefix('torch.')} holds at position "
                f"{position:,}; positions from {origin - far:,} to {origin + far:,} are within it.",
                limit=origin + far + 1,
            )

    def offset_kernel(
        self, offsets: Int[Tensor, " *n"], head: Head = "mean", dtype: torch.dtype | None = None
    ) -> Float[Tensor, " *n"]:
        check_whole("offsets", offsets)
        self._check_range(offsets + self.config.origin, torch.float64)  # a distance from it
        cos, _ = cos_sin(offsets, self.frequencies, dtype=torch.float64)
        return (2 / self.width) * (cos * self._decay(offsets, -1)).sum(dim=-1)

    def kernel(self, request: Request) -> Float[Tensor, "n n"]:
        if request.dtype is None:
            return super().kernel(request)
        at = request.positions
        self._check_range(at.cpu(), request.dtype)
        tables = (self.rows(at, torch.float64, at.device, sign) for sign in (1, -1))
        q, k = (rounded(torch.cat(table, -1), request.dtype) for table in tables)
        return (2 / self.width) * q @ k.T
