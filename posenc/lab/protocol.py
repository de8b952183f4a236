"""A plan of runs as data: which schemes, trials and learning rates a table of results has.

It is written before the runs are made. A sweep over learning rates comes first; each scheme then has the
rates that were best for it at the training length, so that no scheme is compared at another's rate.
"""

import hashlib
import itertools
import json
import statistics
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posenc.errors import ConfigError, quoted
from posenc.lab.corpus import Corpus
from posenc.lab.protocol_record import Rates, Recorded, loss_in_training, rates_of, read_record
from posenc.lab.runs import Store
from posenc.lab.specification import Specification, Trial
from posenc.lab.sweep import read_text, specifications
from posenc.lab.tasks import Language

SHIPPED = Path(__file__).with_name("protocol.toml")
_TUNING = {"tuning_length": "length", "tuning_steps": "steps", "tuning_rate": "learning_rate"}


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The runs that choose the rates of each scheme: every rate in every trial.

    further: more rates of single schemes, by kind. share: of the steps of the part. A scheme without
    parameters has the factor 1 alone. No longer text than in training is read.
    """

    learning_rates: tuple[float, ...]
    further: Mapping[str, tuple[float, ...]]
    scheme_rates: tuple[float, ...]
    share: float
    trials: tuple[Trial, ...]

    def rates_of(self, kind: str) -> tuple[float, ...]:
        """Return the learning rates that are tried of a scheme, from low to high."""
        return tuple(sorted((*self.learning_rates, *self.further.get(kind, ()))))


@dataclass(frozen=True, kw_only=True)
class Part:
    """A table of runs: every scheme in every trial, at its own rates.

    like: the part whose sweep chooses the rates, this one's name if it has one of its own. text: as
    `posenc.lab.sweep.read_text` takes it, None for a task without one. values: of `specifications`, the
    same for all; each of `varied` changes some of them. digest: the first 12 hexadecimal digits of the
    SHA-256 of what the file says of the part and of its sweep, title aside.
    """

    name: str
    title: str
    like: str
    text: str | None
    schemes: tuple[str, ...]
    trials: tuple[Trial, ...]
    values: Mapping[str, Any]
    varied: tuple[Mapping[str, Any], ...]
    sweep: Sweep | None
    digest: str


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The parts of a plan by name."""

    parts: Mapping[str, Part]

    def part(self, name: str) -> Part:
        """Return a part. Raises ConfigError for a name that the plan lacks."""
        if name not in self.parts:
            names = ", ".join(self.parts)
            raise ConfigError(f"The protocol has the parts {names}, got {quoted(name)}.")
        return self.parts[name]

    def sweep_runs(self, name: str) -> list[Specification]:
        """Return the runs of a part's own sweep, none if it takes the rates of another part."""
        part = self.part(name)
        return [run for kind in part.schemes for run in _sweep_runs(part, kind)]

    def runs(self, name: str, store: Store, only: str | None = None) -> list[Specification]:
        """Return the runs of a part whose sweeps are in the store; the others come when those are.

        only: the kind of the one scheme whose runs are wanted, default of all.
        """
        part = self.part(name)
        found = []
        for kind in part.schemes if only is None else (only,):
            rates = self.rates(name, kind, store)
            if rates is not None:
                for values, trial in itertools.product(part.varied, part.trials):
                    found.append(_run(part, kind, rates, trial, values))
        return found

    def planned(self, name: str) -> list[Specification]:
        """Return the runs of a part at the default rates: as many, and as long, as its runs will be."""
        part = self.part(name)
        runs = itertools.product(part.schemes, part.varied, part.trials)
        return [_run(part, kind, Rates(), trial, values) for kind, values, trial in runs]

    def rates(self, name: str, kind: str, store: Store) -> Rates | None:
        """Return the rates of a scheme in a part, None while the sweep that chooses them is not complete.

        A scheme that is fine-tuned has the rates of the first stage.
        """
        part = self.part(name)
        kind = part.values.get("before") or kind
        source = self.part(part.like)
        if source.sweep is None:
            raise ConfigError(f"The part {source.name} of the protocol has no sweep.")
        losses: dict[Rates, list[float]] = {}
        for run, loss in self.sweep_losses(source.name, kind, store).items():
            if loss is None:
                return None
            losses.setdefault(rates_of(run), []).append(loss)
        # Of equal losses the first: of lower rates.
        return min(losses, key=lambda rates: statistics.fmean(losses[rates]))

    def sweep_losses(self, name: str, kind: str, store: Store) -> dict[Specification, float | None]:
        """Return the loss of every run of a scheme's sweep, None where it is not made.

        It is read from the store's record or from the run.
        """
        recorded = {row.run_id: row.loss for row in read_record(store)}
        found = {}
        for run in _sweep_runs(self.part(name), kind):
            loss = recorded.get(run.run_id)
            if loss is None and store.has(run.run_id):
                loss = loss_in_training(store.read(run.run_id))
            found[run] = loss
        return found

    def record(self, store: Store) -> list[Recorded]:
        """Return the record of the runs that are made: each part's sweep, then its table."""
        swept = {row.run_id: row for row in read_record(store) if row.sweep}
        found = []
        for name, part in self.parts.items():
            for kind in part.schemes:
                for run in _sweep_runs(part, kind):
                    if run.run_id in swept:
                        found.append(swept[run.run_id])
                    elif store.has(run.run_id):
                        found.append(Recorded.of(name, sweep=True, run=store.read(run.run_id)))
            for run in self.runs(name, store):
                if store.has(run.run_id):
                    found.append(Recorded.of(name, sweep=False, run=store.read(run.run_id)))
        return found


def read_protocol(path: str | Path = SHIPPED) -> Protocol:
    """Return the protocol of a TOML file. Raises ConfigError for one that cannot be followed."""
    try:
        named = tomllib.loads(Path(path).read_bytes().decode())["parts"]
        parts = {name: _part(name, named) for name in named}
    except OSError as error:
        raise ConfigError(f"The protocol cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"The protocol is no TOML: {error}.") from None
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ConfigError(f"The protocol cannot be followed: {error}.") from None
    return Protocol(parts=parts)


def _part(name: str, named: Mapping[str, Any]) -> Part:
    """Return a part of the file, with the values of the part that it is like."""
    own = dict(named[name])
    like = own.pop("like", None)
    base = dict(named[like]) if like is not None else {}
    base.pop("sweep", None)
    sweep = own.pop("sweep", None)
    values = base | own
    said = {key: value for key, value in values.items() if key != "title"}
    plan = json.dumps([said, named[like or name].get("sweep")], sort_keys=True)
    title, text = str(values.pop("title")), values.pop("text", None)
    schemes, trials = tuple(values.pop("schemes")), _trials(values.pop("trials"))
    vary = values.pop("vary", {})
    varied = [dict(zip(vary, chosen, strict=True)) for chosen in itertools.product(*vary.values())]
    return Part(
        name=name,
        title=title,
        like=name if like is None else str(like),
        text=text,
        schemes=schemes,
        trials=trials,
        values=values,
        varied=tuple(varied),
        sweep=None
        if sweep is None
        else Sweep(
            learning_rates=tuple(sweep["learning_rates"]),
            further={kind: tuple(rates) for kind, rates in sweep.get("further", {}).items()},
            scheme_rates=tuple(sweep["scheme_rates"]),
            share=float(sweep["share"]),
            trials=_trials(sweep["trials"]),
        ),
        digest=hashlib.sha256(plan.encode()).hexdigest()[:12],
    )


def _trials(pairs: Sequence[Sequence[int]]) -> tuple[Trial, ...]:
    return tuple(Trial(*pair) for pair in pairs)


def _sweep_runs(part: Part, kind: str) -> Iterator[Specification]:
    if part.sweep is None:
        return
    steps = max(1, round(part.values.get("steps", 1_200) * part.sweep.share))
    values = {"steps": steps, "longest": 1}
    rates = [Rates(learning_rate=rate) for rate in part.sweep.rates_of(kind)]
    first = _run(part, kind, rates[0], part.sweep.trials[0], values)
    if any(True for _ in first.scheme.build(device="meta").parameters()):
        factors = sorted(part.sweep.scheme_rates)
        rates = [replace(each, scheme_rate=factor) for factor in factors for each in rates]
    for each, trial in itertools.product(rates, part.sweep.trials):
        yield _run(part, kind, each, trial, values)


def _run(
    part: Part, kind: str, rates: Rates, trial: Trial, values: Mapping[str, Any]
) -> Specification:
    chosen = {**part.values, **values}
    tuning = {field: chosen.pop(name) for name, field in _TUNING.items() if name in chosen}
    if chosen.get("before") is not None:
        tuning.setdefault("learning_rate", rates.learning_rate / 10)
    (specification,) = specifications(
        [kind], corpus=_corpus(part), tuning=tuning, learning_rate=rates.learning_rate,
        scheme_rate=rates.scheme_rate, **chosen,
    )  # fmt: skip
    return replace(specification, seed=trial.seed, data_seed=trial.data_seed)


def _corpus(part: Part) -> Corpus | None:
    return read_text(part.text) if part.values.get("task", Language.kind) == Language.kind else None
