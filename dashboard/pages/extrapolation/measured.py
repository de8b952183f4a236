"""The view "measured" of Extrapolation: trained models evaluated past their training length."""

from collections.abc import Mapping, Sequence
from functools import partial

from dashboard import (
    notes,
    run_accuracies,
    run_charts,
    run_descriptions,
    run_losses,
    run_results,
    run_tables,
    runs,
)
from dashboard.blocks import (
    Block,
    Columns,
    Controls,
    Data,
    Definition,
    Drawer,
    Findings,
    Link,
    Page,
    Text,
)
from dashboard.charts import loss
from dashboard.pages.extrapolation import rates, steps
from dashboard.pages.extrapolation.options import Options
from dashboard.run_results import HardlyLearned
from dashboard.script import whole_script
from dashboard.settings import Setting
from dashboard.text import listed, plain
from posenc.lab import summary
from posenc.lab.runs import RunInfo
from posenc.lab.specification import Specification
from posenc.lab.summary import Curve
from posenc.lab.tasks import Language, Recall, contexts, questions_of
from posenc.schemes import SCHEMES
from posenc.text import count_of

# Of the table, which shall fit a small laptop; its data has them.
HIDDEN_COLUMNS = [
    "perplexity", "perplexity ratio", "bits per byte", "evaluated to", "seeds", "learning rate",
]  # fmt: skip
AT_FIRST, AT_LAST = "At the training length.", "At the longest context evaluated."
HELP = {
    "loss": AT_FIRST, "loss at the end": AT_LAST,
    "lowest seed": AT_LAST, "highest seed": AT_LAST,
}  # fmt: skip
OF_SHIPPED = "language-64-8c2dbbee"  # shown where no comparison ships for these schemes
STEPS = (
    "The models of a comparison share size, initial weights, data, order and steps; only the scheme "
    "differs, and its learning rate where several were tried. The same target tokens are scored at every "
    "context length, so a rising curve is not due to other targets. A dot is one model; a band runs from "
    "the lowest to the highest. Compare losses at the training length first: a flat curve with a higher "
    "loss is not better. A thin line is the same model with its text cut to the training length: above it, "
    "more context does harm. A learned table ends at the training length; repeating its last row is a "
    "variant. RoPE can be evaluated with other frequencies without more training."
)
DEFINITION = Definition(
    r"\ell(n) = -\frac{1}{|S|} \sum_{t \in S} \log p(x_t \mid x_{e-n}, \dots, x_{t-1})",
    "The targets S are the last L/4 tokens before each end e, where L is the training length. "
    "A window of n tokens leaves n - L/4 + 1 to n tokens before a target; only n changes. "
    "After Press et al. 2022, arXiv 2108.12409, section 2.2.",
    (contexts, summary.first_degraded_length, summary.effect),
)
IMPORTS = """
from posenc.checkpoints.sources import RESULTS
from posenc.lab import Store, summary
from posenc.lab.best_rates import compared_runs
"""
SCRIPT = """
stores = [{stores}]
runs = [run for store in stores for run in store]
runs = [run for run in runs if run.specification.scheme.kind in kinds]
runs = [run for run in runs if summary.comparison(run.specification) == "{comparison}"]
curves = summary.curves(compared_runs(runs), "{measure}")
print("scheme,read,x,mean,low,high,seeds")
for curve in curves:
    for point in curve.points:
        label = curve.specification.scheme.label
        values = point.x, point.mean, point.low, point.high, curve.seeds
        read = summary.read_as(curve, curves)
        print(label, f'"{{read}}"', *values, sep=",")
"""


def page(setting: Setting, options: Options) -> Page:
    """Return the page, which depends on the runs that are there, so that it is never cached.

    A run has numbers of its own: of a setting only the schemes count.
    """
    ids = runs.all_ids()
    kinds, comparisons = setting.schemes, runs.comparisons(ids)
    default = runs.shipped_comparison(kinds) or OF_SHIPPED
    asked = options.comparison or default
    name = asked if asked in comparisons else default
    compared = comparisons.get(name, [])
    first = {*runs.shipped()}
    shipped = [info for info in compared if info.run_id in first]
    has_own = 0 < len(shipped) < len(compared)
    # What somebody trains changes no sentence of what ships, unless a visitor asks for it.
    if has_own and not options.own_runs:
        compared = shipped
    beside = comparisons if options.own_runs or not shipped else runs.comparisons(runs.shipped())
    shown = runs.of_kinds(compared, kinds)
    drawn = shown if options.variants else _without_variants(shown)
    curves = runs.curves(drawn, run_descriptions.measure(drawn[0].specification)) if drawn else []
    hardly = run_results.hardly_learned(curves, shown)
    answer = run_results.headline(curves, hardly)
    if not shown:
        where = "in this comparison" if compared else "on this server"
        answer = f"No model of {notes.names(kinds)} is {where}."
    return Page(
        title="Extrapolation",
        headline=answer,
        blocks=(
            Controls(
                ("half", "comparison", *(("own_runs",) if has_own else ())),
                {"comparison": offered(comparisons, default)},
            ),
            *_missing(asked, name),
            *(_picture(shown, drawn, curves, options, hardly) if curves else ()),
            *(_numbers(compared, shown, curves, hardly) if curves else ()),
            *(_tables(compared, ids) if curves and not hardly else ()),
            *(rates.blocks(shown, ids) if curves else ()),
            *(steps.blocks(shown, beside, _farthest(curves)) if curves else ()),
            *(_notes(kinds, shown, curves) if shown else ()),
            Link("train"),
        ),
        guide=STEPS,
        definition=DEFINITION,
        script=partial(_script, kinds, name, shown, curves) if curves else None,
    )


def _farthest(curves: Sequence[Curve]) -> int:
    """Return the longest context of all; a learned table ends at the training length."""
    return max(curve.points[-1].x for curve in curves)


def _without_variants(infos: list[RunInfo]) -> list[RunInfo]:
    """Return the runs without those that were fine-tuned, of schemes that have others."""
    kinds = {info.specification.scheme.kind for info in runs.in_one_stage(infos)}
    return [
        info
        for info in infos
        if info.specification.fine_tuning is None or info.specification.scheme.kind not in kinds
    ]


def offered(comparisons: Mapping[str, list[RunInfo]], default: str) -> dict[str, str]:
    """Return the title of every comparison by its name, of the default by "".

    Equal titles end with the text or the steps that tell them apart, else with the end of the name.
    """
    specifications = {name: infos[0].specification for name, infos in comparisons.items()}
    titles = {name: run_descriptions.title(each) for name, each in specifications.items()}
    for detail in (_text, _steps):
        groups: dict[str, list[str]] = {}
        for name, title in titles.items():
            groups.setdefault(title, []).append(name)
        for names in groups.values():
            details = {name: detail(specifications[name]) for name in names}
            if len({*details.values()}) > 1:
                titles |= {name: f"{titles[name]}, {details[name]}" for name in names}
    shown = [*titles.values()]
    named = {} if default in titles else {"": default}
    for name, title in titles.items():
        only = title if shown.count(title) == 1 else f"{title}, {name[-8:]}"
        named["" if name == default else name] = only
    return named


def _text(specification: Specification) -> str:
    return specification.corpus_name


def _steps(specification: Specification) -> str:
    return count_of(specification.steps, "step")


def _missing(asked: str, name: str) -> list[Block]:
    """Say that the comparison asked for is not here, and which runs cannot be shown."""
    texts: list[Block] = []
    if asked != name:
        sentence = (
            f"Comparison {plain(asked)} is not on this server; {plain(name)} is shown instead."
        )
        texts.append(Text(sentence, "warning", icon="info"))
    if unreadable := runs.unreadable():
        texts.append(Text(plain(unreadable), "caption"))
    return texts


def _picture(
    shown: list[RunInfo],
    drawn: list[RunInfo],
    curves: list[Curve],
    options: Options,
    hardly: HardlyLearned | None,
) -> list[Block]:
    """Return loss, perplexity or accuracy of these runs, a line per scheme and variant, and its controls.

    drawn: the runs without those that are variants, unless these are asked for. curves: of those, of the
    measure that is compared first.
    """
    language = shown[0].specification.task == Language.kind
    measures = [curves[0].measure]
    if language and options.axis != "context length":
        measures = ["position"] if options.axis == "position" else [*measures, "position"]
    perplexity = language and options.unit == "perplexity"
    has_variants = _without_variants(shown) != shown or runs.as_trained(curves) != curves
    asked = (*(("axis", "unit") if language else ()), *(("variants",) if has_variants else ()))
    pictures: list[Block] = []
    for measure in measures:
        lines = runs.curves(drawn, measure)
        if not (has_variants and options.variants):
            lines = runs.as_trained(lines)
        picture: Block = Text("These models were not evaluated along one long text.", "caption")
        if lines:
            picture = run_charts.by_length(f"measured_{measure}", lines, perplexity=perplexity)
        pictures.append(picture)
    beside = pictures if len(pictures) == 1 else [Columns([[each] for each in pictures])]
    about = run_results.about(curves, hardly, is_cut="context" in measures)
    if language and not hardly:
        about += f" {run_losses.rules_in_percent()}"
    beyond = [] if hardly else _beyond_loss(curves, runs.curves(shown, curves[0].measure))
    return [*beside, *beyond, *([Controls(asked)] if asked else []), Text(plain(about), "caption")]


def _beyond_loss(curves: Sequence[Curve], every: Sequence[Curve]) -> list[Block]:
    """Return whether cutting the text is better, what loss leaves open, and what models recall.

    curves: those that are drawn. every: with those of variants, too.
    """
    if curves[0].specification.task != Language.kind:
        return []
    holding = [
        curve.specification.scheme.kind
        for curve in runs.as_trained([*curves])
        if (effect := run_losses.past_training(curve).effect) and effect.keeps
    ]
    shipped = [info for infos in runs.comparisons(runs.shipped()).values() for info in infos]
    recall = [info for info in shipped if info.specification.task == Recall.kind]
    of_holding = runs.as_trained(runs.curves(runs.of_kinds(recall, holding), Recall.kind))
    texts = (
        run_losses.lowest_cut(curves),
        run_losses.untrained_scaling(every),
        run_losses.beyond_loss(of_holding),
    )
    return [Text(" ".join(text for text in texts if text))]


def _numbers(
    compared: Sequence[RunInfo],
    shown: Sequence[RunInfo],
    curves: list[Curve],
    hardly: HardlyLearned | None,
) -> list[Block]:
    """Return the table of all runs of a comparison, and the numbers of the schemes shown."""
    measure = curves[0].measure
    table = run_results.table(runs.curves(compared, measure), hardly)
    shown_table = run_accuracies.in_percent(table.drop(columns=HIDDEN_COLUMNS, errors="ignore"))
    data = [
        Data(
            title=f"Measured {'' if loss.is_accuracy(by) else 'loss by '}{by}",
            frame=loss.points(runs.curves(shown, by)),
            columns=loss.names(by),
        )
        for by in (("context", "position") if measure == "context" else (measure,))
    ]
    return [
        Text("All measured schemes", "heading"),
        Findings("measured", shown_table, HELP),
        *_details(compared, shown),
        *data,
        Data(title="Measured classes", frame=table),
    ]


def _tables(compared: Sequence[RunInfo], run_ids: tuple[str, ...]) -> list[Block]:
    """Return the tables of a comparison with differences and intervals, in drawers.

    run_ids: of all runs, among which those of a sweep may be.
    """
    if compared[0].specification.task != Language.kind:
        return []
    tables = {"intervals": ("Table with differences and intervals", False)}
    if any(info.specification.fine_tuning is not None for info in compared):
        tables["tuned"] = ("Table of fine-tuned models, with differences and intervals", True)
    return [
        Drawer(
            f"{key}_drawer",
            title,
            partial(_table, compared, run_ids, key, fine_tuned=fine_tuned),
            icon="table_chart",
        )
        for key, (title, fine_tuned) in tables.items()
    ]


def _table(
    compared: Sequence[RunInfo], run_ids: tuple[str, ...], key: str, *, fine_tuned: bool
) -> list[Block]:
    rates = [*runs.rates(compared), *runs.swept(compared, run_ids)]
    table = run_tables.table_of(runs.curves(compared, "context"), rates, fine_tuned=fine_tuned)
    if table is None:
        return [Text("One model alone has no difference.", "caption")]
    return run_tables.blocks(key, table)


def _details(compared: Sequence[RunInfo], shown: Sequence[RunInfo]) -> list[Block]:
    """Return what a task with answers has measured besides, in percent, where its runs have that."""
    specification = shown[0].specification
    if specification.task == Language.kind:
        return []
    task = questions_of(specification.task)
    asked = task.asked(specification.train_length, specification.longest)
    measures = [name for name in dict.fromkeys(one.measure for one in asked) if name != task.kind]
    details = [curve for name in measures for curve in runs.curves(compared, name)]
    blocks: list[Block] = []
    if details:
        text = Text(f"{task.of_details}, in percent.", "caption")
        blocks += [text, Findings("details", run_accuracies.details(details))]
    if by_position := runs.curves(shown, f"{task.kind} position"):
        frame, columns = loss.points(by_position), {"x": "position", "y": "accuracy"}
        blocks.append(Data(title="Accuracy by position", frame=frame, columns=columns))
    return blocks


def _notes(
    kinds: tuple[str, ...], shown: Sequence[RunInfo], curves: Sequence[Curve]
) -> list[Block]:
    """Say which runs these are, which schemes have none, and which cannot be shown."""
    trained = tuple(kind for kind in kinds if runs.of_kinds(shown, (kind,)))
    chosen = [curve.specification.learning_rate for curve in curves]
    description = run_descriptions.full_description(shown[0].specification, chosen)
    texts = [Text(plain(f"{description}."), "caption")]
    if missing := tuple(kind for kind in kinds if kind not in trained):
        texts.append(Text(f"Not trained in this comparison: {notes.names(missing)}.", "caption"))
    for info in shown:
        if info.stopped:
            specification = info.specification
            text = f"{specification.scheme.label}, seed {specification.seed}: {info.stopped}"
            texts.append(Text(plain(text), "info", icon="block"))
    lost = [info.run_id for info in shown if runs.run(info.run_id) is None]
    if lost:
        sentence = (
            f"{count_of(len(lost), 'trained model')} cannot be read now, {listed(lost)}. The others "
            "are shown."
        )
        texts.append(Text(sentence, "warning"))
    if alike := runs.sharing_seeds(shown):
        sentence = (
            f"Not counted: {count_of(alike, 'model')} that have the initial weights, or the order of the "
            "data, of one that is counted, so that they are no trials of their own."
        )
        texts.append(Text(sentence, "caption"))
    for kind in trained:
        if SCHEMES[kind].in_training:
            sentence = f"{SCHEMES[kind].label}: {SCHEMES[kind].in_training}"
            texts.append(Text(sentence, "caption"))
    return [*texts]


def _script(
    kinds: tuple[str, ...], name: str, shown: Sequence[RunInfo], curves: list[Curve]
) -> str:
    """Return the script that reads the curves of a comparison."""
    places = {info.run_id in runs.shipped() for info in shown}
    stores = ", ".join("Store(str(RESULTS))" if ships else "Store()" for ships in sorted(places))
    body = SCRIPT.format(stores=stores, comparison=name, measure=curves[0].measure)
    return whole_script(IMPORTS, f"kinds = {kinds!r}", body)
