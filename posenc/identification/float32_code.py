"""Cosines and sines as code with float32 angles computes them, which is what most models run.

Such code rounds a frequency, then the product of position and frequency: at position p an angle is off by
up to 2e-7 p, by another amount for every way of computing the frequencies. Around one way the numbers of
two libraries differ by no more than their cosines do.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.frequencies import Frequencies
from posenc.identification.columns import Columns
from posenc.identification.frequency_fit import by_column
from posenc.identification.predict import TableRecipe
from posenc.schemes.rope import RopeConfig, float32_powers
from posenc.schemes.rope_scaling import RopeDynamicConfig
from posenc.schemes.sinusoidal import SinusoidalConfig


@dataclass(frozen=True, eq=False)
class Float32Code:
    """One way of computing angles in float32.

    numbers (pairs,): the frequencies, float32, which positions are multiplied by; or, if `divides`, their
    inverses, which positions are divided by. scale: the factor of cosines and sines.
    """

    numbers: Float[Tensor, " p"]
    divides: bool = False
    scale: float = 1.0

    def recipe(self, columns: Columns) -> TableRecipe:
        """Return how the columns of a table are computed."""
        numbers = by_column(self.numbers, columns)
        return TableRecipe(numbers, columns.sines, self.scale, torch.float32, self.divides)


def float32_codes(config: SinusoidalConfig | RopeConfig) -> list[Float32Code]:
    """Return the ways in which public code computes a scheme in float32, that of transformers first.

    config: of a scaling that depends on the length of the text, at that length (`at_length`).
    """
    if isinstance(config, SinusoidalConfig):
        exact, dim, scale = Frequencies.geometric(config.dim, config.base), config.dim, 1.0
        frequencies = [1.0 / float32_powers(config.base, dim)]
    else:
        exact, dim, scale = config.frequencies(), config.rotary_dim, config.attention_scaling()
        frequencies = [config.float32_frequencies()] if config.in_transformers else []
    if isinstance(config, RopeDynamicConfig):
        frequencies.append(_frequencies_of_a_text(config))
    inverses = []
    if isinstance(config, SinusoidalConfig) or type(config) is RopeConfig:
        even = torch.arange(0, dim, 2, dtype=torch.float32, device="cpu")
        frequencies.append(config.base ** (-even / dim))
        frequencies.append((even * (-math.log(config.base) / dim)).exp())
        inverses.append(float32_powers(config.base, dim))
    frequencies.append(exact.inv_freq.float())
    codes = [Float32Code(each, scale=scale) for each in frequencies]
    codes += [Float32Code(each, divides=True, scale=scale) for each in inverses]
    return [code for code in codes if len(code.numbers) == exact.pairs]


def _frequencies_of_a_text(config: RopeDynamicConfig) -> Float[Tensor, " p"]:
    """Return the frequencies that transformers' module makes when a text grows past the trained length.

    It takes the length from a tensor, and so computes the larger base in float32, too.
    """
    trained, dim = config.trained_length, config.float32_rotary_dim
    if config.length <= trained:
        return config.float32_frequencies()
    length = torch.tensor(config.length, device="cpu")
    growth = (config.factor * length / trained) - (config.factor - 1)
    base = config.base * growth ** (0.0 if dim == 2 else dim / (dim - 2))
    even = torch.arange(0, dim, 2, dtype=torch.float32, device="cpu")
    return 1.0 / base ** (even / dim)
