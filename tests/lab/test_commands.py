"""The command line of the lab: train, runs, export; errors are one line; Ctrl-C loses no work."""

import ast
import contextlib
import csv
import io
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from posenc import SCHEMES, RopeConfig
from posenc.__main__ import main
from posenc.checkpoints.sources import RESULTS
from posenc.cli import train
from posenc.lab import Specification, Store, SweepTask, from_text, specifications, sweep
from posenc.lab.best_rates import recorded_rates
from posenc.lab.corpus import TEXTS
from posenc.lab.evaluate import evaluated_tokens, evaluation_lengths
from posenc.lab.protocol_record import shipped_record
from posenc.lab.result_table import result_table
from posenc.lab.run_once import checkpoint_of, run_once
from posenc.lab.specification import FineTuning
from posenc.lab.summary import Curve, comparison, curves
from posenc.lab.sweep import Outcome
from posenc.lab.tasks import TASKS, questions_of
from posenc.lab.train import Trainer
from tests.dashboard.shipped_runs import CODE, runs_of
from tests.lab.small_runs import SIZES, sentences
from tests.lab.worker_processes import PATIENCE, ROOT, wait

SMALL = [
    "--width", "16", "--heads", "2", "--train-length", "16", "--batch", "4", "--longest", "4",
    "--segments", "8", "--learning-rate", "0.01",
]  # fmt: skip
FAST = [*SMALL, "--layers", "1", "--steps", "6"]


@pytest.fixture(autouse=True)
def working_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each command in the test's own folder, which holds a text."""
    (folder / "text.txt").write_bytes(sentences())
    monkeypatch.chdir(folder)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def run_train(*words: str) -> Result:
    return run("train", "--text", "text.txt", *FAST, *words)


def run_module(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", name, *words], env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def shipped_curves(name: str) -> list[Curve]:
    """Return the curves by context of a comparison of the runs that ship."""
    return curves(runs_of(name), "context")


def specs_of(*schemes: str, **others: Any) -> list[Specification]:
    """Return what `run_train` trains."""
    corpus = from_text("text.txt", sentences())
    values = SIZES | {"widths": [16], "steps": 6, "corpus": corpus} | others
    return specifications(schemes, **values)


def assert_refused(result: Result, message: str) -> None:
    """Check for an exit status, one line with the message and no traceback."""
    assert result.exit_code == 2
    assert message in result.output
    assert isinstance(result.exception, SystemExit)
    errors = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert "Traceback" not in result.output


def can_be_run(path: Path) -> bool:
    conditions = [n.test for n in ast.parse(path.read_text("utf-8")).body if isinstance(n, ast.If)]
    return "__name__ == '__main__'" in map(ast.unparse, conditions)


ENTRIES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
    for package in ("posenc", "dashboard")
    for path in (ROOT / package).rglob("*.py")
    if can_be_run(path)
)


@pytest.mark.parametrize("name", ENTRIES)
def test_help_of_every_module_that_can_be_run_is_its_usage(name: str) -> None:
    result = run_module(name, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    first, _, more = result.stdout.partition("\n")
    program = "posenc" if name == "posenc" else f"python -m {name}"
    assert first.lower().startswith(f"usage: {program} [".lower())
    assert more.strip()
    assert {"posenc", "dashboard"} <= {*ENTRIES}


def test_version_is_that_of_the_installed_package_and_of_the_project_file() -> None:
    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"posenc {metadata.version('posenc')}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert result.output.split() == [project["name"], project["version"]]


def test_train_makes_every_combination_once(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--scheme", "rope", "--scheme", "alibi", "--seeds", "2", "--base", "500")
    first = run_train(*words)
    assert first.exit_code == 0, first.output
    expected = specs_of("rope", "alibi", seeds=2, bases=[500.0])
    assert Store().ids() == sorted(one.run_id for one in expected)
    for one in expected:
        (line,) = [line for line in first.stdout.splitlines() if line.startswith(one.run_id)]
        assert one.scheme.label in line
        assert line.endswith(f"seed={one.seed}  done")
    monkeypatch.delattr(Trainer, "step")  # a step more would raise
    second = run_train(*words)
    assert (second.exit_code, second.stdout) == (0, first.stdout)


class Bar:
    """A progress bar that draws nothing; `drawn` keeps all."""

    drawn: ClassVar[list["Bar"]] = []

    def __init__(self, *, total: int, desc: str, initial: int = 0, **look: Any) -> None:
        self.total, self.desc, self.first, self.n = total, desc, initial, initial
        self.closed = False
        self.said: list[str] = []
        self.drawn.append(self)

    def update(self, count: int) -> None:
        assert not self.closed
        self.n += count

    def set_postfix(self, **values: Any) -> None:
        pass

    def set_postfix_str(self, said: str, **_: Any) -> None:
        self.said.append(said)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("done", [0, 4, 6])
def test_train_shows_steps_from_where_a_run_goes_on_and_then_its_evaluation(
    done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "tqdm", Bar)
    Bar.drawn.clear()
    (specification,) = specs_of("rope")

    def stop(step: int, loss: float) -> None:
        if step == done:
            raise KeyboardInterrupt

    if done:
        corpus = from_text("text.txt", Path("text.txt").read_bytes())
        with pytest.raises(KeyboardInterrupt):
            run_once(specification, corpus, Store(), report=stop)
    assert run_train("--scheme", "rope").exit_code == 0
    *steps, evaluation = Bar.drawn
    assert [(bar.first, bar.n, bar.total) for bar in steps] == ([(done, 6, 6)] if done < 6 else [])
    assert evaluation.desc.endswith(", evaluating")
    tokens = evaluated_tokens(specification)
    assert (evaluation.first, evaluation.n, evaluation.total) == (0, tokens, tokens)
    count = len(evaluation_lengths(specification))
    # The first is done when the bar appears: one part of this small text.
    expected = [f"length {number} of {count}" for number in range(2, count + 1)]
    assert [*dict.fromkeys(evaluation.said)] == expected
    assert all(bar.closed for bar in Bar.drawn)


def test_failed_run_is_named_and_the_others_are_made() -> None:
    torn = checkpoint_of(specs_of("rope")[0].run_id)
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"torn")
    result = run_train("--scheme", "rope", "--scheme", "alibi")
    assert result.exit_code == 1
    failed, done = result.stdout.splitlines()
    assert "The checkpoint cannot be read" in failed
    assert done.endswith("  done")
    assert Store().ids() == [specs_of("alibi")[0].run_id]
    torn.unlink()
    assert (
        run_train("--scheme", "rope", "--scheme", "alibi").exit_code == 0
    )  # the same command again
    help_text = " ".join(run("train", "--help").stdout.split())
    assert "The exit status is 2 if an option cannot be used" in help_text
    assert "and 1 if a run fails" in help_text


@pytest.mark.parametrize("task", sorted({*TASKS} - {"language"}))
def test_other_tasks_need_no_text(task: str) -> None:
    result = run("train", *FAST, "--scheme", "none", "--task", task)
    assert result.exit_code == 0, result.output
    (found,) = Store()
    assert {score.measure for score in found.scores} >= {task, f"{task} position"}
    listed = run("runs").output
    expected = ["right within the training range", "of 1 solved it", "at least half right"]
    if not questions_of(task).longer:
        expected = ["right at 98", "by position alone"]
    assert all(text in listed for text in expected)


def test_steps_may_be_repeated_and_a_task_brings_its_sizes() -> None:
    steps = [word for number in ("1", "2", "2") for word in ("--steps", number)]
    result = run("train", *SMALL, *steps, "--task", "flip_flop", "--scheme", "none")
    assert result.exit_code == 0, result.output
    asked = sorted((found.specification for found in Store()), key=lambda one: one.steps)
    assert [one.steps for one in asked] == [1, 2]
    assert {(one.model.layers, one.model.width) for one in asked} == {
        (1, 16)
    }  # 3 layers is the default
    assert len({comparison(one) for one in asked}) == 2


@pytest.mark.parametrize("name", TEXTS)
def test_texts_of_the_library_are_asked_for_by_name(name: str, folder: Path) -> None:
    result = run("train", "--text", name, *FAST, "--scheme", "none")
    assert result.exit_code == 0, result.output
    (found,) = Store()
    corpus = TEXTS[name]()
    asked = found.specification
    assert (asked.corpus, asked.corpus_name) == (corpus.sha256, corpus.name)


def test_models_are_fine_tuned_with_a_scheme_after_another() -> None:
    schemes = ("--scheme", "rope_yarn", "--scheme", "none", "--before", "rope")
    result = run_train(*schemes, "--tuning-length", "32", "--tuning-steps", "2")
    assert result.exit_code == 0, result.output
    found = {stored.specification.scheme.kind: stored for stored in Store()}
    yarn, none = found["rope_yarn"].specification, found["none"].specification
    assert yarn.scheme.record()["factor"] == 2  # from 16 tokens to 32
    for specification in (yarn, none):
        assert specification.fine_tuning == FineTuning(
            before=RopeConfig(dim=8), length=32, steps=2, learning_rate=1e-3
        )
    assert {len(stored.losses) for stored in found.values()} == {8}
    assert run("runs").output.count("after=RoPE") == 2
    alone = run_train("--scheme", "none", "--tuning-steps", "2")
    assert_refused(alone, "--tuning-length, --tuning-steps and --tuning-rate need --before.")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--scheme", "abacus", "abacus"),
        ("--before", "abacus", "abacus"),
        ("--steps", "0", "Specification.steps must be a whole number"),
        ("--learning-rate", "nan", "learning_rate"),
        ("--base", "inf", "base"),
        ("--width", "17", "width"),
        ("--seeds", "0", "seeds"),
        ("--text", "nowhere.txt", "nowhere.txt"),
        ("--text", "binary", "no UTF-8 text"),
        ("--store", "binary", "a file is in its place"),
        ("--store", "memory://runs", "would be gone with the command"),
        ("--store", "", "its name is empty"),
        ("--store", "nonsense://x", "cannot be opened"),
    ],
)
def test_bad_option_prevents_training(option: str, value: str, message: str, folder: Path) -> None:
    Path("binary").write_bytes(bytes(range(256)) * 200)
    assert_refused(run_train("--scheme", "rope", option, value), message)
    assert [*folder.rglob("*.safetensors"), *folder.rglob("*.parquet")] == []


def test_store_shipped_is_the_runs_that_ship_from_any_folder() -> None:
    shipped = {path.stem for path in (ROOT / "posenc" / "lab" / "results").glob("*.parquet")}
    lines = run("runs", "--store", "shipped").stdout.splitlines()
    assert {line[:20] for line in lines} >= shipped
    assert run("export", "runs.csv", "--store", "shipped").exit_code == 0
    with Path("runs.csv").open(newline="") as file:
        assert {row["run"] for row in csv.DictReader(file)} == shipped


def test_no_command_writes_to_the_runs_that_ship() -> None:
    message = "names the runs that ship, which no command changes"
    assert_refused(run_train("--scheme", "none", "--store", "shipped"), message)
    assert_refused(run("protocol", "--run", "code", "--store", "shipped"), message)
    assert not Path("shipped").exists()


def test_the_methods_paragraph_can_describe_the_runs_that_ship() -> None:
    result = run("protocol", "--methods", "code", "--store", "shipped")
    assert result.exit_code == 0, result.output
    assert "64 tokens" in result.output


def test_cluster_needs_a_named_store_and_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(train, "ANSWERS_WITHIN", 1)
    words = ("--scheme", "none", "--dask", "tcp://127.0.0.1:1")
    assert_refused(run_train(*words), "cannot be reached")
    monkeypatch.delenv("POSENC_RUNS")
    assert_refused(run_train(*words), "every machine reaches")


def sweep_elsewhere(jobs: Sequence[SweepTask], executor: Executor) -> Iterator[Outcome]:
    """Do jobs as a machine that has another folder in the place of the store."""
    other = str(Path("elsewhere").resolve())
    return sweep([replace(job, store=other) for job in jobs], executor)


class ThreadClient(contextlib.ExitStack):
    """Stands in for the client of a cluster, whose only worker is a thread."""

    def __init__(self, address: str, timeout: float) -> None:
        super().__init__()
        assert (address, timeout) == ("tcp://there:8786", train.ANSWERS_WITHIN)

    def get_executor(self, retries: int) -> Executor:
        return self.enter_context(ThreadPoolExecutor(retries - 1))


def test_run_that_its_worker_stored_elsewhere_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=ThreadClient))
    words = ("--scheme", "none", "--dask", "tcp://there:8786")
    result = run_train(*words)
    assert result.exit_code == 0, result.output
    assert Store().ids() == [specs_of("none")[0].run_id]
    monkeypatch.setattr(train, "sweep", sweep_elsewhere)
    result = run_train(*words, "--seeds", "2")
    assert result.exit_code == 1
    ends = [line.partition("  ")[2] for line in result.stdout.splitlines()]
    assert [("place of its own" in end, end.endswith("done")) for end in ends] == [
        (False, True), (True, False),
    ]  # fmt: skip


@pytest.mark.long
def test_cluster_runs_reach_the_named_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the cluster has another folder and environment."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as started:
        words = ("--scheme", "none", "--seeds", "2", "--dask", started.scheduler_address)
        for store in ("runs", "others"):
            result = run_train(*words, "--store", store)
            assert result.exit_code == 0, result.output
            expected = specs_of("none", seeds=2)
            assert Store(folder / store).ids() == sorted(one.run_id for one in expected)
        monkeypatch.setattr(train, "sweep", sweep_elsewhere)
        result = run_train(*words, "--scheme", "alibi")
    assert result.exit_code == 1
    assert "kept the run in a place of its own" in result.output


def test_runs_lists_every_run_and_its_comparison() -> None:
    empty = run("runs", "--store", "nowhere").output
    assert "There are no runs in " in empty
    assert "--store shipped reads those that ship" in empty
    run_train("--scheme", "learned", "--seeds", "2")
    run_train("--scheme", "rope", "--base", "500", "--base", "10000")
    made, torn = Store().ids(), f"{'0' * 20}.parquet"
    Path("runs", torn).write_bytes(b"torn")
    result = run("runs")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    name = comparison(specs_of("rope")[0])
    for run_id in made:
        (line,) = [line for line in lines if line.startswith(run_id)]
        assert name in line
    curves = [line.split(": ")[0] for line in lines if "perplexity" in line]
    assert curves[:2] == [f"{name}  Learned", f"{name}  Learned, last row repeated"]
    plain = [curve for curve in curves if "RoPE, base" in curve]
    assert {curve.split(", ")[-1] for curve in plain} == {"base 500", "base 10,000"}
    own = {line.split(": ")[0]: line.split(": ")[1] for line in lines if "perplexity" in line}
    for curve, text in own.items():
        evaluated = any(f"  {label}" in curve for label in ("Learned", "RoPE, base"))
        evaluated &= "last row repeated" not in curve
        assert text.startswith("perplexity \u2013 at ") != evaluated, curve
    assert sum("(2 seeds)" in line for line in lines) == 2
    assert [line for line in lines if torn in line] == [f"{torn} cannot be read."]


@pytest.mark.long
def test_fine_tuned_models_have_a_table_of_their_own() -> None:
    asked = ("--table", "markdown", "--store", "shipped", "--comparison", CODE)
    alone, tuned = run("runs", *asked).stdout, run("runs", *asked, "--fine-tuned").stdout
    assert "fine-tuned" not in alone
    names = [line.split(" | ")[0] for line in tuned.splitlines() if line.startswith("| ")][1:]
    assert "| RoPE YaRN, fine-tuned at 256 tokens" in names
    assert [name for name in names if "fine-tuned" not in name] == ["| RoPE"]


def test_runs_prints_a_table_of_one_comparison() -> None:
    asked = ("--table", "markdown", "--store", "shipped")
    result = run("runs", *asked)
    assert result.exit_code == 2
    names = re.findall(r"language-\d+-[0-9a-f]{8}", result.output)
    assert CODE in names
    named = run("runs", *asked, "--comparison", CODE)
    assert named.exit_code == 0, named.output
    table = result_table(shipped_curves(CODE), rates=recorded_rates(shipped_record(), "code"))
    assert named.stdout == table.to_markdown()
    assert "| RoPE, NTK-aware |" in named.stdout
    record = pd.read_csv(RESULTS / "protocol.csv").query("part == 'code' and stage == 'sweep'")
    rates = record[["scheme", "learning_rate", "scheme_rate"]].drop_duplicates()
    tried = {SCHEMES[str(kind)].label: len(own) for kind, own in rates.groupby("scheme")}
    printed = run("runs", "--table", "csv", "--store", "shipped", "--comparison", CODE).stdout
    own = pd.read_csv(io.StringIO(printed)).set_index("scheme")["rates tried"]
    assert own[[*tried]].to_dict() == tried
    for form in ("csv", "latex"):
        printed = run("runs", "--table", form, "--store", "shipped", "--comparison", CODE).stdout
        assert printed == (table.to_csv() if form == "csv" else table.to_latex())
    assert run("runs", *asked, "--comparison", CODE, "--reference", "rope_yarn").exit_code == 2


def test_export_writes_every_number(folder: Path) -> None:
    name = os.fsdecode(b"bad\xff\n.txt")  # a text may have any name
    Path(name).write_bytes(sentences())
    run("train", "--text", name, *FAST, "--scheme", "rope")
    assert run("export", "out.csv").exit_code == 0
    (found,) = Store()
    assert found.specification.corpus_name == "bad\\udcff\\n.txt"
    before = (folder / "out.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(before)))
    assert {row["run"] for row in rows} == {found.run_id}
    scores = [
        (row["measure"], row["variant"], int(row["x"]), float(row["value"]), int(row["count"]))
        for row in rows
        if row["measure"] != "training"
    ]
    assert scores == [(s.measure, s.variant, s.x, s.value, s.count) for s in found.scores]
    losses = [float(row["value"]) for row in rows if row["measure"] == "training"]
    assert tuple(losses) == found.losses
    assert_refused(run("export", "out.csv", "--store", "data:,abc"), "Error")
    assert (folder / "out.csv").read_text() == before
    assert_refused(run("export", "no such folder/out.csv"), "cannot be written")
    assert run("export", "/dev/null").exit_code == 0  # is written to, not replaced
    assert Path("/dev/null").is_char_device()


def group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.long
def test_interrupted_parallel_train_ends_its_processes_and_keeps_checkpoints() -> None:
    steps = 20_000
    process = subprocess.Popen(
        [sys.executable, "-m", "posenc", "train", "--text", "text.txt", *SMALL, "--layers", "1",
         "--scheme", "rope", "--steps", str(steps), "--seeds", "4", "--workers", "2"],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, start_new_session=True,
        stderr=subprocess.DEVNULL,
        # As at a terminal, though these tests may run in the background, where it is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        wait(lambda: len(list(Path("work").rglob("*.safetensors"))) >= 2)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        wait(lambda: not group_exists(process.pid))
    finally:
        if group_exists(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert Store().ids() == []
    corpus, saved = from_text("text.txt", sentences()), []
    for one in specs_of("rope", seeds=4, steps=steps):
        if checkpoint_of(one.run_id).exists():
            trainer = Trainer(one, corpus)
            trainer.load(checkpoint_of(one.run_id))
            saved.append(len(trainer.losses))
    assert len(saved) == 2
    assert min(saved) >= 100  # the first checkpoint
