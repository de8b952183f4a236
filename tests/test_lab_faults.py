"""A kill or a fault at any moment leaves the old state or the new; what is no run is set aside."""

import os
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posenc.errors import RunError
from posenc.lab import Store, make_run
from posenc.lab.train import write_whole
from tests.small_runs import CORPUS, made, small, timeless


def die_at(call: str, count: int) -> None:
    """From now on: the process is killed when it makes a call for the `count`-th time."""
    owner = {"fsync": os, "replace": Path, "unlink": Path, "open": Path}[call]
    real, calls = getattr(owner, call), []

    def deadly(*arguments: object, **named: object) -> object:
        calls.append(call)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)

    setattr(owner, call, deadly)


# The checkpoint, the table and the run are written one after another, each ending with an unlink of
# a temporary name; then the checkpoint goes.
@pytest.mark.parametrize(
    "point",
    [(call, n) for call in ("open", "fsync", "replace", "unlink") for n in (1, 2, 3)]
    + [("unlink", 4)],
    ids=str,
)
def test_a_kill_at_any_step_of_a_write_leaves_the_old_state_or_the_new_one(
    point: tuple[str, int], tmp_path: Path
) -> None:
    child = os.fork()
    if child == 0:
        die_at(*point)
        made(tmp_path, "learned")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    store = Store(tmp_path / "runs")
    whole = [small("learned").run_id] if point in (("unlink", 3), ("unlink", 4)) else []
    assert store.ids() == whole
    assert [run.run_id for run in store] == whole
    assert store.broken == []
    again = made(tmp_path, "learned")[1]
    assert timeless(again) == timeless(made(tmp_path / "unbroken", "learned")[1])
    assert set(store.tables(again.run_id)) == {"scheme.weight"}


@pytest.mark.parametrize(
    "point", [("fsync", 1), ("fsync", 2), ("fsync", 3), ("replace", 3)], ids=str
)
def test_a_full_disk_at_any_write_leaves_no_half_run(
    point: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, calls = {"fsync": os, "replace": Path}[point[0]], []
    real = getattr(owner, point[0])

    def full(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == point[1]:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(owner, point[0], full)
    with pytest.raises((RunError, OSError), match="No space left on device"):
        made(tmp_path, "learned")
    monkeypatch.undo()
    assert Store(tmp_path / "runs").ids() == []
    assert timeless(made(tmp_path, "learned")[1]) == timeless(made(tmp_path / "b", "learned")[1])


def without_metadata(content: bytes) -> bytes:
    table = pq.read_table(pa.BufferReader(content)).replace_schema_metadata(None)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def test_files_that_are_no_runs_are_set_aside_by_name_and_never_lost(tmp_path: Path) -> None:
    store, run = made(tmp_path)
    folder = tmp_path / "runs"
    content = (folder / f"{run.run_id}.parquet").read_bytes()
    other = made(tmp_path, "alibi")[1]
    bad = {
        "truncated.parquet": content[: len(content) // 2],
        "cut.parquet": content[:-1],
        "empty.parquet": b"",
        "text.parquet": b"a shopping list",
        "nameless.parquet": without_metadata(content),
        "f" * 20 + ".parquet": content,  # a run under another run's name
    }
    for name, wrong in bad.items():
        (folder / name).write_bytes(wrong)
    (folder / "notes.txt").write_text("not meant as a run")
    assert {found.run_id for found in store} == {run.run_id, other.run_id}
    assert sorted(store.broken) == sorted(bad)
    aside = {path.name: path.read_bytes() for path in (folder / "set-aside").iterdir()}
    assert aside == bad
    assert (folder / "notes.txt").exists()
    assert store.ids() == sorted([run.run_id, other.run_id])

    # Another under the same name is kept beside the first.
    (folder / "text.parquet").write_bytes(b"another list")
    assert len(list(store)) == 2
    kept = {path.read_bytes() for path in (folder / "set-aside").iterdir()}
    assert kept == {*bad.values(), b"another list"}


def test_a_single_unreadable_run_is_refused_in_one_sentence(tmp_path: Path) -> None:
    store, run = made(tmp_path)
    path = tmp_path / "runs" / f"{run.run_id}.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(RunError, match="no readable run"):
        store.read(run.run_id)
    with pytest.raises(RunError, match=r"^There is no run nothing\.$"):
        store.read("nothing")


@pytest.mark.parametrize("place", ["/proc/nowhere/runs", "abacus://runs", "{file}", "{file}/below"])
def test_an_impossible_place_is_refused_in_one_sentence(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(RunError, match="cannot be opened"):
        Store(place.format(file=tmp_path / "file"))


def test_a_store_that_cannot_be_written_loses_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, steps = Store(tmp_path / "runs"), []
    (tmp_path / "runs").rmdir()
    with pytest.raises(RunError, match="cannot be written"):
        make_run(small(), CORPUS, store, work=tmp_path / "work")
    store = Store(tmp_path / "runs")
    run = make_run(
        small(), CORPUS, store, work=tmp_path / "work", report=lambda n, _: steps.append(n)
    )
    assert steps == []
    assert len(run.losses) == 12


@pytest.mark.parametrize("fault", ["write", "flush", "fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("no space left")

    if fault == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    elif fault == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        opened = Path.open

        class Failing:
            def __init__(self, path: Path, mode: str) -> None:
                self.file = opened(path, mode)

            def __enter__(self) -> "Failing":
                return self

            def __exit__(self, *_: object) -> None:
                self.file.close()

            def write(self, content: bytes) -> None:
                self.file.write(content[:1])
                if fault == "write":
                    fail()

            def flush(self) -> None:
                fail()

        monkeypatch.setattr(Path, "open", lambda *asked: Failing(*asked))
    with pytest.raises(OSError, match="no space left"):
        write_whole(path, b"new and longer")
    monkeypatch.undo()
    assert [found.name for found in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"
    write_whole(path, b"new and longer")
    assert path.read_bytes() == b"new and longer"
