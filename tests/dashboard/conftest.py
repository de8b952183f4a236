"""Fixtures of page tests: an empty result cache, the main module restored, a fixed training speed."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard import cache, runs, training_time, visitor_files
from dashboard.visitor_files import UploadCache
from posenc.checkpoints import PositionTable
from posenc.lab import Store
from posenc.lab.run_once import Speed
from tests.dashboard.page_queue import SPEED, empty_page_caches, page_jobs

_MAIN = sys.modules["__main__"]


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """Restore the main module: Streamlit replaces it, and processes that later tests start would run
    that page again.
    """
    yield
    sys.modules["__main__"] = _MAIN


@pytest.fixture(autouse=True)
def empty_result_cache() -> None:
    """Empty the result cache: a test may have changed what pages are read from."""
    cache.RESULTS.clear()


@pytest.fixture
def fixed_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the Train page the seconds in which it times this machine."""
    monkeypatch.setattr(training_time, "speed", lambda: Speed(3e-3, 3e-9, 1e-9))


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that several people use, and to which they may give files."""
    monkeypatch.setenv("POSENC_PROFILE", "shared")
    monkeypatch.setenv("POSENC_UPLOADS", "1")


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> UploadCache[PositionTable]:
    """The cache of uploaded tables, empty."""
    monkeypatch.setattr(visitor_files.cached_tables, "_entries", {})
    return visitor_files.cached_tables


@pytest.fixture
def job_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder of jobs, which every page uses and no process works on."""
    yield page_jobs(tmp_path, monkeypatch, SPEED)
    empty_page_caches()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store of this test alone, and nothing that ships."""
    monkeypatch.setattr(runs, "SHIPPED", str(tmp_path / "shipped"))
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "own"))
    empty_page_caches()
    yield Store(tmp_path / "own")
    empty_page_caches()
