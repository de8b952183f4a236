"""The parts of Streamlit that its documentation does not promise: a new version may change them.

Each function says what visitors would see then, and which test fails. Beside these, dashboard/app.py asks
whether a script runs (tests/server/test_wheel.py), dashboard/__main__.py runs Streamlit's command and reads
which options are set (tests/server/test_server_settings.py), and components/browser/history.js wraps
history.pushState and names the keys under which the browser keeps a theme
(tests/browser/test_link_browser.py, test_teaching_browser.py).
"""

from typing import Any, cast

from streamlit import runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import DeletedFile, UploadedFile, UploadedFileRec


def is_history_navigation() -> bool:
    """Return whether this run follows Back or Forward, so that the address counts.

    Else Back would change the address and not the page: test_address_counts_at_back_and_forward.
    """
    run = get_script_run_ctx()
    return run is not None and run.is_history_navigation


def session_id() -> str | None:
    """Return the name of this visitor's session, None outside of a run.

    Else tables of all visitors would share one limit: test_table_of_a_shared_server_belongs_to_its_session.
    """
    run = get_script_run_ctx()
    return None if run is None else run.session_id


def ignore_pages_folder() -> None:
    """Keep Streamlit from taking our folder `pages` for its older kind of app.

    Until the first run calls `st.navigation`, it would tell whoever comes by a link that the page does not
    exist: test_first_visitor_by_a_link_is_told_of_no_missing_page.
    """
    PagesManager.uses_pages_directory = False


def uploads(session: str | None = None) -> list[UploadedFileRec]:
    """Return the files that one session, or all of them, uploaded and no page has dropped.

    Else uploads would have no limit of all visitors: test_files_under_fresh_ids_never_fill_the_memory.
    """
    manager = runtime.get_instance().uploaded_file_mgr if runtime.exists() else None
    if not isinstance(manager, MemoryUploadedFileManager):
        return []
    held = [manager.file_storage.get(session, {})] if session else [*manager.file_storage.values()]
    return [file for files in held for file in [*files.values()]]


def drop_upload(file: UploadedFile) -> None:
    """Drop a file of this session, whose page has refused it.

    Else refused files would fill the memory: test_doors_hold_nothing_of_what_they_refused.
    """
    run = cast(Any, get_script_run_ctx())
    run.uploaded_file_mgr.remove_file(run.session_id, file.file_id)


def is_dropped(file: Any) -> bool:
    """Return whether an uploader names a file that the server holds no more, as after a restart.

    Else the page would fail in reading it: test_file_past_the_limit_of_all_or_lost_is_refused.
    """
    return isinstance(file, DeletedFile)
