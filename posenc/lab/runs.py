"""Runs and the store of runs: a Parquet file per run, named by its specification's hash.

A run never changes. A .safetensors file of the same name has the trained parameters of its scheme.
"""

import contextlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.torch import save
from torch import Tensor

from posenc import limits
from posenc.checkpoints.file_store import FileStore
from posenc.checkpoints.safetensors_file import read_header, read_tensor
from posenc.errors import (
    CheckpointError,
    RunError,
    RunMissing,
    RunOfAnotherVersion,
    StoreUnavailable,
)
from posenc.lab.evaluate import Score
from posenc.lab.specification import Specification

_METADATA = b"posenc"
_TRAINING = "training"  # the measure of the loss of every step
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
    """The results of a specification. A run that stopped early has losses, a reason and no scores."""

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
    """A run without its numbers, quick to read."""

    specification: Specification
    stopped: str | None
    seconds: float

    @property
    def run_id(self) -> str:
        """The name of the run in a store."""
        return self.specification.run_id


def to_parquet(run: Run) -> bytes:
    """Return a run as a Parquet file with the specification in its metadata."""
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
    """Return the run of a file that `to_parquet` wrote, checked against its id if there is one.

    Raises RunOfAnotherVersion for one of another version of posenc, else RunError.
    """
    with _readable():
        _check_size(content)
        table = pq.ParquetFile(io.BytesIO(content)).read()  # read_table would import pandas
        if not table.schema.equals(_SCHEMA) or any(column.null_count for column in table.columns):
            raise RunError("The file is no readable run: it has other columns.")
        names = [field.name for field in fields(Score)]
        scores = [Score(*(row[name] for name in names)) for row in table.to_pylist()]
    heading = _heading(table.schema, run_id)
    return Run(
        specification=heading.specification,
        scores=tuple(score for score in scores if score.measure != _TRAINING),
        losses=tuple(score.value for score in scores if score.measure == _TRAINING),
        stopped=heading.stopped,
        seconds=heading.seconds,
    )


def _check_size(content: bytes) -> None:
    """Refuse a small file that would unpack to far more rows than a run has."""
    stated = pq.read_metadata(io.BytesIO(content))
    groups = [stated.row_group(place) for place in range(stated.num_row_groups)]
    parts = [group.column(n) for group in groups for n in range(group.num_columns)]
    unpacked = sum(part.total_uncompressed_size for part in parts)
    if stated.num_rows > limits.MAX_RUN_ROWS or not 0 <= unpacked <= limits.MAX_RUN_BYTES:
        raise RunError(
            f"The file is no readable run: it states {stated.num_rows:,} rows of {unpacked:,} bytes, more "
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
        raise
    except MemoryError as error:  # the file may be intact
        raise StoreUnavailable("The run cannot be read: the memory does not suffice.") from error
    except pa.ArrowNotImplementedError as error:
        raise RunOfAnotherVersion("The run is packed in a way that is unknown here.") from error
    except _UNREADABLE as error:
        raise RunError("The file is no readable run: it is damaged or another file.") from error


_RUN_FILE = re.compile(r"([0-9a-f]{20})\.parquet")


class Store(FileStore):
    """A folder or bucket of runs.

    broken: names of unreadable files, set aside except for those in `stuck`, which cannot be moved.
    foreign: ids of runs that another version of this library made.
    """

    def __init__(self, url: str | os.PathLike[str] | None = None) -> None:
        """Open the store at `url`: default $POSENC_RUNS, else a folder of the user's data."""
        super().__init__(url)
        self.broken: list[str] = []
        self.stuck: list[str] = []
        self.foreign: list[str] = []

    def has(self, run_id: str) -> bool:
        """Whether the store has a run."""
        return self.exists(f"{run_id}.parquet")

    def add(self, run: Run, tables: Mapping[str, Tensor]) -> bool:
        """Write a run unless it is there, and return whether it was written.

        Its tables come first: the Parquet file completes it. Raises RunError for an unwritable store.
        """
        if self.has(run.run_id):
            return False
        if tables:
            content = {name: value.detach().cpu().contiguous() for name, value in tables.items()}
            spec = run.specification
            note = {"run": run.run_id, "scheme": spec.scheme.kind, "described": spec.described}
            name = f"{run.run_id}.safetensors"
            if not self.create(name, save(content, note)) and not self._whole_tables(run.run_id):
                self.set_aside(name)
                self.create(name, save(content, note))
        return self.create(f"{run.run_id}.parquet", to_parquet(run))

    def read(self, run_id: str) -> Run:
        """Return a run. Raises RunError if it is not there or unreadable."""
        return from_parquet(self._parquet(run_id), run_id)

    def heading(self, run_id: str) -> Heading:
        """Return a run without its numbers. Raises as `read` does."""
        content = self._parquet(run_id)
        with _readable():
            schema = pq.read_schema(io.BytesIO(content))
        return _heading(schema, run_id)

    def _parquet(self, run_id: str) -> bytes:
        try:
            return self.content(f"{run_id}.parquet")
        except FileNotFoundError:
            raise RunMissing(f"There is no run {run_id}.") from None

    def tables(self, run_id: str) -> dict[str, Tensor]:
        """Return the trained parameters of the run's scheme by name."""
        name = f"{run_id}.safetensors"
        try:
            if not self.exists(name):
                return {}
            content = self.content(name)
            names = read_header(content).tensors
            return {key: read_tensor(content, key).tensor for key in names}
        except StoreUnavailable:
            raise
        except (OSError, RunError, CheckpointError) as error:
            raise RunError(f"The tables of run {run_id} cannot be read.") from error

    def _whole_tables(self, run_id: str) -> bool:
        try:
            return bool(self.tables(run_id))
        except RunError:
            return False

    def ids(self) -> list[str]:
        """Return the ids of all runs, sorted."""
        matches = map(_RUN_FILE.fullmatch, self.names())
        return [match.group(1) for match in matches if match]

    def __iter__(self) -> Iterator[Run]:
        """Iterate over every readable run; unreadable files are set aside and named in `broken`."""
        self.broken, self.stuck, self.foreign = [], [], []
        for run_id in self.ids():
            try:
                run = self._read_or_set_aside(run_id)
            except RunOfAnotherVersion:
                self.foreign.append(run_id)
            else:
                if run is not None:
                    yield run

    def find(self, run_id: str) -> Run | None:
        """Return a run if it is there; an unreadable file of its name is set aside."""
        return self._read_or_set_aside(run_id) if self.has(run_id) else None

    def _read_or_set_aside(self, run_id: str) -> Run | None:
        try:
            return self.read(run_id)
        except (RunOfAnotherVersion, StoreUnavailable):
            raise
        except RunError:
            self._set_run_aside(run_id)
            return None

    def left_out(self) -> list[str]:
        """Return a clause per reason for the files left out of the last iteration."""
        aside = [name for name in self.broken if name not in self.stuck]
        reasons = (
            (aside, "cannot be read and {was} set aside"),
            (self.stuck, "cannot be read"),
            ([f"run {name}" for name in self.foreign], "{was} made by another version of posenc"),
        )
        return [
            f"{_first_names(names)} {clause.format(was='was' if len(names) == 1 else 'were')}"
            for names, clause in reasons
            if names
        ]

    def _set_run_aside(self, run_id: str) -> None:
        name = f"{run_id}.parquet"
        aside = self.set_aside(name)
        if aside is not None and self._is_whole(aside, run_id):
            # Another process replaced the broken file before the move.
            self.create(name, self.content(aside))
            return
        if name not in self.broken:
            self.broken.append(name)
            self.stuck += [] if aside else [name]

    def _is_whole(self, name: str, run_id: str) -> bool:
        try:
            from_parquet(self.content(name), run_id)
        except (OSError, RunError):
            return False
        return True


def _first_names(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
