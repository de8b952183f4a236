"""A copy of the packages, to which a scheme is added before anything of it is imported."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def copy_packages(folder: Path) -> Path:
    """Copy the packages and what tests are made with, but no test, and return the folder."""
    ignored = shutil.ignore_patterns("__pycache__", "artifacts", "test_*")
    for name in ("posenc", "dashboard", "tests", ".streamlit"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    return folder


def add_line(file: Path, after: str, line: str, imported: str) -> None:
    """Add a line after one that stands in a file once, and an import at its top."""
    text = file.read_text()
    assert text.count(after) == 1
    file.write_text(imported + text.replace(after, after + line))


def ran(folder: Path, *words: str) -> str:
    """What a process prints that knows the copy alone."""
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3_000:]
    return done.stdout
