"""Files of a model on the Hugging Face Hub by range requests (RFC 9110), and its position table.

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
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from posenc import limits
from posenc.checkpoints.position_table import PositionTable, read_position_table
from posenc.checkpoints.safetensors_file import ByteRanges
from posenc.errors import CheckpointError
from posenc.text import install_command

SWITCH = "POSENC_HUB"
_HEAD = 4_096  # bytes of the first request, which tells the size of the file and of its header
_REDIRECTS = 4
_HOSTS = ("huggingface.co", "hf.co")  # where the Hub's own files lie, and hosts below them
_CONTENT_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})")
_NAME = r"(?!\S*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_PLACE = re.compile(rf"{_NAME}(/{_NAME})? ({_NAME}/){{0,4}}{_NAME}\.(safetensors|json) {_NAME}")
_REASONS = {
    401: "there is no such public model, or it is not open to all",
    403: "the model is not open to all",
    404: "there is no such model, revision or file",
    429: "it was asked too often; wait a little",
}
MAX_FETCHES = 2  # at once, of one process
_free = threading.BoundedSemaphore(MAX_FETCHES)


class HubFileMissing(CheckpointError):
    """The Hub has no such model, revision or file."""


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
    end = time.monotonic() + seconds
    with hub_file(model, file, revision=revision, end=end) as source:
        return read_position_table(source, tensor, first_row, file_name=f"{model}, {file}")


@contextlib.contextmanager
def hub_file(model: str, file: str, *, revision: str, end: float) -> Iterator[ByteRanges]:
    """Yield a file of a model on the Hub as ByteRanges. end: the deadline, a monotonic time.

    Raises CheckpointError, as HubFileMissing where the model has no such file.
    """
    if not hub_is_enabled():
        raise CheckpointError(
            f"Reading from the Hugging Face Hub is switched off here; set {SWITCH}=1 to allow it."
        )
    address = _address(model, file, revision)
    if not _free.acquire(blocking=False):
        raise CheckpointError(
            f"{MAX_FETCHES} files are being fetched from the Hub already; wait a little."
        )
    try:
        content = _HubFile(address, end)
        yield ByteRanges(content.size, content.read)
    finally:
        _free.release()


def _address(model: str, file: str, revision: str) -> str:
    if not _PLACE.fullmatch(f"{model} {file} {revision}"):
        raise CheckpointError(
            "A model's name on the Hub is a word or two with a slash between, such as "
            "google-bert/bert-base-uncased; the file must be a .safetensors file of the model, and the "
            "revision must be the name of a branch, a tag or a commit."
        )
    try:
        from huggingface_hub import constants, hf_hub_url
    except ImportError:
        problem = f"The Hub needs one package more: {install_command('hub')}."
        raise CheckpointError(problem) from None
    if constants.HF_HUB_OFFLINE:
        raise CheckpointError("The Hub is switched off here by HF_HUB_OFFLINE.")
    return str(hf_hub_url(model, file, revision=revision))


class _HubFile:
    """A file read by range requests, with a cache of the pieces. end: the deadline, a monotonic time."""

    def __init__(self, address: str, end: float) -> None:
        self._address = address
        self._home = urlsplit(address)[:2]
        self._end = end
        self._tag: str | None = None
        self._pieces: dict[int, bytes] = {}
        self.size = 0
        self._fetch(0, _HEAD)

    def read(self, start: int, count: int) -> bytearray:
        """Return bytes [start, start + count) of the file."""
        for begin, piece in self._pieces.items():
            if begin <= start and start + count <= begin + len(piece):
                return bytearray(piece[start - begin : start - begin + count])
        return bytearray(self._fetch(start, count))

    def _fetch(self, start: int, count: int) -> bytes:
        if sum(map(len, self._pieces.values())) + count > limits.MAX_HUB_BYTES:
            raise CheckpointError(
                f"The tensor and the file's header have more than {limits.MAX_HUB_BYTES:,} bytes, the "
                "most that is read from the Hub."
            )
        try:
            for _ in range(_REDIRECTS + 1):
                with self._answer(start, count) as answer:
                    _remaining(self._end)  # a cut may look like a short answer
                    if answer.status in (301, 302, 303, 307, 308):
                        target = answer.headers.get("Location") or ""
                        self._address = _trusted(self._address, target, self._home)
                        continue
                    length = self._checked_length(answer, start, count)
                    content = answer.read(length)
                    _remaining(self._end)
                    if len(content) < length:
                        problem = (
                            f"The server broke off after {len(content):,} of {length:,} bytes."
                        )
                        raise CheckpointError(problem)
                    self._pieces[start] = content
                    return content
        except CheckpointError:
            raise
        except (OSError, HTTPException, ValueError) as error:
            _remaining(self._end)
            reason = getattr(error, "strerror", None) or "the connection failed"
            raise CheckpointError(f"The Hub cannot be reached: {reason.lower()}.") from None
        raise CheckpointError(f"The Hub redirected more than {_REDIRECTS} times.")

    @contextlib.contextmanager
    def _answer(self, start: int, count: int) -> Iterator[HTTPResponse]:
        """Yield the answer to a range request; its connection is cut at the deadline."""
        parts = urlsplit(self._address)
        connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        proxy = urlsplit(getproxies().get(parts.scheme, ""))
        if proxy.hostname is None or proxy_bypass(parts.netloc):
            connection = connect(parts.netloc, timeout=_remaining(self._end))
        else:
            connection = connect(proxy.hostname, proxy.port or 80, timeout=_remaining(self._end))
            connection.set_tunnel(parts.netloc)
        connection.connect()
        # A socket's timeout restarts at each byte. So does httpx's, whose connection cannot be cut: with a
        # deadline of 1 s it read headers sent byte by byte for 10.9 s, this for 1.03 s. 36 lines would go.
        timer = threading.Timer(_remaining(self._end), _cut, [connection.sock])
        timer.daemon = True
        timer.start()
        headers = {
            "Range": f"bytes={start}-{start + count - 1}",
            "Accept-Encoding": "identity",
            "User-Agent": "posenc",
        }
        try:
            connection.request(
                "GET", parts._replace(scheme="", netloc="").geturl(), headers=headers
            )
            yield connection.getresponse()
        finally:
            timer.cancel()
            connection.close()

    def _checked_length(self, answer: HTTPResponse, start: int, count: int) -> int:
        """Return the number of bytes of an answer with exactly the requested range."""
        if answer.status == 200:
            raise CheckpointError("The server sends whole files only; nothing was read.")
        if answer.status == 404:
            raise HubFileMissing(f"The Hub gave nothing: {_REASONS[404]}.")
        if answer.status != 206:
            reason = _REASONS.get(answer.status, f"its answer is status {answer.status}")
            raise CheckpointError(f"The Hub gave nothing: {reason}.")
        match = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if match is None or answer.headers.get("Content-Encoding", "identity") != "identity":
            raise CheckpointError("The server does not say which bytes of the file it sent.")
        begin, end, size = map(int, match.groups())
        tag = answer.headers.get("ETag")
        if not self._pieces:
            self.size, self._tag = size, tag
        if size != self.size or tag != self._tag:
            raise CheckpointError("The file on the Hub changed while it was being read.")
        if (begin, end) != (start, min(start + count, size) - 1):
            raise CheckpointError("The server sent other bytes than those that were asked for.")
        return end - begin + 1


def _remaining(end: float) -> float:
    """Return the seconds until a deadline. Raises CheckpointError where there are none."""
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise CheckpointError("The Hub took too long to answer.")
    return seconds


def _cut(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is closed
        connected.shutdown(socket.SHUT_RDWR)


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
