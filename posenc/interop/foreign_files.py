"""What a file is that is no .safetensors checkpoint, told by its first and last bytes.

Nothing is unpacked or opened: a pickle runs code of its maker's choice where it is loaded.
"""

import codecs
import re
import unicodedata

from posenc.errors import CheckpointError, NotACheckpoint, PickleRefused

# Two lines each, run where the file's maker is trusted; clone(), because tied weights share memory.
PICKLE_CONVERSION = """\
import torch, safetensors.torch; state = torch.load("model.pt", "cpu", weights_only=True)
safetensors.torch.save_file({k: v.clone().contiguous() for k, v in state.items() \
if isinstance(v, torch.Tensor)}, "model.safetensors")"""
TORCHSCRIPT_CONVERSION = """\
import torch, safetensors.torch; model = torch.jit.load("model.pt", "cpu")
safetensors.torch.save_file({k: v.clone().contiguous() for k, v in model.state_dict().items()}, \
"model.safetensors")"""

_CODE = (
    "it contains code, not only weights, and is never opened here; where you trust its maker, save "
    "it as .safetensors with these two lines"
)
_SIGNATURES = (
    (b"GGUF", "a GGUF file"),
    (b"version https://git-lfs", "a Git LFS pointer, not the weights (git lfs pull fetches them)"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array file"),
    (b"PAR1", "a Parquet file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
)
_PICKLE = re.compile(
    rb"\x80[\x02-\x08]"  # protocol 2 and later, among them torch's legacy form
    rb"|[ci][A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n"  # protocol 0 and 1: a global by name
    rb"|\((?:[dl]p?[0-9]|[ci][A-Za-z_][\w.]*\n)|[\]}]q\x00|\(lp|\(dp"
)


def foreign_refusal(head: bytes, tail: bytes) -> CheckpointError | None:
    """Return the refusal of a file by its first and last bytes, or None if they tell nothing.

    A pickle or a TorchScript archive gives PickleRefused, with the conversion.
    """
    if not head:
        return CheckpointError("The file is empty.")
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return _zip_refusal(head + tail)
    if head[257:262] == b"ustar":
        return NotACheckpoint("a tar archive")
    if _PICKLE.match(head):
        return _pickle_refusal("raw or legacy form")
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            return NotACheckpoint(kind)
    text = _text_kind(head)
    return None if text is None else NotACheckpoint(text)


def _zip_refusal(ends: bytes) -> CheckpointError:
    # Entry names stand in the clear at both ends of a zip.
    if b"constants.pkl" in ends:
        return PickleRefused(f"This is a TorchScript archive: {_CODE}:", TORCHSCRIPT_CONVERSION)
    if b".pkl" in ends:
        return _pickle_refusal("zip form")
    return NotACheckpoint("a NumPy archive (.npz)" if b".npy" in ends else "a zip archive")


def _pickle_refusal(form: str) -> PickleRefused:
    return PickleRefused(
        f"This is a pickle file ({form}; .pt, .pth and .bin are pickles): {_CODE}:",
        PICKLE_CONVERSION,
    )


def _text_kind(head: bytes) -> str | None:
    wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = codecs.getincrementaldecoder("utf-16" if wide else "utf-8")("replace").decode(head)
    if any(unicodedata.category(c) in ("Cc", "Cn") and c not in "\t\n\r\f" for c in text):
        return None
    if "\ufffd" in text or len(text) < 2:
        return None
    start = text.removeprefix("\ufeff").lstrip()[:512].lower()
    if start.startswith(("<!doctype html", "<html")):
        return "an HTML page"
    if start.startswith("{") and '"weight_map"' in text:
        return "the index of a checkpoint in several files (open the file that holds the table)"
    return "a JSON text" if start.startswith(("{", "[")) else "a text file"
