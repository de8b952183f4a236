"""Proofs that claims print: every equation is true at random numbers, computed by mpmath."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from mpmath import mp, mpf

from posenc.claims import CLAIMS
from tests.library.latex_values import holds

PAIRS = 3
THETAS = [mpf(1), mpf("0.17"), mpf("0.0123")]


def rotation(angle: Any) -> Any:
    return mp.matrix([[mp.cos(angle), -mp.sin(angle)], [mp.sin(angle), mp.cos(angle)]])


def row(position: Any, thetas: Sequence[Any] = THETAS) -> Any:
    return mp.matrix([f(theta * position) for theta in thetas for f in (mp.sin, mp.cos)])


def moved(offset: Any, thetas: Sequence[Any] = THETAS) -> Any:
    """The matrix that turns the row of p into that of p + offset, written entry by entry."""
    matrix = mp.zeros(2 * len(thetas))
    for m, theta in enumerate(thetas):
        matrix[2 * m, 2 * m] = matrix[2 * m + 1, 2 * m + 1] = mp.cos(theta * offset)
        matrix[2 * m, 2 * m + 1] = mp.sin(theta * offset)
        matrix[2 * m + 1, 2 * m] = -mp.sin(theta * offset)
    return matrix


def values(draw: random.Random) -> dict[str, dict[str, Any]]:
    """Return random values of the names in each proof."""
    numbers = [mpf(draw.uniform(-9, 9)) for _ in range(8)]
    q, k = mp.matrix(numbers[:2]), mp.matrix(numbers[2:4])
    i, j = draw.sample(range(40), 2)
    angles = {r"\theta": numbers[4], r"\alpha": numbers[5], r"\beta": numbers[6]}
    positions = {"i": i, "j": j}
    return {
        "linear_map": {
            r"\theta": numbers[4], "p": i, "k": j, "M": lambda k: moved(k, [numbers[4]]),
            r"\alpha": numbers[4] * i, r"\beta": numbers[4] * j,
        },
        "offset_only": {"R": rotation, "q": q, "k": k} | angles | positions,
        "two_right": {
            "p": row, "M": moved, r"\theta": lambda m: THETAS[int(m)], "d": 2 * PAIRS, "pairs": PAIRS,
        } | positions,
        "bounded": {"x": numbers[7]},
        "one_hot": {"W": lambda n: numbers[int(n)]},
    }  # fmt: skip


def test_matrix_of_these_tests_moves_a_row_by_its_offset() -> None:
    assert mp.norm(moved(5) * row(3) - row(8)) < mpf(10) ** -30


@pytest.mark.parametrize("name", values(random.Random()))
def test_every_equation_of_a_proof_holds_at_random_numbers(name: str) -> None:
    proof = CLAIMS[name].proof
    assert proof is not None
    for seed in range(5):
        names = values(random.Random(seed))[name]
        # A line that begins with "=" goes on with the equation before it.
        lines = "\n".join(proof.lines).replace("\n=", " =").replace(r", \quad ", "\n")
        equations = lines.splitlines()
        found = [holds(line, names) for line in equations]
        assert all(found)
        assert all(map(all, found)), (name, found)
