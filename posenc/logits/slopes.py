"""Names of ALiBi's slopes that were found: by which rule, or of which heads, code makes them."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.logits.rule import LogitRule
from posenc.schemes.alibi import AlibiConfig, alibi_slopes

SlopeWord = Literal[
    "none", "query alone", "rank", "own heads", "repeated", "geometric", "from zero", "one", "sorted",
    "reversed", "positive", "scaled", "not scaled",
]  # fmt: skip


@dataclass(frozen=True)
class SlopeName:
    """A way in which code makes slopes.

    word: "rank": those of tensor-parallel rank `number` of `of`; "own heads": of a layer with `number`
    heads, those of one rank; "repeated": those of `number` heads, again for each of `of` ranks;
    "geometric": 2^(-8 i / n) though n is no power of two; "from zero": one head late; "one": one slope
    for all heads; "positive": the sign changed; "scaled": multiplied by the softmax scale; "none": no bias;
    "query alone": built over one query, at whose distance 0 it is 0.
    """

    word: SlopeWord
    number: int = 0
    of: int = 0


@dataclass(frozen=True, eq=False)
class SlopesFound:
    """Slopes of ALiBi in logits per position, where they are not the rule's: with their names."""

    values: Float[Tensor, " h"]
    expected: Float[Tensor, " h"]
    errors: Float[Tensor, " h"]
    names: tuple[SlopeName, ...] = ()

    @property
    def wrong(self) -> int:
        """The first head whose slope is wrong, among those compared."""
        return int(((self.values - self.expected).abs() > self.errors).nonzero()[0])


def slopes_found(
    rule: LogitRule,
    first_head: int,
    values: Float[Tensor, " h"],
    errors: Float[Tensor, " h"],
    *,
    is_step: bool = False,
) -> SlopesFound | None:
    """Return slopes with their names, None where they are the rule's.

    first_head: of the layer's, in `values`. is_step: whether one query is compared, as while decoding.
    """
    expected = expected_slopes(rule, first_head, len(values))
    # A slope of the rule is rounded once to float32 where code keeps it.
    errors = errors + torch.finfo(torch.float32).eps / 2 * expected.abs()
    if bool(((values - expected).abs() <= errors).all()):
        return None
    names = tuple(
        name
        for name, slopes in _candidates(rule, first_head, len(values), is_step=is_step)
        if bool(((values - slopes).abs() <= errors).all())
    )
    return SlopesFound(values, expected, errors, names)


def expected_slopes(rule: LogitRule, first_head: int, count: int) -> Float[Tensor, " h"]:
    """Return the slopes of heads of a rule, 0 for a scheme without any."""
    if not isinstance(rule.config, AlibiConfig):
        return torch.zeros(count, dtype=torch.float64)
    return rule.bias_scale * _alibi(rule.heads)[first_head : first_head + count]


def _alibi(heads: int) -> Float[Tensor, " n"]:
    return alibi_slopes(heads, dtype=torch.float64, device="cpu")


def _candidates(
    rule: LogitRule, first: int, count: int, *, is_step: bool
) -> list[tuple[SlopeName, Float[Tensor, " h"]]]:
    if not isinstance(rule.config, AlibiConfig):
        return []
    heads, own = rule.heads, rule.bias_scale
    every = own * _alibi(heads)
    part, ranks = slice(first, first + count), heads // count
    order = torch.arange(1, heads + 1, dtype=torch.float64)
    zeros = torch.zeros(count, dtype=torch.float64)
    made = [(SlopeName("none"), zeros)]
    if is_step:
        made.append((SlopeName("query alone"), zeros))
    made += [
        (SlopeName("rank", rank, ranks), every[rank * count :][:count])
        for rank in range(ranks)
        if rank * count != first
    ]
    if count < heads:
        made.append((SlopeName("own heads", count, ranks), own * _alibi(count)))
    else:
        made += [
            (SlopeName("repeated", size, heads // size), (own * _alibi(size)).repeat(heads // size))
            for size in range(heads // 2, 1, -1)
            if heads % size == 0
        ]
    made += [
        (SlopeName("geometric"), own * 2.0 ** (-8 * order / heads)[part]),
        (SlopeName("from zero"), own * 2.0 ** (-8 * (order - 1) / heads)[part]),
        (SlopeName("one"), (own * 2.0 ** (-8 / heads)) * torch.ones(count, dtype=torch.float64)),
        (SlopeName("sorted"), every.sort(descending=True).values[part]),
        (SlopeName("reversed"), every.flip(0)[part]),
        (SlopeName("positive"), -every[part]),
        (SlopeName("scaled"), every[part] * rule.softmax_scale),
        (SlopeName("not scaled"), every[part] / own),
    ]
    expected = every[part]
    return [(name, slopes) for name, slopes in made if not torch.equal(slopes, expected)]
