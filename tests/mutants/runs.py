"""Runs tests against copies of the code with one fault each, several at a time.

Each mutant is one replacement in a copy of the project in a temporary folder; its tests run there in a
process of their own, which is a fork of this one so that torch and Streamlit are imported once. Nothing
in the working tree is touched. The test that killed a mutant is remembered in tests/artifacts (which
git ignores) and runs first the next time.
"""

import compileall
import contextlib
import importlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("posenc", "tests", "dashboard")
KILLERS = ROOT / "tests" / "artifacts" / "killers.json"
PRELOADED = ("hypothesis", "mpmath", "torch", "pandas", "altair", "pyarrow", "streamlit.testing.v1")
SECONDS = 150  # a mutant whose tests take longer runs again at the end, alone and twice as long
# How long a test waits for another process: less than usual, or each mutant that hangs takes minutes.
PATIENCE = 100
QUICK = 20  # after these seconds tests probably wait for something, and another mutant may start
CORE = ("goldens", "laws", "attention")


class MutantError(Exception):
    """A mutant that cannot be run, or a test that fails without any."""


@dataclass(frozen=True)
class Mutant:
    """A fault: `old`, which occurs exactly once in `path`, becomes `new`; one of `tests` must fail.

    path: relative to posenc/, or to the project's root if it begins with dashboard/.
    tests: stems of test files (`attention` for tests/*/test_attention.py), or names of tests
    (`attention.py::test_name`, with every case, or `attention.py::test_name[case]`), or folders
    (`library/`).
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...] = CORE

    @property
    def file(self) -> Path:
        """The path of the file relative to the project's root."""
        return Path(self.path if self.path.startswith("dashboard/") else f"posenc/{self.path}")

    def mutated(self, root: Path) -> str:
        """Return the text of the file with the fault in it; MutantError if `old` is not there once."""
        text = (root / self.file).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise MutantError(
                f"{self.name}: {self.old!r} occurs {text.count(self.old)} times in {self.file}."
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Result:
    """The verdict on one mutant.

    killed: whether a test failed; None if the tests did not end. by: the test that failed first, or why
    they did not end.
    """

    mutant: Mutant
    killed: bool | None
    by: str
    seconds: float


def short_name(nodeid: str) -> str:
    """Return a test's name without its folder: attention.py::test_it."""
    return nodeid.split("/test_", 1)[-1]


def files_of(tests: Sequence[str]) -> list[str]:
    """Return the paths of the files, single tests or folders that `tests` names."""
    paths: dict[str, None] = {}
    for name in tests:
        if name.endswith("/"):
            paths[f"tests/{name}"] = None
            continue
        for path in sorted(Path("tests").glob(f"*/test_{name.split('.py')[0]}.py")):
            paths[str(path)] = None
    return list(paths)


class Selection:
    """A pytest plugin: runs the tests asked for and remembers which one failed first."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.single = {name for name in tests if "::" in name}
        self.whole = {name for name in tests if "::" not in name}
        self.folders = tuple(f"tests/{name}" for name in tests if name.endswith("/"))
        self.first_failure = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        names = [(item, short_name(item.nodeid)) for item in items]
        items[:] = [
            item
            for item, name in names
            if name in self.single
            or name.split("[")[0] in self.single
            or name.split(".py")[0] in self.whole
            or (self.folders and item.nodeid.startswith(self.folders))
        ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.first_failure:
            self.first_failure = short_name(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.first_failure:
            self.first_failure = short_name(report.nodeid).removesuffix(".py")


def _run_tests(folder: Path, attempts: Sequence[Sequence[str]], browser: bool, notes: Path) -> None:
    """In a process of its own: run tests in `folder` until one fails; write the outcome to `notes`."""
    with open(notes / "output", "w") as output, contextlib.redirect_stdout(output):
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        os.chdir(folder)
        os.environ |= {"POSENC_SHAPES": "0", "CI": "1", "POSENC_PATIENCE": str(PATIENCE)}
        sys.path.insert(0, str(folder))
        sys.dont_write_bytecode = True
        for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
            del sys.modules[name]
        marks = "not long" if browser else "not browser and not long"
        options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", marks]
        # Modules that are imported already are not rewritten.
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        failure, status = "", int(pytest.ExitCode.NO_TESTS_COLLECTED)
        for tests in attempts:
            files = files_of(tests)
            if not files:
                continue
            selection = Selection(tests)
            status = pytest.main([*files, *options], plugins=[selection])
            failure = selection.first_failure
            if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                break
        (notes / "answer").write_text(json.dumps([int(status), failure]), encoding="utf-8")


@dataclass
class _Run:
    """Tests in a process of its own, in a copy with a mutant in it, or in the plain copy."""

    attempts: Sequence[Sequence[str]]
    base: Path
    mutant: Mutant | None = None
    notes: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)
    begin: float = field(default_factory=time.perf_counter)

    def start(self) -> "_Run":
        self.folder = self.base
        if self.mutant is not None:
            self.folder = self.base.parent / Path(self.notes.name).name
            _copy_with(self.base, self.folder, self.mutant)
        browser = self.mutant is not None and self.mutant.path.endswith(".js")
        self.process = multiprocessing.get_context("fork").Process(
            target=_run_tests, args=(self.folder, self.attempts, browser, Path(self.notes.name))
        )
        self.process.start()
        return self

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begin

    def joined(self, seconds: float | None = None) -> tuple[bool | None, str]:
        """Wait for the end, at most so long; then as `finish`."""
        self.process.join(seconds)
        return self.finish()

    def finish(self) -> tuple[bool | None, str]:
        """Return whether a test failed, None if the tests have not ended, and which; remove the copy."""
        hung = self.process.is_alive()
        if hung:
            self.process.kill()
        self.process.join()
        answer = Path(self.notes.name) / "answer"
        if hung:
            outcome: tuple[bool | None, str] = None, f"took over {self.seconds:.0f} s"
        elif self.process.exitcode == 1 and not answer.exists():  # an exception of this file's
            raise MutantError(Path(self.notes.name, "output").read_text(encoding="utf-8")[-2_000:])
        elif not answer.exists():
            outcome = None, f"ended the process with {self.process.exitcode}"
        else:
            status, failure = json.loads(answer.read_text(encoding="utf-8"))
            if status not in (0, 1, 2):  # 5: no test of these names
                output = (Path(self.notes.name) / "output").read_text(encoding="utf-8")
                name = self.mutant.name if self.mutant else "without any mutant"
                raise MutantError(f"{name}: pytest ended with {status}\n{output[-2_000:]}")
            outcome = status in (1, 2), failure
        if self.mutant is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.notes.cleanup()
        return outcome


def _copy(folder: Path) -> None:
    """Copy every file of the project that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    compileall.compile_dir(folder, quiet=2)


def _copy_with(base: Path, folder: Path, mutant: Mutant) -> None:
    """Link the files of the plain copy and put the fault into one of them."""
    shutil.copytree(base, folder, copy_function=os.link)
    path, text = folder / mutant.file, mutant.mutated(base)
    path.unlink()
    path.write_text(text, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def run(mutants: Sequence[Mutant], jobs: int) -> Iterator[Result]:
    """Run the mutants, `jobs` at a time, and yield what became of each.

    At the end every test that killed a mutant runs once without it; MutantError if one of them fails.
    """
    for mutant in mutants:  # before anything runs
        mutant.mutated(ROOT)
    for name in PRELOADED:
        importlib.import_module(name)
    known = json.loads(KILLERS.read_text(encoding="utf-8")) if KILLERS.exists() else {}
    killers: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as parent:
        base = Path(parent) / "plain"
        _copy(base)
        waiting, running, undecided = list(mutants), list[_Run](), list[Mutant]()
        while waiting or running:
            busy = sum(one.seconds < QUICK for one in running)
            while waiting and busy < jobs and len(running) < 3 * jobs:
                mutant = waiting.pop(0)
                first = [(known[mutant.name],)] if mutant.name in known else []
                running.append(_Run([*first, mutant.tests], base, mutant).start())
                busy += 1
            wait([one.process.sentinel for one in running], timeout=1)
            for one in list(running):
                if one.process.is_alive() and one.seconds < SECONDS:
                    continue
                running.remove(one)
                killed, by = one.finish()
                assert one.mutant is not None
                if killed is None:
                    undecided.append(one.mutant)
                    continue
                if killed:
                    killers[one.mutant.name] = by
                yield Result(one.mutant, killed, by, one.seconds)
        for mutant in undecided:
            one = _Run([mutant.tests], base, mutant).start()
            killed, by = one.joined(2 * SECONDS)
            if killed:
                killers[mutant.name] = by
            yield Result(mutant, killed, by, one.seconds)
        if killers:
            failed, by = _Run([sorted(set(killers.values()))], base).start().joined()
            if failed:
                raise MutantError(f"{by} fails without any mutant.")
    KILLERS.parent.mkdir(exist_ok=True)
    KILLERS.write_text(json.dumps(known | killers, indent=1, sort_keys=True), encoding="utf-8")
