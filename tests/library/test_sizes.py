"""Sizes: the config of every scheme from the numbers of a comparison, and what each scheme takes."""

import random as random_numbers
from typing import Any

import pytest

from posenc import SCHEMES, ConfigError, RopeConfig, RopeLinearConfig, SchemeConfig, fields
from posenc.schemes.sizes import Sizes


def by_hand(kind: str, sizes: Sizes) -> dict[str, Any]:
    """Return the fields of a scheme that a comparison shares, written out for each scheme."""
    head, heads, base = sizes.dim // sizes.heads, {"heads": sizes.heads}, {"base": sizes.base}
    rotary = {"dim": sizes.dim if sizes.equal_width else head} | base
    trained = {"trained_length": max(2, sizes.train_length)}
    rows = min(2_048, sizes.train_length)
    shared: dict[str, dict[str, Any]] = {
        "learned": {"dim": sizes.dim, "max_len": rows, "source": sizes.learned_source},
        "sinusoidal": {"dim": sizes.dim} | base,
        "alibi": heads,
        "none": {},
        "shaw": {"dim": head},
        "transformer_xl": {"dim": sizes.dim} | heads | base,
        "t5": heads,
        "kerple_log": heads,
        "kerple_power": heads,
        "fire": {"threshold": max(2, sizes.train_length)} | heads,
        "sandwich": heads | base,
        "xpos": rotary,
        "cope": {"dim": head},
        "ssmax": heads | trained,
        "rnope": {"dim": head} | base,
        "pope": {"dim": head} | base | heads,
        "fox": {"dim": sizes.dim} | heads,
        "stick_breaking": {},
        "ssmax_rope": {"dim": head} | base | heads | trained,
        "rope": rotary,
        "rope_linear": rotary,
        "rope_ntk": rotary,
        "rope_proportional": rotary,
        "rope_sections": rotary,
        "rope_yarn": rotary | trained,
        "rope_yarn_paper": rotary | trained,
        "rope_llama3": rotary | trained,
        "rope_dynamic": rotary | trained | {"length": sizes.length},
        "rope_longrope": rotary | trained | {"length": sizes.length},
    }
    assert kind in shared, (
        f"by_hand of tests/library/test_sizes.py does not say what {kind} takes of sizes."
    )
    return shared[kind]


def random_sizes(draw: random_numbers.Random) -> Sizes:
    heads = draw.choice([1, 2, 3, 8, 64])
    return Sizes(
        dim=8 * heads * draw.randint(1, 8),
        heads=heads,
        base=draw.choice([2.0, 123.0, 1e4, 5e5]),
        length=draw.choice([2, 64, 256, 100_000]),
        train_length=draw.choice([1, 2, 128, 4_096]),
        equal_width=draw.random() < 0.5,
        learned_source=draw.choice(["random", "trained"]),
    )


@pytest.mark.parametrize("kind", SCHEMES)
def test_sizes_give_every_scheme_its_config(kind: str) -> None:
    draw = random_numbers.Random(0)
    for _ in range(50):
        sizes = random_sizes(draw)
        assert sizes.config(kind) == SCHEMES[kind](**by_hand(kind, sizes))


@pytest.mark.parametrize("kind", SCHEMES)
def test_a_scheme_names_the_sizes_that_change_it(kind: str) -> None:
    before = Sizes(dim=96, heads=4, learned_source="random")
    changes: dict[str, object] = {
        "dim": 192, "heads": 2, "base": 500.0, "length": 512, "train_length": 300,
        "equal_width": True, "learned_source": "trained",
    }  # fmt: skip
    changing = {
        name
        for name, value in changes.items()
        if before.replace(**{name: value}).config(kind) != before.config(kind)
    }
    assert changing == {*SCHEMES[kind].sizes_used}


@pytest.mark.parametrize("kind", SCHEMES)
def test_own_fields_are_those_that_sizes_do_not_give(kind: str) -> None:
    config: type[SchemeConfig] = SCHEMES[kind]
    shared = {*by_hand(kind, Sizes())}
    assert {*config.own_rules()} == {*fields.rules(config)} - shared - {*config.of_models}


def test_own_fields_reach_their_scheme_alone() -> None:
    own = (("rope.layout", "half"), ("t5.buckets", 16), ("rope.partial_rotary_factor", 1.0))
    sizes = Sizes(own=own)
    assert sizes.own == (("rope.layout", "half"), ("t5.buckets", 16))  # without the default
    assert sizes.config("rope") == RopeConfig(dim=64, layout="half")
    assert sizes.config("rope_linear") == RopeLinearConfig(dim=64)


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dim": 100, "heads": 8}, "Sizes.dim must be a multiple of twice the heads"),
        ({"dim": 0}, "Sizes.dim must be a multiple of 2 from 2 to 65,536, got 0."),
        ({"base": 1.0}, "Sizes.base must be a number greater than 1"),
        ({"precision": "float64"}, "Sizes.precision must be one of float32, bfloat16, float16"),
        (
            {"own": (("rope.layuot", "half"),)},
            "own may hold rope.layout, rope.partial_rotary_factor",
        ),
        ({"own": (("rpoe.layout", "half"),)}, "own may hold fields of one scheme"),
        ({"own": (("rope.layout", "half", 1),)}, "own must be a tuple of pairs"),
        ({"own": (("rope.partial_rotary_factor", 0.3),)}, "RopeConfig"),
    ],
)
def test_impossible_sizes_are_refused_in_one_sentence(changes: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence.replace("(", r"\(")):
        Sizes(**changes)
