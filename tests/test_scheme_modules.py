"""Schemes as torch modules: copies, saved weights, gradients, a trained table."""

import copy
import dataclasses
import io

import pytest
import torch
from torch import Tensor, nn

from posenc import (
    SCHEMES,
    PosencError,
    Scheme,
    SchemeConfig,
    position_vectors,
)
from posenc.schemes.learned import Learned
from tests.conftest import SMALL
from tests.hook_calls import DIM, HEADS, PLACES, WIDTH, answers, random

pytestmark = pytest.mark.over_code


def test_a_deep_copy_gives_the_same_bits_and_shares_no_parameter(scheme: Scheme) -> None:
    copied = copy.deepcopy(scheme)
    x, q = random(2, 9, DIM), random(2, HEADS, 9, WIDTH)
    before = answers(scheme, x, q, None)
    for parameter in copied.parameters():
        with torch.no_grad():
            parameter.add_(1)
    after = answers(scheme, x, q, None)
    for name, value in before.items():
        assert torch.equal(after[name], value), name
    for mine, theirs in zip(scheme.parameters(), copied.parameters(), strict=True):
        assert mine.data_ptr() != theirs.data_ptr()
    assert copied.config == scheme.config


def test_a_state_dict_brings_every_bit_back(scheme: Scheme) -> None:
    saved = io.BytesIO()
    torch.save(scheme.state_dict(), saved)
    saved.seek(0)
    other = scheme.config.build(seed=77)
    missing = other.load_state_dict(torch.load(saved, weights_only=True), strict=True)
    assert not missing.missing_keys
    assert not missing.unexpected_keys
    x, q = random(2, 9, DIM), random(2, HEADS, 9, WIDTH)
    expected = answers(scheme, x, q, None)
    for name, value in answers(other, x, q, None).items():
        assert torch.equal(value, expected[name]), name


def test_inside_a_model_a_scheme_is_found_moved_and_saved(scheme: Scheme) -> None:
    model = nn.Sequential(nn.Linear(DIM, DIM), scheme)
    names = {f"1.{name}" for name, _ in scheme.named_parameters()}
    assert names == {name for name in model.state_dict() if name.startswith("1.")}
    assert scheme.layer(0) is scheme or isinstance(scheme.layer(0), Scheme)


@pytest.mark.usefixtures("no_shape_checks")
def test_a_config_is_a_value(config: SchemeConfig) -> None:
    again = type(config)(**{f.name: getattr(config, f.name) for f in dataclasses.fields(config)})
    assert again == config
    assert hash(again) == hash(config)
    assert dataclasses.asdict(config)["kind"] == config.kind
    assert type(config) is SCHEMES[config.kind]
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.kind = "other"
    with pytest.raises(PosencError, match="kind is fixed"):
        config.replace(kind="other")
    assert len({other() for other in SCHEMES.values()}) == len(SCHEMES)


def test_what_is_built_does_not_depend_on_what_was_built_before(config: SchemeConfig) -> None:
    x, q = random(1, 9, DIM), random(1, HEADS, 9, WIDTH)
    expected = answers(config.build(seed=5), x, q, None)
    with torch.inference_mode():
        answers(config.build(seed=5), x, q, None)
    config.build(seed=6)
    scheme = config.build(seed=5)
    x.requires_grad_()
    q.requires_grad_()
    found = answers(scheme, x, q, None)
    for name, value in found.items():
        assert torch.equal(value, expected[name]), name
    (found["embed"].sum() + found["q"].sum() + found["mixed"].sum()).backward()
    assert x.grad is not None
    assert q.grad is not None


def test_the_inputs_are_left_as_they_were(scheme: Scheme) -> None:
    x, q, positions = random(2, 9, DIM), random(2, HEADS, 9, WIDTH), torch.arange(9) + 4
    before = [value.clone() for value in (x, q, positions)]
    first = answers(scheme, x, q, positions)
    for value, kept in zip((x, q, positions), before, strict=True):
        assert torch.equal(value, kept)
    for value in first.values():
        value.detach().mul_(0)  # a caller may write into what it was given
    x, q = random(2, 9, DIM), random(2, HEADS, 9, WIDTH)
    whole = answers(scheme, x, q, None)
    for value in whole.values():
        value.detach().mul_(0)
    x, q = random(2, 9, DIM), random(2, HEADS, 9, WIDTH)
    again = answers(scheme, x, q, None)
    assert again["q"].any()
    assert torch.equal(again["q"], answers(scheme, x, q, torch.arange(9))["q"])
    assert torch.equal(again["embed"], answers(scheme, x, q, torch.arange(9))["embed"])


@pytest.mark.parametrize("positions", PLACES, ids=["none", "window", "per entry"])
def test_gradients_of_the_hooks_pass_gradcheck(scheme: Scheme, positions: Tensor | None) -> None:
    x = random(2, 9, DIM, dtype=torch.float64)[..., :DIM].requires_grad_()
    q = random(2, 2, 9, WIDTH, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: scheme.embed(x, positions), x, fast_mode=True)
    assert torch.autograd.gradcheck(
        lambda q: scheme.rotate(q, q.flip(-1), positions, positions), q, fast_mode=True
    )


def test_the_gradient_of_a_rotation_is_the_rotation_back(scheme: Scheme) -> None:
    q, upstream = (
        random(1, HEADS, 9, WIDTH, dtype=torch.float64),
        random(1, HEADS, 9, WIDTH).double(),
    )
    q.requires_grad_()
    positions = torch.arange(9) + 31
    turned, _ = scheme.rotate(q, q, positions, positions)
    (gradient,) = torch.autograd.grad(turned, q, upstream)
    if scheme.stationary:
        back, _ = scheme.rotate(upstream, upstream, -positions, -positions)
        torch.testing.assert_close(gradient, back, rtol=0, atol=1e-14)
    else:  # the place of a negative position in a grid is not the negative place
        again, _ = scheme.rotate(gradient, gradient, positions, positions)
        torch.testing.assert_close(again, upstream, rtol=0, atol=1e-14)


def test_a_learned_table_gets_gradients_in_the_rows_it_gave_out_only() -> None:
    scheme = SCHEMES["learned"](dim=4, max_len=10).build()
    scheme.embed(torch.zeros(1, 3, 4), torch.tensor([7, 2, 7])).sum().backward()
    expected = torch.zeros(10, 4)
    expected[2], expected[7] = 1, 2
    assert torch.equal(scheme.weight.grad, expected)
    scheme.weight.grad = None
    scheme.embed(torch.zeros(2, 3, 4)).sum().backward()
    expected = torch.zeros(10, 4)
    expected[:3] = 2
    assert torch.equal(scheme.weight.grad, expected)


def test_schemes_without_parameters_have_none_and_learned_has_its_table() -> None:
    sizes = {kind: [p.shape for p in SMALL.config(kind).build().parameters()] for kind in SCHEMES}
    assert sizes["learned"] == [(300, DIM)]
    for kind in ("sinusoidal", "rope", "alibi", "none"):
        assert sizes[kind] == []


def test_a_trained_table_keeps_its_numbers_shape_and_provenance() -> None:
    table = random(7, 5, dtype=torch.float16)
    scheme = Learned.from_table(table, "from a test")
    assert scheme.max_length == scheme.config.max_len == 7
    assert scheme.config.dim == 5
    assert scheme.trained
    assert scheme.provenance == "from a test"
    assert torch.equal(scheme.weight, table)
    table.zero_()
    assert scheme.weight.any(), "the scheme holds its own copy"
    assert torch.equal(position_vectors(scheme, 7), scheme.weight.double())
    fresh = SCHEMES["learned"](dim=5, max_len=7).build()
    assert not fresh.trained
    assert "untrained" in fresh.provenance


@pytest.mark.parametrize(
    "table",
    [
        torch.zeros(3),
        torch.zeros(0, 4),
        torch.zeros(4, 0),
        torch.zeros(1, 2, 3),
        torch.zeros(3, 4, dtype=torch.int64),
        torch.zeros(3, 4, dtype=torch.complex64),
    ],
    ids=str,
)
@pytest.mark.usefixtures("no_shape_checks")
def test_what_is_no_table_is_refused(table: Tensor) -> None:
    with pytest.raises(PosencError, match="table"):
        Learned.from_table(table, "from a test")
