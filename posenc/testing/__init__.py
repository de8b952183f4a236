"""Assertions for people's own test suites: is this table, or this module, the scheme it should be?

from posenc.schemes import SCHEMES
from posenc.testing import assert_matches

def test_my_positions():
    assert_matches(MyPositions(512).pe, SCHEMES["sinusoidal"](dim=512))
"""

from posenc.testing.assertion import assert_matches
from posenc.testing.logits import assert_bias_matches, assert_logits_match

__all__ = ["assert_bias_matches", "assert_logits_match", "assert_matches"]
