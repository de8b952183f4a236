"""The checks of the test run itself: every shape and every type of the library, at every call."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Self

import jaxtyping
import pytest
import torch

import posenc
from posenc import Setting, apply_rope, attention, limits
from posenc.rows import rotary_rows
from tests.shapes import has_axes

SHAPED = re.compile(r"\b(?:Float|Int|Bool|Complex|Num|Shaped|Inexact|Real)\[|\bPositions\b")


def functions() -> Iterator[tuple[FunctionType, FunctionType]]:
    """Every function and method of the library: as it is called, and as it is written."""
    for module in pkgutil.walk_packages(posenc.__path__, "posenc."):
        if module.name.endswith("__main__"):
            continue
        found = importlib.import_module(module.name)
        for owner in (found, *(value for value in vars(found).values() if inspect.isclass(value))):
            for value in vars(owner).values():
                called = getattr(value, "fget", None) or getattr(value, "__func__", value)
                written = inspect.unwrap(called) if callable(called) else None
                if inspect.isfunction(written) and written.__module__ == module.name:
                    yield called, written


def head(written: FunctionType) -> str:
    """A function's arguments and result as its author wrote them; of a dataclass its fields' hints."""
    if written.__code__.co_filename == "<string>":
        return " ".join(map(str, written.__annotations__.values()))
    return inspect.getsource(written).split('"""')[0].split(":\n")[0]


def test_every_function_that_speaks_of_shapes_is_held_to_them() -> None:
    seen = 0
    for called, written in functions():
        if not SHAPED.search(head(written)):
            continue
        seen += 1
        assert has_axes(written), written.__qualname__
        layer: Any = called
        while getattr(layer, "__globals__", {}).get("__name__") != "jaxtyping._decorator":
            layer = getattr(layer, "__wrapped__", None)
            assert layer is not None, f"{written.__qualname__} is not checked"
    assert seen > 150


def test_every_other_function_is_held_to_its_types() -> None:
    says_nothing = (Any, object, Self, "Any", "object", "Self", inspect.Parameter.empty)
    unchecked = {
        written.__qualname__
        for called, written in functions()
        if called is written
        and any(hint not in says_nothing for hint in written.__annotations__.values())
    }
    assert unchecked == set()


def test_a_wrong_shape_and_a_wrong_type_are_refused() -> None:
    x, row = torch.zeros(1, 2, 3, 4), torch.zeros(3, 2)
    apply_rope(x, row, row, layout="half")
    with pytest.raises(jaxtyping.TypeCheckError, match="sin"):
        apply_rope(x, row, torch.zeros(3, 3), layout="half")  # another number of pairs
    with pytest.raises(jaxtyping.TypeCheckError):
        attention(x, x, x[0], Setting().config("none").build())
    with pytest.raises(jaxtyping.TypeCheckError):
        rotary_rows(torch.zeros(3), None, dtype=torch.float64, device="cpu", scale=1.0)
    with pytest.raises(TypeError, match="'8'"):
        limits.check_count("heads", "8", 1, 9)
    with pytest.raises(TypeError, match="3"):
        Setting().config(3)
