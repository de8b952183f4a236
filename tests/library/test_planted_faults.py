"""Every planted fault can be planted: its file holds the text once, and its tests exist."""

import re

import pytest

from tests.mutants.__main__ import MUTANTS
from tests.mutants.runs import ROOT, Mutant, files_of


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
