"""A login at a served page: a provider that is played, by hand over HTTP and in a browser."""

import time
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlparse
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import pytest
from filelock import FileLock
from joserfc import jwt
from joserfc.jwk import OctKey
from playwright.sync_api import Browser, Page, expect
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from posenc.lab.jobs import Queue
from tests.browser.browser import Visitor, settled
from tests.browser.browser_page import click
from tests.server.played_provider import FAULTS, PlayedProvider, provider
from tests.server.served_process import Served, server

LINK = "train?schemes=rope&task=copy&run_length=16&width=16&layers=1&run_heads=2&steps=4000"
USER = "_streamlit_user"  # the cookie of a login


@dataclass
class Site:
    provider: PlayedProvider
    server: Served
    folder: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("login")
    for place in (".streamlit", "work/queue"):
        (folder / place).mkdir(parents=True)
    # The only place of a worker is taken: what is started waits.
    with FileLock(folder / "work" / "queue" / "worker-0.lock"), provider() as played:
        (folder / ".streamlit" / "secrets.toml").write_text(played.secrets())
        kind = {"POSENC_PROFILE": "shared", "POSENC_RUNNING": "1", "HOME": str(folder)}
        with server(folder, **kind) as found:
            yield Site(played, found, folder)


def login_over_http(site: Site, fault: str) -> tuple[str, str, dict[str, str]]:
    """Log in without a browser: where that ends, what is read there, and the cookies that it leaves."""
    site.provider.fault = fault
    secret = tomllib.loads(site.provider.secrets())["auth"]["cookie_secret"]
    asked = {"provider": "default", "exp": int(time.time()) + 60}
    token = jwt.encode({"alg": "HS256"}, asked, OctKey.import_key(secret))
    jar = CookieJar()
    opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(jar))
    try:
        answer = opener.open(f"{site.server.address}/auth/login?provider={token}", timeout=20)
    except HTTPError as error:
        answer = error
    with answer:
        text = answer.read().decode()
    return answer.url, text, {one.name: one.value or "" for one in jar}


@pytest.mark.parametrize("fault", ["", "down", *FAULTS])
def test_only_a_valid_token_logs_in(site: Site, fault: str) -> None:
    url, text, cookies = login_over_http(site, fault)
    assert url == f"{site.server.address}/" or (fault, text) == ("down", "Authentication error")
    assert (USER in cookies) is (fault == "")


def test_long_cookies_still_connect(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [str(uuid.uuid4()) for _ in range(200)]
    monkeypatch.setattr(site.provider, "person", site.provider.person | {"groups": groups})
    _, _, cookies = login_over_http(site, "")
    line = "; ".join(f"{name}={value}" for name, value in cookies.items())
    assert len(line) > 12_000  # the most that is taken unless told otherwise is 8,192
    place = site.server.address.replace("http", "ws") + "/_stcore/stream"
    protocols = [Subprotocol("streamlit"), Subprotocol("x")]
    with connect(place, proxy=None, subprotocols=protocols, additional_headers={"Cookie": line}):
        pass


def go_through(page: Page, press: str, then: str) -> None:
    """Press a button of the sidebar, and wait until the browser is back with another one."""
    button = page.get_by_test_id("stSidebar").get_by_role("button", name=press, exact=True)
    with page.expect_navigation(url=page.url):
        click(page, button)
    button = page.get_by_test_id("stSidebar").get_by_role("button", name=then, exact=True)
    expect(button).to_be_visible()
    settled(page)


@pytest.fixture
def ann(site: Site, chromium: Browser) -> Iterator[Visitor]:
    visitor = Visitor(chromium, site.server.address)
    yield visitor
    faults = visitor.faults
    visitor.context.close()
    assert faults == []


@pytest.mark.browser
def test_login_keeps_the_link_and_makes_the_visitor_owner(site: Site, ann: Visitor) -> None:
    site.provider.fault = ""
    page = ann.open(LINK)
    link = page.url
    go_through(page, "Log in", "Log out")
    expect(page.get_by_test_id("stSidebar").get_by_text("Logged in as ann@")).to_be_visible()
    assert page.url == link
    assert site.provider.asked[-1]["redirect_uri"] == f"{site.server.address}/oauth2callback"
    click(page, page.get_by_role("button", name="Start", exact=True))
    stop = page.get_by_role("button", name="Stop", exact=True)
    expect(stop).to_have_count(1)
    queue = Queue(site.folder / "work" / "queue")
    assert [one.owner for one in queue.jobs()] == ["ann@example.org"]
    go_through(page, "Log out", "Log in")
    assert page.url == link
    expect(stop).to_have_count(0)  # nobody stops the run of somebody else
    assert "/end" in site.provider.paths
    assert not {one["name"] for one in ann.context.cookies()} & {USER, f"{USER}_tokens"}


@pytest.mark.long
@pytest.mark.browser
def test_faulty_provider_logs_nobody_in(site: Site, ann: Visitor) -> None:
    page = ann.open("similarity?length=32&base=500")
    link = page.url
    site.provider.fault = "denied"
    go_through(page, "Log in", "Log in")
    expect(page.get_by_text("You were not logged in.")).to_be_visible()
    assert page.url == link
    body = page.locator("body").inner_text()
    assert "Traceback" not in body
    assert "no entry" not in body
    assert USER not in {one["name"] for one in ann.context.cookies()}
    # What is kept leads nowhere but to this server, and only to somebody who just left.
    here = site.server.address
    there = here.replace("127.0.0.1", "localhost")
    for link, age, path in (
        (f"{there}/start", 0, ""),
        (f"{here}//{there}", 0, ""),
        (f"{here}/claims", 20, ""),
        (f"{here}/claims", 0, "claims"),
    ):
        kept = f"{{link: '{link}', at: Date.now() - {age} * 60000, leaving: 'in'}}"
        page.evaluate(f"sessionStorage.setItem('posenc.login', JSON.stringify({kept}))")
        page.goto(f"{here}/")
        page.wait_for_function("!sessionStorage.getItem('posenc.login')")  # read, and forgotten
        settled(page)
        assert urlparse(page.url).path.strip("/") == path, link
        assert page.url.startswith(f"{here}/")
