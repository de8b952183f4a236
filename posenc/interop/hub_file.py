"""A file of the Hub that is read in ranges (RFC 9110, section 14), no more of it than is asked for."""

import re
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException, HTTPResponse

from posenc import limits
from posenc.errors import CheckpointError
from posenc.interop.hub_deadline import Deadline, opener_until

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
