"""A checkpoint of one file or of many: its tensors by name, of which one at a time is read.

A checkpoint of many files has an index, `model.safetensors.index.json`, whose `weight_map` names the file
of each tensor (https://huggingface.co/docs/transformers/big_models). A file is opened when one of its
tensors is asked for, and no more of it is read than its header and that tensor.
"""

import contextlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from posenc import limits
from posenc.checkpoints.hub import HubFileMissing, hub_file
from posenc.checkpoints.safetensors_file import (
    BITS,
    ByteRanges,
    FileSource,
    Header,
    TensorEntry,
    TensorRead,
    opened,
    read_header,
    read_tensor,
    readable_entry,
)
from posenc.errors import CheckpointError, quoted
from posenc.text import printable_name

INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
_FILE_NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,127}\.safetensors")

Opener = Callable[[str], contextlib.AbstractContextManager[ByteRanges]]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The tensors of a checkpoint. files: the name of the file of each tensor.

    open_file: opens a file by its name. label: of the checkpoint, for sentences.
    """

    files: Mapping[str, str]
    open_file: Opener
    label: str
    _headers: dict[str, Header] = field(default_factory=dict)

    def entry(self, name: str) -> TensorEntry:
        """Return a tensor's type and shape.

        Raises CheckpointError where it is missing or cannot be read, as numbers of 8 bits or less.
        """
        header = self._header(name)
        entry = header.tensors.get(name)
        if entry is not None and BITS[entry.dtype] <= 8:
            raise CheckpointError(
                f"Tensor {printable_name(name)} holds {entry.dtype}, numbers of {BITS[entry.dtype]} bits, "
                "which mean nothing without their scales; a checkpoint in 16 or 32 bits is read."
            )
        return readable_entry(header, name)

    def read(self, name: str) -> TensorRead:
        """Return one tensor. Raises CheckpointError as `entry` does."""
        self.entry(name)
        with self.open_file(self.files[name]) as source:
            return read_tensor(source, name)

    def _header(self, name: str) -> Header:
        if name not in self.files:
            raise CheckpointError(f"The checkpoint holds no tensor named {printable_name(name)}.")
        file = self.files[name]
        if file not in self._headers:
            with self.open_file(file) as source:
                self._headers[file] = read_header(source)
        return self._headers[file]


def local_checkpoint(source: FileSource) -> Checkpoint:
    """Return a checkpoint of this machine: a .safetensors file, its bytes, an index, or their folder.

    Raises CheckpointError.
    """
    if isinstance(source, bytes | ByteRanges):
        return _of_one_file("the file", lambda _: opened(source))
    path = Path(source)
    if path.is_dir():
        found = next((path / name for name in (INDEX, WHOLE) if (path / name).is_file()), None)
        if found is None:
            raise CheckpointError(f"The folder holds neither {INDEX} nor {WHOLE}.")
        path = found
    if path.suffix != ".json":
        label = printable_name(path.name)
        return _of_one_file(label, lambda _: opened(path, limits.MAX_SHARD_BYTES))
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size <= limits.MAX_INDEX_BYTES else b""
    except OSError as error:
        reason = (error.strerror or "it is not readable").lower()
        raise CheckpointError(f"The index cannot be opened: {reason}.") from None
    _check_index_size(size)

    def open_file(name: str) -> contextlib.AbstractContextManager[ByteRanges]:
        if not (path.parent / name).is_file():
            raise CheckpointError(
                f"The file {name}, which the index names, is missing beside {printable_name(path.name)}."
            )
        return opened(path.parent / name, limits.MAX_SHARD_BYTES)

    return Checkpoint(_weight_map(content), open_file, printable_name(path.name))


def hub_checkpoint(model: str, *, revision: str = "main", seconds: float = 60.0) -> Checkpoint:
    """Return a model's checkpoint on the Hugging Face Hub, of which tensors are read by ranges.

    revision: a branch, tag or commit. seconds: limit of the time of all readings together.
    Raises CheckpointError; the Hub is off unless the environment sets POSENC_HUB to 1.
    """
    end = time.monotonic() + seconds

    def open_file(name: str) -> contextlib.AbstractContextManager[ByteRanges]:
        return hub_file(model, name, revision=revision, end=end)

    try:
        with open_file(INDEX) as index:
            _check_index_size(index.size)
            content = bytes(index.read(0, index.size))
    except HubFileMissing:
        return _of_one_file(model, lambda _: open_file(WHOLE))
    return Checkpoint(_weight_map(content), open_file, model)


def _of_one_file(label: str, open_file: Opener) -> Checkpoint:
    with open_file(WHOLE) as source:
        header = read_header(source)
    return Checkpoint(dict.fromkeys(header.tensors, WHOLE), open_file, label, {WHOLE: header})


def _check_index_size(size: int) -> None:
    if size > limits.MAX_INDEX_BYTES:
        raise CheckpointError(
            f"The index has {size:,} bytes; at most {limits.MAX_INDEX_BYTES:,} are read."
        )


def _weight_map(content: bytes) -> dict[str, str]:
    """Return the file of each tensor by an index. Raises CheckpointError."""
    try:
        index = json.loads(content)
    except (ValueError, RecursionError):
        raise CheckpointError("The index is not valid JSON.") from None
    files = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(files, dict) or not files:
        raise CheckpointError("The index has no weight_map, which names the file of each tensor.")
    for file in set(map(str, files.values())):
        if not _FILE_NAME.fullmatch(file):
            raise CheckpointError(
                f"The index names {quoted(file)}, which is no .safetensors file beside it."
            )
    return {name: str(file) for name, file in files.items()}
