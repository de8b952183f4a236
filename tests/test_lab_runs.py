"""The store of runs: one specification, one run, which comes back as it was made."""

import json
import math
import struct
import subprocess
import sys
from pathlib import Path

import platformdirs
import pyarrow.parquet as pq
import pytest
import torch

from posenc.errors import RunError
from posenc.lab import Run, Score, Store, make_run
from posenc.lab.run import from_parquet, to_parquet
from posenc.run_files import ENVIRONMENT
from tests.small_runs import CORPUS, made, small, timeless


def test_a_run_comes_back_as_it_was_made(kind: str, tmp_path: Path) -> None:
    store, run = made(tmp_path, kind)
    assert run.specification == small(kind)
    assert store.read(run.run_id) == run
    assert list(Store(tmp_path / "runs")) == [run]
    assert store.ids() == [run.run_id]
    assert len(run.losses) == 12
    assert run.seconds > 0
    assert list((tmp_path / "work").glob("*.safetensors")) == []


def test_the_file_tells_its_whole_specification_to_any_parquet_reader(tmp_path: Path) -> None:
    _, run = made(tmp_path)
    schema = pq.read_schema(tmp_path / "runs" / f"{run.run_id}.parquet")
    note = json.loads(schema.metadata[b"posenc"])
    assert note["specification"] == small().record
    assert note["specification"]["corpus"] == CORPUS.sha256


def test_learned_tables_stand_beside_their_run(tmp_path: Path) -> None:
    store, run = made(tmp_path, "learned")
    tables = store.tables(run.run_id)
    assert {name: value.shape for name, value in tables.items()} == {"scheme.weight": (16, 16)}
    start = small("learned").scheme.build(seed=0).weight
    assert not torch.equal(tables["scheme.weight"], start)
    assert store.tables(made(tmp_path)[1].run_id) == {}
    (tmp_path / "runs" / f"{run.run_id}.safetensors").write_bytes(b"torn")
    with pytest.raises(RunError, match="tables of run"):
        store.tables(run.run_id)


def test_not_a_number_and_infinity_survive_the_file() -> None:
    odd = (math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.0000000000000002)
    scores = tuple(Score("context", "as trained", n, value, 3) for n, value in enumerate(odd))
    run = Run(
        small(), scores, odd, "The loss or its gradient was nan at step 6; training stopped.", 1.25
    )
    back = from_parquet(to_parquet(run))
    as_bits = [struct.pack("<d", value) for value in odd]
    assert [struct.pack("<d", value) for value in back.losses] == as_bits
    assert [struct.pack("<d", score.value) for score in back.scores] == as_bits
    assert [score.x for score in back.scores] == list(range(6))
    assert (back.stopped, back.seconds, back.specification) == (run.stopped, 1.25, small())


def test_a_run_that_stopped_early_is_kept_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["posenc.lab.train"], "rate", lambda *_: math.nan)
    store, run = made(tmp_path)
    assert run.stopped == "The loss or its gradient was nan at step 2; training stopped."
    assert len(run.losses) == 2
    assert run.scores == ()
    assert store.read(run.run_id).stopped == run.stopped


def test_a_run_that_is_there_is_not_trained_again(tmp_path: Path) -> None:
    store, run = made(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    steps: list[int] = []
    again = make_run(
        small(), None, store, work=tmp_path / "work", report=lambda n, _: steps.append(n)
    )
    assert (again, steps) == (run, [])
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "runs").iterdir()} == before


def test_two_starts_at_once_in_two_processes_make_one_run(tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from posenc.lab import Store, make_run
from tests.small_runs import CORPUS, small
place, steps = Path({str(tmp_path)!r}), []
store = Store(place / "runs")
print("ready", flush=True)
sys.stdin.readline()
run = make_run(small(steps=60), CORPUS, store, work=place / "work",
               report=lambda n, _: steps.append(n))
print(len(steps), hash(run.losses), flush=True)
"""
    root = Path(__file__).parents[1]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script], cwd=root, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0].split() for process in started]
    assert sorted(int(steps) for steps, _ in said) == [0, 60]
    assert said[0][1] == said[1][1]
    assert Store(tmp_path / "runs").ids() == [small(steps=60).run_id]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    def stop(number: int, loss: float) -> None:
        if number == 7:
            raise KeyboardInterrupt

    store, steps = Store(tmp_path / "runs"), []
    with pytest.raises(KeyboardInterrupt):
        make_run(small(), CORPUS, store, work=tmp_path / "work", report=stop)
    assert store.ids() == []
    run = make_run(
        small(), CORPUS, store, work=tmp_path / "work", report=lambda n, _: steps.append(n)
    )
    assert steps == [8, 9, 10, 11, 12]
    assert timeless(run) == timeless(made(tmp_path / "unbroken")[1])


@pytest.mark.parametrize("name", ["plain", "with space", "brackets [1] *", "ünïcode"])
def test_a_store_may_be_any_folder(name: str, tmp_path: Path) -> None:
    store = Store(tmp_path / name)
    run = Run(small(), (), (1.0,), None, 1.0)
    store.add(run, {"scheme.weight": torch.ones(2, 3)})
    assert Store(tmp_path / name).ids() == [run.run_id]
    assert list(store) == [run]
    assert torch.equal(store.tables(run.run_id)["scheme.weight"], torch.ones(2, 3))


def test_a_store_may_be_a_bucket(tmp_path: Path) -> None:
    url = f"memory://{tmp_path.name}"
    run = make_run(small("learned"), CORPUS, Store(url), work=tmp_path)
    store = Store(url)
    assert not store.local
    assert list(store) == [run]
    assert set(store.tables(run.run_id)) == {"scheme.weight"}
    store.files.pipe_file(store.path(f"{7:020x}.parquet"), b"torn")
    assert list(store) == [run]
    assert store.broken == [f"{7:020x}.parquet"]
    assert store.files.cat_file(store.path(f"set-aside/{7:020x}.parquet")) == b"torn"


def test_the_place_of_a_store_is_given_by_name_or_by_the_user_s_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "named"))
    assert Store().root == str(tmp_path / "named")
    assert Store(tmp_path / "given").root == str(tmp_path / "given")
    monkeypatch.delenv(ENVIRONMENT)
    monkeypatch.setattr(platformdirs, "user_data_path", lambda *_, **__: tmp_path / "own")
    assert Store().root == str(tmp_path / "own" / "runs")
