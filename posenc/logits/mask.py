"""The mask that numbers show, beside the mask of a rule: causality, windows, chunks, padding."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor

from posenc.logits.rule import LogitRule, positions_of, visible

MaskWord = Literal[
    "no causal mask", "causal mask", "sees later keys", "own key hidden", "from position 0",
    "no window", "another window", "chunks", "no chunks", "other chunks", "window for chunks", "padding",
    "heads differ", "irregular",
]  # fmt: skip


@dataclass(frozen=True)
class Mask:
    """Which keys a query sees, in numbers of keys.

    later: after its own, None for all. earlier: before its own, None for all. chunk: the length of chunks,
    None without. padding: the first keys, which are hidden from all. irregular: whether what a query sees
    is no run of keys by such a rule.
    """

    later: int | None = None
    earlier: int | None = None
    chunk: int | None = None
    padding: int = 0
    irregular: bool = False


@dataclass(frozen=True)
class MaskFault:
    """One difference of masks.

    found, expected: numbers of keys. head, query, key: where masks differ first.
    """

    word: MaskWord
    found: int = 0
    expected: int = 0
    head: int = 0
    query: int = 0
    key: int = 0


def mask_of(seen: Bool[Tensor, "n m"]) -> Mask:
    """Return the rule of a mask. Queries are the last of the keys."""
    queries, keys = seen.shape
    padding = int(seen.any(0).nonzero()[0])
    positions, _ = positions_of(queries, keys)
    rows = seen.any(1).nonzero()[:, 0]
    first = seen[rows].int().argmax(1)
    last = keys - 1 - seen[rows].flip(1).int().argmax(1)
    if not torch.equal(last - first + 1, seen[rows].sum(1)):
        return Mask(padding=padding, irregular=True)
    at = positions[rows]
    later = set((last - at)[last < keys - 1].tolist())
    earlier = set((at - first)[first > padding].tolist())
    if len(later) > 1:
        return Mask(padding=padding, irregular=True)
    after = later.pop() if later else None
    if after is None and int(at[-1]) == keys - 1 and len(rows) == 1:
        after = 0  # a decoding step, which shows no later key
    if len(earlier) <= 1:
        return Mask(later=after, earlier=earlier.pop() if earlier else None, padding=padding)
    size = int(first[first > padding].min())
    if torch.equal(first, (at // size * size).clamp(min=padding)):
        return Mask(later=after, chunk=size, padding=padding)
    return Mask(later=after, padding=padding, irregular=True)


def mask_faults(rule: LogitRule, seen: Bool[Tensor, "h n m"]) -> tuple[MaskFault, ...]:
    """Return how the masks of all heads differ from that of a rule; several words for one mean either."""
    expected = visible(rule, *positions_of(*seen.shape[1:]))
    wrong = seen != expected
    if not bool(wrong.any()):
        return ()
    head, query, key = (int(each) for each in wrong.nonzero()[0])
    if not bool((seen == seen[:1]).all()):
        return (MaskFault("heads differ", head=head, query=query, key=key),)
    found, own = mask_of(seen[0]), mask_of(expected)
    ahead = seen.shape[2] - seen.shape[1]
    faults = [*_of_later(found, own, ahead), *_of_earlier(found, own)]
    if found.padding > own.padding:
        faults.append(MaskFault("padding", found.padding))
    if found.irregular or not faults:
        faults = [MaskFault("irregular", head=head, query=query, key=key)]
    return tuple(faults)


def _of_later(found: Mask, own: Mask, ahead: int) -> list[MaskFault]:
    """Return faults of what a query sees after its own key. ahead: how many keys are before all queries."""
    if found.later == own.later or found.irregular:
        return []
    if found.later is None:
        return [MaskFault("no causal mask", expected=own.later or 0)]
    if own.later is None:
        return [MaskFault("causal mask", found.later)]
    faults = []
    if ahead and found.later == own.later - ahead:
        faults.append(MaskFault("from position 0", ahead))
    if found.later > own.later:
        faults.append(MaskFault("sees later keys", found.later, own.later))
    elif not faults or ahead == 1:
        faults.append(MaskFault("own key hidden", -found.later, own.later))
    return faults


def _of_earlier(found: Mask, own: Mask) -> list[MaskFault]:
    """Return faults of what a query sees before its own key, in keys with its own."""
    if (found.earlier, found.chunk) == (own.earlier, own.chunk) or found.irregular:
        return []
    sizes = [
        each.chunk or (0 if each.earlier is None else each.earlier + 1) for each in (found, own)
    ]
    if found.earlier is None and found.chunk is None:
        return [MaskFault("no chunks" if own.chunk else "no window", 0, sizes[1])]
    if found.chunk:
        return [MaskFault("other chunks" if own.chunk else "chunks", *sizes)]
    if own.chunk:
        return [MaskFault("window for chunks", *sizes)]
    return [MaskFault("another window", *sizes)]
