"""Streamlit's own login: whom [auth] of the secrets names, and what pages show of it."""

import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard import __main__ as launcher
from dashboard import identity_providers, login, server_settings, visitor
from dashboard.identity_providers import Provider, read
from dashboard.server_settings import FIELDS, ServerSettingError
from tests.pages import as_read, drawn, visit
from tests.proxied import load_configure
from tests.served_process import ROOT

pytestmark = pytest.mark.usefixtures("no_shape_checks")

CLIENT = {
    "client_id": "of-the-client",
    "client_secret": "word-of-the-client",
    "server_metadata_url": "https://login.example.org/.well-known/openid-configuration",
}
SHARED = {
    "redirect_uri": "https://demo.example.org/oauth2callback",
    "cookie_secret": "word-of-the-cookie-0123456789abcdef",
}
ONE = SHARED | CLIENT


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A shared server of its own."""
    for variable in FIELDS:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("POSENC_PROFILE", "shared")
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    identity_providers._of_secrets.cache_clear()
    yield
    identity_providers._of_secrets.cache_clear()


def said(monkeypatch: pytest.MonkeyPatch, section: Any, **user: object) -> None:
    """Have secrets.toml say [auth], and Streamlit what its cookie said of the visitor."""
    monkeypatch.setattr(identity_providers, "_section", lambda: section)
    monkeypatch.setattr(visitor.st, "user", user)
    identity_providers._of_secrets.cache_clear()


# What the operator wrote --------------------------------------------------------------------------


def test_one_provider_is_one_button_and_several_are_one_for_each() -> None:
    assert read(ONE) == (Provider("default", "Log in"),)
    assert read(SHARED | {"okta": CLIENT}) == (Provider("okta", "Log in"),)
    assert read(SHARED | {"default": CLIENT}) == (Provider("default", "Log in"),)
    assert read(SHARED | {"google": CLIENT, "myOrg": CLIENT}) == (
        Provider("google", "Log in with Google"),
        Provider("myOrg", "Log in with myOrg"),
    )
    assert [one.words for one in read(ONE | {"okta": CLIENT})] == ["Log in", "Log in with Okta"]
    kwargs = {"client_kwargs": {"prompt": "login"}}  # a table that is no provider
    assert read(ONE | kwargs) == (Provider("default", "Log in"),)


@pytest.mark.parametrize(
    ("section", "path", "sentence"),
    [
        ("yes", "", "[auth] of secrets.toml must be a table."),
        ({}, "", "[auth] of secrets.toml lacks redirect_uri and cookie_secret."),
        *(
            ({k: v for k, v in ONE.items() if k != key}, "", f"[auth] of secrets.toml lacks {key}.")
            for key in ONE
        ),
        (ONE | {"client_secret": " "}, "", "[auth] of secrets.toml lacks client_secret."),
        (ONE | {"client_id": 7}, "", "[auth] of secrets.toml lacks client_id."),
        (
            SHARED,
            "",
            "[auth] of secrets.toml lacks client_id and client_secret and server_metadata_url.",
        ),
        (
            SHARED | {"okta": {"client_id": "x"}},
            "",
            "[auth.okta] of secrets.toml lacks client_secret and server_metadata_url.",
        ),
        (
            SHARED | {"my_org": CLIENT},
            "",
            "A provider in [auth] of secrets.toml must be named with letters, digits and hyphens, "
            "got 'my_org'.",
        ),
        (
            ONE | {"cookie_secret": "word-of-the-cookie"},
            "",
            "cookie_secret in [auth] of secrets.toml must be 32 random characters or more.",
        ),
        (
            ONE | {"server_metadata_url": "login.example.org"},
            "",
            "server_metadata_url in [auth] of secrets.toml must be an address of the web.",
        ),
        *(
            (
                ONE | {"expose_tokens": exposed},
                "",
                "expose_tokens in [auth] of secrets.toml must be id, access or both.",
            )
            for exposed in (["id", "all"], "all", 7)
        ),
        *(
            (
                ONE | {"redirect_uri": address},
                path,
                "redirect_uri in [auth] of secrets.toml must be https, the host as browsers write it, "
                f"and {f'/{path}' if path else ''}/oauth2callback.",
            )
            for address, path in [
                ("https://demo.example.org", ""),
                ("demo.example.org/oauth2callback", ""),
                ("https:///oauth2callback", ""),
                ("https://[demo/oauth2callback", ""),
                ("https://demo.example.org/oauth2callback?x=1", ""),
                ("https://demo.example.org/other/oauth2callback", ""),
                ("http://demo.example.org/oauth2callback", ""),
                ("https://Demo.example.org/oauth2callback", ""),
                ("https://demo.example.org:443/oauth2callback", ""),
                ("https://demo.example.org:99999/oauth2callback", ""),
                ("https://ann@demo.example.org/oauth2callback", ""),
                ("https://demo.example.org/oauth2callback", "tools/posenc"),
                ("https://demo.example.org/other/oauth2callback", "tools/posenc"),
            ]
        ),
    ],
)
def test_what_nobody_could_log_in_with_is_one_sentence_without_a_secret(
    section: Any, path: str, sentence: str
) -> None:
    with pytest.raises(ServerSettingError) as refused:
        read(section, path)
    assert str(refused.value) == sentence
    assert "word-of" not in sentence


def test_an_address_to_come_back_to_is_taken_with_its_path_and_port() -> None:
    below = ONE | {"redirect_uri": "https://demo.example.org/tools/posenc/oauth2callback"}
    assert read(below, "tools/posenc")
    for here in ("http://localhost:{port}", "http://[::1]:8501", "https://demo.example.org:8443"):
        assert read(ONE | {"redirect_uri": f"{here}/oauth2callback"})


def test_the_table_of_the_readme_is_whole_but_for_its_secret() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    section = tomllib.loads(textwrap.dedent(text))["auth"]
    with pytest.raises(ServerSettingError, match=r"^cookie_secret "):  # copied, everybody knew it
        read(section)
    assert read(section | {"cookie_secret": ONE["cookie_secret"]}) == (Provider("default"),)


@pytest.mark.parametrize("missing", ["authlib", "authlib.integrations.starlette_client"])
def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ServerSettingError, match=r"pip install 'posenc\[login\]'\.$"):
        read(ONE)


def test_the_extra_is_what_streamlit_asks_for_itself() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ours = {one.lower() for one in extras["optional-dependencies"]["login"]}
    theirs = {
        one.partition(";")[0].strip().lower()
        for one in requires("streamlit") or ()
        if 'extra == "auth"' in one
    }
    assert theirs
    assert theirs <= ours


def checked(folder: Path, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What `python -m dashboard --check` says to an operator with these secrets."""
    (folder / ".streamlit").mkdir()
    (folder / ".streamlit" / "secrets.toml").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "dashboard", "--check"], capture_output=True, text=True, check=False,
        cwd=ROOT, env=os.environ | {"HOME": str(folder), "PYTHONPATH": str(ROOT)} | variables,
    )  # fmt: skip


def test_the_check_says_what_is_missing_and_serves_nothing(tmp_path: Path) -> None:
    ran = checked(tmp_path, '[auth]\ncookie_secret = "word-of-the-cookie"\nclient_id = "x"\n')
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines() == ["posenc: [auth] of secrets.toml lacks redirect_uri."]


def test_the_check_says_that_a_header_counts_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for name in server_settings.unknown():  # of whoever tests: each would be told, too
        monkeypatch.delenv(name)
    said(monkeypatch, ONE)
    assert launcher.main(["--check"]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("POSENC_USER_HEADER", "X-User")
    said(monkeypatch, {})  # would not do, and is not asked
    assert launcher.main(["--check"]) == 0
    told = "[auth] of secrets.toml changes nothing while POSENC_USER_HEADER is set."
    assert capsys.readouterr().err == f"posenc: {told}\n"


# Who somebody is ----------------------------------------------------------------------------------


def test_a_provider_says_who_somebody_is_by_an_address_that_it_stands_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def known(**user: object) -> tuple[str, bool]:
        said(monkeypatch, ONE, **user)
        return visitor.name(), visitor.may_own()

    nobody = {"is_logged_in": True, "email": "ann@example.org"}
    assert known(**nobody) == ("", False)  # who might have written any address there
    ann = nobody | {"email_verified": True}
    for yes in (True, "true", "True"):
        assert known(**ann | {"email_verified": yes}) == ("ann@example.org", True)
    for no in (False, "false", "False", None, 1, ""):
        assert known(**ann | {"email_verified": no}) == ("", False)
    for doubt in (False, None, "true", 1):
        assert known(**ann | {"is_logged_in": doubt}) == ("", False)
    assert known(**ann | {"email": "a\nb"}) == ("", False)
    # A claim called as the header is, without a header.
    assert known(is_logged_in=True, posenc_user="root") == ("", False)
    monkeypatch.setenv("POSENC_USER_HEADER", "X-User")
    assert known(**ann) == ("", False)
    assert known(**ann, posenc_user="bob") == ("bob", True)


def test_a_private_server_with_a_login_tells_people_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_PROFILE", "private")
    said(monkeypatch, None)
    assert visitor.may_own()
    said(monkeypatch, ONE)
    assert not visitor.may_own()


# What pages show ----------------------------------------------------------------------------------


def buttons(at: AppTest) -> list[str]:
    return [one.label for one in at.sidebar.button if one.label.startswith("Log")]


def mounted(at: AppTest) -> bool:
    """Whether the code that keeps the link is on the page."""
    return any(one.proto.component_name == "posenc_login_link" for one in at.get("bidi_component"))


def test_without_a_login_of_streamlit_s_there_is_nothing_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for section, header in ((None, ""), (ONE, "X-User")):
        said(monkeypatch, section)
        monkeypatch.setenv("POSENC_USER_HEADER", header)
        at = drawn(visit("similarity"))
        assert (buttons(at), mounted(at)) == ([], False)
    said(monkeypatch, ONE)
    monkeypatch.delenv("POSENC_USER_HEADER")
    at = drawn(visit("similarity"))
    assert (buttons(at), mounted(at)) == (["Log in"], True)
    at = drawn(visit("similarity", {"present": "true"}))  # nobody logs in on a projector
    assert (buttons(at), mounted(at)) == ([], False)


def test_who_is_logged_in_is_told_as_text_and_can_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    said(monkeypatch, SHARED | {"google": CLIENT, "okta": CLIENT})
    assert buttons(drawn(visit("similarity"))) == ["Log in with Google", "Log in with Okta"]
    said(monkeypatch, ONE, is_logged_in=True, email="*a_nn*@example.org", email_verified=True)
    at = drawn(visit("similarity"))
    assert buttons(at) == ["Log out"]
    assert "Logged in as *a_nn*@example.org" in [as_read(one.value) for one in at.sidebar.caption]
    assert r"\*a\_nn\*" in at.sidebar.caption[0].value
    said(monkeypatch, ONE, is_logged_in=True)
    at = drawn(visit("similarity"))
    assert buttons(at) == ["Log out"]
    assert at.sidebar.caption[0].value == login._NAMELESS


def test_the_browser_is_sent_away_once_and_only_after_somebody_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone: list[str] = []
    monkeypatch.setattr(login.st, "login", gone.append)
    monkeypatch.setattr(login.st, "logout", lambda: gone.append("out"))
    monkeypatch.setattr(login.st, "session_state", {})
    login._leave()  # a message of a browser that nobody sent away
    assert gone == []
    for asked in ("okta", ""):
        st.session_state[login._LEAVING] = asked
        login._leave()
        login._leave()
    assert gone == ["okta", "out"]


def test_a_page_of_a_server_that_cannot_log_in_says_so_without_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said(monkeypatch, ONE | {"cookie_secret": "word-of-the-cookie"})
    at = visit("similarity")
    assert not at.exception
    boxes = [box.value for box in at.error]
    assert len(boxes) == 1
    assert re.fullmatch(
        r"This server is not set up so that it can show pages; its log names the reason as incident "
        r"[0-9a-f]{8}\.",
        boxes[0],
    )


def test_a_login_that_fails_here_is_an_incident(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise RuntimeError("word-of-the-client")

    monkeypatch.setattr(login.st, "login", fail)
    shown: list[str] = []
    monkeypatch.setattr(login.st, "error", lambda text, icon: shown.append(text))
    monkeypatch.setattr(login.st, "session_state", {login._LEAVING: "default"})
    login._leave()
    assert len(shown) == 1
    assert shown[0].startswith("What was asked for could not be done. The log of the server names")
    assert "word-of" not in shown[0]


@pytest.mark.parametrize("path", ["", "tools/posenc"])
def test_the_proxy_takes_the_long_cookies_of_a_login(path: str) -> None:
    text = load_configure().configuration(
        host="demo.example.org", servers=["127.0.0.1:8501"], listen="127.0.0.1:80", folder="/tmp",
        path=path,
    )  # fmt: skip
    pattern, block = re.search(r"location ~ (\S*oauth2callback\S*) \{(.*?)\}", text, re.DOTALL).groups()  # type: ignore[union-attr] # fmt: skip
    root = f"/{path}" if path else ""
    for place in ("auth/login", "auth/logout", "oauth2callback"):
        assert re.search(pattern, f"{root}/{place}")
        assert not re.search(pattern, f"{root}/{place}/x")
    assert "proxy_pass http://servers;" in block
    sizes = {int(size) for size in re.findall(r"proxy_buffer_size (\d+)k;", block)}
    assert sizes == {32}
    assert "add_header" not in block  # it would take the place of all those of the server
