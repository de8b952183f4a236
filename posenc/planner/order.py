"""Reasons for the order of methods, as sentences and tables: precedents, comparisons, contradictions."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, get_args

from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.evidence import Comparison, Training
from posenc.planner.facts import TEMPLATES, Fact, say
from posenc.planner.methods import LARGER_BASE
from posenc.planner.ranking import PERPLEXITIES, POINTS, Compared, clearly_ahead
from posenc.text import as_factor

_MEASURES: dict[str, str] = TEMPLATES["measures"]
_COMPARISONS: dict[str, str] = TEMPLATES["comparisons"]
_TRAININGS: dict[str, str] = TEMPLATES["trainings"]
_ASIDE_POINTS = 2.0  # from which a measure in percent that does not decide is said


class StudyTable(NamedTuple):
    """Measures of planned methods by a study: a sentence on the study, and a row per measure."""

    sentence: str
    rows: list[dict[str, str]]


def order_sentences(plan: ContextPlan, *, numbers: bool = True) -> tuple[str, ...]:
    """Return what puts the planned methods in order: precedents, comparisons and where they disagree.

    () where nothing of this is known. numbers: whether the values of each measure are in the sentences,
    and a sentence on each study behind them; `study_tables` has both, too.
    """
    return tuple(_order(plan, numbers))


def _order(plan: ContextPlan, numbers: bool) -> Iterator[str]:
    methods = {method.method.kind: method for method in plan.methods}
    for method in plan.methods:
        if (precedent := method.standing.precedent) is not None:
            extended = dataclasses.asdict(precedent) | {"label": method.method.label}
            yield say("comparisons", Fact("precedent", extended))
    for training in get_args(Training):
        pairs = [pair for pair in plan.comparisons if pair.training == training]
        decided = [pair for pair in pairs if pair.verdict in ("first", "second")]
        carriers = _distinct(each for pair in decided for each in pair.comparisons)
        if len(carriers) == 1:
            yield _carried(carriers[0], plan.methods[0].factor)
        for pair in pairs:
            both = methods[pair.first], methods[pair.second]
            yield from _pair(pair, *(both[::-1] if pair.verdict == "second" else both), numbers)
    if numbers:
        yield from (table.sentence for table in study_tables(plan))


def single_study(plan: ContextPlan, kind: str) -> str:
    """Return that one study alone puts a method in order, "" where several do or none."""
    for training in get_args(Training):
        decided = [
            pair
            for pair in plan.comparisons
            if pair.training == training
            and pair.verdict in ("first", "second")
            and kind in (pair.first, pair.second)
        ]
        carriers = _distinct(each for pair in decided for each in pair.comparisons)
        if len(carriers) == 1:
            return _carried(carriers[0], plan.methods[0].factor)
    return ""


def _carried(study: Comparison, factor: float) -> str:
    """Return that one study carries the order, and that it is of another factor where it is."""
    numbers = _of_study(study) | {"training": _TRAININGS[study.training], "nearest": ""}
    if study.factor != factor:
        numbers["nearest"] = say("comparisons", Fact("nearest", {"asked": factor}))
    return say("comparisons", Fact("carried", numbers))


def study_tables(plan: ContextPlan) -> list[StudyTable]:
    """Return what each study behind the order measured of the planned methods, by measure."""
    planned = {method.method.kind: method for method in plan.methods}
    tables = []
    for study in _distinct(each for pair in plan.comparisons for each in pair.comparisons):
        base = ""
        if study.base and LARGER_BASE.kind in planned:
            numbers = {"compared": study.base, "planned": planned[LARGER_BASE.kind].config.base}
            base = say("comparisons", Fact("base", numbers))
        rows = [
            {"measure": _MEASURES[measure]}
            | {
                method.method.label: f"{by_kind[kind]:.2f}" if kind in by_kind else ""
                for kind, method in planned.items()
                if any(kind in each for each in study.values.values())
            }
            for measure, by_kind in study.values.items()
        ]
        sentence = say("comparisons", Fact("study", _of_study(study) | {"base": base}))
        tables.append(StudyTable(sentence, rows))
    return tables


def _of_study(study: Comparison) -> dict[str, Any]:
    kind = "controlled" if study.controlled else "uncontrolled"
    return {
        "source": study.source,
        "model": study.model,
        "factor": study.factor,
        "tokens": study.tokens,
        "kind": _COMPARISONS[kind],
    }


def _distinct(comparisons: Iterable[Comparison]) -> list[Comparison]:
    distinct: list[Comparison] = []
    for each in comparisons:
        if each not in distinct:
            distinct.append(each)
    return distinct


def _pair(pair: Compared, first: MethodPlan, second: MethodPlan, numbers: bool) -> Iterator[str]:
    """Yield what comparisons say of two methods, the better one first."""
    facts = {
        "training": _TRAININGS[pair.training],
        "name": first.method.words,
        "other": second.method.words,
        "better": _measures(pair, first, second, numbers),
        "worse": _measures(pair, second, first, numbers),
    }
    word = "decided" if pair.verdict in ("first", "second") else pair.verdict
    yield say("comparisons", Fact(word, facts))
    if aside := _measures(pair, second, first, numbers, decides=False):
        yield say("comparisons", Fact("aside", facts | {"worse": aside}))


def _measures(
    pair: Compared, better: MethodPlan, other: MethodPlan, numbers: bool, *, decides: bool = True
) -> list[str]:
    """Return the measures in which a method is clearly better than another, each once.

    A measure names the factors of the studies that have it, where the studies of the pair differ in them.
    """
    kind, other_kind = better.method.kind, other.method.kind
    several = len({study.factor for study in pair.comparisons}) > 1
    ahead: dict[str, list[tuple[str, str]]] = {}  # by measure: factor and both values of each study
    for study in pair.comparisons:
        for measure, by_kind in study.values.items():
            if not {kind, other_kind} <= {*by_kind}:
                continue
            first, second = by_kind[kind], by_kind[other_kind]
            if _is_ahead(measure, first, second, decides=decides):
                place = _place([as_factor(study.factor)]) if several else ""
                values = {"first": first, "second": second, "place": place}
                against = say("comparisons", Fact("against", values))
                ahead.setdefault(measure, []).append((as_factor(study.factor), against))
    texts = []
    for measure, studies in ahead.items():
        facts = {
            "measure": _MEASURES[measure],
            "values": [against for _, against in studies],
            "place": _place(factor for factor, _ in studies) if several else "",
        }
        texts.append(say("comparisons", Fact("value" if numbers else "measure", facts)))
    return texts


def _is_ahead(measure: str, first: float, second: float, *, decides: bool) -> bool:
    """Return whether the first value is clearly better. decides: the kind of measure that counts."""
    if (measure in PERPLEXITIES or measure in POINTS) != decides:
        return False
    return clearly_ahead(measure, first, second) > 0 if decides else first > second + _ASIDE_POINTS


def _place(factors: Iterable[str]) -> str:
    return say("comparisons", Fact("place", {"factors": list(dict.fromkeys(factors))}))
