"""The small Transformer, for every scheme: causal, the same start, position by the hooks alone."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from posenc import SCHEMES, ConfigError, Scheme
from posenc.lab import LanguageModel, ModelConfig
from posenc.lab.chance import stream
from posenc.lab.train import Trainer, build_model
from tests.small_runs import CORPUS, small


def model_of(kind: str, **others: object) -> LanguageModel:
    """An untrained model of 2 layers, width 16, 24 learned rows; the scheme's own numbers made large."""
    specification = small(kind, **({"layers": 2, "train_length": 24} | others))
    model = build_model(specification, specification.make_task(CORPUS)).eval()
    own = [*model.scheme.parameters()]
    with torch.no_grad():
        # Those of KERPLE and FIRE count on a scale of their own, and are large enough.
        for parameter in () if kind in ("kerple_log", "kerple_power", "fire") else own:
            parameter.mul_(20)
    return model


def bytes_of(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(seed))


def losses_of(model: LanguageModel, text: Tensor) -> Tensor:
    logits = model(text[:, :-1])
    return functional.cross_entropy(logits.mT, text[:, 1:], reduction="none")


@pytest.mark.over_code
def test_later_bytes_change_no_earlier_logit_and_no_earlier_loss(kind: str) -> None:
    model = model_of(kind)
    text = bytes_of(3, 21)
    logits, losses = model(text), losses_of(model, text)
    for at in range(1, 21):
        changed = text.clone()
        changed[:, at:] = (text[:, at:] + 1 + bytes_of(3, 21 - at, seed=at) % 200) % 256
        torch.testing.assert_close(model(changed)[:, :at], logits[:, :at], rtol=0, atol=2e-6)
        # The loss at position t reads bytes up to t + 1.
        found = losses_of(model, changed)[:, : at - 1]
        torch.testing.assert_close(found, losses[:, : at - 1], rtol=0, atol=1e-5)
        assert not torch.allclose(model(changed)[:, at:], logits[:, at:], atol=1e-2)


@pytest.mark.over_code
def test_a_prefix_is_read_as_it_is_inside_a_longer_text(kind: str) -> None:
    model, text = model_of(kind), bytes_of(2, 24)
    logits = model(text)
    for length in (1, 2, 7, 23):
        torch.testing.assert_close(model(text[:, :length]), logits[:, :length], rtol=0, atol=2e-6)


def test_shared_weights_start_the_same_bit_for_bit_under_every_scheme() -> None:
    starts = {}
    for kind in SCHEMES:
        state = build_model(small(kind), _task(kind))
        starts[kind] = {
            name: value for name, value in state.named_parameters() if "scheme." not in name
        }
    first = starts["none"]
    assert sum(value.numel() for value in first.values()) > 7_000
    for kind, found in starts.items():
        assert found.keys() == first.keys()
        for name, shared in first.items():
            expected = shared.detach().clone()
            if kind == "t5" and name.endswith("qkv.weight"):  # T5 divides no score by sqrt(8)
                expected[:16] *= 8**-0.5
            assert torch.equal(found[name], expected), (kind, name)
    other = LanguageModel(
        ModelConfig(layers=1, width=16, heads=2),
        256,
        SCHEMES["none"]().build(),
        stream(1, "weights"),
    )
    assert not torch.equal(other.tokens.weight, first["tokens.weight"])


def test_the_first_scores_of_every_scheme_that_adds_to_them_have_one_spread() -> None:
    """By hand: rows of unit variance, so q . k times the scale has variance 1 in the mean."""
    for kind in ("none", "alibi", "t5", "kerple_log"):
        model = model_of(kind, layers=1, widths=[256], heads=4)
        (block,) = model.blocks
        x = torch.randn(1, 400, 256, generator=torch.Generator().manual_seed(2))
        q, k, _ = block.qkv(x).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        scores = (
            model.scheme.scores(q, k) - model.scheme.bias(q, k) if kind != "none" else q @ k.mT / 8
        )
        assert scores.std().item() == pytest.approx(1, rel=0.05), kind


def _task(kind: str) -> object:
    return small(kind).make_task(CORPUS)


def test_weights_start_with_unit_variance_through_every_map() -> None:
    model = model_of("none", layers=3, widths=[64], heads=4)
    deep = 6**-0.5
    for block in model.blocks:
        for linear, scale in (
            (block.qkv, 1.0), (block.up, 1.0), (block.out, deep), (block.down, deep),
        ):  # fmt: skip
            expected = scale / math.sqrt(linear.in_features)
            assert linear.weight.std().item() == pytest.approx(expected, rel=0.05)
    assert model.tokens.weight.std().item() == pytest.approx(64**-0.5, rel=0.05)


class Without(Scheme):
    """NoPE that counts how often each hook is met, and passes everything through unchanged."""

    def __init__(self) -> None:
        super().__init__(SCHEMES["none"]())
        self.met: list[str] = []

    def embed(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        self.met.append("embed")
        return super().embed(x, positions)

    def rotate(
        self,
        q: Tensor,
        k: Tensor,
        q_positions: Tensor | None = None,
        k_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        self.met.append("rotate")
        return super().rotate(q, k, q_positions, k_positions)

    def layer(self, index: int) -> Scheme:
        self.met.append(f"layer {index}")
        return super().layer(index)


def test_hooks_are_met_once_per_model_and_once_per_layer() -> None:
    counting, model = Without(), model_of("none")
    text = bytes_of(2, 9)
    found = model(text, None, counting)
    assert counting.met == ["embed", "layer 0", "rotate", "layer 1", "rotate"]
    assert torch.equal(found, model(text))


def test_without_the_hooks_the_order_of_earlier_bytes_is_not_seen() -> None:
    """With one layer, NoPE's last logits depend on the set of bytes before alone: no other path."""
    model = model_of("none", layers=1)
    text = bytes_of(1, 20)
    order = torch.cat(
        (torch.randperm(19, generator=torch.Generator().manual_seed(1)), torch.tensor([19]))
    )
    torch.testing.assert_close(model(text[:, order])[:, -1], model(text)[:, -1], rtol=0, atol=3e-6)


@pytest.mark.parametrize("kind", [kind for kind in SCHEMES if kind != "none"])
def test_with_the_hooks_the_order_of_earlier_bytes_is_seen(kind: str) -> None:
    model = model_of(kind, layers=1)
    text = bytes_of(1, 20)
    order = torch.tensor([18, *range(1, 18), 0, 19])
    assert (model(text[:, order])[:, -1] - model(text)[:, -1]).abs().max() > 1e-3


@pytest.mark.over_code
def test_another_scheme_reads_the_trained_weights_without_changing_them(kind: str) -> None:
    model, other = model_of(kind), model_of("none")
    shared = {name: value for name, value in model.state_dict().items() if "scheme." not in name}
    other.load_state_dict(shared, strict=False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    text = bytes_of(2, 9)
    with torch.no_grad():
        assert torch.equal(model(text, None, other.scheme), other(text))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.over_code
def test_positions_that_are_given_are_those_that_are_read(kind: str) -> None:
    model, text = model_of(kind), bytes_of(2, 9)
    assert torch.equal(model(text, torch.arange(9)), model(text))
    moved = model(text, torch.arange(9) + 4)
    nothing = torch.zeros(1, 9, 16)
    if torch.equal(model.scheme.embed(nothing), nothing):  # then the offsets alone are seen
        torch.testing.assert_close(moved, model(text), rtol=0, atol=1e-4)
    else:
        assert (moved - model(text)).abs().max() > 1e-2


def test_every_number_of_the_model_and_its_scheme_gets_a_gradient(kind: str) -> None:
    trainer = Trainer(small(kind), CORPUS)
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    for _ in range(2):
        trainer.step()
    for name, value in trainer.model.named_parameters():
        assert value.grad is not None, name
        assert value.grad.abs().max() > 0, name
        assert not torch.equal(value, before[name]), name
    if kind == "learned":
        assert "scheme.weight" in before


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"width": 20, "heads": 4}, "multiple of twice the heads"),
        ({"layers": 0}, "layers"),
        ({"width": 7}, "width"),
        ({"heads": 0}, "heads"),
    ],
)
def test_impossible_sizes_are_refused_by_name(sizes: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ModelConfig(**sizes)
