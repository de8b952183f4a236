"""Hostile requests at a server's own socket: addresses, hosts, uploads; and what its log says of them."""

import contextlib
import http.client
import random
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.web.server.starlette.starlette_app_utils import generate_xsrf_token_string
from streamlit.web.server.starlette.starlette_routes import XSRF_COOKIE_NAME
from websockets.exceptions import InvalidStatus

from dashboard.limits import MAX_UPLOAD_BYTES
from dashboard.server import upload_limit
from tests.dashboard.test_state import QUERIES
from tests.library.safetensors_checks import MEBIBYTE
from tests.server.served_process import HOST, ROOT, Served, server, visiting

PAGES = ("", "similarity", "pca", "encoding", "overview", "claims", "train", "context_planner")
NAMES = ("dim", "base", "a", "model", "schemes", "length", "\ufeff", "x")
CHARACTERS = "%00%ff&=+~<>\"';\\\u202e\U0001f600٣-1e9"


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A shared server under a path, without uploads."""
    words = {"POSENC_PROFILE": "shared", "POSENC_PATH": "tools/posenc"}
    hosts = f"demo.example.org,{HOST}"
    with server(tmp_path_factory.mktemp("hosted"), POSENC_HOSTS=hosts, **words) as one:
        yield one
    assert "Traceback" not in one.log.read_text()


def faults(served: Served, page: str, query: str) -> list[str]:
    """Return what is wrong with the answer to a link: an exception, an incident, no title."""
    with visiting(served, page, query) as messages:
        shown = [one.delta.new_element for one in messages if one.HasField("delta")]
    wrong = [str(part.exception)[:200] for part in shown if part.HasField("exception")]
    wrong += [part.alert.body for part in shown if "as incident" in part.alert.body]
    titled = any(part.heading.tag == "h1" for part in shown if part.HasField("heading"))
    return wrong if titled else [*wrong, "no title"]


def test_hostile_addresses_draw_their_page_and_the_server_goes_on(hosted: Served) -> None:
    draw = random.Random(7)
    for query in QUERIES[:: len(QUERIES) // 8]:  # all of them: tests/dashboard
        assert faults(hosted, "similarity", query) == [], query[:80]
    for page in PAGES:  # raw percent signs, NUL and halves of characters
        query = f"{draw.choice(NAMES)}={''.join(draw.choices(CHARACTERS, k=40))}"
        assert faults(hosted, page, query) == [], (page, query)
    refused = {400, 414, 431}
    for size, allowed in ((50_000, {200}), (70_000, {200} | refused), (1_000_000, refused)):
        with contextlib.closing(http.client.HTTPConnection(HOST, hosted.port, timeout=60)) as link:
            link.request("GET", f"{hosted.path}/similarity?base={'9' * size}")
            assert link.getresponse().status in allowed, size
    assert faults(hosted, "similarity", "dim=64") == []


def metrics(served: Served) -> str:
    with urllib.request.urlopen(f"{served.address}/_stcore/metrics", timeout=60) as answer:
        text = answer.read().decode()
    assert "xyzzy" not in text
    return text


def test_log_and_metrics_hold_no_words_of_visitors_and_other_hosts_are_refused(
    hosted: Served,
) -> None:
    with pytest.raises(InvalidStatus, match="403"), visiting(hosted, host="evil.example"):
        pass
    query = "learned_source=xyzzy&a=xyzzy&hub_model=xyzzy&present=true"
    for page in ("", "similarity"):
        with visiting(hosted, page, query, "demo.example.org") as found:
            assert sum(message.WhichOneof("type") == "delta" for message in found) > 5
    assert "active_sessions 0" in metrics(hosted)
    assert "xyzzy" not in hosted.log.read_text()


def test_refusals_show_no_path_and_no_code_of_the_server(hosted: Served) -> None:
    for path in ("/_stcore/upload_file/x/y", "/media/../../etc/passwd", "/component/../../app.py"):
        try:
            with urllib.request.urlopen(hosted.address + path, timeout=60) as answer:
                text = answer.read(100_000).decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(100_000).decode("utf-8", "replace")
        for part in ("Traceback", "site-packages", "root:x:", str(ROOT), "import streamlit"):
            assert part not in text


BOUNDARY = "posenc-boundary"
HEAD = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="m.safetensors"\r\n'
    "Content-Type: application/octet-stream\r\n\r\n"
).encode()
TAIL = f"\r\n--{BOUNDARY}--\r\n".encode()


def session_of(messages: list[ForwardMsg]) -> str:
    (start, *_) = [one.new_session for one in messages if one.WhichOneof("type") == "new_session"]
    return str(start.initialize.session_id)


@pytest.fixture(scope="module")
def small_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One that holds 2 MiB of files, and two of 512 KiB more."""
    module = ("tests.dashboard.small_uploads", str(2 * MEBIBYTE), str(MEBIBYTE // 2))
    with server(tmp_path_factory.mktemp("small"), module=module) as one:
        yield one
    assert "Traceback" not in one.log.read_text()


@pytest.fixture
def session(small_server: Served) -> Iterator[str]:
    with visiting(small_server) as messages:
        yield session_of(messages)


def put(
    to: Served,
    session: str,
    length: int | str | None,
    *,
    token: bool = True,
    file: str = "a-file",
    body: bytes = b"",
) -> socket.socket:
    """Begin an upload; length None is in chunks.

    token: as a browser sends it with its cookie. body: what is sent in one piece with the headers; a
    server that refuses these and hangs up resets a connection on which more is on its way.
    """
    link = socket.create_connection((HOST, to.port), timeout=60)
    path = f"{urlsplit(to.address).path}/_stcore/upload_file/{session}/{file}"
    lines = [f"PUT {path} HTTP/1.1", f"Host: {HOST}:{to.port}", "Connection: close"]
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    lines.append(f"Content-Type: multipart/form-data; boundary={BOUNDARY}")
    xsrf = generate_xsrf_token_string()
    lines += [f"Cookie: {XSRF_COOKIE_NAME}={xsrf}", f"X-Xsrftoken: {xsrf}"] if token else []
    link.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return link


def answer(link: socket.socket) -> tuple[int, str]:
    found = b""
    while part := link.recv(65_536):
        found += part
    assert found, "the server closed the connection without an answer"
    head, _, text = found.partition(b"\r\n\r\n")
    return int(head.split()[1]), text.decode()


def upload(to: Served, session: str, file: str, content: bytes) -> tuple[int, str]:
    """Upload a file under an id; return the status and the text of the answer."""
    body = HEAD + content + TAIL
    with put(to, session, len(body), file=file) as link:
        link.sendall(body)
        return answer(link)


def resident(served: Served) -> float:
    statm = Path(f"/proc/{served.process.pid}/statm").read_text()
    return int(statm.split()[1]) * 4_096 / MEBIBYTE


def healthy(served: Served) -> bool:
    return urllib.request.urlopen(f"{served.address}/_stcore/health", timeout=10).read() == b"ok"


@pytest.mark.parametrize("length", [MAX_UPLOAD_BYTES + 1, 10**18, "-1", "x", ""])
def test_upload_of_too_large_or_no_stated_length_is_refused_before_its_body(
    small_server: Served, session: str, length: int | str
) -> None:
    with put(small_server, session, length) as link:
        assert answer(link)[0] == (413 if isinstance(length, int) else 400)
    assert healthy(small_server)


def test_upload_in_chunks_without_a_length_is_refused_before_its_body(
    small_server: Served, session: str
) -> None:
    before = resident(small_server)
    with put(small_server, session, None) as link:
        assert answer(link) == (411, upload_limit.NO_LENGTH)
        chunk = f"{MEBIBYTE:x}\r\n".encode() + bytes(MEBIBYTE) + b"\r\n"
        with contextlib.suppress(OSError):  # the server has hung up
            for _ in range(64):
                link.sendall(chunk)
    assert resident(small_server) - before < 15
    assert healthy(small_server)


def test_upload_without_session_form_token_is_refused(small_server: Served, session: str) -> None:
    body = HEAD + b"x" + TAIL
    for owner, content, token, expected in (
        ("00000000-0000-0000-0000-000000000000", body, True, {400}),
        ("..%2f..%2fetc", body, True, {400, 404}),
        (session, b"no form at all", True, {400}),
        (session, TAIL, True, {400}),
        (session, body, False, {403}),  # from another site
    ):
        with put(small_server, owner, len(content), token=token, body=content) as link:
            assert answer(link)[0] in expected
    with put(small_server, session, 10) as link:  # bytes past the stated length
        with contextlib.suppress(OSError):  # it may have answered and hung up by now
            link.sendall(HEAD + bytes(2 * MEBIBYTE) + TAIL)
        with contextlib.suppress(ConnectionError):
            assert answer(link)[0] == 400
    assert healthy(small_server)


def test_files_under_fresh_ids_never_fill_the_memory(small_server: Served) -> None:
    """One session, no page that asks for a file: at 2 MiB and two files of 512 KiB no more comes in."""
    content = bytes(MEBIBYTE // 4)
    with visiting(small_server) as first, visiting(small_server) as second:
        own, other = session_of(first), session_of(second)
        answers = [upload(small_server, own, f"id-{n}", content) for n in range(20)]
        # A twelfth, with its name, is more than 3 MiB.
        assert [status for status, _ in answers] == [204] * 11 + [503] * 9
        assert {*answers[11:]} == {(503, upload_limit.FULL)}
        assert upload(small_server, other, "id-0", content) == (503, upload_limit.FULL)
        assert upload(small_server, own, "id-0", b"")[0] == 204  # in the place of the first
        assert upload(small_server, other, "id-0", bytes(MEBIBYTE // 8))[0] == 204
