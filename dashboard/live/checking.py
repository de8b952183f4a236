"""The parts of Check that need a running server: the uploaders of tables, and of queries and keys.

A callback of an uploader reads the file, keeps its numbers under a name made of their content, and chooses
that name as an option, before the page is made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from dashboard import controls, session
from dashboard.components.browser import pale_while_uploading
from dashboard.live.taking import Change, Kept, draw_refusal, take, uploader_key
from dashboard.server import uploaders
from dashboard.text import plain, with_ids
from dashboard.visitor_files import (
    MAX_NUMBERS,
    UploadedNumbers,
    cache_numbers,
    cached_numbers,
    without_extra_rows,
)
from posenc.analysis.layout_mixups import MAX_POSITIONS
from posenc.checkpoints import read_header, unreadable_reason
from posenc.checkpoints.array_files import (
    NumberTable,
    name_of_sines,
    read_array,
    read_number_table,
)
from posenc.errors import CheckpointError
from posenc.identification.columns import TableInput
from posenc.text import printable_name

MOST_OFFERED = 400  # tensors of one file
UPLOADED, SEVERAL = "_check_tables", "_check_several"  # names of this visitor's
# Uploaders of queries and keys: option, label, help.
VECTORS = (
    (
        "vectors",
        "Your queries and keys (.npy, optional)",
        "Of one head, before the rotation: an array of 2 x positions x head width, queries first. "
        "The first 512 positions count. Not saved in links.",
    ),
    (
        "rotated",
        "The same after your rotation (.npy, optional)",
        "An array of the same shape. The answer names the layout and the angles of your code.",
    ),
)

# Uploaders of attention logits, in the order in which they are asked for.
LOGITS = (
    (
        "queries",
        "Your queries (.npy, optional)",
        "heads x queries x head width, before or after the rotation. Not saved in links.",
    ),
    (
        "keys",
        "Your keys (.npy)",
        "heads of keys x keys x head width. The queries are the last of them.",
    ),
    (
        "logits",
        "Your logits (.npy)",
        "heads x queries x keys, before the softmax, with minus infinity where a key is hidden; or the "
        "weights after it.",
    ),
)


@dataclass(frozen=True)
class Several:
    """The tables of a file, of which one is read, and the key of their choice."""

    tensors: tuple[str, ...]
    key: str


def upload_table(
    place: Any,
    change: Change,
    *,
    examples: Sequence[str],
    table: str,
    mark: str,
    refused: bool,
) -> None:
    """Draw the uploader, the choice of a table, and what a file may need besides.

    That is its sines, or which of its tables is meant. examples: names that are always there. table: the
    chosen one. mark: what the option `refused` begins with. refused: whether the last file was.
    """
    upload, choice, second = place.columns([3, 2, 3])
    key = uploader_key("check_file")
    pale_while_uploading()
    uploaders.draw(
        upload,
        "Upload your table (.npy or .safetensors)",
        key=key,
        help="A position table, or a cache of cosines and sines. It is checked at once. The link holds "
        "a hash of its content and name, never the content.",
        on_change=take_table,
        args=(change, key, mark),
    )
    several: Several | None = st.session_state.get(SEVERAL)
    if st.session_state.get(key) is None:  # the file is gone
        several = None
    cosines = _cosines(table, examples)
    if several is not None:
        second.selectbox(
            "Several tables", several.tensors, key=several.key, format_func=printable_name,
            on_change=take_table, args=(change, key, mark),
        )  # fmt: skip
    elif cosines is not None:
        uploaders.draw(
            second,
            "Sine table (optional)",
            key=f"{key}_sines",
            help=f"The sines that belong to {plain(cosines.source)}, as .npy.",
            on_change=take_sines,
            args=(change, f"{key}_sines", mark, cosines),
        )
    if refused:
        draw_refusal(place)
    own = [name for name in st.session_state.get(UPLOADED, ()) if name in cached_numbers]
    offered = with_ids({name: _label(name, examples) for name in (*examples, *own, table)})
    controls.control(choice, "table", table, offered=offered)


def upload_vectors(
    place: Any, change: Change, *, mark: str, refused: bool, uploaded: Sequence[str]
) -> None:
    """Draw the uploaders of queries and keys: the second, after a rotation, once the first is read.

    mark, refused: as for a table. uploaded: the names of what was read.
    """
    pale_while_uploading()
    columns = place.columns(2)
    for column, (option, label, help) in zip(columns, VECTORS[: len(uploaded) + 1], strict=False):
        key = uploader_key(f"check_{option}")
        uploaders.draw(
            column,
            label,
            key=key,
            help=help,
            on_change=take_vectors,
            args=(change, key, mark, option),
        )
    if refused:
        draw_refusal(place)


def upload_logits(
    place: Any, change: Change, *, mark: str, refused: bool, uploaded: Sequence[str]
) -> None:
    """Draw the uploader of queries, then of keys, then of logits. mark, refused, uploaded: as above."""
    upload_next(place, change, LOGITS, mark=mark, refused=refused, uploaded=uploaded)


def upload_next(
    place: Any,
    change: Change,
    arrays: Sequence[tuple[str, str, str]],
    *,
    mark: str,
    refused: bool,
    uploaded: Sequence[str],
) -> None:
    """Draw the uploader of the next of several arrays: option, label and help of each."""
    option, label, help = arrays[len(uploaded) % len(arrays)]
    key = uploader_key(f"check_{option}")
    pale_while_uploading()
    uploaders.draw(
        place, label, key=key, help=help, on_change=take_array, args=(change, key, mark, option)
    )
    if refused:
        draw_refusal(place)


@session.callback
def take_array(change: Change, key: str, mark: str, option: str) -> None:
    """Keep the array of a file as it is, and choose it."""

    def read(name: str, content: bytes, _key: str) -> UploadedNumbers:
        array = read_array(content)
        if array.numel() > MAX_NUMBERS:
            raise CheckpointError(
                f"an array may have at most {MAX_NUMBERS:,} numbers here, got {array.numel():,}."
            )
        return UploadedNumbers(NumberTable(array, None, ""), name, (name,))

    _take(change, key, mark, option, read)


@session.callback
def take_table(change: Change, key: str, mark: str) -> None:
    """Keep the table of a file, of several the chosen one, and choose it for the page."""
    _take(change, key, mark, "table", _read_table)


@session.callback
def take_sines(change: Change, key: str, mark: str, cosines: UploadedNumbers) -> None:
    """Keep cosines with the sines of a file, and choose them."""

    def read(name: str, content: bytes, _key: str) -> UploadedNumbers:
        sines = read_number_table(content)
        if sines.sines is not None:
            raise CheckpointError("it holds two tables.")
        table = replace(cosines.table, sines=without_extra_rows(sines).table, name="")
        return UploadedNumbers(table, f"{cosines.source} and {name}", (*cosines.files, name))

    _take(change, key, mark, "table", read)


@session.callback
def take_vectors(change: Change, key: str, mark: str, option: str) -> None:
    """Keep the first queries and keys of a file, and choose them."""

    def read(name: str, content: bytes, _key: str) -> UploadedNumbers:
        vectors = read_number_table(content)
        if vectors.table.ndim < 2 or vectors.table.numel() == 0:
            raise CheckpointError(
                "queries and keys must be an array of 2 x positions x head width, none of them 0."
            )
        first = vectors.table[:MAX_POSITIONS].clone()
        second = None if vectors.sines is None else vectors.sines[:MAX_POSITIONS].clone()
        return UploadedNumbers(replace(vectors, table=first, sines=second), name, (name,))

    _take(change, key, mark, option, read)


def _take(
    change: Change,
    key: str,
    mark: str,
    option: str,
    read: Callable[[str, bytes, str], UploadedNumbers],
) -> None:
    """Keep the numbers of a file and choose them; of a table, those that can be identified."""
    st.session_state[SEVERAL] = None

    def keep(name: str, content: bytes, file_id: str) -> Kept:
        new = read(name, content, file_id)
        if option == "table":
            table = without_extra_rows(new.table)
            TableInput.of(table.table, table.sines)  # raises for what cannot be identified
            new = replace(new, table=table)
        array = cache_numbers(new, uploaders.owner())
        if option == "table":
            st.session_state[UPLOADED] = (*st.session_state.get(UPLOADED, ()), array)
        return Kept(array, is_done=new.tensor is None)

    take(change, key, mark, option, keep)


def _read_table(name: str, content: bytes, file_id: str) -> UploadedNumbers:
    """Return the table of a file; of several the one that is chosen, or the first."""
    tensors = [] if content.startswith(b"\x93NUMPY") else _tensors(content)
    if len(tensors) < 2:
        table = read_number_table(content)
        return UploadedNumbers(table, f"{name}, {table.name}" if table.name else name, (name,))
    several = Several(tuple(tensors), f"check_tensor_{file_id}")
    st.session_state[SEVERAL] = several
    tensor = st.session_state.get(several.key, tensors[0])
    table = read_number_table(content, tensor)
    return UploadedNumbers(table, f"{name}, {table.name}", (name,), tensor)


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
        :MOST_OFFERED
    ]


def _label(table: str, examples: Sequence[str]) -> str:
    """Return what the list calls a table: an example by itself, an upload by its file."""
    if table in examples:
        return table
    try:
        return cached_numbers.get(table).source
    except CheckpointError:
        return "Not on this server"


def _cosines(table: str, examples: Sequence[str]) -> UploadedNumbers | None:
    """Return the chosen table where it may be cosines alone: of real numbers, from one .npy file."""
    if table in examples or table not in cached_numbers:
        return None
    numbers = cached_numbers.get(table)
    alone = numbers.table.sines is None and not numbers.table.table.is_complex()
    return numbers if alone and numbers.files == (numbers.source,) else None
