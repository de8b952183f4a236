"""A learned table of a model on the Hugging Face Hub, by the model's name: one tensor, not the file.

The file's header and the tensor asked for are fetched by range requests (RFC 9110, section 14); nothing
is sent but the request, no token, no cookie. Off unless the environment sets POSENC_HUB to 1, because
whoever may name a model makes this machine ask for it. The place that is asked is huggingface.co, or
another one where huggingface_hub is told so by HF_ENDPOINT in the environment.

When a reading from the Hub must be over: its connection is cut then, however steadily it drips.

The timeout of a socket begins anew with every byte, so it alone bounds nothing.

A file of the Hub that is read in ranges (RFC 9110, section 14), no more of it than is asked for.
"""

import contextlib
import os
import re
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any

from posenc import limits
from posenc.checkpoints.position_table import PositionTable, read_position_table
from posenc.checkpoints.safetensors_file import ByteRanges
from posenc.errors import CheckpointError


class Deadline:
    """A moment after which nothing is read: the connection that it watches is cut then."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._over = False

    def __enter__(self) -> "Deadline":
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()

    def left(self) -> float:
        """Return the seconds that are left. Raises CheckpointError where there are none."""
        left = self._end - time.monotonic()
        if left <= 0 or self._over:
            raise CheckpointError("The Hub took too long to answer.")
        return left

    def watch(self, connected: socket.socket) -> None:
        """Cut this connection at the end, or now where the end has come."""
        with self._lock:
            self._socket = connected
            over = self._over
        if over:
            self._cut()

    def _cut(self) -> None:
        with self._lock:
            self._over = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it is closed
                    self._socket.shutdown(socket.SHUT_RDWR)


class _Watched(urllib.request.AbstractHTTPHandler):
    """Gives every connection that is made to the deadline."""

    deadline: Deadline

    def do_open(self, http_class: Any, req: urllib.request.Request, **more: Any) -> HTTPResponse:
        def connection(host: str, **given: Any) -> HTTPConnection:
            made: HTTPConnection = http_class(host, **given)
            connect = made.connect

            def watched() -> None:
                connect()
                self.deadline.watch(made.sock)

            made.connect = watched  # type: ignore[method-assign]
            return made

        return super().do_open(connection, req, **more)


class _Http(_Watched, urllib.request.HTTPHandler):
    """http alone."""


class _Https(_Watched, urllib.request.HTTPSHandler):
    """https alone."""


def opener_until(deadline: Deadline) -> urllib.request.OpenerDirector:
    """Return what opens http and https addresses alone, and follows no redirection."""
    http, https = _Http(), _Https()
    http.deadline = https.deadline = deadline
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        http,
        https,
        urllib.request.HTTPDefaultErrorHandler(),  # every answer but 2xx is raised as an HTTPError
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


_HEAD = 4_096  # bytes of the first request, which tells the size of the file and of its header
_STEP = 65_536
_REDIRECTS = 4
_HOSTS = ("huggingface.co", "hf.co")  # where the Hub's own files lie, and hosts below them
_CONTENT_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})")


class HubFile:
    """A file behind an address that answers range requests, read in pieces that are kept."""

    def __init__(self, address: str, deadline: Deadline) -> None:
        self.address = address
        self.home = _place(address)
        self.deadline = deadline
        self.tag: str | None = None
        self.size = 0
        self.fetched = 0
        self.pieces: list[tuple[int, bytes]] = []
        self.opener = opener_until(deadline)
        self._fetch(0, _HEAD, first=True)

    def read(self, start: int, count: int) -> bytes:
        """Return bytes [start, start + count) of the file, asking for them unless they are kept."""
        for begin, piece in self.pieces:
            if begin <= start and start + count <= begin + len(piece):
                return piece[start - begin : start - begin + count]
        return self._fetch(start, count)

    def _fetch(self, start: int, count: int, *, first: bool = False) -> bytes:
        self.fetched += count
        if self.fetched > limits.MAX_HUB_BYTES:
            raise CheckpointError(
                f"The tensor and the file's header have more than {limits.MAX_HUB_BYTES:,} bytes, the "
                "most that is read from the Hub."
            )
        with self._answer(start, count) as answer:
            length = self._checked_length(answer, start, count, first)
            content = self._body(answer, length)
        self.pieces.append((start, content))
        return content

    def _answer(self, start: int, count: int) -> HTTPResponse:
        """Ask for a range, going where the Hub redirects to as long as it is the Hub's own place."""
        for _ in range(_REDIRECTS + 1):
            request = urllib.request.Request(  # noqa: S310 - the opener knows http and https alone
                self.address,
                headers={
                    "Range": f"bytes={start}-{start + count - 1}",
                    "Accept-Encoding": "identity",
                    "User-Agent": "posenc",
                },
            )
            try:
                found = self.opener.open(request, timeout=self.deadline.left())
                try:
                    self.deadline.left()  # a cut may read as an answer that is short
                except CheckpointError:
                    found.close()
                    raise
            except urllib.error.HTTPError as error:
                with error:
                    self.deadline.left()
                    self.address = self._next(error)
                continue
            except (OSError, HTTPException, ValueError) as error:
                self.deadline.left()
                if isinstance(error, CheckpointError):
                    raise
                raise CheckpointError(f"The Hub cannot be reached: {_plain(error)}.") from None
            if not isinstance(found, HTTPResponse):
                raise CheckpointError("The Hub answered by something other than HTTP.")
            return found
        raise CheckpointError(f"The Hub redirected more than {_REDIRECTS} times.")

    def _next(self, error: urllib.error.HTTPError) -> str:
        """Return where a redirection leads, or raise the refusal of any other answer."""
        if error.code in (301, 302, 303, 307, 308):
            target = _joined(self.address, error.headers.get("Location") or "")
            if not _is_trusted(target, self.home):
                raise CheckpointError("The Hub redirected to a place that is not its own.")
            return target
        reasons = {
            401: "there is no such public model, or it is not open to all",
            403: "the model is not open to all",
            404: "there is no such model, revision or file",
            416: "the file ends before the bytes that were asked for",
            429: "it was asked too often; wait a little",
        }
        reason = reasons.get(error.code, f"its answer is status {error.code}")
        raise CheckpointError(f"The Hub gave nothing: {reason}.")

    def _checked_length(self, answer: HTTPResponse, start: int, count: int, first: bool) -> int:
        """Return how many bytes follow, where they are exactly those that were asked for."""
        if answer.status != 206:
            raise CheckpointError(
                "The server sends whole files only (no range requests); nothing was read."
            )
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise CheckpointError("The server sent the bytes encoded, which was not asked for.")
        told = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if told is None:
            raise CheckpointError("The server does not say which bytes it sent.")
        begin, end, size = map(int, told.groups())
        tag = answer.headers.get("ETag")
        if first:
            self.size, self.tag = size, tag
        if size != self.size or tag != self.tag:
            raise CheckpointError("The file on the Hub changed while it was being read.")
        if (begin, end) != (start, min(start + count, size) - 1):
            raise CheckpointError("The server sent other bytes than those that were asked for.")
        return end - begin + 1

    def _body(self, answer: HTTPResponse, length: int) -> bytes:
        content = bytearray()
        while len(content) < length:
            self.deadline.left()
            try:
                part = answer.read1(min(_STEP, length - len(content)))
            except (OSError, HTTPException) as error:
                self.deadline.left()
                raise CheckpointError(f"The Hub broke off: {_plain(error)}.") from None
            if not part:
                self.deadline.left()
                raise CheckpointError(
                    f"The server broke off after {len(content):,} of {length:,} bytes."
                )
            content += part
        return bytes(content)


def _place(address: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(address)
    return parts.scheme, parts.netloc


def _joined(address: str, location: str) -> str:
    try:
        return urllib.parse.urljoin(address, location)
    except ValueError:  # a place that is no address
        return ""


def _is_trusted(address: str, home: tuple[str, str]) -> bool:
    """Whether an address is the one that was asked, or a place of the Hub's over https."""
    try:
        parts = urllib.parse.urlsplit(address)
        host = parts.hostname or ""
        if parts.username is not None or parts.password is not None:
            return False
        if (parts.scheme, parts.netloc) == home:
            return True
        own = any(host == one or host.endswith(f".{one}") for one in _HOSTS)
        return parts.scheme == "https" and parts.port in (None, 443) and own
    except ValueError:  # no address at all
        return False


def _plain(error: BaseException) -> str:
    """Return why, without addresses or paths."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError) or "timed out" in str(reason):
        return "it took too long to answer"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror.lower()
    return "the connection failed"


SWITCH = "POSENC_HUB"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_MODEL = re.compile(rf"{_NAME}(?:/{_NAME})?")
_FILE = re.compile(rf"(?:{_NAME}/){{0,4}}{_NAME}\.safetensors")
_FREE = threading.BoundedSemaphore(limits.MAX_HUB_FETCHES)


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
    """Read a model's table of positions from the Hub, and no more of the model than that.

    model: its name there, such as "gpt2" or "google-bert/bert-base-uncased"; tensor, first_row: as of
    `read_position_table`; file, revision: which file, and at which branch, tag or commit; seconds: that
    all of it may take. Raises CheckpointError where the Hub is switched off, the package huggingface_hub
    is missing, the name or the file is unusable, two other tables are being fetched at the time, and for
    every answer that is not what was asked for.
    """
    if not hub_is_enabled():
        raise CheckpointError(
            f"Reading from the Hugging Face Hub is switched off here; set {SWITCH}=1 to allow it."
        )
    address = _address(model, file, revision)
    if not _FREE.acquire(blocking=False):
        raise CheckpointError(
            f"{limits.MAX_HUB_FETCHES} tables are being fetched from the Hub already; wait a little."
        )
    try:
        with Deadline(seconds) as deadline:
            ranges = HubFile(address, deadline)
            return read_position_table(
                ByteRanges(ranges.size, ranges.read),
                tensor,
                first_row,
                file_name=f"{model}, {file}",
            )
    finally:
        _FREE.release()


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
        raise CheckpointError(
            "The Hub needs one package more: pip install 'posenc[hub]'."
        ) from None
    if constants.HF_HUB_OFFLINE:
        raise CheckpointError("The Hub is switched off here by HF_HUB_OFFLINE.")
    return str(hf_hub_url(model, file, revision=revision))
