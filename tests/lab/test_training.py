"""Training: the loss falls, one seed is one order of data, and a killed training goes on."""

import importlib
import json
import math
import os
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from posenc import SCHEMES
from posenc.checkpoints.file_store import ENVIRONMENT
from posenc.checkpoints.sources import run_parameters
from posenc.device import works
from posenc.errors import CheckpointError, RunError
from posenc.lab import Specification, Store, from_text, run_once, train
from posenc.lab.train import Trainer, learning_rate_at
from posenc.schemes.shaw import ShawConfig
from posenc.schemes.t5 import T5Config
from tests.devices import needs_cuda
from tests.lab.small_runs import (
    CORPUS,
    assert_same_training,
    make_small_run,
    sentences,
    small_spec,
    weights,
)
from tests.lab.worker_processes import ROOT

TRAIN = importlib.import_module("posenc.lab.train")


@pytest.mark.parametrize(
    ("kind", "task"),
    [("learned", "language"), ("rope", "language"), ("t5", "language"), ("fire", "language"),
     ("cope", "language"), ("none", "recall"), ("none", "copy"),
     ("rope", "flip_flop"), ("rope", "indexing"), ("rope", "parity"), ("rope", "parity_hints")],
)  # fmt: skip
def test_loss_falls(kind: str, task: str) -> None:
    training = train(small_spec(kind, task=task, steps=40, batch=8, widths=[32]), CORPUS)
    assert training.stopped is None
    first, last = training.losses[0], sum(training.losses[-5:]) / 5
    if task == "language":
        assert abs(first - math.log(256)) < 1.0  # nothing is known yet
    assert last < first - (1.5 if task == "language" else 0.2)


def test_bfloat16_is_used_in_the_forward_pass_only(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = train(small_spec(steps=30), CORPUS)
    monkeypatch.setattr(TRAIN, "_low_precision", lambda device: torch.bfloat16)
    training = train(small_spec(steps=30), CORPUS)
    assert training.losses != exact.losses
    # bfloat16 has 8 bits: of losses up to 5.5 nats that is some hundredths.
    assert training.losses == pytest.approx(exact.losses, abs=0.1)
    assert {value.dtype for value in training.model.state_dict().values()} == {torch.float32}


def test_training_depends_on_its_seed_and_not_on_the_global_generator() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = train(small_spec("learned"), CORPUS)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert_same_training(train(small_spec("learned"), CORPUS), first)
    other = Trainer(replace(small_spec("learned"), seed=1), CORPUS)
    assert abs(other.step() - first.losses[0]) > 1e-3


def test_every_scheme_sees_the_same_data_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: dict[str, list[Tensor]] = {}
    for kind in SCHEMES:
        trainer = Trainer(small_spec(kind), CORPUS)
        forward, seen = trainer._forward, batches.setdefault(kind, [])

        def record(tokens: Tensor, forward=forward, seen=seen) -> Tensor:  # type: ignore[no-untyped-def]
            seen.append(tokens.clone())
            return forward(tokens)

        monkeypatch.setattr(trainer, "_forward", record)
        for _ in range(2):
            trainer.step()
    for seen in batches.values():
        assert all(torch.equal(a, b) for a, b in zip(seen, batches["none"], strict=True))
    assert not torch.equal(*batches["none"])


def test_seed_of_the_data_changes_the_batches_and_no_weight() -> None:
    plain, other = (Trainer(small_spec(data_seed=seed), CORPUS) for seed in (None, 1))
    weights, others = plain.model.state_dict(), other.model.state_dict()
    assert all(torch.equal(value, others[name]) for name, value in weights.items())
    expected = Trainer(replace(small_spec(), seed=1), CORPUS)  # data of seed 1, other weights
    texts = []
    for trainer in (plain, other, expected):
        seen: list[Tensor] = []
        forward = trainer._forward
        trainer._forward = lambda tokens, seen=seen, forward=forward: (
            seen.append(tokens) or forward(tokens)
        )
        trainer.step()
        texts.append(seen[0])
    assert torch.equal(texts[1], texts[2])
    assert not torch.equal(texts[0], texts[1])


def test_parameters_of_the_scheme_have_a_rate_of_their_own() -> None:
    trainer = Trainer(small_spec("learned", scheme_rate=10.0), CORPUS)
    trainer.step()
    rates = {
        id(parameter): group["lr"]
        for group in trainer.optimizer.param_groups
        for parameter in group["params"]
    }
    shared = learning_rate_at(0, trainer.specification)
    for name, value in trainer.model.named_parameters():
        expected = 10 * shared if name.startswith("scheme.") else shared
        assert rates[id(value)] == pytest.approx(expected, rel=1e-12), name


def test_learning_rate_rises_linearly_and_falls_in_half_a_cosine() -> None:
    spec = small_spec(steps=100, learning_rate=1.0)
    by_hand = {
        0: 0.2, 1: 0.4, 4: 1.0, 5: 1.0,
        # Of the cosine's 95 steps 47 are made: it falls from 1 to 0.1.
        52: 0.1 + 0.9 * (1 + math.cos(math.pi * 47 / 95)) / 2,
        100: 0.1,
    }  # fmt: skip
    assert {step: learning_rate_at(step, spec) for step in by_hand} == pytest.approx(
        by_hand, rel=1e-12
    )
    assert learning_rate_at(0, small_spec(steps=1)) == 1e-2
    trainer = Trainer(small_spec(), CORPUS)
    for step in range(2):
        trainer.step()
        used = {group["lr"] for group in trainer.optimizer.param_groups}
        assert used == {learning_rate_at(step, small_spec())}


def test_norms_and_the_scheme_s_parameters_do_not_decay() -> None:
    trainer = Trainer(small_spec("learned"), CORPUS)
    decay = {
        id(parameter): group["weight_decay"]
        for group in trainer.optimizer.param_groups
        for parameter in group["params"]
    }
    for name, value in trainer.model.named_parameters():
        expected = 0.0 if "norm" in name or name.startswith("scheme.") else 0.1
        assert decay[id(value)] == expected, name


def test_loss_that_is_not_a_number_ends_the_run_and_changes_no_weight(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trainer = Trainer(small_spec(), CORPUS)
    trainer.step()
    before, forward = weights(trainer), trainer._forward
    monkeypatch.setattr(trainer, "_forward", lambda tokens: forward(tokens) * math.nan)
    assert math.isnan(trainer.step())
    assert trainer.done
    assert "nan at step 2" in str(trainer.stopped)
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer).items())
    trainer.save(tmp_path / "run.safetensors")
    again = train(small_spec(), CORPUS, checkpoint=tmp_path / "run.safetensors")
    assert (again.stopped, len(again.losses)) == (trainer.stopped, 2)


def test_infinite_loss_of_finite_gradient_moves_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(small_spec(), CORPUS)
    before, forward = weights(trainer), trainer._forward
    impossible = torch.zeros(trainer.task.vocabulary)
    impossible[int(CORPUS.train[0])] = -math.inf  # a byte of the text gets no chance
    monkeypatch.setattr(trainer, "_forward", lambda tokens: forward(tokens) + impossible)
    assert trainer.step() == math.inf
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer).items())


def test_gradients_are_clipped_to_norm_one(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(small_spec(), CORPUS)
    with torch.no_grad():
        trainer.model.tokens.weight.mul_(30)
    monkeypatch.setattr(trainer.optimizer, "step", lambda: None)
    trainer.step()
    gradients = [value.grad for value in trainer.model.parameters() if value.grad is not None]
    squares = sum(gradient.square().sum().item() for gradient in gradients)
    assert squares**0.5 == pytest.approx(1.0, rel=1e-4)


def test_training_uses_its_own_number_of_threads() -> None:
    before, seen = torch.get_num_threads(), set[int]()
    spec = replace(small_spec(steps=1), threads=before + 1)
    train(spec, CORPUS, report=lambda *_: seen.add(torch.get_num_threads()))
    assert seen == {before + 1}
    assert torch.get_num_threads() == before


def test_text_must_be_the_named_one_and_long_enough() -> None:
    with pytest.raises(RunError, match="needs the text made-up sentences, got no text"):
        train(small_spec(), None)
    with pytest.raises(RunError, match="got the text others"):
        train(small_spec(), from_text("others", sentences(seed=1)))
    with pytest.raises(RunError, match="more than 16,384 bytes"):
        train(small_spec(train_length=256, longest=64), CORPUS)


def test_run_gives_back_its_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, run = make_small_run(tmp_path, "t5", steps=2, longest=2, segments=2)
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "runs"))
    stored, source = store.tables(run.run_id), f"run-{run.run_id}"
    config = run.specification.scheme.replace(source=source)
    scheme = config.build()
    assert {f"scheme.{name}" for name, _ in scheme.named_parameters()} == stored.keys()
    for name, value in scheme.named_parameters():  # read back: bit for bit
        assert torch.equal(value, stored[f"scheme.{name}"])
    assert run.run_id[:8] in str(scheme.provenance)
    assert not scheme.untrained
    with pytest.raises(CheckpointError, match=r"32 x 2 and weight 32 x 8 is asked for"):
        T5Config(heads=8, source=source).build()
    with pytest.raises(CheckpointError, match="another scheme than shaw"):
        ShawConfig(source=source).build()
    with pytest.raises(CheckpointError, match="no parameters of a run"):
        T5Config(source="run-" + 20 * "0").build()


def test_source_trained_is_a_shipped_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("posenc.checkpoints.sources")
    module._shipped_run.cache_clear()
    monkeypatch.setattr(module, "RESULTS", tmp_path / "runs")
    with pytest.raises(CheckpointError, match="No trained parameters of fire ship"):
        run_parameters("trained", "fire")
    make_small_run(tmp_path, "fire", seeds=2)
    assert not small_spec("fire").scheme.replace(source="trained").build().untrained
    module._shipped_run.cache_clear()


UNREADABLE = "cannot be read; remove it to start again"


class Killed(Exception):
    """Stands for the end of the process during a training."""


def train_until_killed(kind: str, step: int, checkpoint: Path) -> None:
    def report(number: int, loss: float) -> None:
        if number == step:
            raise Killed

    with pytest.raises(Killed):
        train(small_spec(kind), CORPUS, checkpoint=checkpoint, report=report)


# A scheme without parameters, with a table, with a bias for all layers, with parameters of each layer.
@pytest.mark.parametrize("kind", ["rope", "learned", "t5", "transformer_xl"])
def test_killed_run_resumes_to_the_same_bits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["posenc.lab.train"], "CHECKPOINT_EVERY", 4)
    unbroken, checkpoint, seen = train(small_spec(kind), CORPUS), tmp_path / "run", list[int]()
    for step in (1, 4, 7, 9):  # one run, killed several times
        train_until_killed(kind, step, checkpoint)
        assert checkpoint.exists() == (step >= 4)
    resumed = train(
        small_spec(kind), CORPUS, checkpoint=checkpoint, report=lambda step, _: seen.append(step)
    )
    assert_same_training(resumed, unbroken)
    assert seen == [9, 10, 11, 12]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("inside", [False, True], ids=["between steps", "inside an update"])
def test_interrupted_run_resumes_to_the_same_bits(
    inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between two steps keeps the last one; inside an update it must not keep half of one."""
    checkpoint, update = tmp_path / "run.safetensors", torch.optim.AdamW.step
    updates: list[int] = []

    def interrupt_update(optimizer: torch.optim.AdamW) -> None:
        update(optimizer)
        updates.append(1)
        if inside and len(updates) == 6:
            raise KeyboardInterrupt

    def interrupt_step(number: int, loss: float) -> None:
        if not inside and number == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["posenc.lab.train"], "CHECKPOINT_EVERY", 4)
    monkeypatch.setattr(torch.optim.AdamW, "step", interrupt_update)
    with pytest.raises(KeyboardInterrupt):
        train(small_spec(), CORPUS, checkpoint=checkpoint, report=interrupt_step)
    saved = Trainer(small_spec(), CORPUS)
    saved.load(checkpoint)
    assert len(saved.losses) == (4 if inside else 6)
    resumed = train(small_spec(), CORPUS, checkpoint=checkpoint)
    assert_same_training(resumed, train(small_spec(), CORPUS))


def save_checkpoint(path: Path, **others: Any) -> bytes:
    trainer = Trainer(small_spec(**others), CORPUS)
    trainer.step()
    trainer.save(path)
    return path.read_bytes()


def test_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    save_checkpoint(path, steps=13)
    with pytest.raises(RunError, match="belongs to another run"):
        train(small_spec(), CORPUS, checkpoint=path)
    with safe_open(path, "pt") as file:
        record = json.loads(file.metadata()["run"])
    assert Specification.from_record(record) == small_spec(steps=13)


def test_damaged_checkpoint_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    content = save_checkpoint(path)
    damaged = [b"", content[:-1], sentences(), content.replace(b'"seconds"', b'"sekunds"')]
    damaged += [content.replace(b'"blocks.0.qkv.weight"', b'"blocks.0.qkv.wright"')]
    for bad in damaged:
        path.write_bytes(bad)
        with pytest.raises(RunError, match=UNREADABLE):
            train(small_spec(), CORPUS, checkpoint=path)
        assert path.read_bytes() == bad


def test_checkpoint_with_missing_or_misshapen_tensors_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "whole")
    with safe_open(tmp_path / "whole", "pt") as file:
        names, note = file.keys(), file.metadata()
        tensors = {name: file.get_tensor(name) for name in names}
    state = next(name for name in tensors if name.endswith(".exp_avg"))
    owner = state.removesuffix("exp_avg")
    no_optimizer = {n: value for n, value in tensors.items() if not n.startswith("optimizer.")}
    for changed in (
        tensors | {"losses": torch.zeros(13, dtype=torch.float64)},
        tensors | {"losses": torch.zeros(1, 1, dtype=torch.float64)},
        tensors | {state: torch.zeros(3)},
        {n: value for n, value in tensors.items() if not n.startswith(owner)},
        no_optimizer,
    ):
        save_file(changed, tmp_path / "changed", note)
        with pytest.raises(RunError, match=UNREADABLE):
            Trainer(small_spec(), CORPUS).load(tmp_path / "changed")


def on_cuda(kind: str = "rope", **others: object) -> Specification:
    return replace(small_spec(kind, **others), device="cuda")


@needs_cuda
def test_cuda_training_learns_as_on_the_cpu_and_is_stored(tmp_path: Path) -> None:
    """bfloat16 has 8 bits: losses of up to 5.5 nats differ by some hundredths at every step."""
    on_gpu, on_cpu = (train(make(steps=60, batch=8), CORPUS) for make in (on_cuda, small_spec))
    assert {value.device.type for value in on_gpu.model.parameters()} == {"cuda"}
    assert {value.dtype for value in on_gpu.model.parameters()} == {torch.float32}
    assert on_gpu.losses[0] == pytest.approx(on_cpu.losses[0], abs=0.05)
    last, expected = (statistics.fmean(one.losses[-10:]) for one in (on_gpu, on_cpu))
    assert last == pytest.approx(expected, abs=0.2)
    assert last < on_gpu.losses[0] - 1
    checkpoint, steps = tmp_path / "run", list[int]()
    first, spec = Trainer(on_cuda("learned"), CORPUS), on_cuda("learned")
    first.step()
    first.save(checkpoint)
    resumed = train(spec, CORPUS, checkpoint=checkpoint, report=lambda step, _: steps.append(step))
    assert steps[0] == 2
    unbroken = train(spec, CORPUS)  # a GPU may add in another order
    assert resumed.losses == pytest.approx(unbroken.losses, abs=0.05)
    store = Store(tmp_path / "runs")
    run = run_once(spec, CORPUS, store)
    assert store.read(run.run_id) == run
    assert store.tables(run.run_id)["scheme.weight"].device.type == "cpu"


@pytest.mark.skipif(works("cuda"), reason="a CUDA device")
def test_run_for_missing_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no device cuda"):
        run_once(on_cuda(), CORPUS, Store(tmp_path / "others"))


@pytest.mark.long
@pytest.mark.timeout(1_800)  # compiling on a busy machine takes its time
def test_compiled_model_learns_the_same_up_to_rounding() -> None:
    """In a process of its own, without the shape hook, which cannot be compiled through.

    One scheme for each way into the model; tests/library/compiled_code.py compiles every scheme.
    """
    kinds = ("learned", "rope", "t5", "shaw", "ssmax", "rnope")
    script = f"""
from dataclasses import replace
from posenc.lab import train
from tests.lab.small_runs import CORPUS, small_spec
for kind in {kinds}:
    plain = small_spec(kind, steps=8)
    compiled = replace(plain, compiled=True)
    pairs = zip(train(compiled, CORPUS).losses, train(plain, CORPUS).losses, strict=True)
    print(kind, max(abs(a - b) for a, b in pairs))
"""
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ.copy())
    assert ran.returncode == 0, ran.stderr[-2_000:]
    found = {line.split()[0]: float(line.split()[1]) for line in ran.stdout.splitlines()}
    assert {*found} == {*kinds}
    assert max(found.values()) < 1e-3
