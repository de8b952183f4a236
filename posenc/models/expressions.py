"""Arithmetic over the keys of a config, as the data of a model type states it.

An expression such as "kv_lora_rank + qk_rope_head_dim" has numbers, texts, keys (with dots for keys
of nested objects), + - * / // % **, comparisons, `and`, `or`, `not`, `in`, `is`, `a if b else c`,
tuples, and calls of a few functions. It is checked and turned into closures once; Python runs no
part of its text.
"""

import ast
import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True)
class Scope:
    """Values of the names of an expression, and its functions.

    value: returns the value of a key. functions: by name, beside int, len, max and min.
    """

    value: Callable[[str], Any]
    functions: Mapping[str, Function]


@dataclass(frozen=True)
class Expression:
    """A checked expression. names: the keys that it reads. value: returns its value in a scope."""

    names: frozenset[str]
    value: Callable[[Scope], Any]


_OPERATORS: Mapping[type[ast.AST], Function] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda entry, entries: entry in entries,
}
_FUNCTIONS: Mapping[str, Function] = {"int": int, "len": len, "max": max, "min": min}
OF_A_STACK = ("given", "here", "of_scheme", "own", "per_head")  # functions that a scope gives
_CONSTANTS = (bool, int, float, str, type(None))


@functools.cache
def parsed(text: str) -> Expression:
    """Return a checked expression. Raises ValueError for anything else than the docstring lists."""
    body = ast.parse(text, mode="eval").body
    names: set[str] = set()
    return Expression(value=_closure(body, names), names=frozenset(names))


def _closure(node: ast.expr, names: set[str]) -> Callable[[Scope], Any]:
    """Return the value of a node as a function of the scope; add the keys that it reads to `names`."""
    match node:
        case ast.Constant(value=value) if isinstance(value, _CONSTANTS):
            return lambda scope: value
        case ast.Name() | ast.Attribute():
            name = _dotted(node)
            names.add(name)
            return lambda scope: scope.value(name)
        case ast.Tuple(elts=elements):
            entries = [_closure(element, names) for element in elements]
            return lambda scope: tuple(entry(scope) for entry in entries)
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _OPERATORS:
            apply, of = _OPERATORS[type(sign)], _closure(operand, names)
            return lambda scope: apply(of(scope))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _pair(left, sign, right, names)
        case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _OPERATORS:
            return _pair(left, sign, right, names)
        case ast.BoolOp(op=sign, values=values):
            return _chain(isinstance(sign, ast.Or), [_closure(each, names) for each in values])
        case ast.IfExp(test=test, body=body, orelse=other):
            condition = _closure(test, names)
            then, otherwise = _closure(body, names), _closure(other, names)
            return lambda scope: then(scope) if condition(scope) else otherwise(scope)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _call(name, arguments, names)
    raise ValueError(f"an expression of a config has no {type(node).__name__}: {ast.unparse(node)}")


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise ValueError(f"a key has a name of words and dots, not {ast.unparse(node)}")


def _pair(
    left: ast.expr, sign: ast.operator | ast.cmpop, right: ast.expr, names: set[str]
) -> Callable[[Scope], Any]:
    apply = _OPERATORS[type(sign)]
    first, second = _closure(left, names), _closure(right, names)
    return lambda scope: apply(first(scope), second(scope))


def _chain(is_or: bool, values: list[Callable[[Scope], Any]]) -> Callable[[Scope], Any]:
    *others, last = values

    def value(scope: Scope) -> Any:
        for each in others:
            result = each(scope)
            if bool(result) is is_or:
                return result
        return last(scope)

    return value


def _call(name: str, arguments: list[ast.expr], names: set[str]) -> Callable[[Scope], Any]:
    if name not in _FUNCTIONS and name not in OF_A_STACK:
        raise ValueError(f"an expression of a config has no function {name}")
    values = [_closure(argument, names) for argument in arguments]
    if name in _FUNCTIONS:
        function = _FUNCTIONS[name]
        return lambda scope: function(*(value(scope) for value in values))
    return lambda scope: scope.functions[name](*(value(scope) for value in values))
