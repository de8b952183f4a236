"""Cosines and sines of the pairs of a rotary cache, in each order that its columns may have."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from posenc.identification.columns import ARRANGEMENTS, Arrangement, TableInput

_COPIES = 0.02  # largest difference of the columns of one pair


def orders_of(source: TableInput, dim: int, layout: str = "half") -> list[Arrangement]:
    """Return the orders of columns that a rotary cache of a width may have, those of a layout first."""
    count = source.columns.shape[1]
    orders = [
        order
        for order in ARRANGEMENTS
        if order.scheme == "rope" and not order.fault and order.form == source.form
        and order.fits(count) and order.columns(count).dim == dim
    ]  # fmt: skip
    return sorted(orders, key=lambda order: order.layout != layout)


def planes_of(source: TableInput, orders: Sequence[Arrangement]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the cosines and sines (rows, pairs) of each order, where columns of one pair agree."""
    seen, numbers = set(), source.columns
    for order in orders:
        columns = order.columns(numbers.shape[1])
        pairs = columns.dim // 2
        index = (columns.exponents * pairs).round().long()
        parts = [which.nonzero().flatten() for which in (~columns.sines, columns.sines)]
        if not all(len(part) for part in parts):
            continue
        copies = [torch.stack([part[index[part] == m] for m in range(pairs)], 1) for part in parts]
        if any(
            bool((numbers[:, every[0]] - numbers[:, every[-1]]).abs().max() > _COPIES)
            for every in copies
        ):
            continue
        key = tuple(tuple(every[0].tolist()) for every in copies)
        if key not in seen:
            seen.add(key)
            yield numbers[:, copies[0][0]], numbers[:, copies[1][0]]
