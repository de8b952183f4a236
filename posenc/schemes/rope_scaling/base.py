r"""What all scalings of RoPE share: a ladder of frequencies divided, pair by pair.

Peng et al. 2023, arXiv 2309.00071, section 3.1: a scaling replaces theta_m by h(theta_m) and, in some
variants, multiplies cosines and sines by one attention factor. Each variant is one config in a file
of its own; it says by what every frequency is divided, and the rest follows.

Position interpolation: every frequency divided by the scale factor.

Chen et al. 2023, arXiv 2306.15595, eq. 3: position p of a text s times as long is read as p / s, which
is :math:`\theta_m / s`.
"""

import contextlib
import itertools
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import fields, limits
from posenc.errors import ConfigError, SchemeArgumentError
from posenc.formula import Writer
from posenc.frequencies import Frequencies
from posenc.schemes.base import SchemeConfig
from posenc.schemes.known_rope import Block, Evidence, RopeBlock, SeenLadder
from posenc.schemes.rope import RopeConfig

_FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)
_TRAINED = (1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536)


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
    block_types: ClassVar[tuple[str, ...]] = ()

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
    def stretching(cls, trained: SchemeConfig, length: int, trained_length: int) -> Self | None:
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

    @classmethod
    def planned(
        cls, trained: RopeConfig, *, text: int, reach: int, trained_length: int
    ) -> Self | None:
        """Return what reads a text with weights of `trained`, or None where it cannot.

        reach: how many tokens of the text a query sees, which a layer's window limits.
        """
        return cls.stretching(trained, reach, trained_length)

    @classmethod
    def from_block(cls, block: RopeBlock) -> Self:
        raise SchemeArgumentError(f"{cls.label} is read from no rope block.")

    def to_block(self) -> Block | None:
        return None

    def llama_cpp(self) -> str:
        return ""

    def stretch(self, length: int) -> float | None:
        factor: float | None = getattr(self, "factor", None)
        return factor

    @property
    def made_for(self) -> float | None:
        factor, trained = getattr(self, "factor", None), getattr(self, "trained_length", None)
        return None if factor is None or trained is None else float(factor * trained)

    @classmethod
    def like(cls, seen: SeenLadder) -> Iterator[Self]:
        """Yield usual factors of usual trained lengths, and each switch turned over.

        A scaling by a factor alone has a geometric ladder, which is told without being tried; of one
        that moves with the text there is no one table.
        """
        found = dataclass_fields(cls)
        names = {field.name for field in found}
        if not {"factor", "trained_length"} <= names or "length" in names:
            return
        switches: list[dict[str, Any]] = [{}]
        switches += [
            {one.name: not getattr(cls(), one.name)} for one in found if one.type in (bool, "bool")
        ]
        for base, trained, factor, own in itertools.product(
            seen.bases, _TRAINED, _FACTORS, switches
        ):
            given: dict[str, Any] = {"base": base, "trained_length": trained, "factor": factor}
            with contextlib.suppress(ConfigError):
                yield cls(dim=seen.dim, **given, **own)

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
    block_types: ClassVar[tuple[str, ...]] = ("linear",)
    block_keys: ClassVar[tuple[str, ...]] = ("factor",)
    vllm_counts_factor: ClassVar[bool] = True
    evidence: ClassVar[Evidence | None] = Evidence(
        training="fine-tuning",
        statement="LLaMA models trained on 2,048 tokens were extended to 32,768 (x16) by up to 1,000 steps "
        "of fine-tuning. Without it, LLaMA 7B had a perplexity of 16.1 at x4 and 112 at x8, against 7.2 at "
        "its trained length.",
        source="Chen et al. 2023, arXiv 2306.15595, abstract and tables 1 and 3",
        trained_to=16.0,
    )

    @classmethod
    def from_block(cls, block: RopeBlock) -> Self:
        return cls(**block.shared(), factor=block.factor())

    def to_block(self) -> Block | None:
        return {"rope_type": "linear", "factor": self.factor}

    def llama_cpp(self) -> str:
        return f"--rope-scaling linear --rope-scale {self.factor:.10g}"

    @classmethod
    def of_ladder(cls, dim: int, base: float, scale: float) -> Self | None:
        try:
            return cls(dim=dim, base=base, factor=1 / scale)
        except ConfigError:
            return None  # angles that are multiplied

    def rate_formula(self, write: Writer) -> tuple[str, ...]:
        return (rf"\frac{{1}}{{{write.value('factor')} \cdot {write.power('rotary_dim')}}}",)

    def divisors(self) -> Float[Tensor, " pairs"]:
        return torch.full_like(pair_numbers(self.rotary_dim // 2), self.factor)

    def float32_ladder(self, rotary_dim: int) -> Float[Tensor, " pairs"]:
        return super().float32_ladder(rotary_dim) / self.factor
