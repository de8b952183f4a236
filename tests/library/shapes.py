"""The type checker of the test run: jaxtyping for functions with shapes, beartype for all others.

jaxtyping reads the arguments of every call twice and records their axes. For a function without shapes
beartype alone checks the types, in a tenth of the time. (beartype does not know Self on a plain method.)
A function gets its checks when it is first called: to write those of all functions takes seconds.
"""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Self, get_args

import jaxtyping
from beartype import BeartypeConf, FrozenDict, beartype

# A violation is a TypeError, as those of Python and jaxtyping are: code that reads files catches these.
checked = beartype(
    conf=BeartypeConf(
        hint_overrides=FrozenDict({Self: object}), is_pep484_tower=True, violation_type=TypeError
    )
)

with_axes = jaxtyping.jaxtyped


def has_shape(hint: Any, names: dict[str, Any]) -> bool:
    """Whether an annotation, or one that it is made of, is an array with a shape.

    names: the objects that words in an annotation given as text stand for.
    """
    if isinstance(hint, str):
        words = re.findall(r"\w+", hint)
        return any(has_shape(names[word], names) for word in words if word in names)
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    if getattr(hint, "__module__", "").startswith("jaxtyping"):  # Float, before it is given a shape
        return True
    parts = hint if isinstance(hint, list | tuple) else get_args(hint)
    return any(has_shape(part, names) for part in parts)


def strict_form(function: Callable, typechecker: Callable) -> Callable:
    """Return the function with its types checked, and its shapes if it has any.

    A text that may name types which only a type checker imports is left to jaxtyping.
    """
    hints, names = function.__annotations__.values(), function.__globals__
    unknown = "TYPE_CHECKING" in names and any(isinstance(hint, str) for hint in hints)
    if unknown or any(has_shape(hint, names) for hint in hints):
        return with_axes(function, typechecker=typechecker)
    return checked(function)


def check_calls(function: Callable, typechecker: Callable) -> Callable:
    """Check a function at every call, unless jaxtyping's switch says not to."""
    if not function.__annotations__:
        return function
    strict: Callable | None = None

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        nonlocal strict
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        if strict is None:
            strict = strict_form(function, typechecker)
        return strict(*args, **kwargs)

    return run


def jaxtyped(*, typechecker: Callable) -> Callable:
    """Return the decorator that the import hook puts on every function and class."""

    def decorate(thing: Any) -> Any:
        if inspect.isfunction(thing):
            return check_calls(thing, typechecker)
        if inspect.isclass(thing) and dataclasses.is_dataclass(thing):
            first = vars(thing).get("__init__")
            if inspect.isfunction(first):
                type.__setattr__(thing, "__init__", check_calls(first, typechecker))
                return thing
        return with_axes(thing, typechecker=typechecker)

    return decorate


def check_every_call(package: str) -> None:
    """Check all annotations of a package that is not yet imported, at every call."""
    vars(jaxtyping).update(jaxtyped=jaxtyped)  # the decorators of the hook call it by this name
    jaxtyping.install_import_hook(package, f"{__name__}.checked")
