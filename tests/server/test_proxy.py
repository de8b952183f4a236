"""Behind nginx: what browsers are told, who people are, and one team at two servers, of which one dies."""

import base64
import contextlib
import hashlib
import http.client
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import numpy as np
import pytest
import streamlit
from playwright.sync_api import Browser, expect
from safetensors.numpy import save

from posenc.lab.runs import Store
from tests.browser.browser import PAGES, find_nginx, headline, row, settled
from tests.browser.browser_page import (
    asked,
    click,
    close_menu,
    menu,
    open_drawers,
    press,
    upload,
    wait_until,
)
from tests.server.proxied import (
    PATH,
    POLICY,
    Doors,
    Team,
    answering,
    ask,
    configuration,
    proxy,
    proxy_folder,
    reply,
    team,
)
from tests.server.served_process import Served

pytestmark = pytest.mark.timeout(900)  # servers and browsers on a busy machine

WORDS: dict[str, Any] = {"servers": ["127.0.0.1:8501"], "listen": "127.0.0.1:80"}


def test_policy_has_the_hash_of_streamlits_inline_script() -> None:
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_text()
    inside = re.findall(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in inside]
    assert [f"'sha256-{one}'" for one in hashes] == re.findall(r"'sha256-.*?'", POLICY)


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "path": {"path": "tools/posenc"},
    "two": {"servers": ["10.0.0.1:8501", "10.0.0.2:8501"]},
    "basic": {"login": "basic"},
    "request": {"login": "request"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_configuration_overwrites_identity_headers_of_clients(kind: str) -> None:
    text = configuration(**{**WORDS, "folder": "/tmp", **KINDS[kind]})
    known = {"basic": "$remote_user", "request": "$login_user"}.get(kind, "''")
    assert re.findall(r"proxy_set_header X-Posenc-User (.*);", text) == [known]
    assert "proxy_set_header Authorization '';" in text
    assert f"#{kind} " not in text


@pytest.mark.proxy
def test_nginx_accepts_the_configuration(tmp_path: Path) -> None:
    for kind, words in KINDS.items():
        place = tmp_path / "nginx.conf"
        place.write_text(configuration(**{**WORDS, "folder": str(tmp_path), **words}))
        command = [find_nginx() or "", "-t", "-p", str(tmp_path), "-c", str(place)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, (kind, ran.stderr)


START = "train?schemes=rope&task=copy&run_length=16&width=16&layers=1&run_heads=2&steps=4000"


@pytest.fixture(scope="module", params=["", "tools/posenc"])
def doors(request: pytest.FixtureRequest) -> Iterator[Doors]:
    found = Doors("", "")
    with (
        answering(found.login) as service, answering(found.page) as server, proxy_folder() as place,
        proxy(
            place, servers=[server], path=request.param, login="request",
            login_url=f"http://{service}",
        ) as port,
    ):  # fmt: skip
        found.host = f"http://127.0.0.1:{port}"
        found.address = found.host + f"/{request.param}".rstrip("/")
        yield found


LINK = "/similarity?length=64&base=500&schemes=Learned&name=a%26b+c"


@pytest.mark.proxy
def test_unknown_visitor_is_redirected_to_sign_in_and_back(doors: Doors) -> None:
    doors.known.clear()
    status, headers, body = ask(doors.address + LINK)
    assert (status, body) == (302, b"")
    path = urlsplit(doors.address).path
    there = urlsplit(headers["Location"])
    assert there.path == "/oauth2/start"
    assert parse_qsl(there.query) == [("rd", path + LINK)]
    assert doors.known == []  # no server heard of it
    browser = build_opener(HTTPCookieProcessor(), ProxyHandler({}))
    with browser.open(doors.address + LINK, timeout=20) as answer:
        assert answer.url == doors.address + LINK
        assert answer.read() == f"the page at {path}{LINK}".encode()
        assert "_oauth2_proxy=bob" in str(answer.headers.get_all("Set-Cookie"))  # renewed by it
        assert answer.headers["Content-Security-Policy"] == POLICY
    assert [one["x-posenc-user"] for one in doors.known] == ["bob"]
    # Logged out, one comes back to the start, not to the address that logs out.
    status, headers, _ = ask(f"{doors.host}/oauth2/sign_out")
    assert (status, headers["Location"]) == (302, f"{path}/")


@pytest.mark.proxy
def test_identity_comes_from_the_login_service_only(doors: Doors) -> None:
    names = ("X_Posenc_User", "X_Auth_Request_User", "Remote_User", "X_Forwarded_User")
    forged: dict[str, Any] = dict.fromkeys(names, "ann") | {"Authorization": "Basic YW5uOng="}
    forged |= {"X_Forwarded_Host": "e", "X_Auth_Request_Redirect": "https://evil.example/"}
    doors.known.clear()
    assert ask(f"{doors.address}/", Cookie="_oauth2_proxy=carl", **forged)[0] == 200
    (known,) = doors.known
    assert known["x-posenc-user"] == "carl"
    assert "authorization" not in known
    doors.asked_at_login.clear()
    assert ask(f"{doors.address}/", **forged)[0] == 302
    assert len(doors.known) == 1
    assert [path for path, _ in doors.asked_at_login] == ["/oauth2/auth", "/oauth2/sign_in"]
    for _, told in doors.asked_at_login:
        assert told["X-Forwarded-Host"] == urlsplit(doors.address).netloc
    assert "evil" not in doors.asked_at_login[1][1]["X-Auth-Request-Redirect"]


@pytest.mark.proxy
def test_requests_of_scripts_without_login_are_refused(doors: Doors) -> None:
    """An upload that were answered by a sign-in would seem to have arrived."""
    doors.known.clear()
    for path in ("/_stcore/stream", "/_stcore/upload_file/a/b", "/media/a.png", "/static/js/a.js"):
        status, headers, _ = ask(doors.address + path)
        assert (status, headers["Location"]) == (401, None), path
    assert ask(f"{doors.address}/_stcore/health")[0] == 200
    assert [set(one) & {"x-posenc-user", "cookie"} for one in doors.known] == [set()]
    assert ask(f"{doors.address}/_stcore/stream", Cookie="_oauth2_proxy=bob")[0] == 200
    assert doors.known[-1]["x-posenc-user"] == "bob"
    # What the service answers itself needs no session, is no page of ours, and says of nobody who they are.
    status, headers, body = ask(f"{doors.host}/oauth2/static/a.css")
    assert (status, body) == (200, b"the service's own")
    assert "form-action" not in headers["Content-Security-Policy"]
    assert ask(f"{doors.host}/oauth2/auth", Cookie="_oauth2_proxy=bob")[0] == 404


@contextlib.contextmanager
def before(page: Callable[[BaseHTTPRequestHandler], None], **settings: Any) -> Iterator[str]:
    """Yield the address of a proxy before one server, whose pages are a function."""
    with (
        answering(page) as server, proxy_folder() as place,
        proxy(place, servers=[server], **settings) as port,
    ):  # fmt: skip
        yield f"http://127.0.0.1:{port}"


@pytest.mark.proxy
def test_burst_of_uploads_is_limited_and_pages_are_not() -> None:
    arrived: list[str] = []

    def page(request: BaseHTTPRequestHandler) -> None:
        arrived.append(request.command)
        reply(request, 204 if request.command == "PUT" else 200)

    def upload(address: str) -> int:
        return ask(f"{address}/_stcore/upload_file/a/b", sent=b"some bytes")[0]

    with before(page, path="tools/posenc") as proxied, ThreadPoolExecutor(16) as crowd:
        address = f"{proxied}/tools/posenc"
        begin = time.monotonic()
        found = list(crowd.map(upload, [address] * 120))
        took = time.monotonic() - begin
        assert set(found) == {204, 429}
        # The first and 20 more at once, then 5 for each second that it took.
        assert 21 <= found.count(204) == arrived.count("PUT") <= 22 + 5 * took
        assert ask(f"{address}/")[0] == ask(f"{address}/_stcore/stream")[0] == 200
        time.sleep(0.5)  # nobody is shut out for long
        assert upload(address) == 204


@pytest.mark.proxy
def test_one_address_may_hold_200_connections() -> None:
    held, release = threading.Semaphore(0), threading.Event()

    def page(request: BaseHTTPRequestHandler) -> None:
        if request.path == "/_stcore/stream":
            held.release()
            release.wait(60)
        reply(request, 200)

    with before(page) as address, contextlib.ExitStack() as stack:
        stack.callback(release.set)
        there = urlsplit(address)
        for _ in range(200):
            link = stack.enter_context(contextlib.closing(
                http.client.HTTPConnection(there.netloc, timeout=60)))  # fmt: skip
            link.request("GET", "/_stcore/stream")
            assert held.acquire(timeout=60)
        assert ask(f"{address}/")[0] == 429
        release.set()
        assert link.getresponse().status == 200
        end = time.monotonic() + 20
        while ask(f"{address}/")[0] == 429:
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[Team]:
    with team(tmp_path_factory.mktemp("team"), chromium) as found:
        yield found


@pytest.mark.long
@pytest.mark.proxy
@pytest.mark.browser
class TestTeam:
    def test_responses_have_security_headers(self, served: Team) -> None:
        status, headers, body = served.asked("/")
        assert (status, b"<title>Streamlit</title>" in body) == (200, True)
        assert headers["Content-Security-Policy"] == POLICY
        told = ("X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy", "Server")
        assert [headers[name] for name in told] == ["nosniff", "DENY", "no-referrer", "nginx"]
        assert f"Path=/{PATH}/; HttpOnly; SameSite=Lax" in headers["Set-Cookie"]
        assert "Set-Cookie" not in served.asked("/", Cookie="posenc_place=mine")[1]
        assert served.asked("/", Host="evil.example")[0] == 421
        assert served.asked("/", user="")[0] == 401
        assert served.asked("/_stcore/health", user="")[::2] == (200, b"ok")
        for path in ("/_stcore/metrics", "/_stcore/agent/openapi.json", "/component/x/index.html"):
            assert served.asked(path)[0] == 404, path
        assert served.asked("/../../")[0] in (400, 404)
        assert served.asked("/static/js/nothing.js")[1]["X-Content-Type-Options"] == "nosniff"

    @pytest.mark.parametrize(
        "link", [*PAGES, "extrapolation?half=measured", "similarity?predict=true", "?present=true"]
    )
    def test_no_page_violates_the_policy(self, served: Team, link: str) -> None:
        guest = served.visitor("ann", served.servers[0])
        page = guest.open(link)
        open_drawers(page)
        for name in ("A/B", "Python", "Export"):
            menu(page, name)
            close_menu(page)
        settled(page)
        assert guest.violations() == []
        guest.leave()

    def test_link_and_upload_pass_the_proxy(self, served: Team) -> None:
        guest = served.visitor("ann", served.servers[1])
        page = guest.open("similarity?length=64&base=500&schemes=Learned&schemes=RoPE")
        assert asked(page)["base"] == 500
        rows = np.random.default_rng(3).normal(size=(40, 16)).astype(np.float32)
        upload(page, "model.safetensors", save({"wpe.weight": rows}))
        click(page, page.get_by_role("button", name="Use this table"))
        subtitle = row(page, "similarity").locator(".subtitle").first
        expect(subtitle).to_contain_text("40x16 from model.safetensors")
        assert guest.violations() == []


def sessions(one: Served) -> int:
    """Return how many visitors a server has right now, by Streamlit's metrics."""
    metrics = ask(f"{one.address}/_stcore/metrics")[2].decode()
    (number,) = re.findall(r"(?m)^active_sessions (\d+)$", metrics)
    return int(number)


@pytest.mark.long
@pytest.mark.proxy
@pytest.mark.browser
def test_view_and_run_survive_a_killed_server(tmp_path: Path, chromium: Browser) -> None:
    # A shared server trains while a core is idle, and browsers and other tests leave none.
    with team(tmp_path, chromium, profile="private") as served:
        first, second = served.servers
        guest = served.visitor("ann", first)
        running = guest.open(START)
        click(running, running.get_by_role("button", name="Start", exact=True))
        expect(running.get_by_text("Started by ann.").first).to_be_visible()
        page = guest.open("similarity?length=48&base=500&schemes=RoPE&schemes=ALiBi")
        before, address = headline(page).inner_text(), page.url
        app = page.get_by_test_id("stApp")
        first.kill()
        expect(app).not_to_have_attribute("data-test-connection-state", "CONNECTED")
        expect(app).to_have_attribute("data-test-connection-state", "CONNECTED", timeout=60_000)
        assert page.url == address
        # The other server has never met this browser: what is touched first brings the link's view back.
        press(page, "Positions shown", "ArrowRight")
        wait_until(page, lambda: sessions(second) > 0)
        settled(page)
        assert (headline(page).inner_text(), page.url) == (before, address)
        # The worker went with its server; whoever looks next has the other one go on.
        looking = guest.open("train")
        wait_until(looking, lambda: bool(Store(tmp_path / "runs").ids()), 200)
        (run,) = Store(tmp_path / "runs").ids()
        # The worker logs the end of a run up to a second after it has stored it.
        wait_until(looking, lambda: "finished run" in second.log.read_text())
        ended = [line for line in second.lines() if "finished run" in line]
        assert [line.rpartition("finished run ")[2] for line in ended] == [run]
        assert "incident" not in second.log.read_text()
