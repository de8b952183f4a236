"""Trained models in a few words: what they learned, on how much, and what their table is called."""

from collections.abc import Collection, Sequence

from dashboard import runs
from dashboard.cache import cached_for
from dashboard.text import listed, with_ids
from dashboard.visitor_files import cached_tables
from posenc.checkpoints.sources import TRAINED_TABLE
from posenc.errors import CheckpointError
from posenc.lab.specification import Specification
from posenc.lab.summary import Curve
from posenc.lab.tasks import TASKS, Language, questions_of
from posenc.text import count_of

TABLES = {"trained": "Trained", "random": "Random start", "minilm": "all-MiniLM-L6-v2"}
GONE = "Not on this server"


def title(specification: Specification) -> str:
    """Return what the models of a comparison learned, and on how many tokens."""
    task = TASKS[specification.task]
    return f"{task.label}, {count_of(specification.train_length, task.unit)}"


def description(specification: Specification) -> str:
    """Return what the models of a comparison have in common: task, training length, size, steps."""
    task = TASKS[specification.task]
    learns = task.learns
    if specification.task == Language.kind and specification.corpus_name:
        learns = f"next byte of {specification.corpus_name}"
    most = "up to " if task.unit != "token" else ""
    length = f"{most}{count_of(specification.train_length, task.unit)}"
    layers = count_of(specification.model.layers, "layer")
    return (
        f"Task: {learns}, trained on {length}; {layers} of width {specification.model.width:,}, "
        f"{count_of(specification.steps, 'step')}"
    )


def full_description(specification: Specification, rates: Collection[float] = ()) -> str:
    """Return the description with the batch, heads, learning rate and device.

    rates: the learning rates of all schemes, where they differ.
    """
    rate = f"learning rate {specification.learning_rate:g}"
    if len({*rates}) > 1:
        rate = f"each scheme at its best learning rate, {min(rates):g} to {max(rates):g}"
    device = {"cpu": "a CPU", "cuda": "a GPU"}.get(specification.device, specification.device)
    return (
        f"{description(specification)} of {specification.batch} sequences, "
        f"{count_of(specification.model.heads, 'head')}, {rate}, "
        f"on {device}"
    )


def measure(specification: Specification) -> str:
    """Return the measure by which models of a task are compared first."""
    return "context" if specification.task == Language.kind else specification.task


def farthest(specification: Specification) -> int:
    """Return the largest length or distance that training shows."""
    length = specification.train_length
    if specification.task == Language.kind:
        return length
    return questions_of(specification.task).farthest(length)


def seeds(curves: Sequence[Curve]) -> str:
    """Return with how many seeds models were trained: "3 seeds", "1 to 3 seeds"."""
    least, most = min(curve.seeds for curve in curves), max(curve.seeds for curve in curves)
    return f"{least} to {most} seeds" if most > least else count_of(most, "seed")


def at_base(curves: Sequence[Curve]) -> str:
    """Return at which base models were trained: " at base 10,000", "" where none has a base."""
    bases = _bases(curves)
    return f" at {bases}" if bases else ""


def sizes(curves: Sequence[Curve]) -> str:
    """Return width and base of models, as a saved chart names them."""
    width = f"width {curves[0].specification.model.width:,}"
    return ", ".join(filter(None, (width, _bases(curves))))


def _bases(curves: Sequence[Curve]) -> str:
    schemes = (curve.specification.record["scheme"] for curve in curves)
    bases = sorted({scheme["base"] for scheme in schemes if "base" in scheme})
    return f"base {listed([f'{base:,.10g}' for base in bases])}" if bases else ""


def table_description(source: str) -> str:
    """Return which model of this library learned a table, "" where none here did."""
    run_id = TRAINED_TABLE if source == "trained" else source.removeprefix("run-")
    infos = runs.read_infos([run_id]) if run_id != source else []
    texts = [
        f"{description(info.specification)}, seed {info.specification.seed}." for info in infos
    ]
    return "".join(texts)


def table_names(sources: tuple[str, ...]) -> dict[str, str]:
    """Return the names of learned tables on screen; equal ones end with the beginning of their id."""
    return with_ids({source: table_name(source) for source in sources})


def table_name(source: str) -> str:
    """Return the name of a learned table on screen: an upload has that of its file."""
    kind, _, run_id = source.partition("-")
    if kind == "run":
        return _name_of_run(run_id)
    if kind == "table":
        try:
            return cached_tables.get(source).file_name or "Uploaded"
        except CheckpointError:
            return GONE
    return TABLES[source]


@cached_for(runs.RETRY_SECONDS)
def _name_of_run(run_id: str) -> str:
    for info in runs.read_infos([run_id]):
        specification = info.specification
        size = f"{specification.train_length:,} rows, width {specification.model.width:,}"
        return f"Of {size}, seed {specification.seed}"
    return GONE
