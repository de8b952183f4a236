"""Train: models of your own size and text, in the background, for every visitor to see."""

from collections.abc import Sequence
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
    training_text,
)
from dashboard.blocks import (
    Block,
    Button,
    Columns,
    Controls,
    Definition,
    Drawer,
    Findings,
    Link,
    Live,
    Page,
    Row,
    Text,
    Uses,
)
from dashboard.pages.train.plan import (
    PRESETS,
    Options,
    Preset,
    preset_changes,
    protocol_rates,
    runs_of,
    script,
    with_fitting_width,
)
from dashboard.run_results import HardlyLearned
from dashboard.settings import Setting
from dashboard.text import duration, listed, plain
from posenc.errors import PosencError
from posenc.lab import summary
from posenc.lab.best_rates import TriedRates
from posenc.lab.specification import Specification
from posenc.lab.summary import Curve
from posenc.lab.tasks import Language
from posenc.lab.train import Trainer, learning_rate_at
from posenc.schemes import SCHEMES
from posenc.text import count_of

USES = Uses(("schemes", "base"), schemes=False)
MAX_LINKS = 20  # to comparisons trained here
GUIDE = (
    "One background process trains at low priority; other jobs are queued. A job continues when you "
    "close this page and is the same for every visitor. Anyone can watch it and stop it. The "
    "same job started again continues from "
    "there, also after a restart of the server. Runs with the same sizes, text and seed are one "
    "run, whatever the text is called, so nothing is trained twice. Finished runs are on "
    "Extrapolation; the table of a learned run can be chosen in the sidebar."
)
DEFINITION = Definition(
    r"\eta_t = \eta \left( 0.1 + 0.9 \cdot \tfrac{1 + \cos(\pi\, t')}{2} \right)",
    "AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) after a linear warm-up over the first "
    "twentieth of the steps, gradients clipped to norm 1; t' runs from 0 to 1 over the rest.",
    (learning_rate_at, Trainer.step),
)


def page(setting: Setting, options: Options) -> Page:
    """Return the page, which depends on the runs that are there, so that it is never cached."""
    fitting = with_fitting_width(options)
    planned, said = _planned(setting, fitting)
    ids = runs.all_ids()
    stored = {info.run_id for info in runs.read_infos(ids)}
    finished = [run for run in planned if run.run_id in stored]
    left = [run for run in planned if run.run_id not in stored]
    start = {"runs": left, "planned": len(planned), "text": fitting.training_text}
    form = (
        Row(_presets(setting, options)),
        Controls(("task",)),
        Controls(("run_length", "steps", "seeds")),
        _model(options),
        *_own_text(fitting),
        Text(_sizes(options.width, fitting), "caption"),
        *said,
        *([Live("start_training", start)] if planned else []),
    )
    infos = runs.read_infos(run.run_id for run in finished)
    curves = runs.curves(infos, run_descriptions.measure(finished[0])) if finished else []
    hardly = run_results.hardly_learned(curves, infos)
    picture = _example(setting.schemes)
    if finished:
        picture = _result(finished, len(planned), curves, hardly)
    return Page(
        title="Train",
        headline=f"Train one small model per scheme ({notes.names(setting.schemes)}) and evaluate it "
        "past its training length.",
        blocks=(
            Columns((form, (Live("jobs", {"finished": ids}), *picture))),
            *([] if hardly or not finished else _table(curves, runs.rates(infos))),
            *_others(ids, summary.comparison(finished[0]) if finished else ""),
        ),
        guide=GUIDE,
        definition=DEFINITION,
        script=lambda: script(setting, fitting),
    )


def _planned(setting: Setting, options: Options) -> tuple[list[Specification], list[Text]]:
    """Return the runs, and what has to be said of them and their text; no runs where one is refused."""
    try:
        language = options.task == Language.kind
        corpus = training_text.corpus_of(options.training_text) if language else None
        planned = runs_of(setting, options, corpus)
        planned[0].make_task(corpus)
    except PosencError as error:
        return [], [Text(plain(str(error)), "error")]
    if corpus is None or not corpus.replaced:
        return planned, []
    sentence = f"{corpus.replaced:,} bytes were not UTF-8 and became U+FFFD."
    return planned, [Text(sentence, "info")]


def _presets(setting: Setting, options: Options) -> list[Block]:
    """Return a button per preset, the one whose values stand in the controls marked."""
    return [
        Button(
            f"preset_{name}",
            f"About {duration(preset.seconds)}",
            partial(preset_changes, setting, name),
            icon="check" if preset.values.items() <= vars(options).items() else "",
            help=_measured(preset),
        )
        for name, preset in PRESETS.items()
    ]


def _model(options: Options) -> Drawer:
    """Return the drawer with what a first training can leave as it is."""
    controls = Controls(("width", "layers", "run_heads")), Controls(("run_rates",))
    return Drawer(
        "model_sizes", "Size of the model, and learning rates", lambda: [*controls, _sweep(options)]
    )


def _sweep(options: Options) -> Button:
    """Return the button that takes the rates of the protocol, or one rate again."""
    swept = protocol_rates()
    label = f"Sweep {len(swept)} rates"
    if options.run_rates == swept:
        swept, label = Options().run_rates, "One rate"
    return Button("sweep_rates", label, {"run_rates": swept})


def _measured(preset: Preset) -> str:
    """Say how many steps a preset takes, and what models of its sizes have shown."""
    length = preset.values["run_length"]
    rises = [f"{rise:.2f} nats with {SCHEMES[kind].label}" for kind, rise in preset.rises.items()]
    return (
        f"Steps that fit in about {preset.seconds:.0f} seconds. Models of these sizes, after "
        f"{preset.measured_steps:,} steps: from {length} to {16 * length:,} tokens of context the loss "
        f"rises by {listed(rises)}."
    )


def _sizes(asked: int, fitting: Options) -> str:
    """Say what the drawer of sizes holds, and that another width is used than was asked for."""
    rates = f"learning rate{'s' * (len(fitting.run_rates) > 1)} "
    rates += listed([f"{rate:g}" for rate in fitting.run_rates])
    sentence = (
        f"Each model has {count_of(fitting.layers, 'layer')} of width {fitting.width} with "
        f"{count_of(fitting.run_heads, 'head')}; {rates}."
    )
    if fitting.width == asked:
        return sentence
    return (
        f"{sentence} Width {fitting.width} replaces {asked}: the width must be a multiple of twice the "
        f"heads ({2 * fitting.run_heads})."
    )


def _own_text(options: Options) -> list[Block]:
    """Return the choice of a text, which one task alone reads."""
    if options.task != Language.kind:
        return []
    return [Live("training_text", {"held": options.training_text})]


def _result(
    finished: Sequence[Specification],
    planned: int,
    curves: list[Curve],
    hardly: HardlyLearned | None,
) -> list[Block]:
    """Return what the finished runs of a plan measured, and the link to all of it.

    planned: number of runs. curves: of the finished ones.
    """
    some = "" if len(finished) == planned else f": {len(finished)} of {count_of(planned, 'run')}"
    alone = not hardly and _has_one_seed_each(curves)
    one_seed = "One seed each: another one may change the order." if alone else ""
    trained = runs.as_trained(curves)
    return [
        Text(f"Result{some}", "heading"),
        Text(f"**{run_results.headline(curves, hardly)}** {one_seed}".rstrip()),
        *([run_charts.by_length("trained", trained)] if trained else []),
        *([Text(run_losses.beyond_loss())] if finished[0].task == Language.kind else []),
        *_link(finished, "Open in Extrapolation"),
    ]


def _has_one_seed_each(curves: Sequence[Curve]) -> bool:
    """Return whether several schemes were trained, each with one seed."""
    return len(curves) > 1 and all(curve.seeds == 1 for curve in curves)


def _table(curves: Sequence[Curve], rates: Sequence[TriedRates]) -> list[Block]:
    """Return the results of several schemes in a table: losses with paired intervals, or accuracies."""
    if len(runs.as_trained([*curves])) < 2:
        return []
    if curves[0].specification.task != Language.kind:
        return [Findings("trained_table", run_accuracies.in_percent(run_results.table(curves)))]
    table = run_tables.table_of(curves, rates)
    return [] if table is None else run_tables.blocks("trained", table)


def _example(kinds: tuple[str, ...]) -> list[Block]:
    """Return what shipped models measured, until there is a result of the visitor's own."""
    curves = runs.shipped_loss(kinds)
    if not curves:
        return []
    title = run_descriptions.title(curves[0].specification)
    return [
        Text(f"Example, models that come with posenc: {title}.", "caption"),
        run_charts.by_length("trained", curves),
        Text(run_losses.lines(curves), "caption"),
    ]


def _link(specifications: Sequence[Specification], label: str = "") -> list[Block]:
    """Return the link to the comparison of these runs. label: its text, else the task and the schemes."""
    first, trained = specifications[0], {run.scheme.kind for run in specifications}
    kinds = tuple(kind for kind in SCHEMES if kind in trained)
    changes = {
        "half": "measured", "comparison": summary.comparison(first), "own_runs": True,
        "schemes": kinds,
    }  # fmt: skip
    return [
        Link(
            "extrapolation",
            label or f"{run_descriptions.title(first)}: {notes.names(kinds)}",
            changes,
        ),
        Text(plain(run_descriptions.description(first)), "caption"),
    ]


def _others(ids: tuple[str, ...], linked: str) -> list[Block]:
    """Return a link to every comparison trained on this server, without the one linked to above.

    ids: of all runs.
    """
    shipped = set(runs.shipped())
    own = [
        [info.specification for info in infos]
        for name, infos in runs.comparisons(ids).items()
        if name != linked and any(info.run_id not in shipped for info in infos)
    ]
    if not own:
        return []
    links = [block for specifications in own[:MAX_LINKS] for block in _link(specifications)]
    more = len(own) - MAX_LINKS
    rest = [Text(f"And {more:,} more, on Extrapolation.", "caption")] if more > 0 else []
    return [Text("Finished on this server", "heading"), *links, *rest]
