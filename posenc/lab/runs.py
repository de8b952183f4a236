"""The store of runs: one Parquet file each, named by its specification's hash, never changed.

A run is there once its Parquet file is; beside it may stand a .safetensors file with the tables its
scheme learned. A folder by default, or any fsspec URL, such as a bucket that several servers share.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from safetensors.torch import save
from torch import Tensor

from posenc.errors import (
    CheckpointError,
    RunError,
    RunMissing,
    RunOfAnotherVersion,
    StoreUnavailable,
)
from posenc.interop.safetensors_file import read_header, read_tensor
from posenc.lab.run import Heading, Run, from_parquet, read_heading, to_parquet
from posenc.run_files import RunFiles

_RUN_FILE = re.compile(r"([0-9a-f]{20})\.parquet")


class Store(RunFiles):
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
