r"""ALiBi: every logit is lowered in proportion to the distance, with a slope for each head.

Press et al. 2022, arXiv 2108.12409, section 3. With n heads, a power of two, the slopes are
:math:`s_h = 2^{-8h/n}`, h = 1..n; otherwise those of the power of two c below n, followed by every other
slope of 2c. The kernel :math:`K(o) = e^{-s_h |o|}` is positive definite: with :math:`r = e^{-s}`,
:math:`\varphi(0) = e_0,\ \varphi(i) = r\,\varphi(i-1) + \sqrt{1 - r^2}\,e_i`.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import limits
from posenc.device import float64_device, resolve_device, widest_dtype
from posenc.errors import NoPositionVectors, SchemeArgumentError, quoted
from posenc.hook_arguments import check_whole
from posenc.latex import Writer, number
from posenc.schemes.base import HEADS, Head, Request, Scheme, SchemeConfig
from posenc.schemes.sizes import Sizes
from posenc.tables import castable, check_dtype


def alibi_slopes(
    heads: int, *, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
) -> Float[Tensor, " h"]:
    """Return ALiBi's slope of each head, correctly rounded to `dtype`.

    Press et al. 2022, arXiv 2108.12409, section 3 and its public code for other head counts.
    Unit: logits per position. Raises SchemeArgumentError unless 1 <= heads <= 1,024.
    """
    limits.check_count("heads", heads, 1, limits.MAX_HEADS)
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    slopes += [2.0 ** (-4 * h / power) for h in range(1, 2 * (heads - power), 2)]
    check_dtype(dtype)
    exact = torch.tensor(slopes, dtype=torch.float64, device="cpu")
    return exact.to(dtype).to(resolve_device(device))


def alibi_bias(
    q_positions: Int[Tensor, "*b q"], k_positions: Int[Tensor, "*b k"], slopes: Float[Tensor, " h"]
) -> Float[Tensor, " *b h q k"]:
    """Return -slope * |key - query| for every head, in the dtype of `slopes`.

    Press et al. 2022, arXiv 2108.12409, section 3. Unit: logits, added after scaling. Computed in
    float64 and rounded once. Raises SchemeArgumentError unless positions are whole numbers.
    """
    check_whole("q_positions", q_positions)
    check_whole("k_positions", k_positions)
    if not q_positions.dim() or not k_positions.dim():
        raise SchemeArgumentError("positions must be rows, (q,) and (k,) or (batch, ...).")
    if not isinstance(slopes, Tensor) or slopes.dim() != 1 or not slopes.is_floating_point():
        raise SchemeArgumentError("slopes must be one row of floating-point numbers, one per head.")
    # int64, because an offset of uint8 or int8 positions would wrap around.
    offsets = k_positions.long()[..., None, :] - q_positions.long()[..., :, None]
    bias = _bias(offsets, slopes)
    return castable(bias, slopes.dtype).to(slopes.dtype).to(slopes.device).movedim(0, -3)


@dataclass(frozen=True, kw_only=True)
class AlibiConfig(SchemeConfig):
    """Attention with linear biases (Press et al. 2022, arXiv 2108.12409, section 3).

    heads: number of heads; each has a slope of its own, in logits per position (1 to 1,024).
    """

    kind: Literal["alibi"] = "alibi"
    heads: int = HEADS.field(8)

    label: ClassVar[str] = "ALiBi"
    summary: ClassVar[str] = (
        "Lowers every logit in proportion to the distance, each head by its own slope."
    )
    sizes_used: ClassVar[tuple[str, ...]] = ("heads",)

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"heads": sizes.heads}

    def formula(self, write: Writer) -> str:
        head = None if write.head == "mean" or not write.numbers else write.head
        h = "h" if head is None else str(head + 1)
        slope = _slope_formula(self.heads, write, h, head)
        if head is not None:
            slopes = alibi_slopes(self.heads, dtype=torch.float64, device="cpu")
            slope += f" = {number(slopes[head].item())}"
        return (
            rf"{write.bias(h)} = "
            rf"-s_{{{h}}}\,\left|{write.key} - {write.position}\right|,\quad s_{{{h}}} = {slope}"
        )

    def build(self, device: torch.device | str | None = None, seed: int = 0) -> "Alibi":
        return Alibi(self)


class Alibi(Scheme):
    """Adds a linear penalty on distance. It stores nothing."""

    config: AlibiConfig

    def __init__(self, config: AlibiConfig) -> None:
        super().__init__(config)
        self.heads = config.heads
        # A plain attribute, not a buffer: casting a model to bfloat16 must not round the slopes.
        self.slopes = alibi_slopes(config.heads, dtype=torch.float64, device="cpu")

    def offset_bias(self, offsets: Int[Tensor, " *shape"]) -> Float[Tensor, " h *shape"]:
        bias = _bias(offsets, self.slopes.to(offsets.device))
        return bias.to(widest_dtype(offsets.device)).to(offsets.device)

    def offset_map(self, offset: int, size: int = 1, head: Head = "mean") -> Float[Tensor, "m n"]:
        self.check_head(head)
        slope = self.slopes[0 if head == "mean" else head]
        return expanding_shift(math.exp(-slope), size, offset)

    def vectors(self, request: Request) -> Float[Tensor, "n m"]:
        length, head = request.length, request.head
        slopes = self.slopes if head == "mean" else self.slopes[head : head + 1]
        heads = len(slopes)
        if heads * length**2 > limits.MAX_VECTOR_ELEMENTS:
            raise SchemeArgumentError(
                "ALiBi's vectors need a feature per head and position: heads x length squared must be "
                f"at most {limits.MAX_VECTOR_ELEMENTS:,}, got {heads:,} x {length:,} squared."
            )
        if request.dtype is not None:
            raise NoPositionVectors(
                "ALiBi has position vectors for its exact bias only; a rounded bias is no straight "
                "line, and nothing promises vectors for it."
            )
        slopes = slopes.to(float64_device(request.device))[:, None, None]
        steps = torch.arange(length, device=slopes.device)
        back = steps[:, None] - steps[None, :]
        # Row i of a head: r^i at feature 0, then sqrt(1 - r^2) r^(i-j) at feature j <= i.
        powers = torch.exp(-slopes * back.clamp(min=0)) * (back >= 0)
        powers[..., 1:] *= torch.sqrt(-torch.expm1(-2 * slopes))
        return powers.movedim(0, 1).flatten(1) / math.sqrt(heads)


def _slope_formula(heads: int, write: Writer, h: str, head: int | None) -> str:
    """Return the slope of head h in LaTeX; head: its number from 0, None for every head."""
    power = 1 << (heads.bit_length() - 1)
    if heads == power:
        return rf"2^{{-8 \cdot {h}/{write.value('heads')}}}"
    c, n = str(power) if write.numbers else "c", write.value("heads")
    nearest = rf"2^{{-8 \cdot {h}/{c}}}"
    between = rf"2^{{-4 (2 ({h} - {c}) - 1)/{c}}}"
    if head is not None:
        return nearest if head < power else between
    cases = rf"\begin{{cases}} {nearest} & h \le {c} \\ {between} & {c} < h \le {n} \end{{cases}}"
    return cases if write.numbers else cases + r",\quad c = 2^{\lfloor \log_2 n \rfloor}"


def _bias(offsets: Tensor, slopes: Float[Tensor, " h"]) -> Float[Tensor, " h *shape"]:
    """Return -slope * |offset|, float64."""
    device = float64_device(slopes.device)
    # float64 before abs: the least integer of a type has no positive counterpart.
    distances = offsets.to(device).double().abs()
    return torch.einsum("h,...->h...", -slopes.to(device).double(), distances)


def expanding_shift(ratio: float, size: int, offset: int) -> Float[Tensor, "more size"]:
    """Return the exact M_k of an ALiBi head, (size + offset, size), for vectors of `size` dimensions.

    With r = ratio = exp(-slope), M_1 e_0 = r e_0 + sqrt(1 - r^2) e_1 and M_1 e_i = e_(i+1); M_k is its
    k-th power. Raises SchemeArgumentError for a ratio outside [0, 1] or a negative offset.
    """
    if not 0 <= ratio <= 1:
        raise SchemeArgumentError(f"ratio must be from 0 to 1, got {quoted(ratio)}.")
    limits.check_count("size", size, 1, limits.MAX_POSITION)
    limits.check_count("offset", offset, 0, limits.MAX_POSITION)
    limits.check_elements(size + offset, size)
    shift = torch.zeros(size + offset, size, dtype=torch.float64)
    powers = torch.tensor(ratio, dtype=torch.float64) ** torch.arange(offset, -1, -1)
    shift[: offset + 1, 0] = powers
    shift[1 : offset + 1, 0] *= ((1 - ratio) * (1 + ratio)) ** 0.5
    shift[offset + 1 :, 1:].fill_diagonal_(1.0)
    return shift
