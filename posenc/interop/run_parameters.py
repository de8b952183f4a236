"""The parameters that a run trained in its scheme, by name: of a run that ships or of the store."""

import functools
from dataclasses import dataclass

from torch import Tensor

from posenc.errors import CheckpointError, RunError
from posenc.interop.safetensors_file import read_header, read_tensor
from posenc.interop.shown_name import printable_name
from posenc.interop.sources import RESULTS, stored

_PREFIX = "scheme."  # as a run names what its scheme learned
_DESCRIBED = 240  # characters shown of what a run says of itself


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
        described=printable_name(header.metadata.get("described", ""), _DESCRIBED),
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
