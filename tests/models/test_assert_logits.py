"""assert_logits_match and assert_bias_matches: tensors and modules of a layer pass, others fail by name."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.logits import predict_logits, rule_of_scheme
from posenc.testing import assert_bias_matches, assert_logits_match
from tests.library.configs import config_of
from tests.models.test_matched_logits import GEMMA3_27B, loops, slopes_of, vectors

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def test_asserts_take_tensors_modules_and_configs_and_begin_with_the_cause() -> None:
    q, k = vectors(32, 6, 128), vectors(16, 6, 128, 1)
    right, wrong = (loops(q, k, number**-0.5) for number in (168, 128))
    assert assert_logits_match(right, GEMMA3_27B, q, k, rotated=True).belongs
    with pytest.raises(AssertionError, match=r"^The softmax scale is 1/sqrt\(128\) by head_dim"):
        assert_logits_match(wrong, GEMMA3_27B, q, k, kind="full_attention", rotated=True)

    class Scores(torch.nn.Module):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.scale = scale

        def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
            made = self.scale * queries @ keys.repeat_interleave(2, 1).mT
            ahead = keys.shape[2] - queries.shape[2]
            see = torch.ones(made.shape[-2:], dtype=torch.bool).tril(ahead)
            return made.masked_fill(~see, -math.inf)

    assert_logits_match(Scores(168**-0.5), GEMMA3_27B)
    with pytest.raises(AssertionError, match=r"^The softmax scale is 1/sqrt\(128\) by head_dim"):
        assert_logits_match(Scores(128**-0.5), GEMMA3_27B, rotated=True)
    alibi = config_of("alibi", heads=4)
    bias = torch.tensor(slopes_of(4))[:, None, None] * torch.arange(5.0)
    assert_bias_matches(bias, alibi, queries=5)
    with pytest.raises(AssertionError, match=r"^The bias has the wrong sign"):
        assert_bias_matches(-bias, alibi, queries=5)


def test_kinds_of_layers_are_told_apart_and_one_can_be_asked_for() -> None:
    """Gemma 3 rotates its windowed layers by another base."""
    rules_of = {"full_attention": 1e6, "sliding_attention": 1e4}
    q, k = vectors(32, 6, 128), vectors(16, 6, 128, 1)
    for kind, base in rules_of.items():
        rope = config_of("rope", dim=128, base=base, layout="half")
        rule = rule_of_scheme(rope, 32, 128)
        logits = predict_logits(rule, q, k) * math.sqrt(128 / 168)
        assert assert_logits_match(logits, GEMMA3_27B, q, k, rotated=False).rule.config == rope
        other = next(name for name in rules_of if name != kind)
        with pytest.raises(AssertionError, match="No known rule makes these logits"):
            assert_logits_match(logits, GEMMA3_27B, q, k, rotated=False, kind=other)


@pytest.mark.parametrize(
    ("produced", "layer", "message"),
    [
        (
            torch.zeros(4, 6, 6),
            GEMMA3_27B,
            "Give the queries and keys of which the logits were made",
        ),
        (lambda queries, keys: 7, GEMMA3_27B, "must return a tensor of logits, got 7"),
        (lambda queries, keys: 7, config_of("none"), "A scheme does not say how wide heads are"),
    ],
)
def test_what_cannot_be_compared_is_an_error_and_no_failure(
    produced: Any, layer: Any, message: str
) -> None:
    with pytest.raises(SchemeArgumentError, match=message):
        assert_logits_match(produced, layer)


def test_kind_of_layer_that_a_model_does_not_have_is_refused() -> None:
    with pytest.raises(SchemeArgumentError, match=r"kind must be one of full_attention, sliding"):
        assert_logits_match(torch.zeros(4, 6, 6), GEMMA3_27B, kind="local")
