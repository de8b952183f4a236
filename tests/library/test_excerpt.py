"""Part of a .safetensors file: the tensors that were asked for, byte for byte."""

import pytest
import safetensors.torch
import torch

from posenc.checkpoints.excerpt import excerpt
from posenc.errors import CheckpointError
from tests.library.crafted_files import checkpoint, valid_file
from tests.library.hostile_checkpoints import HOSTILE_FILES
from tests.library.safetensors_checks import library_accepts


def test_an_excerpt_holds_the_tensors_of_these_names_and_no_other() -> None:
    types = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
    content = checkpoint(
        {
            f"{name}.{dtype}": (dtype, (2, 3), bytes(range(index, index + 6 * size)))
            for index, name in enumerate("ab")
            for dtype, size in (("F32", 4), ("BF16", 2), ("F16", 2))
        },
        {"format": "pt"},
    )
    wanted = ["b.BF16", "a.F32", "absent"]
    found = safetensors.torch.load(excerpt(content, wanted))
    theirs = safetensors.torch.load(content)
    assert {*found} == {"b.BF16", "a.F32"}
    for name, tensor in found.items():
        assert tensor.dtype == types[name.partition(".")[2]]
        assert torch.equal(
            tensor.contiguous().view(torch.uint8), theirs[name].contiguous().view(torch.uint8)
        )
    assert safetensors.torch.load(excerpt(content, [])) == {}


def test_hostile_files_are_refused_and_read_as_the_library_reads_them() -> None:
    assert len(excerpt(valid_file(), ["bias"])) < len(valid_file())
    for file in HOSTILE_FILES:
        if not library_accepts(file.content):
            with pytest.raises(CheckpointError):
                excerpt(file.content, ["a"])
