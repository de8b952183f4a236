"""Facts of a plan as English: sentences.toml has one template per fact."""

import dataclasses
import string
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

from posenc.models.model_config import ModelConfig
from posenc.planner.context_plan import ContextPlan, MethodPlan
from posenc.planner.evidence import Benchmark, Comparison
from posenc.planner.facts import Fact
from posenc.planner.layers import layer_facts
from posenc.planner.methods import LARGER_BASE
from posenc.planner.ranking import (
    MEASURED_LIMIT,
    NEAR,
    PERPLEXITIES,
    POINTS,
    Compared,
    clearly_ahead,
)
from posenc.text import as_factor, count_of, joined, short_number, significant

_TEMPLATES = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text("utf-8"))
_MEASURES: dict[str, str] = _TEMPLATES["measures"]
_LENGTHS: dict[str, str] = _TEMPLATES["lengths"]
_COMPARISONS: dict[str, str] = _TEMPLATES["comparisons"]
RANKING: str = _TEMPLATES["ranking"]["summary"]
RANKING_RULES = tuple(
    rule.format(limit=MEASURED_LIMIT, near=NEAR) for rule in _TEMPLATES["ranking"]["rules"]
)
_ASIDE_POINTS = 2.0  # from which a measure in percent that does not decide is told


class _Sentences(string.Formatter):
    """Fills a template in: {n:count pair} is 2 pairs, {n:verb reaches reach} agrees with n."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a number as its template asks for it."""
        match format_spec.split():
            case ["count", noun]:
                return count_of(value, noun.replace("_", " "))
            case ["verb", one, many]:
                return one if value == 1 else many
            case ["list", last]:
                return joined((_in_list(each) for each in value), last)
            case ["factor"]:
                return as_factor(value)
            case ["short"]:
                return short_number(value)
        text: str = super().format_field(value, format_spec)
        return text


_SENTENCES = _Sentences()


def _in_list(value: str | float) -> str:
    """Return a name, a whole number or a number of three digits, as lists in sentences have them."""
    if isinstance(value, int):
        return f"{value:,}"
    return significant(value) if isinstance(value, float) else value


def _say(template: str, fact: Fact) -> str:
    return _SENTENCES.vformat(template, (), fact.numbers)


def say(table: str, fact: Fact) -> str:
    """Return a fact by its template in a table of sentences.toml."""
    return _say(_TEMPLATES[table][fact.word], fact)


@dataclass(frozen=True)
class PlanWarning:
    """A warning. rule: what is checked. sentence: what was computed. source: of the rule."""

    rule: str
    sentence: str
    source: str


def warnings_of(plan: ContextPlan) -> list[PlanWarning]:
    """Return the warnings about a plan beside its assumptions and layer notes, the most important first."""
    found = []
    for fact in plan.warnings:
        template = _TEMPLATES["warnings"][fact.word]
        texts = {part: _say(template[part], fact) for part in ("rule", "sentence", "source")}
        found.append(PlanWarning(**texts))
    return found


def assumed_sentences(plan: ContextPlan) -> list[str]:
    """Return what a plan takes for granted, a sentence each; the model's own assumptions are its own."""
    return [say("assumed", fact) for fact in plan.assumed]


def left_out_sentences(plan: ContextPlan) -> list[str]:
    """Return why methods are not compared, a sentence each."""
    return [say("left_out", fact) for fact in plan.left_out]


@dataclass(frozen=True)
class LayerNote:
    """What happens in one kind of layer at the target, and the source of that.

    works: whether positions up to the target have a value; that is no promise of quality.
    """

    layers: str
    sentence: str
    source: str
    works: bool = True


def layer_notes(model: ModelConfig, target: int, trained_length: int | None) -> list[LayerNote]:
    """Return a note for each kind of layer, or for several of one sentence, the farthest seeing first."""
    templates = _TEMPLATES["layers"]
    return [
        LayerNote(
            layers=" and ".join(f"{count_of(n, 'layer')} ({name})" for n, name in each.layers),
            sentence=" ".join(_say(templates[fact.word]["sentence"], fact) for fact in each.facts),
            source=templates[each.facts[0].word]["source"],
            works=each.works,
        )
        for each in layer_facts(model, target, trained_length)
    ]


def length_rows(plan: ContextPlan) -> list[dict[str, str]]:
    """Return what a model was trained to, what is claimed of it and what benchmarks measured.

    A row has its "length", "tokens" and "source"; those of a benchmark that has none are blank.
    """
    claimed, known = plan.model.context, plan.known_lengths
    measured = {one.benchmark: one for one in (known.effective if known else ())}
    rows = [
        (_LENGTHS["trained"], _tokens(plan.longest_trained), _trained_source(plan)),
        (_LENGTHS["claimed"], _tokens(known.claimed), known.source)
        if known
        else (_LENGTHS["claimed"], _tokens(claimed), _LENGTHS["config"] if claimed else ""),
    ]
    for benchmark in get_args(Benchmark):
        one = measured.get(benchmark)
        if one is None:
            rows.append((benchmark, "", ""))
        else:
            name = _LENGTHS["measured"].format(benchmark=benchmark, model=one.model)
            rows.append((name, _tokens(one.tokens, one.bound), one.source))
    return [dict(zip(("length", "tokens", "source"), row, strict=True)) for row in rows]


def _tokens(count: int | None, bound: str = "") -> str:
    return "" if count is None else _LENGTHS[bound or "exactly"].format(tokens=count)


def _trained_source(plan: ContextPlan) -> str:
    """Return where the trained length is from: the config, the makers, or an assumption."""
    if plan.longest_trained is None:
        return ""
    if plan.model.trained_length == plan.trained_length:
        return _LENGTHS["config"]
    published = plan.evidence.preset if plan.evidence else None
    if published is not None and published.trained_length == plan.trained_length:
        return published.trained_source
    if plan.assumed and plan.model.trained_length is None:
        return _LENGTHS["assumed"]
    return _LENGTHS["entered"]


class StudyTable(NamedTuple):
    """What a study measured of planned methods: a sentence on the study, and a row per measure."""

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
            held = dataclasses.asdict(precedent)
            yield _COMPARISONS["precedent"].format(label=method.method.label, **held)
    decided = [pair for pair in plan.comparisons if pair.verdict in ("first", "second")]
    carriers = _distinct(each for pair in decided for each in pair.comparisons)
    if len(carriers) == 1:
        (study,) = carriers
        factor = plan.methods[0].factor
        known = "" if study.factor == factor else _COMPARISONS["nearest"].format(factor=factor)
        yield _COMPARISONS["carried"].format(nearest=known, **_of_study(study))
    for pair in plan.comparisons:
        both = methods[pair.first], methods[pair.second]
        yield from _pair(pair, *(both[::-1] if pair.verdict == "second" else both), numbers)
    if numbers:
        yield from (table.sentence for table in study_tables(plan))


def study_tables(plan: ContextPlan) -> list[StudyTable]:
    """Return what each study behind the order measured of the planned methods, by measure."""
    planned = {method.method.kind: method for method in plan.methods}
    tables = []
    for study in _distinct(each for pair in plan.comparisons for each in pair.comparisons):
        base = ""
        if study.base and LARGER_BASE.kind in planned:
            numbers = {"compared": study.base, "planned": planned[LARGER_BASE.kind].config.base}
            base = _COMPARISONS["base"].format(**numbers)
        rows = [
            {"measure": _MEASURES[measure]}
            | {
                method.method.label: f"{by_kind[kind]:.2f}" if kind in by_kind else ""
                for kind, method in planned.items()
                if any(kind in each for each in study.values.values())
            }
            for measure, by_kind in study.values.items()
        ]
        sentence = _COMPARISONS["study"].format(base=base, **_of_study(study))
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
    found: list[Comparison] = []
    for each in comparisons:
        if each not in found:
            found.append(each)
    return found


def _pair(pair: Compared, first: MethodPlan, second: MethodPlan, numbers: bool) -> Iterator[str]:
    """Yield what comparisons say of two methods, the better one first."""
    words = {
        "label": first.method.label,
        "name": first.method.words,
        "other": second.method.words,
        "better": joined(_values(pair, first, second, numbers) or [""], "and"),
        "worse": joined(_values(pair, second, first, numbers) or [""], "and"),
    }
    word = "decided" if pair.verdict in ("first", "second") else pair.verdict
    yield _COMPARISONS[word].format(**words)
    if aside := _values(pair, second, first, numbers, decides=False):
        yield _COMPARISONS["aside"].format(**words | {"worse": joined(aside, "and")})


def _values(
    pair: Compared, better: MethodPlan, other: MethodPlan, numbers: bool, *, decides: bool = True
) -> list[str]:
    """Return the measures in which a method is clearly better than another."""
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
                text = _COMPARISONS["value" if numbers else "measure"]
                found.append(
                    text.format(measure=_MEASURES[measure], first=first, second=second, place=place)
                )
    return found
