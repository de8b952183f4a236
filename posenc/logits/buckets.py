"""T5's buckets that a bias shows: how many, up to which distance, and in which direction."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.errors import ConfigError
from posenc.schemes.t5 import T5Config

BucketWord = Literal["direction", "sign", "count", "distance", "unknown"]
_FARTHEST = 16_384  # the maximum distance up to which one is looked for
_COUNTS = (32, 64, 16, 128, 8, 256, 48, 24, 40, 20, 12, 10, 6, 4)


@dataclass(frozen=True)
class BucketsFound:
    """Buckets that differ from those expected.

    word: "sign" where keys and queries are exchanged; "direction" where buckets are of one direction in
    place of both, or the reverse. buckets: their number, 0 where unknown. nearest, farthest: between which
    every maximum distance makes the same buckets. past_alone: whether no later key was seen, so that twice
    as many buckets in both directions make the same bias. expected: the config's.
    """

    word: BucketWord
    expected: T5Config
    bidirectional: bool = False
    buckets: int = 0
    nearest: int = 0
    farthest: int = 0
    past_alone: bool = False


def buckets_found(
    config: T5Config,
    curve: Float[Tensor, "h o"],
    offsets: Int[Tensor, " o"],
    allowed: Float[Tensor, "h o"],
) -> BucketsFound | None:
    """Return how the buckets of a bias differ from a config's, None if all offsets of one have one value.

    curve: the bias of each head at offsets, key minus query, in rising order. allowed: its error.
    """
    changes = _changes(curve, allowed)
    if _within(changes, _edges(config, offsets)):
        return None
    for sign, word in ((1, "direction"), (-1, "sign")):
        for bidirectional in (config.bidirectional, not config.bidirectional):
            if sign < 0 and bidirectional:
                continue  # both directions have like buckets
            turned = changes if sign > 0 else changes.flip(0)
            range_of = offsets if sign > 0 else -offsets.flip(0)
            found = _search(config, turned, range_of, bidirectional)
            if found is None:
                continue
            buckets, nearest, farthest = found
            named: BucketWord = "sign" if word == "sign" else "direction"
            if sign > 0 and bidirectional == config.bidirectional:
                named = "count" if buckets != config.buckets else "distance"
            past_alone = int(offsets[-1]) <= 0
            return BucketsFound(
                named, config, bidirectional, buckets, nearest, farthest, past_alone
            )
    return BucketsFound("unknown", config)


def _changes(curve: Float[Tensor, "h o"], allowed: Float[Tensor, "h o"]) -> Bool[Tensor, " p"]:
    """Return between which neighbouring offsets the bias of a head changes."""
    steps = curve.diff(dim=1).abs()
    return (steps > allowed[:, 1:] + allowed[:, :-1]).any(0)


def _edges(config: T5Config, offsets: Int[Tensor, " o"]) -> Bool[Tensor, " p"]:
    return config.bucket(offsets).diff() != 0


def _within(changes: Bool[Tensor, " p"], edges: Bool[Tensor, " p"]) -> bool:
    return not bool((changes & ~edges).any())


def _search(
    config: T5Config, changes: Bool[Tensor, " p"], offsets: Int[Tensor, " o"], bidirectional: bool
) -> tuple[int, int, int] | None:
    """Return the number of buckets and the range of maximum distances whose edges are these changes."""
    if bool((changes & (offsets[:-1] > 0)).any()) != bidirectional:
        return None  # later keys have buckets of their own in both directions alone
    single = _single_distances(changes, offsets)
    for buckets in dict.fromkeys((config.buckets, *_COUNTS)):
        exact = buckets // (4 if bidirectional else 2)
        if not single / 2 <= exact <= single:
            continue
        low, high = exact + 1, _FARTHEST
        # Buckets begin later as the maximum distance grows: both ends by halving.
        least = _first(config, changes, offsets, buckets, bidirectional, low, high, strict=False)
        beyond = _first(config, changes, offsets, buckets, bidirectional, low, high, strict=True)
        made = _config(config, buckets, bidirectional, least)
        if made is not None and torch.equal(_edges(made, offsets), changes):
            return buckets, least, beyond - 1
    return None


def _first(
    config: T5Config,
    changes: Bool[Tensor, " p"],
    offsets: Int[Tensor, " o"],
    buckets: int,
    bidirectional: bool,
    low: int,
    high: int,
    *,
    strict: bool,
) -> int:
    """Return the least maximum distance whose buckets begin as late as the changes, or later if strict."""
    found = _starts(changes, offsets)
    high += 1
    while low < high:
        middle = (low + high) // 2
        made = _config(config, buckets, bidirectional, min(middle, _FARTHEST))
        assert made is not None
        own = _starts(_edges(made, offsets), offsets)
        late = own > found if strict else own >= found
        low, high = (low, middle) if late else (middle + 1, high)
    return low


def _starts(edges: Bool[Tensor, " p"], offsets: Int[Tensor, " o"]) -> tuple[int, ...]:
    """Return the distances at which buckets of earlier keys begin, the farthest of all at the end."""
    last = int(offsets[0].abs()) + 1
    past = [-int(before) for (before, _), edge in zip(
        pairwise(offsets.tolist()), edges.tolist(), strict=True) if edge and before < 0]  # fmt: skip
    return (*sorted(past), last, last)


def _single_distances(changes: Bool[Tensor, " p"], offsets: Int[Tensor, " o"]) -> int:
    """Return how many of the first distances to earlier keys begin a bucket each."""
    starts = {*_starts(changes, offsets)}
    return next(distance for distance in range(1, len(offsets) + 2) if distance not in starts) - 1


def _config(config: T5Config, buckets: int, bidirectional: bool, distance: int) -> T5Config | None:
    try:
        return config.replace(buckets=buckets, bidirectional=bidirectional, max_distance=distance)
    except ConfigError:
        return None
