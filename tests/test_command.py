"""The command line: train, runs, export; one sentence for nonsense; Ctrl-C loses nothing."""

import contextlib
import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from posenc.__main__ import main
from posenc.commands import training
from posenc.lab import Job, Specification, Store, from_text, specifications, train
from posenc.lab.summary import comparison
from posenc.lab.sweep import Outcome
from posenc.lab.train import Trainer
from tests.small_runs import SIZES, sentences

FAST = [
    "--width", "16", "--layers", "1", "--heads", "2", "--train-length", "16", "--steps", "6",
    "--batch", "4", "--longest", "4", "--segments", "8", "--learning-rate", "0.01",
]  # fmt: skip


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores and checkpoints in the test's own folder, and a text in it."""
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "cache" / "posenc"))
    (tmp_path / "text.txt").write_bytes(sentences())
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def trained(*words: str) -> Result:
    return run("train", "--text", "text.txt", *FAST, *words)


def asked(*schemes: str, **others: object) -> list[Specification]:
    """What `trained` asks for."""
    corpus = from_text("text.txt", sentences())
    return specifications(
        schemes, **SIZES | {"widths": [16], "steps": 6, "corpus": corpus} | others
    )


def assert_refused(result: Result, said: str) -> None:
    """One sentence and an exit status; no trace."""
    assert result.exit_code not in (0, 130)
    assert said in result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    error = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert len(error) == 1


def test_train_makes_every_combination_and_says_so() -> None:
    result = trained("--scheme", "rope", "--scheme", "alibi", "--seeds", "2", "--base", "500")
    assert result.exit_code == 0, result.output
    expected = asked("rope", "alibi", seeds=2, bases=[500.0])
    assert Store().ids() == sorted(one.run_id for one in expected)
    for one in expected:
        (line,) = [line for line in result.stdout.splitlines() if line.startswith(one.run_id)]
        assert line.endswith("done")
        assert one.scheme.label in line
        assert f"seed={one.seed}" in line


def test_a_second_train_of_the_same_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = trained("--scheme", "rope")
    assert first.exit_code == 0

    def step(trainer: Trainer) -> float:
        raise AssertionError("a step was made")

    monkeypatch.setattr(Trainer, "step", step)
    second = trained("--scheme", "rope")
    assert second.exit_code == 0
    assert second.stdout == first.stdout


@pytest.mark.parametrize("task", ["copy", "recall"])
def test_the_other_tasks_need_no_text(task: str) -> None:
    result = run("train", *FAST, "--scheme", "learned", "--task", task)
    assert result.exit_code == 0, result.output
    (found,) = Store()
    assert {score.measure for score in found.scores} == {task}


def test_runs_lists_every_run_with_what_it_found() -> None:
    trained("--scheme", "learned", "--scheme", "none", "--seeds", "2")
    torn = f"{'0' * 20}.parquet"
    Path("runs", torn).write_bytes(b"torn")
    Path("runs/table.parquet").write_bytes(b"no run by its name")
    result = run("runs")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    for one in asked("learned", "none", seeds=2):
        assert sum(line.startswith(one.run_id) for line in lines) == 1
    found = [line for line in lines if "perplexity" in line]
    name = comparison(asked("none")[0])
    assert all(name in line for line in lines if line.split()[0] in Store().ids())
    assert [line.split(":")[0] for line in found] == [
        f"{name}  {label}" for label in ("Learned", "Learned, last row repeated", "NoPE")
    ]
    assert all("(2 seeds)" in line for line in found)
    assert "nothing longer was read" in found[0]
    assert all("longer context" in line for line in found[1:])
    assert [line for line in lines if "set aside" in line] == [
        f"{torn} cannot be read and was set aside."
    ]
    assert Path("runs/table.parquet").is_file()


def test_bases_of_a_sweep_are_told_apart() -> None:
    trained("--scheme", "rope", "--base", "500", "--base", "10000")
    found = [line for line in run("runs").output.splitlines() if "RoPE, as trained" in line]
    assert {line.split(":")[0].split(", ")[-1] for line in found} == {"base 500", "base 10000"}


def test_an_empty_place_is_named_with_the_one_that_ships(tmp_path: Path) -> None:
    for words in (["runs"], ["export", "out.csv"]):
        result = run(*words, "--store", "nowhere")
        assert result.exit_code == 0
        assert f"There are no runs in {tmp_path / 'nowhere'}." in result.output
        assert "posenc/lab/results" in result.output


def test_a_place_that_cannot_be_used_is_refused_before_a_step_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    said = {
        "file": "a file is in its place",
        "memory://runs": "would be gone with the command",
        "": "its name is empty",
        "dir://x": "cannot be opened",
        "nonsense://x": "cannot be opened",
    }
    for url, why in said.items():
        result = trained("--scheme", "rope", "--store", url)
        assert result.exit_code == 1
        assert why in result.output
        assert len(result.output.splitlines()) == 1
    assert list(tmp_path.rglob("*.safetensors")) == []


def test_an_export_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("kept")
    assert run("export", "out.csv", "--store", "data:,abc").exit_code == 1
    assert (tmp_path / "out.csv").read_text() == "kept"
    trained("--scheme", "rope")
    result = run("export", "no/such/folder.csv")
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1)


def test_a_text_of_any_name_is_trained_on_and_shown() -> None:
    name = os.fsdecode(b"bad\xff\n.txt")
    Path(name).write_bytes(sentences())
    result = run("train", "--text", name, *FAST, "--scheme", "learned")
    assert result.exit_code == 0, result.output
    (found,) = Store()
    assert found.specification.corpus_name == "bad\\udcff\\n.txt"


def test_export_writes_every_number(tmp_path: Path) -> None:
    trained("--scheme", "rope")
    assert run("export", "out.csv").exit_code == 0
    (found,) = Store()
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(found.scores) + 6
    assert {row["run"] for row in rows} == {found.run_id}
    losses = [float(row["value"]) for row in rows if row["measure"] == "training"]
    assert tuple(losses) == found.losses
    written = [
        (row["measure"], row["variant"], int(row["x"]), float(row["value"]), int(row["count"]))
        for row in rows
        if row["measure"] != "training"
    ]
    assert written == [(s.measure, s.variant, s.x, s.value, s.count) for s in found.scores]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--scheme", "abacus"], "abacus"),
        (["--scheme", "rope", "--steps", "0"], "Specification.steps must be a whole number"),
        (["--scheme", "rope", "--steps", "many"], "many"),
        (["--scheme", "rope", "--learning-rate", "nan"], "learning_rate"),
        (["--scheme", "rope", "--base", "-3"], "base"),
        (["--scheme", "rope", "--base", "inf"], "base"),
        (["--scheme", "rope", "--width", "17"], "width"),
        (["--scheme", "rope", "--heads", "3"], "heads"),
        (["--scheme", "rope", "--layers", "0"], "layers"),
        (["--scheme", "rope", "--train-length", "3"], "train_length"),
        (["--scheme", "rope", "--seeds", "0"], "seeds"),
        (["--scheme", "rope", "--longest", "0"], "longest"),
        (["--scheme", "rope", "--device", "abacus"], "device"),
        (["--scheme", "rope", "--threads", "0"], "threads"),
        (["--scheme", "rope", "--text", "nowhere.txt"], "nowhere.txt"),
        (["--scheme", "rope", "--text", "binary"], "no UTF-8 text"),
        (["--scheme", "rope", "--task", "poetry"], "poetry"),
    ],
)
def test_nonsense_gets_one_sentence(words: list[str], said: str) -> None:
    Path("binary").write_bytes(bytes(range(256)) * 200)
    assert_refused(trained(*words), said)
    assert not Path("runs").exists() or Store().ids() == []


def test_a_store_that_cannot_be_opened_gets_one_sentence() -> None:
    for words in (["runs"], ["export", "out.csv"]):
        assert_refused(run(*words, "--store", "abacus://runs"), "cannot be opened")
    assert not Path("out.csv").exists()
    assert_refused(run("export", "no such folder/out.csv"), "cannot be written")


def test_a_job_that_fails_is_named_and_the_others_are_made() -> None:
    trained("--scheme", "none")
    train(asked("rope")[0], from_text("text.txt", sentences()))
    work = next(Path("cache").rglob("training"))
    (work / f"{asked('rope')[0].run_id}.safetensors").write_bytes(b"torn")
    result = trained("--scheme", "rope", "--scheme", "alibi")
    assert result.exit_code == 1
    assert "The checkpoint cannot be read" in result.output
    assert Store().ids() == sorted(one.run_id for one in asked("none", "alibi"))


def test_an_interrupted_train_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def report_of(specification: Specification) -> object:
        def report(step: int, loss: float) -> None:
            if step == 4:
                raise KeyboardInterrupt

        return report

    with monkeypatch.context() as patched:
        patched.setattr(training, "_bar", report_of)
        stopped = trained("--scheme", "rope")
    assert stopped.exit_code == 130
    assert "goes on from here" in stopped.output
    assert Store().ids() == []

    steps: list[int] = []
    monkeypatch.setattr(training, "_bar", lambda _: lambda step, loss: steps.append(step))
    assert trained("--scheme", "rope").exit_code == 0
    assert steps == [5, 6]
    corpus = from_text("text.txt", sentences())
    assert Store().read(asked("rope")[0].run_id).losses == train(asked("rope")[0], corpus).losses


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a Dask cluster whose processes know nothing of a test's folder and environment."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as found:
        yield found.scheduler_address


@pytest.mark.parametrize("words", [(), ("--store", "others")], ids=["environment", "option"])
def test_runs_of_a_cluster_come_to_the_store_that_was_named_here(
    words: tuple[str, ...], cluster: str, tmp_path: Path
) -> None:
    result = trained("--scheme", "none", "--seeds", "2", "--dask", cluster, *words)
    assert result.exit_code == 0, result.output
    names = sorted(one.run_id for one in asked("none", seeds=2))
    assert Store(tmp_path / (words[1] if words else "runs")).ids() == names
    assert [line.split()[-1] for line in result.output.splitlines() if "NoPE" in line] == [
        "done"
    ] * 2


def test_a_run_that_did_not_come_from_a_cluster_is_an_error(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = training.sweep

    def elsewhere(jobs: list[Job], executor: Executor) -> Iterator[Outcome]:
        other = str(Path("elsewhere").resolve())
        return real([replace(job, store=other) for job in jobs], executor)

    monkeypatch.setattr(training, "sweep", elsewhere)
    result = trained("--scheme", "none", "--dask", cluster)
    assert result.exit_code == 1
    assert "kept the run in a place of its own" in result.output


def test_a_cluster_needs_a_named_store_and_an_address_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = trained("--scheme", "none", "--dask", "tcp://127.0.0.1:1")
    assert (result.exit_code, "cannot be reached" in result.output) == (1, True)
    monkeypatch.delenv("POSENC_RUNS")
    result = trained("--scheme", "none", "--dask", "tcp://127.0.0.1:1")
    assert (result.exit_code, "every machine reaches" in result.output) == (1, True)


LONG = 20_000  # steps of a training that a test ends; left alone it takes a minute or two


# On a busy machine a training waits long before it is given a second.
PATIENCE = 120.0


@contextlib.contextmanager
def long_training(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A training in a session of its own, as a terminal gives it; gone at the end of the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "posenc", "train", "--text", "text.txt", *FAST, "--scheme", "rope",
         "--steps", str(LONG), *words],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        start_new_session=True, stderr=subprocess.DEVNULL,
        # As at a terminal, though these tests may run in the background, where it is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        yield process
    finally:
        if _alive(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for_checkpoints(process: subprocess.Popen[bytes], count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(list(Path("cache").rglob("*.safetensors"))) < count:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_until_all_are_gone(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while _alive(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_in_a_terminal_ends_all_processes_and_keeps_what_they_made(workers: int) -> None:
    with long_training("--seeds", "4", "--workers", str(workers)) as process:
        wait_for_checkpoints(process, workers)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        wait_until_all_are_gone(process)
    assert Store().ids() == []
    corpus = from_text("text.txt", sentences())
    kept = 0
    for one in asked("rope", seeds=4, steps=LONG):
        path = Path("cache/posenc/training", f"{one.run_id}.safetensors")
        if path.exists():
            trainer = Trainer(one, corpus)
            trainer.load(path)
            kept += len(trainer.losses) >= 100
    assert kept == workers


def test_a_killed_sweep_leaves_no_process_behind() -> None:
    with long_training("--seeds", "2", "--workers", "2") as process:
        wait_for_checkpoints(process, 2)
        process.kill()
        process.wait()
        wait_until_all_are_gone(process)
