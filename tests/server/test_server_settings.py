"""The settings of a hosted server: one object, its profiles, its launcher, and pages that honour it."""

import json
import logging
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
from click.testing import CliRunner
from hypothesis import given, strategies
from safetensors.numpy import save
from streamlit.testing.v1 import AppTest

from dashboard import __main__ as launcher
from dashboard.limits import MAX_UPLOAD_BYTES, MAX_WAITING
from dashboard.server import jobs, settings, upload_limit
from dashboard.server.settings import NAMES, OF_SHARED, ServerSettingError, ServerSettings, read
from dashboard.settings import Setting
from dashboard.settings.setting import MAX_SHOWN_LENGTH
from dashboard.state import to_token
from posenc import fields
from posenc.__main__ import main as command_line
from posenc.checkpoints import hub_is_enabled
from posenc.checkpoints.file_store import store_url, work_folder
from tests.dashboard.pages import as_read, drawn, notices, setting, state, visit
from tests.lab.small_runs import make_small_run, sentences, small_spec
from tests.server.served_process import ROOT

pytestmark = pytest.mark.usefixtures("no_shape_checks", "isolated_server")

SMALL = {"dim": "16", "length": "8", "train_length": "8", "heads": "2"}


def test_defaults_are_private_and_the_shared_profile_allows_no_more() -> None:
    private, shared = read({}), read({"POSENC_PROFILE": "shared"})
    assert private == ServerSettings()
    assert (private.profile, private.uploads, private.training) == ("private", True, True)
    assert (private.hub, private.upload_bytes) == (False, MAX_UPLOAD_BYTES)
    assert (private.positions, private.waiting) == (MAX_SHOWN_LENGTH, MAX_WAITING)
    assert (shared.uploads, shared.training, shared.hub) == (False, False, False)
    for name in NAMES.values():
        ours, theirs = getattr(shared, name), getattr(private, name)
        if isinstance(ours, bool | int):
            assert ours <= theirs, name


BAD = json.loads(Path(__file__).with_name("bad_settings.json").read_text())


@pytest.mark.parametrize("variable", NAMES)
def test_bad_value_is_refused_by_variable_name(variable: str) -> None:
    for text in [*BAD[variable], *(["9" * 5_000] if variable == "POSENC_RUNNING" else [])]:
        with pytest.raises(ServerSettingError, match=rf"^{variable} must be .{{1,200}}\.$"):
            read({variable: text})


@pytest.mark.parametrize("variable", settings.REMOVED)
def test_variable_of_an_earlier_version_is_refused_by_name(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(ServerSettingError, match=rf"^{variable} must not be set any more: .+\.$"):
        settings.current()


@given(strategies.sampled_from(sorted(NAMES)), strategies.text(max_size=40))
def test_any_text_is_within_limits_or_refused(variable: str, text: str) -> None:
    try:
        found = read({variable: text})
    except ServerSettingError:
        return
    name = NAMES[variable]
    assert fields.rules(found)[name].accepts(getattr(found, name))


@pytest.mark.parametrize("variable", ["POSENC_RUNS", "POSENC_WORK"])
def test_refused_address_is_not_logged_because_it_may_hold_a_password(
    variable: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "s3://ann:sesame@runs.example/x\n")
    with caplog.at_level(logging.ERROR):
        at = visit("similarity", SMALL)
    assert at.error
    logged = [record.getMessage() + caplog.text for record in caplog.records]
    assert any(variable in text for text in logged)
    assert not any("sesame" in text for text in [*logged, *(box.value for box in at.error)])


def test_readme_has_the_table_of_settings() -> None:
    readme = (ROOT / ".deploy/README.md").read_text()
    defaults = fields.defaults(ServerSettings)
    of_shared = defaults | OF_SHARED | {"profile": "shared"}
    for variable, name in NAMES.items():
        (row,) = re.findall(rf"^\| `{variable}` \| (.+) \| (.+) \| .+\. \|$", readme, re.MULTILINE)
        for value, text in zip((defaults[name], of_shared[name]), row, strict=True):
            words = value if isinstance(value, str) else f"{int(value):,}"
            assert text == words or not words, (
                variable
            )  # an empty word stands for what the row says
        rule = fields.rules(ServerSettings)[name]
        assert all(map(rule.accepts, (defaults[name], of_shared[name])))


def test_library_and_server_share_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, on in (("1", True), ("0", False)):
        monkeypatch.setenv("POSENC_HUB", text)
        assert settings.current().hub is hub_is_enabled() is on
    assert settings.current().store == store_url() == str(tmp_path / "runs")
    assert settings.current().work == str(work_folder()) == str(tmp_path / "work")
    assert jobs.folder().parent == work_folder()


def test_secrets_take_precedence_over_the_environment(tmp_path: Path) -> None:
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "secrets.toml").write_text(
        'POSENC_HUB = true\nPOSENC_UPLOADS = false\nPOSENC_WAITING = 3\nPOSENC_PATH = "demo"\n'
    )
    code = (
        "from dashboard.server.settings import current; from posenc.checkpoints import hub_is_enabled;"
        "one = current(); print(one.hub, hub_is_enabled(), one.uploads, one.waiting, one.base_path)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "POSENC_WAITING": "7"},
    )  # fmt: skip
    assert ran.stdout.split() == ["True", "True", "False", "3", "demo"], ran.stderr


def test_unreadable_secrets_stop_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "secrets.toml"
    monkeypatch.setattr(os, "chdir", lambda place: None)
    monkeypatch.setattr(settings.st, "get_option", lambda name: [str(place)])
    for content, reason in (
        (b"POSENC_UPLOADS = maybe\n", "Invalid value (at line 1"),
        (b'POSENC_HOSTS = "\xff"\n', "'utf-8' codec can't decode"),
    ):
        place.write_bytes(content)
        settings.secrets_to_environment.cache_clear()
        assert launcher.main(["--check"]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"posenc: secrets.toml cannot be read: {reason}")
        assert str(tmp_path) not in error


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], "a\0b"], ids=["table", "list", "null"])
def test_secret_that_is_no_text_and_no_number_stops_the_server(
    value: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Secrets(dict[str, Any]):
        def load_if_toml_exists(self) -> bool:
            return True

    monkeypatch.setattr(os, "chdir", lambda place: None)
    monkeypatch.setattr(settings.st, "secrets", Secrets(POSENC_RUNS=value))
    monkeypatch.delenv("POSENC_RUNS", raising=False)
    settings.secrets_to_environment.cache_clear()
    assert launcher.main(["--check"]) == 2
    assert capsys.readouterr().err == (
        "posenc: POSENC_RUNS of secrets.toml must be a number, true, false or a text without a null "
        "character.\n"
    )
    assert "POSENC_RUNS" not in os.environ


def test_unusable_folder_stops_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "chdir", lambda place: None)
    (tmp_path / "file").write_text("")
    store, work = "cannot be used: The store of runs cannot be opened", "must be a folder that"
    for variable, place, fact in (
        ("POSENC_RUNS", "nosuch://x", store),
        ("POSENC_RUNS", f"{tmp_path}/file/runs", f"{store}: a "),
        ("POSENC_WORK", f"{tmp_path}/file", work),
        ("POSENC_WORK", "s3://bucket/x", work),
    ):
        with monkeypatch.context() as changed:
            changed.setenv(variable, place)
            assert launcher.main(["--check"]) == 2
        assert f"{variable} {fact}" in capsys.readouterr().err


def test_check_prints_settings_that_can_be_set_and_names_unknown_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "chdir", lambda place: None)
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    monkeypatch.setenv("POSENC_RUNS", "memory://ann:secret@runs/x")
    monkeypatch.setenv("POSENC_UPLOADZ", "1")
    assert launcher.main(["--server.port=1", "--check"]) == 0
    printed = capsys.readouterr()
    said = dict(line.split("=", 1) for line in printed.out.splitlines())
    assert [*said] == [*NAMES]
    assert said["POSENC_UPLOADS"] == "1"
    assert said["POSENC_WORK"] == str(tmp_path / "work")
    assert said["POSENC_RUNS"] == "memory://...@runs/x"
    assert read(said | {"POSENC_RUNS": ""}) == replace(
        settings.current(), store="", work=said["POSENC_WORK"]
    )
    assert "POSENC_UPLOADZ is no variable of a server; it changes nothing." in printed.err
    command = CliRunner().invoke(command_line, ["app", "--server.port=1", "--check"])
    assert (command.exit_code, command.stdout) == (0, printed.out)
    assert not (tmp_path / "work").exists()


OPENED = {"learned_source_menu": True}


@pytest.mark.parametrize("page", ["similarity", "train", "check_my_encoding"])
def test_uploads_switched_off_are_a_sentence(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    link = SMALL | {"schemes": "learned,rope"}
    had = len(visit(page, link, **OPENED).file_uploader)
    monkeypatch.setenv("POSENC_UPLOADS", "0")
    at = visit(page, link, **OPENED)
    assert not at.file_uploader
    assert [caption.value for caption in at.caption].count(upload_limit.SWITCHED_OFF) == had > 0


def test_upload_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.zeros((40, 8_192), np.float32)
    rows[:] = np.random.default_rng(3).normal(size=rows.shape)
    content = save({"wpe.weight": rows})
    assert 2**20 < len(content) < 2**21

    def sent() -> AppTest:
        at = visit("similarity", SMALL | {"schemes": "learned"}, **OPENED)
        (box,) = [one for one in at.file_uploader if one.label.startswith("Upload a checkpoint")]
        return box.set_value(("table.safetensors", content, "")).run()

    assert not sent().error
    monkeypatch.setenv("POSENC_UPLOAD_MB", "1")
    at = sent()
    assert [box.value for box in at.error] == ["A file may have at most 1 MB; this file is larger."]
    assert not [one for one in at.button if one.key == "use_upload"]


def test_text_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_TEXT_MB", "1")
    at = visit("train", {"run_length": "16", "steps": "5", "width": "16", "layers": "1"})
    (box,) = [one for one in at.file_uploader if one.key == "text_upload"]
    at = box.set_value(("text.txt", sentences(count=60_000), "")).run()
    assert [as_read(one.value) for one in at.error] == [
        "A file may have at most 1 MB; this file is larger."
    ]


def test_limit_of_positions_holds_in_links_controls_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_POSITIONS", "32")
    link = {"length": "200", "a": to_token(Setting(length=500))}
    at = drawn(visit("similarity", SMALL | link))
    assert setting(at).length == 32
    assert state(at).pinned == Setting(length=32)
    assert "This server shows at most 32 positions: 32 are used, not 200." in notices(at)


def test_server_without_training_shows_results_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small_run(tmp_path)
    waiting = jobs.add(jobs.folder(), [small_spec("alibi")], waiting=8)
    at = drawn(visit("train", {"schemes": "rope"}))
    assert at.button(key="start_training")
    monkeypatch.setenv("POSENC_RUNNING", "0")
    st.cache_resource.clear()
    # Forged: the state of a button that was pressed, a link that names it, a page that was open.
    forged = {"start_training_asked": True, f"stop_{waiting}_asked": True}
    for link in ({}, {"start_training": "true", "start_training_asked": "true"}):
        found = drawn(visit("train", link | {"schemes": "rope"}, **forged))
        assert "Training is switched off on this server." in [box.value for box in found.info]
        assert "Finished on this server" in [box.value for box in found.header]
        assert not [one for one in found.button if (one.key or "").startswith(("start", "stop"))]
    at.button(key="start_training").click().run()
    assert [job.name for job in jobs.jobs(jobs.folder())] == [waiting]
    assert not at.exception


def test_settings_become_options_of_streamlit_and_a_bad_value_stops_the_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []
    told: list[bool] = []  # whether the log may quote visitors
    monkeypatch.setattr(launcher.cli, "main", lambda words, **more: asked.append(words))
    monkeypatch.setattr(launcher.output, "make_output_safe", lambda: None)
    monkeypatch.setattr(launcher.output, "begin_log", lambda *, quotes: told.append(quotes))
    monkeypatch.setattr(os, "chdir", lambda place: None)
    monkeypatch.setenv("POSENC_PROFILE", "shared")
    monkeypatch.setenv("POSENC_HOSTS", "demo.example.org,*.example.net")
    monkeypatch.setenv("POSENC_PATH", "posenc")
    monkeypatch.setenv("POSENC_USER_HEADER", "X-Forwarded-User")
    assert launcher.main(["--server.port=8639"]) == 0
    (words,) = asked
    assert told == [False]
    assert words[:2] == ["run", str(ROOT / "dashboard" / "app.py")]
    assert words[2:] == [
        "--server.maxUploadSize=1",
        "--server.baseUrlPath=posenc",
        "--server.allowedHosts=demo.example.org",
        "--server.allowedHosts=*.example.net",
        '--server.trustedUserHeaders={"X-Forwarded-User": "posenc_user"}',
        "--server.port=8639",
    ]
    monkeypatch.setenv("POSENC_RUNNING", "many")
    assert launcher.main([]) == 2
    assert "POSENC_RUNNING must be a whole number" in capsys.readouterr().err
    assert len(asked) == 1


def test_relative_folders_are_those_of_the_folder_where_the_server_is_started(
    tmp_path: Path,
) -> None:
    folders = {"POSENC_RUNS": "runs", "POSENC_WORK": "work"}
    done = subprocess.run(
        [sys.executable, "-m", "dashboard", "--check"], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | folders | {"PYTHONPATH": str(ROOT)}, timeout=120, check=True,
    )  # fmt: skip
    for variable, name in folders.items():
        assert f"{variable}={tmp_path / name}\n" in done.stdout


def test_server_of_the_checkout_adds_no_option_to_its_own_config_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder, address in ((ROOT, None), (tmp_path, "127.0.0.1")):
        monkeypatch.chdir(folder)
        # Read anew, and again after the test.
        monkeypatch.setattr(launcher.config, "_config_options", None)
        assert launcher.defaults().get("server_address") == address
        assert bool(launcher.defaults()) is (folder != ROOT)
