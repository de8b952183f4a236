"""A visitor's own table for Check my encoding: uploaded, held by its content's name, chosen."""

from collections.abc import Callable
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.typing import UploadedFile

from dashboard.compute.uploaded_numbers import (
    UploadedNumbers,
    cache_numbers,
    cached_numbers,
    without_extra_rows,
)
from dashboard.controls import uploads
from dashboard.pages.check_my_encoding.examples import EXAMPLES
from dashboard.pages.check_my_encoding.options import CheckChoice
from dashboard.pages.check_my_encoding.readings import digests, reading
from dashboard.text import plain
from posenc import fields
from posenc.checkpoints import read_header, unreadable_reason
from posenc.checkpoints.array_files import NumberTable, name_of_sines, read_number_table
from posenc.errors import CheckpointError, PickleRefused, PosencError
from posenc.text import printable_name

_UPLOADS, _TAKEN = "check_tables", "check_files_taken"
_GIVEN, _REFUSED = "check_file_given", "check_file_refused"
_MOST_OFFERED = 400  # tensors of one file


def names() -> list[str]:
    """Return what can be chosen: the examples, this visitor's uploads, and what the link names."""
    own = [name for name in st.session_state.get(_UPLOADS, ()) if name in cached_numbers]
    return [*dict.fromkeys((*EXAMPLES, *own, chosen()))]


def picker(place: DeltaGenerator, sines_place: DeltaGenerator) -> str:
    """Draw the uploader; cache and choose an uploaded table. Before the choice of the table, which it sets.

    sines_place: of the second file, and of the choice among several tables of one file. Returns "", or
    that the file in the uploader cannot be checked: then no other table's answer is shown, until the
    visitor chooses a table.
    """
    key = f"check_file_{st.session_state.get(_TAKEN, 0)}"
    file = uploads.uploader(
        place,
        "Upload your table (.npy or .safetensors)",
        key=key,
        help="A position table, or a cache of cosines and sines. It is checked at once. The link holds "
        "a hash of its content and name, never the content.",
    )
    if file is not None:
        return _take(file, lambda: _read_file(file, sines_place))
    st.session_state.pop(_GIVEN, None)
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


def chosen() -> str:
    """Return the table that is chosen before its control is drawn."""
    default: str = fields.defaults(CheckChoice)["table"]
    name: str = st.session_state.get("table", st.query_params.get("table", default))
    return name


class _TableFile(NamedTuple):
    """A table read from uploaded files: its numbers, its name for people, and the files to read again.

    more: whether another table of the same file may be chosen.
    """

    read: NumberTable
    source: str
    files: tuple[str, ...]
    tensor: str | None = None
    more: bool = False


def _take(file: UploadedFile, read: Callable[[], _TableFile]) -> str:
    """Hold the table of a file and choose it; return that it cannot be checked, after saying why."""
    name = printable_name(file.name)
    try:
        given = read()
        held = cache_numbers(
            given.read, given.source, files=given.files, tensor=given.tensor, owner=uploads.owner()
        )
    except PickleRefused as error:
        st.error(plain(f"{name}: {error.sentence}"), icon=":material/block:")
        st.code(error.conversion, language="python", wrap_lines=True)
        return _refused(name, file.file_id)
    except PosencError as error:
        st.error(plain(f"{name}: {error}"), icon=":material/block:")
        return _refused(name, file.file_id)
    if st.session_state.get(_GIVEN) == held:
        return ""  # chosen before; what the visitor chose since stays
    st.session_state[_GIVEN] = held
    st.session_state[_UPLOADS] = (*st.session_state.get(_UPLOADS, ()), held)
    st.session_state["table"] = held
    if not given.more:
        # A fresh uploader, so that the file's bytes leave the session's memory.
        st.session_state[_TAKEN] = st.session_state.get(_TAKEN, 0) + 1
        st.rerun()
    return ""


def _refused(name: str, file_id: str) -> str:
    """Return that a file cannot be checked, "" once another table was chosen."""
    before = st.session_state.get(_REFUSED)
    if before is None or before[0] != file_id:
        before = st.session_state[_REFUSED] = (file_id, chosen())
    return f"{name} cannot be checked." if before[1] == chosen() else ""


def _read_file(file: UploadedFile, place: DeltaGenerator) -> _TableFile:
    """Return the table of a file; of several the one that is chosen in `place`."""
    name = printable_name(file.name)
    (digest,) = digests([file])
    if bytes(file.getbuffer()[:6]).startswith(b"\x93NUMPY"):
        read = reading((digest,), lambda: read_number_table(file.getvalue()))
        return _TableFile(read, name, (name,))
    tensors = _tensors(digest, file)
    tensor = None
    if len(tensors) > 1:
        tensor = place.selectbox(
            "Several tables", tensors, format_func=printable_name, key=f"check_tensor_{digest}"
        )
    read = reading((digest, tensor or ""), lambda: read_number_table(file.getvalue(), tensor))
    return _TableFile(read, f"{name}, {read.name}", (name,), tensor, tensor is not None)


def _cosines() -> UploadedNumbers | None:
    """Return the chosen table where it may be cosines alone: of real numbers, from one .npy file."""
    name = chosen()
    if name in EXAMPLES or name not in cached_numbers:
        return None
    held = cached_numbers.get(name)
    alone = held.sines is None and not held.table.is_complex() and held.files == (held.source,)
    return held if alone else None


def _with_sines(cosines: UploadedNumbers, file: UploadedFile) -> _TableFile:
    """Return a held table of cosines with the sines of a file."""
    second = printable_name(file.name)

    def both() -> NumberTable:
        sines = read_number_table(file.getvalue())
        if sines.sines is not None:
            raise CheckpointError("it holds two tables.")
        sines = without_extra_rows(sines)
        return NumberTable(cosines.table, sines.table, "", cosines.notes)

    read = reading((chosen(), *digests([file])), both)
    return _TableFile(read, f"{cosines.source} and {second}", (*cosines.files, second))


@st.cache_data(max_entries=32, show_spinner=False)
def _tensors(digest: str, _file: UploadedFile) -> list[str]:
    """Return the matrices of a file by name, those of positions first, without sines of cosines."""
    entries = read_header(_file.getvalue()).tensors
    names = [
        entry.name
        for entry in entries.values()
        if sum(axis > 1 for axis in entry.shape) == 2 and unreadable_reason(entry) is None
    ]
    names = [name for name in names if name not in {name_of_sines(one) for one in names}]
    words = ("pos", "wpe", "cos", "rotary", "freqs")
    return sorted(names, key=lambda name: not any(word in name.lower() for word in words))[
        :_MOST_OFFERED
    ]
