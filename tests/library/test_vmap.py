"""torch.func.vmap over attention: the results and gradients of a loop, with every scheme."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from posenc import Scheme, attention
from tests.library.law_exceptions import LAW_VARIANTS, for_schemes
from tests.library.small_schemes import HEADS, WIDTH, small_scheme
from tests.library.tensors import assert_close, random

pytestmark = [
    pytest.mark.usefixtures("no_shape_checks"),
    # torch says so of its attention kernel, which it runs in a loop.
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]
# Other schemes have no parameter that attention reads.
WITH_PARAMETERS = tuple(
    name
    for name in LAW_VARIANTS
    if [*small_scheme(name).parameters()] and type(small_scheme(name)).embed is Scheme.embed
)

EXAMPLES, LENGTH = 3, 9


def queries_and_keys() -> tuple[Tensor, Tensor]:
    return random(EXAMPLES, 2, HEADS, LENGTH, WIDTH), random(
        EXAMPLES, 2, HEADS, LENGTH, WIDTH, seed=1
    )


@for_schemes()
def test_vmap_over_queries_and_keys_equals_a_loop(variant: str) -> None:
    scheme, (q, k) = small_scheme(variant), queries_and_keys()
    expected = torch.stack([attention(a, b, b, scheme) for a, b in zip(q, k, strict=True)])
    assert_close(vmap(lambda a, b: attention(a, b, b, scheme))(q, k), expected, atol=1e-9)


@for_schemes()
def test_vmap_over_positions_equals_a_loop(variant: str) -> None:
    scheme, (q, k) = small_scheme(variant), queries_and_keys()
    starts = torch.tensor([0, 2, 5])[:, None] + torch.arange(LENGTH)

    def at(a: Tensor, b: Tensor, positions: Tensor) -> Tensor:
        return attention(a, b, b, scheme, q_positions=positions, k_positions=positions)

    expected = torch.stack([at(*each) for each in zip(q, k, starts, strict=True)])
    assert_close(vmap(at)(q, k, starts), expected, atol=1e-9)


@for_schemes(among=WITH_PARAMETERS)
def test_gradients_of_single_examples_equal_those_of_a_loop(variant: str) -> None:
    """The gradient by every parameter for each example, as in differential privacy."""
    scheme, (q, k) = small_scheme(variant), queries_and_keys()
    parameters = {name: value.detach() for name, value in scheme.named_parameters()}

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scheme = scheme

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return attention(a, b, b, self.scheme).square().sum()

    def loss(values: Any, a: Tensor, b: Tensor) -> Tensor:
        named = {f"scheme.{name}": value for name, value in values.items()}
        return functional_call(Loss(), named, (a, b))

    found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, q, k)
    for i in range(EXAMPLES):
        scheme.zero_grad()
        Loss()(q[i], k[i]).backward()
        for name, value in scheme.named_parameters():
            own = torch.zeros_like(value) if value.grad is None else value.grad
            assert_close(found[name][i], own, atol=1e-6, rtol=1e-4)
