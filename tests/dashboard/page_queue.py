"""The folder of jobs, the link and the visitors of the Train page in tests."""

from pathlib import Path

import pytest
import streamlit as st

from dashboard import cache, training_time
from dashboard.server import identity, jobs, training_process, training_worker
from posenc.lab.run_once import Speed

SPEED = Speed(layer=3e-3, multiplication=3e-9, evaluation=1e-9)
TRAIN_LINK = {
    "schemes": "rope,alibi", "run_length": "16", "steps": "5", "width": "16", "layers": "1",
    "run_heads": "2",
}  # fmt: skip


def page_jobs(folder: Path, monkeypatch: pytest.MonkeyPatch, speed: Speed) -> Path:
    """Return an empty folder of jobs that every page uses and no process. speed: of this machine."""
    monkeypatch.setenv("POSENC_RUNS", str(folder / "runs"))
    monkeypatch.setenv("POSENC_WORK", str(folder / "work"))
    monkeypatch.setattr(training_process.TrainingProcess, "start_if_needed", lambda self: None)
    monkeypatch.setattr(training_time, "speed", lambda: speed)
    empty_page_caches()
    return jobs.folder()


def empty_page_caches() -> None:
    """Let pages open jobs and store anew: one that stayed would be trained, or read, in later tests."""
    st.cache_data.clear()
    st.cache_resource.clear()
    cache.clear()


def train_waiting(place: Path) -> str:
    """Train the job that waits, in this process, and return its first run."""
    (job,) = jobs.jobs(place)
    training_worker.work(place)
    return job.specifications[0].run_id


class SharedServer:
    """A server that several people use: calling it sets who visits, "" for somebody unknown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        for variable, text in (
            ("POSENC_PROFILE", "shared"), ("POSENC_RUNNING", "1"), ("POSENC_WAITING", "4"),
            ("POSENC_USER_HEADER", "X-User"),
        ):  # fmt: skip
            monkeypatch.setenv(variable, text)

    def __call__(self, name: str) -> None:
        self.monkeypatch.setattr(identity.st, "user", {identity.KEY: name} if name else {})
