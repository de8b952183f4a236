"""Runs scripts, each in a process of its own that has torch and posenc already.

A server without the test run's shape checks imports both once and forks itself for every script, so
that a script takes what it computes and not the seconds that importing torch does. What a script
does not import itself it does not have: it runs in an empty `__main__`.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
SECONDS = 240

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["posenc", "posenc.analysis", "posenc.lab"])


def run(script: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script in the repository's folder; `env`, if given, is all of its environment."""
    with tempfile.TemporaryDirectory() as folder:
        given = (script, folder, dict(os.environ if env is None else env))
        process = _context.Process(target=_main, args=given)
        process.start()
        process.join(SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        out, err = ((Path(folder) / name).read_text(encoding="utf-8") for name in ("out", "err"))
    assert process.exitcode is not None
    return subprocess.CompletedProcess(["script"], process.exitcode, out, err)


def _main(script: str, folder: str, env: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(ROOT)
    for number, name in ((1, "out"), (2, "err")):
        with open(Path(folder) / name, "wb") as file:
            os.dup2(file.fileno(), number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv = ["script.py"]
    main = sys.modules["__main__"] = ModuleType("__main__")
    try:
        exec(compile(script, "script.py", "exec"), main.__dict__)
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
