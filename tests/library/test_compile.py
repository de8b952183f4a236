"""Compiled code equals eager code: starts compiled_code.py in a process without shape checks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(1_800)  # compiling on a busy machine takes its time
def test_compiled_code_equals_eager_code() -> None:
    tests = Path(__file__).with_name("compiled_code.py")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", tests, "-q", "-x", "-n", "0", "-p", "no:cacheprovider"],
        env=os.environ | {"POSENC_SHAPES": "0", "PYTEST_ADDOPTS": ""},
        cwd=tests.parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-2_000:]
    assert " passed" in ran.stdout
