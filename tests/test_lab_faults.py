"""A kill or a fault at any moment leaves the old state or the new; what is no run is set aside."""

import contextlib
import io
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from posenc.errors import RunError, RunOfAnotherVersion, StoreUnavailable
from posenc.lab import Store, make_run
from posenc.lab.specification import name_of
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
        f"{n:020x}.parquet": wrong
        for n, wrong in enumerate(
            (
                content[: len(content) // 2],
                content[:-1],
                b"",
                b"a shopping list",
                without_metadata(content),
            )
        )
    }
    for name, wrong in bad.items():
        (folder / name).write_bytes(wrong)
    (folder / "notes.txt").write_text("not meant as a run")
    renamed = "f" * 20  # whole, under a name that another version may have for it
    (folder / f"{renamed}.parquet").write_bytes(content)
    (folder / "sales 2025.parquet").write_bytes(b"nor this")
    assert {found.run_id for found in store} == {run.run_id, other.run_id}
    assert sorted(store.broken) == sorted(bad)
    assert store.foreign == [renamed]
    assert (folder / f"{renamed}.parquet").read_bytes() == content
    assert store.left_out() == [
        "00000000000000000000.parquet, 00000000000000000001.parquet, 00000000000000000002.parquet "
        "and 2 more cannot be read and were set aside",
        f"run {renamed} was made by another version of posenc",
    ]
    aside = {path.name: path.read_bytes() for path in (folder / "set-aside").iterdir()}
    assert aside == bad
    assert (folder / "notes.txt").exists()
    assert (folder / "sales 2025.parquet").exists()
    assert store.ids() == sorted([run.run_id, other.run_id, renamed])

    # Another under the same name is kept beside the first.
    (folder / f"{3:020x}.parquet").write_bytes(b"another list")
    assert len(list(store)) == 2
    kept = {path.read_bytes() for path in (folder / "set-aside").iterdir()}
    assert kept == {*bad.values(), b"another list"}


def test_a_torn_file_does_not_keep_its_run_from_being_made(tmp_path: Path) -> None:
    store, run = made(tmp_path)
    path = tmp_path / "runs" / f"{run.run_id}.parquet"
    torn = path.read_bytes()[:-9]
    path.write_bytes(torn)
    assert timeless(made(tmp_path)[1]) == timeless(run)
    assert store.ids() == [run.run_id]
    assert (tmp_path / "runs" / "set-aside" / path.name).read_bytes() == torn


def test_a_run_of_another_version_is_left_where_it_is(tmp_path: Path) -> None:
    store, run = made(tmp_path)
    table = pq.read_table(tmp_path / "runs" / f"{run.run_id}.parquet")
    note = json.loads(table.schema.metadata[b"posenc"])
    record = note["specification"]
    odd = (
        record | {"protocol": 99},
        record | {"scheme": {"kind": "a scheme to come"}},
        record | {"task": "a task to come"},
        record | {"a field to come": 1},
        record | {"device": "tpu"},
        {name: value for name, value in record.items() if name != "segments"},  # from before it
    )
    for other in odd:
        name = name_of(other)
        path = tmp_path / "runs" / f"{name}.parquet"
        changed = note | {"specification": other}
        metadata = {b"posenc": json.dumps(changed).encode()}
        pq.write_table(table.replace_schema_metadata(metadata), path)
        content = path.read_bytes()
        store = Store(tmp_path / "runs")
        assert [found.run_id for found in store] == [run.run_id]
        assert (store.broken, store.foreign) == ([], [name])
        assert path.read_bytes() == content
        with pytest.raises(RunOfAnotherVersion):
            store.read(name)
        path.unlink()


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


@pytest.mark.parametrize(
    "fault",
    [
        pa.ArrowMemoryError("malloc failed"),
        MemoryError(),
        pa.ArrowNotImplementedError("codec zstd"),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_a_reader_that_is_short_of_something_sets_no_good_run_aside(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = made(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise fault

    with monkeypatch.context() as short:
        short.setattr(pq, "read_table", fail)
        with pytest.raises((StoreUnavailable, RunOfAnotherVersion)):
            store.made(run.run_id)
        with contextlib.suppress(StoreUnavailable):
            assert list(store) == []
    assert store.broken == []
    assert list(store) == [run]


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


def test_a_good_run_written_over_a_torn_one_amid_its_move_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = made(tmp_path)
    path = tmp_path / "runs" / f"{run.run_id}.parquet"
    good = path.read_bytes()
    path.write_bytes(b"torn")
    aside = Store.set_aside

    def late(self: Store, name: str) -> str | None:
        path.write_bytes(good)  # another process made the run between the look and the move
        return aside(self, name)

    monkeypatch.setattr(Store, "set_aside", late)
    assert list(store) == []
    assert store.broken == []
    assert list(store) == [run]


def test_a_table_that_cannot_be_read_is_written_again_with_its_run(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    name = f"{small('learned').run_id}.safetensors"
    (tmp_path / "runs" / name).write_bytes(b"junk")
    store, run = made(tmp_path, "learned")
    assert set(store.tables(run.run_id)) == {"scheme.weight"}
    assert (tmp_path / "runs" / "set-aside" / name).read_bytes() == b"junk"


def odd_files(content: bytes) -> list[bytes]:
    """Parquet files that hold something, and no run."""
    table = pq.read_table(pa.BufferReader(content))
    note = json.loads(table.schema.metadata[b"posenc"])

    def with_note(text: str) -> pa.Table:
        return table.replace_schema_metadata({b"posenc": text.encode()})

    tables = [with_note(json.dumps(note | {"specification": odd})) for odd in ([1], "x", None)]
    tables += [with_note(json.dumps(note | {"stopped": odd})) for odd in (1, {"a": "b"})]
    seconds = f'"seconds": {note["seconds"]!r}'
    assert seconds in json.dumps(note)
    tables += [
        with_note("[" * 200_000),
        with_note(json.dumps(note).replace(seconds, '"seconds": 1' + "0" * 400)),
    ]
    nothing = pa.array([None] * len(table), pa.float64())
    tables += [table.set_column(4, "value", nothing), table.drop_columns(["until"])]
    tables += [table.set_column(4, "value", table["value"].cast(pa.string()))]
    written = []
    for one in tables:
        buffer = io.BytesIO()
        pq.write_table(one, buffer)
        written.append(buffer.getvalue())
    return written


def test_a_parquet_file_of_anything_else_is_set_aside(tmp_path: Path) -> None:
    store, run = made(tmp_path)
    path = tmp_path / "runs" / f"{run.run_id}.parquet"
    for content in odd_files(path.read_bytes()):
        path.write_bytes(content)
        assert list(store) == []
        assert store.broken == [path.name]
        assert not path.exists()


def test_a_file_larger_than_any_run_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = made(tmp_path)
    path = tmp_path / "runs" / f"{run.run_id}.parquet"
    monkeypatch.setattr("posenc.limits.MAX_RUN_BYTES", path.stat().st_size)
    assert list(store) == [run]
    with path.open("ab") as file:
        file.truncate(2**40)  # of nothing: no disk is used
    assert list(store) == []
    assert store.broken == [path.name]


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


def test_a_single_unreadable_run_is_refused_in_one_sentence(tmp_path: Path) -> None:
    store, run = made(tmp_path)
    path = tmp_path / "runs" / f"{run.run_id}.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(RunError, match="no readable run"):
        store.read(run.run_id)
    with pytest.raises(RunError, match=r"^There is no run nothing\.$"):
        store.read("nothing")


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
