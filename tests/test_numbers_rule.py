"""The rule of a list of numbers: what it takes, how it is written, read back and told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc import fields

FACTORS = fields.Numbers(low=0.5, high=100.0, least=0, most=6, label="Factors")
SIZES = fields.Numbers(low=0, high=64, least=2, most=4, whole=True, label="Sizes")


@given(st.lists(st.floats(0.5, 100), max_size=6).map(tuple))
def test_what_is_written_is_read_back(value: tuple[float, ...]) -> None:
    assert FACTORS.accepts(value)
    assert FACTORS.nearest(FACTORS.write(value)) == value


@pytest.mark.parametrize(
    ("rule", "text", "value"),
    [
        (FACTORS, "1,2.5,3", (1.0, 2.5, 3.0)),
        (FACTORS, "1, 2.5", (1.0, 2.5)),
        (FACTORS, "0.1,1e9", (0.5, 100.0)),
        (FACTORS, "1,1,1,1,1,1,1,1", (1.0,) * 6),
        (FACTORS, "none", ()),
        (FACTORS, "", None),
        (FACTORS, "1,,2", None),
        (FACTORS, "1,nan", None),
        (FACTORS, "1;2", None),
        (SIZES, "16,24,24", (16, 24, 24)),
        (SIZES, "2.4,70", (2, 64)),
        (SIZES, "16", None),
        (SIZES, "none", None),
    ],
)
def test_text_gives_the_nearest_numbers_or_nothing(
    rule: fields.Numbers, text: str, value: object
) -> None:
    found = rule.nearest(text)
    assert found == value
    assert found is None or rule.accepts(found)


@pytest.mark.parametrize(
    "value",
    [None, 1.0, [1.0], (0.4,), (101.0,), (True,), ("1",), (float("nan"),), (1.0,) * 7],
)
def test_other_values_are_refused(value: object) -> None:
    assert not FACTORS.accepts(value)


def test_whole_numbers_are_whole() -> None:
    assert SIZES.accepts((16, 24))
    assert not SIZES.accepts((16.0, 24))
    assert not SIZES.accepts((16,))


def test_what_is_allowed_and_held_is_told_in_words() -> None:
    allowed = FACTORS.allowed()
    assert allowed == "1 to 6 numbers from 0.5 to 100, with commas between them, or none"
    assert SIZES.allowed() == "2 to 4 whole numbers from 0 to 64, with commas between them"
    assert FACTORS.told(()) == "none"
    assert FACTORS.told((1.0, 2.5)) == "1, 2.5"
    assert FACTORS.told((1.0, 2.0, 3.0, 4.0, 5.0)) == "1, 2, ... (5 numbers)"
