"""Schemes that know their layer or its input, in a model: trained, decoded with a cache, stored, loaded."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

from posenc import SCHEMES, ConfigError, SchemeArgumentError, attention
from posenc.__main__ import main
from posenc.errors import CheckpointError
from posenc.lab.model import Block, LanguageModel
from posenc.lab.train import build_model
from tests.lab.small_runs import CORPUS, make_small_run, small_spec

PER_LAYER = ("ssmax", "ssmax_rope", "pope", "fox")
KINDS = (*PER_LAYER, "rnope", "stick_breaking")


def model_of(kind: str, **own: Any) -> LanguageModel:
    """Return an untrained model of 4 layers whose scheme's parameters differ from layer to layer."""
    specification = small_spec(kind, layers=4)
    scheme = specification.scheme.replace(**own).build(seed=2)
    model = build_model(specification, specification.make_task(CORPUS)).eval()
    model.scheme = scheme
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.sub_(torch.rand(parameter.shape, generator=generator) / 4)
    return model.double()


def decoded(model: LanguageModel, tokens: Tensor) -> Tensor:
    """Return the logits of tokens that are read one by one, with a cache of keys and values per layer."""
    caches: list[tuple[Tensor, Tensor] | None] = [None] * len(model.blocks)
    rows = []
    for at in range(tokens.shape[1]):
        position = torch.tensor([at])
        x = model.embedded(tokens[:, at : at + 1], position, model.scheme)
        for index, block in enumerate(model.blocks):
            assert isinstance(block, Block)
            scheme = model.scheme.layer(index)
            q, k, v = block.queries_keys_values(x, scheme)
            cache = caches[index]
            if cache is not None:
                k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
            caches[index] = k, v
            mixed = attention(q, k, v, scheme, q_positions=position)
            x = x + block.out(mixed.transpose(1, 2).flatten(-2))
            x = x + block.down(torch.nn.functional.gelu(block.up(block.norm_mlp(x))))
        rows.append(model.norm(x) @ model.tokens.weight.T)
    return torch.cat(rows, dim=1)


@pytest.mark.parametrize(
    ("kind", "own"),
    [*((kind, {}) for kind in KINDS), ("rnope", {"window": 3, "growth": 0.5, "growth_length": 4})],
)
@torch.no_grad()
def test_decoding_with_a_cache_equals_the_whole_text(kind: str, own: dict[str, Any]) -> None:
    model = model_of(kind, **own)
    tokens = torch.randint(256, (2, 11), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(decoded(model, tokens), model(tokens), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", PER_LAYER)
def test_each_layer_has_parameters_of_its_own(kind: str) -> None:
    specification = small_spec(kind, layers=3)
    scheme = specification.scheme.build(seed=5)
    layers = [scheme.layer(index) for index in range(3)]
    assert layers[0] is scheme
    own = [{id(part) for part in layer.parameters(recurse=False)} for layer in layers]
    assert len(set.union(*own)) == sum(map(len, own)) == len([*scheme.parameters()])
    with pytest.raises(SchemeArgumentError, match="there is no layer 3"):
        scheme.layer(3)
    shared = specification.scheme.replace(layers=1).build()
    assert shared.layer(2) is shared
    two = small_spec(kind, layers=2)
    with pytest.raises(ConfigError, match=r"scheme\.layers must be 2 .* and 2 layers .*, got 3"):
        dataclasses.replace(two, scheme=specification.scheme)


def test_model_with_too_few_layers_is_refused() -> None:
    with pytest.raises(ConfigError, match="layers must be at least 2 for RNoPE"):
        small_spec("rnope", layers=1)


@pytest.mark.parametrize("kind", PER_LAYER)
def test_parameters_of_a_run_are_loaded_for_all_layers_or_the_first(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run = make_small_run(tmp_path, kind, layers=2)
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    source = f"run-{run.specification.run_id}"
    whole = run.specification.scheme.replace(source=source).build()
    first = run.specification.scheme.replace(source=source, layers=1).build()
    assert not whole.untrained
    assert not first.untrained
    for name, value in first.state_dict().items():
        assert torch.equal(value, whole.state_dict()[name])
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter.fill_(torch.nan)
    for part in whole.modules():
        if callable(reset := getattr(part, "reset_parameters", None)):
            reset()
    again = run.specification.scheme.replace(source=source).build()
    assert all(map(torch.equal, whole.parameters(), again.parameters()))
    with pytest.raises(CheckpointError, match="do not fit"):
        run.specification.scheme.replace(source=source, layers=3).build()


@pytest.mark.parametrize("kind", KINDS)
def test_command_trains_it(kind: str, tmp_path: Path) -> None:
    words = ["train", "--scheme", kind, "--steps", "20", "--width", "16", "--heads", "2"]
    words += ["--layers", "2", "--train-length", "16", "--batch", "4", "--task", "copy"]
    result = CliRunner().invoke(main, [*words, "--store", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert SCHEMES[kind].label in result.output or kind in result.output
