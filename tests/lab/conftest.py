"""Fixtures of the lab's tests: a place of the test's own for runs and work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.worker_processes import own_place


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the store of runs and the work in progress."""
    yield from own_place(tmp_path, monkeypatch)
