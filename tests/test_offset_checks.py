"""The three offset checks as the page puts them together: the worst head, the right control."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from posenc import SCHEMES, alibi_slopes
from posenc.analysis import offset_checks
from posenc.query import Query
from posenc.schemes.alibi import Alibi

pytestmark = pytest.mark.usefixtures("no_shape_checks")


def query(kind: str, precision: str = "float32", **fields: Any) -> Query:
    return Query(SCHEMES[kind](**fields), length=256, precision=precision)


def test_the_worst_head_decides_about_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    right = offset_checks.check_map(query("alibi", heads=4), 3, 2)
    assert right.closed is not None
    assert right.closed < 1e-13
    true_map = Alibi.offset_map

    def wrong_in_one_head(self: Alibi, offset: int, *, size: int, head: Any = "mean") -> Any:
        matrix = true_map(self, offset, size=size, head=head)
        return matrix * 0 if head == 2 else matrix

    monkeypatch.setattr(Alibi, "offset_map", wrong_in_one_head)
    wrong = offset_checks.check_map(query("alibi", heads=4), 3, 2)
    assert wrong.closed == pytest.approx(1)
    assert wrong.verdict == "no such matrix, error 1"


def test_a_straight_line_is_read_off_the_rounded_bias() -> None:
    """Slopes of 12 heads are no powers of two, so bfloat16 bends the line a little."""
    slopes = alibi_slopes(12, dtype=torch.float64).numpy()
    distance = np.arange(256)
    bias = torch.tensor(-slopes[:, None] * distance).to(torch.bfloat16).double().numpy()
    for head, values in (("mean", bias.mean(axis=0)), (9, bias[9])):
        asked = Query(SCHEMES["alibi"](heads=12), length=256, precision="bfloat16", head=head)
        found = offset_checks.check_claims(asked).straight
        slope, intercept = np.polyfit(distance, values, 1)
        left = values - slope * distance - intercept
        assert found.slope == pytest.approx(slope, rel=1e-9)
        assert 1 - found.r_squared == pytest.approx(left.var() / values.var(), rel=1e-6)
        assert 1 - found.r_squared > 1e-9


@pytest.mark.parametrize("dim", [200, 512])
def test_an_untrained_table_does_as_well_as_its_control(dim: int) -> None:
    """Both are noise of one shape: the same error, sqrt(1 + n / (d - n)) for n fitted positions."""
    found = offset_checks.check_map(query("learned", dim=dim, max_len=128), 1, 2)
    expected = math.sqrt(1 + 64 / (dim - 64))
    assert found.fitted == pytest.approx(expected, rel=0.03)
    assert found.fitted_control == pytest.approx(expected, rel=0.03)
    assert found.closed is None
    assert found.closed_control is None


@pytest.mark.parametrize("kind", ["sinusoidal", "rope", "alibi"])
def test_a_closed_form_moves_its_own_vectors_and_no_random_ones(kind: str) -> None:
    found = offset_checks.check_maps(query(kind))
    assert len(found["offset"]) == len(offset_checks.OFFSETS)
    assert (found["error"] < 1e-12).all()
    assert (found["control"] > 0.8).all()


def test_wide_vectors_are_checked_at_every_third_offset() -> None:
    found = offset_checks.check_maps(query("sinusoidal", dim=4_096))
    assert found["offset"].tolist() == [1, 8, 64]


def test_a_scheme_without_vectors_has_a_verdict_and_no_number() -> None:
    none = offset_checks.check_map(query("none"), 1, 2)
    rounded = offset_checks.check_map(query("alibi", "bfloat16"), 1, 2)
    assert none.verdict == "no position vectors"
    assert rounded.verdict == "no position vectors once rounded to bfloat16"
    for found in (none, rounded):
        numbers = (found.closed, found.fitted, found.pairs, found.composed, found.picture)
        assert numbers == (None,) * 5
    assert offset_checks.check_dense(query("none"), 1).reason == "no position vectors"
    assert np.isnan(offset_checks.check_maps(query("none"))["error"]).all()
