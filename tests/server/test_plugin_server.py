"""Schemes of a user's file on a server: `posenc app --plugin FILE`, and `streamlit run` with the same."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from dashboard import __main__ as launcher
from dashboard.server import jobs, training_process
from posenc import SCHEMES, load_plugin
from posenc.__main__ import main
from tests.lab.small_runs import small_spec
from tests.lab.worker_processes import ROOT
from tests.library.plugin_template import template
from tests.longer import mostly
from tests.server.served_process import server, visiting

pytestmark = pytest.mark.usefixtures("no_shape_checks", "own_registry")


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (file := tmp_path / "distance_table.py").write_text(template())
    return file


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the words with which Streamlit is called, in place of a server."""
    words: list[list[str]] = []
    monkeypatch.setattr(launcher.cli, "main", lambda given, **more: words.append(given))
    for name in ("begin_log", "make_output_safe"):
        monkeypatch.setattr(launcher.output, name, lambda **options: None)
    monkeypatch.setattr(os, "chdir", lambda place: None)
    return words


def test_app_loads_a_plugin_and_passes_on_what_is_streamlits(
    plugin: Path, asked: list[list[str]]
) -> None:
    words = ["app", "--plugin", str(plugin), "--server.port=8639", "--", "--mine", "--", "x"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "distance_table" in SCHEMES
    assert asked[0][-5:] == ["--server.port=8639", "--", "--mine", "--", "x"]


def test_app_with_a_bad_plugin_serves_nothing(asked: list[list[str]]) -> None:
    result = CliRunner().invoke(main, ["app", "--plugin", "nowhere.py"])
    assert (result.exit_code, asked) == (2, [])
    expected = "posenc: The plugin nowhere.py cannot be read: No such file or directory.\n"
    assert result.stderr == expected


@pytest.mark.parametrize(
    ("words", "variable", "printed"),
    [
        ([], "", []),
        (["--server.address=10.0.0.5"], "", ["--browser.serverAddress=10.0.0.5"]),
        (
            ["--server.address", "host.example.org"],
            "",
            ["--browser.serverAddress=host.example.org"],
        ),
        (["--server.address=0.0.0.0"], "10.0.0.7", []),
        ([], "10.0.0.7", ["--browser.serverAddress=10.0.0.7"]),
    ],
)
def test_printed_address_is_the_one_that_is_given(
    words: list[str], variable: str, printed: list[str], asked: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv(launcher.ADDRESS, variable)
    assert launcher.main(words) == 0
    assert [word for word in asked[0] if word.startswith("--browser")] == printed


@pytest.mark.long
def test_file_that_streamlit_runs_loads_a_plugin(plugin: Path) -> None:
    for file, code, said in ((plugin, 0, "Distance table\n"), ("nowhere.py", 1, "")):
        program = f"""
import sys
sys.argv = ["app.py", "--other", "--plugin", {str(file)!r}]
import dashboard.app, posenc
from dashboard.settings import Setting
print(Setting(schemes=("rope", "distance_table")).config("distance_table").label)
"""
        result = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (result.returncode, result.stdout) == (code, said), result.stderr
        if code:
            assert result.stderr.splitlines()[-1] == (
                "posenc: The plugin nowhere.py cannot be read: No such file or directory."
            )


def test_training_processes_of_a_server_load_its_plugins(
    plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_plugin(plugin)
    jobs.add(tmp_path, [small_spec("distance_table", task="copy")], waiting=8)
    commands: list[list[str]] = []

    def popen(command: list[str], **options: Any) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(pid=os.getpid(), wait=lambda: 0, stdin=None)

    monkeypatch.setattr("dashboard.server.training_process.subprocess.Popen", popen)
    monkeypatch.setattr(
        "dashboard.server.training_process._lower_priority", lambda pid, only_idle: None
    )
    monkeypatch.setattr(training_process.TrainingProcess, "_await", lambda *_: None)
    training_process.TrainingProcess(tmp_path).start_if_needed()
    (command,) = commands
    assert command[1:] == [
        "-m", "dashboard.server.training_worker", str(tmp_path), str(plugin),
    ]  # fmt: skip


STARTS = [
    (("dashboard", "--plugin", "FILE"), ()),
    (("streamlit", "run", "dashboard/app.py"), ("--", "--plugin", "FILE")),
]


@pytest.mark.parametrize(("module", "behind"), mostly(STARTS, STARTS[0]))
def test_served_page_draws_the_scheme_of_a_plugin(
    module: tuple[str, ...], behind: tuple[str, ...], plugin: Path, tmp_path: Path
) -> None:
    first, last = (
        [str(plugin) if word == "FILE" else word for word in words] for words in (module, behind)
    )
    with (
        server(tmp_path, module=first, behind=last) as served,
        visiting(served, "similarity", "schemes=alibi&schemes=distance_table") as messages,
    ):
        texts = b"".join(message.SerializeToString() for message in messages)
        assert b"Distance table" in texts
        assert b"is not in the list" not in texts
