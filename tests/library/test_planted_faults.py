"""Every planted fault can be planted: its file holds the text once, and its tests exist."""

import re
import subprocess
import sys

import pytest

from tests.mutants.__main__ import MUTANTS
from tests.mutants.runs import ROOT, Mutant, files_of, short_name


@pytest.mark.parametrize("mutant", MUTANTS, ids=[one.name for one in MUTANTS])
def test_planted_fault_has_its_place_and_its_tests(mutant: Mutant) -> None:
    assert mutant.mutated(ROOT) != (ROOT / mutant.file).read_text(encoding="utf-8")
    for name in mutant.tests:
        paths = files_of([name])
        assert paths, name
        assert all((ROOT / path).exists() for path in paths)
        if "::" in name:
            function = re.match(r"\w+", name.split("::")[1])
            assert function is not None
            texts = [(ROOT / path).read_text(encoding="utf-8") for path in paths]
            assert any(f"def {function[0]}(" in text for text in texts), name


@pytest.mark.long  # collects a third of the suite in a process of its own
def test_every_test_that_shall_find_a_fault_is_run() -> None:
    """A misspelled case, or one of the longer proofs, would not be run: the fault would have no test."""
    wanted = {name for mutant in MUTANTS for name in mutant.tests if "::" in name}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-m", "not long"]
    listed = subprocess.run(
        [*command, *files_of(sorted(wanted))], cwd=ROOT, capture_output=True, text=True, check=True
    )
    collected = {short_name(line) for line in listed.stdout.splitlines() if "::" in line}
    collected |= {name.split("[")[0] for name in collected}
    assert not wanted - collected
