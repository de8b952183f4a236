"""What a run is: everything that decides its numbers, written as JSON and hashed to its name."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Self

import torch

from posenc import fields
from posenc.errors import ConfigError, RunError, shown
from posenc.lab.corpus import Corpus
from posenc.lab.model import ModelConfig
from posenc.lab.tasks import TASKS, Copy, Language, Recall, Task
from posenc.schemes import SCHEMES
from posenc.schemes.scheme import SchemeConfig

# Raised whenever training or evaluation changes what the same specification gives.
PROTOCOL = 1
MIN_TRAIN_LENGTH, MAX_TRAIN_LENGTH = 16, 8_192


@dataclass(frozen=True, kw_only=True)
class Specification:
    """One training run and its evaluation. Equal specifications give equal numbers on one device.

    corpus: the SHA-256 of the text, "" for a task without one. device: the kind ("cpu", "cuda"),
    because kinds round differently. threads: likewise, of the CPU. versions: of what computes.
    """

    scheme: SchemeConfig
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    task: str = fields.ruled(
        "language", fields.Choice(options=tuple(TASKS), label="Task", help="What is learned.")
    )
    corpus: str = ""
    corpus_name: str = ""
    train_length: int = fields.ruled(
        64, fields.Whole(low=MIN_TRAIN_LENGTH, high=MAX_TRAIN_LENGTH, label="Training length")
    )
    steps: int = fields.ruled(1_200, fields.Whole(low=1, high=1_000_000, label="Steps"))
    batch: int = fields.ruled(32, fields.Whole(low=1, high=4_096, label="Sequences per step"))
    learning_rate: float = fields.ruled(
        2e-3, fields.Real(low=1e-6, high=1.0, label="Learning rate")
    )
    weight_decay: float = fields.ruled(0.1, fields.Real(low=0.0, high=10.0, label="Weight decay"))
    seed: int = fields.ruled(0, fields.Whole(low=0, high=2**31 - 1, label="Seed"))
    longest: int = fields.ruled(
        16, fields.Whole(low=1, high=64, label="Read to, times the training length")
    )
    segments: int = fields.ruled(256, fields.Whole(low=1, high=65_536, label="Scored segments"))
    device: str = fields.ruled("cpu", fields.Choice(options=("cpu", "cuda", "mps"), label="Device"))
    threads: int = fields.ruled(1, fields.Whole(low=1, high=1_024, label="Threads"))
    versions: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        fields.check(self)
        if not self.versions:
            object.__setattr__(self, "versions", current_versions())
        if (self.task == Language.kind) != bool(self.corpus):
            raise ConfigError(
                f"Specification.corpus must be the hash of a text for the task {Language.kind}, "
                f"and empty for the others, got {shown(self.corpus)} for {self.task}."
            )
        heads = getattr(self.scheme, "heads", None)
        if heads is not None and heads != self.model.heads:
            raise ConfigError(
                f"Specification.scheme must have the model's {self.model.heads} heads, got {heads}."
            )

    @property
    def record(self) -> dict[str, Any]:
        """Everything as plain values, as JSON holds them."""
        plain = _reals(self, {f.name: getattr(self, f.name) for f in dataclasses.fields(self)})
        plain["scheme"] = _reals(self.scheme, dataclasses.asdict(self.scheme))
        plain["model"] = dataclasses.asdict(self.model)
        plain["versions"] = dict(self.versions)
        return plain | {"protocol": PROTOCOL}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Read `record` back. Raises RunError for one that this version does not know."""
        try:
            values = dict(record)
            protocol = values.pop("protocol")
            scheme, model = dict(values.pop("scheme")), dict(values.pop("model"))
            versions = tuple(sorted(dict(values.pop("versions")).items()))
            if protocol != PROTOCOL:
                raise RunError(
                    f"The run was made by protocol {shown(protocol)}, this is {PROTOCOL}."
                )
            return cls(
                scheme=SCHEMES[scheme["kind"]].from_record(scheme),
                model=ModelConfig(**model),
                versions=versions,
                **values,
            )
        except RunError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise RunError(
                f"The run's specification cannot be read: {shown(str(error))}."
            ) from None

    @property
    def run_id(self) -> str:
        """The first 80 bits of the specification's SHA-256, 20 hexadecimal digits."""
        text = json.dumps(self.record, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def make_task(self, corpus: Corpus | None) -> Task:
        """Return the task. Raises RunError unless the corpus is the one that was hashed."""
        if self.task == Recall.kind:
            return Recall(self.train_length)
        if self.task == Copy.kind:
            return Copy(self.train_length)
        if corpus is None or corpus.sha256 != self.corpus:
            found = "no text" if corpus is None else f"the text {corpus.name}"
            raise RunError(f"The run needs the text {self.corpus_name}, got {found}.")
        longest = self.longest * self.train_length
        if min(len(corpus.train), len(corpus.validation)) <= longest:
            raise RunError(
                f"The text must have more than {longest:,} bytes for training and for validation to "
                f"be read to {self.longest} times the training length; it has "
                f"{len(corpus.train):,} and {len(corpus.validation):,}."
            )
        return Language(self.train_length, corpus)


def _reals(owner: Any, plain: dict[str, Any]) -> dict[str, Any]:
    """Write whole numbers of real fields as reals: 1 and 1.0 are one value and make one name."""
    rules = fields.rules(owner)
    return {
        name: float(value) if isinstance(rules.get(name), fields.Real) else value
        for name, value in plain.items()
    }


def current_versions() -> tuple[tuple[str, str], ...]:
    """Return what computes here: this library and torch."""
    return (("posenc", metadata.version("posenc")), ("torch", torch.__version__))
