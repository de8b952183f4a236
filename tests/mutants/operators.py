"""Faults made by rule in lines that a change touches: an operator exchanged, a condition turned round.

Beside the mutants that are written by hand, which know what the code means, these show whether the
tests look at a change at all.
"""

import ast
import itertools
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.mutants.runs import ROOT, Mutant

EXCHANGED = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+",
    "*": "/", "/": "*", "//": "*", "%": "*", "and": "or", "or": "and", "is": "is not",
    "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
Place = Callable[[int, int], int]  # from a line and a column to the index of a byte
OPERATOR = re.compile(r"<=|>=|==|!=|//|is\s+not|not\s+in|\b(?:and|or|is|in)\b|[<>+\-*/%]")
# Which tests see a file: the first prefix that fits.
LANES = (
    ("posenc/lab/", ("lab/",)),
    ("posenc/planner/", ("models/",)),
    ("posenc/models/", ("models/",)),
    ("posenc/cli/", ("lab/", "models/")),
    ("posenc/checkpoints/file_store.py", ("lab/",)),
    ("posenc/", ("library/",)),
    ("dashboard/", ("dashboard/", "server/")),
)


def changed_files(base: str) -> set[str]:
    """Return the paths of all files that differ from a commit."""
    command = ["git", "diff", "--name-only", base]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return set(text.splitlines())


def changed_lines(base: str) -> dict[Path, set[int]]:
    """Return the lines of posenc and dashboard that differ from a commit, by file."""
    command = ["git", "diff", "--unified=0", base, "--", "posenc", "dashboard"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines: dict[Path, set[int]] = {}
    path: Path | None = None
    for line in text.splitlines():
        if line.startswith("+++ "):
            name = line[4:].removeprefix("b/")
            path = Path(name) if name.endswith(".py") else None
        elif path and (found := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)):
            first, count = int(found[1]), int(found[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + count))
    return lines


def operator_mutants(base: str, count: int, seed: str) -> list[Mutant]:
    """Return at most `count` faults in lines that differ from the commit `base`, chosen by a seed."""
    found = [
        mutant
        for path, lines in sorted(changed_lines(base).items())
        if (ROOT / path).exists()
        for mutant in mutants_of(path, lines)
    ]
    return random.Random(seed).sample(found, min(count, len(found)))


def mutants_of(path: Path, lines: set[int]) -> Iterator[Mutant]:
    """Yield every fault of these kinds in these lines of a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    source = text.encode()
    tests = next(tests for prefix, tests in LANES if str(path).startswith(prefix))

    def place(line: int, column: int) -> int:
        return starts[line - 1] + column

    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.expr) or node.lineno not in lines:
            continue
        for begin, end, new in _replacements(node, source, place):
            old = source[begin:end].decode()
            # The whole text is what is replaced: a snippet alone need not be unique in its file.
            yield Mutant(
                f"{path}:{node.lineno} {old.strip()} -> {new.strip() or 'nothing'}",
                str(path) if str(path).startswith("dashboard/") else str(path)[len("posenc/") :],
                text,
                (source[:begin] + new.encode() + source[end:]).decode(),
                tests,
            )


def _replacements(node: ast.expr, source: bytes, place: Place) -> Iterator[tuple[int, int, str]]:
    match node:
        case ast.BinOp(left=left, right=right):
            pairs = [(left, right)]
        case ast.Compare(left=left, comparators=others):
            pairs = list(zip([left, *others], others, strict=False))
        case ast.BoolOp(values=values):
            pairs = list(itertools.pairwise(values))
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield place(node.lineno, node.col_offset), place(operand.lineno, operand.col_offset), ""
            return
        case ast.Constant(value=bool(value)):
            begin = place(node.lineno, node.col_offset)
            yield begin, begin + len(str(value)), str(not value)
            return
        case ast.Constant(value=int(value)):
            begin = place(node.lineno, node.col_offset)
            yield begin, place(node.end_lineno or 0, node.end_col_offset or 0), str(value + 1)
            return
        case _:
            return
    for left, right in pairs:
        begin = place(left.end_lineno or 0, left.end_col_offset or 0)
        end = place(right.lineno, right.col_offset)
        between = source[begin:end].decode()
        operator = OPERATOR.search(between)
        word = " ".join(operator[0].split()) if operator else ""
        if operator and word in EXCHANGED:
            at = begin + len(between[: operator.start()].encode())
            yield at, at + len(operator[0].encode()), EXCHANGED[word]
