"""Files made byte by byte: containers of tensors, pickles of every kind, archives."""

import io
import json
import os
import struct
import warnings
import zipfile

import numpy as np
import torch


def npy(array: np.ndarray) -> bytes:
    """Save an array as numpy does, objects as pickles."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def container(header: str | bytes | dict[str, object], data: bytes = b"") -> bytes:
    """Put a header, right or wrong, and data into the .safetensors form."""
    text = json.dumps(header) if isinstance(header, dict) else header
    text = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(text)) + text + data


def checkpoint(
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]], metadata: dict[str, str] | None = None
) -> bytes:
    """Make a valid file of (dtype, shape, little-endian bytes) by name."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    data = b""
    for name, (dtype, shape, content) in tensors.items():
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        data += content
    return container(header, data)


def file_of(tensors: dict[str, torch.Tensor]) -> bytes:
    return checkpoint(
        {
            name: ("F32", tuple(tensor.shape), tensor.numpy().astype("<f4").tobytes())
            for name, tensor in tensors.items()
        }
    )


def valid_file() -> bytes:
    position = np.arange(12, dtype="<f4").tobytes()
    return checkpoint(
        {"wpe.weight": ("F32", (4, 3), position), "bias": ("F16", (3,), bytes(6))}, {"format": "pt"}
    )


def legacy_pickle(value: object) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def zipped_pickle(value: object) -> bytes:
    """Save as torch.save does today: a zip archive around a pickle."""
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def torchscript() -> bytes:
    """Save a traced module: an archive with code."""
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # Deprecated, and still found in the wild.
        warnings.simplefilter("ignore", DeprecationWarning)
        traced = torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2), check_trace=False)
        torch.jit.save(traced, stream)
    return stream.getvalue()


class RunsCode:
    """An object whose pickle runs a command where it is loaded; here it is never loaded."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch posenc-was-attacked",)


def zip_archive(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()
