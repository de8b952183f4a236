"""A second stage of training: another scheme, another length, from the weights of the first."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from posenc import AlibiConfig, LearnedConfig, NoneConfig, RopeConfig
from posenc.errors import ConfigError
from posenc.lab import Specification, train
from posenc.lab.evaluate import TRAINED, evaluate
from posenc.lab.run_once import Speed
from posenc.lab.runs import from_parquet, to_parquet
from posenc.lab.specification import FineTuning
from posenc.lab.summary import comparison, curves, label
from posenc.lab.tasks import Language, generator_for
from posenc.lab.train import Trainer
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from tests.lab.small_runs import CORPUS, assert_same_training, make_small_run, small_spec, weights

ROPE = RopeConfig(dim=8)
SCALED = RopeNtkConfig(dim=8, factor=4.0)


def tuned(scheme: Any = SCALED, **others: Any) -> Specification:
    """RoPE for 12 steps at 16 tokens, then 5 steps of another scheme at 32 tokens."""
    values: dict[str, Any] = {"before": ROPE, "length": 32, "steps": 5, "learning_rate": 3e-3}
    tuning = FineTuning(**values | others)
    return replace(small_spec(), scheme=scheme, fine_tuning=tuning)


def test_the_first_stage_is_the_run_of_its_scheme_alone() -> None:
    alone = train(small_spec(), CORPUS)
    assert train(tuned(), CORPUS).losses[:12] == alone.losses


def test_the_second_stage_is_a_plain_loop_from_the_weights_of_the_first() -> None:
    training = train(tuned(), CORPUS)
    assert len(training.losses) == 17
    trainer = Trainer(small_spec(), CORPUS)
    while not trainer.done:
        trainer.step()
    model = trainer.model
    model.scheme = SCALED.build()
    decays = [value for value in model.parameters() if value.ndim == 2]
    keeps = [value for value in model.parameters() if value.ndim == 1]
    adam = torch.optim.AdamW(
        [{"params": decays, "weight_decay": 0.1}, {"params": keeps, "weight_decay": 0.0}],
        lr=3e-3, betas=(0.9, 0.99), fused=True,
    )  # fmt: skip
    task, losses = Language(32, CORPUS), []
    for step in range(5):
        # One step of warm-up, then a cosine to a tenth; half as many sequences of twice the length.
        share = 1.0 if step == 0 else 0.1 + 0.9 * (1 + math.cos(math.pi * (step - 1) / 4)) / 2
        inputs, targets = task.batch(2, generator_for(0, "data", 12 + step))
        for group in adam.param_groups:
            group["lr"] = 3e-3 * share
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        losses.append(loss.item())
    assert training.losses[12:] == pytest.approx(losses, abs=1e-5)


@pytest.mark.parametrize("step", [1, 11, 12, 13, 16, 17])
def test_a_training_that_is_stopped_goes_on_with_the_same_bits(step: int, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"

    def stop(number: int, loss: float) -> None:
        if number == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tuned(), CORPUS, checkpoint=checkpoint, report=stop)
    resumed = train(tuned(), CORPUS, checkpoint=checkpoint)
    assert_same_training(resumed, train(tuned(), CORPUS))


def test_parameters_of_a_scheme_go_on_only_where_the_new_scheme_has_them() -> None:
    table = LearnedConfig(max_len=16, dim=16)
    steady = replace(
        small_spec("learned"), fine_tuning=FineTuning(before=table, length=16, steps=1)
    )
    first, both = train(small_spec("learned"), CORPUS), train(steady, CORPUS)
    moved = (weights(first)["scheme.weight"] - weights(both)["scheme.weight"]).abs().max()
    assert 0 < moved <= 2.1e-4  # one step of AdamW at the rate 2e-4
    dropped = replace(steady, scheme=NoneConfig())
    assert not [key for key in weights(train(dropped, CORPUS)) if key.startswith("scheme.")]


def test_a_run_of_two_stages_is_stored_and_read_back(folder: Path) -> None:
    specification = tuned(NoneConfig(), length=16)
    assert Specification.from_record(specification.record) == specification
    assert specification.run_id != replace(specification, fine_tuning=None).run_id
    assert specification.run_id != tuned(NoneConfig(), length=16, steps=6).run_id
    alone = small_spec()
    assert comparison(specification) == comparison(alone)
    _, run = make_small_run(folder)
    stored = from_parquet(to_parquet(replace(run, specification=specification)))
    assert stored.specification == specification
    every = curves([run, stored], "context")
    names = [label(curve, every) for curve in every if curve.specification == specification]
    assert names[0] == "NoPE, fine-tuned from RoPE at 16 tokens"
    # A scaling of the scheme before is named by the length alone, unless two factors share it.
    scaled = [
        replace(run, specification=tuned(RopeNtkConfig(dim=8, factor=factor), length=length))
        for factor, length in ((2.0, 16), (4.0, 32), (8.0, 32))
    ]
    for_length = curves(scaled[:2], "context")
    assert {label(curve, for_length) for curve in for_length if curve.variant == TRAINED} == {
        "RoPE NTK-aware, fine-tuned at 16 tokens", "RoPE NTK-aware, fine-tuned at 32 tokens",
    }  # fmt: skip
    shared = curves(scaled, "context")
    assert {label(curve, shared) for curve in shared if curve.variant == TRAINED} == {
        "RoPE NTK-aware, fine-tuned at 16 tokens",
        "RoPE NTK-aware, scale factor 4, fine-tuned at 32 tokens",
        "RoPE NTK-aware, scale factor 8, fine-tuned at 32 tokens",
    }


def test_the_model_is_evaluated_with_its_last_scheme() -> None:
    specification = tuned(AlibiConfig(heads=2))
    training = train(specification, CORPUS)
    scores = evaluate(training.model, specification.make_task(CORPUS), specification)
    assert {score.x for score in scores if score.measure == "context"} == {8, 16, 24, 32, 64}
    training.model.scheme = ROPE.build()
    others = evaluate(training.model, specification.make_task(CORPUS), specification)
    assert [score.value for score in scores] != [score.value for score in others]


def test_both_stages_are_in_the_estimate() -> None:
    speed = Speed(layer=1.0, multiplication=0.0, evaluation=0.0)
    assert speed.seconds(tuned()) == 17.0


def test_a_table_is_not_made_longer() -> None:
    table = LearnedConfig(max_len=16, dim=16)
    with pytest.raises(ConfigError, match=r"max_len must be 32 .* trained on 32 positions, got 16"):
        tuned(table, before=table)
