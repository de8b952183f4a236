r"""What all scalings of RoPE share: a ladder of frequencies divided, pair by pair.

Peng et al. 2023, arXiv 2309.00071, section 3.1: a scaling replaces theta_m by h(theta_m) and, in some
variants, multiplies cosines and sines by one attention factor. Each variant is one config in a file
of its own; it says by what every frequency is divided, and the rest follows.

Position interpolation: every frequency divided by the scale factor.

Chen et al. 2023, arXiv 2306.15595, eq. 3: position p of a text s times as long is read as p / s, which
is :math:`\theta_m / s`.
"""

from abc import abstractmethod
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import fields, limits
from posenc.errors import ConfigError
from posenc.formula import Writer
from posenc.frequencies import Frequencies
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig


def factor_field(default: float, help: str = "") -> Any:
    """Return the field of a scale factor s: the context stretched s times."""
    rule = fields.FloatRange(
        low=1.0,
        high=limits.MAX_SCALE_FACTOR,
        label="Scale factor",
        help=help or "How many times the trained length the model is to read.",
    )
    return fields.ruled(default, rule)


def trained_length_field(default: int) -> Any:
    """Return the field of the length that the model was trained on before it was scaled."""
    rule = fields.IntRange(
        low=2,
        high=limits.MAX_POSITION,
        label="Trained length",
        help="Positions that the unscaled model was trained on.",
    )
    return fields.ruled(default, rule)


def read_length_field() -> Any:
    """Return the field of the text's length, of the scalings that depend on it."""
    rule = fields.IntRange(
        low=0,
        high=limits.MAX_POSITION,
        label="Length read",
        help="Length of the text; 0 stands for no more than the trained length.",
    )
    return fields.ruled(0, rule)


@dataclass(frozen=True, kw_only=True)
class ScaledRopeConfig(RopeConfig):
    """RoPE with every frequency divided by a number of its own.

    after_training: whether a factor and the trained length are all it takes to read a trained model so.
    """

    after_training: ClassVar[bool] = True
    shared: ClassVar[dict[str, str]] = RopeConfig.shared | {"trained_length": "scaled_from"}

    @abstractmethod
    def divisors(self) -> Float[Tensor, " pairs"]:
        """Return what each frequency is divided by, float64; 1 is a frequency that is kept."""

    @property
    def words(self) -> str:
        factor = getattr(self, "factor", None)
        return self.reading if factor is None else f"{self.reading} by {factor:g}"

    def frequencies(self) -> Frequencies:
        divisors = self.divisors()
        plain = super().frequencies()
        if bool((divisors == 1).all()):
            return plain
        return Frequencies.from_inv_freq(plain.inv_freq / divisors)

    @classmethod
    def extending(cls, trained: SchemeConfig, length: int, trained_length: int) -> Self | None:
        """Return the config that reads weights of `trained` at a longer `length`.

        None, unless `trained` is plain RoPE and the two lengths are all that this scaling needs.
        """
        if type(trained) is not RopeConfig or not cls.after_training:
            return None
        values = {name: getattr(trained, name) for name in fields.rules(RopeConfig)}
        values |= {"factor": length / trained_length, "trained_length": trained_length}
        values |= {"length": length}
        names = {field.name for field in dataclass_fields(cls)}
        try:
            return cls(**{name: value for name, value in values.items() if name in names})
        except ConfigError:
            return None  # a factor or a length that this scaling does not have

    def stretch(self, length: int) -> float | None:
        factor: float | None = getattr(self, "factor", None)
        return factor

    @property
    def made_for(self) -> float | None:
        factor, trained = getattr(self, "factor", None), getattr(self, "trained_length", None)
        return None if factor is None or trained is None else float(factor * trained)

    def as_trained(self) -> RopeConfig:
        return RopeConfig(
            **{name: getattr(self, name) for name in fields.rules(RopeConfig)},
        )


def blended(kept: Float[Tensor, " pairs"], factor: float) -> Float[Tensor, " pairs"]:
    """Return the divisors that keep a share of each frequency and divide the rest by the factor.

    theta' = (1 - kept) theta / s + kept theta; a share of 1 is divided by 1, of 0 by s, exactly.
    """
    return factor / ((1 - kept) + kept * factor)


def blended_formula(write: Writer, *kept: str) -> tuple[str, ...]:
    """Return the frequencies of `blended`; kept: the share, then what stands in it."""
    power, share = write.power("rotary_dim"), rf"\gamma_{write.pair}"
    rate = rf"\frac{{1 - {share}}}{{{write.value('factor')} \cdot {power}}} + \frac{{{share}}}{{{power}}}"
    return (rate, rf"{share} = \min(1, \max(0,\, {kept[0]}))", *kept[1:])


def pair_numbers(pairs: int) -> Float[Tensor, " pairs"]:
    """Return 0, 1, ..., pairs - 1 as float64."""
    return torch.arange(pairs, dtype=torch.float64, device="cpu")


@dataclass(frozen=True, kw_only=True)
class RopeLinearConfig(ScaledRopeConfig):
    """RoPE with positions, and so frequencies, divided by `factor`."""

    kind: str = "rope_linear"
    factor: float = factor_field(4.0)

    label: ClassVar[str] = "RoPE linear"
    summary: ClassVar[str] = "RoPE with every position divided by one factor."
    paper: ClassVar[str] = "Chen et al. 2023, arXiv 2306.15595"
    reading: ClassVar[str] = "position interpolation"
    shared: ClassVar[dict[str, str]] = RopeConfig.shared

    def rate_formula(self, write: Writer) -> tuple[str, ...]:
        return (rf"\frac{{1}}{{{write.value('factor')} \cdot {write.power('rotary_dim')}}}",)

    def divisors(self) -> Float[Tensor, " pairs"]:
        return torch.full_like(pair_numbers(self.rotary_dim // 2), self.factor)

    def float32_ladder(self, rotary_dim: int) -> Float[Tensor, " pairs"]:
        return super().float32_ladder(rotary_dim) / self.factor
