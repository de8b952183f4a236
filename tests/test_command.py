"""The command line: train, runs, export; one sentence for nonsense; Ctrl-C loses nothing."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from posenc import __main__ as command
from posenc.lab import Specification, Store, from_text, specifications, train
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
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_bytes(sentences())
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> Result:
    return CliRunner().invoke(command.main, list(words))


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
    Path("runs/torn.parquet").write_bytes(b"torn")
    result = run("runs")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    for one in asked("learned", "none", seeds=2):
        assert sum(line.startswith(one.run_id) for line in lines) == 1
    found = [line for line in lines if "perplexity" in line]
    assert [line.split(":")[0] for line in found] == [
        "Learned",
        "Learned, last row repeated",
        "NoPE",
    ]
    assert all("(2 seeds)" in line for line in found)
    assert "nothing longer was read" in found[0]
    assert all("longer context" in line for line in found[1:])
    assert "torn.parquet cannot be read and was set aside." in lines


def test_runs_of_an_empty_store_says_nothing() -> None:
    assert (run("runs").exit_code, run("runs").output) == (0, "")


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
        patched.setattr(command, "_bar", report_of)
        stopped = trained("--scheme", "rope")
    assert stopped.exit_code == 130
    assert "goes on from here" in stopped.output
    assert Store().ids() == []

    steps: list[int] = []
    monkeypatch.setattr(command, "_bar", lambda _: lambda step, loss: steps.append(step))
    assert trained("--scheme", "rope").exit_code == 0
    assert steps == [5, 6]
    corpus = from_text("text.txt", sentences())
    assert Store().read(asked("rope")[0].run_id).losses == train(asked("rope")[0], corpus).losses


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_in_a_terminal_ends_all_processes_and_keeps_what_they_made(
    workers: str, tmp_path: Path
) -> None:
    root = str(Path(__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "posenc", "train", "--text", "text.txt", *FAST, "--scheme", "rope",
         "--seeds", "4", "--steps", "100000", "--workers", workers],
        env=os.environ | {"PYTHONPATH": root}, start_new_session=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    wanted = int(workers)
    while len(list((tmp_path / "cache").rglob("*.safetensors"))) < wanted:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) == 130
    assert Store().ids() == []
    expected = asked("rope", seeds=4, steps=100_000)
    corpus = from_text("text.txt", sentences())
    kept = 0
    for one in expected:
        path = tmp_path / "cache" / "posenc" / "training" / f"{one.run_id}.safetensors"
        if path.exists():
            trainer = Trainer(one, corpus)
            trainer.load(path)
            kept += len(trainer.losses) >= 100
    assert kept == wanted
    while _alive(process.pid):  # nothing of the session may be left
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
