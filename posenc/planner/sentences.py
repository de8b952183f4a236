"""Facts of a plan as English: sentences.toml has one template per fact."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, get_args

from posenc.models.model_config import ModelConfig
from posenc.planner.context_plan import ContextPlan
from posenc.planner.evidence import Benchmark, Training, derivatives_of
from posenc.planner.facts import TEMPLATES, Fact, say, say_template
from posenc.planner.layers import layer_facts
from posenc.planner.ranking import MEASURED_LIMIT, NEAR
from posenc.text import count_of

_LENGTHS: dict[str, str] = TEMPLATES["lengths"]
RANKING: str = TEMPLATES["ranking"]["summary"]
RANKING_RULES = tuple(
    rule.format(limit=MEASURED_LIMIT, near=NEAR) for rule in TEMPLATES["ranking"]["rules"]
)


@dataclass(frozen=True)
class PlanWarning:
    """A warning. rule: what is checked. sentence: what was computed. source: of the rule."""

    rule: str
    sentence: str
    source: str


def warnings_of(plan: ContextPlan) -> list[PlanWarning]:
    """Return the warnings about a plan beside its assumptions and layer notes, the most important first."""
    listed = []
    for fact in plan.warnings:
        template = TEMPLATES["warnings"][fact.word]
        texts = {
            part: say_template(template[part], fact) for part in ("rule", "sentence", "source")
        }
        listed.append(PlanWarning(**texts))
    return listed


def assumed_sentences(plan: ContextPlan) -> list[str]:
    """Return what a plan takes for granted, a sentence each; the model's own assumptions are its own."""
    return [say("assumed", fact) for fact in plan.assumed]


def left_out_sentences(plan: ContextPlan) -> list[str]:
    """Return why methods are not compared, a sentence each."""
    return [say("left_out", fact) for fact in plan.left_out]


@dataclass(frozen=True)
class LayerNote:
    """The sentence on one kind of layer at the target, and its source.

    works: whether positions up to the target have a value; that is no promise of quality.
    """

    layers: str
    sentence: str
    source: str
    works: bool = True


def layer_notes(model: ModelConfig, target: int, trained_length: int | None) -> list[LayerNote]:
    """Return a note for each kind of layer, or for several of one sentence, the farthest seeing first."""
    templates = TEMPLATES["layers"]
    return [
        LayerNote(
            layers=" and ".join(f"{count_of(n, 'layer')} ({name})" for n, name in each.layers),
            sentence=" ".join(
                say_template(templates[fact.word]["sentence"], fact) for fact in each.facts
            ),
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


class Advice(NamedTuple):
    """The advice for one amount of further training.

    method: label of the highest-ranked method, "" where no source reports one. short: the expected change
    on short context. sentence: what is known: the reports, or else a statement. source: of that statement;
    "" for reports, which name their own. equal: labels of the methods that share its rank. reports: each
    source that read the factor after this training, and how much training that was; () where the makers of
    the model recommend the method, or no factor was reported. effective: to which length RULER found that
    models work that others extended from this one by the method, each with its source.
    """

    title: str
    method: str
    short: str
    sentence: str
    source: str
    equal: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    effective: tuple[tuple[str, str], ...] = ()


def advice_of(plan: ContextPlan) -> tuple[Advice, ...]:
    """Return the highest-ranked methods for each amount of training; () where there is nothing to do."""
    if not (plan.longer and plan.methods):
        return ()
    return tuple(_advice(plan, training) for training in get_args(Training))


def _advice(plan: ContextPlan, training: Training) -> Advice:
    title = TEMPLATES["advice"]["titles"][training]
    methods = plan.first_after(training)
    if not methods:
        facts = [Fact(training, {"factor": plan.methods[0].factor}), *_nearest(plan, training)]
        return Advice(title, "", "", "".join(say("no_advice", fact) for fact in facts), "")
    first, *others = methods
    statement, source = first.statements[0] if first.advice is None else first.statements[-1]
    found = first.method.evidence.reporting(training, first.factor) if not first.advice else ()
    reports = tuple(
        say("advice", Fact("after" if one.amount else "untrained", vars(one))) for one in found
    )
    if reports:  # the statement tells of other factors and amounts of training, too
        statement, source = f"Reported {'; '.join(reports)}.", ""
    numbers = {"unseen": first.pairs.unseen_count, "statement": statement}
    derived = derivatives_of(plan.model, first.method.kind)
    return Advice(
        title=title,
        method=first.method.label,
        short=say("advice", Fact("short", vars(first.short))),
        sentence=say("advice", Fact("unseen" if numbers["unseen"] else "known", numbers)),
        source=source,
        equal=tuple(other.method.label for other in others),
        reports=reports,
        effective=tuple(
            (say("advice", Fact("effective", vars(one))), one.source) for one in derived
        ),
    )


def nearest_factor(plan: ContextPlan, training: Training) -> float:
    """Return the largest factor below the planned one that a source reports after an amount of training.

    0 where no method of the plan is reported so.
    """
    return max(_reported_below(plan, training).values(), default=0.0)


def _reported_below(plan: ContextPlan, training: Training) -> dict[str, float]:
    """Return by the words of each method its largest such factor; of methods that have one."""
    reported = {}
    for method in plan.methods:
        factors = [
            one.factor
            for one in method.method.evidence.reports
            if one.training == training and one.factor < method.factor
        ]
        if factors:
            reported[method.method.words] = max(factors)
    return reported


def _nearest(plan: ContextPlan, training: Training) -> Iterator[Fact]:
    """Yield at which smaller factor sources report methods, where there is one."""
    nearest = nearest_factor(plan, training)
    if nearest and plan.trained_length:
        reported = _reported_below(plan, training)
        methods = [words for words, factor in reported.items() if factor == nearest]
        tokens = int(nearest * plan.trained_length)
        yield Fact("nearest", {"nearest": nearest, "tokens": tokens, "methods": methods})
