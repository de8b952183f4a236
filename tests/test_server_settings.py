"""The settings of a hosted server: one object, its profiles, its table, and pages that honour it."""

import ast
import dataclasses
import logging
import os
import re
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import streamlit as st
from hypothesis import given, strategies
from safetensors.numpy import save
from streamlit.testing.v1 import AppTest
from websockets.exceptions import InvalidStatus

from dashboard import __main__ as launcher
from dashboard import server_settings, uploads, visitor, workers
from dashboard.server_settings import FIELDS, ServerSettingError, ServerSettings, read
from posenc import limits
from posenc.interop import hub_is_enabled
from posenc.lab.log_lines import JsonLines
from posenc.lab.queue import Queue
from posenc.run_files import store_url, work_folder
from tests import served_process
from tests.pages import PAGES, as_read, drawn, notices, setting, visit
from tests.small_runs import made, sentences, small

pytestmark = pytest.mark.usefixtures("no_shape_checks")

ROOT = Path(__file__).parents[1]
SMALL = {"dim": "16", "length": "8", "train_length": "8", "heads": "2"}


@pytest.fixture(autouse=True)
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of its own, whose trainings are never begun."""
    for variable in FIELDS:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    monkeypatch.setattr(workers.Workers, "ensure", lambda self: None)
    st.cache_data.clear()
    st.cache_resource.clear()


def test_without_a_word_a_server_is_private_and_allows_all_but_the_hub() -> None:
    found = read({})
    assert found == ServerSettings()
    assert (found.profile, found.uploads, found.training) == ("private", True, True)
    assert not found.hub
    assert found.upload_bytes == limits.MAX_UPLOAD_BYTES
    assert found.text_bytes == limits.MAX_TEXT_BYTES
    assert found.positions == limits.MAX_SHOWN_LENGTH
    assert found.run_seconds == limits.MAX_RUN_SECONDS
    assert (found.running, found.waiting) == (limits.MAX_RUNNING, limits.MAX_WAITING)


def test_the_shared_profile_is_strict_and_allows_nothing_that_the_private_one_refuses() -> None:
    private, shared = read({}), read({"POSENC_PROFILE": "shared"})
    assert (shared.uploads, shared.training, shared.hub) == (False, False, False)
    assert shared.logs == "lines"
    for one in FIELDS.values():
        ours, theirs = getattr(shared, one.name), getattr(private, one.name)
        if isinstance(ours, bool | int):
            assert ours <= theirs, one.name


@pytest.mark.parametrize("profile", ["private", "shared"])
def test_a_word_of_one_variable_changes_its_field_alone(profile: str) -> None:
    others = {
        "POSENC_UPLOADS": "1",
        "POSENC_RUNNING": "2",
        "POSENC_HUB": "1",
        "POSENC_LOGS": "text",
    }
    others |= {"POSENC_HOSTS": "a.example,*.b.example", "POSENC_PATH": "tools/posenc"}
    others |= {"POSENC_USER_HEADER": "X-Forwarded-User", "POSENC_POSITIONS": "64"}
    base = read({"POSENC_PROFILE": profile})
    for variable, text in others.items():
        found = read({"POSENC_PROFILE": profile, variable: text})
        name = FIELDS[variable].name
        value = getattr(found, name)
        assert str(int(value) if isinstance(value, bool) else value) == text
        assert dataclasses.replace(found, **{name: getattr(base, name)}) == base


BAD = {
    "POSENC_PROFILE": ["", "Shared", "public"],
    "POSENC_UPLOADS": ["", "true", "2", "on", "٣"],
    "POSENC_UPLOAD_MB": ["0", "51", "1.5", "-1", "1e1"],
    "POSENC_TEXT_MB": ["0", "11"],
    "POSENC_POSITIONS": ["1", "2049", "many"],
    "POSENC_RUNNING": ["", "-1", "many", "65", "1.5", "٣", "9" * 5_000, "1_0"],
    "POSENC_WAITING": ["-1", "65"],
    "POSENC_EACH": ["0", "129"],
    "POSENC_RUN_MINUTES": ["0", "241"],
    "POSENC_BUSY_TRAINING": ["yes", ""],
    "POSENC_HUB": ["true", ""],
    "POSENC_RUNS": ["a\nb", "\0"],
    "POSENC_WORK": ["a\rb"],
    "POSENC_USER_HEADER": ["X Forwarded", "X-User:", "-x", "x\n"],
    "POSENC_HOSTS": ["a b", "http://a.example", "a,,b", "*", "a.example/x", "a:8501"],
    "POSENC_PATH": ["/x", "x/", "..", "a//b", "a b", "a?b"],
    "POSENC_LOGS": ["json", ""],
}


@pytest.mark.parametrize("variable", FIELDS)
def test_a_bad_value_is_one_sentence_that_names_the_variable(variable: str) -> None:
    assert BAD[variable]
    for text in BAD[variable]:
        with pytest.raises(ServerSettingError) as refused:
            read({variable: text})
        said = str(refused.value)
        assert said.startswith(f"{variable} must be ")
        assert said.endswith(".")
        assert "\n" not in said
        assert len(said) < 220


@given(strategies.sampled_from(sorted(FIELDS)), strategies.text(max_size=40))
def test_any_text_is_a_value_within_the_caps_or_refused(variable: str, text: str) -> None:
    try:
        found = read({variable: text})
    except ServerSettingError:
        return
    one = FIELDS[variable]
    assert one.metadata["rule"].accepts(getattr(found, one.name))


@pytest.mark.parametrize("variable", ["POSENC_RUNS", "POSENC_WORK"])
def test_a_refused_place_is_not_repeated_for_it_may_hold_a_password(
    variable: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "s3://ann:sesame@runs.example/x\n")
    with caplog.at_level(logging.ERROR):
        at = visit("similarity", SMALL)
    assert at.error
    lines = JsonLines()
    logged = [record.getMessage() + lines.format(record) for record in caplog.records]
    assert any(variable in text for text in logged)
    assert not any("sesame" in text for text in [*logged, *(box.value for box in at.error)])


def test_readme_has_the_table_that_the_object_gives() -> None:
    readme = (ROOT / "README.md").read_text()
    assert server_settings.table() in readme
    for variable, one in FIELDS.items():
        rule = one.metadata["rule"]
        assert variable.startswith("POSENC_")
        assert rule.help.endswith(".")
        assert rule.accepts(one.default)
        assert rule.accepts(one.metadata["shared"])


def test_every_variable_of_the_project_is_in_the_table() -> None:
    """What else is read of the environment is not a server's, and stands here by name."""
    found = set()
    for path in [*(ROOT / "posenc").rglob("*.py"), *(ROOT / "dashboard").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                found |= {text} if re.fullmatch("POSENC_[A-Z_]+", text) else set()
    assert found == set(FIELDS)


def test_library_and_server_read_the_same_of_one_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, on in (("1", True), ("0", False)):
        monkeypatch.setenv("POSENC_HUB", text)
        assert server_settings.current().hub is hub_is_enabled() is on
    assert server_settings.current().store == store_url() == str(tmp_path / "runs")
    assert server_settings.current().work == str(work_folder()) == str(tmp_path / "work")
    monkeypatch.setenv("POSENC_RUNNING", "2")
    monkeypatch.setenv("POSENC_WAITING", "3")
    crew = workers.server_workers()
    assert (crew.queue.running, crew.queue.waiting) == (2, 3)


def test_secrets_say_the_same_as_the_environment_and_count_more(tmp_path: Path) -> None:
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "secrets.toml").write_text(
        'POSENC_HUB = true\nPOSENC_UPLOADS = false\nPOSENC_WAITING = 3\nPOSENC_PATH = "demo"\n'
    )
    code = (
        "from dashboard.server_settings import current; from posenc.interop import hub_is_enabled;"
        "one = current(); print(one.hub, hub_is_enabled(), one.uploads, one.waiting, one.base_path)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "POSENC_WAITING": "7"},
    )  # fmt: skip
    assert ran.stdout.split() == ["True", "True", "False", "3", "demo"], ran.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'POSENC_PROFILE = "shared"\nPOSENC_UPLOADS = maybe\n', "Invalid value (at line 2"),
        (b'POSENC_PROFILE = "shared"\nPOSENC_HOSTS = "\xff"\n', "'utf-8' codec can't decode"),
    ],
    ids=["no value", "no UTF-8"],
)
def test_secrets_that_cannot_be_read_end_the_server_and_never_open_it(
    tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "secrets.toml").write_bytes(content)
    for code in ("from dashboard.server_settings import current; print(current())",
                 "import dashboard.__main__ as a, sys, pathlib; a.FOLDER = pathlib.Path('x/y/z');"
                 "sys.exit(a.main(['--check']))"):  # fmt: skip
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert ran.returncode != 0
        assert ran.stdout == ""
        assert f"secrets.toml cannot be read: {said}" in ran.stderr
        assert str(tmp_path) not in ran.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("variable", "place", "said"),
    [
        (
            "POSENC_RUNS",
            "nosuch://x",
            "POSENC_RUNS cannot be used: The store of runs cannot be opened",
        ),
        (
            "POSENC_RUNS",
            "{file}/runs",
            "POSENC_RUNS cannot be used: The store of runs cannot be opened: a file",
        ),
        ("POSENC_WORK", "{file}", "POSENC_WORK must be a folder that this server can write."),
        (
            "POSENC_WORK",
            "s3://bucket/x",
            "POSENC_WORK must be a folder that this server can write.",
        ),
    ],
)
def test_places_that_cannot_be_used_end_the_server_before_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    variable: str, place: str, said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "chdir", lambda place: None)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(variable, place.format(file=tmp_path / "file"))
    assert launcher.main(["--check"]) == 2
    assert said in capsys.readouterr().err


def test_what_a_check_prints_can_be_set_and_names_what_is_no_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "chdir", lambda place: None)
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    monkeypatch.setenv("POSENC_RUNS", "memory://ann:secret@runs/x")
    monkeypatch.setenv("POSENC_UPLOADZ", "1")
    assert launcher.main(["--server.port=1", "--check"]) == 0
    printed = capsys.readouterr()
    said = dict(line.split("=", 1) for line in printed.out.splitlines())
    assert said["POSENC_UPLOADS"] == "1"
    assert said["POSENC_WORK"] == str(tmp_path / "work")
    assert said["POSENC_RUNS"] == "memory://...@runs/x"
    assert read(said | {"POSENC_RUNS": ""}) == replace(
        server_settings.current(), store="", work=said["POSENC_WORK"]
    )
    assert "POSENC_UPLOADZ is no variable of a server; it changes nothing." in printed.err
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("name", ["Cookie", "host", "AUTHORIZATION"])
def test_a_header_that_every_client_sends_tells_nobody_who_they_are(name: str) -> None:
    with pytest.raises(ServerSettingError, match="POSENC_USER_HEADER must be"):
        read({"POSENC_USER_HEADER": name})
    assert read({"POSENC_USER_HEADER": f"X-{name}"}).user_header == f"X-{name}"


# The launcher -------------------------------------------------------------------------------------


def test_a_server_with_a_bad_value_ends_before_it_serves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launcher.cli, "main", lambda *a, **k: pytest.fail("it serves"))
    monkeypatch.setattr(os, "chdir", lambda place: None)
    monkeypatch.setenv("POSENC_RUNNING", "many")
    assert launcher.main([]) == 2
    said = "posenc: POSENC_RUNNING must be a whole number from 0 to 64, got 'many'.\n"
    assert capsys.readouterr().err == said


def test_streamlit_is_told_what_the_settings_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(launcher.cli, "main", lambda words, **more: asked.append(words))
    monkeypatch.setattr(launcher.output, "install", lambda: None)
    monkeypatch.setattr(launcher.logs, "install", lambda: None)
    monkeypatch.setattr(launcher.counters.here, "serve", lambda: None)
    monkeypatch.setattr(os, "chdir", lambda place: None)
    monkeypatch.setenv("POSENC_PROFILE", "shared")
    monkeypatch.setenv("POSENC_HOSTS", "demo.example.org,*.example.net")
    monkeypatch.setenv("POSENC_PATH", "posenc")
    monkeypatch.setenv("POSENC_USER_HEADER", "X-Forwarded-User")
    monkeypatch.delenv("STREAMLIT_SERVER_ADDRESS", raising=False)
    assert launcher.main(["--server.port=8639"]) == 0
    assert asked == [
        [
            "run", str(ROOT / "dashboard" / "app.py"), "--server.maxUploadSize=1",
            "--server.baseUrlPath=posenc", "--server.allowedHosts=demo.example.org",
            "--server.allowedHosts=*.example.net",
            '--server.trustedUserHeaders={"X-Forwarded-User": "posenc_user"}',
            "--server.address=127.0.0.1", "--server.port=8639",
        ]
    ]  # fmt: skip


ELSEWHERE = "--server.address=0.0.0.0"


@pytest.mark.parametrize(
    ("arguments", "environment", "file", "added"),
    [
        ([], None, None, True),
        (["--server.port=8639"], None, None, True),
        (["--", ELSEWHERE], None, None, True),  # the script's, not Streamlit's
        ([], "", None, True),  # no address
        ([ELSEWHERE], None, None, False),
        (["--server.port", "1", *ELSEWHERE.split("=")], None, None, False),
        ([], "10.0.0.1", None, False),
        ([], None, "10.0.0.1", False),
    ],
    ids=["nothing", "port", "script", "empty", "command", "words", "environment", "file"],
)
def test_whoever_trusts_a_header_listens_to_this_machine_unless_told(
    arguments: list[str], environment: str | None, file: str | None, added: bool,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Else anybody in the network names themselves, past the proxy."""
    monkeypatch.delenv("STREAMLIT_SERVER_ADDRESS", raising=False)
    if environment is not None:
        monkeypatch.setenv("STREAMLIT_SERVER_ADDRESS", environment)
    if file is not None:
        (tmp_path / ".streamlit").mkdir()
        (tmp_path / ".streamlit" / "config.toml").write_text(f'[server]\naddress = "{file}"\n')
        monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launcher.config, "_config_options", None)  # read anew, and again after it
    known = read({"POSENC_USER_HEADER": "X-Posenc-User"})
    assert ("--server.address=127.0.0.1" in launcher.options(known, arguments)) is added
    nobody = launcher.options(read({}), arguments)
    assert not [one for one in nobody if "address" in one]


CHANGED = {
    "POSENC_PROFILE": "shared", "POSENC_UPLOADS": "0", "POSENC_UPLOAD_MB": "7", "POSENC_TEXT_MB": "3",
    "POSENC_POSITIONS": "64", "POSENC_RUNNING": "2", "POSENC_WAITING": "3", "POSENC_RUN_MINUTES": "5",
    "POSENC_HUB": "1", "POSENC_RUNS": "/a", "POSENC_WORK": "/b", "POSENC_USER_HEADER": "X-User",
    "POSENC_HOSTS": "a.example", "POSENC_PATH": "a", "POSENC_LOGS": "lines",
    "POSENC_BUSY_TRAINING": "0", "POSENC_EACH": "1",
}  # fmt: skip


def test_readme_says_what_a_server_of_streamlit_s_own_command_lacks() -> None:
    """All that the launcher tells Streamlit, and what else it begins."""
    text = " ".join((ROOT / "README.md").read_text().split())
    said = text.split("but not what is set before the first page:")[1].partition(" - **")[0]
    assert set(CHANGED) == set(FIELDS)
    base = launcher.options(read({}))
    for variable, value in CHANGED.items():
        told = launcher.options(read({variable: value})) != base
        if variable != "POSENC_PROFILE":  # what it means are other variables
            assert (f"`{variable}`" in said) is (told or variable == "POSENC_LOGS"), variable
    assert "the counters" in said
    begun = {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(Path(launcher.__file__).read_text()))
        if isinstance(node, ast.Call)
    }
    assert {"logs.install", "counters.here.serve", "cli.main"} <= begun


def test_the_hosts_are_those_of_the_websocket_as_the_table_says(tmp_path: Path) -> None:
    """Streamlit 1.67 looks at no other request's host: the proxy does."""
    with served_process.server(tmp_path, POSENC_HOSTS="demo.example.org") as one:
        for path in ("/", "/favicon.png", "/_stcore/health", "/_stcore/host-config"):
            asked = urllib.request.Request(one.address + path, headers={"Host": "evil.example"})
            with urllib.request.urlopen(asked, timeout=20) as found:
                assert found.status == 200
        with (
            pytest.raises(InvalidStatus, match="403"),
            served_process.visiting(one, host="evil.example"),
        ):
            pass
    assert "pages connect" in FIELDS["POSENC_HOSTS"].metadata["rule"].help


def test_a_check_prints_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(["--check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("=")[0] for line in lines] == list(FIELDS)
    assert "POSENC_POSITIONS=2048" in lines


# Pages --------------------------------------------------------------------------------------------


OPENED = {"upload_table": True, "check_upload": True}


def uploaders(at: AppTest) -> list[str]:
    return [one.label for one in at.get("file_uploader")]


def test_uploads_come_in_at_one_place_alone() -> None:
    for path in (ROOT / "dashboard").rglob("*.py"):
        called = {
            node.func.attr
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        asks = called & {"file_uploader", "camera_input", "audio_input", "chat_input"}
        assert not asks or path.name == "uploads.py", path


@pytest.mark.parametrize("page", PAGES)
def test_a_server_without_uploads_has_a_sentence_in_their_place(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = SMALL | {"schemes": "learned,rope"}
    had = uploaders(visit(page, link, **OPENED))
    monkeypatch.setenv("POSENC_UPLOADS", "0")
    at = visit(page, link, **OPENED)
    assert uploaders(at) == []
    said = [caption.value for caption in at.caption]
    assert said.count(uploads.SWITCHED_OFF) == len(had)
    assert page not in ("train", "check_my_encoding", "similarity") or had


def test_the_caps_of_this_server_hold_for_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.zeros((40, 8_192), np.float32)
    rows[:] = np.random.default_rng(3).normal(size=rows.shape)
    content = save({"wpe.weight": rows})
    assert 2**20 < len(content) < 2**21

    def sent() -> AppTest:
        at = visit("similarity", SMALL | {"schemes": "learned"}, **OPENED)
        (box,) = [one for one in at.file_uploader if one.label.startswith("Checkpoint")]
        return box.set_value(("table.safetensors", content, "")).run()

    assert not sent().error
    monkeypatch.setenv("POSENC_UPLOAD_MB", "1")
    at = sent()
    assert [box.value for box in at.error] == ["A file may have 1 MB, this one has more."]
    assert not [one for one in at.button if one.key == "use_upload"]


def test_the_cap_on_texts_holds_on_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_TEXT_MB", "1")
    at = visit("train", {"run_length": "16", "steps": "5", "width": "16", "layers": "1"})
    (box,) = [one for one in at.file_uploader if one.key == "text_upload"]
    at = box.set_value(("text.txt", sentences(count=60_000), "")).run()
    assert [as_read(one.value) for one in at.error] == ["A text may have 1 MB, this one has 1.5."]


@pytest.mark.parametrize("page", ["similarity", "overview", "encoding"])
def test_the_cap_on_positions_holds_for_links_controls_and_what_is_pinned(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard import pinned
    from posenc import Setting

    monkeypatch.setenv("POSENC_POSITIONS", "32")
    link = {"length": "200", "a": pinned.written(Setting(length=500))}
    at = drawn(visit(page, SMALL | link))
    assert setting(at).length == 32
    assert pinned.read(at.session_state["a"])[0].length == 32
    said = "This server shows at most 32 positions: 32 are used, not 200."
    assert said in notices(at)
    at = drawn(visit(page, SMALL | {"length": "32"}))
    assert setting(at).length == 32
    assert not any("at most 32" in one for one in notices(at))


def test_a_server_without_training_shows_results_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path)
    queue = Queue()
    waiting = queue.add([small("alibi")])
    at = drawn(visit("train", {"schemes": "rope"}))
    assert at.button(key="start_training")
    monkeypatch.setenv("POSENC_RUNNING", "0")
    st.cache_resource.clear()
    # Forged: the state of a button that was pressed, a link that names it, a page that was open.
    forged = {"start_training_asked": True, f"stop_{waiting}_asked": True}
    for link in ({}, {"start_training": "true", "start_training_asked": "true"}):
        found = drawn(visit("train", link | {"schemes": "rope"}, **forged))
        assert "Training is switched off on this server." in [box.value for box in found.info]
        assert "Finished on this server" in [box.value for box in found.subheader]
        assert not [
            one for one in found.button if one.key and one.key.startswith(("start", "stop"))
        ]
    at.button(key="start_training").click().run()
    assert [entry.name for entry in queue.entries()] == [waiting]
    assert not at.exception


def test_who_a_visitor_is_comes_from_the_proxy_or_a_login_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def known(**said: object) -> tuple[str, bool]:
        monkeypatch.setattr(visitor.st, "user", said)
        return visitor.name(), visitor.may_own()

    assert known() == ("", True)  # private: the one person
    monkeypatch.setenv("POSENC_USER_HEADER", "X-Forwarded-User")
    assert known() == ("", False)
    assert known(posenc_user="ann@example.org") == ("ann@example.org", True)
    monkeypatch.setenv("POSENC_PROFILE", "shared")
    monkeypatch.delenv("POSENC_USER_HEADER")
    assert known() == ("", False)
    assert known(email="ann@example.org") == ("", False)  # said, but not logged in
    assert known(email="ann@example.org", email_verified=True, is_logged_in=True) == (
        "ann@example.org",
        True,
    )
    for odd in ("", " ", "a\nb", "a\u202eb", "x" * 129, None, 7):
        assert known(posenc_user=odd) == ("", False)
