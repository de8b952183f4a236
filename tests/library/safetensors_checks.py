"""Checks of the safetensors reader: refusals, memory, and agreement with the safetensors library."""

import tracemalloc
from collections.abc import Callable

import pytest
import safetensors

from posenc.checkpoints.safetensors_file import read_header
from posenc.errors import CheckpointError

MEBIBYTE = 2**20

# Parts of the refusals that the docstring of safetensors_file lists as stricter than the library.
STRICTER = (
    "at most 4,194,304 are read",
    "more than 20,000 tensors",
    "more than 256 characters",
    "more than 400,000 values",
    "beyond ASCII",
    "at most 32 whole numbers",
    "an impossible shape",
    "twice.",
    "an object whose values are texts",
    "exactly the fields dtype, shape and data_offsets",
    "has the unknown dtype {",
    "must begin with an object",
)


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(CheckpointError) as caught:
        act()
    return str(caught.value)


def library_accepts(content: bytes) -> bool:
    try:
        safetensors.deserialize(content)
    except safetensors.SafetensorError:
        return False
    return True


def peak_memory(act: Callable[[], object]) -> int:
    """Return the most bytes that Python objects took while `act` ran."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def outcome(content: bytes) -> object:
    """Return all that the header holds, in its order, or the sentence of the refusal."""
    try:
        header = read_header(content)
    except CheckpointError as error:
        return str(error)
    return list(header.tensors.items()), header.metadata, header.data_start


def assert_agrees_with_library(content: bytes) -> None:
    """Both read the same tensors, or both refuse, or ours refuses for a documented reason."""
    ours = outcome(content)
    if isinstance(ours, str):
        documented = any(fragment in ours for fragment in STRICTER)
        assert documented or not library_accepts(content), ours
        return
    header = read_header(content)
    theirs = dict(safetensors.deserialize(content))
    assert header.tensors.keys() == theirs.keys()
    for name, entry in header.tensors.items():
        assert (list(entry.shape), entry.dtype) == (theirs[name]["shape"], theirs[name]["dtype"])
        begin = header.data_start
        assert content[begin + entry.start : begin + entry.stop] == theirs[name]["data"]
