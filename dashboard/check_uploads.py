"""A visitor's own table for Check my encoding: uploaded, held by its content's name, chosen."""

import streamlit as st

from dashboard import uploads
from dashboard.text import plain
from dashboard.widgets import pressed
from posenc.errors import CheckpointError, PickleRefused, PosencError
from posenc.identification.examples import EXAMPLES
from posenc.identification.given import Given
from posenc.interop import printable_name, read_header, unreadable_reason
from posenc.interop.held_numbers import are_held, hold_numbers
from posenc.interop.number_tables import NumberTable, name_of_sines, read_number_table

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
            "by a name made of its content, never the content itself.",
        )
        if file is None:
            st.caption("For your own test suite: `posenc.testing.assert_matches(table, scheme)`.")
            return
        name = printable_name(file.name)
        try:
            read, source = _read(name, file.getvalue(), right, taken)
            Given.of(read.table, read.sines)  # refused before it is held
            st.caption(plain(" ".join((f"Read: {source}.", *read.notes))))
            if not pressed(st, "Check this table", key="check_use", icon=":material/troubleshoot:"):
                return
            chosen = hold_numbers(read, source)
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


def _read(name: str, content: bytes, place: st.delta_generator.DeltaGenerator, taken: int) -> tuple[
    NumberTable, str
]:  # fmt: skip
    """Return the table of a file, with the sines of another, and what people are told it is."""
    _check_size(content)
    if content.startswith(b"\x93NUMPY"):
        read = read_number_table(content)
        if read.sines is not None or read.table.is_complex():
            return read, name
        beside = uploads.uploader(
            place,
            "Its sines, where it holds cosines (.npy)",
            key=f"check_sines_{taken}",
            help="Leave it empty for a table of sines and cosines.",
        )
        if beside is None:
            return read, name
        second = printable_name(beside.name)
        try:
            _check_size(beside.getvalue())
            sines = read_number_table(beside.getvalue())
        except PickleRefused as error:
            raise CheckpointError(f"The file of sines, {second}: {error.sentence}") from None
        except CheckpointError as error:
            raise CheckpointError(f"The file of sines, {second}: {error}") from None
        if sines.sines is not None:
            raise CheckpointError(f"The file of sines, {second}, holds two tables.")
        return NumberTable(read.table, sines.table, "", read.notes), f"{name} and {second}"
    tensors = _tensors(content)
    tensor = None
    if len(tensors) > 1:
        tensor = place.selectbox(
            "Several tables", tensors, format_func=printable_name, key=f"check_tensor_{taken}"
        )
    read = read_number_table(content, tensor)
    return read, f"{name}, {read.name}"


def _check_size(content: bytes) -> None:
    refused = uploads.too_large("a file", len(content))
    if refused:
        raise CheckpointError(refused)


def _tensors(content: bytes) -> list[str]:
    """Return the matrices of a file by name, those of positions first, without sines of cosines."""
    entries = read_header(content).tensors
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
