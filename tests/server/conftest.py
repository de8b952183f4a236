"""Fixtures of the server tests: an empty result cache, and a server without settings of this machine."""

from pathlib import Path

import pytest
import streamlit as st

from dashboard import cache
from dashboard.server import training_process
from dashboard.server.settings import NAMES
from tests.dashboard.conftest import empty_result_cache, job_folder, own_main

__all__ = ["empty_result_cache", "job_folder", "own_main"]


@pytest.fixture
def isolated_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test an environment without server settings, folders of its own, and no worker."""
    for variable in NAMES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("POSENC_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(tmp_path / "work"))
    monkeypatch.setattr(training_process.TrainingProcess, "start_if_needed", lambda self: None)
    st.cache_data.clear()
    st.cache_resource.clear()
    cache.clear()
