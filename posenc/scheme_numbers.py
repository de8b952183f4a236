"""The numbers that a scheme puts in: its rows, its rotary table or its bias, as one matrix.

Which of the three hooks a scheme fills decides what there is: `embed` adds rows (learned, sinusoidal),
`rotate` turns pairs by cosines and sines (RoPE), `offset_bias` adds to logits (ALiBi).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import limits
from posenc.frequencies import Layout, join_pairs
from posenc.schemes.base import (
    Head,
    Request,
    Scheme,
    VectorScheme,
    check_scheme,
    rounded,
)
from posenc.schemes.rope import RotaryScheme


@dataclass(frozen=True, eq=False)
class Encoding:
    """One matrix of numbers, float64, and what its axes and its numbers are.

    values: (n, m): row = position and column = feature, or for a bias (n, n) row = query, column = key.
    unit: "entry of a vector", "cosine or sine" or "logit": numbers of two units do not compare.
    features: name of every column where columns are features, empty for a bias.
    """

    values: Float[Tensor, "n m"]
    unit: str
    features: tuple[str, ...]

    @property
    def is_bias(self) -> bool:
        """Whether columns are key positions instead of features."""
        return not self.features


@torch.no_grad()
def encoding(
    scheme: Scheme, length: int, *, head: Head = "mean", dtype: torch.dtype | None = None
) -> Encoding | None:
    """Return what a scheme puts in at positions 0 .. length - 1, or None for one that puts nothing in.

    Rows that are added to token vectors (entry of a vector); the rotary table, cosine and sine of every
    pair in the scheme's own layout (cosine or sine; of xPos those of queries, which shrink); the bias of
    a head or the mean of all (logit) as the formula gives it: a causal model reads its lower half. dtype:
    None is exact, a float dtype rounds as a model would that holds its table (ALiBi: its bias) in it.
    Raises PositionOutOfRange past a learned table, NoPositionKernel where everything put in depends on
    content, SchemeArgumentError for length or head.
    """
    check_scheme(scheme)
    limits.check_count("length", length, 1, limits.MAX_KERNEL_LENGTH)
    scheme.check_head(head)
    if type(scheme).embed is not Scheme.embed:
        rows = scheme.vectors(Request(config=scheme.config, length=length, dtype=dtype))
        return Encoding(rows, "entry of a vector", feature_names(scheme, rows.shape[1]))
    if isinstance(scheme, RotaryScheme):
        return _rotary_table(scheme, length, dtype)
    bias = scheme.bias_matrix(length, head=head, dtype=dtype)
    return None if bias is None else Encoding(bias, "logit", ())


def feature_names(scheme: Scheme, width: int) -> tuple[str, ...]:
    """Return what each feature of a vector holds: "sin 0", "cos 0", ... of pairs, else its number."""
    if scheme.frequencies is None or not isinstance(scheme, VectorScheme):
        return tuple(str(feature) for feature in range(width))
    first = scheme.pair_first
    second = "cos" if first == "sin" else "sin"
    return _pair_names(width // 2, scheme.pair_layout, first, second)


def _rotary_table(scheme: RotaryScheme, length: int, dtype: torch.dtype | None) -> Encoding:
    """Return the cosine and sine of every pair, side by side or all cosines first."""
    pairs, layout = scheme.frequencies.pairs, scheme.rotary_layout
    limits.check_table(length, 2 * pairs)
    cos, sin = scheme.cos_sin(torch.arange(length, device="cpu"))
    table = join_pairs(rounded(cos, dtype), rounded(sin, dtype), layout)
    return Encoding(table, "cosine or sine", _pair_names(pairs, layout, "cos", "sin"))


def _pair_names(pairs: int, layout: Layout, first: str, second: str) -> tuple[str, ...]:
    if layout == "half":
        return tuple(f"{name} {m}" for name in (first, second) for m in range(pairs))
    return tuple(f"{name} {m}" for m in range(pairs) for name in (first, second))
