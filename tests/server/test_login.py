"""Streamlit's own login: whom [auth] of the secrets names, and what pages show of it."""

import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import streamlit as st
from streamlit.runtime.secrets import AttrDict
from streamlit.testing.v1 import AppTest

from dashboard import __main__ as launcher
from dashboard.frame import login
from dashboard.server import identity, settings
from dashboard.server.settings import ServerSettingError
from tests.dashboard.pages import as_read, drawn, visit
from tests.server.served_process import ROOT

pytestmark = pytest.mark.usefixtures("no_shape_checks", "isolated_server")

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
def shared(isolated_server: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("POSENC_PROFILE", "shared")
    identity._of_secrets.cache_clear()
    yield
    identity._of_secrets.cache_clear()


def set_login(monkeypatch: pytest.MonkeyPatch, section: Any, **user: object) -> None:
    """Have secrets.toml say [auth], and Streamlit what its cookie says of the visitor."""
    section = AttrDict(section) if isinstance(section, dict) else section
    secrets = {} if section is None else {"auth": section}
    stored = Mock(load_if_toml_exists=lambda: True, get=secrets.get)
    monkeypatch.setattr(identity.auth_util, "secrets_singleton", stored)
    monkeypatch.setattr(identity, "_section", lambda: section)
    monkeypatch.setattr(identity.st, "user", user)
    identity._of_secrets.cache_clear()


def test_each_provider_has_one_button(monkeypatch: pytest.MonkeyPatch) -> None:
    kwargs = {"client_kwargs": {"prompt": "login"}}  # a table that is no provider
    for section, labels in (
        (ONE, {"default": "Log in"}),
        (SHARED | {"okta": CLIENT}, {"okta": "Log in"}),
        (SHARED | {"google": CLIENT, "myOrg": CLIENT},
         {"google": "Log in with Google", "myOrg": "Log in with myOrg"}),
        (ONE | {"okta": CLIENT}, {"default": "Log in", "okta": "Log in with Okta"}),
        (ONE | kwargs, {"default": "Log in"}),
    ):  # fmt: skip
        set_login(monkeypatch, section)
        assert identity.offered() == labels


LACKING: list[tuple[Any, str]] = [
    ("yes", "[auth] of secrets.toml must be a table."),
    *(({k: ONE[k] for k in ONE if k != key}, key) for key in ONE),
    (SHARED, "missing the following keys: ['client_id', 'client_secret', 'server_metadata_url']"),
    (SHARED | {"okta": {"client_id": "x"}}, 'provider "okta" are missing the following keys'),
    (SHARED | {"my_org": CLIENT}, '"my_org" contains an underscore'),
    (ONE | {"expose_tokens": ["id", "all"]}, "Invalid expose_tokens"),
    *(
        (
            ONE | {"redirect_uri": f"https://demo.example.org{path}"},
            "must end with /oauth2callback.",
        )
        for path in ("", "/oauth2callback?x=1", "/oauth2callback/")
    ),
]


@pytest.mark.parametrize(("section", "sentence"), LACKING)
def test_unusable_login_settings_are_refused_without_a_secret(
    section: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_login(monkeypatch, section)
    with pytest.raises(ServerSettingError) as refused:
        identity.offered()
    assert sentence in str(refused.value)
    assert "word-of" not in str(refused.value)


def test_redirect_uri_has_the_path_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_PATH", "tools/posenc")
    set_login(monkeypatch, ONE)
    with pytest.raises(ServerSettingError, match=r"must end with /tools/posenc/oauth2callback\.$"):
        identity.offered()
    below = "https://demo.example.org/tools/posenc/oauth2callback"
    set_login(monkeypatch, ONE | {"redirect_uri": below})
    assert identity.offered() == {"default": "Log in"}


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    set_login(monkeypatch, ONE)
    monkeypatch.setitem(sys.modules, "authlib", None)
    with pytest.raises(ServerSettingError, match=r"pip install -e '\.\[login\]'\.$"):
        identity.offered()


def test_check_names_a_missing_setting_and_a_header_that_overrides_the_login(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for name in settings.unknown():  # of whoever tests: each would be told, too
        monkeypatch.delenv(name)
    set_login(monkeypatch, ONE)
    assert launcher.main(["--check"]) == 0
    assert capsys.readouterr().err == ""
    set_login(monkeypatch, {key: ONE[key] for key in ONE if key != "redirect_uri"})
    assert launcher.main(["--check"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("posenc: [auth] of secrets.toml: ")
    assert "redirect_uri" in error
    assert error.count("\n") == 1
    monkeypatch.setenv("POSENC_USER_HEADER", "X-User")
    set_login(monkeypatch, {})  # would not do, and is not asked
    assert launcher.main(["--check"]) == 0
    told = "[auth] of secrets.toml changes nothing."
    assert capsys.readouterr().err == f"posenc: {told}\n"


def test_visitor_is_known_by_a_verified_address_or_the_header_of_the_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def known(section: Any = ONE, **user: object) -> tuple[str, bool]:
        set_login(monkeypatch, section, **user)
        return identity.name(), identity.may_own()

    assert known(None) == known(None, email="ann@example.org") == ("", False)
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
    for odd in ("", " ", "a\nb", "a\u202eb", "x" * 129, None, 7):
        assert known(posenc_user=odd) == ("", False)
    monkeypatch.setenv("POSENC_PROFILE", "private")
    assert known() == ("", False)
    monkeypatch.delenv("POSENC_USER_HEADER")
    assert known() == ("", False)
    assert known(None) == ("", True)  # the one person


def buttons(at: AppTest) -> list[str]:
    return [one.label for one in at.sidebar.button if one.label.startswith("Log")]


def mounted(at: AppTest) -> bool:
    return any(one.proto.component_name == "posenc_login_link" for one in at.get("bidi_component"))


def test_login_button_is_shown_only_with_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    for section, header in ((None, ""), (ONE, "X-User")):
        set_login(monkeypatch, section)
        monkeypatch.setenv("POSENC_USER_HEADER", header)
        at = drawn(visit("similarity"))
        assert (buttons(at), mounted(at)) == ([], False)
    set_login(monkeypatch, ONE)
    monkeypatch.delenv("POSENC_USER_HEADER")
    at = drawn(visit("similarity"))
    assert (buttons(at), mounted(at)) == (["Log in"], True)
    at = drawn(visit("similarity", {"present": "true"}))  # nobody logs in on a projector
    assert (buttons(at), mounted(at)) == ([], False)


def test_sidebar_with_the_login_is_open_on_a_page_without_controls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states: list[object] = []
    monkeypatch.setattr(
        st, "set_page_config", lambda **look: states.append(look.get("initial_sidebar_state"))
    )
    for section, state in ((None, "collapsed"), (ONE, "auto")):
        set_login(monkeypatch, section)
        drawn(visit("context_planner"))
        assert states[-1] == state


def test_visitor_name_is_shown_as_text_with_log_out_button(monkeypatch: pytest.MonkeyPatch) -> None:
    set_login(monkeypatch, SHARED | {"google": CLIENT, "okta": CLIENT})
    assert buttons(drawn(visit("similarity"))) == ["Log in with Google", "Log in with Okta"]
    set_login(monkeypatch, ONE, is_logged_in=True, email="*a_nn*@example.org", email_verified=True)
    at = drawn(visit("similarity"))
    assert buttons(at) == ["Log out"]
    assert as_read(at.sidebar.caption[0].value) == "Logged in as *a_nn*@example.org"
    assert r"\*a\_nn\*" in at.sidebar.caption[0].value
    set_login(monkeypatch, ONE, is_logged_in=True)
    at = drawn(visit("similarity"))
    assert buttons(at) == ["Log out"]
    assert at.sidebar.caption[0].value == login._NAMELESS


def test_redirect_to_the_provider_happens_once_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_refused_login_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {}
    with monkeypatch.context() as message:
        message.setattr(login.st, "session_state", state)
        login._refuse()
    set_login(monkeypatch, ONE)
    at = drawn(visit("similarity", **state))
    assert [toast.value for toast in at.toast] == ["You were not logged in."]
    assert [*drawn(at.run()).toast] == []


def test_failed_login_is_an_incident(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login.st, "login", Mock(side_effect=RuntimeError("word-of-the-client")))
    shown: list[str] = []
    monkeypatch.setattr(login.st, "error", lambda text, icon: shown.append(text))
    monkeypatch.setattr(login.st, "session_state", {login._LEAVING: "default"})
    login._leave()
    (sentence,) = shown
    assert "could not be done" in sentence
    assert "word-of" not in sentence
