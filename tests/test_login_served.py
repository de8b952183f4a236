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
from joserfc import jwt
from joserfc.jwk import OctKey
from playwright.sync_api import Browser, Page, expect
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from posenc.lab.queue import Queue
from tests.browser import Visitor, settled
from tests.played_provider import FAULTS, PlayedProvider, provider
from tests.served_process import Served, server

LINK = "train?schemes=rope&task=copy&run_length=16&width=16&layers=1&run_heads=2&steps=4000"
USER = "_streamlit_user"  # the cookie of a login


@dataclass
class Site:
    """A server whose people log in at a played provider."""

    provider: PlayedProvider
    server: Served
    folder: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One that trains, for the tests of a browser."""
    folder = tmp_path_factory.mktemp("login")
    (folder / ".streamlit").mkdir()
    with provider() as played:
        (folder / ".streamlit" / "secrets.toml").write_text(played.secrets())
        with server(
            folder, HOME=str(folder), POSENC_PROFILE="shared", POSENC_RUNNING="1",
            POSENC_BUSY_TRAINING="1",
        ) as found:  # fmt: skip
            yield Site(played, found, folder)


def by_hand(site: Site, fault: str) -> tuple[str, str, dict[str, str]]:
    """Log in without a browser: where that ends, what is read there, and the cookies that it leaves."""
    site.provider.fault = fault
    secret = tomllib.loads(site.provider.secrets())["auth"]["cookie_secret"]
    asked = {"provider": "default", "exp": int(time.time()) + 60}
    token = jwt.encode({"alg": "HS256"}, asked, OctKey.import_key(secret))
    jar = CookieJar()
    opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(jar))
    try:
        with opener.open(
            f"{site.server.address}/auth/login?provider={token}", timeout=20
        ) as answer:
            return answer.url, answer.read().decode(), {one.name: one.value or "" for one in jar}
    except HTTPError as error:
        with error:
            return (
                error.url or "",
                error.read().decode(),
                {one.name: one.value or "" for one in jar},
            )


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_only_a_token_that_is_whole_and_meant_for_us_logs_in(site: Site, fault: str) -> None:
    url, _, cookies = by_hand(site, fault)
    assert url == f"{site.server.address}/"
    assert (USER in cookies) is (fault == "")


def test_a_provider_that_does_not_answer_is_told_without_a_trace(site: Site) -> None:
    _, text, cookies = by_hand(site, "down")
    assert (text, USER in cookies) == ("Authentication error", False)


def test_somebody_in_many_groups_still_connects(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [str(uuid.uuid4()) for _ in range(200)]
    monkeypatch.setattr(site.provider, "person", site.provider.person | {"groups": groups})
    _, _, cookies = by_hand(site, "")
    line = "; ".join(f"{name}={value}" for name, value in cookies.items())
    assert len(line) > 12_000  # the most that is taken unless told otherwise is 8,192
    place = site.server.address.replace("http", "ws") + "/_stcore/stream"
    protocols = [Subprotocol("streamlit"), Subprotocol("x")]
    with connect(place, proxy=None, subprotocols=protocols, additional_headers={"Cookie": line}):
        pass


def press(page: Page, name: str) -> None:
    """Press a button of the sidebar, and wait until the browser is back at the link."""
    sidebar = page.get_by_test_id("stSidebar")
    with page.expect_navigation(url=page.url):
        sidebar.get_by_role("button", name=name, exact=True).click()
    settled(page)


def whose(page: Page) -> None:
    """Wait until the sidebar says that ann is logged in."""
    expect(page.get_by_test_id("stSidebar").get_by_text("Logged in as ann@")).to_be_visible()
    settled(page)


@pytest.mark.browser
def test_somebody_logs_in_keeps_the_link_and_owns_what_she_starts(
    site: Site, chromium: Browser
) -> None:
    site.provider.fault = ""
    ann, other = (Visitor(chromium, site.server.address) for _ in range(2))
    page = ann.open(LINK)
    link = page.url
    press(page, "Log in")
    whose(page)
    assert page.url == link
    assert site.provider.asked[-1]["redirect_uri"] == f"{site.server.address}/oauth2callback"
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(1)
    queue = Queue(site.folder / "work" / "queue")
    assert [one.owner for one in queue.entries()] == ["ann@example.org"]

    theirs = other.open("train")
    expect(theirs.get_by_text("RoPE.").first).to_be_visible()
    expect(theirs.get_by_test_id("stSidebar").get_by_role("button", name="Log in")).to_be_visible()
    expect(theirs.get_by_role("button", name="Stop", exact=True)).to_have_count(0)

    page.get_by_role("button", name="Stop", exact=True).click()
    press(page, "Log out")
    expect(page.get_by_test_id("stSidebar").get_by_role("button", name="Log in")).to_be_visible()
    settled(page)
    assert page.url == link
    assert "/end" in site.provider.paths
    cookies = {one["name"] for one in ann.context.cookies()}
    assert not cookies & {USER, f"{USER}_tokens"}
    for one in (ann, other):
        assert one.faults == []
        one.context.close()


@pytest.mark.browser
def test_a_provider_that_does_wrong_logs_nobody_in(site: Site, chromium: Browser) -> None:
    visitor = Visitor(chromium, site.server.address)
    page = visitor.open("similarity?base=500")
    for fault in ("denied", "tampered"):
        site.provider.fault = fault
        press(page, "Log in")
        expect(page.get_by_text("You were not logged in.")).to_be_visible()
        expect(
            page.get_by_test_id("stSidebar").get_by_role("button", name="Log in")
        ).to_be_visible()
        assert page.url.endswith("/similarity?base=500"), fault
        body = page.locator("body").inner_text()
        assert "Traceback" not in body
        assert "no entry" not in body
        names = {one["name"] for one in visitor.context.cookies()}
        assert USER not in names, fault
    # What is kept leads nowhere but to this server, and only to somebody who just left.
    here = site.server.address
    there = here.replace("127.0.0.1", "localhost")
    for link, at in (
        (f"{there}/pca", 0), (f"{here}//{there}", 0), (f"{here}/pca", 20), (f"{here}/pca", 0),
    ):  # fmt: skip
        page.evaluate(
            "([link, at]) => sessionStorage.setItem('posenc.login', JSON.stringify("
            "{link, at: Date.now() - at * 60000, leaving: 'in'}))",
            [link, at],
        )
        page.goto(f"{here}/")
        page.wait_for_function("!sessionStorage.getItem('posenc.login')")  # read, and forgotten
        settled(page)
        led = (link, at) == (f"{here}/pca", 0)  # as somebody who just left is
        assert urlparse(page.url).path.strip("/") == ("pca" if led else ""), link
        assert page.url.startswith(f"{here}/")
    assert visitor.faults == []
    visitor.context.close()
