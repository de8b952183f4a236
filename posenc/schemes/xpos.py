r"""xPos: RoPE with an exponential decay in the distance, fastest for the fastest pair.

Sun et al. 2022, A Length-Extrapolatable Transformer, arXiv 2212.10554, section 3 and its code: with
:math:`\zeta_m = (2m/d + \gamma) / (1 + \gamma)`, :math:`\gamma = 0.4`, pair m of a query at position i is
rotated by :math:`i\,\theta_m` and multiplied by :math:`\zeta_m^{(i-o)/B}`, that of a key at j by
:math:`\zeta_m^{-(j-o)/B}`, B = 512. A logit holds :math:`\zeta_m^{(i-j)/B}` and grows towards later keys,
so attention must be causal. Logits do not depend on the origin o, but keys far from it overflow.

Kernel: the expected logit of unit isotropic content q = k at offset k, not symmetric,
:math:`K(k) = \frac{2}{d} \sum_m \zeta_m^{-k/B} \cos(k\,\theta_m)`.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import fields, limits
from posenc.device import float64_device
from posenc.errors import NotStationary, PositionOutOfRange
from posenc.formula import Writer
from posenc.frequencies import Frequencies, Layout
from posenc.hook_arguments import (
    Keys,
    Positions,
    Queries,
    at_least_float32,
    check_tokens,
    resolve_positions,
)
from posenc.rotation import apply_rope
from posenc.schemes.base import (
    BASE,
    EVEN_HEAD_WIDTH,
    Head,
    KernelRequest,
    SchemeConfig,
    rounded,
)
from posenc.schemes.rope import RotaryScheme, for_all_heads
from posenc.tables import cos_sin

GAMMA = 0.4
_HEADROOM = 64.0  # largest entry of a key before scaling


@dataclass(frozen=True, kw_only=True)
class XposConfig(SchemeConfig):
    """Rotation with decay of a head of width `dim`."""

    kind: Literal["xpos"] = "xpos"
    dim: int = fields.ruled(128, EVEN_HEAD_WIDTH)
    base: float = fields.ruled(1e4, BASE)
    scale_base: float = fields.ruled(
        512.0,
        fields.FloatRange(
            low=64.0,
            high=65_536.0,
            label="xPos scale base",
            help="Positions over which the fastest pair shrinks to two sevenths.",
        ),
    )
    origin: int = fields.ruled(
        0,
        fields.IntRange(
            low=0,
            high=limits.MAX_TRAIN_LENGTH,
            grid=(0, 64, 512, 2_048),
            label="xPos origin",
            help="Is not scaled; far from it keys overflow, in float16 soonest.",
        ),
    )

    label: ClassVar[str] = "xPos"
    summary: ClassVar[str] = (
        "Turns queries and keys as RoPE does; a pair counts less the farther back the key."
    )
    paper: ClassVar[str] = "Sun et al. 2022, arXiv 2212.10554"
    shared: ClassVar[dict[str, str]] = {"dim": "rope_width", "base": "base"}

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

    def cos_sin(
        self, positions: Int[Tensor, " *n"], *, sign: int = 1
    ) -> tuple[Float[Tensor, "*n p"], Float[Tensor, "*n p"]]:
        """Return the cosine and sine factors of a query's pairs, of a key's for sign -1, float64."""
        return self._planes(positions, self.config.origin, sign)

    def rotate(
        self, q: Queries, k: Keys, q_positions: Positions = None, k_positions: Positions = None
    ) -> tuple[Queries, Keys]:
        return self._rotated(q, q_positions, 1), self._rotated(k, k_positions, -1)

    def _rotated(self, x: Tensor, positions: Positions, sign: int) -> Tensor:
        check_tokens(x, self.width, positions)
        at = resolve_positions(positions, x.shape[-2], x)
        self._check_range(at, x.dtype)
        wide = at_least_float32(x.dtype)
        cos, sin = (plane.to(wide).to(x.device) for plane in self.cos_sin(at, sign=sign))
        return apply_rope(x, *for_all_heads(cos, sin), layout=self.rotary_layout)

    def farthest(self, dtype: torch.dtype) -> int:
        """Return the largest distance from the origin at which keys fit in a dtype."""
        room = math.log(torch.finfo(dtype).max / _HEADROOM) * self.config.scale_base
        return math.floor(room / -self._log_zeta[0].item())

    def _check_range(self, positions: Int[Tensor, " *n"], dtype: torch.dtype) -> None:
        """Raise PositionOutOfRange where positions on the CPU are too far from the origin."""
        if torch.compiler.is_compiling() or positions.device.type != "cpu" or 0 in positions.shape:
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
        self._check_range(offsets + self.config.origin, torch.float64)  # a distance from it
        return (2 / self.width) * self._planes(offsets, 0, -1)[0].sum(dim=-1)

    def offset_curve(self, request: KernelRequest) -> Float[Tensor, " m"]:
        if request.dtype is not None:
            raise NotStationary(
                f"xPos in {request.dtype} knows more than offsets: use position_kernel."
            )
        return super().offset_curve(request)

    def kernel(self, request: KernelRequest) -> Float[Tensor, "n n"]:
        if request.dtype is None:
            return super().kernel(request)
        positions = request.positions
        self._check_range(positions.cpu(), request.dtype)
        both = (torch.cat(self.cos_sin(positions, sign=sign), -1) for sign in (1, -1))
        q, k = (rounded(rows, request.dtype) for rows in both)
        return (2 / self.width) * q @ k.T

    def _planes(self, at: Tensor, origin: int, sign: int) -> tuple[Tensor, Tensor]:
        """Return cosines and sines times zeta^(sign (at - origin) / B), float64."""
        at = at.to(float64_device(at.device))
        cos, sin = cos_sin(at, self.frequencies, dtype=torch.float64)
        shares = (at - origin).double()[..., None] * (sign / self.config.scale_base)
        scale = (shares * self._log_zeta.to(at.device)).exp()
        return cos * scale, sin * scale
