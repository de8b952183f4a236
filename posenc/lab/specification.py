"""What decides a run's numbers, as a record of plain values whose hash is the run's name."""

import dataclasses
import functools
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch

from posenc import __version__, fields, limits
from posenc.errors import (
    ConfigError,
    RunError,
    RunOfAnotherVersion,
    SchemeNotRegistered,
    quoted,
)
from posenc.lab.corpus import Corpus
from posenc.lab.model import ModelSize
from posenc.lab.tasks import TASKS, Language, Task
from posenc.schemes import SCHEMES
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope_scaling import AFTER_TRAINING, length_extensions
from posenc.schemes.sizes import Sizes

DEFAULT_SCALINGS = ("rope_linear", "rope_ntk")
_SCALINGS = tuple(AFTER_TRAINING)
_OF_THE_MODEL = (
    "dim",
    "heads",
    "layers",
    "max_len",
    "length",
)  # fields of a scheme that fit its model
_START = 2  # initialization of models whose scores are not divided by sqrt(head_dim); formerly 1


class Trial(NamedTuple):
    """The seeds of one repetition of a run: of the weights, and of the order of the data."""

    seed: int
    data_seed: int


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """A second stage of training, after one with another scheme.

    before: the scheme of the first stage, whose length, steps and rate are those of the specification.
    length, steps, learning_rate: of the second stage. Its steps have about as many tokens as those of the
    first, and its rate rises and falls over its own steps.
    """

    before: SchemeConfig
    length: int = fields.IntRange(low=limits.MIN_RUN_TOKENS, high=limits.MAX_RUN_TOKENS).field(256)
    steps: int = fields.IntRange(low=1, high=1_000_000).field(120)
    learning_rate: float = fields.FloatRange(low=1e-6, high=1.0).field(2e-4)

    def __post_init__(self) -> None:
        fields.check(self)

    @property
    def record(self) -> dict[str, Any]:
        """All fields as values of JSON."""
        plain = _reals(self, {f.name: getattr(self, f.name) for f in dataclasses.fields(self)})
        return plain | {"before": _reals(self.before, self.before.record())}


@dataclass(frozen=True, kw_only=True)
class Specification:
    """One training run and its evaluation. Equal specifications give equal numbers on one machine.

    seed: of the weights. data_seed: of the order of the data, None where it is the seed too.
    scheme_rate: the factor of the learning rate for the parameters of the scheme.
    fine_tuning: a second stage that trains the model with `scheme`, after a first with another.
    scalings: applied to a trained plain RoPE past its length. longest: evaluated context over the
    training length. segments: number that is scored. corpus: the SHA-256 of the text, "" for
    a task without one; corpus_name does not decide the run. device, threads, compiled: they change
    the rounding. versions: of posenc and torch.
    """

    scheme: SchemeConfig
    model: ModelSize = dataclasses.field(default_factory=ModelSize)
    task: str = fields.Choice(options=tuple(TASKS)).field(Language.kind)
    corpus: str = ""
    corpus_name: str = dataclasses.field(default="", compare=False)
    train_length: int = fields.IntRange(
        low=limits.MIN_RUN_TOKENS, high=limits.MAX_RUN_TOKENS
    ).field(64)
    steps: int = fields.IntRange(low=1, high=1_000_000).field(1_200)
    batch: int = fields.IntRange(low=1, high=4_096).field(32)
    learning_rate: float = fields.FloatRange(low=1e-6, high=1.0).field(2e-3)
    weight_decay: float = fields.FloatRange(low=0.0, high=10.0).field(0.1)
    scheme_rate: float = fields.FloatRange(low=0.01, high=100.0).field(1.0)
    seed: int = fields.IntRange(low=0, high=2**31 - 1).field(0)
    data_seed: int | None = None
    fine_tuning: FineTuning | None = None
    longest: int = fields.IntRange(low=1, high=64).field(16)
    segments: int = fields.IntRange(low=1, high=65_536).field(256)
    scalings: tuple[str, ...] = fields.MultiChoice(options=_SCALINGS, most=len(_SCALINGS)).field(
        DEFAULT_SCALINGS
    )
    device: str = fields.Choice(options=("cpu", "cuda", "mps")).field("cpu")
    threads: int = fields.IntRange(low=1, high=1_024).field(1)
    compiled: bool = fields.Flag().field(False)
    versions: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        fields.check(self)
        if not self.corpus_name.isprintable():
            raise ConfigError(
                f"Specification.corpus_name must be printable, got {quoted(self.corpus_name)}."
            )
        if self.data_seed is not None:
            limits.check_seed(self.data_seed)
        if self.data_seed == self.seed:  # one spelling for one run
            object.__setattr__(self, "data_seed", None)
        if not self.versions:
            object.__setattr__(self, "versions", current_versions())
        if not re.fullmatch("[0-9a-f]{64}" if self.task == Language.kind else "", self.corpus):
            raise ConfigError(
                f"Specification.corpus must be 64 hexadecimal digits for the task {Language.kind}, "
                f"and empty for the others, got {quoted(self.corpus)} for {self.task}."
            )
        if self.train_length > TASKS[self.task].most:
            raise ConfigError(
                f"Specification.train_length must be at most {TASKS[self.task].most} for the task "
                f"{self.task}, got {self.train_length:,}."
            )
        if not length_extensions(self.scheme, 2 * self.train_length, self.train_length):
            object.__setattr__(self, "scalings", DEFAULT_SCALINGS)  # none applies
        if self.fine_tuning is not None:
            _ = self.stages  # each is checked as a run of its own
            return
        if self.scheme.least_layers > self.model.layers:
            raise ConfigError(
                f"Specification.model.layers must be at least {self.scheme.least_layers} for "
                f"{self.scheme.label}, or it is never used as a whole, got {self.model.layers}."
            )
        rows = TASKS[self.task].positions(self.train_length)
        shape = self.scheme.shape(_sizes(self.model.width, self.model.heads))
        # In full, not only what a comparison shows.
        shape |= {"max_len": rows, "length": rows, "layers": self.model.layers}
        for name, value in self.scheme.record().items():
            if name in _OF_THE_MODEL and value != shape.get(name, value):
                raise ConfigError(
                    f"Specification.scheme.{name} must be {shape[name]} for a model of width "
                    f"{self.model.width} with {self.model.heads} heads and {self.model.layers} layers "
                    f"that is trained on {rows:,} positions, got {value}."
                )

    @property
    def record(self) -> dict[str, Any]:
        """All fields as values of JSON."""
        plain = _reals(self, {f.name: getattr(self, f.name) for f in dataclasses.fields(self)})
        plain["scheme"] = _reals(self.scheme, self.scheme.record())
        plain["model"] = dataclasses.asdict(self.model)
        plain["versions"] = dict(self.versions)
        if not self.compiled:  # keeps the ids of runs that are older than the field
            del plain["compiled"]
        if self.scalings == DEFAULT_SCALINGS:  # likewise
            del plain["scalings"]
        if self.data_seed is None:
            del plain["data_seed"]
        if self.scheme_rate == 1:
            del plain["scheme_rate"]
        if self.fine_tuning is None:
            del plain["fine_tuning"]
        else:
            plain["fine_tuning"] = self.fine_tuning.record
        if not self.scheme.divided:
            plain["start"] = _START
        return plain | {"protocol": TASKS[self.task].protocol}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Return the specification of a record. Raises RunError for an unknown one."""
        if not isinstance(record, dict) or "protocol" not in record:
            raise RunError("The run's specification cannot be read: it names no protocol.")
        try:
            values = dict(record)
            protocol, start = values.pop("protocol"), values.pop("start", 1)
            scheme, model = dict(values.pop("scheme")), dict(values.pop("model"))
            versions = dict(values.pop("versions")).items()
            scalings = tuple(values.pop("scalings", DEFAULT_SCALINGS))
            known = TASKS[values["task"]].protocol
            if protocol != known:
                raise RunOfAnotherVersion(
                    f"The run was made by protocol {quoted(protocol)}, this is {known}."
                )
            kind = _registered(scheme)
            tuning = values.pop("fine_tuning", None)
            if tuning is not None:
                before = dict(tuning["before"])
                tuning = FineTuning(**tuning | {"before": _registered(before).from_record(before)})
            if start != (1 if kind.divided else _START):
                raise RunOfAnotherVersion(
                    "The run's model was started in another way than here: queries of schemes that do "
                    "not divide by sqrt(head_dim) are drawn smaller now."
                )
            return cls(
                scheme=kind.from_record(scheme),
                model=ModelSize(**model),
                versions=tuple(sorted((name, str(number)) for name, number in versions)),
                scalings=scalings,
                fine_tuning=tuning,
                **values,
            )
        except RunError:
            raise
        except ConfigError as error:
            raise RunOfAnotherVersion(f"The run's specification cannot be read: {error}") from None
        except (KeyError, TypeError, AttributeError, ValueError):
            raise RunOfAnotherVersion(
                "The run's specification cannot be read: it has a field that is unknown here."
            ) from None

    @property
    def stages(self) -> tuple[Self, ...]:
        """The stages of training, each as the specification of a run of its own."""
        tuning = self.fine_tuning
        if tuning is None:
            return (self,)
        first = dataclasses.replace(self, scheme=tuning.before, fine_tuning=None)
        second = dataclasses.replace(
            self,
            fine_tuning=None,
            train_length=tuning.length,
            steps=tuning.steps,
            learning_rate=tuning.learning_rate,
            batch=max(1, self.batch * self.train_length // tuning.length),
        )
        return (first, second)

    @property
    def all_steps(self) -> int:
        """The steps of all stages."""
        return sum(stage.steps for stage in self.stages)

    @property
    def trial(self) -> Trial:
        """The seeds of the run."""
        return Trial(self.seed, self.seed if self.data_seed is None else self.data_seed)

    @property
    def run_id(self) -> str:
        """The id of the run, a hash of all that decides its numbers."""
        return name_of(self.record)

    @property
    def description(self) -> str:
        """A phrase with the task, sizes, steps and seed."""
        return f"{self.alike}, seed {self.seed}"

    @property
    def alike(self) -> str:
        """The same phrase without the seed."""
        what = f" of {self.corpus_name}" if self.corpus_name else ""
        layers = "1 layer" if self.model.layers == 1 else f"{self.model.layers} layers"
        steps = "1 step" if self.steps == 1 else f"{self.steps:,} steps"
        return (
            f"{self.task} task{what}, training length {self.train_length:,}, {layers} of width "
            f"{self.model.width}, {steps}"
        )

    def make_task(self, corpus: Corpus | None) -> Task:
        """Return the task. Raises RunError unless the corpus has the hash of the specification."""
        if self.task != Language.kind:
            return TASKS[self.task](self.train_length)
        if corpus is None or corpus.sha256 != self.corpus:
            text = "no text" if corpus is None else f"the text {corpus.name}"
            raise RunError(f"The run needs the text {self.corpus_name}, got {text}.")
        longest = self.longest * self.train_length
        if min(len(corpus.train), len(corpus.validation)) <= longest:
            raise RunError(
                f"The text must have more than {longest:,} bytes for training and for validation to "
                f"be read to {self.longest} times the training length; it has "
                f"{len(corpus.train):,} and {len(corpus.validation):,}."
            )
        return Language(self.train_length, corpus)


def _registered(record: dict[str, Any]) -> type[SchemeConfig]:
    """Return the class of a scheme's record. Raises SchemeNotRegistered."""
    if record["kind"] not in SCHEMES:
        raise SchemeNotRegistered(record["kind"])
    return SCHEMES[record["kind"]]


def name_of(record: dict[str, Any]) -> str:
    """Return the first 20 hexadecimal digits of the SHA-256 of what decides a run."""
    decides = {name: value for name, value in record.items() if name != "corpus_name"}
    text = json.dumps(decides, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@functools.cache
def _sizes(width: int, heads: int) -> Sizes:
    """Return sizes that are checked for every scheme once: hundreds of runs are read with the same."""
    return Sizes(dim=width, heads=heads)


def _reals(owner: Any, plain: dict[str, Any]) -> dict[str, Any]:
    """Return values with the integers of real fields as floats: 1 and 1.0 have one id."""
    values = dict(plain)
    for name, rule in fields.rules(owner).items():
        if isinstance(rule, fields.FloatRange):
            values[name] = float(plain[name])
        elif isinstance(rule, fields.Numbers) and not rule.whole:
            values[name] = tuple(float(number) for number in plain[name])
    return values


def current_versions() -> tuple[tuple[str, str], ...]:
    """Return the versions of this library and torch."""
    return (("posenc", __version__), ("torch", torch.__version__))
