"""Runs the Python that a page exports, as a main module of its own in this process."""

import contextlib
import io
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from types import ModuleType
from unittest import mock

import pandas as pd
import pytest


def run(script: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Return the exit code and output of a script; `env`, if given, is all of its environment.

    The script has only the names that it imports. Starting Python anew for each of them would take
    seconds; test_readme.py does so once.
    """
    out, err, code = io.StringIO(), io.StringIO(), 0
    before = sys.modules["__main__"]
    environment = dict(os.environ if env is None else env)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
        stack.enter_context(mock.patch.object(sys, "argv", ["script.py"]))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        main = sys.modules["__main__"] = ModuleType("__main__")
        stack.callback(sys.modules.__setitem__, "__main__", before)
        try:
            exec(compile(script, "script.py", "exec"), main.__dict__)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        except Exception:
            traceback.print_exc()
            code = 1
    return subprocess.CompletedProcess(["script"], code, out.getvalue(), err.getvalue())


def assert_same(ours: pd.Series, shown: pd.Series) -> None:
    """Assert that two columns hold the same words, and numbers but for the order of their sums."""
    texts = (one.astype(object).where(one.notna(), "").astype(str) for one in (ours, shown))
    for text, other in zip(*texts, strict=True):
        if text != other:
            assert float(text) == pytest.approx(float(other), rel=1e-6, abs=1e-9), ours.name


def assert_prints(
    printed: str, shown: pd.DataFrame, titles: Mapping[str, str] | None = None
) -> None:
    """Assert that a printed CSV holds the rows of a page's table in all columns that both have."""
    ours = pd.read_csv(io.StringIO(printed)).rename(columns=titles or {})
    shared = [column for column in ours if column in shown]
    assert len(shared) >= 2
    assert len(ours) == len(shown)
    for column in shared:
        assert_same(ours[column], shown[column])
