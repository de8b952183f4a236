"""RoPE's two layouts on the same queries and keys: what a permutation mends, what a mix-up does.

Su et al. 2021, arXiv 2104.09864, pairs neighbours; GPT-NeoX and transformers pair feature m with m +
half. Scores are equal once both queries and keys are permuted; a wrong layout that is used for both
still keeps norms and still depends on the offset alone, so such tests do not find it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.inputs import Seed, as_generator
from posenc.analysis.similarity import similarity_by_offset
from posenc.errors import SchemeArgumentError
from posenc.frequencies import Layout, interleaved_to_half
from posenc.limits import check_count
from posenc.notebook import Shown, View, numbers_of, title_of
from posenc.rotation import apply_rope
from posenc.tables import rope_tables

MAX_POSITIONS = 512
ALIKE_POSITIONS = 64

_Rotation = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class LayoutUse(Shown):
    """Scores of one way of using a layout, compared with the right ones.

    words: what is done. scores (n, n): query rows, key columns. alike (m, m): of one query and one key
    at the first m positions. change: root mean square of the difference over that of the right scores.
    correlation: with the right scores. norm_change: the largest relative change of a query's norm by its
    rotation. offset_spread: of `alike`, the largest standard deviation along a diagonal over that of all
    scores; 0 depends on the offset alone.
    """

    words: str
    scores: Float[Tensor, "n n"]
    alike: Float[Tensor, "m m"]
    change: float
    correlation: float
    norm_change: float
    offset_spread: float

    def view(self) -> View:
        return View(
            title=self.words,
            numbers=numbers_of(self),
            matrix=self.scores,
        )


@dataclass(frozen=True, eq=False)
class LayoutInspection(Shown):
    """Queries and keys, trained for interleaved pairs, used in every way.

    scores (n, n), alike (m, m): the right ones. mended: in the half layout, with queries and keys
    permuted. largest: the largest difference between the two, which is rounding. mistakes: "both",
    "one" and "cache".
    """

    scores: Float[Tensor, "n n"]
    alike: Float[Tensor, "m m"]
    mended: LayoutUse
    largest: float
    mistakes: dict[str, LayoutUse]

    def view(self) -> View:
        return View(
            title=title_of(self),
            numbers=numbers_of(self),
            columns={
                "use": [self.mended.words, *(use.words for use in self.mistakes.values())],
                "change": [self.mended.change, *(use.change for use in self.mistakes.values())],
            },
            matrix=self.scores,
        )


def inspect_layouts(
    positions: int,
    dim: int,
    base: float = 10_000.0,
    *,
    seed: Seed = 0,
    vectors: tuple[Tensor, Tensor] | None = None,
) -> LayoutInspection:
    """Return the scores of the same queries and keys, rotated in both layouts, float64.

    positions: 2 to 512. dim: even head width. Scores are q . k / sqrt(dim) of independent normal numbers,
    or of `vectors`: queries and keys before the rotation, (positions, dim) each. Raises
    SchemeArgumentError.
    """
    check_count("positions", positions, 2, MAX_POSITIONS)
    tables = rope_tables(positions, dim, base, dtype=torch.float64)
    generator = as_generator(seed)
    q, k = torch.randn(2, positions, dim, generator=generator, dtype=torch.float64)
    single = torch.randn(2, 1, dim, generator=generator, dtype=torch.float64)
    if vectors is not None:
        for part in vectors:
            if part.shape != (positions, dim) or not bool(part.isfinite().all()):
                raise SchemeArgumentError(
                    f"Queries and keys must be {positions} x {dim} finite numbers each."
                )
        q, k = (part.double() for part in vectors)
        single = torch.stack((q[:1], k[:1]))
    same_q, same_k = single.expand(2, min(positions, ALIKE_POSITIONS), dim)
    to_half = interleaved_to_half(dim)

    def rotate(x: Tensor, layout: Layout) -> Tensor:
        cos, sin = (table[: len(x)] for table in tables)
        return apply_rope(x, cos, sin, layout=layout)

    def right(x: Tensor) -> Tensor:
        return rotate(x, "interleaved")

    def wrong(x: Tensor) -> Tensor:
        return rotate(x, "half")

    def mended(x: Tensor) -> Tensor:
        return wrong(x[:, to_half])

    def mixed(x: Tensor) -> Tensor:
        # A cache of halves, with the neighbours' own rotation of the features.
        cos, sin = (torch.cat((table[: len(x)],) * 2, 1) for table in tables)
        quarter_turn = torch.stack((-x[:, 1::2], x[:, 0::2]), -1).flatten(1)
        return x * cos + quarter_turn * sin

    def score(rotated_q: Tensor, rotated_k: Tensor) -> Tensor:
        return rotated_q @ rotated_k.T / dim**0.5

    scores, alike = score(right(q), right(k)), score(right(same_q), right(same_k))

    def use(words: str, rotate_q: _Rotation, rotate_k: _Rotation) -> LayoutUse:
        rotated = rotate_q(q)
        used = score(rotated, rotate_k(k))
        used_alike = score(rotate_q(same_q), rotate_k(same_k))
        along = similarity_by_offset(used_alike, side="both").deviation
        return LayoutUse(
            words=words,
            scores=used,
            alike=used_alike,
            change=float((used - scores).square().mean().sqrt() / scores.square().mean().sqrt()),
            correlation=float(
                torch.corrcoef(torch.stack((used.flatten(), scores.flatten())))[0, 1]
            ),
            norm_change=float((rotated.norm(dim=1) / q.norm(dim=1) - 1).abs().max()),
            offset_spread=float(along.amax() / used_alike.std(correction=0)),
        )

    converted = use("queries and keys permuted, then the other layout", mended, mended)
    mistakes = {
        "both": use("queries and keys in the other layout", wrong, wrong),
        "one": use("queries in one layout, keys in the other", right, wrong),
        "cache": use("a cache of halves, turned as neighbours", mixed, mixed),
    }
    largest = float((scores - converted.scores).abs().max())
    return LayoutInspection(scores, alike, converted, largest, mistakes)
