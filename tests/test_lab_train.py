"""Training: the loss falls, a killed run goes on to the same bits, chance is the run's own."""

import importlib
import itertools
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from posenc import SCHEMES
from posenc.errors import RunError
from posenc.lab import from_text, train
from posenc.lab.chance import stream
from posenc.lab.specification import Specification
from posenc.lab.train import Trainer, rate
from tests.small_runs import CORPUS, assert_same, sentences, small, weights

trainer_module = importlib.import_module("posenc.lab.train")


def test_the_loss_falls_under_every_scheme(kind: str) -> None:
    specification = small(kind, steps=60, batch=8, widths=[32], train_length=32)
    training = train(specification, CORPUS)
    assert len(training.losses) == 60
    assert training.stopped is None
    begin, end = training.losses[0], sum(training.losses[-5:]) / 5
    assert abs(begin - math.log(256)) < 1.0  # before the first step nothing is known
    assert end < math.log(256) / 2


@pytest.mark.parametrize("task", ["recall", "copy"])
def test_the_loss_of_the_other_tasks_falls(task: str) -> None:
    training = train(small(task=task, steps=60, batch=16, widths=[32]), None)
    assert sum(training.losses[-5:]) / 5 < training.losses[0] - 0.3


def test_bfloat16_rounds_the_way_through_and_not_the_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = train(small(steps=60, batch=8), CORPUS)
    monkeypatch.setattr(trainer_module, "_low_precision", lambda device: torch.bfloat16)
    training = train(small(steps=60, batch=8), CORPUS)
    assert training.losses != exact.losses
    assert training.losses == pytest.approx(exact.losses, abs=0.1)
    assert {value.dtype for value in training.model.state_dict().values()} == {torch.float32}


@pytest.mark.over_code
def test_two_trainings_are_the_same_bit_for_bit_and_another_seed_is_not(kind: str) -> None:
    first, second = (train(small(kind), CORPUS) for _ in range(2))
    assert_same(first, second)
    other = Trainer(Specification(**vars(small(kind)) | {"seed": 1}), CORPUS)
    assert other.step() != first.losses[0]


def test_every_scheme_sees_the_same_data_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[Tensor]] = {}
    for kind in SCHEMES:
        trainer = Trainer(small(kind), CORPUS)
        forward = trainer._forward
        batches = seen.setdefault(kind, [])

        def spy(tokens: Tensor, forward=forward, batches=batches) -> Tensor:
            batches.append(tokens.clone())
            return forward(tokens)

        monkeypatch.setattr(trainer, "_forward", spy)
        for _ in range(5):
            trainer.step()
    for batches in seen.values():
        assert all(torch.equal(a, b) for a, b in zip(batches, seen["none"], strict=True))
    assert len({tuple(batch.flatten().tolist()) for batch in seen["none"]}) == 5


def test_the_learning_rate_rises_in_a_line_and_falls_in_half_a_cosine() -> None:
    asked = small(steps=100, learning_rate=1.0)
    by_hand = {
        0: 0.2, 1: 0.4, 4: 1.0, 5: 1.0,
        # (52.5 - 5) / 95 is half way: (1 + cos 90 degrees) / 2 = 0.5, between 0.1 and 1 at 0.55.
        52: 0.1 + 0.9 * (1 + math.cos(math.pi * 47 / 95)) / 2,
        100: 0.1,
    }  # fmt: skip
    for step, expected in by_hand.items():
        assert rate(step, asked) == pytest.approx(expected, rel=1e-12), step
    rates = [rate(step, asked) for step in range(100)]
    assert rates[:6] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    assert all(a > b for a, b in itertools.pairwise(rates[5:]))
    assert (rates[52] + rates[53]) / 2 == pytest.approx(0.55, rel=1e-3)
    assert rate(0, small(steps=1)) == 1e-2


def test_each_step_is_made_at_its_own_rate() -> None:
    trainer, used = Trainer(small(steps=20), CORPUS), []
    for _ in range(20):
        trainer.step()
        used.append({group["lr"] for group in trainer.optimizer.param_groups})
    assert used == [{rate(step, small(steps=20))} for step in range(20)]


def test_norms_and_the_schemes_own_numbers_do_not_decay() -> None:
    trainer = Trainer(small("learned"), CORPUS)
    decayed = {id(p): group["weight_decay"] for group in trainer.optimizer.param_groups
               for p in group["params"]}  # fmt: skip
    for name, value in trainer.model.named_parameters():
        expected = 0.0 if "norm" in name or name.startswith("scheme.") else 0.1
        assert decayed[id(value)] == expected, name


def test_a_loss_that_is_not_finite_ends_the_run_and_changes_no_weight(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = train(small(), CORPUS, report=lambda *_: None)
    trainer = Trainer(small(), CORPUS)
    for _ in range(5):
        trainer.step()
    before, forward = weights(trainer), trainer._forward
    monkeypatch.setattr(trainer, "_forward", lambda tokens: forward(tokens) * math.nan)
    assert math.isnan(trainer.step())
    assert trainer.done
    assert trainer.stopped == "The loss or its gradient was nan at step 6; training stopped."
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer).items())
    assert tuple(trainer.losses[:5]) == good.losses[:5]
    # And so it stays when the run is taken up again.
    trainer.save(tmp_path / "run.safetensors")
    again = train(small(), CORPUS, checkpoint=tmp_path / "run.safetensors")
    assert again.stopped == trainer.stopped
    assert len(again.losses) == 6


def test_an_infinite_loss_changes_no_weight_though_its_gradient_is_finite(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer = Trainer(small(), CORPUS)
    before, forward = weights(trainer), trainer._forward
    impossible = torch.zeros(trainer.task.vocabulary)
    impossible[int(CORPUS.train[0])] = -math.inf  # a byte of the text gets no chance
    monkeypatch.setattr(trainer, "_forward", lambda tokens: forward(tokens) + impossible)
    assert trainer.step() == math.inf
    inputs, targets = trainer.task.batch(trainer.specification.batch, stream(0, "data", 0))
    logits = forward(inputs).add(impossible).flatten(0, 1)
    torch.nn.functional.cross_entropy(logits, targets.flatten()).backward()
    assert all(
        value.grad.isfinite().all()
        for value in trainer.model.parameters()
        if value.grad is not None
    )
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer).items())


def test_a_run_that_diverges_says_at_which_step() -> None:
    trainer = Trainer(small(), CORPUS)
    for _ in range(3):
        trainer.step()
    with torch.no_grad():
        trainer.model.tokens.weight.mul_(math.inf)
    while not trainer.done:
        trainer.step()
    assert trainer.stopped == "The loss or its gradient was nan at step 4; training stopped."


def test_gradients_are_clipped_to_norm_one(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(small(), CORPUS)
    with torch.no_grad():
        trainer.model.tokens.weight.mul_(30)
    norms = []
    monkeypatch.setattr(
        trainer.optimizer, "step",
        lambda: norms.append(sum(p.grad.square().sum() for p in trainer.model.parameters()).sqrt()),
    )  # fmt: skip
    trainer.step()
    assert norms[0].item() == pytest.approx(1.0, rel=1e-4)


@pytest.mark.over_code
def test_the_global_generator_is_neither_used_nor_changed(kind: str) -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = train(small(kind), CORPUS)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert_same(train(small(kind), CORPUS), first)


def test_the_number_of_threads_is_put_back() -> None:
    before = torch.get_num_threads()
    seen = []
    train(
        Specification(**vars(small(steps=1)) | {"threads": before + 1}), CORPUS,
        report=lambda *_: seen.append(torch.get_num_threads()),
    )  # fmt: skip
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


def test_the_text_must_be_the_one_that_was_named() -> None:
    with pytest.raises(RunError, match="needs the text made-up sentences, got no text"):
        train(small(), None)
    with pytest.raises(RunError, match="got the text others"):
        train(small(), from_text("others", sentences(seed=1)))


def test_a_text_shorter_than_what_is_read_is_refused() -> None:
    with pytest.raises(RunError, match="more than 16,384 bytes"):
        train(small(train_length=256, longest=64), CORPUS)


@pytest.mark.long
@pytest.mark.timeout(1_800)  # every scheme is compiled, one after another
def test_a_compiled_model_learns_the_same_but_for_rounding() -> None:
    """In a process of its own, without the shape hook, which cannot be compiled through."""
    script = """
from dataclasses import replace
from posenc.lab import train
from posenc.schemes import SCHEMES
from tests.small_runs import CORPUS, small
for kind in SCHEMES:
    plain = small(kind, steps=8)
    compiled = replace(plain, compiled=True)
    assert compiled.run_id != plain.run_id
    pairs = zip(train(compiled, CORPUS).losses, train(plain, CORPUS).losses, strict=True)
    print(kind, max(abs(a - b) for a, b in pairs))
"""
    root = Path(__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2_000:]
    found = {line.split()[0]: float(line.split()[1]) for line in ran.stdout.splitlines()}
    assert set(found) == set(SCHEMES)
    assert max(found.values()) < 1e-3
