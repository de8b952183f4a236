"""The smallest base that keeps B(k) at or above 0: the paper's rule, plain loops, the known numbers."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from posenc import SchemeArgumentError
from posenc.analysis.base_search import MAX_LENGTH, smallest_base


def bound(dim: int, base: float, length: int) -> np.ndarray:
    """B(k) by the sum as printed, one offset in a row."""
    inv_freq = np.array([base ** (-2 * m / dim) for m in range(dim // 2)])
    return np.cos(np.arange(length)[:, None] * inv_freq).sum(1)


@pytest.mark.parametrize(("dim", "length"), [(8, 40), (16, 100), (32, 64)])
def test_the_smallest_base_is_the_one_a_plain_scan_of_bases_finds(dim: int, length: int) -> None:
    found = smallest_base(dim, length)
    assert found is not None
    step = 1e-4
    bases = np.exp(np.arange(step, math.log(found.base) + 0.01, step))
    passing = [base for base in bases if bound(dim, base, length).min() >= 0]
    assert passing[0] == pytest.approx(found.base, rel=2 * step)
    assert passing[0] >= found.base


# Men et al. 2024 by a log scan of bases, width 128: the first that passes, as far as it was told.
SCANNED = {1_024: 4_294, 4_096: 26_953, 32_768: 629_998}


@pytest.mark.parametrize("length", SCANNED)
def test_the_scanned_bases_lie_in_the_window_that_is_found(length: int) -> None:
    found = smallest_base(128, length)
    assert found is not None
    assert found.end is not None
    assert found.base <= SCANNED[length] < found.end
    # A scan of bases in steps steps over the first that pass: what is found is less, by a little.
    assert SCANNED[length] / found.base - 1 < 2e-4
    assert found.narrow


@pytest.mark.parametrize("length", [1_024, 4_096])
def test_just_below_the_base_and_just_past_the_window_a_forty_digit_sum_is_negative(
    length: int,
) -> None:
    mp.dps = 40
    found = smallest_base(128, length)
    assert found is not None
    assert found.end is not None
    for base in (found.base * (1 - 1e-7), found.end * (1 + 1e-7)):
        offset = int(bound(128, base, length).argmin())
        exact = mp.fsum(mp.cos(offset * mpf(base) ** (-mpf(m) / 64)) for m in range(64))
        assert exact < 0
    for base in (found.base * (1 + 1e-7), found.rounded, found.end * (1 - 1e-7)):
        assert bound(128, base, length).min() >= 0


def test_what_was_told_of_thirty_two_thousand_positions() -> None:
    """629,998 to about 630,984 pass; 631,006, told as the last that does, already fails."""
    found = smallest_base(128, 32_768)
    assert found is not None
    assert found.end == pytest.approx(630_983.58, abs=0.01)
    for base in (629_998, 630_983):
        assert bound(128, base, 32_768).min() >= 0
    for base in (630_984, 631_006):
        assert int((bound(128, base, 32_768) < 0).argmax()) == 26_976
    assert found.rounded == 629_980
    assert bound(128, found.rounded, 32_768).min() >= 0
    assert bound(128, found.base * (1 - 1e-7), 32_768).min() < 0


@pytest.mark.long
def test_what_was_told_of_a_hundred_and_thirty_one_thousand_positions() -> None:
    found = smallest_base(128, 131_072)
    assert found is not None
    assert found.rounded == 4.8692e6
    assert found.end == pytest.approx(4.873e6, rel=2e-4)
    assert found.narrow


# Up to where larger bases fail again, as told; a base just below that fails, and where.
AGAIN = {
    1_024: (6.0e3, 6_018, 903),
    4_096: (5.9e4, 58_676, 4_000),
    32_768: (2.5e6, 2_487_577, 29_076),
}


@pytest.mark.parametrize("length", AGAIN)
def test_larger_bases_fail_again_up_to_the_bases_that_were_told(length: int) -> None:
    told, base, fails_at = AGAIN[length]
    assert told * 0.99 < base < told * 1.01
    found = smallest_base(128, length)
    assert found is not None
    assert found.end is not None
    assert found.end < base
    assert int((bound(128, base, length) < 0).argmax()) == fails_at
    mp.dps = 40
    assert mp.fsum(mp.cos(fails_at * mpf(base) ** (-mpf(m) / 64)) for m in range(64)) < 0
    for larger in told * 1.01 ** np.arange(1, 13):
        assert bound(128, larger, length).min() >= 0


@pytest.mark.parametrize(("base", "fails_at"), [(2.7e4, 4_079), (1e4, 1_707)])
def test_a_rounded_base_can_fail(base: float, fails_at: int) -> None:
    found = smallest_base(128, 4_096)
    assert found is not None
    assert not found.base <= base <= (found.end or math.inf)
    assert int((bound(128, base, 4_096) < 0).argmax()) == fails_at


def test_a_single_pair_has_one_frequency_whatever_the_base() -> None:
    assert smallest_base(2, 100) is None
    found = smallest_base(2, 2)
    assert found is not None
    assert found.base == 1
    assert not found.narrow


def test_one_position_is_no_demand() -> None:
    found = smallest_base(128, 1)
    assert found is not None
    assert found.base == 1


@pytest.mark.parametrize(("dim", "length"), [(3, 10), (0, 10), (8, 0), (8, MAX_LENGTH + 1)])
def test_nonsense_is_refused(dim: int, length: int) -> None:
    with pytest.raises(SchemeArgumentError, match="must be"):
        smallest_base(dim, length)
