"""Runs and the store of runs: one Parquet file for each, named by its specification's hash.

A run never changes. It exists once its Parquet file does; a .safetensors file next to it has the
parameters that its scheme trained. The store is a folder, or any fsspec URL that several machines share.
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
        raise  # it says what it does not know
    except MemoryError as error:  # nothing is known of the file
        raise StoreUnavailable("The run cannot be read: the memory does not suffice.") from error
    except pa.ArrowNotImplementedError as error:
        raise RunOfAnotherVersion("The run is packed in a way that is unknown here.") from error
    except _UNREADABLE as error:
        raise RunError("The file is no readable run: it is damaged or another file.") from error


_RUN_FILE = re.compile(r"([0-9a-f]{20})\.parquet")


class Store(FileStore):
    """A folder or bucket of runs.

    broken: names of files that cannot be read; they were set aside, but for those in `stuck`, whose
    place cannot be written. foreign: names of runs that another version of this library made, which
    are left alone.
    """

    def __init__(self, url: str | os.PathLike[str] | None = None) -> None:
        """Open the store at `url`: default $POSENC_RUNS, else a folder of the user's data."""
        super().__init__(url)
        self.broken: list[str] = []
        self.stuck: list[str] = []
        self.foreign: list[str] = []

    def has(self, run_id: str) -> bool:
        """Whether a run is there, complete."""
        return self.exists(f"{run_id}.parquet")

    def add(self, run: Run, tables: Mapping[str, Tensor]) -> bool:
        """Write a run: its tables first, because its Parquet file is what makes it a run.

        A run that is there already, such as one of another machine, stays as it is. Returns whether
        this one was written. Raises RunError if the store cannot be written.
        """
        if self.has(run.run_id):
            return False
        if tables:
            content = {name: value.detach().cpu().contiguous() for name, value in tables.items()}
            one = run.specification
            note = {"run": run.run_id, "scheme": one.scheme.kind, "described": one.described}
            name = f"{run.run_id}.safetensors"
            if not self.create(name, save(content, note)) and not self._whole_tables(run.run_id):
                self.set_aside(name)
                self.create(name, save(content, note))
        return self.create(f"{run.run_id}.parquet", to_parquet(run))

    def read(self, run_id: str) -> Run:
        """Return a run. Raises RunError if it is not there or unreadable."""
        return from_parquet(self._parquet(run_id), run_id)

    def heading(self, run_id: str) -> Heading:
        """Return what a run is. Raises as `read` does; its numbers are not looked at."""
        return read_heading(self._parquet(run_id), run_id)

    def _parquet(self, run_id: str) -> bytes:
        try:
            return self.content(f"{run_id}.parquet")
        except FileNotFoundError:
            raise RunMissing(f"There is no run {run_id}.") from None

    def tables(self, run_id: str) -> dict[str, Tensor]:
        """Return the tables that the run's scheme learned, by name; none for a formula."""
        name = f"{run_id}.safetensors"
        try:
            if not self.exists(name):
                return {}
            content = self.content(name)
            return {one: read_tensor(content, one).tensor for one in read_header(content).tensors}
        except StoreUnavailable:
            raise  # nothing is known of the file
        except (OSError, RunError, CheckpointError) as error:
            raise RunError(f"The tables of run {run_id} cannot be read.") from error

    def _whole_tables(self, run_id: str) -> bool:
        try:
            return bool(self.tables(run_id))
        except RunError:
            return False

    def ids(self) -> list[str]:
        """Return the names of all runs, sorted."""
        found = (_RUN_FILE.fullmatch(name) for name in self.names())
        return [one.group(1) for one in found if one is not None]

    def __iter__(self) -> Iterator[Run]:
        """Return every readable run; what cannot be read is set aside and named in `broken`."""
        self.broken, self.stuck, self.foreign = [], [], []
        for run_id in self.ids():
            try:
                run = self.read(run_id)
            except RunOfAnotherVersion:
                self.foreign.append(run_id)
            except StoreUnavailable:
                raise  # nothing is known of the file
            except RunError:
                self._break(run_id)
            else:
                yield run

    def made(self, run_id: str) -> Run | None:
        """Return a run if it is there; a file of its name that cannot be read is set aside."""
        if not self.has(run_id):
            return None
        try:
            return self.read(run_id)
        except (RunOfAnotherVersion, StoreUnavailable):
            raise
        except RunError:
            self._break(run_id)
            return None

    def left_out(self) -> list[str]:
        """Say which files were found to be left out, and why, one clause for each reason."""
        aside = [name for name in self.broken if name not in self.stuck]
        reasons = (
            (aside, "cannot be read and was set aside", "cannot be read and were set aside"),
            (self.stuck, "cannot be read", "cannot be read"),
            (
                [f"run {name}" for name in self.foreign],
                "was made by another version of posenc",
                "were made by another version of posenc",
            ),
        )
        return [
            f"{_some(names)} {of_one if len(names) == 1 else of_many}"
            for names, of_one, of_many in reasons
            if names
        ]

    def _break(self, run_id: str) -> None:
        name = f"{run_id}.parquet"
        aside = self.set_aside(name)
        if aside is not None and self._is_whole(aside, run_id):
            # Between the look at it and the move a whole one was written in its place.
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


def _some(names: Sequence[str], shown: int = 3) -> str:
    """Name the first of many."""
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
