"""Which laws are not run for which scheme: what is written in tests/exempt.py, and nothing more."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from posenc import Scheme
from tests import test_laws
from tests.conftest import SMALL_CONFIGS, small_scheme
from tests.exempt import EXEMPT, LEFT_OUT

LAWS = {name: law for name, law in vars(test_laws).items() if name.startswith("test_")}
# What is asked of fewer schemes inside these: a shift that a table has, and that anything was rounded.
CONDITIONAL = {
    "test_a_stationary_scheme_is_shift_invariant",
    "test_a_rounded_kernel_differs_by_no_more_than_the_rounding",
}


def test_laws_are_left_out_for_the_schemes_that_are_written_down_and_no_others() -> None:
    written: dict[str, set[str]] = {}
    for one in LEFT_OUT:
        about = {variant for variant in SMALL_CONFIGS if one.about(variant)}
        assert about, one
        for laws, left_out in ((one.laws, about), (one.instead, {*SMALL_CONFIGS} - about)):
            for law in laws:
                assert law not in written, f"{law} is written down twice"
                written[law] = left_out
    schemes = {variant: small_scheme(variant) for variant in SMALL_CONFIGS}
    found = {}
    for name, law in LAWS.items():
        marks: list[pytest.Mark] = getattr(law, "pytestmark", [])
        wheres: list[Callable[[Scheme], bool]] = [
            mark.kwargs["where"] for mark in marks if mark.name == "only"
        ]
        left_out = {
            variant
            for variant, scheme in schemes.items()
            if not all(where(scheme) for where in wheres)
        }
        if left_out:
            found[name] = left_out
    assert found == written


def test_no_law_is_ended_early() -> None:
    """So that what is collected is run: a law that does not apply says so by its mark."""
    conditional = set()
    for name, law in LAWS.items():
        (function,) = ast.parse(inspect.getsource(law)).body
        assert isinstance(function, ast.FunctionDef)
        for node in (one for line in function.body for one in (line, *own(line))):
            assert not isinstance(node, ast.Return | ast.Try | ast.Match), name
            word = getattr(node, "attr", getattr(node, "id", ""))
            assert word not in ("suppress", "skip", "xfail", "importorskip"), name
            if isinstance(node, ast.If) and not node.orelse:
                conditional.add(name)
    assert conditional == CONDITIONAL


def own(node: ast.AST) -> Iterator[ast.AST]:
    """What a statement consists of, but for the functions that it defines."""
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        return
    for child in ast.iter_child_nodes(node):
        yield child
        yield from own(child)


def test_every_exemption_is_of_a_law_that_there_is() -> None:
    """An entry of no law would never fail to fail."""
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for one in EXEMPT:
        names = re.findall(r"test_\w+", one.law)
        assert names, one
        for name in names:
            assert f"def {name}(" in text, name
