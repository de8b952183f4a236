"""How the package with a deliberate fault in it is tested: quickly, many of them, nothing left behind.

Each mutant is one replacement in a copy of the package in a temporary folder. The test that killed it
when last recorded (tests/killers.txt) runs there first; if that passes or is gone, all its tests do,
until one fails. A failure counts if the same test passes without the mutant, and only then. Nothing in
the working tree is touched; what the plain tests compile and import is there for all that follow.
"""

import argparse
import contextlib
import importlib
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

# Loaded once here, so that each mutant's process, a fork of this one, has them already.
import hypothesis  # noqa: F401
import mpmath  # noqa: F401
import pytest
import torch

ROOT = Path(__file__).parents[1]
OURS = ("posenc", "tests", "dashboard")
SECONDS = 150  # a mutant that hangs is as good as caught
QUICK = 20  # who takes longer waits for something, as a rule: others may begin beside it
# Seconds that a test waits for another process, instead of minutes: half as long without a mutant, so
# that a busy machine is told from a fault.
PATIENCE = 100
KILLERS = ROOT / "tests" / "killers.txt"
CORE = ("goldens", "laws", "attention")


@dataclass(frozen=True)
class Mutant:
    """A fault: `old`, found exactly once in posenc/`path`, becomes `new`; `tests` must notice."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...] = CORE


def copied(folder: Path) -> None:
    """Copy the library, the dashboard, their tests and settings."""
    folder.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "artifacts")
    for name in ("posenc", "dashboard", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)


class Watched:
    """A pytest plugin: which tests of the files given are run, which passed, what failed first."""

    def __init__(self) -> None:
        self.wanted: Sequence[str] = ()
        self.first = ""
        self.passed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        whole = {name for name in self.wanted if "::" not in name}
        names = [(item, item.nodeid.removeprefix("tests/test_")) for item in items]
        items[:] = [
            item for item, name in names if name in self.wanted or name.split(".py")[0] in whole
        ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.removeprefix("tests/test_")
        if report.failed and not self.first:
            self.first = name
        elif report.passed and report.when == "call":
            self.passed.append(name)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.first:
            self.first = f"{report.nodeid} cannot be read"


def linked(base: Path, folder: Path, mutant: Mutant) -> None:
    """Link the files of a copy, with what was compiled there, and put the fault into one of them."""
    shutil.copytree(base, folder, copy_function=os.link)
    path = folder / "posenc" / mutant.path
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: the source has changed meanwhile")
    path.unlink()
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def recorded() -> dict[str, str]:
    """Return which test killed each mutant when that was last recorded, by the mutant's name."""
    lines = KILLERS.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t", 1) for line in lines)


def files_of(tests: Sequence[str]) -> list[str]:
    """Return the files of tests, which are files themselves or single ones of them."""
    return list(dict.fromkeys(f"tests/test_{name.split('.py')[0]}.py" for name in tests))


def run_tests(folder: Path, attempts: Sequence[Sequence[str]], notes: Path, compiles: bool) -> None:
    """In a process of its own: test the package in `folder`; leave the outcome, what was printed and
    which modules were imported in `notes`.

    attempts: tests that run together; the next ones run if nothing failed. Tests that are gone pass.
    """
    notes.mkdir()
    with open(notes / "output", "w") as output, contextlib.redirect_stdout(output):
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        os.chdir(folder)
        patience = PATIENCE // 2 if compiles else PATIENCE
        os.environ |= {"POSENC_SHAPES": "0", "CI": "1", "POSENC_PATIENCE": str(patience)}
        sys.path.insert(0, str(folder))
        sys.dont_write_bytecode = not compiles
        for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
            del sys.modules[name]
        options = [
            "-x",
            "-q",
            "-n",
            "0",
            "-m",
            "not browser and not long",
            "-p",
            "no:cacheprovider",
        ]
        watched, status = Watched(), 0
        for watched.wanted in attempts:
            status = pytest.main([*files_of(watched.wanted), *options], plugins=[watched])
            if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                break
        imported = getattr(sys.modules.get("posenc"), "__file__", None) or str(folder / "posenc")
        if not Path(imported).resolve().is_relative_to(folder.resolve()) or status not in (
            0,
            1,
            2,
            5,
        ):
            watched.first, status = f"cannot be tested, pytest says {int(status)}", 9
    others = [name for name in sys.modules if name.split(".")[0] not in OURS]
    (notes / "modules").write_text("\n".join(others), encoding="utf-8")
    (notes / "passed").write_text("\n".join(watched.passed), encoding="utf-8")
    (notes / "answer").write_text(f"{int(status)} {watched.first}", encoding="utf-8")


@dataclass
class Run:
    """Tests in a process of its own, of the plain copy or of one with a mutant in it."""

    attempts: Sequence[Sequence[str]]
    base: Path
    mutant: Mutant | None = None
    own: tempfile.TemporaryDirectory = field(default_factory=tempfile.TemporaryDirectory)
    begin: float = field(default_factory=time.perf_counter)

    @property
    def notes(self) -> Path:
        """The folder of what it found."""
        return Path(self.own.name) / "notes"

    def start(self) -> "Run":
        """Make the copy, if it is for a mutant, and start the tests."""
        folder = self.base
        if self.mutant is not None:
            folder = self.base.parent / Path(self.own.name).name
            linked(self.base, folder, self.mutant)
        given = (folder, self.attempts, self.notes, self.mutant is None)
        self.folder = folder
        self.process = multiprocessing.get_context("fork").Process(target=run_tests, args=given)
        self.process.start()
        return self

    def outcome(self) -> tuple[bool, str]:
        """Return whether all tests passed, and what failed first."""
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
            return False, f"took over {SECONDS} s"
        if not (self.notes / "answer").exists():
            return False, f"ended the process with {self.process.exitcode}"
        status, name = (self.notes / "answer").read_text(encoding="utf-8").split(" ", 1)
        if status == "9":
            raise SystemExit(f"{self.mutant}: {name}")
        return status in "05", name  # 5: none of the tests is there any more

    def tidy(self) -> None:
        """Remove the mutant's copy and what was noted."""
        if self.mutant is not None:
            shutil.rmtree(self.folder)
        self.own.cleanup()

    def modules(self) -> list[str]:
        """Which modules other than the copy's own the tests have imported."""
        return (self.notes / "modules").read_text(encoding="utf-8").splitlines()


def outcomes(
    mutants: list[Mutant], base: Path, jobs: int, killers: dict[str, str]
) -> Iterator[tuple[Mutant, bool, str, float]]:
    """Run all, `jobs` at a time; yield each with whether it was killed, by what, in what time."""
    # First those that may hang, as those do that no single test was seen to kill: others are run meanwhile.
    waiting = sorted(mutants, key=lambda one: one.name in killers and "lab_worker" not in one.tests)
    running: list[Run] = []
    while waiting or running:
        now = time.perf_counter()
        while (
            waiting
            and len(running) < 3 * jobs
            and jobs > sum(now - run.begin < QUICK for run in running)
        ):
            mutant = waiting.pop(0)
            known = [(killers[mutant.name],)] if mutant.name in killers else []
            running.append(Run([*known, mutant.tests], base, mutant).start())
        wait([run.process.sentinel for run in running], timeout=1)
        for run in list(running):
            seconds = time.perf_counter() - run.begin
            if run.process.is_alive() and seconds < SECONDS:
                continue
            running.remove(run)
            passed, by = run.outcome()
            run.tidy()
            yield run.mutant, not passed, by, seconds


def passed_plain(base: Path, tests: Sequence[str]) -> set[str]:
    """Run tests without any mutant; return which there are, all of them passing.

    What they have imported is imported here as well, for all forks.
    """
    passed: set[str] = set()
    halves = [Run([part], base).start() for part in (tests[::2], tests[1::2]) if part]
    for plain in halves:
        plain.process.join(4 * SECONDS)
        fine, by = plain.outcome()
        if not fine:
            raise SystemExit(f"the tests fail without any mutant: {by}")
        passed |= {*(plain.notes / "passed").read_text(encoding="utf-8").splitlines()}
        for name in plain.modules():
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        plain.tidy()
    return passed


def main(mutants: Sequence[Mutant], said: str) -> int:
    """Run the mutants asked for and return the exit status; `said` is the command's description."""
    parser = argparse.ArgumentParser(description=said)
    parser.add_argument(
        "words", nargs="*", help="run only mutants whose name contains one of these"
    )
    parser.add_argument("--list", action="store_true", help="name the mutants and stop")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1)
    parser.add_argument("--record", action="store_true", help="write down what killed which")
    asked = parser.parse_args()
    chosen = [m for m in mutants if not asked.words or any(word in m.name for word in asked.words)]
    if asked.list:
        for mutant in chosen:
            print(f"{mutant.path:<28}{mutant.name}")
        return 0
    for mutant in chosen:  # before anything is run
        found = (ROOT / "posenc" / mutant.path).read_text(encoding="utf-8").count(mutant.old)
        if found != 1:
            raise SystemExit(f"{mutant.name}: {mutant.old!r} found {found} times in {mutant.path}")
    torch.set_num_threads(1)
    killers = recorded()
    known = sorted({killers[mutant.name] for mutant in chosen if mutant.name in killers})
    survived, found = 0, {}
    with tempfile.TemporaryDirectory() as place:
        base = Path(place) / "plain"
        copied(base)
        plain = passed_plain(base, known)
        for mutant, killed, by, seconds in outcomes(chosen, base, asked.jobs, killers):
            survived += not killed
            verdict = "killed" if killed else "SURVIVED"
            print(f"{verdict:<9}{seconds:5.1f} s  {mutant.name}  {by}", flush=True)
            if killed and ".py::" in by:
                found[mutant.name] = by
        others = sorted({*found.values()} - plain)
        if others and not passed_plain(base, others) >= {*others}:
            raise SystemExit("a test that killed a mutant does not pass without it")
    print(f"{len(chosen) - survived} of {len(chosen)} killed")
    if asked.record:
        names = {mutant.name for mutant in mutants}
        lines = sorted((killers | found).items())
        text = "".join(f"{name}\t{by}\n" for name, by in lines if name in names)
        KILLERS.write_text(text, encoding="utf-8")
    elif found.items() - killers.items():
        print("Not all were killed by the test that is recorded; --record writes down which did.")
    return 1 if survived else 0
