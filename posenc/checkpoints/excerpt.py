"""Part of a .safetensors file as a file of its own, so that the rest need not stay in memory."""

import json
from collections.abc import Collection

from posenc.checkpoints.safetensors_file import FileSource, opened, read_header


def excerpt(source: FileSource, names: Collection[str]) -> bytes:
    """Return a .safetensors file with some tensors of another one, in its order, byte for byte.

    names: those that the file has not are left out. Raises CheckpointError for a file that cannot be read.
    """
    with opened(source) as file:
        header = read_header(file)
        entries = [entry for entry in header.tensors.values() if entry.name in names]
        parts, told, end = [], {}, 0
        for entry in entries:
            size = entry.stop - entry.start
            parts.append(bytes(file.read(header.data_start + entry.start, size)))
            told[entry.name] = {
                "dtype": entry.dtype, "shape": entry.shape, "data_offsets": [end, end + size],
            }  # fmt: skip
            end += size
    text = json.dumps(told).encode()
    return b"".join((len(text).to_bytes(8, "little"), text, *parts))
