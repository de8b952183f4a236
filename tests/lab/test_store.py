"""The store of runs: each is read back as made, no kill or fault loses one, other files stay apart."""

import contextlib
import errno
import functools
import io
import json
import math
import os
import pickle
import struct
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from posenc.checkpoints.file_store import ENVIRONMENT
from posenc.errors import RunError, RunOfAnotherVersion, StoreUnavailable
from posenc.lab import Run, Score, Store, run_once
from posenc.lab.run_once import checkpoint_of
from posenc.lab.runs import from_parquet, to_parquet
from posenc.lab.specification import name_of
from tests.lab.small_runs import CORPUS, make_small_run, small_spec, without_time
from tests.lab.worker_processes import in_fork, killed_in_fork

SMALLEST: dict[str, Any] = {"steps": 2, "longest": 2, "segments": 2}


@pytest.fixture
def made(tmp_path: Path) -> tuple[Store, Run, Path]:
    store, run = make_small_run(tmp_path, **SMALLEST)
    return store, run, tmp_path / "runs" / f"{run.run_id}.parquet"


Made = tuple[Store, Run, Path]


def test_run_is_read_back_as_it_was_made_and_not_made_again(made: Made, tmp_path: Path) -> None:
    store, run, path = made
    assert run.specification == small_spec(**SMALLEST)
    assert store.read(run.run_id) == run
    assert list(Store(tmp_path / "runs")) == [run]
    assert (len(run.losses), run.seconds > 0) == (2, True)
    assert not checkpoint_of(run.run_id).exists()
    # Any reader of Parquet finds the whole specification in the file.
    record = json.loads(pq.read_schema(path).metadata[b"posenc"])["specification"]
    assert record == run.specification.record
    before = path.stat().st_mtime_ns
    assert run_once(run.specification, None, store) == run
    store.add(replace(run, losses=(1.0,) * 2), {})
    assert store.read(run.run_id) == run
    assert path.stat().st_mtime_ns == before


def test_learned_tables_are_stored_beside_their_run(made: Made, tmp_path: Path) -> None:
    name = f"{small_spec('learned', **SMALLEST).run_id}.safetensors"
    (tmp_path / "runs" / name).write_bytes(b"junk")  # as another program may leave it
    store, run = make_small_run(tmp_path, "learned", **SMALLEST)
    tables = store.tables(run.run_id)
    assert {name: value.shape for name, value in tables.items()} == {"scheme.weight": (16, 16)}
    start = dict(small_spec("learned").scheme.build(seed=0).named_parameters())["weight"]
    assert not torch.equal(tables["scheme.weight"], start)
    store.add(run, {name: value + 1 for name, value in tables.items()})  # replaces nothing
    assert torch.equal(store.tables(run.run_id)["scheme.weight"], tables["scheme.weight"])
    assert store.tables(made[1].run_id) == {}
    (tmp_path / "runs" / name).write_bytes(b"torn")
    with pytest.raises(RunError, match="tables of run"):
        store.tables(run.run_id)


def test_numbers_that_are_not_finite_survive_the_file() -> None:
    """Saved and read back: bit for bit."""
    odd = (math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.0000000000000002)
    scores = tuple(Score("context", "as trained", n, value, 3) for n, value in enumerate(odd))
    back = from_parquet(to_parquet(Run(small_spec(), "It stopped.", 1.25, scores, odd)))
    as_bits = [struct.pack("<d", value) for value in odd]
    assert [struct.pack("<d", value) for value in back.losses] == as_bits
    assert [struct.pack("<d", score.value) for score in back.scores] == as_bits
    assert [score.x for score in back.scores] == list(range(6))
    assert (back.stopped, back.seconds, back.specification) == ("It stopped.", 1.25, small_spec())


def test_loss_of_byte_pairs_survives_the_file_and_earlier_files_have_none() -> None:
    for loss in (2.5, None):
        run = Run(small_spec(), None, 1.0, (), (), pair_loss=loss)
        assert from_parquet(to_parquet(run)).pair_loss == loss
    table = pq.read_table(io.BytesIO(to_parquet(run)))
    note = json.loads(table.schema.metadata[b"posenc"])
    del note["pair_loss"]
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"posenc": json.dumps(note)}), buffer)
    assert from_parquet(buffer.getvalue()).pair_loss is None


def test_small_file_of_long_texts_is_refused_before_it_fills_the_memory() -> None:
    rows = 100_000
    content = to_parquet(Run(small_spec(), None, 1.0, (), ()))
    schema = pq.read_schema(pa.BufferReader(content))
    variant = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 20_000])
    columns = {name: pa.array([0] * rows).cast(schema.field(name).type, safe=False)
               for name in schema.names if name not in ("measure", "variant")}  # fmt: skip
    columns |= {"measure": pa.array(["context"] * rows), "variant": variant}
    table = pa.table([columns[name] for name in schema.names], names=schema.names)
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(schema.metadata), sink, store_schema=False)
    assert sink.getvalue().size < 100_000
    with pytest.raises(RunError, match="its rows have more than 256 MiB"):
        from_parquet(sink.getvalue().to_pybytes())


def test_run_that_stopped_early_is_stored_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["posenc.lab.train"], "learning_rate_at", lambda *_: math.nan)
    store, run = make_small_run(tmp_path)
    assert "nan at step 2" in str(run.stopped)
    assert (len(run.losses), run.scores) == (2, ())
    assert store.read(run.run_id).stopped == run.stopped


def test_two_processes_make_a_run_once(tmp_path: Path) -> None:
    specification = small_spec(**SMALLEST | {"steps": 20})

    def make() -> None:
        while not (tmp_path / "go").exists():
            time.sleep(0.001)
        steps: list[int] = []
        store = Store(tmp_path / "runs")
        run_once(specification, CORPUS, store, report=lambda n, _: steps.append(n))
        (tmp_path / f"steps-{os.getpid()}").write_text(str(len(steps)))

    children = [in_fork(make) for _ in range(2)]
    (tmp_path / "go").touch()
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert sorted((tmp_path / f"steps-{child}").read_text() for child in children) == ["0", "20"]
    assert Store(tmp_path / "runs").ids() == [specification.run_id]


def test_store_may_be_a_folder_of_any_name_or_a_bucket(made: Made, tmp_path: Path) -> None:
    run, torn = made[1], f"{7:020x}.parquet"
    for url in (tmp_path / "brackets [1] * ünïcode", f"memory://{tmp_path.name}"):
        Store(url).add(run, {"scheme.weight": torch.ones(2, 3)})
        store = Store(url)
        assert store.local == isinstance(url, Path)
        assert list(store) == [run]
        assert torch.equal(store.tables(run.run_id)["scheme.weight"], torch.ones(2, 3))
        store.files.pipe_file(store.path(torn), b"torn")
        assert list(store) == [run]
        assert store.broken == [torn]
        assert store.content(torn) == b"torn"


# The checkpoint, the table and the run are written one after another, each ending with an unlink of a
# temporary name; then the checkpoint is removed. Each file is synced, then the folder of its name.
CALLS = {"open": 3, "fsync": 6, "replace": 1, "link": 2, "unlink": 4}
WHOLE_SINCE = {("fsync", 6), ("unlink", 3), ("unlink", 4)}  # the run's file has its name by then


def test_store_is_named_or_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "named"))
    assert Store().root == str(tmp_path / "named")
    monkeypatch.delenv(ENVIRONMENT)
    monkeypatch.setattr(platformdirs, "user_data_path", lambda *_, **__: tmp_path / "own")
    assert Store().root == str(tmp_path / "own" / "runs")
    assert (list(Store()), list(tmp_path.iterdir())) == ([], [])  # listing makes nothing


def test_kill_at_any_step_leaves_the_old_state_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(folder: Path) -> tuple[Store, Run]:
        return make_small_run(folder, "learned", **SMALLEST)

    unbroken = make(tmp_path / "unbroken")[1]
    for call, most in CALLS.items():
        for count in range(1, most + 1):
            folder = tmp_path / f"{call}-{count}"
            monkeypatch.setenv("POSENC_WORK", str(folder / "work"))
            assert killed_in_fork(call, count, functools.partial(make, folder))
            store = Store(folder / "runs")
            whole = [unbroken.run_id] if (call, count) in WHOLE_SINCE else []
            assert store.ids() == [run.run_id for run in store] == whole, (call, count)
            assert store.broken == []
            again = make(folder)[1]
            assert without_time(again) == without_time(unbroken)  # the same steps: the same bits
            assert set(store.tables(again.run_id)) == {"scheme.weight"}
        beyond = functools.partial(make, tmp_path / f"{call}-beyond")
        assert not killed_in_fork(call, most + 1, beyond), f"{call} is called more often"


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_first_of_two_machines_that_made_a_run_counts(
    kind: str, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(tmp_path / "both") if kind == "folder" else f"memory://{uuid.uuid4().hex}"
    run, ones = made[1], torch.ones(2, 3)
    find, looks = Store.find, [None, None]  # neither knows of the other yet
    monkeypatch.setattr(
        Store, "find", lambda self, run_id: looks.pop() if looks else find(self, run_id)
    )
    assert Store(url).add(run, {"scheme.weight": ones})
    assert not Store(url).add(replace(run, losses=(1.0, 1.0)), {"scheme.weight": 2 * ones})
    assert Store(url).read(run.run_id) == run
    assert torch.equal(Store(url).tables(run.run_id)["scheme.weight"], ones)


class ClientError(Exception):
    """As botocore has it: derived from nothing narrower."""


def raising(fault: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise fault

    return fail


@pytest.mark.parametrize("fault", [OSError(5, "Input/output error"), ClientError("http://inside")])
def test_store_that_cannot_be_read_now_loses_nothing(
    fault: Exception, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run, _ = made
    with monkeypatch.context() as broken:
        for owner, call in ((type(store.files), "cat_file"), (os, "scandir"), (os, "stat")):
            broken.setattr(owner, call, raising(fault))
            known: Any = {store.find: run, store.read: run, store.tables: {}, store.has: True}
            for ask, answer in known.items():  # the truth or nothing, never that it is not there
                with contextlib.suppress(StoreUnavailable):
                    assert ask(run.run_id) == answer
            with pytest.raises(StoreUnavailable, match="cannot be read"):
                list(store)
    assert (store.broken, store.foreign, list(store)) == ([], [], [run])
    bucket = Store("memory://unreachable")
    for call in ("ls", "pipe_file"):
        monkeypatch.setattr(type(bucket.files), call, raising(ClientError("http://inside")))
    with pytest.raises(StoreUnavailable, match=r"cannot be read: ClientError\.$"):
        bucket.ids()
    with pytest.raises(RunError, match=r"cannot be written: ClientError\.$"):
        bucket.put("file", b"")


def test_folder_without_links_keeps_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", raising(PermissionError(errno.EPERM, "not permitted")))
    store, run = make_small_run(tmp_path, **SMALLEST)
    assert not store.put(f"{run.run_id}.parquet", b"another", new=True)
    assert list(store) == [run]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [f"{run.run_id}.parquet"]


@pytest.mark.parametrize("fault", [MemoryError(), pa.ArrowNotImplementedError("codec")])
def test_lack_of_memory_or_codec_calls_no_good_run_damaged(
    fault: Exception, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run, _ = made
    with monkeypatch.context() as short:
        short.setattr(pq, "ParquetFile", raising(fault))
        with contextlib.suppress(StoreUnavailable):
            assert list(store) == []
    assert store.broken == []
    assert list(store) == [run]


def test_damaged_files_are_named_and_replaced_by_the_run_of_their_name(
    made: Made, tmp_path: Path
) -> None:
    store, run, path = made
    folder, content = path.parent, path.read_bytes()
    torn = [content[: len(content) // 2], content[:-1], b"", b"a shopping list"]
    damaged = {f"{n:020x}.parquet": bad for n, bad in enumerate(torn)}
    renamed = "f" * 20  # whole, under a name that another version may have for it
    others = {f"{renamed}.parquet": content, "notes.txt": b"notes", "sales 2025.parquet": b"sales"}
    for name, other in (damaged | others).items():
        (folder / name).write_bytes(other)
    assert list(store) == [run]
    assert (sorted(store.broken), store.foreign) == (sorted(damaged), [renamed])
    broken, foreign = store.left_out()
    assert f"{min(damaged)}, " in broken
    assert "and 1 more cannot be read" in broken
    assert renamed in foreign
    kept = damaged | others
    assert {name: (folder / name).read_bytes() for name in kept} == kept
    path.write_bytes(content[:-9])
    with pytest.raises(RunError, match="no readable run"):
        store.read(run.run_id)
    with pytest.raises(RunError, match="no run nothing"):
        store.read("nothing")
    again = make_small_run(tmp_path, **SMALLEST)[1]
    assert without_time(again) == without_time(run)  # the same bits
    assert list(store) == [again]
    assert {name: (folder / name).read_bytes() for name in kept} == kept


def as_parquet(table: pa.Table, note: object) -> bytes:
    text = note if isinstance(note, str) else json.dumps(note)
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({b"posenc": text.encode()}), sink)
    return bytes(sink.getvalue().to_pybytes())


def test_parquet_of_other_content_is_damaged(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _, path = made
    table = pq.read_table(path)
    note = json.loads(table.schema.metadata[b"posenc"])
    notes: list[object] = [note | {"specification": bad} for bad in ([1], "x", None)]
    notes += [note | {"stopped": 1}, "[" * 200_000, note | {"seconds": 10**400}]
    nothing = pa.array([None] * len(table), pa.float64())
    tables = [
        table.set_column(4, "value", nothing),
        table.set_column(4, "value", table["value"].cast(pa.string())),
        table.drop_columns(["until"]),
    ]
    files = [as_parquet(table, one) for one in notes] + [as_parquet(one, note) for one in tables]
    whole = path.read_bytes()
    monkeypatch.setattr("posenc.limits.MAX_RUN_BYTES", max(map(len, (whole, *files))))
    for content in (*files, whole + b" " * 10**6):  # the last is larger than any run
        path.write_bytes(content)
        assert (list(store), store.broken) == ([], [path.name])


def test_run_of_a_scheme_that_is_not_registered_says_so(made: Made) -> None:
    store, run, path = made
    table = pq.read_table(path)
    note = json.loads(table.schema.metadata[b"posenc"])
    record = note["specification"] | {"scheme": {"kind": "square_root"}}
    name, content = name_of(record), as_parquet(table, note | {"specification": record})
    path.with_name(f"{name}.parquet").write_bytes(content)
    assert list(store) == [run]
    assert (store.broken, store.foreign) == ([], [])
    assert store.left_out() == [
        f"run {name} is of a scheme that is not registered here: 'square_root'"
    ]
    assert path.with_name(f"{name}.parquet").read_bytes() == content
    with pytest.raises(RunError, match="scheme, 'square_root', is not registered here") as raised:
        store.read(name)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_run_of_another_version_is_left_where_it_is(made: Made) -> None:
    store, run, path = made
    table = pq.read_table(path)
    note = json.loads(table.schema.metadata[b"posenc"])
    record = note["specification"]
    records = (
        record | {"protocol": 99},
        record | {"task": "a task to come"},
        record | {"a field to come": 1},
        record | {"device": "tpu"},
        {name: value for name, value in record.items() if name != "segments"},  # from before it
    )
    files = {name_of(one): as_parquet(table, note | {"specification": one}) for one in records}
    for name, content in files.items():
        path.with_name(f"{name}.parquet").write_bytes(content)
    assert list(store) == [run]
    assert (store.broken, store.foreign) == ([], sorted(files))
    for name, content in files.items():
        assert path.with_name(f"{name}.parquet").read_bytes() == content
        with pytest.raises(RunOfAnotherVersion):
            store.read(name)
