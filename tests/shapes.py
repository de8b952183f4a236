"""The type checker of the test run: beartype, which has no notion of Self on a plain method.

jaxtyping reads the arguments of every call twice and keeps a memo of the axes. A function that speaks of
no shape has no axes to remember: beartype alone checks its types, in a tenth of the time.
"""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Self, get_args

import jaxtyping
from beartype import BeartypeConf, FrozenDict, beartype

# A violation is a TypeError, as Python's own and jaxtyping's are: what reads files catches these.
checked = beartype(
    conf=BeartypeConf(
        hint_overrides=FrozenDict({Self: object}), is_pep484_tower=True, violation_type=TypeError
    )
)

with_axes = jaxtyping.jaxtyped


def speaks_of_shapes(hint: Any, names: dict[str, Any]) -> bool:
    """Whether an annotation, or one that it is made of, is an array with a shape.

    names: what the words of an annotation that is text stand for.
    """
    if isinstance(hint, str):
        words = re.findall(r"\w+", hint)
        return any(speaks_of_shapes(names[word], names) for word in words if word in names)
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    if getattr(hint, "__module__", "").startswith("jaxtyping"):  # Float, before it is given a shape
        return True
    parts = hint if isinstance(hint, list | tuple) else get_args(hint)
    return any(speaks_of_shapes(part, names) for part in parts)


def has_axes(function: Callable) -> bool:
    """Whether a function takes or returns anything with a shape."""
    hints = getattr(function, "__annotations__", {}).values()
    return any(speaks_of_shapes(hint, function.__globals__) for hint in hints)


def names_what_is_absent(function: Callable) -> bool:
    """Whether an annotation is text that may name what only a type checker imports."""
    hints = getattr(function, "__annotations__", {}).values()
    return "TYPE_CHECKING" in function.__globals__ and any(isinstance(one, str) for one in hints)


def types_alone(function: Callable) -> Callable:
    """Check a function's types at every call, unless jaxtyping's switch says not to."""
    strict = checked(function)
    if strict is function:  # nothing is annotated
        return function

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return (function if jaxtyping.config.jaxtyping_disable else strict)(*args, **kwargs)

    return run


def jaxtyped(*, typechecker: Callable) -> Callable:
    """Return the decorator that the import hook puts on every function and class."""

    def decorate(thing: Any) -> Any:
        if inspect.isfunction(thing) and not has_axes(thing) and not names_what_is_absent(thing):
            return types_alone(thing)
        if inspect.isclass(thing) and dataclasses.is_dataclass(thing):
            first = vars(thing).get("__init__")
            if inspect.isfunction(first) and not has_axes(first):
                thing.__init__ = types_alone(first)
                return thing
        return with_axes(thing, typechecker=typechecker)

    return decorate


def check_every_call(package: str) -> None:
    """Check all annotations of a package that is not yet imported, at every call."""
    jaxtyping.jaxtyped = jaxtyped  # the hook's decorators name it
    jaxtyping.install_import_hook(package, f"{__name__}.checked")
