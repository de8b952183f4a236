"""Compiled code equals eager code: starts tests/compiled_code.py, which no shape checks may watch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(1_800)  # compiling on a busy machine takes its time
@pytest.mark.parametrize("asked", ["not long", pytest.param("long", marks=pytest.mark.long)])
def test_compiled_code_equals_eager_code(asked: str) -> None:
    tests = Path(__file__).with_name("compiled_code.py")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", tests, "-q", "-x", "-n", "0", "-p", "no:cacheprovider",
         "-m", asked],
        env=os.environ | {"POSENC_SHAPES": "0", "PYTEST_ADDOPTS": ""},
        cwd=tests.parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-2_000:]
    assert " passed" in ran.stdout
