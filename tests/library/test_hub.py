"""A learned table by a model's name on the Hub, against a local server that answers right and wrong."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import safetensors.torch
import torch

from posenc import limits
from posenc.checkpoints import hub_table, read_position_table
from posenc.checkpoints.sharded import INDEX, hub_checkpoint
from posenc.errors import CheckpointError

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
        self.server.requests.append((self.path, dict(self.headers)))
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        assert match is not None
        start, end = int(match[1]), min(int(match[2]), len(self.server.content) - 1)
        answer = self.server.answers.get(len(self.server.requests), self.server.answer)
        answer(self, start, end)

    def log_message(self, *arguments: Any) -> None:
        pass

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        self.server.sent += len(body)

    def piece(self, start: int, end: int, move: int = 0, grow: int = 0, **headers: str) -> None:
        """Send a range, which may be stated elsewhere, or of a file that has grown."""
        stated = f"bytes {start + move}-{end + move}/{len(self.server.content) + grow}"
        body = self.server.content[start : end + 1]
        self.send(206, body, **({"Content_Range": stated, "ETag": '"one"'} | headers))


class Server(ThreadingHTTPServer):
    """The requests, the bytes sent, and how each request is answered, the first being number 1."""

    daemon_threads = True
    content = checkpoint()
    sent = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.answer: Answer = Handler.piece
        self.answers: dict[int, Answer] = {}

    def handle_error(self, *arguments: Any) -> None:
        """Print nothing: a client that hangs up amid an answer is what is tested."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as local:
        threading.Thread(target=local.serve_forever, args=(0.01,), daemon=True).start()
        home = f"http://127.0.0.1:{local.server_address[1]}"
        monkeypatch.setenv("POSENC_HUB", "1")
        monkeypatch.setenv("no_proxy", "*")
        url = partial(huggingface_hub.hf_hub_url, endpoint=home)
        monkeypatch.setattr(huggingface_hub, "hf_hub_url", url)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        yield local
        local.shutdown()


def refusal(model: str = "models/tiny", **options: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        hub_table(model, **options)
    message = str(caught.value)
    assert message.endswith((".", '"model.safetensors")'))  # the conversion of a pickle
    assert "127.0.0.1" not in message
    return message


def test_table_is_that_of_the_whole_file_and_little_else_is_fetched(server: Server) -> None:
    table = hub_table("models/tiny")
    whole = read_position_table(server.content)
    assert torch.equal(table.table, whole.table)  # the same bytes
    assert table.sha256 == whole.sha256
    for part in ("trained", "128x16", "models/tiny, model.safetensors"):
        assert part in table.provenance
    header = int.from_bytes(server.content[:8], "little")
    assert server.sent <= 4_096 + header + 128 * 16 * 4
    for path, headers in server.requests:
        assert path == FILE
        assert not {"Authorization", "Cookie"} & set(headers)
    named = hub_table("models/tiny", "encoder.layer.0.attention.self.query.weight")
    assert named.table.shape == (64, 64)
    assert "holds no tensor named x" in refusal(tensor="x")


def redirect(place: str = "", status: int = 302) -> Answer:
    headers = {"Location": place} if place else {}
    return lambda handler, start, end: handler.send(status, b"", **headers)


def test_redirect_on_the_same_host_is_followed(server: Server) -> None:
    server.answers = {1: redirect("/elsewhere/file")}
    assert hub_table("models/tiny").table.shape == (128, 16)
    assert [path for path, _ in server.requests[:3]] == [FILE, *["/elsewhere/file"] * 2]


@pytest.mark.parametrize(
    "place",
    [
        "http://169.254.169.254/latest", "file:///etc/passwd", "https://evilhf.co/x",
        "https://huggingface.co.evil.example/x", "http://huggingface.co/x", "//10.0.0.1/x",
        "https://user:word@huggingface.co/x", "https://huggingface.co:22/x", "https://[::1/x",
    ],
)  # fmt: skip
def test_redirect_to_any_other_place_is_refused(server: Server, place: str) -> None:
    server.answer = redirect(place)
    assert "redirected to a place that is not its own" in refusal()
    assert len(server.requests) == 1


def test_redirects_without_end_are_refused(server: Server) -> None:
    server.answer = redirect(FILE, 307)
    assert "redirected more than 4 times" in refusal()
    assert len(server.requests) == 5


def truncated(handler: Handler, start: int, end: int) -> None:
    body = handler.server.content[start : end + 1]
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes {start}-{end}/{len(handler.server.content)}")
    handler.send_header("ETag", '"one"')
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])
    handler.close_connection = True


def garbage(handler: Handler, start: int, end: int) -> None:
    handler.wfile.write(b"garbage\r\n\r\n")


# The request that is answered wrongly (1: the first bytes, 2: the header), and what is said.
WRONG: list[tuple[int, Answer, str]] = [
    (2, lambda h, s, e: h.send(200, h.server.content), "whole files only"),
    (1, truncated, "broke off after 2,048 of 4,096"),
    (1, lambda h, s, e: h.piece(s, e, move=1), "other bytes"),
    (2, lambda h, s, e: h.piece(s, e + 9), "other bytes"),
    (2, lambda h, s, e: h.piece(s, e, grow=8), "changed while it was being read"),
    (2, lambda h, s, e: h.piece(s, e, ETag='"two"'), "changed while it was being read"),
    (1, lambda h, s, e: h.piece(s, e, Content_Range="bytes */9"), "does not say which bytes"),
    (1, lambda h, s, e: h.piece(s, e, Content_Encoding="gzip"), "does not say which"),
    (1, lambda h, s, e: h.send(404, b"no"), "no such model, revision or file"),
    (1, lambda h, s, e: h.send(401, b"no"), "not open to all"),
    (1, lambda h, s, e: h.send(500, b"no"), "status 500"),
    (2, lambda h, s, e: h.send(416, b"no"), "status 416"),
    (1, garbage, "cannot be reached"),
]


@pytest.mark.parametrize(("number", "answer", "words"), WRONG, ids=[case[2] for case in WRONG])
def test_wrong_answer_is_refused(server: Server, number: int, answer: Answer, words: str) -> None:
    server.answers = {number: answer}
    assert words in refusal()


@pytest.mark.parametrize("part", ["nothing", "headers", "body"])
def test_slow_server_is_left_at_the_deadline(server: Server, part: str) -> None:
    """Each byte comes within the timeout of a socket; all of them would take a minute."""
    stop = threading.Event()
    complete = threading.Event()

    def drip(handler: Handler, start: int, end: int) -> None:
        if part == "body":
            stated = f"bytes {start}-{end}/{len(handler.server.content)}"
            length = {"Content-Length": str(end - start + 1)}
            handler.send(206, b"", Content_Range=stated, ETag="x", **length)
        elif part == "headers":
            handler.wfile.write(b"HTTP/1.1 206 Partial Content\r\nX-Long: ")
        for _ in range(600):
            if stop.wait(0.1):
                return
            handler.wfile.write(b"" if part == "nothing" else b"x")
        complete.set()

    server.answer = drip
    assert "too long" in refusal(seconds=0.3)
    assert not complete.is_set()
    stop.set()


def test_two_tables_are_fetched_at_once_and_no_third(server: Server) -> None:
    go, started = threading.Event(), threading.Semaphore(0)

    def slow(handler: Handler, start: int, end: int) -> None:
        started.release()
        go.wait(60)
        handler.piece(start, end)

    server.answer = slow
    shapes: list[tuple[int, ...]] = []
    threads = [
        threading.Thread(target=lambda: shapes.append(tuple(hub_table("models/tiny").table.shape)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    assert all(started.acquire(timeout=60) for _ in threads)
    assert "2 files are being fetched" in refusal()
    go.set()
    for thread in threads:
        thread.join(60)
    assert shapes == [(128, 16)] * 2
    assert hub_table("models/tiny").table.shape == (128, 16)  # and there is room again


def test_tensor_larger_than_the_cap_is_not_fetched(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_HUB_BYTES", 10_000)
    assert "more than 10,000 bytes" in refusal(tensor="embeddings.word_embeddings.weight")
    assert server.sent < 10_000


def test_hub_is_off_unless_enabled(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "0", "yes"):
        monkeypatch.setenv("POSENC_HUB", value)
        assert "POSENC_HUB=1" in refusal()
    monkeypatch.setenv("POSENC_HUB", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE" in refusal()
    assert server.requests == []


NAMES = {
    "a word or two with a slash": [
        {"model": model} for model in ("", "a/b/c", "../x", "http://evil", "x" * 200, "a?b", "a\n")
    ],
    "must be a .safetensors file": [{"file": "../secret.safetensors"}, {"file": "model.bin"}],
    "revision must be": [{"revision": "../main"}],
}


@pytest.mark.parametrize("words", NAMES)
def test_names_that_could_mean_another_place_are_refused(server: Server, words: str) -> None:
    for options in NAMES[words]:
        assert words in refusal(**options)
    assert server.requests == []


def test_a_tensor_of_a_sharded_checkpoint_is_fetched_with_no_more_than_index_and_header(
    server: Server,
) -> None:
    whole, name = server.content, "embeddings.position_embeddings.weight"
    shard = "model-00001-of-00001.safetensors"
    index = json.dumps({"weight_map": {name: shard}}).encode()

    def answer(handler: Handler, start: int, end: int) -> None:
        server.content = index if INDEX in handler.path else whole
        handler.piece(start, min(end, len(server.content) - 1))
        server.content = index + whole  # the next range is cut to it before it is answered

    server.answer = answer
    checkpoint = hub_checkpoint("models/tiny")
    table = checkpoint.read(name).tensor
    assert torch.equal(table, read_position_table(whole).table)
    assert {path.rpartition("/")[2] for path, _ in server.requests} == {INDEX, shard}
    assert server.sent < len(whole) / 10


def test_a_checkpoint_without_an_index_is_its_one_file(server: Server) -> None:
    def answer(handler: Handler, start: int, end: int) -> None:
        if INDEX in handler.path:
            handler.send(404)
        else:
            handler.piece(start, end)

    server.answer = answer
    checkpoint = hub_checkpoint("models/tiny")
    assert set(checkpoint.files.values()) == {"model.safetensors"}
    assert checkpoint.entry("encoder.layer.0.attention.self.query.weight").shape == (64, 64)
    server.answer = lambda handler, start, end: handler.send(404)
    with pytest.raises(CheckpointError, match="no such model, revision or file"):
        hub_checkpoint("models/none")
