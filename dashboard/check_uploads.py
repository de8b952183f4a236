"""A visitor's own table for Check my encoding: uploaded, held by its content's name, chosen."""

from typing import NamedTuple

import streamlit as st
from streamlit.typing import UploadedFile

from dashboard import uploads
from dashboard.check_readings import digests, reading
from dashboard.text import plain
from dashboard.widgets import pressed
from posenc.errors import CheckpointError, PickleRefused, PosencError
from posenc.identification.examples import EXAMPLES
from posenc.interop import printable_name, unreadable_reason
from posenc.interop.held_numbers import are_held, hold_numbers
from posenc.interop.number_tables import (
    NumberTable,
    header_of_tables,
    name_of_sines,
    read_number_table,
)

_UPLOADS, _TAKEN = "check_tables", "check_files_taken"
_MOST_OFFERED = 400  # tensors of one file


def names() -> list[str]:
    """Return what can be chosen: the examples, this visitor's uploads, and what the link names."""
    asked = st.session_state.get("table", st.query_params.get("table", ""))
    own = [name for name in st.session_state.get(_UPLOADS, ()) if are_held(name)]
    return [*dict.fromkeys((*EXAMPLES, *own, *((asked,) if asked else ())))]


def picker() -> None:
    """Draw the uploader; before the choice of the table, which it sets."""
    drawer = st.expander(
        "Check a file of your own", key="check_upload", on_change="rerun", icon=":material/upload_file:"
    )  # fmt: skip
    if not drawer.open:
        return
    with drawer:
        taken = st.session_state.get(_TAKEN, 0)
        left, right = st.columns(2)
        file = uploads.uploader(
            left,
            "Table (.npy or .safetensors)",
            key=f"check_file_{taken}",
            help="A position table, or a cache of cosines and sines. It is held in memory and in the link "
            "by a name made of its content and its own, never the content itself.",
        )
        if file is None:
            st.caption("For your own test suite: `posenc.testing.assert_matches(table, scheme)`.")
            return
        name = printable_name(file.name)
        try:
            given = _given(file, right, taken)
            source = given.source
            st.caption(plain(" ".join((f"Read: {source}.", *given.read.notes))))
            if not pressed(st, "Check this table", key="check_use", icon=":material/troubleshoot:"):
                return
            chosen = hold_numbers(
                given.read, source, files=given.files, tensor=given.tensor, owner=uploads.owner()
            )
        except PickleRefused as error:
            st.error(plain(f"{name}: {error.sentence}"), icon=":material/block:")
            st.code(error.conversion, language="python")
            return
        except PosencError as error:
            st.error(plain(f"{name}: {error}"), icon=":material/block:")
            return
    st.session_state[_UPLOADS] = (*st.session_state.get(_UPLOADS, ()), chosen)
    # A fresh uploader, so that the file's bytes leave the session's memory.
    st.session_state[_TAKEN] = taken + 1
    st.session_state["table"] = chosen
    st.rerun()


class _Given(NamedTuple):
    """What a visitor gave: the table that is read, what people are told it is, and how to read it again."""

    read: NumberTable
    source: str
    files: tuple[str, ...]
    tensor: str | None


def _given(file: UploadedFile, place: st.delta_generator.DeltaGenerator, taken: int) -> _Given:
    """Return the table of a file, with the sines of another where one is given."""
    _check_size(file)
    name = printable_name(file.name)
    if not bytes(file.getbuffer()[:6]).startswith(b"\x93NUMPY"):
        (digest,) = digests([file])
        tensors = _tensors(digest, file)
        tensor = None
        if len(tensors) > 1:
            tensor = place.selectbox(
                "Several tables", tensors, format_func=printable_name, key=f"check_tensor_{taken}"
            )
        read = reading((digest, tensor or ""), lambda: read_number_table(file.getvalue(), tensor))
        return _Given(read, f"{name}, {read.name}", (name,), tensor)
    (digest,) = digests([file])
    read = reading((digest,), lambda: read_number_table(file.getvalue()))
    if read.sines is not None or read.table.is_complex():
        return _Given(read, name, (name,), None)
    beside = uploads.uploader(
        place,
        "Its sines, where it holds cosines (.npy)",
        key=f"check_sines_{taken}",
        help="Leave it empty for a table of sines and cosines.",
    )
    if beside is None:
        return _Given(read, name, (name,), None)
    second = printable_name(beside.name)

    def both() -> NumberTable:
        sines = read_number_table(beside.getvalue())
        if sines.sines is not None:
            raise CheckpointError("it holds two tables.")
        cosines = read_number_table(file.getvalue())
        return NumberTable(cosines.table, sines.table, "", cosines.notes)

    try:
        _check_size(beside)
        together = reading(digests([file, beside]), both)
    except PickleRefused as error:
        raise CheckpointError(f"The file of sines, {second}: {error.sentence}") from None
    except PosencError as error:
        raise CheckpointError(f"The file of sines, {second}: {error}") from None
    return _Given(together, f"{name} and {second}", (name, second), None)


def _check_size(file: UploadedFile) -> None:
    refused = uploads.too_large("a file", file.size)
    if refused:
        raise CheckpointError(refused)


@st.cache_data(max_entries=32, show_spinner=False)
def _tensors(digest: str, _file: UploadedFile) -> list[str]:
    """Return the matrices of a file by name, those of positions first, without sines of cosines."""
    entries = header_of_tables(_file.getvalue()).tensors
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
