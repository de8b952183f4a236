"""The one place where a file of a visitor's comes in, and where that is switched off."""

import threading
from typing import Any

import streamlit as st
from starlette.exceptions import HTTPException
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import DeletedFile, UploadedFile, UploadedFileRec

from dashboard import limits
from dashboard.server import counters, settings
from dashboard.server.logs import event
from posenc.errors import PosencError

SWITCHED_OFF = "Uploads are switched off on this server."
FULL = "Other visitors' files fill this server's memory just now: this one was dropped. Try again soon."
GONE = "The uploaded file is not held by this server any more; upload it again."
SHARE = 4  # sessions that may take all the room together, where they are of several people
LEAST = 2**16  # bytes that a file counts for however small: thousands of empty ones take memory too
_WAITING = 2  # files of full size that may come in past the bound before a page has dropped them


class Bounded(MemoryUploadedFileManager):
    """Streamlit's keeper of uploaded files, who refuses what would fill the server's memory.

    Streamlit takes files for every session that is open, whether a page asks for them or not. Pages drop
    a file with a sentence past MAX_HELD_UPLOADS; this bound is two full files larger, so that people
    meet the sentence.
    """

    def add_file(self, session_id: str, file: UploadedFileRec) -> None:
        """Keep a file, instead of the one that the session has under its id.

        A session that has its share drops its own oldest files first, where people do not know each
        other. Raises HTTPException, which is the answer to who sent it: 403 where uploads are off, 503
        where there is no room.
        """
        if not _allowed():
            raise HTTPException(403, SWITCHED_OFF)
        with _door:
            instead = self.get_files(session_id, [file.file_id])
            dropped = [] if settings.current().one_person else self._over(session_id, file)
            kept = sum(map(_size, _files(self))) - sum(map(_size, [*instead, *dropped]))
            if kept + _size(file) > most_held():
                event("upload_refused", bytes=len(file.data))
                raise HTTPException(503, FULL)
            for one in dropped:
                self.remove_file(session_id, one.file_id)
                event("upload_dropped", bytes=len(one.data))
            super().add_file(session_id, file)

    def _over(self, session_id: str, file: UploadedFileRec) -> list[UploadedFileRec]:
        """Return the files of a session that have to go so that one more is within its share."""
        own = [*self.file_storage.get(session_id, {}).values()]  # oldest first
        others = [one for one in own if one.file_id != file.file_id]
        over = sum(map(_size, others)) + _size(file) - most_of_one()
        found = []
        for one in others:
            if over <= 0:
                break
            found.append(one)
            over -= _size(one)
        return found


_door = threading.Lock()  # one file at a time: what is held is added up before


def bound() -> None:
    """Bound the keeper of uploaded files of this server, once."""
    keeper = _keeper()
    if keeper is not None and not isinstance(keeper, Bounded):
        keeper.__class__ = Bounded  # the web server holds this very object


def most_held() -> int:
    """Return the bytes that the files of all visitors may take, those that no page has seen too."""
    return limits.MAX_HELD_UPLOADS + _WAITING * limits.MAX_UPLOAD_BYTES


def most_of_one() -> int:
    """Return the bytes that one session's files may take: a quarter of the room, at least two full files.

    Two, because a page may ask for cosines and sines.
    """
    return max(most_held() // SHARE, 2 * (settings.current().upload_bytes + LEAST))


def owner() -> str | None:
    """Return whose share of what is held a table of this session takes; None where one person has all."""
    run = get_script_run_ctx()
    return None if run is None or settings.current().one_person else run.session_id


def uploader(
    place: Any, label: str, *, key: str, help: str, most_mb: int | None = None
) -> UploadedFile | None:
    """Draw the choice of one file and return it; a sentence where this server takes none.

    most_mb: of a file that may be smaller only than any other. What is no longer drawn is not read, so a
    browser that sends a file all the same changes nothing. A file is dropped, with a sentence, where those
    of all visitors together would fill the server's memory.
    """
    allowed = settings.current()
    if not allowed.uploads:
        place.caption(SWITCHED_OFF)
        return None
    file: UploadedFile | None = place.file_uploader(
        label, key=key, help=help, max_upload_size=most_mb or allowed.upload_mb
    )
    if file is None and isinstance(st.session_state.get(key), DeletedFile):
        place.error(GONE)
    if file is not None:
        seen: set[str] = st.session_state.setdefault("uploads_seen", set())
        if file.file_id not in seen:
            if held() > limits.MAX_HELD_UPLOADS:
                _drop(file)
                place.error(FULL)
                return None
            seen.add(file.file_id)
            counters.here.count("uploads")
            event("upload", bytes=file.size)
    return file


def held() -> int:
    """Return the bytes of all files that visitors have uploaded and that are in no use yet."""
    keeper = _keeper()
    return 0 if keeper is None else sum(len(file.data) for file in _files(keeper))


def _keeper() -> MemoryUploadedFileManager | None:
    """Return who keeps this server's uploaded files, None where they are not in memory."""
    run = get_script_run_ctx()
    keeper = None if run is None else run.uploaded_file_mgr
    return keeper if isinstance(keeper, MemoryUploadedFileManager) else None


def _files(keeper: MemoryUploadedFileManager) -> list[UploadedFileRec]:
    return [file for files in [*keeper.file_storage.values()] for file in [*files.values()]]


def _size(file: UploadedFileRec) -> int:
    """Return what a file counts for: its sender chooses its words, and how many files there are."""
    words = len(file.name) + len(file.type) + len(file.file_id)
    return max(LEAST, len(file.data) + 4 * words)


def _allowed() -> bool:
    try:
        return settings.current().uploads
    except PosencError:  # a server with a bad setting shows nothing but that
        return False


def _drop(file: UploadedFile) -> None:
    """Forget a file of this visitor's."""
    run, keeper = get_script_run_ctx(), _keeper()
    if run is not None and keeper is not None:
        keeper.remove_file(run.session_id, file.file_id)


def too_large(name: str, size: int, most: int | None = None) -> str:
    """Say that a file has more bytes than may be, "" where it has not. most: other than for any file."""
    most = most or settings.current().upload_bytes
    return "" if size <= most else f"{name} may have {most // 2**20} MB, this one has more."
