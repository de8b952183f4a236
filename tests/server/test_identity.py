"""Who a visitor is: whom the header of the proxy names, and nobody else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.server import identity
from tests.server.served_process import ROOT

pytestmark = pytest.mark.usefixtures("isolated_server")


def test_visitor_is_known_by_the_header_of_the_proxy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(**user: object) -> str:
        monkeypatch.setattr(identity.st, "user", user)
        return identity.name()

    monkeypatch.setenv("POSENC_PROFILE", "shared")
    assert known() == ""
    # A claim of Streamlit's own login, also one that is called as the header is, without a header.
    claims = {"is_logged_in": True, "email": "ann@example.org", "posenc_user": "root"}
    assert known(**claims) == ""
    monkeypatch.setenv("POSENC_USER_HEADER", "X-User")
    assert known(email="ann@example.org") == ""
    for good in ("bob", "ann@example.org", "Zo\u00eb B.", "x" * 128):
        assert known(posenc_user=good) == good
    for odd in ("", " ", " bob", "a\nb", "a\u202eb", "a\u00a0b", "x" * 129, None, 7):
        assert known(posenc_user=odd) == ""


def test_table_of_the_login_of_earlier_versions_stops_the_server_without_telling_its_secrets(
    tmp_path: Path,
) -> None:
    (tmp_path / ".streamlit").mkdir()
    secrets = tmp_path / ".streamlit" / "secrets.toml"
    secrets.write_text('[auth]\nclient_secret = "word-of-the-client"\n')
    ran = subprocess.run(
        [sys.executable, "-m", "dashboard", "--check"], capture_output=True, text=True, check=False,
        cwd=ROOT, env=os.environ | {"HOME": str(tmp_path)},
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("posenc: [auth] of secrets.toml must not be there: ")
    assert ran.stderr.count("\n") == 1
    assert "word-of" not in ran.stderr
