"""Runs of a scheme that a user's file registers: trained, stored, read back, by every process."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from posenc import SCHEMES, plugins
from posenc.__main__ import main
from posenc.lab import Store
from tests.library.plugin_template import template

pytestmark = [
    pytest.mark.timeout(1_200),
    pytest.mark.usefixtures("no_shape_checks", "own_registry"),
]

FAST = [
    "--scheme", "distance_table", "--task", "copy", "--width", "16", "--layers", "1", "--heads", "2",
    "--train-length", "16", "--steps", "5", "--batch", "4", "--longest", "2", "--segments", "8",
]  # fmt: skip


@pytest.fixture
def plugin(folder: Path) -> Path:
    (file := folder / "distance_table.py").write_text(template())
    return file


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def forget() -> None:
    """Leave the registry as it is in a new process."""
    del SCHEMES["distance_table"]
    plugins._loaded.clear()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_scheme_of_a_file_is_trained_and_read_back_where_the_file_is_loaded(
    workers: str, plugin: Path, tmp_path: Path
) -> None:
    trained = run("train", "--plugin", str(plugin), *FAST, "--workers", workers)
    assert trained.exit_code == 0, trained.output
    (run_id,) = Store().ids()
    assert f"{run_id}  copy Distance table L=16 width=16 seed=0  done" in trained.stdout
    table = Store().tables(run_id)["scheme.table"]
    start = SCHEMES["distance_table"]().build(seed=0).get_parameter("table").detach()
    assert table.shape == start.shape == (16,)
    assert not table.equal(start)
    config: Any = SCHEMES["distance_table"]
    source = config(source=f"run-{run_id}").build()
    assert source.get_parameter("table").detach().equal(table)
    forget()
    unread = run("runs")
    assert (unread.exit_code, unread.stdout) == (0, "")
    expected = f"Run {run_id} is of a scheme that is not registered here: 'distance_table'."
    assert unread.stderr.splitlines() == [expected]
    listed = run("runs", "--plugin", str(plugin))
    assert listed.stderr == ""
    assert listed.stdout.startswith(f"{run_id}  copy-16-")
    assert "Distance table" in listed.stdout
    forget()
    exported = str(tmp_path / "runs.csv")
    assert "Written to" in run("export", exported, "--plugin", str(plugin)).output


def test_unknown_scheme_and_a_bad_plugin_are_refused_before_training(folder: Path) -> None:
    for words, message in (
        ((), "a scheme's kind must be one of learned, sinusoidal, "),
        (("--plugin", "nowhere.py"), "The plugin nowhere.py cannot be read: No such file"),
    ):
        result = run("train", *words, *FAST)
        assert result.exit_code == 2
        assert result.output.startswith(f"Error: {message}"), result.output
        assert len(result.output.splitlines()) == 1
    assert [*folder.rglob("*.parquet")] == []
