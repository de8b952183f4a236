"""The queue that a page of the dashboard shows in a test."""

from pathlib import Path

import pytest
import streamlit as st

from dashboard import training, workers
from posenc.lab.estimate import Speed
from posenc.lab.queue import Queue


def page_queue(folder: Path, monkeypatch: pytest.MonkeyPatch, speed: Speed) -> Queue:
    """An own queue whose workers are never started, but where a test does so. speed: of this machine."""
    monkeypatch.setenv("POSENC_RUNS", str(folder / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(folder / "work"))
    monkeypatch.setattr(workers.Workers, "ensure", lambda self: None)
    monkeypatch.setattr(training, "speed", lambda: speed)
    st.cache_data.clear()
    st.cache_resource.clear()
    return Queue()
