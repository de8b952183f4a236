"""Facts of a comparison of logits with a layer's rule."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.logits.buckets import BucketsFound
from posenc.logits.inputs import LogitInput
from posenc.logits.least_squares import Fit
from posenc.logits.mask import MaskFault
from posenc.logits.products import Product, ProductWord
from posenc.logits.rule import LogitRule, positions_of, visible
from posenc.logits.scales import GrowthFound, ScaleFound
from posenc.logits.slopes import SlopesFound


class Place(NamedTuple):
    """Where a number differs most for its rounding: by how much, and how much rounding allows."""

    head: int
    query: int
    key: int
    amount: float
    allowed: float


def place_of(own: Fit) -> Place:
    """Return where numbers differ most from a fit."""
    least = torch.finfo(torch.float64).tiny
    share = own.residuals.abs() / own.limits.clamp(min=least)
    head, query, key = (int(each) for each in torch.unravel_index(share.argmax(), share.shape))
    at = head, query, key
    return Place(*at, float(own.residuals[at].abs()), float(own.limits[at]))


@dataclass(frozen=True)
class MaskValue:
    """What hidden keys have in place of minus infinity.

    word: "capped" where the mask was added before the soft cap, which leaves minus the cap; "added" where a
    finite number was added, such as -10,000 before the scale.
    """

    word: Literal["capped", "added"]
    value: float


@dataclass(frozen=True)
class CapFound:
    """The soft cap of logits, where it is not the rule's; None for none."""

    found: float | None
    expected: float | None


@dataclass(frozen=True, eq=False)
class Explanation:
    """Parameters with which a product makes every visible number, or those that come nearest.

    fit: of the coefficients; the first is the scale, the second a bias's. cap: with which. grows: whether
    the growth of the rule's queries is in. rows: the fit of each query alone, () where one scale fits all.
    curve: (h, o) a bias by offset, None without one.
    """

    product: Product
    fit: Fit
    cap: float | None
    grows: bool = True
    rows: tuple[Fit, ...] = ()
    curve: Float[Tensor, "h o"] | None = None


@dataclass(frozen=True, eq=False)
class LogitMatch:
    """The comparison of logits with a layer's rule.

    predicted: the rule's, without its mask. belongs: whether every number is the rule's, up to rounding.
    up_to_rows: whether only up to a constant for each query, as weights and biases are. explained: whether
    the facts make every visible number. vectors: how queries and keys were taken, several words where each
    makes the logits. scales, scale_errors: the softmax scale of each head. scale, growth, cap, slopes,
    buckets, masks, mask_value: what is wrong, None or () for nothing. sink: the largest number of the
    sinks' column, or what weights lack to 1, None without. sink_missing: whether the rule has sinks and
    these weights have none. most: where numbers differ most from the rule's.
    """

    rule: LogitRule
    first_head: int
    given: LogitInput
    predicted: Float[Tensor, "h n m"]
    belongs: bool
    up_to_rows: bool
    explained: bool
    vectors: tuple[ProductWord, ...]
    scales: Float[Tensor, " h"]
    scale_errors: Float[Tensor, " h"]
    most: Place
    masks: tuple[MaskFault, ...] = ()
    mask_value: MaskValue | None = None
    scale: ScaleFound | None = None
    growth: GrowthFound | None = None
    cap: CapFound | None = None
    slopes: SlopesFound | None = None
    buckets: BucketsFound | None = None
    sink: float | None = None
    sink_missing: bool = False

    @property
    def sink_unexpected(self) -> bool:
        """Whether there is a sink, which the rule has not."""
        return self.sink is not None and not self.rule.sinks

    @property
    def masks_apart(self) -> int:
        """The number of keys of queries that are hidden here or by the rule, but not by both."""
        expected = visible(self.rule, *positions_of(*self.given.values.shape[1:]))
        return int((self.given.seen != expected).sum())
