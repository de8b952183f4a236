"""Behind nginx: what browsers are told, who people are, and one team at two servers, of which one dies."""

import base64
import contextlib
import hashlib
import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import numpy as np
import pytest
import streamlit
from playwright.sync_api import Browser, Page, expect
from safetensors.numpy import save

from dashboard.server_settings import FIELDS
from posenc import limits
from posenc.lab.labels import Labels
from posenc.lab.runs import Store
from tests.browser import PAGES, SCREENS, dial, find_nginx, headline, row, settled
from tests.browser_page import asked, unfold
from tests.played_provider import provider
from tests.proxied import (
    HEADER,
    LISTEN,
    PATH,
    Guest,
    Team,
    answering,
    load_configure,
    proxy,
    proxy_folder,
    reply,
    team,
)
from tests.served_process import HOST, ROOT, Served, free_port, server

pytestmark = pytest.mark.timeout(900)  # servers and browsers on a busy machine

configure = load_configure()
WORDS = {"host": "demo.example.org", "servers": ["127.0.0.1:8501"], "listen": "127.0.0.1:80"}
# A run of some seconds: long enough to be seen, short enough to be waited for.
START = "train?schemes=rope&task=copy&run_length=16&width=16&layers=1&run_heads=2"


# What is written ----------------------------------------------------------------------------------


def test_the_policy_knows_the_script_inside_streamlit_s_page() -> None:
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_text()
    inside = re.findall(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in inside]
    assert [f"'sha256-{one}'" for one in hashes] == [configure.BOOT]


def test_the_policy_is_no_wider_than_it_says() -> None:
    rules = dict(rule.split(" ", 1) for rule in configure.policy().split("; "))
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'self' {configure.BOOT} 'wasm-unsafe-eval' blob:",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "font-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    text = (ROOT / ".deploy" / "content-security-policy").read_text()
    for line in text.splitlines():
        if not line.startswith("#") and "'none'" not in line:
            sources, _, reasons = line.partition("#")
            assert reasons, line
            assert len(reasons.split(";")) >= len(sources.split()) - 1, line


BAD: dict[str, tuple[object, ...]] = {
    "host": ("", "a; return 200", "a\nb", "~.*", "_", "a/b", "$host", "a.example\n"),
    "path": ("/posenc/", "posenc/", "/posenc", "a//b", "..", "a.b", "a[b", "a(b", "x {", "a b", "a\n"),
    "user_header": ("", "X-$host", "X User", "-x", "X_User"),
    "login_header": ("", "x;", "X_User"),
    "listen": ("", "a b:80", "80;", "*.a:80", "127.0.0.1:", "127.0.0.1"),
    "folder": ("", "/tmp/a b", "/tmp/$x"),
    "login_file": ('"x"', "a;b"),
    "login_url": ("127.0.0.1:4180", "http://127.0.0.1:4180/oauth2/auth", "http://a;b", "http://$host"),
    "certificate": ("", "a b"),
    "key": ("", "a b"),
    "servers": (["a; }"], ["127.0.0.1"], ["127.0.0.1:8501", "b:x"], ["http://a:1"], []),
    "most_mb": (0, -1),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_word_that_nginx_would_take_otherwise_is_refused(name: str) -> None:
    words = {**WORDS, "folder": "/tmp", "certificate": "/etc/a", "key": "/etc/b"}
    configure.configuration(**words)
    option = "--" + name.replace("servers", "server").replace("_", "-")
    for bad in BAD[name]:
        with pytest.raises(ValueError, match=rf"^{option} must be ") as refused:
            configure.configuration(**{**words, name: bad})
        assert str(refused.value).endswith(".")
        assert "\n" not in str(refused.value)


def test_a_login_without_its_place_is_refused() -> None:
    words = {**WORDS, "folder": "/tmp"}
    with pytest.raises(ValueError, match=r"^--login-file must be a path"):
        configure.configuration(**words, login="basic")
    with pytest.raises(ValueError, match=r"^--login-url must be an address"):
        configure.configuration(**words, login="request")
    with pytest.raises(ValueError, match=r"^--path must not begin with oauth2"):
        configure.configuration(**words, login="request", login_url="http://a:1", path="oauth2/x")
    for half in ({"certificate": "/etc/a"}, {"key": "/etc/a"}):
        with pytest.raises(ValueError, match=r"^--(key|certificate) must be "):
            configure.configuration(**words, **half)


def test_proxy_and_server_have_one_rule_for_what_both_are_told() -> None:
    path, hosts, header = (
        FIELDS[variable].metadata["rule"]
        for variable in ("POSENC_PATH", "POSENC_HOSTS", "POSENC_USER_HEADER")
    )
    assert configure.FORMS["path"] == (path.pattern, path.described)
    name, _ = configure.FORMS["host"]
    assert hosts.pattern == rf"(?:{name}(?:,{name}){{0,31}})?"
    assert (
        header.pattern == f"(?:{configure.FORMS['user_header'][0]})?"
    )  # "" is a server without one
    assert configure.FORMS["user_header"][1] == header.described


def test_a_body_at_the_proxy_is_as_large_as_the_readme_says_and_more_than_a_file() -> None:
    (said,) = re.findall(r"`client_max_body_size ([^`]+)`", (ROOT / "README.md").read_text())
    assert f"client_max_body_size {said};" in configure.configuration(**WORDS, folder="/tmp")
    assert said == f"{configure.MOST_MB}m"
    assert configure.MOST_MB == limits.MAX_UPLOAD_BYTES // 2**20 + 1


KINDS = {
    "plain": {},
    "path": {"path": "tools/posenc"},
    "two": {"servers": ["10.0.0.1:8501", "10.0.0.2:8501"]},
    "no uploads": {"uploads": False},
    "basic": {"login": "basic", "login_file": "/etc/people"},
    "request": {"login": "request", "login_url": "http://127.0.0.1:4180"},
    "request under a path": {
        "login": "request", "login_url": "http://127.0.0.1:4180", "path": "tools/posenc",
        "login_header": "X-Auth-Request-Email",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_says_who_a_visitor_is_and_nothing_of_what_clients_say(kind: str) -> None:
    text = configure.configuration(**{**WORDS, "folder": "/tmp", **KINDS[kind]})
    known = {"basic": "$remote_user", "request": "$login_user"}.get(kind.split()[0], '""')
    assert text.count(f"proxy_set_header X-Posenc-User {known};") == 1
    assert "proxy_set_header Authorization '';" in text
    assert ("upload_file { return 403; }" in text) is (kind == "no uploads")
    assert text.count("return 421") == 1
    assert text.count("{") == text.count("}")
    assert "$known_user" not in text.split("http {")[1]


@pytest.mark.proxy
@pytest.mark.parametrize("kind", KINDS)
def test_nginx_takes_what_is_written(kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = configure.configuration(**{**WORDS, "folder": folder, **KINDS[kind]})
        place = Path(folder) / "nginx.conf"
        place.write_text(text)
        ran = subprocess.run(
            [find_nginx() or "", "-t", "-p", folder, "-c", str(place)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


def test_the_command_writes_the_same() -> None:
    command = [sys.executable, str(ROOT / ".deploy" / "configure.py"), "--host", "demo.example.org"]
    command += ["--server", "127.0.0.1:8501", "--folder", "/tmp", "--listen", "127.0.0.1:80"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == configure.configuration(**WORDS, folder="/tmp")
    refused = subprocess.run(
        [*command, "--path", "/posenc/"], capture_output=True, text=True, check=False
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("--path must be a path without slashes at its ends")


# A login service in front ---------------------------------------------------------------------------


@dataclass
class Doors:
    """nginx between a service of logins and a server, both played here, and what each of them heard."""

    address: str
    asked_at_login: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    known: list[dict[str, str]] = field(default_factory=list)

    def login(self, request: BaseHTTPRequestHandler) -> None:
        """Do as oauth2-proxy does that needs no button pressed: who has its cookie is who it says."""
        path, _, query = request.path.partition("?")
        self.asked_at_login.append((request.path, dict(request.headers.items())))
        session = re.search(r"_oauth2_proxy=(\w+)", request.headers.get("Cookie", ""))
        told = dict(parse_qsl(query)).get("rd") or request.headers.get("X-Auth-Request-Redirect")
        if path == "/oauth2/auth" and session:
            cookie = f"_oauth2_proxy={session[1]}; Path=/; HttpOnly; Max-Age=9"
            email = f"{session[1]}@example.org"
            reply(request, 202, X_Auth_Request_User=session[1], X_Auth_Request_Email=email,
                  Set_Cookie=cookie)  # fmt: skip
        elif path == "/oauth2/auth":
            reply(request, 401)
        elif path == "/oauth2/sign_in":
            reply(request, 302, Location="/oauth2/start?" + urlencode({"rd": told}))
        elif path in ("/oauth2/start", "/oauth2/sign_out"):
            user = "bob" if path == "/oauth2/start" else ""
            reply(request, 302, Location=told, Set_Cookie=f"_oauth2_proxy={user}; Path=/")
        else:
            reply(request, 200, b"the service's own")

    def page(self, request: BaseHTTPRequestHandler) -> None:
        """Be a page of the dashboard."""
        self.known.append({key.lower(): value for key, value in request.headers.items()})
        reply(request, 200, b"the page at " + request.path.encode())


@pytest.fixture(scope="module", params=["", "tools/posenc"])
def doors(request: pytest.FixtureRequest) -> Iterator[Doors]:
    found = Doors("")
    with (
        answering(found.login) as service, answering(found.page) as server, proxy_folder() as place,
        proxy(
            place, servers=[server], path=request.param, login="request",
            login_url=f"http://{service}",
        ) as port,
    ):  # fmt: skip
        found.address = f"http://127.0.0.1:{port}" + f"/{request.param}".rstrip("/")
        yield found


def unfollowed(address: str, **headers: str) -> tuple[int, Message, bytes]:
    """Ask without a redirect being followed."""
    there = urlsplit(address)
    link = http.client.HTTPConnection(there.netloc, timeout=20)
    link.request("GET", there.path + (f"?{there.query}" if there.query else ""),
                 headers={key.replace("_", "-"): value for key, value in headers.items()})  # fmt: skip
    with contextlib.closing(link):
        found = link.getresponse()
        return found.status, found.headers, found.read()


LINK = "/similarity?length=64&base=500&schemes=Learned&name=a%26b+c"


@pytest.mark.proxy
def test_whoever_is_not_logged_in_is_led_to_the_sign_in_and_back_to_the_whole_link(
    doors: Doors,
) -> None:
    doors.known.clear()
    status, headers, body = unfollowed(doors.address + LINK)
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
        assert answer.headers["Content-Security-Policy"] == configure.policy()
    assert [one["x-posenc-user"] for one in doors.known] == ["bob"]
    # Logged out, one comes back to the start, not to the address that logs out.
    status, headers, _ = unfollowed(f"{host(doors)}/oauth2/sign_out")
    assert (status, headers["Location"]) == (302, f"{path}/")


@pytest.mark.proxy
def test_who_a_visitor_is_comes_from_the_service_alone(doors: Doors) -> None:
    forged = {"X_Posenc_User": "ann", "X_Auth_Request_User": "ann", "Remote_User": "ann"}
    forged |= {
        "X_Forwarded_User": "ann",
        "Authorization": "Basic YW5uOng=",
        "X_Forwarded_Host": "e",
    }
    forged |= {"X_Auth_Request_Redirect": "https://evil.example/"}
    doors.known.clear()
    assert unfollowed(f"{doors.address}/", Cookie="_oauth2_proxy=carl", **forged)[0] == 200
    (known,) = doors.known
    assert known["x-posenc-user"] == "carl"
    assert "authorization" not in known
    doors.asked_at_login.clear()
    assert unfollowed(f"{doors.address}/", **forged)[0] == 302
    assert len(doors.known) == 1
    assert [path for path, _ in doors.asked_at_login] == ["/oauth2/auth", "/oauth2/sign_in"]
    for _, told in doors.asked_at_login:
        assert told["X-Forwarded-Host"] == urlsplit(doors.address).netloc
    assert "evil" not in doors.asked_at_login[1][1]["X-Auth-Request-Redirect"]


@pytest.mark.proxy
def test_scripts_of_somebody_unknown_get_a_refusal_and_no_page(doors: Doors) -> None:
    """An upload that were answered by a sign-in would seem to have arrived."""
    doors.known.clear()
    for path in ("/_stcore/stream", "/_stcore/upload_file/a/b", "/media/a.png", "/static/js/a.js"):
        status, headers, _ = unfollowed(doors.address + path)
        assert (status, headers["Location"]) == (401, None), path
    assert unfollowed(f"{doors.address}/_stcore/health")[0] == 200
    assert [set(one) & {"x-posenc-user", "cookie"} for one in doors.known] == [set()]
    assert unfollowed(f"{doors.address}/_stcore/stream", Cookie="_oauth2_proxy=bob")[0] == 200
    assert doors.known[-1]["x-posenc-user"] == "bob"
    # What the service answers itself needs no session, is no page of ours, and says of nobody who they are.
    status, headers, body = unfollowed(f"{host(doors)}/oauth2/static/a.css")
    assert (status, body) == (200, b"the service's own")
    assert "form-action" not in headers["Content-Security-Policy"]
    assert unfollowed(f"{host(doors)}/oauth2/auth", Cookie="_oauth2_proxy=bob")[0] == 404


def host(doors: Doors) -> str:
    return f"http://{urlsplit(doors.address).netloc}"


# Too much at once ---------------------------------------------------------------------------------


@contextlib.contextmanager
def before(page: Callable[[BaseHTTPRequestHandler], None], **settings: Any) -> Iterator[str]:
    """Yield the address of a proxy before one server, whose pages are a function."""
    with (
        answering(page) as server, proxy_folder() as place,
        proxy(place, servers=[server], **settings) as port,
    ):  # fmt: skip
        yield f"http://127.0.0.1:{port}"


@pytest.mark.proxy
def test_a_burst_of_uploads_is_answered_429_and_pages_are_not() -> None:
    arrived: list[str] = []

    def page(request: BaseHTTPRequestHandler) -> None:
        arrived.append(request.command)
        reply(request, 204 if request.command == "PUT" else 200)

    def upload(address: str) -> int:
        there = urlsplit(address)
        link = http.client.HTTPConnection(there.netloc, timeout=20)
        with contextlib.closing(link):
            link.request("PUT", f"{there.path}/_stcore/upload_file/a/b", b"some bytes")
            return link.getresponse().status

    with before(page, path="tools/posenc") as proxied, ThreadPoolExecutor(16) as crowd:
        address = f"{proxied}/tools/posenc"
        begin = time.monotonic()
        found = list(crowd.map(upload, [address] * 120))
        took = time.monotonic() - begin
        assert set(found) == {204, 429}
        # The first and 20 more at once, then 5 for each second that it took.
        assert 21 <= found.count(204) == arrived.count("PUT") <= 22 + 5 * took
        assert unfollowed(f"{address}/")[0] == unfollowed(f"{address}/_stcore/stream")[0] == 200
        time.sleep(0.5)  # nobody is shut out for long
        assert upload(address) == 204


@pytest.mark.proxy
def test_one_address_holds_200_connections_and_not_one_more() -> None:
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
        assert unfollowed(f"{address}/")[0] == 429
        release.set()
        assert link.getresponse().status == 200
        end = time.monotonic() + 20
        while unfollowed(f"{address}/")[0] == 429:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_the_bounds_are_those_of_the_readme() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    uploads, burst, connections = re.findall(
        r"uploads \((\d+) a second after the first (\d+)\) and connections \((\d+)\)", readme
    )[0]
    text = configure.configuration(**WORDS, folder="/tmp")
    assert f"zone=uploads:1m rate={uploads}r/s;" in text
    assert f"limit_req zone=uploads burst={burst} nodelay;" in text
    assert f"limit_conn addresses {connections};" in text
    # Both log their refusals with the whole link unless told otherwise.
    assert text.count("log_level info;") == 2


# What is served -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[Team]:
    """Two servers behind nginx, for the tests that leave them alive."""
    with team(tmp_path_factory.mktemp("team"), chromium) as found:
        yield found


@pytest.mark.long
@pytest.mark.proxy
@pytest.mark.browser
def test_answers_carry_the_headers_and_refuse_what_is_nobody_s(served: Team) -> None:
    status, headers, body = served.asked("/")
    assert (status, b"<title>Streamlit</title>" in body) == (200, True)
    assert headers["Content-Security-Policy"] == configure.policy()
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Server"] == "nginx"
    assert f"Path=/{PATH}; HttpOnly; SameSite=Lax" in headers["Set-Cookie"]
    assert "Set-Cookie" not in served.asked("/", Cookie="posenc_place=mine")[1]
    assert served.asked("/", host="evil.example")[0] == 421
    assert served.asked("/", host="evil.example", user="")[0] == 421
    assert served.asked("/", user="")[0] == 401
    assert served.asked("/_stcore/health", user="")[::2] == (200, b"ok")
    for path in ("/_stcore/metrics", "/_stcore/agent/openapi.json", "/component/x/index.html"):
        assert served.asked(path)[0] == 404, path
    assert served.asked("/../../")[0] in (400, 404)
    assert served.asked("/static/js/nothing.js")[1]["X-Content-Type-Options"] == "nosniff"


@pytest.mark.long
@pytest.mark.proxy
@pytest.mark.browser
@pytest.mark.parametrize(
    "link", [*PAGES, "extrapolation?half=measured", "similarity?predict=true", "?present=true"]
)
def test_no_page_breaks_the_policy(served: Team, link: str) -> None:
    """With every drawer open, and the menus above it."""
    guest = served.visitor("ann", served.servers[0])
    page = guest.open(link)
    for drawer in page.get_by_test_id("stExpander").locator("summary").all():
        if drawer.is_visible():
            drawer.click()
    settled(page)
    for menu in ("Copy link", "Python", "Export"):
        page.get_by_role("button", name=menu).first.click()
        page.wait_for_timeout(300)
        page.keyboard.press("Escape")
    settled(page)
    assert guest.violations() == []
    guest.leave()


@pytest.mark.long
@pytest.mark.proxy
@pytest.mark.browser
def test_the_watcher_of_the_policy_sees_what_it_looks_for(served: Team) -> None:
    guest = served.visitor("ann", served.servers[0])
    page = guest.open("pca")
    page.evaluate("document.head.append(Object.assign(document.createElement('script'), "
                  "{src: 'http://127.0.0.1:9/x.js'}))")  # fmt: skip
    page.wait_for_timeout(300)
    assert any("script-src" in one for one in guest.violations())


@pytest.mark.long
@pytest.mark.proxy
@pytest.mark.browser
def test_a_link_and_an_upload_come_through(served: Team) -> None:
    guest = served.visitor("ann", served.servers[1])
    page = guest.open("similarity?length=64&base=500&schemes=Learned&schemes=RoPE")
    assert asked(page)["base"] == 500
    unfold(page, "Upload a table")
    rows = np.random.default_rng(3).normal(size=(40, 16)).astype(np.float32)
    page.locator("input[type=file]").set_input_files(
        {
            "name": "model.safetensors",
            "mimeType": "application/octet-stream",
            "buffer": save({"wpe.weight": rows}),
        }
    )
    page.get_by_role("button", name="Use this table").click()
    subtitle = row(page, "similarity").locator(".subtitle").first
    expect(subtitle).to_contain_text("40x16 from model.safetensors")
    settled(page)
    again = guest.open(page.url.removeprefix(served.address + "/"))
    expect(row(again, "similarity").locator(".subtitle").first).to_contain_text("40x16")
    assert guest.violations() == []


def wait_for_line(one: Served, event: str) -> None:
    end = time.monotonic() + 60
    while not any(json.loads(line)["event"] == event for line in one.lines()):
        assert time.monotonic() < end
        time.sleep(0.1)


def start(page: Page, name: str) -> None:
    field = page.get_by_role("textbox", name="Name, if you like")
    field.fill(name)
    field.press("Enter")
    settled(page)
    page.get_by_role("button", name="Start", exact=True).click()


@pytest.mark.long
@pytest.mark.proxy
@pytest.mark.browser
def test_a_run_of_one_server_is_seen_at_the_other_and_is_its_owner_s(served: Team) -> None:
    ann, bob = (
        served.visitor(user, at) for user, at in zip(("ann", "bob"), served.servers, strict=True)
    )
    ours = ann.open(f"{START}&steps=1500")
    start(ours, "First of ann")
    expect(ours.get_by_text("First of ann (ann).").first).to_be_visible()
    theirs = bob.open("train")
    expect(theirs.get_by_text("First of ann (ann).").first).to_be_visible()
    expect(ours.get_by_role("button", name="Stop", exact=True)).to_have_count(1)
    expect(theirs.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
    forbidden = ann.violations()
    ann.leave()  # who started it need not stay
    expect(theirs.get_by_text("Finished on this server")).to_be_visible(timeout=120_000)
    expect(theirs.get_by_text("First of ann (ann). Task:")).to_be_visible()
    ann = served.visitor("ann", served.servers[0])
    expect(theirs.get_by_text("Name and hide what you trained")).to_have_count(0)
    mine = ann.open("train")
    expect(mine.get_by_text("Name and hide what you trained")).to_have_count(1)
    # Who says that they are ann is whoever the proxy says they are.
    bob.context.set_extra_http_headers({HEADER: "ann"})
    liar = bob.open("train")
    expect(liar.get_by_text("First of ann (ann). Task:")).to_be_visible()
    expect(liar.get_by_text("Name and hide what you trained")).to_have_count(0)
    assert forbidden + ann.violations() + bob.violations() == []


@pytest.mark.long
@pytest.mark.proxy
@pytest.mark.browser
def test_a_server_that_dies_takes_no_view_and_no_run_with_it(
    tmp_path: Path, chromium: Browser
) -> None:
    with team(tmp_path, chromium) as served:
        first, second = served.servers
        guest = served.visitor("ann", first)
        running = guest.open(f"{START}&steps=4000")
        start(running, "Outlives its server")
        expect(running.get_by_text("Outlives its server (ann).").first).to_be_visible()
        page = guest.open("similarity?length=48&base=500&schemes=RoPE&schemes=ALiBi")
        before, address = headline(page).inner_text(), page.url
        app = page.get_by_test_id("stApp")
        first.kill()
        expect(app).not_to_have_attribute("data-test-connection-state", "CONNECTED")
        expect(app).to_have_attribute("data-test-connection-state", "CONNECTED", timeout=60_000)
        assert page.url == address
        # The other server has never met this browser: what is touched first brings the link's view back.
        dial(page, "Positions shown").focus()
        page.keyboard.press("ArrowRight")
        wait_for_line(second, "session_begun")
        settled(page)
        assert (headline(page).inner_text(), page.url) == (before, address)
        dial(page, "Positions shown").focus()
        page.keyboard.press("ArrowRight")
        expect(page).not_to_have_url(address, timeout=30_000)
        settled(page)
        assert asked(page)["base"] == 500  # and all else that the browser held
        page.goto(address)
        settled(page)
        assert headline(page).inner_text() == before
        assert served.place(second)
        # The worker went with its server; whoever looks next has the other one go on.
        end = time.monotonic() + 200
        guest.open("train")
        while not (ids := Store(tmp_path / "runs").ids()):
            assert time.monotonic() < end, second.log.read_text()[-2_000:]
            time.sleep(0.5)
        assert [one.name for one in Labels(tmp_path / "runs").all()[ids[0]]] == [
            "Outlives its server"
        ]
        events = [json.loads(text) for text in second.lines()]
        assert {"run": ids[0], "event": "run_finished"}.items() <= next(
            one for one in events if one["event"] == "run_finished"
        ).items()
        assert not [one for one in events if one["event"] == "incident"]


@pytest.mark.long
@pytest.mark.proxy
@pytest.mark.browser
def test_streamlit_s_own_login_passes_the_proxy_and_its_policy(
    tmp_path: Path, chromium: Browser
) -> None:
    """Below a path, with claims as long as those of somebody in many groups."""
    port = free_port()
    (tmp_path / ".streamlit").mkdir()
    with provider() as played, proxy_folder() as place:
        played.person = {
            "email": "ann@example.org",
            "groups": [str(uuid.uuid4()) for _ in range(60)],
        }
        secrets = played.secrets(f"http://{HOST}:{port}/{PATH}")
        (tmp_path / ".streamlit" / "secrets.toml").write_text(secrets)
        kind = {"POSENC_PROFILE": "shared", "POSENC_PATH": PATH}
        with (
            server(tmp_path, HOME=str(tmp_path), **kind) as one,
            proxy(place, port=port, servers=[f"{HOST}:{one.port}"], path=PATH),
        ):
            found = Team(port, place, [one], chromium)
            context = chromium.new_context(**SCREENS[1440])
            context.add_init_script(LISTEN)
            guest = Guest(found, context)
            page = guest.open("similarity?base=500")
            link, sidebar = page.url, page.get_by_test_id("stSidebar")
            for press, shown in (("Log in", "Log out"), ("Log out", "Log in")):
                with page.expect_navigation(url=link):
                    sidebar.get_by_role("button", name=press, exact=True).click()
                expect(sidebar.get_by_role("button", name=shown, exact=True)).to_be_visible()
                settled(page)
                assert guest.violations() == []
            context.close()


def test_the_command_of_the_readme_writes_what_it_says() -> None:
    text = (ROOT / "README.md").read_text()
    (said,) = re.findall(r"`(python \.deploy/configure\.py [^`>]+)>", text)
    words = said.split()[2:]
    ran = subprocess.run(
        [sys.executable, str(ROOT / ".deploy" / "configure.py"), *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    for word in words:
        assert word.startswith("--") or word in ran.stdout
    for option in re.findall(r"`(--[a-z]+)`", text.partition("**Proxy.**")[2].partition("- **")[0]):
        assert (
            option in configure.LOGINS
            or f'"{option}"' in (ROOT / ".deploy" / "configure.py").read_text()
        )
