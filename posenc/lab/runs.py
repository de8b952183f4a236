"""The store of runs: one Parquet file each, named by its specification's hash, never changed.

A run is there once its Parquet file is; beside it may stand a .safetensors file with the tables its
scheme learned. A folder by default, or any fsspec URL, such as a bucket that several servers share.
"""

import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock
from fsspec.implementations.local import LocalFileSystem
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from posenc.errors import RunError
from posenc.lab.corpus import Corpus
from posenc.lab.evaluate import Score, evaluate
from posenc.lab.specification import Specification
from posenc.lab.train import Report, fixed_threads, train, write_whole

ENVIRONMENT = "POSENC_RUNS"
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
_UNREADABLE = (pa.ArrowException, OSError, KeyError, TypeError, ValueError)


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


class Store:
    """A folder or bucket of runs."""

    def __init__(self, url: str | os.PathLike[str] | None = None) -> None:
        """Open the store at `url`: default $POSENC_RUNS, else a folder of the user's data."""
        place = os.fspath(url) if url is not None else os.environ.get(ENVIRONMENT)
        if not place:
            place = str(platformdirs.user_data_path("posenc", appauthor=False) / "runs")
        try:
            self.files, self.root = fsspec.core.url_to_fs(place)
            self.files.makedirs(self.root, exist_ok=True)
        except (OSError, ValueError, ImportError) as error:
            raise RunError(f"The store of runs cannot be opened: {error}.") from error
        self.broken: list[str] = []

    @property
    def local(self) -> bool:
        """Whether the store is a folder of this machine."""
        return isinstance(self.files, LocalFileSystem)

    def path(self, name: str) -> str:
        """Return the path of a file of the store."""
        return f"{self.root}/{name}"

    def has(self, run_id: str) -> bool:
        """Whether a run is there, complete."""
        return bool(self.files.exists(self.path(f"{run_id}.parquet")))

    def add(self, run: Run, tables: Mapping[str, Tensor]) -> None:
        """Write a run: its tables first, because its Parquet file is what makes it a run.

        Raises RunError if the store cannot be written.
        """
        if tables:
            content = {name: value.detach().cpu().contiguous() for name, value in tables.items()}
            note = {"run": run.run_id, "scheme": run.specification.scheme.kind}
            self._write(f"{run.run_id}.safetensors", save(content, note))
        self._write(f"{run.run_id}.parquet", to_parquet(run))

    def read(self, run_id: str) -> Run:
        """Return a run. Raises RunError if it is not there or unreadable."""
        try:
            content = self.files.cat_file(self.path(f"{run_id}.parquet"))
        except OSError:
            raise RunError(f"There is no run {run_id}.") from None
        run = from_parquet(content)
        if run.run_id != run_id:
            raise RunError(f"The file of run {run_id} holds another run.")
        return run

    def tables(self, run_id: str) -> dict[str, Tensor]:
        """Return the tables that the run's scheme learned, by name; none for a formula."""
        path = self.path(f"{run_id}.safetensors")
        try:
            return load(self.files.cat_file(path)) if self.files.exists(path) else {}
        except (OSError, SafetensorError) as error:
            raise RunError(f"The tables of run {run_id} cannot be read.") from error

    def ids(self) -> list[str]:
        """Return the names of all runs, sorted."""
        self.files.invalidate_cache()  # another server may have added to the bucket
        found = [PurePosixPath(str(path)) for path in self.files.find(self.root, maxdepth=1)]
        return sorted(path.stem for path in found if path.suffix == ".parquet")

    def __iter__(self) -> Iterator[Run]:
        """Return every readable run; what cannot be read is set aside and named in `broken`."""
        for run_id in self.ids():
            try:
                run = self.read(run_id)
            except RunError:
                self._set_aside(f"{run_id}.parquet")
                continue
            yield run

    def _set_aside(self, name: str) -> None:
        """Move a file out of the way, never delete it."""
        self.broken.append(name)
        try:
            self.files.makedirs(self.path("set-aside"), exist_ok=True)
            place = self.path(f"set-aside/{name}")
            while self.files.exists(place):  # one that was set aside before stays, too
                place += ".again"
            self.files.mv(self.path(name), place)
        except OSError:
            return  # a read-only store: named all the same

    def _write(self, name: str, content: bytes) -> None:
        try:
            if self.local:
                write_whole(Path(self.path(name)), content)
            else:
                self.files.pipe_file(self.path(name), content)  # one upload, visible once complete
        except OSError as error:
            raise RunError(
                f"The store of runs cannot be written: {error.strerror or 'no reason given'}."
            ) from error


def make_run(
    specification: Specification,
    corpus: Corpus | None,
    store: Store,
    *,
    work: Path | None = None,
    report: Report | None = None,
    compiled: bool = False,
) -> Run:
    """Return the run of a specification: from the store, or trained, evaluated and added to it.

    work: folder of checkpoints, default one of the user's cache. Of two starts on one machine the
    second waits and reads what the first made. A kill loses at most the steps since the last
    checkpoint. report: see `train`.
    """
    run_id = specification.run_id
    folder = work or platformdirs.user_cache_path("posenc", appauthor=False) / "training"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{run_id}.lock"):
        if store.has(run_id):
            return store.read(run_id)
        checkpoint = folder / f"{run_id}.safetensors"
        trained = train(
            specification, corpus, checkpoint=checkpoint, report=report, compiled=compiled
        )
        scores: list[Score] = []
        if trained.stopped is None:
            with fixed_threads(specification.threads):
                task = specification.make_task(corpus)
                scores = evaluate(trained.model, task, specification)
        run = Run(specification, tuple(scores), trained.losses, trained.stopped, trained.seconds)
        learned = {
            f"scheme.{name}": value for name, value in trained.model.scheme.named_parameters()
        }
        store.add(run, learned)
        checkpoint.unlink(missing_ok=True)
        return run


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


def from_parquet(content: bytes) -> Run:
    """Read a file that `to_parquet` wrote. Raises RunError for any other."""
    try:
        table = pq.read_table(io.BytesIO(content))
        note: dict[str, Any] = json.loads(table.schema.metadata[_METADATA])
        names = [field.name for field in fields(Score)]
        scores = [Score(*(row[name] for name in names)) for row in table.to_pylist()]
        return Run(
            specification=Specification.from_record(note["specification"]),
            scores=tuple(score for score in scores if score.measure != _TRAINING),
            losses=tuple(score.value for score in scores if score.measure == _TRAINING),
            stopped=note["stopped"],
            seconds=float(note["seconds"]),
        )
    except RunError:
        raise  # it says what it does not know
    except _UNREADABLE as error:
        raise RunError(f"The file is no readable run: {type(error).__name__}.") from error
