"""Tables of numbers from .npy and .safetensors files: a position table, or cosines and sines.

The header of a .npy file (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html) is
checked before its numbers are read. Arrays of objects, which are pickles, are refused.
"""

import io
import math
from dataclasses import dataclass, replace
from tokenize import TokenError

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posenc import limits
from posenc.checkpoints.find_tables import Confidence, best_candidates
from posenc.checkpoints.safetensors_file import (
    FileSource,
    Header,
    opened,
    read_header,
    read_tensor,
    readable_entry,
    unreadable_reason,
)
from posenc.errors import CheckpointError, NoPositionTable, PickleRefused
from posenc.text import first_of, printable_name

_MAGIC = b"\x93NUMPY"
_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_HEADER_BYTES = 10_000  # of a .npy
_DTYPES = tuple(np.dtype(name) for name in ("f2", "f4", "f8", "c8", "c16"))


@dataclass(frozen=True, slots=True, eq=False)
class NumberTable:
    """A table of a file: rows by columns, or cosines with their sines.

    table: complex for cos + i sin. sines: of the same shape, where `table` has cosines. name: of the
    tensors, "" for a .npy. notes: assumptions, a sentence each.
    """

    table: Tensor
    sines: Float[Tensor, "t c"] | None
    name: str
    notes: tuple[str, ...] = ()


def read_number_table(source: FileSource, tensor: str | None = None) -> NumberTable:
    """Return the table of a .npy or .safetensors file, passed as its bytes or its path.

    tensor: its name in a .safetensors file; None takes the first pair of cosines and sines, else the only
        position table or matrix. A .npy of shape (2, rows, columns) is cosines, then sines.
    Raises CheckpointError, as NoPositionTable where several tensors are possible.
    """
    with opened(source) as file:
        if file.size >= len(_MAGIC) and file.read(0, len(_MAGIC)) == _MAGIC:
            if tensor is not None:
                raise CheckpointError("A .npy file holds one array, which has no name.")
            return _npy(file.read(0, file.size))
    header = _header(source)
    if tensor is not None:
        readable_entry(header, tensor)
        sines = name_of_sines(tensor)
        return _pair(source, tensor, sines) if sines in header.tensors else _single(source, tensor)
    pairs = [
        (name, sines) for name in header.tensors if (sines := name_of_sines(name)) in header.tensors
    ]
    if not pairs:
        return _single(source, _only_table(header))
    table = _pair(source, *pairs[0])
    if len(pairs) == 1:
        return table
    note = f"The first of {len(pairs)} pairs of cosines and sines; name a tensor for another."
    return replace(table, notes=(*table.notes, note))


def name_of_sines(name: str) -> str:
    """Return the name of the sines for a name of cosines; "" for any other name."""
    folder, dot, last = name.rpartition(".")
    sines = last.replace("cosine", "sine").replace("cos", "sin")
    return f"{folder}{dot}{sines}" if sines != last else ""


def cosines_and_sines(table: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return both parts of a (rows, pairs, 2) cache, as of torchtune and gpt-fast; else None.

    Axes of size 1 are dropped first.
    """
    if not isinstance(table, Tensor) or table.is_complex():
        return None
    cache = table.squeeze()
    return (cache[..., 0], cache[..., 1]) if cache.ndim == 3 and cache.shape[-1] == 2 else None


def read_array(source: FileSource) -> Tensor:
    """Return the array of a .npy file, or the only tensor of a .safetensors file, as it is.

    source: the file's bytes or its path. Raises CheckpointError, as NoPositionTable for several tensors.
    """
    with opened(source) as file:
        if file.size >= len(_MAGIC) and file.read(0, len(_MAGIC)) == _MAGIC:
            return _array(file.read(0, file.size))
    header = _header(source)
    names = [*header.tensors]
    if len(names) != 1:
        listed = first_of([printable_name(name) for name in names], 4)
        raise NoPositionTable(f"The file must hold one array, got {len(names):,}: {listed}.")
    return read_tensor(source, names[0]).tensor


def _header(source: FileSource) -> Header:
    try:
        return read_header(source)
    except PickleRefused:
        raise
    except CheckpointError as error:
        reason = str(error).replace("not a .safetensors", "neither a .npy nor a .safetensors")
        raise CheckpointError(reason) from None


def _npy(content: bytearray) -> NumberTable:
    table = _array(content)
    pair = table.squeeze()
    if pair.ndim == 3 and len(pair) == 2 and not table.is_complex():
        return NumberTable(pair[0], pair[1], "", ("Two tables: taken as cosines, then sines.",))
    return _split(table, "")


def _array(content: bytearray) -> Tensor:
    stream = io.BytesIO(content)
    try:
        read_array_header = _HEADER_READERS[np.lib.format.read_magic(stream)]
        shape, fortran, dtype = read_array_header(stream, max_header_size=_HEADER_BYTES)
    except (ValueError, TypeError, SyntaxError, TokenError, KeyError, RecursionError, MemoryError):
        raise CheckpointError("The header of this .npy file cannot be read.") from None
    if dtype.newbyteorder("=") not in _DTYPES:
        raise CheckpointError(
            f"The array holds {printable_name(str(dtype))}; tables are floating-point or complex "
            "numbers (save bfloat16 as float32)."
        )
    if (
        len(shape) > limits.MAX_RANK
        or any(type(axis) is not int or axis < 0 for axis in shape)
        or math.prod(axis or 1 for axis in shape) > limits.MAX_TENSOR_ELEMENTS  # 0 times a lot, too
    ):
        raise CheckpointError(
            f"The array has the shape {str(shape)[:60]}; at most {limits.MAX_RANK} axes and "
            f"{limits.MAX_TENSOR_ELEMENTS:,} numbers are read."
        )
    data, data_bytes = memoryview(content)[stream.tell() :], math.prod(shape) * dtype.itemsize
    if len(data) != data_bytes:
        raise CheckpointError(
            f"The array's shape {shape} takes {data_bytes:,} bytes, but the file holds {len(data):,}."
        )
    array = np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    return torch.from_numpy(array.astype(dtype.newbyteorder("="), order="C", copy=True))


def _single(source: FileSource, name: str) -> NumberTable:
    return _split(read_tensor(source, name).tensor, printable_name(name))


def _pair(source: FileSource, cosines: str, sines: str) -> NumberTable:
    name = f"{printable_name(cosines)} and {printable_name(sines)}"
    return NumberTable(_single(source, cosines).table, _single(source, sines).table, name)


def _split(table: Tensor, name: str) -> NumberTable:
    pair = cosines_and_sines(table)
    if pair is None:
        return NumberTable(table, None, name)
    return NumberTable(*pair, name, ("Two numbers for every pair: taken as cosine, then sine.",))


def _only_table(header: Header) -> str:
    matrices = []
    for entry in header.tensors.values():
        axes = [axis for axis in entry.shape if axis > 1]
        is_matrix = len(axes) == 2 or (len(axes) == 3 and axes[-1] == 2)
        if is_matrix and unreadable_reason(entry) is None:
            matrices.append(entry.name)
    if len(matrices) == 1:
        return matrices[0]
    best = best_candidates(header)
    if len(best) == 1 and best[0].confidence > Confidence.POSSIBLE:
        return best[0].name
    listed = first_of([printable_name(candidate.name) for candidate in best], 4)
    raise NoPositionTable(f"The file holds several tables; name a tensor, such as {listed}.")
