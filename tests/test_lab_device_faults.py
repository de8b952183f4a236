"""Accelerators that run out of memory or fail, by stand-ins that raise what torch raises."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from posenc.errors import DeviceLost, RunError
from posenc.lab import Store, make_run
from posenc.lab.entry import State
from posenc.lab.queue import Queue
from posenc.lab.train import Trainer
from posenc.lab.worker import DEVICE_LOST
from tests.small_runs import CORPUS, sentences, small
from tests.worker_processes import ROOT

RAISED = {
    "memory": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB in step.py"),
    "device": torch.AcceleratorError("CUDA error: device-side assert triggered\nCompile with ..."),
}


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception, at: int = 5) -> None:
    real = Trainer.step

    def step(self: Trainer) -> float:
        if len(self.losses) == at:
            raise error
        return real(self)

    monkeypatch.setattr(Trainer, "step", step)


def test_memory_that_ends_is_one_sentence_and_the_run_can_be_made_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        failing(patched, RAISED["memory"])
        with pytest.raises(
            RunError, match=r"^The memory of cpu ended: take a smaller batch"
        ) as told:
            make_run(small(), CORPUS, Store(tmp_path), work=tmp_path / "w")
    assert not isinstance(told.value, DeviceLost)
    assert "GiB" not in str(told.value)
    assert Store(tmp_path).ids() == []
    assert make_run(small(), CORPUS, Store(tmp_path), work=tmp_path / "w").stopped is None


def test_a_device_that_fails_is_told_with_the_first_line_of_its_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, RAISED["device"])
    with pytest.raises(DeviceLost, match="device-side assert triggered") as told:
        make_run(small(), CORPUS, Store(tmp_path), work=tmp_path / "w")
    assert "Compile with" not in str(told.value)


@pytest.mark.parametrize(("kind", "code"), [("memory", 0), ("device", DEVICE_LOST)])
def test_a_worker_goes_on_after_memory_ended_and_leaves_after_the_device_failed(
    kind: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    queue = Queue(tmp_path / "queue")
    text = {"text": sentences(), "text_name": CORPUS.name}
    bad = queue.add([small("alibi")], **text)
    good = queue.add([small("none")], **text)
    name = type(RAISED[kind]).__name__
    script = f"""
import sys, torch
from pathlib import Path
from posenc.lab.train import Trainer
from posenc.lab import worker
real = Trainer.step
def step(self):
    if self.specification.scheme.kind == "alibi" and len(self.losses) == 3:
        raise torch.{name}("CUDA error: it failed on purpose")
    return real(self)
Trainer.step = step
worker.main(Path({str(queue.folder)!r}), 1)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, timeout=280
    )
    assert done.returncode == code
    left = {entry.name: entry.state for entry in queue.entries()}
    expected = {bad: State.FAILED} | ({good: State.WAITING} if code else {})
    assert left == expected
    assert (Store().ids() == []) == bool(code)
