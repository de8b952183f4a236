"""What uploaded files hold, read once each: moving another control costs nothing.

A reading is kept by the content of its files, never by their names, cut to what is held and checked.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import streamlit as st
from streamlit.typing import UploadedFile
from torch import Tensor

from dashboard.compute.uploaded_numbers import without_extra_rows
from posenc.checkpoints.array_files import NumberTable
from posenc.errors import PosencError
from posenc.identification.columns import TableInput

MOST_READINGS = 8
MOST_BYTES = 128 * 2**20  # of the tables of all readings, but the newest is always kept
_DIGESTS = "check_digests"

_kept: OrderedDict[tuple[str, ...], NumberTable | PosencError] = OrderedDict()
_lock = threading.Lock()


def digests(files: Sequence[UploadedFile]) -> tuple[str, ...]:
    """Return a name of each file's content; a file that was named before is not read again."""
    known: dict[str, str] = st.session_state.get(_DIGESTS, {})
    found = {
        file.file_id: known.get(file.file_id) or hashlib.sha256(file.getbuffer()).hexdigest()
        for file in files
    }
    st.session_state[_DIGESTS] = found
    return tuple(found[file.file_id] for file in files)


def reading(key: tuple[str, ...], read: Callable[[], NumberTable]) -> NumberTable:
    """Return a table as it is held, checked; `read` is called where nothing is kept under the key.

    Raises what `read` raised, and SchemeArgumentError for what cannot be identified.
    """
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
    if found is None:
        found = _read(read)
        with _lock:
            _kept[key] = found
            while len(_kept) > MOST_READINGS or (
                len(_kept) > 1 and sum(_size(one) for one in _kept.values()) > MOST_BYTES
            ):
                _kept.popitem(last=False)
    if isinstance(found, PosencError):
        raise found.with_traceback(None)
    return found


def _read(read: Callable[[], NumberTable]) -> NumberTable | PosencError:
    try:
        table = without_extra_rows(read())  # first, so that what is checked is what is looked at
        TableInput.of(table.table, table.sines)
    except PosencError as error:
        return error.with_traceback(None)
    return table


def _size(one: NumberTable | PosencError) -> int:
    if isinstance(one, PosencError):
        return 0
    parts: list[Tensor] = [one.table] if one.sines is None else [one.table, one.sines]
    return sum(part.numel() * part.element_size() for part in parts)
