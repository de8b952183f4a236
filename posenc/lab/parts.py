"""Which runs belong to a part of a protocol, whoever made them.

The id of a run names the versions of torch and of the text, so runs that were made elsewhere have other ids
than a plan made here. They are recognized by their sizes.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.lab.protocol import Part, Protocol
from posenc.lab.runs import Run, RunInfo
from posenc.lab.specification import Specification
from posenc.lab.sweep import specifications
from posenc.lab.tasks import Language, Recall
from posenc.text import printable_name

# How the names of texts begin, whose end is a version of Python.
_TEXTS = {"library-code": "code of Python ", "library-prose": "documentation of Python "}


@dataclass(frozen=True, kw_only=True)
class RunsOfPart:
    """The runs of a part: of its table, and of its sweep over learning rates."""

    part: Part
    runs: tuple[Run, ...]
    sweep: tuple[Run, ...]


def runs_of_part(part: Part, source: Part, runs: Iterable[Run]) -> RunsOfPart:
    """Return those runs that are of a part, of several versions of the text or torch the most frequent.

    source: the part whose sweep chooses the rates, as `Part.like` names it.
    """
    table, sweep = [], []
    for run in runs:
        if is_of_table(part, run.specification):
            table.append(run)
        elif is_of_sweep(source, run.specification):
            sweep.append(run)
    return RunsOfPart(part=part, runs=_alike(table), sweep=_alike(sweep))


def is_of_table(part: Part, specification: Specification) -> bool:
    """Return whether a run is one of the table of a part."""
    return (
        specification.trial in part.trials
        and specification.scheme.kind in part.schemes
        and any(_has(specification, dict(part.values) | dict(values)) for values in part.varied)
        and _reads(specification, part.text)
    )


def is_of_sweep(part: Part, specification: Specification) -> bool:
    """Return whether a run is one of the sweep of a part, False for a part without one."""
    if part.sweep is None or specification.longest != 1:
        return False
    steps = max(1, round(part.values.get("steps", _defaults()["steps"]) * part.sweep.share))
    return (
        specification.trial in part.sweep.trials
        and specification.learning_rate in part.sweep.rates_of(specification.scheme.kind)
        and specification.scheme_rate in part.sweep.scheme_rates
        and _has(specification, dict(part.values) | {"steps": steps, "longest": 1})
        and _reads(specification, part.text)
    )


def task_of(part: Part) -> str:
    """Return the kind of the task that the models of a part learn."""
    return str(part.values.get("task", Language.kind))


def part_of(parts: Iterable[Part], info: Run | RunInfo) -> Part | None:
    """Return the first part whose table has a run, None for a run of no part."""
    return next((part for part in parts if is_of_table(part, info.specification)), None)


def swept_part(protocol: Protocol, infos: Iterable[Run | RunInfo]) -> Part | None:
    """Return the part whose sweep has chosen the rates of these runs, None for runs of no part."""
    found = (part_of(protocol.parts.values(), info) for info in infos)
    part = next((part for part in found if part is not None), None)
    return None if part is None else protocol.part(part.like)


@functools.cache
def _defaults() -> dict[str, Any]:
    (plain,) = specifications(["none"], task=Recall.kind)
    return _values(plain) | {"task": Language.kind}


def _values(specification: Specification) -> dict[str, Any]:
    """Return what a part can choose of a run, under the names of a protocol."""
    tuning, model = specification.fine_tuning, specification.model
    values = {
        name: getattr(specification, name)
        for name in (
            "task",
            "train_length",
            "batch",
            "steps",
            "longest",
            "segments",
            "weight_decay",
        )
    }
    values |= {"layers": model.layers, "heads": model.heads, "widths": [model.width]}
    return values | {
        "before": None if tuning is None else tuning.before.kind,
        "tuning_length": None if tuning is None else tuning.length,
        "tuning_steps": None if tuning is None else tuning.steps,
    }


def _has(specification: Specification, chosen: dict[str, Any]) -> bool:
    return _values(specification) == _defaults() | chosen


def _reads(specification: Specification, text: str | None) -> bool:
    """Return whether a run reads the text of a part, which only a language task has."""
    if specification.task != Language.kind:
        return True
    name = specification.corpus_name
    if text in _TEXTS:
        return name.startswith(_TEXTS[text])
    return text is not None and name == printable_name(Path(text).name)


def _alike(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Return the largest group of runs of one text and version of torch."""
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[Run]] = {}
    for run in runs:
        spec = run.specification
        groups.setdefault((spec.corpus, spec.versions), []).append(run)
    largest: list[Run] = max(groups.values(), key=len, default=[])
    return tuple(largest)
