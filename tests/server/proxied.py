"""nginx in front of two servers of one team, as .deploy sets it up, and visitors that come through it."""

import base64
import contextlib
import http.client
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.browser import DRAWN, SCREENS, find_nginx, settled
from tests.server.served_process import HOST, ROOT, Served, free_port, server

PATH = "tools/posenc"
PATIENCE = 200_000  # milliseconds, on a busy machine
HEADER = "X-Posenc-User"
PEOPLE = {"ann": "of-ann", "bob": "of-bob"}
VARIABLES = {
    "POSENC_UPLOADS": "1", "POSENC_RUNNING": "1", "POSENC_PATH": PATH,
    "POSENC_USER_HEADER": HEADER, "POSENC_HOSTS": HOST,
}  # fmt: skip

# Notes every violation of the policy.
LISTEN = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__violations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}`));
"""


EXAMPLE = (ROOT / ".deploy" / "nginx.conf").read_text()
# What a page may load, as the example puts it together.
POLICY = "".join(re.findall(r'^ *set \$policy "(?:\$policy)?(.*)";$', EXAMPLE, re.MULTILINE))


def configuration(
    *, servers: list[str], listen: str, folder: str, host: str = HOST, path: str = "",
    login: str = "none", login_url: str = "http://127.0.0.1:4180",
) -> str:  # fmt: skip
    """Return the example after the changes that its head describes."""
    text = EXAMPLE.replace(f"#{login} ", "")
    known = {"none": "''", "basic": "$remote_user", "request": "$login_user"}[login]
    addresses = "\n".join(f"        server {one} max_fails=1 fail_timeout=5s;" for one in servers)
    text = re.sub(r"(?m)(^ *server 127\.0\.0\.1:850\d .*\n?)+", addresses + "\n", text)
    if not path:
        text = re.sub(r"(?m)^.*# with a path$", "", text)
    for old, new in (
        ("demo.example.org", host),
        ("127.0.0.1:8080", listen),
        ("/var/lib/posenc-proxy", folder),
        ("/tools/posenc", f"/{path}" if path else ""),
        ("proxy_set_header X-Posenc-User ''", f"proxy_set_header X-Posenc-User {known}"),
        ("http://127.0.0.1:4180", login_url),
    ):
        assert old in text, old
        text = text.replace(old, new)
    return text


@dataclass
class Doors:
    """nginx between a service of logins and a server, both played here, and what each of them heard."""

    address: str
    host: str
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
        self.known.append({key.lower(): value for key, value in request.headers.items()})
        reply(request, 200, b"the page at " + request.path.encode())


@dataclass
class Team:
    port: int
    folder: Path
    servers: list[Served]
    chromium: Browser
    contexts: list[BrowserContext] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/{PATH}"

    def asked(
        self, path: str = "/", *, user: str = "ann", **headers: Any
    ) -> tuple[int, Message, bytes]:
        """Ask for a path without a browser: the status, the headers, the body."""
        return ask(f"{self.address}{path}", user=user, **headers)

    def place(self, of: Served) -> str:
        """Return a word for the sticky cookie with which the proxy sends a visitor to this server."""
        log = self.folder / "access.log"
        for n in range(64):
            before = log.stat().st_size
            self.asked("/favicon.png", Cookie=f"posenc_place=place{n}")
            end = time.monotonic() + 10
            while log.stat().st_size == before:
                assert time.monotonic() < end, "the proxy logs nothing"
                time.sleep(0.01)
            if f"{HOST}:{of.port} " in log.read_text().splitlines()[-1]:
                return f"place{n}"
        raise AssertionError("every place leads to the other server")

    def visitor(self, user: str, at: Served) -> "Guest":
        context = self.chromium.new_context(
            **SCREENS[1440], http_credentials={"username": user, "password": PEOPLE[user]}
        )
        context.add_init_script(LISTEN)
        place = {"name": "posenc_place", "value": self.place(at)}
        context.add_cookies([{**place, "domain": HOST, "path": f"/{PATH}"}])  # type: ignore[typeddict-item]
        self.contexts.append(context)
        return Guest(self, context)


@dataclass
class Guest:
    """A browser of one person; what its pages say on the console is kept."""

    team: Team
    context: BrowserContext
    said: list[str] = field(default_factory=list)

    def open(self, link: str = "") -> Page:
        """Open a link in a new tab and wait until it is drawn."""
        page = self.context.new_page()
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.goto(f"{self.team.address}/{link}")
        page.wait_for_function(DRAWN, timeout=PATIENCE)  # the first page of a server imports it all
        settled(page)
        return page

    def leave(self) -> None:
        self.context.close()
        self.team.contexts.remove(self.context)

    def violations(self) -> list[str]:
        """What the policy forbade so far, by its own event and by the console."""
        found = [one for page in self.context.pages for one in page.evaluate("window.__violations")]
        words = ("Content Security Policy", "Content-Security-Policy", "Refused to")
        return found + [text for text in self.said if any(word in text for word in words)]


def ask(
    address: str, *, user: str = "", sent: bytes | None = None, **headers: str
) -> tuple[int, Message, bytes]:
    """Ask for an address, or put something there; no redirect is followed."""
    words = {name.replace("_", "-"): value for name, value in headers.items()}
    if user:
        login = f"{user}:{PEOPLE[user]}".encode()
        words["Authorization"] = "Basic " + base64.b64encode(login).decode()
    place = urlsplit(address).netloc
    link = http.client.HTTPConnection(place, timeout=20)
    with contextlib.closing(link):
        path = address.removeprefix(f"http://{place}")
        link.request("GET" if sent is None else "PUT", path, sent, words)
        found = link.getresponse()
        return found.status, found.headers, found.read()


@contextlib.contextmanager
def team(
    folder: Path, chromium: Browser, *, profile: str = "shared", **settings: Any
) -> Iterator[Team]:
    """Serve twice with one store and one queue, and put nginx before both."""
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(proxy_folder())
        people = place / "people"
        people.write_text("".join(f"{name}:{{PLAIN}}{word}\n" for name, word in PEOPLE.items()))
        variables = {**VARIABLES, "POSENC_PROFILE": profile}
        begun = (server(folder, name, **variables) for name in ("one", "two"))
        servers = [stack.enter_context(one) for one in begun]
        port = stack.enter_context(
            proxy(
                place, servers=[f"{HOST}:{one.port}" for one in servers], path=PATH,
                login="basic", **settings,
            )
        )  # fmt: skip
        found = Team(port, place, servers, chromium)
        yield found
        for context in found.contexts:
            context.close()


@contextlib.contextmanager
def proxy_folder() -> Iterator[Path]:
    """Yield a folder for nginx: not below the test's own, where its worker, nobody, may not go."""
    place = Path(tempfile.mkdtemp(prefix="posenc-proxy-"))
    place.chmod(0o755)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def proxy(place: Path, *, port: int = 0, **settings: Any) -> Iterator[int]:
    """Run nginx as .deploy sets it up, at a port that is yielded, until it is told to end."""
    nginx, port = find_nginx(), port or free_port()
    assert nginx is not None
    (place / "nginx.conf").write_text(
        configuration(listen=f"{HOST}:{port}", folder=str(place), **settings)
    )
    command = [nginx, "-p", str(place), "-c", str(place / "nginx.conf"), "-g", "daemon off;"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        health = f"{settings['path']}/_stcore/health" if settings.get("path") else "_stcore/health"
        end, answer = time.monotonic() + 60, 0
        while answer != 200:
            assert time.monotonic() < end, f"the proxy answers {answer}"
            assert process.poll() is None, process.communicate()[1].decode()
            with contextlib.suppress(OSError):
                answer = ask(f"http://{HOST}:{port}/{health}")[0]
            time.sleep(0.05)
        yield port
    finally:
        process.send_signal(signal.SIGQUIT)
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Answer every request of GET and PUT with a function, in place of a server; yields host:port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"  # one request each: nobody waits for a connection to close

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer(self)

        def do_PUT(self) -> None:
            self.do_GET()

        def log_message(self, *words: object) -> None:
            """Nobody reads it."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 512

    with running(Server((HOST, 0), Handler)) as address:
        yield address


@contextlib.contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[str]:
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"{HOST}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def reply(to: BaseHTTPRequestHandler, status: int, body: bytes = b"", **named: str | None) -> None:
    """Answer a request; a header that is None is left out."""
    to.send_response(status)
    for name, value in named.items():
        if value is not None:
            to.send_header(name.replace("_", "-"), value)
    to.send_header("Content-Length", str(len(body)))
    to.end_headers()
    to.wfile.write(body)
