"""The colours and strokes of schemes: enough for every scheme, seen on both grounds, told apart."""

import itertools
import math
import tomllib
from pathlib import Path

import pytest

from dashboard import charts
from dashboard.palette import COLOURS, DASHES, PALETTE, STROKES
from posenc.schemes import SCHEMES

THEME = tomllib.loads((Path(__file__).parents[1] / ".streamlit/config.toml").read_text())["theme"]
FIRST = ("#d55e00", "#2f86c6", "#0d9a74", "#c56fa3", "#8b8f96")


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """Contrast ratio, WCAG 2.2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_every_colour_is_seen_on_both_grounds(ground: str) -> None:
    for colour in PALETTE:
        assert contrast(colour, THEME[ground]["backgroundColor"]) >= 3, colour


def test_there_is_a_colour_for_every_scheme_and_the_first_ones_stay() -> None:
    assert len(PALETTE) >= max(24, len(SCHEMES))
    assert len(set(PALETTE)) == len(PALETTE)
    assert tuple(COLOURS.values())[:5] == PALETTE[:5] == FIRST
    assert list(COLOURS) == list(STROKES) == list(SCHEMES)
    assert charts.COLOURS is COLOURS  # one palette: the charts ask no theme


def test_no_two_schemes_share_colour_and_stroke() -> None:
    assert len({tuple(dash) for dash in DASHES}) == len(DASHES)
    assert math.lcm(len(PALETTE), len(DASHES)) == len(PALETTE) * len(DASHES)
    shared = [(PALETTE[n], tuple(DASHES[n % len(DASHES)])) for n in range(len(PALETTE))]
    assert len(set(shared)) == len(shared)


def test_strokes_differ_in_what_is_drawn_of_them() -> None:
    for one, other in itertools.combinations(DASHES, 2):
        assert one != other
        assert (len(one), sum(one)) != (len(other), sum(other)) or one[0] != other[0]
