"""Fixtures of the lab's tests: a place of the test's own for runs and work, and a queue in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from posenc.lab.jobs import Queue
from tests.lab.worker_processes import own_place


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the store of runs and the work in progress; its workers end with the test."""
    yield from own_place(tmp_path, monkeypatch)


@pytest.fixture
def queue(folder: Path) -> Queue:
    """A queue in which one job runs and two wait, at most."""
    return Queue(folder / "queue", running=1, waiting=2)
