"""Curves that lie on each other: found by what is drawn, said, and all of them seen."""

import numpy as np
import pandas as pd
import pytest

from dashboard import coinciding
from tests.pages import captions, charts, drawn, of, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def frame(**curves: tuple[list[float], list[float]]) -> pd.DataFrame:
    parts = [pd.DataFrame({"scheme": name, "x": x, "y": y}) for name, (x, y) in curves.items()]
    return pd.concat(parts, ignore_index=True)


def test_curves_coincide_where_no_point_is_further_off_than_a_line_is_wide() -> None:
    x = [0.0, 1.0, 2.0, 3.0]
    one = (x, [0.0, 1.0, 2.0, 8.0])
    near, off = (x, [0.0, 1.0, 2.0 + 0.019, 8.0]), (x, [0.0, 1.0, 2.0 + 0.021, 8.0])
    assert coinciding.groups(frame(A=one, B=near)) == [["A", "B"]]  # 8 / 400 is 0.02
    assert coinciding.groups(frame(A=one, B=off)) == []
    assert coinciding.groups(frame(A=one)) == []
    assert coinciding.groups(pd.DataFrame()) == []


def test_curves_of_other_points_are_compared_where_both_are() -> None:
    fine = ([0.0, 0.5, 1.0, 1.5, 2.0], [0.0, 0.5, 1.0, 1.5, 2.0])
    assert coinciding.groups(frame(A=fine, B=([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]))) == [["A", "B"]]
    assert coinciding.groups(frame(A=fine, B=([0.0, 1.0, 9.0], [0.0, 1.5, 9.0]))) == []
    # Elsewhere altogether, or in one point of many: nothing to compare.
    assert coinciding.groups(frame(A=fine, B=([5.0, 6.0], [5.0, 6.0]))) == []
    assert coinciding.groups(frame(A=fine, B=([2.0, 3.0], [2.0, 9.0]))) == []
    blank = (fine[0], [np.nan] * 5)
    assert coinciding.groups(frame(A=fine, B=blank, C=fine)) == [["A", "C"]]


def test_on_a_log_scale_ratios_count() -> None:
    x = [0.0, 1.0, 2.0]
    low, high = (x, [1.0, 10.0, 1e6]), (x, [2.0, 10.0, 1e6])
    assert coinciding.groups(frame(A=low, B=high)) == [["A", "B"]]
    assert coinciding.groups(frame(A=low, B=high), log=True) == []


def test_lines_beneath_are_wider_and_named() -> None:
    x = [0.0, 1.0]
    both = frame(A=(x, [1.0, 2.0]), B=(x, [5.0, 0.0]), C=(x, [1.0, 2.0]), D=(x, [1.0, 2.0]))
    found = coinciding.groups(both)
    assert found == [["A", "C", "D"]]
    widths = coinciding.seen(both, found).groupby("scheme")["width"].first()
    assert widths["A"] > widths["C"] > widths["D"] == widths["B"]
    assert coinciding.said(found) == "A, C and D coincide: those beneath are drawn wider."
    assert coinciding.said(found[:0]) == ""


def test_encoding_says_that_the_ladders_of_rope_and_sinusoidal_coincide() -> None:
    said = "Sinusoidal and RoPE coincide: the one beneath is drawn wider."
    at = drawn(visit("encoding"))
    assert captions(at).count(said) == 2
    spectra = [one for one in charts(at) if "wavelength" in one]
    assert len(spectra) == 2
    for one in spectra:
        assert of(one, "sinusoidal")["width"].iloc[0] > of(one, "rope")["width"].iloc[0]
        assert not of(one, "sinusoidal")["dot"].any()
        assert not of(one, "rope")["dot"].any()
    few = drawn(visit("encoding", {"dim": "128"}))  # RoPE has 8 pairs
    assert all(of(one, "rope")["dot"].all() for one in charts(few) if "dot" in one)
    other = drawn(visit("encoding", {"model": "llama-3-8b"}))  # base 500,000
    assert said not in captions(other)


@pytest.mark.parametrize("page", ["start", "similarity"])
def test_curves_of_similarity_coincide_at_equal_width_alone(page: str) -> None:
    said = "Sinusoidal and RoPE coincide: the one beneath is drawn wider."
    assert said in captions(drawn(visit(page, {"equal_width": "true"})))
    assert said not in captions(drawn(visit(page)))
