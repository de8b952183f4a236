"""Curves that lie on each other are found and said; colours and strokes tell schemes apart."""

import itertools
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest
import vl_convert

from dashboard.all_pages import page_at
from dashboard.blocks import Chart
from dashboard.charts.frames import stacked
from dashboard.charts.lines import LABEL_GAP, apart, by_offset, coinciding, ends, labelled
from dashboard.charts.palette import (
    COLOURS,
    DASHES,
    MARKERS,
    ORDER,
    PALETTE,
    STROKES,
    looks,
    text_colours,
)
from dashboard.charts.theme import (
    GRAYS,
    LEGEND_LINE,
    for_projector,
    powers_of_ten,
    readout,
    spec_of,
    titled,
)
from dashboard.menu import TITLES
from dashboard.settings import Setting
from dashboard.state import State
from posenc.schemes import SCHEMES
from tests.dashboard.pages import captions, drawn, visit

pytestmark = pytest.mark.usefixtures("no_shape_checks")

Curve = tuple[list[float], list[float]]


def test_parts_of_a_frame_stand_under_each_other_as_pandas_joins_them() -> None:
    columns = ["name", "x", "y", "label", "past"]
    parts: list[dict[str, Any]] = [
        {"name": name, "x": np.arange(rows), "y": np.linspace(0, 1, rows), "label": None,
         "past": np.arange(rows) > 2}
        for name, rows in (("RoPE", 5), ("a longer name", 1), ("ALiBi", 3))
    ]  # fmt: skip
    parts[1]["y"] = np.array([np.nan])
    joined = pd.concat([pd.DataFrame(part)[columns] for part in parts], ignore_index=True)
    pd.testing.assert_frame_equal(stacked(parts, columns), joined)
    pd.testing.assert_frame_equal(
        stacked(parts[:1], ["y", "x"]), pd.DataFrame(parts[0])[["y", "x"]]
    )
    assert [*stacked([], columns)] == columns


def frame(**curves: Curve) -> pd.DataFrame:
    parts = [pd.DataFrame({"scheme": name, "x": x, "y": y}) for name, (x, y) in curves.items()]
    return pd.concat(parts, ignore_index=True)


X, FINE = [0.0, 1.0, 2.0, 3.0], [0.0, 0.5, 1.0, 1.5, 2.0]


@pytest.mark.parametrize(
    ("other", "coincide"),
    [
        ((X, [0.0, 1.0, 2.0 + 0.019, 8.0]), True),  # a line is as wide as 8 / 400, which is 0.02
        ((X, [0.0, 1.0, 2.0 + 0.021, 8.0]), False),
        ((FINE, FINE), True),  # other points, compared where both are
        (([0.0, 1.0, 9.0], [0.0, 1.5, 9.0]), False),
        (([5.0, 6.0], [5.0, 6.0]), False),  # elsewhere altogether
        (([3.0, 4.0], [8.0, 9.0]), False),  # one point in common: nothing to compare
        ((X, [np.nan] * 4), False),
    ],
)
def test_curves_less_than_a_line_apart_coincide(other: Curve, coincide: bool) -> None:
    said = coinciding(frame(A=(X, [0.0, 1.0, 2.0, 8.0]), B=other))
    assert said == ("A and B coincide." if coincide else "")


def test_on_a_log_scale_ratios_count() -> None:
    x = [0.0, 1.0, 2.0]
    both = frame(A=(x, [1.0, 10.0, 1e6]), B=(x, [2.0, 10.0, 1e6]))
    assert coinciding(both) == "A and B coincide."
    assert coinciding(both, log=True) == ""


def test_every_curve_of_a_group_is_named() -> None:
    x = [0.0, 1.0]
    both = frame(**{name: (x, [1.0, 2.0]) for name in "ACD"}, B=(x, [5.0, 0.0]))
    assert coinciding(both) == "A, C and D coincide."


def test_name_of_a_line_stands_at_its_last_value_and_covers_no_other() -> None:
    ends = {"short": [1.0, 0.5, np.nan, np.nan], "low": [1, 1, 1, 0.0], "near": [1, 1, 1, 0.01]}
    curves = frame(**{name: (X, y) for name, y in ends.items()}).astype({"scheme": "category"})
    named = labelled(curves).dropna(subset="label_y").set_index("scheme")
    assert named["x"].to_dict() == {"short": 1, "low": 3, "near": 3}
    assert named["label_y"].to_dict() == pytest.approx({"short": 0.5, "low": 0, "near": LABEL_GAP})


def test_a_line_that_ends_a_place_earlier_is_named_apart_from_the_others() -> None:
    x = [float(n) for n in range(100)]
    ends = {"whole": [1.0] + 99 * [0.5], "shorter": [0.0] + 98 * [0.5] + [np.nan]}
    curves = frame(**{name: (x, y) for name, y in ends.items()}).astype({"scheme": "category"})
    named = labelled(curves).dropna(subset="label_y").set_index("scheme")
    assert named["x"].to_dict() == {"whole": 99, "shorter": 98}
    assert abs(named["label_y"]["whole"] - named["label_y"]["shorter"]) == pytest.approx(LABEL_GAP)


@pytest.mark.parametrize(
    ("ends", "places"),
    [
        ([5, 5], [4.5, 5.5]),  # around their mean
        ([0, 0, 0], [0, 1, 2]),  # not below the lowest value
        ([9.9, 2, 10], [9, 2, 10]),  # nor above the highest
    ],
)
def test_names_of_lines_stay_between_the_lowest_and_the_highest_value(
    ends: list[float], places: list[float]
) -> None:
    assert apart(np.array(ends, float), 1, 0, 10).tolist() == pytest.approx(places)


def test_screen_reader_says_the_ends_of_the_lines_of_a_chart() -> None:
    curves = frame(A=([3.0, 1.0, 2.0], [0.25, 7.0, 9.0]), B=([1.0, 2_048.0], [-0.5, np.nan]))
    told = "A: 7 at 1, 0.25 at 3. B: -0.5 at 1, -0.5 at 1."
    assert ends(curves) == told
    assert ends(curves.assign(setting="A")).startswith("A, A: 7 at 1")
    assert ends(curves.assign(name=["A, as trained"] * 3 + ["B"] * 2)).startswith(
        "A, as trained: 7 "
    )
    assert ends(curves.drop(columns="x")) == ends(curves[:0]) == ""

    def spoken(alt: str | None = None) -> str:
        return Chart(
            key="a", title="Loss", frame=curves, names=("a",), draw=lambda _: {}, x="", alt=alt
        ).spoken

    assert spoken() == told
    assert spoken("A picture.") == "A picture."


def test_tooltip_of_a_line_writes_large_values_whole() -> None:
    """Evaluated by Vega, as a text that is drawn."""
    values = {"a": 999.7, "b": 1_234.5, "c": -65_432.1, "d": 999.4, "e": 0.12345, "f": None}
    x = alt.X("x:Q")
    rule = spec_of(readout([*values], x, "x", ".3g"))
    rows = [{"scheme": name, "x": 1, "y": y} for name, y in values.items()]
    layers = [
        {"mark": "text", "encoding": {"text": {"field": name}, "y": {"value": 20 * n}}}
        for n, name in enumerate(values)
    ]
    chart = {"data": {"values": rows}, "transform": rule["transform"], "layer": layers}
    svg = vl_convert.vegalite_to_svg(chart)
    drawn_texts = [text.replace("\u2212", "-") for text in re.findall(r"<text[^>]*>([^<]+)<", svg)]
    assert drawn_texts == ["1,000", "1,235", "-65,432", "999", "0.123", "\u2013"]


def test_pages_say_which_curves_coincide() -> None:
    at = drawn(visit("similarity", {"equal_width": "true"}))
    assert "Sinusoidal and RoPE coincide." in captions(at)


THEME = tomllib.loads((Path(__file__).parents[2] / ".streamlit/config.toml").read_text())["theme"]


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """Contrast ratio, WCAG 2.2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_colour_has_contrast_on_both_themes() -> None:
    for colour in PALETTE:
        for theme in ("light", "dark"):
            assert contrast(colour, THEME[theme]["backgroundColor"]) >= 3, (theme, colour)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_of_a_chart_can_be_read(theme: str) -> None:
    ground = THEME[theme]["backgroundColor"]
    texts = [GRAYS[theme == "dark"], *(text_colours(one)[theme == "dark"] for one in PALETTE)]
    assert {text for text in texts if contrast(text, ground) < 4.5} == set()
    kinds = ("learned", "sinusoidal", "rope", "alibi")
    ends = [SCHEMES[kind].label for kind in kinds]
    rows = labelled(frame(**{name: (X, [float(n)] * 4) for n, name in enumerate(ends)}).astype(
        {"scheme": "category"}
    )).assign(boundary=1.0)  # fmt: skip
    spec = titled(
        by_offset(kinds, "x", "y", labels=True, band=False), "Title", "Below", projected=False
    )
    spec["data"] = {"values": rows.to_dict("records")}
    colours = {"background": ground, "title": {"color": THEME[theme]["textColor"]}}
    svg = vl_convert.vegalite_to_svg(spec | {"config": spec["config"] | colours})
    drawn = [
        (fill, text) for fill, text in re.findall(r'<text[^>]*fill="([^"]+)"[^>]*>([^<]+)<', svg)
    ]
    assert {*ends, "training length", "x", "y", "Below"} <= {text for _, text in drawn}
    assert [pair for pair in drawn if contrast(pair[0], ground) < 4.5] == []


def test_the_name_of_a_boundary_stands_between_the_plot_and_the_legend() -> None:
    spec = by_offset(("rope",), "x", "y", band=False)
    (name,) = [layer for layer in spec["layer"] if layer["mark"].get("text") == "training length"]
    assert name["mark"]["baseline"] == "bottom"
    assert name["encoding"]["y"]["value"] < 0  # above the plot, where no line is
    projected = for_projector(spec)
    size = projected["config"]["text"]["fontSize"]
    assert projected["config"]["legend"]["offset"] > size - name["encoding"]["y"]["value"]


def test_colour_and_stroke_or_stroke_and_marker_tell_all_schemes_apart() -> None:
    assert len(set(PALETTE)) == len(PALETTE) >= len(SCHEMES)
    assert list(COLOURS) == list(STROKES) == list(SCHEMES)
    # Strokes differ in what is drawn of them: parts, length or first dash.
    assert len({(len(dash), sum(dash), dash[:1]) for dash in map(tuple, DASHES)}) == len(DASHES)
    assert len({(COLOURS[kind], tuple(STROKES[kind])) for kind in SCHEMES}) == len(SCHEMES)
    without_colour = {(tuple(STROKES[kind]), MARKERS[kind]) for kind in SCHEMES}
    assert len(without_colour) == len(SCHEMES)


def oklab(colour: str) -> np.ndarray:
    """Return a colour in OKLab (Ottosson 2020), in which equal distances look alike."""
    values = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    axes = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.array(axes) @ np.cbrt(np.array(cones) @ linear)


FIRST = ("learned", "sinusoidal", "rope", "alibi", "none")
MEASURED_BESIDE = ("ssmax", "ssmax_rope", "rnope", "pope", "fox", "stick_breaking")


def test_schemes_that_are_measured_side_by_side_have_colours_apart() -> None:
    assert oklab("#ffffff") == pytest.approx([1, 0, 0], abs=1e-6)
    places = {kind: oklab(COLOURS[kind]) for kind in (*FIRST, *MEASURED_BESIDE)}
    near = {
        (one, other): float(np.linalg.norm(places[one] - places[other]))
        for one, other in itertools.combinations(places, 2)
    }
    assert {pair: apart for pair, apart in near.items() if apart < 0.09} == {}


def marks(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every layer of a specification that draws lines."""
    if isinstance(node, dict):
        if isinstance(node.get("mark"), dict) and node["mark"]["type"] == "line":
            yield node
        node = [*node.values()]
    for part in node if isinstance(node, list) else []:
        yield from marks(part)


@pytest.mark.parametrize("folder", TITLES)
def test_lines_of_schemes_differ_by_dash_and_points_by_shape(folder: str) -> None:
    blocks = page_at(State(Setting(schemes=("sinusoidal", "rope"))), folder).all_blocks
    for block in (block for block in blocks if isinstance(block, Chart)):
        for layer in marks(block.spec):
            encoding, mark = layer["encoding"], layer["mark"]
            if encoding.get("y", {}).get("field") == "cut":  # thin beside the scheme's own line
                assert mark["strokeWidth"] < 2
            elif encoding.get("color", {}).get("field") == "scheme":
                dash = encoding["strokeDash"]
                assert dash["scale"]["range"] == [STROKES["sinusoidal"], STROKES["rope"]]
                assert dash["legend"]["symbolType"] == LEGEND_LINE["symbolType"]  # long enough
            elif mark.get("color") in COLOURS.values():  # a scheme alone
                (kind,) = block.names
                assert (mark["color"], mark["strokeDash"]) == (COLOURS[kind], STROKES[kind])
            if isinstance(mark.get("point"), dict) and "scheme" in json.dumps(encoding):
                assert all(
                    MARKERS[kind] in json.dumps(mark["point"]) for kind in ("sinusoidal", "rope")
                )


def test_new_scheme_anywhere_in_the_registry_recolours_no_other() -> None:
    kinds = [*SCHEMES]
    assert {*kinds} == {*ORDER}
    for place in (0, 3, len(kinds)):
        more = looks([*kinds[:place], "new", *kinds[place:]])
        assert more.pop("new")[0] not in COLOURS.values()
        assert more == {kind: (COLOURS[kind], STROKES[kind], MARKERS[kind]) for kind in kinds}


def test_log_axis_writes_powers_of_ten_as_sentences_do() -> None:
    rows = [{"x": n, "y": 10.0**power} for n, power in enumerate((-16, -8, 0, 4))]
    axis = powers_of_ten()
    axis["values"] = [row["y"] for row in rows]
    y = alt.Y("y:Q", scale=alt.Scale(type="log"), axis=axis)
    chart = alt.Chart(alt.Data(values=rows)).mark_line().encode(x="x:Q", y=y)
    svg = vl_convert.vegalite_to_svg(chart.to_json())
    assert {*re.findall(r">(10[^<]*)<", svg)} == {"10⁻¹⁶", "10⁻⁸", "10⁰", "10⁴"}


def test_log_axis_names_no_number_between_powers_of_ten() -> None:
    axis = powers_of_ten()
    axis["values"] = [1.0, 2.0, 5.0, 10.0]
    y = alt.Y("y:Q", scale=alt.Scale(type="log"), axis=axis)
    rows = [{"x": n, "y": value} for n, value in enumerate(axis["values"])]
    chart = alt.Chart(alt.Data(values=rows)).mark_line().encode(x=alt.X("x:Q", axis=None), y=y)
    svg = vl_convert.vegalite_to_svg(chart.to_json())
    assert re.findall(r">(10[^<]*)<", svg) == ["10⁰", "10¹"]
