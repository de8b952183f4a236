r"""T5: a trained bias per bucket of distances and head, the same in all layers.

Raffel et al. 2020, arXiv 1910.10683, section 2.1, and its public code. With n buckets per direction
(causal: every later key is in bucket 0), a distance x below e = floor(n/2) has a bucket of its own;
beyond, buckets grow by a constant ratio up to distance D:

.. math:: e + \Bigl\lfloor \frac{\ln(x/e)}{\ln(D/e)} (n - e) \Bigr\rfloor, \quad \text{at most } n - 1

It is decided in whole numbers; the float32 logarithm of public code can be a bucket off. T5 does not
divide scores by sqrt(d). Kernel: exp(bias), the factor on an attention weight; not symmetric.
"""

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import fields
from posenc.errors import ConfigError
from posenc.hook_arguments import check_whole
from posenc.latex import Writer
from posenc.schemes.base import HEADS
from posenc.schemes.sizes import Sizes
from posenc.schemes.trainable import Trainable, TrainableConfig, drawn_parameter, source_field

MAX_BUCKETS = 1_024
MAX_DISTANCE = 2**20


def t5_buckets(
    offsets: Int[Tensor, " *n"],
    *,
    buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = False,
) -> Int[Tensor, " *n"]:
    """Return the bucket of every offset (key minus query), int64, exactly.

    Raffel et al. 2020, arXiv 1910.10683, section 2.1. Raises SchemeArgumentError for offsets that are
    not whole numbers, ConfigError for other arguments out of range.
    """
    check_whole("offsets", offsets)
    config = T5Config(buckets=buckets, max_distance=max_distance, bidirectional=bidirectional)
    return config.bucket(offsets)


@dataclass(frozen=True, kw_only=True)
class T5Config(TrainableConfig):
    """A trained bias per bucket of distances and head (Raffel et al. 2020, arXiv 1910.10683, section 2.1).

    heads: number of heads, each with its own biases (1 to 1,024).
    buckets: number of buckets; half of them hold one distance each, the others ever more (even, 4 to
        1,024).
    max_distance: distance, in positions, that sets how fast buckets widen; the last begins at or before
        it, at 113 for 32 and 128 in one direction (2 to 1,048,576).
    bidirectional: half of the buckets for later keys, as in T5's encoder.
    """

    kind: Literal["t5"] = "t5"
    heads: int = HEADS.field(8)
    buckets: int = fields.IntRange(
        low=4,
        high=MAX_BUCKETS,
        multiple_of=2,
        label="T5 buckets",
    ).field(32)
    max_distance: int = fields.IntRange(
        low=2,
        high=MAX_DISTANCE,
        label="T5 largest distance",
    ).field(128)
    bidirectional: bool = fields.Flag(
        label="T5 in both directions",
    ).field(False)
    source: str = source_field("T5")

    label: ClassVar[str] = "T5 bias"
    summary: ClassVar[str] = "Adds a trained number per bucket of distances to every logit."
    divided: ClassVar[bool] = False
    in_training: ClassVar[str] = (
        "its biases start near 0, and a step of AdamW moves each by about the learning rate at most, so a "
        "short training does not take them far."
    )
    sizes_used: ClassVar[tuple[str, ...]] = ("heads",)

    @classmethod
    def shape(cls, sizes: Sizes) -> dict[str, Any]:
        return {"heads": sizes.heads}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_distance <= self.exact:
            raise ConfigError(
                f"T5Config.max_distance must be greater than the {self.exact:,} distances that have a "
                f"bucket of their own, got {self.max_distance:,}."
            )

    @property
    def one_way(self) -> int:
        """Number of buckets per direction."""
        return self.buckets // 2 if self.bidirectional else self.buckets

    @property
    def exact(self) -> int:
        """Number of distances per direction with a bucket of their own."""
        return self.one_way // 2

    @property
    def last_bucket_start(self) -> int:
        """The smallest distance in the last bucket of a direction."""
        return _starts(self.one_way, self.max_distance)[-1]

    def bucket(self, offsets: Int[Tensor, " *n"]) -> Int[Tensor, " *n"]:
        """Return the bucket of every offset, key minus query."""
        offsets = offsets.long()  # a distance of uint8 or int8 offsets would wrap around
        boundaries = torch.tensor(_starts(self.one_way, self.max_distance), device=offsets.device)
        distances = offsets.abs() if self.bidirectional else (-offsets).clamp(min=0)
        buckets = torch.bucketize(distances, boundaries, right=True)
        return buckets + self.one_way * (offsets > 0) if self.bidirectional else buckets

    def formula(self, write: Writer) -> str:
        n = rf"{write.value('buckets')}{'/2' if self.bidirectional else ''}"
        e = str(self.exact) if write.numbers else "e"
        x = rf"\max({write.position} - {write.key},\,0)"
        if self.bidirectional:
            x = rf"\left|{write.key} - {write.position}\right|"
        far = (
            rf"\min\left({n} - 1,\ {e} + \left\lfloor \frac{{\ln(x/{e})}}"
            rf"{{\ln({write.value('max_distance')}/{e})}} ({n} - {e}) \right\rfloor\right)"
        )
        later = rf" + {n}\,[\,{write.key} > {write.position}\,]" if self.bidirectional else ""
        return (
            rf"\begin{{gathered}} {write.bias('h')} = W_{{\beta(x){later},\,h}},\quad "
            rf"x = {x}, \\ \beta(x) = \begin{{cases}} x & x < {e} \\ {far} & x \ge {e} "
            r"\end{cases} \end{gathered}"
        )

    def initial(self, generator: torch.Generator) -> "T5":
        return T5(self, generator)


class T5(Trainable):
    """Adds the entry of a trainable table, a row per bucket and a column per head."""

    config: T5Config
    no_vectors = "its kernel is not symmetric"

    def __init__(self, config: T5Config, generator: torch.Generator) -> None:
        super().__init__(config)
        self.heads = config.heads
        self.weight = drawn_parameter(generator, config.buckets, config.heads)

    def offset_bias(self, offsets: Int[Tensor, " *shape"]) -> Float[Tensor, " h *shape"]:
        return self.weight.T.to(offsets.device)[:, self.config.bucket(offsets)]


@functools.lru_cache(maxsize=64)
def _starts(buckets: int, max_distance: int) -> tuple[int, ...]:
    """Return the smallest distance in each bucket of one direction but the first."""
    exact = buckets // 2
    wider = buckets - exact
    starts = list(range(1, exact + 1))
    for step in range(1, wider):
        # The least x with (x / e)^(n - e) >= (D / e)^step, in whole numbers, by halving.
        bound = max_distance**step * exact ** (wider - step)
        low, high = exact, max_distance
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if middle**wider >= bound else (middle + 1, high)
        starts.append(low)
    return tuple(starts)
