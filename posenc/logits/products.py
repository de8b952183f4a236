"""Products of queries and keys that code may have made: rotated as a rule says, twice, not at all, ..."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.logits.inputs import LogitInput
from posenc.logits.rule import LogitRule, positions_of, rotate

ProductWord = Literal[
    "rotated before", "rotated here", "not rotated", "other layout", "other direction", "queries alone",
    "keys alone", "rotated twice", "from position 0", "one position late", "one position early",
]  # fmt: skip
RIGHT = ("rotated before", "rotated here")


@dataclass(frozen=True, eq=False)
class Product:
    """Queries and keys as they are multiplied. word: how they were rotated."""

    word: ProductWord
    q: Float[Tensor, "h n d"]
    k: Float[Tensor, "h m d"]

    @property
    def turned(self) -> bool:
        """Whether they were rotated here."""
        return self.word not in ("rotated before", "not rotated")

    def values(self) -> Float[Tensor, "h n m"]:
        """Return q . k."""
        return self.q @ self.k.mT

    def sizes(self) -> Float[Tensor, "h n m"]:
        """Return |q| . |k|, by which the errors of q . k grow."""
        return self.q.abs() @ self.k.abs().mT


def right_products(rule: LogitRule, given: LogitInput, rotated: bool | None) -> Iterator[Product]:
    """Yield the products of a rule: of vectors as they are, and rotated here; None for either."""
    if rotated is not False or rule.rope is None:
        yield Product("rotated before", given.q, given.k)
    if rotated is not True and rule.rope is not None:
        places = positions_of(given.q.shape[1], given.k.shape[1])
        yield Product("rotated here", *rotate(rule, given.q, given.k, *places))


def wrong_products(rule: LogitRule, given: LogitInput, rotated: bool | None) -> Iterator[Product]:
    """Yield products with another rotation than the rule's; none of vectors that were rotated before."""
    rope = rule.rope
    if rope is None or rotated is True:
        return
    q, k = given.q, given.k
    places = positions_of(q.shape[1], k.shape[1])
    turned_q, turned_k = rotate(rule, q, k, *places)
    if rotated is False:
        yield Product("not rotated", q, k)
    yield Product("queries alone", turned_q, k)
    yield Product("keys alone", q, turned_k)
    yield Product("rotated twice", *rotate(rule, turned_q, turned_k, *places))
    layout = "half" if rope.layout == "interleaved" else "interleaved"
    other = rule.replace(scheme=rope.replace(layout=layout))
    yield Product("other layout", *rotate(other, q, k, *places))
    back = rule.replace(scheme=rope.replace(clockwise=not rope.clockwise))
    yield Product("other direction", *rotate(back, q, k, *places))
    ahead = k.shape[1] - q.shape[1]
    if ahead:
        first = torch.arange(q.shape[1])
        yield Product("from position 0", *rotate(rule, q, k, first, places[1]))
    if ahead != 1:
        yield Product("one position early", *rotate(rule, q, k, places[0] - 1, places[1]))
    yield Product("one position late", *rotate(rule, q, k, places[0] + 1, places[1]))
