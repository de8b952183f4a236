"""Held to what tests/stand_ins.py says: a variant that is left out runs the code of its stand-in."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc import Scheme, attention
from posenc.schemes.rope import Rope
from tests.conftest import SMALL, SMALL_CONFIGS, small_scheme
from tests.stand_ins import GRID, LADDER, OF_GRIDS, OF_LADDERS, STAND_INS

DIM, HEADS, WIDTH = SMALL.dim, SMALL.heads, SMALL.head_dim
PLACES = {
    "none": None,
    "window": torch.arange(9) + 100,
    "per entry": torch.tensor([[4, 2, 2, 9, 0, 1, 8, 7, 3]] * 2),
    "far": torch.arange(9) + 2**30,
}


def random(*shape: int, seed: int = 0, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def answers(scheme: Scheme, dtype: torch.dtype, positions: Tensor | None) -> dict[str, Tensor]:
    """What every hook and the attention function give."""
    x, q = random(2, 9, DIM, dtype=dtype), random(2, HEADS, 9, WIDTH, dtype=dtype, seed=1)
    k = q.flip(-1)
    turned_q, turned_k = scheme.rotate(q, k, positions, positions)
    alone, _ = scheme.rotate(q[:, :, :1], k, None, positions)
    mixed = attention(q, k, q, scheme, q_positions=positions, k_positions=positions)
    found = {"embed": scheme.embed(x, positions), "q": turned_q, "k": turned_k}
    assert scheme.bias(q, k, positions, positions) is None
    return found | {"one query": alone, "mixed": mixed}


def numbers_of(variant: str) -> frozenset[str]:
    """Which attributes of a variant may differ from its stand-in's."""
    return GRID if variant in OF_GRIDS else LADDER


def differing(scheme: Scheme, other: Scheme) -> set[str]:
    """The attributes that two modules of one class do not have alike."""
    mine, theirs = vars(scheme), vars(other)
    assert mine.keys() == theirs.keys()
    return {name for name in mine if mine[name] is not theirs[name] and mine[name] != theirs[name]}


def runs_the_code_of(scheme: Scheme, other: Scheme, numbers: frozenset[str]) -> bool:
    """Whether two schemes have one class, no tensors of their own, and differ in `numbers` alone."""
    if type(scheme) is not type(other) or scheme.state_dict() or other.state_dict():
        return False
    return differing(scheme, other) <= numbers


def test_who_is_left_out_is_a_variant_and_who_stands_in_is_run() -> None:
    assert STAND_INS.keys() <= SMALL_CONFIGS.keys()
    assert set(STAND_INS.values()) <= SMALL_CONFIGS.keys() - STAND_INS.keys()
    assert STAND_INS == OF_LADDERS | OF_GRIDS


def test_the_stand_in_of_ladders_has_all_that_plain_rope_has_not() -> None:
    """A ladder given number by number, and an attention factor."""
    plain, scaled = small_scheme("rope"), small_scheme("rope_yarn")
    assert scaled.attention_factor != plain.attention_factor == 1
    assert not torch.equal(scaled.phases.inv_freq, plain.phases.inv_freq)
    assert type(scaled) is type(plain) is Rope


@pytest.mark.parametrize("variant", STAND_INS)
def test_the_class_is_the_stand_in_s_and_only_numbers_differ(variant: str) -> None:
    scheme, other = small_scheme(variant), small_scheme(STAND_INS[variant])
    assert runs_the_code_of(scheme, other, numbers_of(variant))
    # What Python branches on: the kind of ladder, and whether there is a grid at all.
    assert scheme.stationary == other.stationary
    assert scheme.phases.pairs == other.phases.pairs


@pytest.mark.parametrize("variant", STAND_INS)
def test_the_stand_in_with_the_other_s_numbers_gives_the_other_s_bits(variant: str) -> None:
    """In every precision and place; of a scaled ladder the config is not even looked at."""
    scheme, twin = small_scheme(variant), small_scheme(STAND_INS[variant])
    config = twin.config
    for name in numbers_of(variant):
        setattr(twin, name, getattr(scheme, name))
    if variant in OF_LADDERS:
        twin.config = config
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        for name, positions in PLACES.items():
            expected = answers(scheme, dtype, positions)
            for hook, value in answers(twin, dtype, positions).items():
                assert torch.equal(value, expected[hook]), (dtype, name, hook)


@pytest.mark.parametrize("variant", STAND_INS)
def test_without_its_numbers_the_stand_in_gives_something_else(variant: str) -> None:
    """The control: the bits above are not those of any ladder."""
    mine, theirs = (
        answers(small_scheme(one), torch.float64, PLACES["window"])
        for one in (variant, STAND_INS[variant])
    )
    assert not torch.equal(mine["q"], theirs["q"])


def test_a_scheme_with_code_or_tensors_of_its_own_is_not_stood_in_for() -> None:
    class Own(Rope):
        def bias(self, *_: Any) -> None:
            return None

    plain = small_scheme("rope_yarn")
    own = Own(plain.config)
    stored = copy.deepcopy(plain)
    stored.register_buffer("kept", torch.zeros(1))
    wider = copy.deepcopy(plain)
    wider.width += 2
    assert runs_the_code_of(copy.deepcopy(plain), plain, LADDER)
    for other in (own, stored):
        assert not runs_the_code_of(other, plain, LADDER)
    assert not runs_the_code_of(wider, plain, LADDER)
