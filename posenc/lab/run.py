"""A run, what one specification gave, and its Parquet file: numbers as rows, the rest as metadata."""

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from posenc import limits
from posenc.errors import RunError, RunOfAnotherVersion, StoreUnavailable
from posenc.lab.evaluate import Score
from posenc.lab.specification import Specification

_METADATA = b"posenc"
_TRAINING = "training"  # the measure under which the loss of every step is kept
_SCHEMA = pa.schema(
    [
        ("measure", pa.string()),
        ("variant", pa.string()),
        ("x", pa.int64()),
        ("until", pa.int64()),
        ("value", pa.float64()),
        ("count", pa.int64()),
    ]
)
_UNREADABLE = (
    pa.ArrowException, OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
    RecursionError,
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What one specification gave. A run that stopped early has losses, a reason, and no scores."""

    specification: Specification
    scores: tuple[Score, ...]
    losses: tuple[float, ...]
    stopped: str | None
    seconds: float

    @property
    def run_id(self) -> str:
        """The name of the run in a store."""
        return self.specification.run_id


@dataclass(frozen=True)
class Heading:
    """What a run is, without its numbers: quick to read, however long the run."""

    specification: Specification
    stopped: str | None
    seconds: float

    @property
    def run_id(self) -> str:
        """The name of the run in a store."""
        return self.specification.run_id


def to_parquet(run: Run) -> bytes:
    """Return a run as one Parquet file, its specification in the file's metadata."""
    training = [
        Score(_TRAINING, "", step, loss, 1) for step, loss in enumerate(run.losses, start=1)
    ]
    rows = [asdict(score) for score in (*run.scores, *training)]
    note = {
        "specification": run.specification.record,
        "stopped": run.stopped,
        "seconds": run.seconds,
    }
    schema = _SCHEMA.with_metadata({_METADATA: json.dumps(note).encode()})
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), buffer, compression="zstd")
    return buffer.getvalue()


def from_parquet(content: bytes, run_id: str | None = None) -> Run:
    """Read a file that `to_parquet` wrote, that of the run of this name if one is given.

    Raises RunOfAnotherVersion for a whole one that this version would name otherwise, RunError for
    any other.
    """
    with _readable():
        _check_size(content)
        table = pq.ParquetFile(io.BytesIO(content)).read()  # read_table would import pandas
        if not table.schema.equals(_SCHEMA) or any(column.null_count for column in table.columns):
            raise RunError("The file is no readable run: it has other columns.")
        names = [field.name for field in fields(Score)]
        scores = [Score(*(row[name] for name in names)) for row in table.to_pylist()]
    found = _heading(table.schema, run_id)
    return Run(
        specification=found.specification,
        scores=tuple(score for score in scores if score.measure != _TRAINING),
        losses=tuple(score.value for score in scores if score.measure == _TRAINING),
        stopped=found.stopped,
        seconds=found.seconds,
    )


def read_heading(content: bytes, run_id: str) -> Heading:
    """Return what the run of this file is. Raises as `from_parquet`; its numbers are not looked at."""
    with _readable():
        schema = pq.read_schema(io.BytesIO(content))
    return _heading(schema, run_id)


def _check_size(content: bytes) -> None:
    """Refuse what would unpack to far more than the file is: a few bytes may stand for a billion rows."""
    told = pq.read_metadata(io.BytesIO(content))
    groups = [told.row_group(place) for place in range(told.num_row_groups)]
    parts = [group.column(n) for group in groups for n in range(group.num_columns)]
    unpacked = sum(part.total_uncompressed_size for part in parts)
    if told.num_rows > limits.MAX_RUN_ROWS or not 0 <= unpacked <= limits.MAX_RUN_BYTES:
        raise RunError(
            f"The file is no readable run: it states {told.num_rows:,} rows of {unpacked:,} bytes, more "
            "than any run has."
        )


def _heading(schema: pa.Schema, run_id: str | None) -> Heading:
    with _readable():
        note: dict[str, Any] = json.loads(schema.metadata[_METADATA])
        record = note["specification"]
        specification = Specification.from_record(record)
        if run_id is not None and specification.run_id != run_id:
            raise RunOfAnotherVersion(f"Run {run_id} was named by another version of posenc.")
        stopped = note["stopped"]
        if not isinstance(stopped, str | None):
            raise RunError("The file is no readable run: it does not say how it ended.")
        return Heading(specification, stopped, float(note["seconds"]))


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except RunError:
        raise  # it says what it does not know
    except MemoryError as error:  # nothing is known of the file
        raise StoreUnavailable("The run cannot be read: the memory does not suffice.") from error
    except pa.ArrowNotImplementedError as error:
        raise RunOfAnotherVersion("The run is packed in a way that is unknown here.") from error
    except _UNREADABLE as error:
        raise RunError("The file is no readable run: it is damaged or another file.") from error
