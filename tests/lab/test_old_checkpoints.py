"""Checkpoints that nobody needs are removed after a while; others stay."""

import os
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from posenc.checkpoints.file_store import work_folder
from posenc.lab.run_once import CHECKPOINTS, remove_old_checkpoints

DAY = 86_400.0
HALF = "0" * 32  # ends the name of a file that is being written


@pytest.fixture(autouse=True)
def checkpoints(folder: Path) -> Path:
    (place := work_folder() / CHECKPOINTS).mkdir(parents=True)
    return place


def aged(name: str, days: float) -> Path:
    path, then = work_folder() / CHECKPOINTS / name, time.time() - days * DAY
    path.touch()
    os.utime(path, (then, then))
    return path


def test_old_files_are_removed_and_young_held_or_foreign_ones_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = [aged("a.safetensors", 31), aged("b.lock", 31), aged(f".c.safetensors.{HALF}", 31)]
    kept = [
        aged("e.safetensors", 29),
        aged("e.lock", 29),  # of a checkpoint that is there
        aged("f.lock", 29),
        aged(f".g.safetensors.{HALF}", 29),
        aged("notes.txt", 99),
        aged(".hidden", 99),
        aged("needed.safetensors", 99),
    ]
    in_use, lock = aged("h.safetensors", 99), aged("h.lock", 99)
    with FileLock(lock):
        remove_old_checkpoints(["needed"])
        assert [path for path in old if path.exists()] == []
        assert [path for path in [*kept, in_use, lock] if not path.exists()] == []
    remove_old_checkpoints(["needed"])
    assert not in_use.exists()
    module = sys.modules[
        remove_old_checkpoints.__module__
    ]  # the package has a function of its name
    monkeypatch.setattr(module, "_MOST_CHECKPOINTS", 3)
    paths = [aged(f"{n}.safetensors", n) for n in range(1, 6)]
    remove_old_checkpoints(["needed"])
    assert [path.exists() for path in paths] == [True, True, True, False, False]


def test_link_to_nowhere_is_passed_over(checkpoints: Path) -> None:
    (checkpoints / "gone.safetensors").symlink_to("nowhere")
    remove_old_checkpoints([])
