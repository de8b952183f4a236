"""Files with tables in them, made for tests, and the sentences of their refusals."""

from collections.abc import Callable

import pytest
import torch

from posenc.errors import (
    CheckpointError,
)
from tests.crafted_files import checkpoint


def file_of(tensors: dict[str, torch.Tensor]) -> bytes:
    """Make a file of float32 tensors."""
    return checkpoint(
        {
            name: ("F32", tuple(tensor.shape), tensor.numpy().astype("<f4").tobytes())
            for name, tensor in tensors.items()
        }
    )


def refusal(act: Callable[[], object]) -> str:
    """Return the sentence of the CheckpointError that `act` must raise."""
    with pytest.raises(CheckpointError) as caught:
        act()
    return str(caught.value)
