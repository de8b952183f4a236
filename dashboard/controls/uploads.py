"""The one place where a page asks for a file of a visitor's."""

from typing import Any, cast

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import DeletedFile, UploadedFile

from dashboard import limits
from dashboard.server import counters, settings, upload_limit
from dashboard.server.logs import event

GONE = "This server does not hold the uploaded file any more. Upload it again."


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
        place.caption(upload_limit.SWITCHED_OFF)
        return None
    most_mb = most_mb or allowed.upload_mb
    file: UploadedFile | None = place.file_uploader(
        label, key=key, help=help, max_upload_size=most_mb
    )
    if file is None and isinstance(st.session_state.get(key), DeletedFile):
        place.error(GONE)
    if file is None:
        return None
    if file.size > most_mb * 2**20:  # the browser alone knows max_upload_size
        place.error(f"A file may have at most {most_mb} MB; this file is larger.")
        return None
    run = cast(Any, get_script_run_ctx())
    counted: set[str] = st.session_state.setdefault("uploads_counted", set())
    if file.file_id not in counted:
        if upload_limit.held() > limits.MAX_HELD_UPLOADS:
            run.uploaded_file_mgr.remove_file(run.session_id, file.file_id)
            place.error(upload_limit.FULL)
            return None
        counted.add(file.file_id)
        counters.here.count("uploads")
        event("upload", bytes=file.size)
    return file


def owner() -> str | None:
    """Return whose share of the memory a table of this session takes; None on a private server."""
    run = get_script_run_ctx()
    return None if run is None or settings.current().one_person else run.session_id
