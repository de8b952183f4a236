r"""Base of the scalings of RoPE, which divide the frequencies pair by pair; and position interpolation.

Peng et al. 2023, arXiv 2309.00071, section 3.1. Position interpolation (Chen et al. 2023, arXiv
2306.15595, eq. 3) divides every position, and so every frequency, by s: :math:`\theta_m / s`.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import fields, limits
from posenc.errors import ConfigError
from posenc.frequencies import Frequencies
from posenc.latex import Writer
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.sizes import Sizes

FACTOR = fields.FloatRange(
    low=1.0,
    high=limits.MAX_SCALE_FACTOR,
    label="Scale factor",
)
TRAINED_LENGTH = fields.IntRange(
    low=2,
    high=limits.MAX_POSITION,
    label="Trained length",
)
READ_LENGTH = fields.IntRange(
    low=0,
    high=limits.MAX_POSITION,
    label="Length read",
)
ATTENTION_FACTOR = fields.FloatRange(
    low=limits.MIN_ATTENTION_FACTOR,
    high=limits.MAX_ATTENTION_FACTOR,
    or_zero=True,
    label="Attention factor",
)


def rotations_field(default: float, label: str) -> Any:
    """Return the field of a number of rotations within the trained length."""
    rule = fields.FloatRange(low=limits.MIN_TURNS, high=limits.MAX_TURNS, label=label)
    return rule.field(default)


@dataclass(frozen=True, kw_only=True)
class ScaledRopeConfig(RopeConfig):
    """RoPE with a divisor for every frequency.

    factor: how many times the trained length the model is to read (1 to 4,096).

    after_training: whether a factor and the trained length are all that it needs; then the planner compares
        it, by its sources in evidence.toml.
    """

    factor: float = FACTOR.field(4.0)

    after_training: ClassVar[bool] = True
    sizes_used: ClassVar[tuple[str, ...]] = (*RopeConfig.sizes_used, "train_length")

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        # LongRoPE divides by the logarithm of its trained length.
        lengths = {"trained_length": max(sizes.train_length, 2), "length": sizes.length}
        rules = fields.rules(cls)
        return super().shape(sizes) | {n: value for n, value in lengths.items() if n in rules}

    @abstractmethod
    def divisors(self) -> Float[Tensor, " pairs"]:
        """Return the divisor of each frequency, float64."""

    def frequencies(self) -> Frequencies:
        divisors, unscaled = self.divisors(), self.unscaled()
        if bool((divisors == 1).all()):
            return unscaled
        return Frequencies.from_inv_freq(unscaled.inv_freq / divisors)

    @property
    def words(self) -> str:
        return f"{self.scaling_name} by {self.factor:g}"

    @property
    def slowest_divisor(self) -> float:
        """Divisor of the slowest frequency."""
        return self.factor

    @property
    def scaled_length(self) -> float | None:
        """Number of tokens that the scaling reaches, or None."""
        trained = getattr(self, "trained_length", None)
        return None if trained is None else self.factor * trained

    def as_trained(self) -> RopeConfig:
        return RopeConfig(**{name: getattr(self, name) for name in fields.rules(RopeConfig)})

    @classmethod
    def extending(cls, trained: SchemeConfig, length: int, trained_length: int) -> Self | None:
        """Return the scaling of `trained` to a longer `length`, or None.

        None unless `trained` is plain RoPE and the two lengths are in range.
        """
        if type(trained) is not RopeConfig:
            return None
        values = {name: getattr(trained, name) for name in fields.rules(RopeConfig)}
        lengths = {"length": length, "trained_length": trained_length}
        values |= lengths | {"factor": factor_reaching(length, trained_length)}
        try:
            return cls(**{name: values[name] for name in fields.rules(cls) if name in values})
        except ConfigError:
            return None


def factor_reaching(length: int, trained_length: int) -> float:
    """Return length / trained_length, rounded up where the product would fall short of `length`.

    vLLM and SGLang take int(trained_length * factor) for the context. With the nearest float it can be one
    token short: 4,299 * (4,377 / 4,299) is 4,376.999...; with the next larger one it never is.
    """
    factor = length / trained_length
    return factor if trained_length * factor >= length else math.nextafter(factor, math.inf)


def pair_numbers(pairs: int) -> Float[Tensor, " pairs"]:
    """Return 0, 1, ..., pairs - 1 as float64."""
    return torch.arange(pairs, dtype=torch.float64, device="cpu")


def blended(share: Float[Tensor, " pairs"], factor: float) -> Float[Tensor, " pairs"]:
    """Return the divisors of (1 - share) theta / factor + share theta, exact at shares 0 and 1."""
    return factor / ((1 - share) + share * factor)


def blended_formula(write: Writer, share: str, *definitions: str) -> tuple[str, ...]:
    """Return the frequencies of `blended` in LaTeX, and the definition of the share."""
    power, name = write.power("rotary_dim"), rf"\gamma_{write.pair}"
    divided = rf"\frac{{1 - {name}}}{{{write.value('factor')} \cdot {power}}}"
    frequency = rf"{divided} + \frac{{{name}}}{{{power}}}"
    return (frequency, rf"{name} = \min(1, \max(0,\, {share}))", *definitions)


@dataclass(frozen=True, kw_only=True)
class RotationRampConfig(ScaledRopeConfig):
    """RoPE with a ramp over how often each pair rotates in the trained length; a step for equal ends.

    trained_length: positions that the unscaled model was trained on (2 to 2,147,483,647).
    """

    trained_length: int = TRAINED_LENGTH.field(2_048)

    @property
    @abstractmethod
    def ramp(self) -> tuple[str, str]:
        """The fields with the rotations up to which pairs are divided, and from which they are not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = (getattr(self, name) for name in self.ramp)
        if high < low:
            raise ConfigError(
                f"{type(self).__name__}.{self.ramp[1]} must be at least {self.ramp[0]}, got "
                f"{high:g} and {low:g}."
            )

    def divisors(self) -> Float[Tensor, " pairs"]:
        return self.divisors_of(self.unscaled().inv_freq)

    def divisors_of(self, frequencies: Float[Tensor, " pairs"]) -> Float[Tensor, " pairs"]:
        """Return the divisors of frequencies in radians per position, float64."""
        low, high = (getattr(self, name) for name in self.ramp)
        rotations = self.trained_length * frequencies / (2 * math.pi)
        if low == high:  # as in Llama 4 Scout
            return blended((rotations >= low).double(), self.factor)
        return blended(((rotations - low) / (high - low)).clamp(0, 1), self.factor)

    def frequency_formula(self, write: Writer) -> tuple[str, ...]:
        start, end, length = (write.value(name) for name in (*self.ramp, "trained_length"))
        rotations = rf"\frac{{{length}}}{{2 \pi \cdot {write.power('rotary_dim')}}}"
        low, high = (getattr(self, name) for name in self.ramp)
        if low == high:  # 1 where the condition holds, else 0
            return blended_formula(write, rf"\left[ {rotations} \ge {start} \right]")
        return blended_formula(write, rf"\frac{{{rotations} - {start}}}{{{end} - {start}}}")


@dataclass(frozen=True, kw_only=True)
class RopeLinearConfig(ScaledRopeConfig):
    """RoPE with every position divided by one factor (Chen et al. 2023, arXiv 2306.15595, section 2.3).

    factor: how many times the trained length the model is to read; divides every frequency (1 to 4,096).
    """

    kind: str = "rope_linear"

    label: ClassVar[str] = "RoPE linear"
    summary: ClassVar[str] = "RoPE with every position divided by one factor."
    scaling_name: ClassVar[str] = "position interpolation"
    sizes_used: ClassVar[tuple[str, ...]] = RopeConfig.sizes_used

    def frequency_formula(self, write: Writer) -> tuple[str, ...]:
        return (rf"\frac{{1}}{{{write.value('factor')} \cdot {write.power('rotary_dim')}}}",)

    def divisors(self) -> Float[Tensor, " pairs"]:
        return torch.full_like(pair_numbers(self.rotary_dim // 2), self.factor)

    def float32_frequencies(self) -> Float[Tensor, " pairs"]:
        return super().float32_frequencies() / self.factor
