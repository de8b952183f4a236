"""A position table of a model on the Hugging Face Hub: one tensor by range requests (RFC 9110).

huggingface_hub's HfFileSystem is not used: it follows redirects to any host, sends the user's token, and
limits neither the time nor the bytes of an answer. Off unless the environment sets POSENC_HUB to 1.
HF_ENDPOINT of huggingface_hub replaces huggingface.co.
"""

import contextlib
import os
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urljoin, urlsplit

from posenc import limits
from posenc.checkpoints.position_table import PositionTable, read_position_table
from posenc.checkpoints.safetensors_file import ByteRanges
from posenc.errors import CheckpointError

SWITCH = "POSENC_HUB"
_HEAD = 4_096  # bytes of the first request, which tells the size of the file and of its header
_STEP = 65_536
_REDIRECTS = 4
_HOSTS = ("huggingface.co", "hf.co")  # where the Hub's own files lie, and hosts below them
_CONTENT_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})")
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_MODEL = re.compile(rf"{_NAME}(?:/{_NAME})?")
_FILE = re.compile(rf"(?:{_NAME}/){{0,4}}{_NAME}\.safetensors")
_REASONS = {
    401: "there is no such public model, or it is not open to all",
    403: "the model is not open to all",
    404: "there is no such model, revision or file",
    416: "the file ends before the bytes that were asked for",
    429: "it was asked too often; wait a little",
}
_free = threading.BoundedSemaphore(limits.MAX_HUB_FETCHES)


def hub_is_enabled() -> bool:
    """Whether this machine may ask the Hub: POSENC_HUB is 1."""
    return os.environ.get(SWITCH, "") == "1"


def hub_table(
    model: str,
    tensor: str | None = None,
    first_row: int | None = None,
    *,
    file: str = "model.safetensors",
    revision: str = "main",
    seconds: float = 30.0,
) -> PositionTable:
    """Return a model's position table; only that tensor and the file's header are fetched.

    model: such as "gpt2" or "google-bert/bert-base-uncased". tensor, first_row: as of
        `read_position_table`. revision: a branch, tag or commit. seconds: limit of the total time.
    Raises CheckpointError.
    """
    if not hub_is_enabled():
        raise CheckpointError(
            f"Reading from the Hugging Face Hub is switched off here; set {SWITCH}=1 to allow it."
        )
    address = _address(model, file, revision)
    if not _free.acquire(blocking=False):
        raise CheckpointError(
            f"{limits.MAX_HUB_FETCHES} tables are being fetched from the Hub already; wait a little."
        )
    try:
        with _Deadline(seconds) as deadline:
            ranges = _HubFile(address, deadline)
            source = ByteRanges(ranges.size, ranges.read)
            return read_position_table(source, tensor, first_row, file_name=f"{model}, {file}")
    finally:
        _free.release()


def _address(model: str, file: str, revision: str) -> str:
    if not _MODEL.fullmatch(model) or ".." in model or "--" in model:
        raise CheckpointError(
            "A model's name on the Hub is a word or two with a slash between, such as "
            "google-bert/bert-base-uncased."
        )
    if not _FILE.fullmatch(file) or ".." in file:
        raise CheckpointError("The file must be a .safetensors file of the model.")
    if not re.fullmatch(_NAME, revision) or ".." in revision:
        raise CheckpointError("The revision must be the name of a branch, a tag or a commit.")
    try:
        from huggingface_hub import constants, hf_hub_url
    except ImportError:
        problem = "The Hub needs one package more: pip install 'posenc[hub]'."
        raise CheckpointError(problem) from None
    if constants.HF_HUB_OFFLINE:
        raise CheckpointError("The Hub is switched off here by HF_HUB_OFFLINE.")
    return str(hf_hub_url(model, file, revision=revision))


class _Deadline:
    """Cuts the watched connection after some seconds; a socket's timeout restarts at each byte."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._socket: socket.socket | None = None

    def __enter__(self) -> "_Deadline":
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()

    def remaining(self) -> float:
        """Return the remaining seconds. Raises CheckpointError where there are none."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise CheckpointError("The Hub took too long to answer.")
        return seconds

    def watch(self, connected: socket.socket) -> None:
        self._socket = connected
        self.remaining()  # the timer may have run just before

    def _cut(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it is closed
                self._socket.shutdown(socket.SHUT_RDWR)


def _opener(deadline: _Deadline) -> urllib.request.OpenerDirector:
    """Return an opener of http and https addresses that follows no redirect."""

    def watched(kind: Any) -> Any:
        class Connection(kind):
            def connect(self) -> None:
                super().connect()
                deadline.watch(self.sock)

        return Connection

    class Http(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> HTTPResponse:
            return self.do_open(watched(HTTPConnection), req)

    class Https(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> HTTPResponse:
            return self.do_open(watched(HTTPSConnection), req)

    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        Http(),
        Https(),
        urllib.request.HTTPDefaultErrorHandler(),  # every answer but 2xx is raised as an HTTPError
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


class _HubFile:
    """A file read by range requests, with a cache of the pieces."""

    def __init__(self, address: str, deadline: _Deadline) -> None:
        self._address = address
        self._home = urlsplit(address)[:2]
        self._deadline = deadline
        self._opener = _opener(deadline)
        self._tag: str | None = None
        self._bytes = 0
        self._pieces: dict[int, bytes] = {}
        self.size = 0
        self._fetch(0, _HEAD)

    def read(self, start: int, count: int) -> bytes:
        """Return bytes [start, start + count) of the file."""
        for begin, piece in self._pieces.items():
            if begin <= start and start + count <= begin + len(piece):
                return piece[start - begin : start - begin + count]
        return self._fetch(start, count)

    def _fetch(self, start: int, count: int) -> bytes:
        self._bytes += count
        if self._bytes > limits.MAX_HUB_BYTES:
            raise CheckpointError(
                f"The tensor and the file's header have more than {limits.MAX_HUB_BYTES:,} bytes, the "
                "most that is read from the Hub."
            )
        try:
            with self._answer(start, count) as answer:
                length = self._checked_length(answer, start, count)
                content = self._body(answer, length)
        except CheckpointError:
            raise
        except (OSError, HTTPException, ValueError) as error:
            self._deadline.remaining()
            raise CheckpointError(f"The Hub cannot be reached: {_reason(error)}.") from None
        self._pieces[start] = content
        return content

    def _answer(self, start: int, count: int) -> Any:
        """Return the answer to a range request, after the Hub's redirects to its own hosts."""
        headers = {
            "Range": f"bytes={start}-{start + count - 1}",
            "Accept-Encoding": "identity",
            "User-Agent": "posenc",
        }
        for _ in range(_REDIRECTS + 1):
            request = urllib.request.Request(self._address, headers=headers)  # noqa: S310 - see _opener
            try:
                return self._opener.open(request, timeout=self._deadline.remaining())
            except urllib.error.HTTPError as error:
                with error:
                    self._deadline.remaining()  # a cut may look like a short answer
                    if error.code not in (301, 302, 303, 307, 308):
                        reason = _REASONS.get(error.code, f"its answer is status {error.code}")
                        raise CheckpointError(f"The Hub gave nothing: {reason}.") from None
                    target = error.headers.get("Location") or ""
                    self._address = _trusted(self._address, target, self._home)
        raise CheckpointError(f"The Hub redirected more than {_REDIRECTS} times.")

    def _checked_length(self, answer: HTTPResponse, start: int, count: int) -> int:
        """Return the number of bytes of an answer with exactly the requested range."""
        self._deadline.remaining()
        if answer.status != 206:
            raise CheckpointError(
                "The server sends whole files only (no range requests); nothing was read."
            )
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise CheckpointError("The server sent the bytes encoded, which was not asked for.")
        match = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if match is None:
            raise CheckpointError("The server does not say which bytes it sent.")
        begin, end, size = map(int, match.groups())
        tag = answer.headers.get("ETag")
        if not self._pieces:
            self.size, self._tag = size, tag
        if size != self.size or tag != self._tag:
            raise CheckpointError("The file on the Hub changed while it was being read.")
        if (begin, end) != (start, min(start + count, size) - 1):
            raise CheckpointError("The server sent other bytes than those that were asked for.")
        return end - begin + 1

    def _body(self, answer: HTTPResponse, length: int) -> bytes:
        content = bytearray()
        while len(content) < length:
            part = answer.read1(min(_STEP, length - len(content)))
            self._deadline.remaining()
            if not part:
                problem = f"The server broke off after {len(content):,} of {length:,} bytes."
                raise CheckpointError(problem)
            content += part
        return bytes(content)


def _trusted(address: str, location: str, home: tuple[str, str]) -> str:
    """Return a redirect's target on the same host or, over https, on another of the Hub's."""
    with contextlib.suppress(ValueError):  # no address at all
        target = urljoin(address, location)
        parts = urlsplit(target)
        host = parts.hostname or ""
        of_hub = any(host == name or host.endswith(f".{name}") for name in _HOSTS)
        if (
            parts[:2] == home or (parts.scheme == "https" and parts.port in (None, 443) and of_hub)
        ) and parts.username is None:
            return target
    raise CheckpointError("The Hub redirected to a place that is not its own.")


def _reason(error: BaseException) -> str:
    """Return why a request failed, without addresses or paths."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError) or "timed out" in str(reason):
        return "it took too long to answer"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror.lower()
    return "the connection failed"
