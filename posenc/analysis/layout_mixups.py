"""The two layouts of RoPE on the same queries and keys: what a permutation mends, what a mix-up does.

Su et al. 2021, arXiv 2104.09864, pairs neighbours; GPT-NeoX and transformers pair feature m with m +
half. Scores are equal once both queries and keys are permuted; a wrong layout that is used for both
still keeps norms and still depends on the offset alone, so such tests do not find it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.analysis.inputs import Seed, as_generator
from posenc.frequencies import Layout, half_to_interleaved, interleaved_to_half
from posenc.limits import check_count
from posenc.rotation import apply_rope
from posenc.tables import rope_tables

MAX_POSITIONS = 512
SPREAD_POSITIONS = 64

_Turn = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class LayoutUse:
    """Scores of one way of using a layout, beside those that are meant.

    scores (n, n): query rows, key columns. alike (m, m): of one query and one key at the first m
    positions. change: root mean square of the difference over that of the
    scores meant. correlation: of the two. norm_change: the largest change of a query's norm by its
    rotation, as a share. offset_spread: of the same q and k at every position, the largest standard
    deviation of their score along a diagonal, over that of all scores; 0 depends on the offset alone.
    """

    words: str
    scores: Float[Tensor, "n n"]
    alike: Float[Tensor, "m m"]
    change: float
    correlation: float
    norm_change: float
    offset_spread: float


@dataclass(frozen=True, eq=False)
class LayoutInspection:
    """Random queries and keys, trained for interleaved pairs, used in every way.

    scores (n, n), alike (m, m): as meant. mended: in the half layout, with queries and keys
    permuted. largest: the largest difference between the two, which is rounding. mistakes: by name.
    to_half, to_interleaved (d,): the permutations, y = x[..., index]; of a weight of queries or keys, its
    rows in every head.
    """

    scores: Float[Tensor, "n n"]
    alike: Float[Tensor, "m m"]
    mended: LayoutUse
    largest: float
    mistakes: dict[str, LayoutUse]
    to_half: Int[Tensor, " d"]
    to_interleaved: Int[Tensor, " d"]


def inspect_layouts(
    positions: int, dim: int, base: float = 10_000.0, *, seed: Seed = 0
) -> LayoutInspection:
    """Rotate the same random queries and keys in both layouts, float64.

    positions: 2 to 512. dim: even head width. Scores are q . k / sqrt(dim) of independent normal numbers.
    Raises SchemeArgumentError.
    """
    check_count("positions", positions, 2, MAX_POSITIONS)
    tables = rope_tables(positions, dim, base, dtype=torch.float64)
    generator = as_generator(seed)
    q, k = torch.randn(2, positions, dim, generator=generator, dtype=torch.float64)
    one = torch.randn(2, 1, dim, generator=generator, dtype=torch.float64)
    same_q, same_k = one.expand(2, min(positions, SPREAD_POSITIONS), dim)
    to_half, to_interleaved = interleaved_to_half(dim), half_to_interleaved(dim)

    def meant(x: Tensor) -> Tensor:
        return _turned(x, tables, "interleaved")

    def other(x: Tensor) -> Tensor:
        return _turned(x, tables, "half")

    def mixed(x: Tensor) -> Tensor:
        # A cache made in halves, with the neighbours' own rotation of the features.
        cos, sin = (torch.cat((table[: len(x)],) * 2, 1) for table in tables)
        beside = torch.stack((-x[:, 1::2], x[:, 0::2]), -1).flatten(1)
        return x * cos + beside * sin

    def scored(left: Tensor, right: Tensor) -> Tensor:
        return left @ right.T / dim**0.5

    def mended(x: Tensor) -> Tensor:
        return other(x[:, to_half])

    scores, alike = scored(meant(q), meant(k)), scored(meant(same_q), meant(same_k))

    def used(words: str, turn_q: _Turn, turn_k: _Turn) -> LayoutUse:
        now, same = scored(turn_q(q), turn_k(k)), scored(turn_q(same_q), turn_k(same_k))
        return LayoutUse(
            words,
            now,
            same,
            float((now - scores).square().mean().sqrt() / scores.square().mean().sqrt()),
            float(torch.corrcoef(torch.stack((now.flatten(), scores.flatten())))[0, 1]),
            float((turn_q(q).norm(dim=1) / q.norm(dim=1) - 1).abs().max()),
            _spread(same),
        )

    converted = used("queries and keys permuted, then the other layout", mended, mended)
    mistakes = {
        "both": used("queries and keys in the other layout", other, other),
        "one": used("queries in one layout, keys in the other", meant, other),
        "cache": used("a cache of halves, turned as neighbours", mixed, mixed),
    }
    largest = float((scores - converted.scores).abs().max())
    return LayoutInspection(scores, alike, converted, largest, mistakes, to_half, to_interleaved)


def _turned(x: Tensor, tables: tuple[Tensor, Tensor], layout: Layout) -> Tensor:
    cos, sin = (table[: len(x)] for table in tables)
    return apply_rope(x, cos, sin, layout=layout)


def _spread(scores: Float[Tensor, "n n"]) -> float:
    size = len(scores)
    whole = float(scores.std(correction=0))
    along = [float(scores.diagonal(offset).std(correction=0)) for offset in range(1 - size, size)]
    return max(along) / whole if whole > 0 else 0.0
