"""The frequencies that mistakes in public code make of a scheme, each with its own width."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import ConfigError
from posenc.identification.frequency_fit import (
    Hypothesis,
    Precision,
    by_column,
    fit_line,
    refine,
    roundest_base,
)
from posenc.identification.scalings import USUAL_BASES, changed_scalings, ntk_scalings
from posenc.identification.search import SHIFTED_EXPONENTS, exponent_powers
from posenc.identification.waves import fit_waves
from posenc.limits import MAX_POSITION
from posenc.schemes.rope import RopeConfig, rope_frequencies
from posenc.schemes.rope_scaling.base import RotationRampConfig, ScaledRopeConfig
from posenc.schemes.rope_scaling.ntk import (
    RopeDynamicConfig,
    RopeNtkConfig,
    larger_base_divisors,
)
from posenc.schemes.rope_scaling.proportional import RopeProportionalConfig
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig

_DIVISORS = (2, 3, 4, 5, 6, 8, 10, 16, 32, 64)


Part = Literal["", "cosines", "sines"]


class WrongPair(NamedTuple):
    """A pair that is wrong by itself.

    part: what of it is wrong, "" for both. turns_by: radians per position that make these numbers, negative
    where sines are negated, None if none do. own: the scheme's. largest: the largest difference.
    """

    pair: int
    part: Part
    turns_by: float | None
    own: float
    largest: float


class Mistake(NamedTuple):
    """A mistake in frequencies or columns: a word of `clauses.MISTAKES` and the values that it names."""

    word: str
    values: tuple[RopeConfig | torch.dtype | str | float | WrongPair, ...] = ()


class Variant(NamedTuple):
    """Frequencies and attention factor that a mistake makes; mistake: None for the scheme's own."""

    mistake: Mistake | None
    frequencies: Float[Tensor, " p"]
    factor: float


def variants(scheme: RopeConfig, length: int) -> Iterator[Variant]:
    """Yield a scheme's own frequencies in a text of a length, then those of mistakes in public code."""
    expected, factor = rope_frequencies(scheme, length=length)
    yield Variant(None, expected, factor)
    for mistake, frequencies in _mistakes(scheme, expected, length):
        if len(frequencies) != len(expected) or not torch.equal(frequencies, expected):
            yield Variant(mistake, frequencies, factor)


def other_numbers(scheme: RopeConfig, length: int, bases: Iterable[float]) -> Iterator[Variant]:
    """Yield the frequencies and factors of a scheme with one of its numbers changed.

    bases: others that it may have.
    """
    yield from _other_numbers_of_scaling(scheme, length)
    yield from _divided(scheme, length)
    yield from _other_exponents(scheme, length)
    yield from _other_bases(scheme, length, bases)


def _other_numbers_of_scaling(scheme: RopeConfig, length: int) -> Iterator[Variant]:
    expected, _ = rope_frequencies(scheme, length=length)
    for other, name, value, own in changed_scalings(scheme):
        scaled = other.at_length(length)
        frequencies = scaled.unscaled().inv_freq / scaled.divisors()
        if not torch.equal(frequencies, expected):
            mistake = Mistake("another number", (scheme, name, value, own))
            if name == "truncate":
                mistake = Mistake("ramp ends", (value,))
            yield Variant(mistake, frequencies, other.attention_scaling())


def _other_exponents(scheme: RopeConfig, length: int) -> Iterator[Variant]:
    # Of a base that is scaled, the exponent is that of the larger one.
    larger = isinstance(scheme, RopeNtkConfig)
    plain = rope_frequencies(scheme, length=length)[0] if larger else scheme.unscaled().inv_freq
    dim, factor = scheme.rotary_dim, scheme.attention_scaling()
    of_exponents = [(exponent, plain**power) for exponent, power in exponent_powers(dim)[1:]]
    if dim > 2:
        of_exponents += [
            (exponent, plain * plain[1] ** (shift / 2)) for exponent, shift in SHIFTED_EXPONENTS
        ]
    for exponent, frequencies in of_exponents:
        scaled = frequencies if larger else _scaled(scheme.at_length(length), frequencies)
        yield Variant(Mistake("exponent", (exponent,)), scaled, factor)


def _other_bases(scheme: RopeConfig, length: int, bases: Iterable[float]) -> Iterator[Variant]:
    own = scheme.base
    mistakes: list[tuple[float, ...]] = []
    for base in dict.fromkeys(bases):
        # Of a usual base, no more is said than that: 47 is near the factor that makes 500,000 of 10,000.
        is_usual = base in USUAL_BASES
        scalings = [] if is_usual else ntk_scalings(scheme.rotary_dim, base, [own])
        mistakes += [(scaling.larger_base, own, scaling.factor) for scaling in scalings]
        mistakes += [(base, own)] if base != own else []
    for base, *numbers in mistakes:
        with contextlib.suppress(ConfigError):
            frequencies, factor = rope_frequencies(scheme.replace(base=base), length=length)
            yield Variant(Mistake("another base", (base, *numbers)), frequencies, factor)


def measured_base(
    rough: Hypothesis, table: Float[Tensor, "t c"], precision: Precision
) -> list[float]:
    """Return the base of the fewest digits that the columns of a rotary cache support, [] for none.

    rough: order of columns, position of row 0, size, and the scaling that the cache has, if any.
    """
    columns, waves = rough.arrangement.columns(table.shape[1]), fit_waves(table)
    if rough.config is not None:  # of these frequencies before they were scaled
        divisors = by_column(rough.config.divisors(), columns).nan_to_num(posinf=0.0)
        waves = waves._replace(theta=waves.theta * divisors)
    line = fit_line(waves, columns)
    if line is None:
        return []
    with contextlib.suppress(ConfigError):  # of a base that no scheme has
        refined = refine(rough.with_base(line[0]), table, columns, scaled=False)
        return [roundest_base(refined, table, columns, precision)]
    return []


def _divided(scheme: RopeConfig, length: int) -> Iterator[Variant]:
    """Yield the frequencies of a scheme, all divided by a usual number."""
    expected, factor = rope_frequencies(scheme, length=length)
    for divisor in _DIVISORS:
        yield Variant(Mistake("divided", (divisor,)), expected / divisor, factor)


def axes_in_turn(scheme: RopeSectionsConfig, interleaved: bool) -> list[int]:
    """Return the axis of every pair, dealt out in turn or one section after the other."""
    sizes = scheme.sizes
    if not interleaved:
        return [axis for axis, size in enumerate(sizes) for _ in range(size)]
    count = len(sizes)
    return [m % count if m < count * sizes[m % count] else 0 for m in range(sum(sizes))]


def _mistakes(
    scheme: RopeConfig, expected: Float[Tensor, " p"], length: int
) -> Iterator[tuple[Mistake, Float[Tensor, " p"]]]:
    """Yield the frequencies of mistakes in any scheme. expected: its own in a text of this length."""
    plain = scheme.unscaled().inv_freq
    if isinstance(scheme, ScaledRopeConfig):
        yield from _of_scaling(scheme, expected, plain, length)
    yield from _of_width(scheme, expected, length)
    yield Mistake("exponent", ("m/d",)), plain.sqrt()
    yield Mistake("reversed pairs"), expected.flip(0)
    for dtype in (torch.bfloat16, torch.float16):
        yield Mistake("rounded frequencies", (dtype,)), expected.to(dtype).double()


def _of_scaling(
    scheme: ScaledRopeConfig, expected: Float[Tensor, " p"], plain: Float[Tensor, " p"], length: int
) -> Iterator[tuple[Mistake, Float[Tensor, " p"]]]:
    factor = scheme.factor
    trained = int(getattr(scheme, "trained_length", 0))
    yield Mistake("not scaled", (scheme,)), plain
    yield Mistake("short texts", (length,)), rope_frequencies(scheme, length=1)[0]
    yield Mistake("long texts", (length,)), rope_frequencies(scheme, length=MAX_POSITION)[0]
    yield Mistake("scaled twice", (scheme,)), expected.square() / plain
    yield Mistake("scaled twice", (scheme,)), _scaled(scheme.at_length(length), expected)
    yield Mistake("every frequency divided", (factor, scheme)), plain / factor
    if trained and trained * factor <= MAX_POSITION:
        longer = scheme.replace(trained_length=int(trained * factor))
        other, _ = rope_frequencies(longer, length=length)
        yield Mistake("original length", (int(trained * factor), trained)), other
    if isinstance(scheme, RopeDynamicConfig):
        static = plain / larger_base_divisors(len(plain), factor)
        yield Mistake("static NTK", (factor, length)), static
        reached = min(int(trained * factor), MAX_POSITION)
        yield (
            Mistake("another length", (reached, length)),
            rope_frequencies(scheme, length=reached)[0],
        )


def _scaled(scheme: RopeConfig, frequencies: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
    """Return other frequencies than the scheme's plain ones, scaled as it scales these."""
    if isinstance(scheme, RotationRampConfig):  # which chooses pairs by the frequencies it is given
        return frequencies / scheme.divisors_of(frequencies)
    return frequencies / scheme.divisors() if isinstance(scheme, ScaledRopeConfig) else frequencies


def _of_width(
    scheme: RopeConfig, expected: Float[Tensor, " p"], length: int
) -> Iterator[tuple[Mistake, Float[Tensor, " p"]]]:
    width, head, base = scheme.rotary_dim, scheme.dim, scheme.base
    if width < head:
        whole = _of_features(scheme, head, length)
        yield Mistake("whole head", (head, width)), whole
        yield Mistake("exponents of the head", (head, width)), whole[: width // 2]
    if isinstance(scheme, RopeProportionalConfig):
        rotating = expected[expected > 0]
        count = 2 * len(rotating)
        if 0 < count < width:
            partial = _powers(base, count)
            yield Mistake("partial", (count, width)), partial
            zeros = torch.zeros(len(expected) - len(partial), dtype=torch.float64)
            yield Mistake("partial", (count, width)), torch.cat((partial, zeros))
            yield Mistake("zero pairs left out", (width - count,)), rotating
    half = width // 2
    while half >= 4 and half % 2 == 0:
        yield Mistake("halved width", (half, width)), _of_features(scheme, half, length)
        yield Mistake("first pairs", (half, width)), expected[: half // 2]
        half //= 2


def _of_features(scheme: RopeConfig, width: int, length: int) -> Float[Tensor, " p"]:
    """Return the frequencies of a scheme that rotates heads of a width, plain ones if it cannot."""
    if not isinstance(scheme, RopeProportionalConfig):
        with contextlib.suppress(ConfigError):
            other = scheme.replace(dim=width, partial_rotary_factor=1.0)
            return rope_frequencies(other, length=length)[0]
    return _powers(scheme.base, width)


def _powers(base: float, width: int) -> Float[Tensor, " p"]:
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    powers: Tensor = base**-exponents
    return powers
