"""The small Transformer: causal, the same start under every scheme, position by the hooks only."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc import SCHEMES, ConfigError, Scheme
from posenc.lab import LanguageModel, ModelSize
from posenc.lab.model import Block
from posenc.lab.tasks import generator_for
from posenc.lab.train import Trainer, build_model
from tests.lab.small_runs import CORPUS, small_spec

# One scheme of each way to meet a model: rows added, vectors turned, scores changed, parameters trained.
KINDS = ["learned", "rope", "alibi", "transformer_xl", "shaw", "cope"]


def model_of(kind: str, **others: Any) -> LanguageModel:
    """Return an untrained model of 2 layers, width 16, 24 learned rows; its scheme's parameters large."""
    specification = small_spec(kind, **({"layers": 2, "train_length": 24} | others))
    model = build_model(specification, specification.make_task(CORPUS)).eval()
    # Those of KERPLE and FIRE count on a scale of their own, and are large enough.
    if kind not in ("kerple_log", "kerple_power", "fire"):
        with torch.no_grad():
            for parameter in model.scheme.parameters():
                parameter.mul_(20)
    return model


def random_bytes(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_later_bytes_change_no_earlier_logit(kind: str) -> None:
    model = model_of(kind)
    text = random_bytes(3, 21)
    logits = model(text)
    for at in (1, 2, 9, 20):
        changed = text.clone()
        changed[:, at:] = (text[:, at:] + 1 + random_bytes(3, 21 - at, seed=at) % 200) % 256
        found = model(changed)
        # Logits of about 1 in float32: 2e-6 are some 16 eps.
        torch.testing.assert_close(found[:, :at], logits[:, :at], rtol=0, atol=2e-6)
        assert not torch.allclose(found[:, at:], logits[:, at:], atol=1e-2)
        torch.testing.assert_close(model(text[:, :at]), logits[:, :at], rtol=0, atol=2e-6)


def test_shared_weights_start_the_same_under_every_scheme() -> None:
    """Drawn by one generator, so equal bit for bit."""
    starts = {}
    for kind in SCHEMES:
        specification = small_spec(kind, layers=2)
        model = build_model(specification, specification.make_task(CORPUS))
        starts[kind] = {n: v for n, v in model.named_parameters() if "scheme." not in n}
    first = starts["none"]
    assert sum(value.numel() for value in first.values()) > 7_000
    for kind, found in starts.items():
        assert found.keys() == first.keys()
        for name, shared in first.items():
            expected = shared.detach().clone()
            if kind == "t5" and name.endswith("qkv.weight"):  # T5 divides no score by sqrt(8)
                expected[:16] *= 8**-0.5
            assert torch.equal(found[name], expected), (kind, name)
    sizes = ModelSize(layers=1, width=16, heads=2)
    other = LanguageModel(sizes, 256, SCHEMES["none"]().build(), generator_for(1, "weights"))
    assert not torch.equal(other.tokens.weight, first["tokens.weight"])


def test_scores_and_maps_start_with_unit_variance() -> None:
    """Rows of unit variance: q . k times the scale has variance 1 in the mean."""
    for kind in ("none", "alibi", "t5", "kerple_log"):
        model = model_of(kind, widths=[256], heads=4)
        deep = 4**-0.5  # two maps of each of 2 layers are added to the stream
        for block in model.blocks:
            assert isinstance(block, Block)
            maps = ((block.up, 1.0), (block.out, deep), (block.down, deep))
            for linear, scale in maps:
                expected = scale / math.sqrt(linear.in_features)
                assert linear.weight.std().item() == pytest.approx(expected, rel=0.05)
        x = torch.randn(1, 400, 256, generator=torch.Generator().manual_seed(2))
        assert isinstance(block, Block)
        q, k, _ = block.qkv(x).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        bias = model.scheme.bias(q, k)
        scores = q @ k.mT / 8 if bias is None else model.scheme.scores(q, k) - bias
        assert scores.std().item() == pytest.approx(1, rel=0.05), kind
        assert model.tokens.weight.std().item() == pytest.approx(1 / 16, rel=0.05)


@pytest.mark.parametrize("kind", ["none", "t5", "learned"])
def test_model_of_memory_alone_is_filled_with_starts_of_the_same_spread(kind: str) -> None:
    specification = small_spec(kind, layers=2, widths=[128], heads=4)

    def build() -> LanguageModel:
        scheme = specification.scheme.build()
        return LanguageModel(
            specification.model, 256, scheme, torch.Generator("cpu").manual_seed(5)
        )

    expected = build()
    with torch.device("meta"):
        model = build()
    model.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    for part in model.modules():
        reset = getattr(part, "reset_parameters", None)
        if callable(reset):
            reset()
    for name, value in expected.state_dict().items():
        found = model.state_dict()[name]
        if name.startswith("scheme.") or "norm" in name:
            assert torch.equal(found, value), name
            continue
        for rows, wanted in zip(
            found.split(128), value.split(128), strict=True
        ):  # q, k and v apart
            assert rows.std().item() == pytest.approx(wanted.std().item(), rel=0.05), name
            assert not torch.equal(rows, wanted)


def test_embed_is_called_once_and_rotate_once_per_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counting(name: str) -> Callable[..., Any]:
        real = getattr(Scheme, name)

        def call(*arguments: Any) -> Any:
            calls.append(name)
            return real(*arguments)

        return call

    for name in ("embed", "layer", "rotate"):
        monkeypatch.setattr(Scheme, name, counting(name))
    model_of("none")(random_bytes(2, 9), None, Scheme(SCHEMES["none"]()))
    assert calls == ["embed", "layer", "rotate", "layer", "rotate"]


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_model_is_read_under_another_scheme_and_other_positions(kind: str) -> None:
    model, other = model_of(kind), model_of("none")
    shared = {name: value for name, value in model.state_dict().items() if "scheme." not in name}
    other.load_state_dict(shared, strict=False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    text = random_bytes(2, 9)
    torch.testing.assert_close(model(text, None, other.scheme), other(text), rtol=0, atol=2e-6)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    plain = model(text)
    torch.testing.assert_close(model(text, torch.arange(9)), plain, rtol=0, atol=2e-6)
    moved = model(text, torch.arange(9) + 4)
    nothing = torch.zeros(1, 9, 16)
    if torch.equal(model.scheme.embed(nothing), nothing):  # then attention sees offsets only
        torch.testing.assert_close(moved, plain, rtol=0, atol=1e-4)
    else:
        assert (moved - plain).abs().max() > 1e-2


def test_every_parameter_of_every_scheme_is_trained() -> None:
    for kind in SCHEMES:
        trainer = Trainer(small_spec(kind), CORPUS)
        before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
        for _ in range(2):
            trainer.step()
        for name, value in trainer.model.named_parameters():
            assert value.grad is not None, (kind, name)
            assert value.grad.abs().max() > 0, (kind, name)
            assert not torch.equal(value, before[name]), (kind, name)
        assert kind != "learned" or "scheme.weight" in before


def test_impossible_sizes_are_refused_by_name() -> None:
    for sizes in ({"layers": 0}, {"width": 7}, {"heads": 0}):
        with pytest.raises(ConfigError, match=min(sizes)):
            ModelSize(**sizes)
    with pytest.raises(ConfigError, match="multiple of twice the heads"):
        ModelSize(width=20, heads=4)
