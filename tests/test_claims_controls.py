"""Claims that no setting flips: the same check, on what it must fail on, gives the other answer."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc import Setting
from posenc.claims import CLAIMS, State, Verdict, order, wavelengths
from tests.test_claims import HOSTILE

SAME = 1e-9

# What the control of a theorem is where the check fails on it.
FAILS: dict[str, Callable[[float], bool]] = {
    "bounded": lambda largest: largest > 1,
    "linear_map": lambda error: error > 0.1,
    "two_right": lambda share: share < 0.2,
    "offset_only": lambda change: change > 1e-3,
    "one_hot": lambda gap: gap > 1e-3,
    "ends": lambda norm: norm > 0,
    "blind": lambda change: change > SAME,  # a theorem without a causal mask
}

drawn = st.fixed_dictionaries(
    {
        "dim": st.integers(1, 16).map(lambda n: 16 * n),
        "heads": st.sampled_from([1, 2, 8]),
        "base": st.floats(2.0, 1e12),
        "seed": st.integers(0, 2**31 - 1),
    }
)


@functools.cache
def judged(name: str, setting: Setting) -> Verdict:
    return CLAIMS[name].test(setting)


def of(found: Verdict, name: str) -> float:
    (value,) = [one.value for one in found.numbers if one.name == name]
    assert value is not None
    return value


def control(found: Verdict) -> float:
    assert found.control is not None
    assert found.control.value is not None
    return found.control.value


@pytest.mark.parametrize("claim", FAILS)
def test_every_theorem_fails_on_its_control(claim: str) -> None:
    proved = State.PARTLY if claim == "blind" else State.THEOREM
    every = [judged(claim, Setting(**setting)) for setting in HOSTILE.values()]
    found = [one for one in every if one.state is proved]
    assert found
    for one in found:
        assert FAILS[claim](control(one)), one.control


@pytest.mark.parametrize("claim", [name for name in CLAIMS if name not in FAILS])
def test_no_other_claim_is_called_a_theorem(claim: str) -> None:
    for setting in HOSTILE.values():
        assert judged(claim, Setting(**setting)).state is not State.THEOREM


@pytest.mark.parametrize("name", HOSTILE)
def test_dimensions_always_share_frequencies_and_a_ladder_of_their_own_does_not(name: str) -> None:
    setting = Setting(**HOSTILE[name])
    found = judged("own_frequency", setting)
    assert found.state is State.FALSE
    assert found.decides is not None
    assert found.decides.value == setting.dim / 2
    assert control(found) == setting.dim


def test_the_count_of_frequencies_would_find_the_sentence_true(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        wavelengths, "feature_frequencies", lambda setting: torch.linspace(1, 2, setting.dim)
    )
    assert CLAIMS["own_frequency"].test(Setting()).state is State.HOLDS


@given(numbers=drawn)
def test_attention_is_never_invariant_and_a_mean_always_is(numbers: dict[str, Any]) -> None:
    found = CLAIMS["permutation"].test(Setting(**numbers))
    assert found.state is State.FALSE
    assert found.decides is not None
    assert found.decides.value is not None
    assert found.decides.value > 1e-3
    assert control(found) <= SAME
    assert of(found, "change once put back in place") <= SAME
    assert of(found, "with RoPE, change once put back in place") > SAME
    assert found.sentence.endswith("outputs permute with the inputs, which is equivariance.")


@given(numbers=drawn)
def test_attention_without_a_mask_is_always_blind_and_rope_never(numbers: dict[str, Any]) -> None:
    found = CLAIMS["blind"].test(Setting(**numbers))
    assert found.state is State.PARTLY
    assert of(found, "change in two layers without a mask") <= SAME
    assert of(found, "change in one layer under a causal mask") <= SAME
    assert of(found, "change in two layers under a causal mask") > 1e-6
    assert control(found) > SAME
    assert found.sentence.endswith("a causal mask shows order.")


def test_the_checks_of_order_would_see_another_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a layer that is its mean the sentences are true, and with position they are false."""
    mean = lambda x, scheme, *, causal: x.mean(dim=-2, keepdim=True).expand_as(x)  # noqa: E731
    plain = order.layer
    monkeypatch.setattr(order, "layer", mean)
    assert CLAIMS["permutation"].test(Setting()).state is State.HOLDS
    assert CLAIMS["blind"].test(Setting()).state is State.THEOREM
    rope = order.rotated(Setting())
    monkeypatch.setattr(order, "layer", lambda x, scheme, *, causal: plain(x, rope, causal=causal))
    found = CLAIMS["permutation"].test(Setting())
    assert of(found, "change once put back in place") > SAME
    assert "equivariance" not in found.sentence
    found = CLAIMS["blind"].test(Setting())
    assert found.state is State.FALSE
    assert "shows order" not in found.sentence
