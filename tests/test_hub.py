"""A learned table by a model's name on the Hub, against a local server that speaks ranges, or lies."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import safetensors.torch
import torch

from posenc import limits
from posenc.errors import CheckpointError
from posenc.interop import hub_table, read_position_table

huggingface_hub = pytest.importorskip("huggingface_hub")
FILE = "/models/tiny/resolve/main/model.safetensors"
Answer = Callable[["Handler", int, int], None]


def checkpoint() -> bytes:
    """A small BERT-like file: the table is 1.2 % of it."""
    draw = torch.Generator().manual_seed(3)
    return safetensors.torch.save(
        {
            "embeddings.position_embeddings.weight": torch.randn(128, 16, generator=draw),
            "embeddings.word_embeddings.weight": torch.zeros(20_000, 32),
            "encoder.layer.0.attention.self.query.weight": torch.zeros(64, 64),
        }
    )


class Handler(BaseHTTPRequestHandler):
    """Answers range requests; `server.answer` may answer in its own way."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        assert asked is not None
        start, end = int(asked[1]), min(int(asked[2]), len(self.server.content) - 1)
        answer = self.server.answers.get(len(self.server.seen), self.server.answer)
        answer(self, start, end)

    def log_message(self, *arguments: Any) -> None:
        pass

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        self.server.sent += len(body)

    def piece(self, start: int, end: int, **headers: str) -> None:
        told = f"bytes {start}-{end}/{len(self.server.content)}"
        body = self.server.content[start : end + 1]
        self.send(206, body, **({"Content_Range": told, "ETag": '"one"'} | headers))


class Server(ThreadingHTTPServer):
    """What was asked, what was sent, and how each request is answered, the first being number 1."""

    daemon_threads = True
    content = checkpoint()
    sent = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.answer: Answer = Handler.piece
        self.answers: dict[int, Answer] = {}

    def handle_error(self, *arguments: Any) -> None:
        """Say nothing: a client that turns away mid-answer is what is tested."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        home = f"http://127.0.0.1:{found.server_address[1]}"
        monkeypatch.setenv("POSENC_HUB", "1")
        monkeypatch.setenv("no_proxy", "*")
        own = partial(huggingface_hub.hf_hub_url, endpoint=home)
        monkeypatch.setattr(huggingface_hub, "hf_hub_url", own)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        yield found
        found.shutdown()


def refusal(**more: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        hub_table("models/tiny", **more)
    message = str(caught.value)
    assert message.endswith((".", '"model.safetensors")'))  # the second, where a pickle is told off
    assert "127.0.0.1" not in message
    return message


def test_the_table_is_the_one_of_the_whole_file_and_little_else_is_fetched(server: Server) -> None:
    found = hub_table("models/tiny")
    whole = read_position_table(server.content)
    assert torch.equal(found.table, whole.table)
    assert found.sha256 == whole.sha256
    assert found.provenance.startswith("trained table 128x16 from models/tiny, model.safetensors")
    header = int.from_bytes(server.content[:8], "little")
    assert server.sent <= 4_096 + header + 128 * 16 * 4
    assert server.sent < 0.02 * len(server.content)
    for path, headers in server.seen:
        assert path == FILE
        assert headers["Range"].startswith("bytes=")
        assert not {"Authorization", "Cookie"} & set(headers)


def test_a_file_shorter_than_the_first_request_is_read_too(server: Server) -> None:
    server.content = safetensors.torch.save({"wpe.weight": torch.ones(4, 2).cumsum(0)})
    assert hub_table("models/tiny").table.tolist() == [[1, 1], [2, 2], [3, 3], [4, 4]]
    assert len(server.seen) == 1


def test_a_tensor_can_be_named(server: Server) -> None:
    found = hub_table("models/tiny", "encoder.layer.0.attention.self.query.weight")
    assert found.table.shape == (64, 64)
    assert "holds no tensor named x" in refusal(tensor="x")


def test_redirects_are_followed_on_the_same_place_only(server: Server) -> None:
    def moved(handler: Handler, start: int, end: int) -> None:
        handler.send(302, b"", Location="/elsewhere/file")

    server.answers = {1: moved}
    assert hub_table("models/tiny").table.shape == (128, 16)
    assert [path for path, _ in server.seen[:3]] == [FILE, "/elsewhere/file", "/elsewhere/file"]


@pytest.mark.parametrize(
    "place",
    [
        "http://169.254.169.254/latest", "http://localhost:1/x", "file:///etc/passwd", "ftp://a/b",
        "https://huggingface.co.evil.example/x", "https://evilhf.co/x", "http://huggingface.co/x",
        "https://user:word@huggingface.co/x", "https://huggingface.co:22/x", "//10.0.0.1/x",
        "https://[::1/x",
    ],
)  # fmt: skip
def test_a_redirect_to_any_other_place_is_refused(server: Server, place: str) -> None:
    server.answer = lambda handler, start, end: handler.send(302, b"", Location=place)
    assert "redirected to a place that is not its own" in refusal()
    assert len(server.seen) == 1


def test_a_circle_of_redirects_ends(server: Server) -> None:
    server.answer = lambda handler, start, end: handler.send(307, b"", Location=FILE)
    assert "redirected more than 4 times" in refusal()
    server.answer = lambda handler, start, end: handler.send(
        302, b""
    )  # to nowhere: the same address
    assert "redirected more than 4 times" in refusal()


def truncated(handler: Handler, start: int, end: int) -> None:
    body = handler.server.content[start : end + 1]
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes {start}-{end}/{len(handler.server.content)}")
    handler.send_header("ETag", '"one"')
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])
    handler.close_connection = True


def shifted(handler: Handler, start: int, end: int) -> None:
    told = f"bytes {start + 1}-{end + 1}/{len(handler.server.content)}"
    handler.send(206, handler.server.content[start : end + 1], Content_Range=told, ETag='"one"')


def resized(handler: Handler, start: int, end: int) -> None:
    told = f"bytes {start}-{end}/{len(handler.server.content) + 8}"
    handler.send(206, handler.server.content[start : end + 1], Content_Range=told, ETag='"one"')


def longer(handler: Handler, start: int, end: int) -> None:
    """Twice the bytes that were asked for, and says so: only a server that lies does."""
    told = f"bytes {start}-{end + 9}/{len(handler.server.content)}"
    handler.send(206, handler.server.content[start : end + 10], Content_Range=told, ETag='"one"')


LIES: list[tuple[int, Answer, str]] = [
    (1, lambda h, s, e: h.send(200, b"x" * 9_000), "whole files only"),
    (2, lambda h, s, e: h.send(200, h.server.content), "whole files only"),
    (1, truncated, "broke off after 2,048 of 4,096"),
    (2, truncated, "broke off after"),
    (1, shifted, "other bytes"),
    (2, shifted, "other bytes"),
    (2, longer, "other bytes"),
    (2, resized, "changed while it was being read"),
    (2, lambda h, s, e: h.piece(s, e, ETag='"two"'), "changed while it was being read"),
    (1, lambda h, s, e: h.send(206, b"x" * 4_096), "does not say which bytes"),
    (1, lambda h, s, e: h.piece(s, e, Content_Range="bytes */9"), "does not say which bytes"),
    (1, lambda h, s, e: h.piece(s, e, Content_Encoding="gzip"), "encoded"),
    (1, lambda h, s, e: h.send(404, b"no"), "no such model, revision or file"),
    (1, lambda h, s, e: h.send(401, b"no"), "not open to all"),
    (1, lambda h, s, e: h.send(500, b"no"), "status 500"),
    (2, lambda h, s, e: h.send(416, b"no"), "ends before"),
    (1, lambda h, s, e: h.wfile.write(b"garbage\r\n\r\n"), "cannot be reached"),
]


@pytest.mark.parametrize(("number", "answer", "words"), LIES, ids=[words for _, _, words in LIES])
def test_an_answer_that_is_not_what_was_asked_for_is_refused(
    server: Server, number: int, answer: Answer, words: str
) -> None:
    server.answers = {number: answer}
    assert words in refusal()


def test_wrong_bytes_are_refused_by_the_reader_of_the_header(server: Server) -> None:
    server.content = b"\x80\x02" + b"x" * 9_000
    assert "pickle" in refusal()
    server.content = (2**40).to_bytes(8, "little") + b"{" + b"x" * 9_000
    assert "states a header of" in refusal()
    server.content = checkpoint()[:100_000]  # the header speaks of more than there is
    assert refusal()


def test_a_server_that_never_answers_is_left_in_time(server: Server) -> None:
    waiting = threading.Event()
    server.answer = lambda handler, start, end: waiting.wait(10) and None
    assert "too long" in refusal(seconds=0.3)
    waiting.set()


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_server_that_drips_is_left_in_time(server: Server, part: str) -> None:
    """Each byte comes well within the timeout of a socket; all of them would take twenty seconds."""
    stop = threading.Event()

    def drip(handler: Handler, start: int, end: int) -> None:
        if part == "body":
            told = f"bytes {start}-{end}/{len(handler.server.content)}"
            length = {"Content-Length": str(end - start + 1)}
            handler.send(206, b"", Content_Range=told, **length)
        else:
            handler.wfile.write(b"HTTP/1.1 206 Partial Content\r\nX-Long: ")
        for _ in range(200):
            if stop.wait(0.1):
                return
            handler.wfile.write(b"x")
            handler.wfile.flush()

    server.answer = drip
    began = time.monotonic()
    assert "too long" in refusal(seconds=0.5)
    took = time.monotonic() - began
    stop.set()
    assert took < 10


def test_two_tables_are_fetched_at_once_and_no_third(server: Server) -> None:
    go, asked = threading.Event(), threading.Semaphore(0)

    def slow(handler: Handler, start: int, end: int) -> None:
        asked.release()
        go.wait(20)
        handler.piece(start, end)

    server.answer = slow
    found: list[tuple[int, ...]] = []
    threads = [
        threading.Thread(target=lambda: found.append(tuple(hub_table("models/tiny").table.shape)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    assert all(asked.acquire(timeout=20) for _ in threads)
    assert "2 tables are being fetched from the Hub already" in refusal()
    go.set()
    for thread in threads:
        thread.join(20)
    assert found == [(128, 16)] * 2
    assert hub_table("models/tiny").table.shape == (128, 16)  # and the place is free again


def test_a_tensor_larger_than_the_cap_is_not_fetched(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_HUB_BYTES", 10_000)
    assert "10,000 bytes, the most that is read" in refusal(
        tensor="embeddings.word_embeddings.weight"
    )
    assert server.sent < 10_000


def test_it_is_off_unless_enabled(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "0", "yes"):
        monkeypatch.setenv("POSENC_HUB", value)
        assert "switched off here; set POSENC_HUB=1" in refusal()
    monkeypatch.delenv("POSENC_HUB")
    assert "switched off" in refusal()
    monkeypatch.setenv("POSENC_HUB", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE" in refusal()
    assert server.seen == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"file": "../secret.safetensors"}, "must be a .safetensors file"),
        ({"file": "pytorch_model.bin"}, "must be a .safetensors file"),
        ({"file": "a/../b.safetensors"}, "must be a .safetensors file"),
        ({"revision": "a b"}, "revision must be"),
        ({"revision": "../main"}, "revision must be"),
    ],
)
def test_names_that_could_mean_another_place_are_refused(
    server: Server, changes: dict[str, str], words: str
) -> None:
    assert words in refusal(**changes)
    assert server.seen == []


@pytest.mark.parametrize(
    "model", ["", "a/b/c", "../x", "http://evil", "a b", "x" * 200, "a?b", "a/../b", "a\n", "/a"]
)
def test_a_model_name_is_a_word_or_two(server: Server, model: str) -> None:
    with pytest.raises(CheckpointError, match="a word or two with a slash"):
        hub_table(model)
    assert server.seen == []
