"""Facts of a plan as English: sentences.toml has one template per fact."""

import dataclasses
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from posenc.planner.evidence import Comparison
from posenc.planner.methods import LARGER_BASE
from posenc.planner.plan import ContextPlan, MethodPlan
from posenc.planner.ranking import (
    MEASURED_LIMIT,
    NEAR,
    PERPLEXITIES,
    POINTS,
    Compared,
    clearly_ahead,
)
from posenc.text import joined

_TEMPLATES = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text("utf-8"))
_MEASURES: dict[str, str] = _TEMPLATES["measures"]
_COMPARISONS: dict[str, str] = _TEMPLATES["comparisons"]
RANKING: str = _TEMPLATES["ranking"]["summary"]
RANKING_RULES = tuple(
    rule.format(limit=MEASURED_LIMIT, near=NEAR) for rule in _TEMPLATES["ranking"]["rules"]
)
_ASIDE_POINTS = 2.0  # from which a measure in percent that does not decide is told


def order_sentences(plan: ContextPlan) -> tuple[str, ...]:
    """Return what puts the planned methods in order: precedents, comparisons and where they disagree.

    () where nothing of this is known.
    """
    return tuple(_order(plan))


def _order(plan: ContextPlan) -> Iterator[str]:
    methods = {method.method.kind: method for method in plan.methods}
    studies = _distinct(each for pair in plan.comparisons for each in pair.comparisons)
    for method in plan.methods:
        if (precedent := method.standing.precedent) is not None:
            numbers = dataclasses.asdict(precedent)
            yield _COMPARISONS["precedent"].format(label=method.method.label, **numbers)
    decided = [pair for pair in plan.comparisons if pair.verdict in ("first", "second")]
    carriers = _distinct(each for pair in decided for each in pair.comparisons)
    if len(carriers) == 1:
        (study,) = carriers
        factor = plan.methods[0].factor
        known = "" if study.factor == factor else _COMPARISONS["nearest"].format(factor=factor)
        text = _COMPARISONS["carried"]
        yield text.format(source=study.source, factor=study.factor, nearest=known)
    for pair in plan.comparisons:
        both = methods[pair.first], methods[pair.second]
        yield from _pair(pair, *(both[::-1] if pair.verdict == "second" else both))
    base = next((x.config.base for x in plan.methods if x.method is LARGER_BASE), None)
    for study in studies:
        planned = ""
        if base is not None and study.base:
            planned = _COMPARISONS["base"].format(compared=study.base, planned=base)
        yield _COMPARISONS["study"].format(
            source=study.source, model=study.model, factor=study.factor, tokens=study.tokens,
            kind=_COMPARISONS["controlled" if study.controlled else "uncontrolled"], base=planned,
        )  # fmt: skip


def _distinct(comparisons: Iterable[Comparison]) -> list[Comparison]:
    found: list[Comparison] = []
    for each in comparisons:
        if each not in found:
            found.append(each)
    return found


def _pair(pair: Compared, first: MethodPlan, second: MethodPlan) -> Iterator[str]:
    """Yield what comparisons say of two methods, the better one first."""
    words = {
        "label": first.method.label,
        "name": first.method.words,
        "other": second.method.words,
        "better": joined(_values(pair, first, second, decides=True) or [""], "and"),
        "worse": joined(_values(pair, second, first, decides=True) or [""], "and"),
    }
    word = "decided" if pair.verdict in ("first", "second") else pair.verdict
    yield _COMPARISONS[word].format(**words)
    if aside := _values(pair, second, first, decides=False):
        yield _COMPARISONS["aside"].format(**words | {"worse": joined(aside, "and")})


def _values(pair: Compared, better: MethodPlan, other: MethodPlan, *, decides: bool) -> list[str]:
    """Return the measures in which a method is clearly better than another, with both values."""
    kinds = better.method.kind, other.method.kind
    several = len(pair.comparisons) > 1
    found = []
    for each in pair.comparisons:
        place = _COMPARISONS["place"].format(factor=each.factor) if several else ""
        for measure, by_kind in each.values.items():
            counts = measure in PERPLEXITIES or measure in POINTS
            if counts != decides or not {*kinds} <= {*by_kind}:
                continue
            first, second = (by_kind[kind] for kind in kinds)
            if (
                clearly_ahead(measure, first, second) > 0
                if counts
                else first > second + _ASIDE_POINTS
            ):
                text = _COMPARISONS["value"]
                found.append(
                    text.format(measure=_MEASURES[measure], first=first, second=second, place=place)
                )
    return found
