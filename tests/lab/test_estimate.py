"""Estimated times of runs: they count what training and evaluation compute."""

import sys
from collections import Counter
from typing import Any

import pytest
from torch import Tensor

from posenc.lab.evaluate import evaluate, evaluated_tokens, evaluation_lengths, length_reached
from posenc.lab.model import LanguageModel
from posenc.lab.run_once import Speed, calibrate, multiplications
from posenc.lab.train import build_model
from tests.lab.small_runs import corpus_for, small_spec

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.mark.parametrize(
    ("scheme", "task"),
    [
        ("learned", "language"),
        ("learned", "recall"),
        ("alibi", "copy"),
        ("rope", "indexing"),
        ("learned", "flip_flop"),
        ("rope", "parity_hints"),
    ],
)
def test_estimate_counts_every_sequence_that_is_evaluated(
    scheme: str, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    specification = small_spec(scheme, task=task, steps=1)
    trained_on = specification.make_task(corpus_for(specification))
    evaluated, planned = Counter[int](), Counter[int]()
    forward = LanguageModel.forward

    def counting(self: LanguageModel, tokens: Tensor, *rest: Any) -> Tensor:
        evaluated[tokens.shape[1]] += tokens.shape[0]
        latest[0] = tokens.shape[1]
        return forward(self, tokens, *rest)

    monkeypatch.setattr(LanguageModel, "forward", counting)
    passed: list[int] = []
    lengths, latest, reached = evaluation_lengths(specification), [0], list[int]()

    def note(tokens: int) -> None:
        number = length_reached(lengths, sum(passed))  # while these tokens were evaluated
        assert lengths[number - 1][0] == latest[0]
        reached.append(number)
        passed.append(tokens)

    evaluate(build_model(specification, trained_on), trained_on, specification, note)
    assert list(dict.fromkeys(reached)) == [*range(1, len(lengths) + 1)]
    assert length_reached(lengths, sum(passed)) == len(lengths)
    for length, sequences in lengths:
        planned[length] += sequences
    assert planned == evaluated
    tokens = sum(length * sequences for length, sequences in evaluated.items())
    assert sum(passed) == evaluated_tokens(specification) == tokens


def test_estimate_adds_layers_and_multiplications() -> None:
    """By hand: 2 layers of width 8, 4 sequences of 16 tokens a step, 256 logits for each token."""
    specification = small_spec("none", widths=[8], layers=2, longest=1)
    work = 16 * (2 * (12 * 64 + 16 * 8) + 256 * 8)
    assert multiplications(specification, 16) == work
    speed = Speed(layer=0.5, multiplication=1e-6, evaluation=1e-7)
    step = 2 * 0.5 + 1e-6 * 4 * work
    assert speed.step(specification) == pytest.approx(step)
    assert evaluation_lengths(specification) == [
        (8, 8),
        (16, 8),
        (16, 8),
    ]  # half, all, and by position
    at_half = 8 * (2 * (12 * 64 + 8 * 8) + 256 * 8)
    evaluation = 1e-7 * (8 * at_half + 16 * work)
    assert speed.seconds(specification) == pytest.approx(12 * step + evaluation)


def test_calibration_finds_what_a_layer_and_a_multiplication_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = iter([(1_000, 1), (500_000, 2)])

    def timed(*_: object, evaluate_only: bool = False) -> tuple[int, int, float]:
        if evaluate_only:
            return 200, 3, 200 * 3e-9
        work, layers = next(sizes)
        return work, layers, 2e-3 * layers + 1e-8 * work

    module = sys.modules[calibrate.__module__]  # the package has a function of its name
    monkeypatch.setattr(module, "_timed", timed)
    speed = calibrate()
    found = speed.layer, speed.multiplication, speed.evaluation
    assert found == pytest.approx((2e-3, 1e-8, 3e-9))


def test_calibrated_speed_predicts_longer_training_for_a_larger_model() -> None:
    speed = calibrate()
    large = small_spec("none", widths=[256], layers=4, heads=4, batch=64)
    assert speed.seconds(large) > 2 * speed.seconds(small_spec("none")) > 0
