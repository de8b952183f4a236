"""A kill or a fault at any moment leaves the old state or the new, in a store of runs as in a bucket."""

import contextlib
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from posenc.errors import RunError, StoreUnavailable
from posenc.lab import Store, make_run
from posenc.run_files import write_whole
from tests.small_runs import CORPUS, made, small, timeless


def die_at(call: str, count: int) -> None:
    """From now on: the process is killed when it makes a call for the `count`-th time."""
    owner = {"fsync": os, "link": os, "replace": Path, "unlink": Path, "open": Path}[call]
    real, calls = getattr(owner, call), []

    def deadly(*arguments: object, **named: object) -> object:
        calls.append(call)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)

    setattr(owner, call, deadly)


# The checkpoint, the table and the run are written one after another, each ending with an unlink of
# a temporary name; then the checkpoint goes. What is synced is each file, then the folder of its name.
@pytest.mark.parametrize(
    "point",
    [(call, n) for call in ("open", "unlink") for n in (1, 2, 3)]
    + [("fsync", n) for n in range(1, 7)]
    + [("replace", 1), ("link", 1), ("link", 2), ("unlink", 4)],
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
    named = point in (("fsync", 6), ("unlink", 3), ("unlink", 4))
    whole = [small("learned").run_id] if named else []
    assert store.ids() == whole
    assert [run.run_id for run in store] == whole
    assert store.broken == []
    again = made(tmp_path, "learned")[1]
    assert timeless(again) == timeless(made(tmp_path / "unbroken", "learned")[1])
    assert set(store.tables(again.run_id)) == {"scheme.weight"}


@pytest.mark.parametrize("point", [("fsync", 1), ("fsync", 3), ("fsync", 5), ("link", 2)], ids=str)
def test_a_full_disk_at_any_write_leaves_no_half_run(
    point: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    real = getattr(os, point[0])

    def full(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == point[1]:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(os, point[0], full)
    with pytest.raises(RunError, match=r"cannot be written: No space left on device\.$"):
        made(tmp_path, "learned")
    monkeypatch.undo()
    assert Store(tmp_path / "runs").ids() == []
    assert timeless(made(tmp_path, "learned")[1]) == timeless(made(tmp_path / "b", "learned")[1])


class ClientError(Exception):
    """As botocore has: derived from nothing narrower."""


@pytest.mark.parametrize(
    "fault",
    [OSError(5, "Input/output error"), RuntimeError("closed"), ClientError("http://inside")],
)
def test_a_place_that_cannot_be_read_now_loses_nothing(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = made(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise fault

    with monkeypatch.context() as broken:
        for owner, call in ((type(store.files), "cat_file"), (os, "scandir"), (os, "stat")):
            broken.setattr(owner, call, fail)
            for ask in (store.made, store.read, store.tables, store.has):
                with contextlib.suppress(StoreUnavailable):
                    ask(run.run_id)
            with pytest.raises(StoreUnavailable, match=r"^The store of runs cannot be read: .+\.$"):
                list(store)
    assert (store.broken, store.foreign) == ([], [])
    assert list(store) == [run]
    assert not (tmp_path / "runs" / "set-aside").exists()


def test_a_bucket_whose_client_fails_is_said_to_be_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store("memory://unreachable")

    def fail(*_: object, **__: object) -> None:
        raise ClientError("http://inside")

    for call in ("find", "exists", "size", "pipe_file"):
        monkeypatch.setattr(type(store.files), call, fail)
    for ask in (store.ids, lambda: store.has("0" * 20), lambda: store.read("0" * 20)):
        with pytest.raises(
            StoreUnavailable, match=r"^The store of runs cannot be read: ClientError\.$"
        ):
            ask()
    with pytest.raises(RunError, match=r"^The store of runs cannot be written: ClientError\.$"):
        store.create("file", b"")


def test_of_two_machines_that_made_a_run_the_first_one_counts(tmp_path: Path) -> None:
    for url in (str(tmp_path / "folder"), "memory://two-machines"):
        specification = small("learned")
        first, second = Store(url), Store(url)
        run = make_run(specification, CORPUS, Store(tmp_path / "alone"), work=tmp_path / "work")
        tables = Store(tmp_path / "alone").tables(run.run_id)
        with pytest.MonkeyPatch.context() as patched:  # neither knows of the other yet
            patched.setattr(Store, "has", lambda self, run_id: False)
            assert first.add(run, tables)
            assert not second.add(
                replace(run, losses=(1.0,) * 12), {name: 2 * one for name, one in tables.items()}
            )
        assert second.read(run.run_id) == run
        assert torch.equal(second.tables(run.run_id)["scheme.weight"], tables["scheme.weight"])


def test_a_folder_that_knows_no_links_keeps_what_is_there_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    store, run = made(tmp_path)
    assert list(store) == [run]
    assert not store.create(f"{run.run_id}.parquet", b"another")
    assert list(store) == [run]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [f"{run.run_id}.parquet"]


def test_a_run_that_is_there_is_never_replaced(tmp_path: Path) -> None:
    store, run = made(tmp_path, "learned")
    tables = store.tables(run.run_id)
    other = replace(run, losses=(1.0,) * len(run.losses))
    store.add(other, {name: value + 1 for name, value in tables.items()})
    assert store.read(run.run_id) == run
    assert torch.equal(store.tables(run.run_id)["scheme.weight"], tables["scheme.weight"])


def test_opening_and_listing_a_store_makes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "not" / "yet")
    assert list(store) == []
    assert store.ids() == []
    assert not store.has("0" * 20)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["abacus://runs", "{file}", "{file}/below"])
def test_an_impossible_place_is_refused_in_one_sentence(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(RunError, match="cannot be opened"):
        Store(place.format(file=tmp_path / "file"))


def test_a_store_that_cannot_be_written_loses_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, steps = Store(tmp_path / "runs"), []
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(RunError, match="cannot be written"):
        make_run(small(), CORPUS, store, work=tmp_path / "work")
    (tmp_path / "runs").unlink()
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
