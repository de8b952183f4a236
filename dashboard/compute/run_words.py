"""Trained models in visitors' words: what one learned, on how much, and what its table is called."""

import streamlit as st

from dashboard.compute import runs
from posenc.checkpoints.sources import TRAINED
from posenc.lab.specification import Specification
from posenc.lab.tasks import Copy, Language, Recall
from posenc.text import count_of

TABLES = {"trained": "Trained", "random": "Random start", "minilm": "all-MiniLM-L6-v2"}
_SHOWN = 6  # letters of a name where nothing else tells two tables apart


def alike(specification: Specification) -> str:
    """Say what the models of a comparison have in common: task, training length, size, steps."""
    length = count_of(specification.train_length, "token")
    tasks = {
        Language.kind: f"next byte of {specification.corpus_name or 'a text'}, trained on {length}",
        Recall.kind: f"the value that belongs to a key, trained on {length}",
        Copy.kind: f"a string again, trained on up to {count_of(specification.train_length, 'letter')}",
    }
    layers = count_of(specification.model.layers, "layer")
    return (
        f"Task: {tasks[specification.task]}; {layers} of width {specification.model.width:,}, "
        f"{count_of(specification.steps, 'step')}"
    )


def whole(specification: Specification) -> str:
    """Say the same with the rest of how such models were trained."""
    on = {"cpu": "a CPU", "cuda": "a GPU"}.get(specification.device, specification.device)
    heads = count_of(specification.model.heads, "head")
    rate = specification.learning_rate
    return (
        f"{alike(specification)} of {specification.batch} sequences, {heads}, "
        f"learning rate {rate:g}, on {on}"
    )


def title(specification: Specification) -> str:
    """Return a comparison in words: what its models learned, and on how many tokens."""
    task = {Language.kind: "Text", Recall.kind: "Recall", Copy.kind: "Copy"}[specification.task]
    unit = "letter" if specification.task == Copy.kind else "token"
    return f"{task}, {count_of(specification.train_length, unit)}"


def of_table(source: str) -> str:
    """Say which model of this library learned a table, "" where none here did."""
    name = TRAINED if source == "trained" else source.removeprefix("run-")
    if source != "trained" and name == source:
        return ""
    return next(
        (f"{alike(info.specification)}, seed {info.specification.seed}."
         for info in runs.headings((name,))), "",
    )  # fmt: skip


@st.cache_resource(max_entries=16, ttl=runs.BELIEVED_FOR, show_spinner=False)
def tables(sources: tuple[str, ...]) -> dict[str, str]:
    """Return what visitors call the learned tables of these names, no two alike."""
    by_source = {source: TABLES.get(source) or _called(source) for source in sources}
    several = {name for name in by_source.values() if [*by_source.values()].count(name) > 1}
    return {
        source: f"{name}, {source.partition('-')[2][:_SHOWN]}" if name in several else name
        for source, name in by_source.items()
    }


def _called(source: str) -> str:
    kind, _, name = source.partition("-")
    if kind == "table":
        return "Uploaded"
    for info in runs.headings((name,)):
        spec = info.specification
        return f"Of {spec.train_length:,} rows, width {spec.model.width:,}, seed {spec.seed}"
    return "Not on this server"
