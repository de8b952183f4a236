"""The one place where a file of a visitor's comes in, and where that is switched off."""

from typing import Any

import streamlit as st
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import UploadedFile

from dashboard import counters, server_settings
from dashboard.logs import event
from posenc import limits

SWITCHED_OFF = "Uploads are switched off on this server."
FULL = "Other visitors' files fill this server's memory just now: this one was dropped. Try again soon."


def uploader(
    place: Any, label: str, *, key: str, help: str, most_mb: int | None = None
) -> UploadedFile | None:
    """Draw the choice of one file and return it; a sentence where this server takes none.

    most_mb: of a file that may be smaller only than any other. What is no longer drawn is not read, so a
    browser that sends a file all the same changes nothing. A file is dropped, with a sentence, where those
    of all visitors together would fill the server's memory.
    """
    allowed = server_settings.current()
    if not allowed.uploads:
        place.caption(SWITCHED_OFF)
        return None
    file: UploadedFile | None = place.file_uploader(
        label, key=key, help=help, max_upload_size=most_mb or allowed.upload_mb
    )
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
    run = get_script_run_ctx()
    keeper = None if run is None else run.uploaded_file_mgr
    if not isinstance(keeper, MemoryUploadedFileManager):
        return 0  # nothing of them is in memory
    sessions = [*keeper.file_storage.values()]
    return sum(len(file.data) for files in sessions for file in [*files.values()])


def _drop(file: UploadedFile) -> None:
    """Forget a file of this visitor's."""
    run = get_script_run_ctx()
    if run is not None and isinstance(run.uploaded_file_mgr, MemoryUploadedFileManager):
        run.uploaded_file_mgr.remove_file(run.session_id, file.file_id)


def too_large(name: str, size: int, most: int | None = None) -> str:
    """Say that a file has more bytes than may be, "" where it has not. most: other than for any file."""
    most = most or server_settings.current().upload_bytes
    return "" if size <= most else f"{name} may have {most // 2**20} MB, this one has more."
