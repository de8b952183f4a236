"""The lab trains every relative scheme: loss falls, parameters move, and a run brings them back."""

import statistics
from pathlib import Path

import pytest
import torch

from posenc import SCHEMES
from posenc.errors import CheckpointError
from posenc.interop.run_parameters import run_parameters
from posenc.lab import Store
from posenc.lab.train import train
from posenc.run_files import ENVIRONMENT
from tests.small_runs import CORPUS, made, small
from tests.test_relative_schemes import RELATIVE, TRAINED


@pytest.mark.parametrize("kind", RELATIVE)
def test_training_lowers_the_loss_and_moves_every_parameter(kind: str) -> None:
    specification = small(kind, steps=60)
    before = {
        name: value.clone() for name, value in specification.scheme.build(seed=0).named_parameters()
    }
    trained = train(specification, CORPUS)
    assert trained.stopped is None
    first, last = (statistics.fmean(part) for part in (trained.losses[:6], trained.losses[-6:]))
    assert last < first - 0.5
    assert bool(before) == (kind in TRAINED)
    for name, value in trained.model.scheme.named_parameters():
        assert value.isfinite().all(), name
        assert not torch.equal(value, before[name]), f"{name} was not trained"


@pytest.mark.parametrize("kind", TRAINED)
def test_a_run_keeps_its_parameters_and_gives_them_back(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = made(tmp_path, kind)
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "runs"))
    kept = store.tables(run.run_id)
    config = run.specification.scheme.replace(source=f"run-{run.run_id}")
    scheme = config.build()
    assert {f"scheme.{name}" for name, _ in scheme.named_parameters()} == kept.keys()
    for name, value in scheme.named_parameters():
        assert torch.equal(value, kept[f"scheme.{name}"])
    assert scheme.trained
    assert not scheme.untrained
    assert scheme.provenance == f"trained parameters of run {run.run_id[:8]}"
    assert "seed" not in config.uses
    assert run.specification.from_record(run.specification.record) == run.specification
    assert Store(tmp_path / "runs").read(run.run_id).scores, "read past its length as well"


def test_parameters_of_other_sizes_or_another_scheme_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run = made(tmp_path, "t5")
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "runs"))
    source = f"run-{run.run_id}"
    with pytest.raises(CheckpointError, match=r"T5 bias: .* 32 x 2 and weight 32 x 8 is asked for"):
        SCHEMES["t5"](heads=8, source=source).build()
    with pytest.raises(CheckpointError, match="trained another scheme than shaw"):
        SCHEMES["shaw"](source=source).build()
    with pytest.raises(CheckpointError, match="no parameters of a run"):
        SCHEMES["t5"](source="run-" + 20 * "0").build()


def test_the_word_trained_means_a_run_that_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    module = importlib.import_module("posenc.interop.run_parameters")
    module._shipped.cache_clear()
    monkeypatch.setattr(module, "RESULTS", tmp_path / "runs")
    with pytest.raises(CheckpointError, match="No trained parameters of fire ship"):
        run_parameters("trained", "fire")
    made(tmp_path, "fire", seeds=2)
    scheme = small("fire").scheme.replace(source="trained").build()
    assert scheme.trained
    module._shipped.cache_clear()
