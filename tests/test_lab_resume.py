"""A run killed at any moment goes on to the same bits; a checkpoint of another is refused."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from posenc.errors import RunError
from posenc.lab import train
from posenc.lab.specification import Specification
from posenc.lab.train import Trainer
from tests.small_runs import CORPUS, assert_same, sentences, small, weights


class Killed(Exception):
    """What a test raises in the middle of a run."""


def killed_at(step: int, specification: Specification, checkpoint: Path, every: int) -> None:
    def report(number: int, loss: float) -> None:
        if number == step:
            raise Killed

    with pytest.raises(Killed):
        train(specification, CORPUS, checkpoint=checkpoint, every=every, report=report)


@pytest.mark.over_code
@pytest.mark.parametrize("step", [1, 4, 5, 7, 11])
def test_a_killed_run_goes_on_to_the_same_bits(step: int, kind: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.safetensors"
    killed_at(step, small(kind), checkpoint, every=4)
    assert checkpoint.exists() == (step >= 4)
    seen: list[int] = []
    resumed = train(
        small(kind), CORPUS, checkpoint=checkpoint, every=4, report=lambda n, _: seen.append(n)
    )
    assert_same(resumed, train(small(kind), CORPUS))
    assert seen == list(range(step // 4 * 4 + 1, 13))


def test_a_run_killed_again_and_again_is_the_unbroken_one(tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.safetensors"
    for step in (3, 6, 7, 10, 12):
        killed_at(step, small("learned"), checkpoint, every=2)
    resumed = train(small("learned"), CORPUS, checkpoint=checkpoint)
    assert_same(resumed, train(small("learned"), CORPUS))
    assert [path.name for path in tmp_path.iterdir()] == ["run.safetensors"]


def test_a_process_killed_by_the_system_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.safetensors"
    script = f"""
from pathlib import Path
from posenc.lab import train
from tests.small_runs import CORPUS, small
train(small("learned", steps=100_000), CORPUS, checkpoint=Path({str(checkpoint)!r}), every=1,
      report=lambda step, loss: print(step, flush=True))
"""
    root = str(Path(__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 7:
            time.sleep(0.003)  # into the middle of a step or of a write
            process.kill()
            break
    assert process.wait(30) == -9

    specification = small("learned", steps=100_000)
    resumed, unbroken = Trainer(specification, CORPUS), Trainer(specification, CORPUS)
    resumed.load(checkpoint)
    reached = len(resumed.losses)
    assert reached >= 7
    for _ in range(5):
        resumed.step()
    for _ in range(reached + 5):
        unbroken.step()
    assert resumed.losses == unbroken.losses
    assert all(
        torch.equal(value, weights(unbroken)[name]) for name, value in weights(resumed).items()
    )


@pytest.mark.parametrize("amid", [False, True], ids=["between steps", "amid an update"])
def test_an_interrupted_run_goes_on_to_the_same_bits(
    amid: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between two steps keeps the last one; amid an update it must not keep half of one."""
    checkpoint, update = tmp_path / "run.safetensors", torch.optim.AdamW.step
    made = []

    def interrupted(optimizer: torch.optim.AdamW) -> None:
        update(optimizer)
        made.append(1)
        if amid and len(made) == 6:
            raise KeyboardInterrupt

    def report(number: int, loss: float) -> None:
        if not amid and number == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(torch.optim.AdamW, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(small(), CORPUS, checkpoint=checkpoint, every=4, report=report)
    kept = Trainer(small(), CORPUS)
    kept.load(checkpoint)
    assert len(kept.losses) == (4 if amid else 6)
    assert_same(train(small(), CORPUS, checkpoint=checkpoint), train(small(), CORPUS))


def checkpoint_of(path: Path, **others: object) -> bytes:
    trainer = Trainer(small(**others), CORPUS)
    trainer.step()
    trainer.save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    "others", [{"steps": 13}, {"batch": 5}, {"learning_rate": 1e-3}, {"kind": "alibi"}], ids=str
)
def test_the_checkpoint_of_another_run_is_refused(
    others: dict[str, object], tmp_path: Path
) -> None:
    checkpoint_of(tmp_path / "run.safetensors", **others)
    with pytest.raises(RunError, match="belongs to another run"):
        train(small(), CORPUS, checkpoint=tmp_path / "run.safetensors")


def test_a_broken_checkpoint_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    content = checkpoint_of(path)
    lost_metadata = checkpoint_of(path).replace(b'"seconds"', b'"sekunds"')
    broken = [content[:size] for size in (0, 7, 100, len(content) // 2, len(content) - 1)]
    broken += [sentences(), b"\0" * 5_000, content + b"more", lost_metadata]
    broken += [content.replace(b'"blocks.0.qkv.weight"', b'"blocks.0.qkv.wright"')]
    for number, bad in enumerate(broken):
        path.write_bytes(bad)
        with pytest.raises(RunError) as caught:
            train(small(), CORPUS, checkpoint=path)
        assert str(caught.value) == "The checkpoint cannot be read; remove it to start again.", (
            number
        )
        assert path.read_bytes() == bad  # nothing is removed


def test_a_checkpoint_without_the_state_of_the_optimiser_is_refused(tmp_path: Path) -> None:
    trainer = Trainer(small(), CORPUS)
    trainer.step()
    trainer.save(tmp_path / "whole")
    with safe_open(tmp_path / "whole", "pt") as file:
        names = file.keys()
        kept = {n: file.get_tensor(n) for n in names if not n.startswith("optimizer.")}
        save_file(kept, tmp_path / "less", file.metadata())
    with pytest.raises(RunError, match="no state of the optimiser"):
        Trainer(small(), CORPUS).load(tmp_path / "less")


def test_a_checkpoint_of_other_sizes_is_refused(tmp_path: Path) -> None:
    trainer = Trainer(small(), CORPUS)
    trainer.step()
    trainer.save(tmp_path / "whole")
    with safe_open(tmp_path / "whole", "pt") as file:
        names, note = file.keys(), file.metadata()
        kept = {name: file.get_tensor(name) for name in names}
    state = next(name for name in kept if name.endswith(".exp_avg"))
    owner = state.removesuffix("exp_avg")
    odd = (
        kept | {"losses": torch.zeros(13, dtype=torch.float64)},
        kept | {"losses": torch.zeros(1, 1, dtype=torch.float64)},
        kept | {state: torch.zeros(3)},
        {name: value for name, value in kept.items() if not name.startswith(owner)},
    )
    for tensors in odd:
        save_file(tensors, tmp_path / "odd", note)
        with pytest.raises(RunError, match="remove it to start again"):
            Trainer(small(), CORPUS).load(tmp_path / "odd")


def test_a_checkpoint_holds_the_specification(tmp_path: Path) -> None:
    checkpoint_of(tmp_path / "run.safetensors")
    with safe_open(tmp_path / "run.safetensors", "pt") as file:
        assert Specification.from_record(json.loads(file.metadata()["run"])) == small()
