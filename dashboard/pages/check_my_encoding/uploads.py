"""A visitor's own table for Check my encoding: uploaded, cached by its content's name, chosen."""

import hashlib
from collections.abc import Callable
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.typing import UploadedFile

from dashboard.controls import uploads
from dashboard.pages.check_my_encoding.examples import EXAMPLES
from dashboard.pages.check_my_encoding.options import CheckChoice
from dashboard.text import plain
from dashboard.visitor_files import (
    UploadedNumbers,
    cache_numbers,
    cached_numbers,
    without_extra_rows,
)
from posenc import fields
from posenc.checkpoints import read_header, unreadable_reason
from posenc.checkpoints.array_files import NumberTable, name_of_sines, read_number_table
from posenc.errors import CheckpointError, PickleRefused, PosencError
from posenc.identification.columns import TableInput
from posenc.text import printable_name

_NAMES, _COUNT = "check_tables", "check_files_taken"
_LAST, _REFUSED = "check_file_given", "check_file_refused"
_MOST_OFFERED = 400  # tensors of one file
# Uploaders of queries and keys: label, key and help.
_VECTORS = (
    (
        "Your queries and keys (.npy, optional)",
        "check_vectors",
        "Of one head, before the rotation: an array of 2 x positions x head width, queries first. "
        "The first 512 positions count. Not saved in links.",
    ),
    (
        "The same after your rotation (.npy, optional)",
        "check_rotated",
        "An array of the same shape. The answer names the layout and the angles of your code.",
    ),
)


def names() -> list[str]:
    """Return what can be chosen: the examples, this visitor's uploads, and what the link names."""
    own = [name for name in st.session_state.get(_NAMES, ()) if name in cached_numbers]
    return [*dict.fromkeys((*EXAMPLES, *own, chosen()))]


def chosen() -> str:
    """Return the table that is chosen before its control is drawn."""
    default: str = fields.defaults(CheckChoice)["table"]
    name: str = st.session_state.get("table", st.query_params.get("table", default))
    return name


def picker(place: DeltaGenerator, sines_place: DeltaGenerator) -> str:
    """Draw the uploader; cache and choose an uploaded table. Before the choice of the table, which it sets.

    sines_place: of the second file, and of the choice among several tables of one file. Returns "", or
    that the file in the uploader cannot be checked: then no other table's answer is shown, until the
    visitor chooses a table.
    """
    key = f"check_file_{st.session_state.get(_COUNT, 0)}"
    file = uploads.uploader(
        place,
        "Upload your table (.npy or .safetensors)",
        key=key,
        help="A position table, or a cache of cosines and sines. It is checked at once. The link holds "
        "a hash of its content and name, never the content.",
    )
    if file is not None:
        return _take(file, lambda: _read_file(file, sines_place))
    st.session_state.pop(_LAST, None)
    if st.session_state.get(key) is not None:  # dropped by this server, which said why
        return _refused("The file", st.session_state[key].file_id)
    cosines = _cosines()
    if cosines is None:
        return ""
    sines = uploads.uploader(
        sines_place,
        "Sine table (optional)",
        key=f"{key}_sines",
        help=f"The sines that belong to {plain(cosines.source)}, as .npy.",
    )
    return "" if sines is None else _take(sines, lambda: _with_sines(cosines, sines))


def queries_and_keys() -> list[NumberTable]:
    """Draw the uploaders of queries and keys, before and after a rotation; return what was uploaded."""
    tables: list[NumberTable] = []
    for place, (label, key, help) in zip(st.columns(2), _VECTORS, strict=True):
        file = uploads.uploader(place, label, key=key, help=help)
        if file is None:
            break
        try:
            tables.append(read_number_table(file.getvalue()))
        except PosencError as error:
            place.error(plain(f"{printable_name(file.name)}: {error}"), icon=":material/block:")
            break
    return tables


def _take(file: UploadedFile, read: Callable[[], UploadedNumbers]) -> str:
    """Cache the table of a file and choose it; return that it cannot be checked, after saying why."""
    name = printable_name(file.name)
    try:
        new = read()
        table = without_extra_rows(new.table)
        TableInput.of(table.table, table.sines)  # raises for what cannot be identified
        array = cache_numbers(replace(new, table=table), uploads.owner())
    except PosencError as error:
        reason = error.sentence if isinstance(error, PickleRefused) else str(error)
        st.error(plain(f"{name}: {reason}"), icon=":material/block:")
        if isinstance(error, PickleRefused):
            st.code(error.conversion, language="python", wrap_lines=True)
        return _refused(name, file.file_id)
    if st.session_state.get(_LAST) == array:
        return ""  # chosen before; what the visitor chose since stays
    st.session_state[_LAST] = st.session_state["table"] = array
    st.session_state[_NAMES] = (*st.session_state.get(_NAMES, ()), array)
    if new.tensor is None:
        # A fresh uploader, so that the file's bytes leave the session's memory.
        st.session_state[_COUNT] = st.session_state.get(_COUNT, 0) + 1
        st.rerun()
    return ""


def _refused(name: str, file_id: str) -> str:
    """Return that a file cannot be checked, "" once another table was chosen."""
    before = st.session_state.get(_REFUSED)
    if before is None or before[0] != file_id:
        before = st.session_state[_REFUSED] = (file_id, chosen())
    return f"{name} cannot be checked." if before[1] == chosen() else ""


def _read_file(file: UploadedFile, place: DeltaGenerator) -> UploadedNumbers:
    """Return the table of a file; of several the one that is chosen in `place`."""
    name, content = printable_name(file.name), file.getvalue()
    tensors = [] if content.startswith(b"\x93NUMPY") else _tensors(content)
    if len(tensors) < 2:
        table = read_number_table(content)
        return UploadedNumbers(table, f"{name}, {table.name}" if table.name else name, (name,))
    digest = hashlib.sha256(content).hexdigest()
    tensor = place.selectbox(
        "Several tables", tensors, format_func=printable_name, key=f"check_tensor_{digest}"
    )
    table = _read_tensor(digest, tensor, content)
    return UploadedNumbers(table, f"{name}, {table.name}", (name,), tensor)


@st.cache_data(max_entries=8, show_spinner=False)
def _read_tensor(digest: str, tensor: str, _content: bytes) -> NumberTable:
    """Return one of several tables of a file, which stays in the uploader for the others."""
    return without_extra_rows(read_number_table(_content, tensor))


def _tensors(content: bytes) -> list[str]:
    """Return the matrices of a file by name, those of positions first, without sines of cosines."""
    names = [
        entry.name
        for entry in read_header(content).tensors.values()
        if sum(axis > 1 for axis in entry.shape) == 2 and unreadable_reason(entry) is None
    ]
    names = [name for name in names if name not in {name_of_sines(cosines) for cosines in names}]
    words = ("pos", "wpe", "cos", "rotary", "freqs")
    return sorted(names, key=lambda name: not any(word in name.lower() for word in words))[
        :_MOST_OFFERED
    ]


def _cosines() -> UploadedNumbers | None:
    """Return the chosen table where it may be cosines alone: of real numbers, from one .npy file."""
    name = chosen()
    if name in EXAMPLES or name not in cached_numbers:
        return None
    numbers = cached_numbers.get(name)
    alone = numbers.table.sines is None and not numbers.table.table.is_complex()
    return numbers if alone and numbers.files == (numbers.source,) else None


def _with_sines(cosines: UploadedNumbers, file: UploadedFile) -> UploadedNumbers:
    """Return a cached table of cosines with the sines of a file."""
    second, sines = printable_name(file.name), read_number_table(file.getvalue())
    if sines.sines is not None:
        raise CheckpointError("it holds two tables.")
    table = replace(cosines.table, sines=without_extra_rows(sines).table, name="")
    return UploadedNumbers(table, f"{cosines.source} and {second}", (*cosines.files, second))
