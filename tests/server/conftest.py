"""Fixtures of the server tests: an empty result cache, and a server without settings of this machine."""

from pathlib import Path

import pytest
import streamlit as st

from dashboard import cache
from dashboard.server import workers
from dashboard.server.settings import NAMES
from tests.dashboard.conftest import empty_result_cache, own_main, queue

__all__ = ["empty_result_cache", "own_main", "queue"]


@pytest.fixture
def isolated_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test an environment without server settings, folders of its own, and no worker."""
    for variable in NAMES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    monkeypatch.setattr(workers.Workers, "start_if_needed", lambda self: None)
    st.cache_data.clear()
    st.cache_resource.clear()
    cache.clear()
