"""Runs and the store of runs: a Parquet file per run, named by its specification's hash.

A run never changes. A .safetensors file of the same name has the trained parameters of its scheme.
"""

import contextlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
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
    SchemeNotRegistered,
    StoreUnavailable,
    quoted,
)
from posenc.lab.evaluate import Score
from posenc.lab.specification import Specification
from posenc.notebook import Shown, View
from posenc.text import first_of

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
# Values are float32 as float64, x counts up: 60% of the size of Parquet's own choice.
_PACKED = {
    "use_dictionary": ["measure", "variant", "count"],
    "column_encoding": {
        "x": "DELTA_BINARY_PACKED",
        "until": "DELTA_BINARY_PACKED",
        "value": "BYTE_STREAM_SPLIT",
    },
}
_UNREADABLE = (
    pa.ArrowException, OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
    RecursionError,
)  # fmt: skip


@dataclass(frozen=True)
class RunInfo:
    """A run without its numbers, quick to read.

    stopped: why it stopped early, None if it did not. pair_loss: of its text, as `Corpus.pair_loss`; None
    for a task without a text, and for files of earlier versions.
    """

    specification: Specification
    stopped: str | None
    seconds: float
    pair_loss: float | None = field(default=None, kw_only=True)

    @property
    def run_id(self) -> str:
        """The name of the run in a store."""
        return self.specification.run_id


@dataclass(frozen=True)
class Run(RunInfo, Shown):
    """The results of a specification. A run that stopped early has losses and no scores."""

    scores: tuple[Score, ...]
    losses: tuple[float, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return every score, then the loss of every step of training, as rows of one table."""
        steps = [Score(_TRAINING, "", step, loss, 1) for step, loss in enumerate(self.losses, 1)]
        return [asdict(score) for score in (*self.scores, *steps)]

    def view(self) -> View:
        rows = self.rows()
        return View(
            title=f"Run {self.run_id}: {self.specification.scheme.label}",
            numbers={
                "task": self.specification.task,
                "training length": self.specification.train_length,
                "seed": self.specification.seed,
                "seconds": self.seconds,
                "stopped": self.stopped,
            },
            columns={name: [row[name] for row in rows] for name in _SCHEMA.names},
        )


def to_parquet(run: Run) -> bytes:
    """Return a run as a Parquet file with the specification in its metadata."""
    note = {
        "specification": run.specification.record,
        "stopped": run.stopped,
        "seconds": run.seconds,
        "pair_loss": run.pair_loss,
    }
    schema = _SCHEMA.with_metadata({_METADATA: json.dumps(note).encode()})
    buffer = io.BytesIO()
    pq.write_table(
        pa.Table.from_pylist(run.rows(), schema=schema), buffer, compression="zstd", **_PACKED
    )
    return buffer.getvalue()


def from_parquet(content: bytes, run_id: str | None = None) -> Run:
    """Return the run of a file that `to_parquet` wrote, checked against its id if there is one.

    Raises RunOfAnotherVersion for one of another version of posenc, else RunError.
    """
    with _readable():
        file = pq.ParquetFile(io.BytesIO(content))  # read_table would import pandas
        if file.metadata.num_rows > limits.MAX_RUN_ROWS:  # a small file can state any number
            raise RunError(
                f"The file is no readable run: it states {file.metadata.num_rows:,} rows, more than any "
                "run has."
            )
        table = _bounded(file)
        if not table.schema.equals(_SCHEMA) or any(column.null_count for column in table.columns):
            raise RunError("The file is no readable run: it has other columns.")
        columns = [table[field.name].to_pylist() for field in fields(Score)]
        scores = [Score(*row) for row in zip(*columns, strict=True)]
    info = _info(table.schema, run_id)
    return Run(
        **vars(info),
        scores=tuple(score for score in scores if score.measure != _TRAINING),
        losses=tuple(score.value for score in scores if score.measure == _TRAINING),
    )


def _bounded(file: pq.ParquetFile) -> pa.Table:
    """Return the rows of a file; a small one can state long texts that do not fit in memory."""
    batches, size = [], 0
    for batch in file.iter_batches(4_096):
        batches.append(batch)
        size += batch.nbytes
        if size > limits.MAX_RUN_BYTES:
            raise RunError(
                "The file is no readable run: its rows have more than "
                f"{limits.MAX_RUN_BYTES >> 20} MiB."
            )
    return pa.Table.from_batches(batches, file.schema_arrow)


def _info(schema: pa.Schema, run_id: str | None) -> RunInfo:
    with _readable():
        note: dict[str, Any] = json.loads(schema.metadata[_METADATA])
        specification = Specification.from_record(note["specification"])
        if run_id is not None and specification.run_id != run_id:
            raise RunOfAnotherVersion(f"Run {run_id} was named by another version of posenc.")
        stopped = note["stopped"]
        if not isinstance(stopped, str | None):
            raise RunError("The file is no readable run: it does not say how it ended.")
        pair_loss = note.get("pair_loss")
        return RunInfo(
            specification,
            stopped,
            float(note["seconds"]),
            pair_loss=None if pair_loss is None else float(pair_loss),
        )


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

    Iteration fills `broken`, the names of damaged files, `foreign`, the ids of runs that another
    version of this library stored, and `unregistered`, the scheme of each run whose scheme is not in
    the registry, by id.
    """

    def __init__(self, url: str | os.PathLike[str] | None = None) -> None:
        """Open the store at `url`: default $POSENC_RUNS, else a folder of the user's data."""
        super().__init__(url)
        self.broken: list[str] = []
        self.foreign: list[str] = []
        self.unregistered: dict[str, str] = {}

    def has(self, run_id: str) -> bool:
        """Whether the store has a run."""
        return self.exists(f"{run_id}.parquet")

    def add(self, run: Run, tables: Mapping[str, Tensor]) -> bool:
        """Write a run unless it is there, and return whether it was written; replace a damaged one.

        Its tables come first: the Parquet file completes it. Raises RunError for an unwritable store.
        """
        if self.find(run.run_id) is not None:
            return False
        if tables:
            tensors = {name: value.detach().cpu().contiguous() for name, value in tables.items()}
            spec = run.specification
            note = {"run": run.run_id, "scheme": spec.scheme.kind, "described": spec.description}
            name, content = f"{run.run_id}.safetensors", save(tensors, note)
            if not self.put(name, content, new=True) and not self._has_whole_tables(run.run_id):
                self.put(name, content)
        name, content = f"{run.run_id}.parquet", to_parquet(run)
        if self.put(name, content, new=True):
            return True
        if self.find(run.run_id) is not None:
            return False
        self.put(name, content)
        return True

    def read(self, run_id: str) -> Run:
        """Return a run. Raises RunError if it is not there or unreadable."""
        return from_parquet(self._parquet(run_id), run_id)

    def find(self, run_id: str) -> Run | None:
        """Return a run, None if it is not there or damaged."""
        try:
            return self.read(run_id)
        except (RunOfAnotherVersion, StoreUnavailable):
            raise
        except RunError:
            return None

    def info(self, run_id: str) -> RunInfo:
        """Return a run without its numbers. Raises as `read` does."""
        content = self._parquet(run_id)
        with _readable():
            schema = pq.read_schema(io.BytesIO(content))
        return _info(schema, run_id)

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

    def _has_whole_tables(self, run_id: str) -> bool:
        try:
            return bool(self.tables(run_id))
        except StoreUnavailable:
            raise
        except RunError:
            return False

    def ids(self) -> list[str]:
        """Return the ids of all runs, sorted."""
        matches = map(_RUN_FILE.fullmatch, self.names())
        return [match.group(1) for match in matches if match]

    def __iter__(self) -> Iterator[Run]:
        """Iterate over every readable run."""
        self.broken, self.foreign, self.unregistered = [], [], {}
        for run_id in self.ids():
            try:
                run = self.find(run_id)
            except SchemeNotRegistered as error:
                self.unregistered[run_id] = error.kind
                continue
            except RunOfAnotherVersion:
                self.foreign.append(run_id)
                continue
            if run is None:
                self.broken.append(f"{run_id}.parquet")
            else:
                yield run

    def left_out(self) -> list[str]:
        """Return a clause per reason for the files left out of the last iteration."""
        clauses = [f"{first_of(self.broken, 3)} cannot be read"] if self.broken else []
        if self.foreign:
            verb = "was" if len(self.foreign) == 1 else "were"
            names = first_of([f"run {run_id}" for run_id in self.foreign], 3)
            clauses.append(f"{names} {verb} made by another version of posenc")
        if self.unregistered:
            verb = "is" if len(self.unregistered) == 1 else "are"
            names = first_of([f"run {run_id}" for run_id in self.unregistered], 3)
            kinds = first_of(
                [quoted(kind) for kind in dict.fromkeys(self.unregistered.values())], 3
            )
            clauses.append(f"{names} {verb} of a scheme that is not registered here: {kinds}")
        return clauses
