"""Modules built on the meta device and materialised by to_empty: reset_parameters fills them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from posenc import (
    SCHEMES,
    LearnedPositionalEncoding,
    SchemeArgumentError,
    SinusoidalPositionalEncoding,
    TokenPlusPositionEmbedding,
)
from posenc.schemes.learned import Learned
from tests.library.small_schemes import SMALL


def materialised(module: nn.Module) -> nn.Module:
    """Return a module of the meta device on the CPU, with no number of its start left, then reset."""
    module = module.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.fill_(torch.nan)
    for part in module.modules():
        if any(True for _ in part.parameters(recurse=False)) or [*part.buffers(recurse=False)]:
            reset: Any = part.reset_parameters
            reset()
    return module


@pytest.mark.parametrize("kind", SCHEMES)
def test_scheme_from_the_meta_device_has_the_numbers_that_its_seed_gives(kind: str) -> None:
    config = SMALL.config(kind)
    with torch.device("meta"):
        scheme = config.build(seed=3)
    assert {tensor.device.type for tensor in scheme.state_dict().values()} <= {"meta"}
    found, expected = materialised(scheme).state_dict(), config.build(seed=3).state_dict()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


@pytest.mark.parametrize("source", ["trained"])
def test_scheme_of_a_run_has_the_numbers_of_that_run_again(source: str) -> None:
    config = SMALL.replace(learned_source=source).config("learned")
    with torch.device("meta"):
        scheme = config.build()
    assert scheme.get_parameter("weight").device.type == "meta"
    found = materialised(scheme).state_dict()["weight"]
    assert torch.equal(found, config.build().state_dict()["weight"])


def test_table_that_was_given_cannot_be_made_again() -> None:
    scheme = Learned.from_table(torch.ones(4, 6), "my table")
    with pytest.raises(SchemeArgumentError, match=r"make it again with Learned\.from_table"):
        scheme.reset_parameters()


def built(kind: str) -> nn.Module:
    return {
        "sinusoidal": lambda: SinusoidalPositionalEncoding(d_model=64, max_len=300, base=500.0),
        "learned": lambda: LearnedPositionalEncoding(d_model=64, max_len=300),
        "embedding": lambda: TokenPlusPositionEmbedding(vocab_size=500, d_model=64, max_len=300),
    }[kind]()


@pytest.mark.parametrize("kind", ["sinusoidal", "learned", "embedding"])
def test_module_from_the_meta_device_starts_as_one_built_on_the_cpu(kind: str) -> None:
    with torch.device("meta"):
        module = built(kind)
    found: dict[str, Tensor] = materialised(module).state_dict()
    for name, value in built(kind).state_dict().items():
        if name.endswith("table") and kind != "learned":  # by its formula
            assert torch.equal(found[name], value), name
        else:  # drawn: of one distribution, to 5 standard errors
            spread = 5 * float(value.std()) * (2 / value.numel()) ** 0.5
            assert abs(float(found[name].mean() - value.mean())) < spread, name
            assert abs(float(found[name].std() - value.std())) < spread, name
