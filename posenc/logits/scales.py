"""Names of a softmax scale that was found: by which width, key or factor code makes it."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.logits.least_squares import Fit
from posenc.logits.rule import Factor, LogitRule, Root
from posenc.schemes.query_growth import Growth, log_of_keys


@dataclass(frozen=True)
class ScaleName:
    """A way in which code makes a softmax scale: a root times a factor."""

    root: Root
    factor: Factor


@dataclass(frozen=True, eq=False)
class ScaleFound:
    """The softmax scale of logits, where it is not the rule's.

    values, errors: of each head. ratio: to the rule's scale, of all heads together where `is_one`.
    names: every way known to make it, () for none.
    """

    values: Float[Tensor, " h"]
    errors: Float[Tensor, " h"]
    ratio: float
    is_one: bool
    names: tuple[ScaleName, ...] = ()


def scale_found(
    rule: LogitRule, values: Float[Tensor, " h"], errors: Float[Tensor, " h"]
) -> ScaleFound | None:
    """Return the scale of logits with its names, None where it is the rule's."""
    own = rule.softmax_scale
    if bool(((values - own).abs() <= errors).all()):
        return None
    # The scale known best counts most.
    weights = errors.clamp(min=torch.finfo(torch.float64).tiny) ** -1
    scale = float((values * weights).sum() / weights.sum())
    is_one = bool(((values - scale).abs() <= 2 * errors).all())
    names = tuple(
        name
        for name in _names(rule)
        if bool(((values - name.root.value * name.factor.value).abs() <= errors).all())
    )
    single = tuple(name for name in names if rule.root == name.root or rule.factor == name.factor)
    return ScaleFound(values, errors, scale / own, is_one, single or names)


def _names(rule: LogitRule) -> list[ScaleName]:
    roots, factors = (rule.root, *rule.other_roots), (rule.factor, *rule.other_factors)
    return [ScaleName(root, factor) for root in roots for factor in factors][1:]


@dataclass(frozen=True)
class GrowthFound:
    """How the scale grows with the position p of the query, and the factor of it at the last one.

    word: "log" for ln(p + 1), the number of keys seen; "expected" for the rule's own; "none" for no growth
    where the rule has one; "late" or "early" for the rule's with positions that are one off; "unknown".
    """

    word: str
    first: float
    last: float


def growth_found(
    rule: LogitRule,
    rows: Float[Tensor, "h n"],
    errors: Float[Tensor, "h n"],
    positions: Int[Tensor, " n"],
) -> GrowthFound:
    """Return the growth of scales by query, one for each row and head.

    The growths known: by the logarithm of the number of keys (Nakanishi 2025, arXiv 2501.19399), and that
    of the rule, also one position off.
    """
    known: list[tuple[str, Tensor]] = [("log", log_of_keys(positions))]
    if rule.growth is not None:
        own = rule.growth
        for word, shift in (("late", 1), ("early", -1)):
            moved = Growth(rate=own.rate, length=own.length, first=own.first + shift)
            known.append((word, moved.factors(positions)))
    word = next((word for word, factors in known if _is_multiple(rows, errors, factors)), "unknown")
    return GrowthFound(word, float(rows[0, 0]), float(rows[0, -1]))


def _is_multiple(
    rows: Float[Tensor, "h n"], errors: Float[Tensor, "h n"], factors: Float[Tensor, " n"]
) -> bool:
    """Whether the scales of each head are one number times these factors."""
    usable = errors.isfinite()
    factors = torch.where(usable, factors, 0.0)
    rows = torch.where(usable, rows, 0.0)
    one = (rows * factors).sum(1, keepdim=True) / (factors**2).sum(1, keepdim=True)
    return bool(((rows - one * factors).abs() <= 2 * errors).all())


def scales_by_row(fits: list[Fit]) -> tuple[Float[Tensor, "h n"], Float[Tensor, "h n"]]:
    """Return the scale of every query and its error, of a fit for each; infinite where it shows nothing."""
    values = torch.stack([each.coefficients[:, 0] for each in fits], 1)
    errors = torch.stack([each.errors[:, 0] for each in fits], 1)
    return values, torch.where(values == 0, torch.inf, errors)
