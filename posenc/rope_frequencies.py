"""The frequencies of a RoPE config and its attention factor, exact or as transformers computes them."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import limits
from posenc.errors import SchemeArgumentError, shown
from posenc.schemes.rope import RopeConfig


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
        found = config.frequencies()
        return found.phases.inv_freq.clone(), found.attention_factor
    if mode != "transformers":
        raise SchemeArgumentError(f"mode must be 'exact' or 'transformers', got {shown(mode)}.")
    with torch.no_grad():
        return config.float32_frequencies(), config.attention_scaling()
