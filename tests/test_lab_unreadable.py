"""Files of a store that are no runs, or none of this version: set aside by name, refused, never lost."""

import contextlib
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posenc.errors import RunError, RunOfAnotherVersion, StoreUnavailable
from posenc.lab import Store
from posenc.lab.specification import name_of
from tests.small_runs import made, small, timeless


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
        short.setattr(pq, "ParquetFile", fail)
        with pytest.raises((StoreUnavailable, RunOfAnotherVersion)):
            store.made(run.run_id)
        with contextlib.suppress(StoreUnavailable):
            assert list(store) == []
    assert store.broken == []
    assert list(store) == [run]


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


def test_a_single_unreadable_run_is_refused_in_one_sentence(tmp_path: Path) -> None:
    store, run = made(tmp_path)
    path = tmp_path / "runs" / f"{run.run_id}.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(RunError, match="no readable run"):
        store.read(run.run_id)
    with pytest.raises(RunError, match=r"^There is no run nothing\.$"):
        store.read("nothing")
