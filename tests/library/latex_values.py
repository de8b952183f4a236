"""Values of equations in LaTeX, as mpmath computes them: of the formulas that proofs are printed in.

Nothing here imports posenc. A name stands for a number, a matrix, or a function of its subscript.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from mpmath import mp

mp.dps = 40
TOKEN = re.compile(r"\\[a-zA-Z]+|\\\\|[0-9]+|[^\s]")
RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: mp.norm(left - right) < mp.mpf(10) ** -30,
    r"\le": lambda left, right: bool(left <= right),
}


def holds(equations: str, names: Mapping[str, Any]) -> list[bool]:
    """Whether each sign of relation in a chain of equations is true for these values of its names."""
    reader = Reader(TOKEN.findall(equations), dict(names))
    left, found = reader.expression(), []
    while reader.tokens[reader.at :]:
        relation = RELATIONS[reader.take()]
        right = reader.expression()
        found.append(relation(left, right))
        left = right
    return found


class Reader:
    def __init__(self, tokens: list[str], names: dict[str, Any]) -> None:
        self.tokens, self.names, self.at = tokens, names, 0

    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *expected: str) -> str:
        token = self.next()
        assert not expected or token in expected, (expected, token)
        self.at += 1
        return token

    def expression(self) -> Any:
        """A sum of dot products of products."""
        negative = self.next() == "-" and self.take()
        total = self.dots()
        total = -total if negative else total
        while self.next() in ("+", "-"):
            sign = 1 if self.take() == "+" else -1
            total += sign * self.dots()
        return total

    def dots(self) -> Any:
        value = self.product()
        while self.next() == r"\cdot":
            self.take()
            value = (value.T * self.product())[0, 0]
        return value

    def product(self) -> Any:
        value = self.factor()
        while self.next() in ("(", r"\sin", r"\cos", r"\begin") or self.is_name():
            value *= self.factor()
        return value

    def is_name(self) -> bool:
        return self.next() in self.names or self.next().isdigit()

    def factor(self) -> Any:
        value = self.atom()
        while self.next() in ("_", "^"):
            if self.take() == "_":
                value = value(self.script())
            elif self.next() == r"\top":
                self.take()
                value = value.T
            else:
                value = value ** self.script()
        return value[0, 0] if isinstance(value, mp.matrix) and len(value) == 1 else value

    def script(self) -> Any:
        if self.next() != "{":
            return self.atom()
        self.take("{")
        value = self.expression()
        self.take("}")
        return value

    def atom(self) -> Any:
        token = self.take()
        if token == "(":
            value = self.expression()
            self.take(")")
            return value
        if token in (r"\sin", r"\cos"):
            return getattr(mp, token[1:])(self.factor())
        if token == r"\frac":
            return self.script() / self.script()
        if token == r"\sum":
            return self.sum()
        if token == r"\begin":
            return self.matrix()
        return mp.mpf(token) if token.isdigit() else self.names[token]

    def sum(self) -> Any:
        """The sum of what follows over an index from 0 to the number of pairs less one."""
        self.take("_")
        index, start, total = self.take(), self.at, mp.mpf(0)
        for number in range(self.names["pairs"]):
            self.at, self.names[index] = start, number
            total += self.product()
        del self.names[index]
        return total

    def matrix(self) -> Any:
        for token in "{pmatrix}":
            self.take(token)
        rows: list[list[Any]] = [[]]
        while True:
            rows[-1].append(self.expression())
            end = self.take("&", r"\\", r"\end")
            if end == r"\end":
                break
            if end == r"\\":
                rows.append([])
        for token in "{pmatrix}":
            self.take(token)
        return mp.matrix(rows)
