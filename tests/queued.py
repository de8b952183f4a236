"""Starts of small trainings and a queue for them, as the tests of the queue use them."""

from dataclasses import replace
from pathlib import Path

import pytest

from posenc.lab.queue import Queue
from posenc.lab.specification import Specification
from tests.small_runs import small


def start(seed: int = 0, count: int = 1) -> list[Specification]:
    return [replace(small(), seed=seed + n) for n in range(count)]


def own_queue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue for two that wait, in a folder of the test's own, and its checkpoints beside it."""
    monkeypatch.setenv("POSENC_WORK", str(folder / "work"))
    return Queue(folder / "queue", waiting=2)
