"""Uploads over their cap, by raw HTTP at the served app: refused while they stream, and never kept."""

import contextlib
import io
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.web.server.starlette.starlette_app_utils import generate_xsrf_token_string
from streamlit.web.server.starlette.starlette_routes import XSRF_COOKIE_NAME
from websockets.sync.client import connect

from dashboard import uploads
from posenc.limits import MAX_UPLOAD_BYTES
from tests.pages import drawn
from tests.served_process import server, visiting
from tests.test_page_uploads import checkpoint, uploaded, use

MEBIBYTE = 2**20
BOUNDARY = "posenc-boundary"
HEAD = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="m.safetensors"\r\n'
    "Content-Type: application/octet-stream\r\n\r\n"
).encode()
DRAWN = (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_WITH_COMPILE_ERROR)
TAIL = f"\r\n--{BOUNDARY}--\r\n".encode()


@pytest.fixture
def session(address: str) -> Iterator[str]:
    """The id of a session of the served app, open as long as the test runs."""
    place = f"{address.replace('http', 'ws')}/_stcore/stream"
    with connect(place, subprotocols=["streamlit"], max_size=None) as link:  # type: ignore[list-item]
        asked = BackMsg()
        asked.rerun_script.query_string = ""
        link.send(asked.SerializeToString())
        name = ""
        while True:  # until the page is drawn: what it loads is no growth by an upload
            said = ForwardMsg()
            said.ParseFromString(link.recv(timeout=60))  # type: ignore[arg-type]
            kind = said.WhichOneof("type")
            name = said.new_session.initialize.session_id if kind == "new_session" else name
            if kind == "script_finished" and said.script_finished in DRAWN:
                break
        yield name


def put(
    address: str,
    session: str,
    headers: dict[str, str],
    *,
    known: bool = True,
    file: str = "some-file",
) -> socket.socket:
    """Begin an upload: everything but its body."""
    place = urlsplit(address)
    link = socket.create_connection((place.hostname, place.port), timeout=30)
    lines = [f"PUT /_stcore/upload_file/{session}/{file} HTTP/1.1", f"Host: {place.netloc}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    # What a browser sends along: the token of its cookie. Any pair that matches is taken.
    token = generate_xsrf_token_string()
    lines += [f"Cookie: {XSRF_COOKIE_NAME}={token}", f"X-Xsrftoken: {token}"] if known else []
    lines += [
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}",
        "Connection: close",
        "",
        "",
    ]
    link.sendall("\r\n".join(lines).encode())
    return link


def status(link: socket.socket) -> int:
    """The status of the answer."""
    line = b""
    while b"\r\n" not in line:
        got = link.recv(4_096)
        assert got, "the server closed the connection without an answer"
        line += got
    return int(line.split()[1])


def resident(address: str) -> float:
    """MiB of memory of the process that serves an address, a child of this one."""
    port = str(urlsplit(address).port)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == os.getpid() and f"--server.port={port}".encode() in words:
                return int((entry / "statm").read_text().split()[1]) * 4_096 / MEBIBYTE
        except (OSError, ValueError):
            continue
    pytest.skip("the server's memory cannot be read here")


def healthy(address: str) -> bool:
    with urllib.request.urlopen(f"{address}/_stcore/health", timeout=10) as answer:
        return answer.read() == b"ok"


@pytest.mark.browser
def test_an_upload_that_says_it_is_too_large_is_refused_before_its_body(
    address: str, session: str
) -> None:
    for size in (MAX_UPLOAD_BYTES + 1, 2 * 2**30, 10**18):
        with put(address, session, {"Content-Length": str(size)}) as link:
            assert status(link) == 413
    for size in ("-1", "1e3", "x", ""):
        with put(address, session, {"Content-Length": size}) as link:
            assert status(link) in (400, 413)
    assert healthy(address)


@pytest.mark.browser
def test_an_upload_without_an_end_is_refused_while_it_streams(address: str, session: str) -> None:
    """2 GB in pieces, its length never told: cut off at the cap, and the memory goes back."""
    before = resident(address)
    piece = bytes(MEBIBYTE)
    chunk = f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
    sent, most = 0, before
    with put(address, session, {"Transfer-Encoding": "chunked"}) as link:
        link.sendall(f"{len(HEAD):x}\r\n".encode() + HEAD + b"\r\n")
        with contextlib.suppress(OSError):  # it has hung up
            while sent < 2_048:
                link.sendall(chunk)
                sent += 1
                if sent % 8 == 0:
                    most = max(most, resident(address))
        # Else reset with our data on the way; that it stopped is what counts.
        with contextlib.suppress(ConnectionError):
            assert status(link) == 413
    cap = MAX_UPLOAD_BYTES // MEBIBYTE
    assert sent < 2 * cap, sent
    assert most - before <= cap + 15, most - before
    assert healthy(address)
    deadline = time.monotonic() + 20
    while resident(address) - before > 15 and time.monotonic() < deadline:
        time.sleep(0.5)
    assert resident(address) - before <= 15


@pytest.mark.browser
def test_an_upload_for_nobody_or_of_another_form_is_refused(address: str, session: str) -> None:
    body = HEAD + b"x" + TAIL
    for who, content, expected in (
        ("00000000-0000-0000-0000-000000000000", body, {400}),
        ("..%2f..%2fetc", body, {400, 404}),
        (session, b"no form at all", {400}),
        (session, TAIL, {400}),
    ):
        with put(address, who, {"Content-Length": str(len(content))}) as link:
            link.sendall(content)
            assert status(link) in expected
    with put(address, session, {"Content-Length": str(len(body))}, known=False) as link:
        assert status(link) == 403  # from another site, without the cookie
    assert healthy(address)


@pytest.mark.browser
def test_a_length_that_lies_is_held_to(address: str, session: str) -> None:
    """What follows the length that was told is no part of the file."""
    with put(address, session, {"Content-Length": "10"}) as link:
        with contextlib.suppress(OSError):  # it may have answered and hung up by now
            link.sendall(HEAD + bytes(2 * MEBIBYTE) + TAIL)
        with contextlib.suppress(ConnectionError):
            assert status(link) == 400
    assert healthy(address)


def answered(address: str, session: str, file: str, content: bytes) -> tuple[int, str]:
    """Upload a file under an id: the status and the text of the answer."""
    body = HEAD + content + TAIL
    said = b""
    with put(address, session, {"Content-Length": str(len(body))}, file=file) as link:
        link.sendall(body)
        while got := link.recv(65_536):
            said += got
    head, _, text = said.partition(b"\r\n\r\n")
    return int(head.split()[1]), text.decode()


def session_of(found: list[ForwardMsg]) -> str:
    """The id of a session, from what it was sent."""
    said = [one.new_session for one in found if one.WhichOneof("type") == "new_session"]
    return said[0].initialize.session_id


def test_files_under_fresh_ids_never_fill_the_memory(tmp_path: Path) -> None:
    """One session, no page that asks for a file: at 2 MiB and two files of 512 KiB no more comes in."""
    module = ("tests.small_uploads", str(2 * MEBIBYTE), str(MEBIBYTE // 2))
    content = bytes(MEBIBYTE // 4)
    with server(tmp_path, module=module) as one, visiting(one) as found, visiting(one) as others:
        ours, theirs = map(session_of, (found, others))
        said = [answered(one.address, ours, f"id-{n}", content) for n in range(40)]
        taken = [n for n, (status, _) in enumerate(said) if status == 204]
        assert taken == [*range(11)]  # a twelfth, with its name, is more than 3 MiB
        assert {*said[11:]} == {(503, uploads.FULL)}
        assert answered(one.address, theirs, "id-0", content) == (503, uploads.FULL)
        assert (
            answered(one.address, ours, "id-0", content)[0] == 204
        )  # instead of the one that is there
        assert answered(one.address, ours, "id-0", b"")[0] == 204
        assert answered(one.address, theirs, "id-0", bytes(MEBIBYTE // 8))[0] == 204
        assert healthy(one.address)
        with visiting(one, "similarity") as again:
            assert sum(message.WhichOneof("type") == "delta" for message in again) > 5
        assert "Traceback" not in one.log.read_text()
        assert sum("upload_refused" in line for line in one.lines()) == 40 - 11 + 1


def test_where_uploads_are_off_no_file_comes_in(tmp_path: Path) -> None:
    with server(tmp_path, POSENC_UPLOADS="0") as one, visiting(one) as found:
        session = session_of(found)
        for n in range(3):
            said = answered(one.address, session, f"id-{n}", bytes(1_000))
            assert said == (403, uploads.SWITCHED_OFF)
        assert healthy(one.address)
        assert "Traceback" not in one.log.read_text()


@pytest.mark.browser
def test_the_server_tells_no_path_and_no_version_of_ours_in_what_it_refuses(address: str) -> None:
    for path in ("/_stcore/upload_file/x/y", "/media/../../etc/passwd", "/component/../../app.py"):
        try:
            with urllib.request.urlopen(address + path, timeout=10) as answer:
                said = answer.read(100_000).decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            said = error.read(100_000).decode("utf-8", "replace")
        for part in ("Traceback", "site-packages", "root:x:", str(Path.cwd()), "import streamlit"):
            assert part not in said


@pytest.mark.usefixtures("no_shape_checks")
def test_the_bytes_of_a_table_in_use_are_in_no_session() -> None:
    rows = np.random.default_rng(0).normal(size=(512, 1_024)).astype(np.float32)
    content = checkpoint(wpe__weight=rows)
    at = drawn(use(uploaded(content)))
    assert at.sidebar.get("file_uploader")[0].value is None
    held = {name: at.session_state[name] for name in at.session_state._state.filtered_state}
    for name, value in held.items():
        size = len(value) if isinstance(value, bytes | str) else len(repr(value))
        assert size < 100_000, name
        assert not isinstance(value, io.BytesIO), name  # which an uploaded file is
