"""A visitor's file, read in a callback of its uploader: its numbers are kept, or it is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import streamlit as st

from dashboard.blocks import Changes
from dashboard.server import uploaders
from dashboard.text import plain
from posenc.errors import PickleRefused, PosencError
from posenc.text import printable_name

Change = Callable[[Changes], None]
TAKEN, REFUSED = "_files_taken", "_file_refused"  # how many files were taken; why the last was not


@dataclass(frozen=True)
class Refusal:
    """Why a file is refused. conversion: the code that makes a readable file of it, "" for none."""

    sentence: str
    conversion: str = ""

    @classmethod
    def of(cls, name: str, error: PosencError) -> "Refusal":
        """Return the refusal of a file, or of another source, of this name."""
        if isinstance(error, PickleRefused):
            return cls(f"{name}: {error.sentence}", error.conversion)
        return cls(f"{name}: {error}")


class Kept(NamedTuple):
    """The name under which a file's numbers are kept, and whether the file itself is needed any more."""

    name: str
    is_done: bool = True


# Of a file's printable name, content and id; raises PosencError for a file that cannot be used.
Keep = Callable[[str, bytes, str], Kept]


def take(change: Change, key: str, mark: str, option: str, keep: Keep) -> None:
    """Keep what a file holds and set an option to its name; or tell the page that it is refused.

    key: of the uploader. mark: what the option `refused` begins with.
    """
    st.session_state[REFUSED] = None
    file, problem = uploaders.given(key)
    if file is None:
        st.session_state[REFUSED] = Refusal(problem)
        change({"refused": f"{mark}The file" if problem else ""})
        return
    name = printable_name(file.name)
    try:
        kept = keep(name, file.getvalue(), file.file_id)
    except PosencError as error:
        refuse(change, mark, name, error)
        return
    if kept.is_done:  # a fresh uploader, so that the file's bytes leave the session's memory
        st.session_state[TAKEN] = st.session_state.get(TAKEN, 0) + 1
    change({option: kept.name, "refused": ""})


def refuse(change: Change, mark: str, name: str, error: PosencError) -> None:
    """Tell the page that a file, or another source, of this name is refused."""
    st.session_state[REFUSED] = Refusal.of(name, error)
    change({"refused": f"{mark}{name}"})


def uploader_key(uploader: str) -> str:
    """Return the key of an uploader, another one after every file that was taken."""
    return f"{uploader}_{st.session_state.get(TAKEN, 0)}"


def draw_refusal(place: Any) -> None:
    """Say why the last file is refused."""
    refusal: Refusal | None = st.session_state.get(REFUSED)
    if refusal is None:
        return
    place.error(plain(refusal.sentence), icon=":material/block:")
    if refusal.conversion:
        place.code(refusal.conversion, language="python", wrap_lines=True)
