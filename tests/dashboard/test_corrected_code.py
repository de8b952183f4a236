"""Corrected code of Check my encoding: what it makes is the right table, by NumPy and the definition."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from dashboard.pages.check_my_encoding.corrected_code import (
    MENDED,
    RIGHT_ORDERS,
    RightTable,
    code,
    intended_table,
    off_by,
    right_table,
)
from dashboard.pages.check_my_encoding.examples import make
from posenc.identification import identify, match_model
from posenc.identification.columns import ARRANGEMENTS
from posenc.models.presets import MODELS
from posenc.schemes.sizes import Sizes
from tests.dashboard.independent_kernels import interleaved, waves
from tests.longer import mostly

# A search makes hundreds of thousands of calls; checking the shapes of each takes as long again.
pytestmark = pytest.mark.usefixtures("no_shape_checks")

ROWS, WIDTH = 64, 32
COS, SIN = waves(ROWS, WIDTH)
SIDE_BY_SIDE = interleaved(SIN, COS)


def angles(frequency: np.ndarray, positions: Any = None) -> np.ndarray:
    positions = np.arange(ROWS) if positions is None else positions
    return np.asarray(positions)[:, None] * frequency


def rates(exponents: np.ndarray, base: float = 1e4) -> np.ndarray:
    return base ** -np.asarray(exponents)


def side_by_side(turned: np.ndarray) -> np.ndarray:
    return interleaved(np.sin(turned), np.cos(turned))


def in_halves(turned: np.ndarray) -> np.ndarray:
    return np.concatenate((np.sin(turned), np.cos(turned)), 1)


M = np.arange(WIDTH // 2)
HALVES = np.concatenate((COS, COS), 1), np.concatenate((SIN, SIN), 1)
NEIGHBOURS = np.repeat(COS, 2, 1), np.repeat(SIN, 2, 1)
PACKED = angles(rates(2 * M / WIDTH), np.arange(ROWS) % 24)
# What is wrong: the kind of the deviation, the wrong table or cosines and sines, the right ones.
FAULTS: dict[str, tuple[str, Sequence[np.ndarray], Sequence[np.ndarray]]] = {
    "from position 1": ("start", [interleaved(*waves(ROWS, WIDTH, start=1)[::-1])], [SIDE_BY_SIDE]),
    "an odd width": (
        "start",
        [interleaved(*waves(ROWS, WIDTH, start=1)[::-1])[:, :-1]],
        [SIDE_BY_SIDE[:, :-1]],
    ),
    "packed documents": ("positions", [np.cos(PACKED), np.sin(PACKED)], [COS, SIN]),
    "exponent 2m/(d - 2)": (
        "exponent", [side_by_side(angles(rates(2 * M / (WIDTH - 2))))], [SIDE_BY_SIDE],
    ),
    "exponent 2(m + 1)/d": (
        "exponent", [side_by_side(angles(rates(2 * (M + 1) / WIDTH)))], [SIDE_BY_SIDE],
    ),
    "angles times 0.37": (
        "scale", [side_by_side(0.37 * angles(rates(2 * M / WIDTH)))], [SIDE_BY_SIDE],
    ),
    "negated sines": ("sign", [HALVES[0], -HALVES[1]], HALVES),
    "numbers times 7": ("size", [7 * SIDE_BY_SIDE], [SIDE_BY_SIDE]),
    "sines first": ("swapped", HALVES[::-1], HALVES),
    "sines in neighbours": ("wrong pairs", [HALVES[0], NEIGHBOURS[1]], HALVES),
    "cosines in neighbours": ("wrong pairs", [NEIGHBOURS[0], HALVES[1]], NEIGHBOURS),
    "a frequency for each column": (
        "wrong pairs",
        [interleaved(SIN, np.cos(angles(rates((2 * M + 1) / WIDTH))))],
        [SIDE_BY_SIDE],
    ),
    "Tensor2Tensor from position 2": (
        "start",
        [in_halves(angles(rates(M / 15), np.arange(2, ROWS + 2)))],
        [in_halves(angles(rates(M / 15)))],
    ),
    "linear scaling from position 3": (
        "start",
        [wave(angles(rates(2 * M / WIDTH), np.arange(3, ROWS + 3)) / 4) for wave in (np.cos, np.sin)],
        [wave(angles(rates(2 * M / WIDTH)) / 4) for wave in (np.cos, np.sin)],
    ),
}  # fmt: skip


def tensors(parts: Sequence[np.ndarray]) -> list[torch.Tensor]:
    return [torch.tensor(np.asarray(part), dtype=torch.float32) for part in parts]


def made_by(text: str) -> list[torch.Tensor]:
    """Run corrected code and return its table, or its cosines and sines."""
    names: dict[str, Any] = {}
    exec(text, names)
    return [names["table"]] if "table" in names else [names["cos"], names["sin"]]


def assert_makes(text: str, expected: Sequence[np.ndarray]) -> None:
    made = made_by(text)
    assert len(made) == len(expected)
    for table, right in zip(made, tensors(expected), strict=True):
        assert table.dtype == right.dtype
        torch.testing.assert_close(table, right, rtol=0, atol=1e-7)


# Searched long, or near another.
LATER = (
    "an odd width", "exponent 2(m + 1)/d", "cosines in neighbours", "linear scaling from position 3",
    "numbers times 7",
)  # fmt: skip


@pytest.mark.parametrize("fault", mostly(FAULTS, *(one for one in FAULTS if one not in LATER)))
def test_corrected_code_makes_the_right_table(fault: str) -> None:
    kind, wrong, expected = FAULTS[fault]
    found = identify(*tensors(wrong))
    assert kind in {each.kind for each in found.deviations}
    right = right_table(found, None)
    assert right is not None
    text = code(right)
    assert_makes(text, expected)
    assert MENDED[kind][1] in text
    off, given = off_by(right, *tensors(wrong)), np.concatenate(tensors(wrong), 1)
    gaps = np.abs(given - np.concatenate(expected, 1))
    assert off is not None
    assert off.largest == pytest.approx(gaps.max(), rel=1e-6)
    assert gaps[off.worst] == pytest.approx(gaps.max(), rel=1e-6)


def test_error_of_a_long_table_is_that_of_all_its_rows() -> None:
    """It is compared block by block. One number far below is wrong."""
    right = RightTable(5_000, 8, 8, "sc", "table", torch.float64, base=1e4)
    table = torch.tensor(interleaved(*waves(5_000, 8)[::-1]))
    table[4_321, 5] += 0.25
    off = off_by(right, table)
    assert off is not None
    assert off.largest == pytest.approx(0.25, abs=1e-9)
    assert off.worst == (4_321, 5)
    assert off_by(right, table[:, :6]) is None  # of another width


def test_every_order_with_a_fault_has_a_right_one() -> None:
    wrong = {each.order for each in ARRANGEMENTS if each.fault}
    assert {*RIGHT_ORDERS} == wrong
    faultless = {(each.form, each.order) for each in ARRANGEMENTS if not each.fault}
    assert all(
        (each.form, RIGHT_ORDERS[each.order]) in faultless for each in ARRANGEMENTS if each.fault
    )


def test_every_kind_that_is_mended_has_a_fault() -> None:
    assert {kind for kind, *_ in FAULTS.values()} | {"angles"} == {*MENDED}


def test_bfloat16_angles_become_exact() -> None:
    found = identify(*make("RoPE cache in bfloat16", Sizes(dim=64, heads=2, length=ROWS)))
    right = right_table(found, None)
    assert right is not None
    assert_makes(code(right), HALVES)


def test_right_table_and_one_without_a_formula_need_no_code() -> None:
    noise = np.random.default_rng(0).normal(size=(ROWS, WIDTH))
    padded = SIDE_BY_SIDE.copy()
    padded[1] = 0  # as fairseq's padding token has it: no mistake
    for table in (SIDE_BY_SIDE, noise, padded):
        assert right_table(identify(*tensors([table])), None) is None


@pytest.mark.parametrize("model", ["llama-3-8b", "llama-3.1-8b"])
def test_table_of_another_base_becomes_that_of_the_chosen_model(model: str) -> None:
    """With Llama 3.1 its scaling, whose frequencies are computed here by its definition."""
    scheme = MODELS[model].read().layer_kinds[0].scheme
    assert scheme is not None
    wrong = tensors([np.concatenate((part, part), 1) for part in waves(ROWS, 128)])
    found, match = identify(*wrong), match_model({"all": scheme}, *wrong)
    right = right_table(found, match)
    assert right is not None
    theta = rates(np.arange(64) / 64, 5e5)
    if model == "llama-3.1-8b":  # Grattafiori et al. 2024: factors 1, 4 and 8 on 8,192 tokens
        turns = 8_192 * theta / (2 * np.pi)
        share = np.clip((turns - 1) / (4 - 1), 0, 1)
        theta = theta * (share + (1 - share) / 8)
    turned = np.concatenate((angles(theta),) * 2, 1)
    assert_makes(code(right), [np.cos(turned), np.sin(turned)])


@pytest.mark.parametrize("example", ["exponent m/d", "swapped halves"])
def test_faultless_table_that_may_be_a_mistake_becomes_the_more_usual_one(example: str) -> None:
    found = identify(*make(example, Sizes(dim=WIDTH, heads=2, length=ROWS)))
    assert right_table(found, None) is None
    intended = intended_table(found)
    assert intended is not None
    right = SIDE_BY_SIDE if example == "exponent m/d" else np.concatenate((SIN, COS), 1)
    assert_makes(code(intended), [right])


@pytest.mark.parametrize(
    "example", ["sinusoidal", "RoPE cache", "tensor2tensor", "starts at 1", "random numbers"]
)
def test_usual_table_and_a_wrong_one_have_no_other_that_was_meant(example: str) -> None:
    assert intended_table(identify(*make(example, Sizes(dim=64, heads=2, length=ROWS)))) is None


def test_table_of_the_chosen_model_needs_no_code() -> None:
    scheme = MODELS["llama-3-8b"].read().layer_kinds[0].scheme
    assert scheme is not None
    own = tensors([np.concatenate((part, part), 1) for part in waves(ROWS, 128, 5e5)])
    assert right_table(identify(*own), match_model({"all": scheme}, *own)) is None
