"""Limits of visitors' files in this server's memory, decided before the body of a request is read."""

from collections import Counter

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard import limits
from dashboard.server import settings, streamlit_parts
from dashboard.server.streamlit_parts import UploadedFileRec

SWITCHED_OFF = "Uploads are switched off on this server."
FULL = "The memory of this server is full of other visitors' files. Try again soon."
NO_LENGTH = "An upload needs the header Content-Length."
SESSIONS_THAT_FILL = 4  # a session of a shared server has this part of the room
LEAST = 2**16  # bytes that a file counts for however small: thousands of empty ones take memory too
_WAITING = 2  # files of full size that may come in past the limit before a page has dropped them


class UploadLimit:
    """Refuses uploads that are switched off or for which there is no room.

    Streamlit takes files for every session that is open, whether a page asks for them or not. Pages drop a
    file with a sentence past MAX_HELD_UPLOADS. This limit is two full files larger, so that people read the
    sentence.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._arriving: Counter[str] = Counter()  # bytes, by session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refused upload, pass on every other request."""
        if scope["type"] != "http" or scope["method"] != "PUT":
            return await self._app(scope, receive, send)
        session = scope["path"].split("/")[-2]  # /_stcore/upload_file/SESSION/FILE: no other PUT
        length = dict(scope["headers"]).get(b"content-length", b"").decode("latin-1")
        refusal = self._refusal(session, length)
        if refusal is not None:
            if refusal.status_code == 503:  # else a browser that still sends would read no answer
                while (await receive()).get("more_body"):
                    pass
            return await refusal(scope, receive, send)
        size = max(LEAST, int(length))
        self._arriving[session] += size
        try:
            await self._app(scope, receive, send)
        finally:
            self._arriving[session] -= size
            self._arriving = +self._arriving  # drops what is 0

    def _refusal(self, session: str, length: str) -> PlainTextResponse | None:
        allowed = settings.current()
        if not allowed.uploads:
            return PlainTextResponse(SWITCHED_OFF, 403)
        if not length.isdecimal():  # as of a body in chunks, whose end nobody knows
            return PlainTextResponse(NO_LENGTH, 411)
        size = max(LEAST, int(length))
        if size > allowed.upload_bytes:
            text = f"A file may have at most {allowed.upload_mb} MB; this file is larger."
            return PlainTextResponse(text, 413)
        of_session = size + self._arriving[session] + held_bytes(session)
        of_all = size + self._arriving.total() + held_bytes()
        room = most_held_bytes()
        share = (
            room
            if allowed.one_person
            else max(room // SESSIONS_THAT_FILL, 2 * (allowed.upload_bytes + LEAST))
        )
        if of_session <= share and of_all <= room:
            return None
        return PlainTextResponse(FULL, 503)


def most_held_bytes() -> int:
    """Return the bytes that the files of all visitors may take, those that no page has seen too."""
    return limits.MAX_HELD_UPLOADS + _WAITING * limits.MAX_UPLOAD_BYTES


def held_bytes(session: str | None = None) -> int:
    """Return the bytes of the files that one session, or all of them, uploaded and no page has dropped."""
    return sum(map(_size, streamlit_parts.uploads(session)))


def _size(file: UploadedFileRec) -> int:
    """Return what a file counts for: its sender chooses its words, and how many files there are."""
    words = len(file.name) + len(file.type) + len(file.file_id)
    return max(LEAST, len(file.data) + 4 * words)
