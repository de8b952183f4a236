"""The runs that the options of Train mean: their plan, presets that fit a time, the same as Python."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dashboard import runs, training_text, training_time
from dashboard.limits import (
    MAX_RUN_HEADS,
    MAX_RUN_LAYERS,
    MAX_RUN_LENGTH,
    MAX_RUN_RATES,
    MAX_RUN_SEEDS,
    MAX_RUN_STEPS,
    MAX_RUN_WIDTH,
)
from dashboard.settings import Setting
from dashboard.settings.labelled import LabelledChoice
from posenc import fields, limits
from posenc.lab.corpus import Corpus, standard_library
from posenc.lab.specification import Specification
from posenc.lab.sweep import specifications
from posenc.lab.tasks import TASKS, Language

MIN_STEPS = 20


@dataclass(frozen=True)
class Preset:
    """Sizes of models, and what was measured at these sizes.

    values: of the controls. seconds: that all runs should take on this machine. measured_steps: of the
    models whose `rises` in loss follow, in nats from the training length to 16 times it, by scheme; seed 0.
    """

    values: Mapping[str, Any]
    seconds: float
    measured_steps: int
    rises: Mapping[str, float]


# The first is the smallest that tells schemes apart; after 100 steps its models know less than byte pairs.
PRESETS = {
    "short": Preset(
        {"run_length": 16, "width": 32, "layers": 1, "run_heads": 2, "seeds": 1},
        30.0,
        400,
        {"rope": 0.24, "alibi": 0.06},
    ),
    "longer": Preset(
        {"run_length": 32, "width": 64, "layers": 2, "run_heads": 4, "seeds": 1},
        120.0,
        600,
        {"rope": 1.22, "alibi": 0.03},
    ),
}
SCRIPT = """
from posenc.lab import Store, run_once, standard_library
from posenc.lab.sweep import specifications

corpus = {corpus}
plan = [
    specification
    for rate in {run_rates!r}
    for specification in specifications(
        {schemes!r}, seeds={seeds}, bases=({base!r},), widths=({width},), layers={layers},
        heads={run_heads}, corpus=corpus, train_length={run_length}, task={task!r}, steps={steps},
        learning_rate=rate,
    )
]
store = Store()  # your own, a folder of your user data
print("run,scheme,rate,seed,last loss")
for specification in plan:
    run = run_once(specification, corpus, store)
    rate, seed = specification.learning_rate, specification.seed
    print(run.run_id, specification.scheme.label, rate, seed, run.losses[-1], sep=",")
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the page; schemes and base are in the sidebar.

    training_text: the key of an own text, "" for Python's sources. No link holds it: others lack the text.
    """

    UNLINKED: ClassVar[tuple[str, ...]] = ("training_text",)

    task: str = LabelledChoice(
        options=tuple(TASKS),
        labels={kind: task.label.lower() for kind, task in TASKS.items()},
        label="Task",
        help=" ".join(f"{task.label}: {task.learns}." for task in TASKS.values()),
    ).field(Language.kind)
    run_length: int = fields.IntRange(
        low=limits.MIN_RUN_TOKENS,
        high=MAX_RUN_LENGTH,
        label="Training length (tokens)",
        help="Copy and indexing: letters of the longest string. Parity: bits.",
    ).field(32)
    steps: int = fields.IntRange(
        low=1, high=MAX_RUN_STEPS, label="Steps", help="Batch size 32."
    ).field(300)
    width: int = fields.IntRange(
        low=8,
        high=MAX_RUN_WIDTH,
        multiple_of=2,
        label="Width",
        help="Model width, a multiple of twice the heads.",
    ).field(64)
    layers: int = fields.IntRange(
        low=1, high=MAX_RUN_LAYERS, label="Layers", help="Attention layers of the model."
    ).field(2)
    run_heads: int = fields.IntRange(
        low=1, high=MAX_RUN_HEADS, label="Heads", help="Attention heads per layer."
    ).field(4)
    seeds: int = fields.IntRange(
        low=1,
        high=MAX_RUN_SEEDS,
        label="Seeds",
        help="Runs per scheme and rate, with different initial weights and data order. Schemes of a seed "
        "share both: differences are taken within such pairs.",
    ).field(1)
    run_rates: tuple[float, ...] = fields.Numbers(
        low=1e-6,
        high=1.0,
        least=1,
        most=MAX_RUN_RATES,
        label="Learning rates",
        help="With commas between them. Each scheme is compared at its best one.",
    ).field((0.002,))
    training_text: str = fields.Word(
        pattern=rf"(?:{training_text.KEY})?",
        in_words="the key of an uploaded text",
        label="Text to learn",
    ).field("")


def protocol_rates() -> tuple[float, ...]:
    """Return the learning rates of the sweeps of the protocol that ships with the library."""
    sweeps = (part.sweep for part in runs.protocol().parts.values())
    return next(sweep.learning_rates for sweep in sweeps if sweep is not None)


def runs_of(setting: Setting, options: Options, corpus: Corpus | None) -> list[Specification]:
    """Return the runs that the controls mean. Raises ConfigError for sizes that do not fit."""
    return [
        run
        for rate in dict.fromkeys(options.run_rates)
        for run in specifications(
            setting.schemes,
            seeds=options.seeds,
            bases=(setting.base,),
            widths=(options.width,),
            layers=options.layers,
            heads=options.run_heads,
            corpus=corpus,
            train_length=options.run_length,
            task=options.task,
            steps=options.steps,
            learning_rate=rate,
        )
    ]


def with_fitting_width(options: Options) -> Options:
    """Return the options with the nearest width that gives every head an even one."""
    rule = fields.rules(options)["width"]
    assert isinstance(rule, fields.IntRange)
    step = 2 * options.run_heads
    least, most = -(-rule.low // step), rule.high // step
    return replace(options, width=step * min(max(round(options.width / step), least), most))


def preset_changes(setting: Setting, name: str) -> dict[str, Any]:
    """Return the options that a preset sets, one learning rate too. For its steps it times this machine."""
    preset = PRESETS[name]
    return {
        "task": Language.kind,
        "run_rates": Options().run_rates,
        **preset.values,
        "steps": _steps_within(preset.seconds, setting, preset.values),
    }


def script(setting: Setting, options: Options) -> str:
    """Return a script that makes the runs a start would make, on the default text."""
    corpus = "standard_library()" if options.task == Language.kind else None
    values = vars(options) | {"schemes": setting.schemes, "base": setting.base, "corpus": corpus}
    return SCRIPT.lstrip().format(**values)


def _steps_within(seconds: float, setting: Setting, values: Mapping[str, Any]) -> int:
    """Return how many training steps of every run fit a time, loading and evaluation included."""
    planned = runs_of(setting, Options(**values, steps=1), standard_library())
    evaluation = training_time.seconds_of_evaluations(planned)
    left = seconds - training_time.LOADING_SECONDS - evaluation
    steps = round(left / training_time.seconds_of_steps(planned))
    return min(max(MIN_STEPS, steps - steps % 10), MAX_RUN_STEPS)
