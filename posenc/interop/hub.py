"""A learned table of a model on the Hugging Face Hub, by the model's name: one tensor, not the file.

The file's header and the tensor asked for are fetched by range requests (RFC 9110, section 14); nothing
is sent but the request, no token, no cookie. Off unless the environment sets POSENC_HUB to 1, because
whoever may name a model makes this machine ask for it. The place that is asked is huggingface.co, or
another one where huggingface_hub is told so by HF_ENDPOINT in the environment.
"""

import os
import re
import threading

from posenc import limits
from posenc.errors import CheckpointError
from posenc.interop.hub_deadline import Deadline
from posenc.interop.hub_file import HubFile
from posenc.interop.position_tables import PositionTable, read_position_table
from posenc.interop.safetensors_file import ByteRanges

SWITCH = "POSENC_HUB"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_MODEL = re.compile(rf"{_NAME}(?:/{_NAME})?")
_FILE = re.compile(rf"(?:{_NAME}/){{0,4}}{_NAME}\.safetensors")
_FREE = threading.BoundedSemaphore(limits.MAX_HUB_FETCHES)


def hub_is_enabled() -> bool:
    """Whether this machine may ask the Hub: POSENC_HUB is 1."""
    return os.environ.get(SWITCH, "") == "1"


def hub_table(
    model: str,
    tensor: str | None = None,
    first_row: int | None = None,
    *,
    file: str = "model.safetensors",
    revision: str = "main",
    seconds: float = 30.0,
) -> PositionTable:
    """Read a model's table of positions from the Hub, and no more of the model than that.

    model: its name there, such as "gpt2" or "google-bert/bert-base-uncased"; tensor, first_row: as of
    `read_position_table`; file, revision: which file, and at which branch, tag or commit; seconds: that
    all of it may take. Raises CheckpointError where the Hub is switched off, the package huggingface_hub
    is missing, the name or the file is unusable, two other tables are being fetched at the time, and for
    every answer that is not what was asked for.
    """
    if not hub_is_enabled():
        raise CheckpointError(
            f"Reading from the Hugging Face Hub is switched off here; set {SWITCH}=1 to allow it."
        )
    address = _address(model, file, revision)
    if not _FREE.acquire(blocking=False):
        raise CheckpointError(
            f"{limits.MAX_HUB_FETCHES} tables are being fetched from the Hub already; wait a little."
        )
    try:
        with Deadline(seconds) as deadline:
            ranges = HubFile(address, deadline)
            return read_position_table(
                ByteRanges(ranges.size, ranges.read),
                tensor,
                first_row,
                file_name=f"{model}, {file}",
            )
    finally:
        _FREE.release()


def _address(model: str, file: str, revision: str) -> str:
    if not _MODEL.fullmatch(model) or ".." in model or "--" in model:
        raise CheckpointError(
            "A model's name on the Hub is a word or two with a slash between, such as "
            "google-bert/bert-base-uncased."
        )
    if not _FILE.fullmatch(file) or ".." in file:
        raise CheckpointError("The file must be a .safetensors file of the model.")
    if not re.fullmatch(_NAME, revision) or ".." in revision:
        raise CheckpointError("The revision must be the name of a branch, a tag or a commit.")
    try:
        from huggingface_hub import constants, hf_hub_url
    except ImportError:
        raise CheckpointError(
            "The Hub needs one package more: pip install 'posenc[hub]'."
        ) from None
    if constants.HF_HUB_OFFLINE:
        raise CheckpointError("The Hub is switched off here by HF_HUB_OFFLINE.")
    return str(hf_hub_url(model, file, revision=revision))
