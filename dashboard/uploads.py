"""The one place where a file of a visitor's comes in, and where that is switched off."""

from typing import Any

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from dashboard import counters, server_settings
from dashboard.logs import event

SWITCHED_OFF = "Uploads are switched off on this server."


def uploader(
    place: Any, label: str, *, key: str, help: str, most_mb: int | None = None
) -> UploadedFile | None:
    """Draw the choice of one file and return it; a sentence where this server takes none.

    most_mb: of a file that may be smaller only than any other. What is no longer drawn is not read, so a
    browser that sends a file all the same changes nothing.
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
            seen.add(file.file_id)
            counters.here.count("uploads")
            event("upload", bytes=file.size)
    return file


def too_large(name: str, size: int, most: int | None = None) -> str:
    """Say that a file has more bytes than may be, "" where it has not. most: other than for any file."""
    most = most or server_settings.current().upload_bytes
    return "" if size <= most else f"{name} may have {most // 2**20} MB, this one has more."
