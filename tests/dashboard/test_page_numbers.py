"""Numbers of the comparison pages, against kernels computed without posenc.

How the library measures a kernel is proved against plain loops in tests/library.
"""

import itertools
import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dashboard.blocks import Chart, Drawer, Link, Matrices, Page, Table, Text
from dashboard.pages.at_a_glance import page as at_a_glance
from dashboard.pages.extrapolation import page as extrapolation
from dashboard.pages.extrapolation.options import NEAREST, TURNS
from dashboard.pages.relative_offsets import page as relative_offsets
from dashboard.settings import Setting
from dashboard.text import number
from posenc import analysis
from posenc.claims import figure
from posenc.rotation import pair_matrix
from posenc.text import as_factor, significant
from tests.dashboard import called_pages
from tests.dashboard import independent_kernels as by_hand
from tests.dashboard.called_pages import (
    block_of,
    blocks,
    chart,
    data,
    numbers,
    panel_values,
    small_setting,
    texts,
)
from tests.dashboard.independent_kernels import (
    SETTINGS,
    Small,
    kernel,
    mean_by_distance,
)
from tests.dashboard.page_texts import value_and_unit
from tests.dashboard.pages import KINDS, LABELS, cosines, of
from tests.library import independent

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.fixture(params=SETTINGS)
def small(request: pytest.FixtureRequest) -> Small:
    """The numbers of one small setting."""
    return SETTINGS[request.param]


def tensor(values: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(values, float))


def frequencies(kind: str, small: Small) -> torch.Tensor:
    width = by_hand.rope_width(small) if kind == "rope" else small["dim"]
    return tensor(independent.inverse_frequencies(width, small["base"]))


# At a glance -----------------------------------------------------------------------


def check_curve(block: Chart, kind: str, small: Small) -> None:
    """Compare the full curve and the drawn one with the kernel's cosine similarity."""
    cosine = cosines(kernel(kind, small))
    ranges = by_hand.diagonals(cosine)
    if kind == "alibi":  # the range of the heads beside their mean
        ranges = np.exp(by_hand.biases(small))[:, :, 0].T.tolist()
    expected = pd.DataFrame({
        "distance": range(len(cosine)), "mean": mean_by_distance(cosine),
        "low": [*map(min, ranges)], "high": [*map(max, ranges)],
    })  # fmt: skip
    own = block.numbers()[[*expected]]
    assert np.allclose(own, expected, atol=1e-12)
    # Drawn curves travel in float32: 6e-8 of 1.
    assert np.allclose(block.drawn[["x", "y", "low", "high"]], own, atol=1e-7, rtol=1e-6)


PROPERTIES = ("positions", "smallest_distance", "neighbour_mean", "norm_low", "norm_high",
              "translation_invariance_error", "first_rise", "kendall_tau")  # fmt: skip


def test_overview_page_shows_cosines_and_properties_of_the_kernel(small: Small) -> None:
    shown = at_a_glance.page(small_setting(small), at_a_glance.Options())
    full, said = data(shown, "Measured properties"), shown.headline
    about = re.compile("positions differ|cannot be told apart")
    sentences = [text for text in texts(shown) if about.search(text)]
    for column, kind in enumerate(KINDS):
        check_curve(chart(shown, f"curve_{kind}"), kind, small)
        (own,) = of(full, kind).to_dict("records")
        found: Any = analysis.measure(tensor(kernel(kind, small)))
        for name in PROPERTIES:
            if (value := getattr(found, name)) is None:
                assert pd.isna(own[name]), (kind, name)
            else:
                assert own[name] == pytest.approx(value, rel=1e-9, abs=2e-7), (kind, name)
        sentence = sentences[column]
        if kind == "none":
            assert "cannot be told apart" in sentence
        else:
            assert f"{own['smallest_distance']:.3g}" in sentence
            stationary = found.translation_invariance_error < 1e-6
            assert ("only the distance counts" in sentence) == stationary
        if found.first_rise:
            assert (
                f"{found.first_rise} ({LABELS[kind]}"
                in said.partition("first rises again at distance ")[2]
            )
    assert ("untrained noise" in said) == (small["learned_source"] == "random")


# Relative offsets ---------------------------------------------------------------------------------


OFFSET = 6


def test_offsets_page_shows_shifts_spreads_and_lines(small: Small) -> None:
    options = relative_offsets.Options(offset=OFFSET, second=3)
    page = relative_offsets.page(small_setting(small), options)
    maps = called_pages.data(page, "One matrix per offset")
    claims = called_pages.data(page, "Offset only and straight line")
    pictures, composed = panel_values(page, "offset_maps"), composed_maps(page)
    moving, alone, straight = page.headline.split("? ")[1:]
    assert page.headline.startswith(f"Does one matrix move every position by {OFFSET}? Yes for ")
    assert "ALiBi" not in moving  # it has no vectors
    assert "ALiBi" in alone
    assert straight == "Yes for ALiBi."
    (link,) = blocks(page, Link)
    assert (link.page, link.changes) == ("claims", {"theme": "distance", "claim": "linear_map"})
    (of_alibi,) = of(maps, "alibi")[["closed form", "fitted matrix"]].to_numpy()
    helps = [block.help for block in page.all_blocks if isinstance(block, Text)]
    said = any("ALiBi: no vectors of positions." in text for text in helps)
    assert said == (not np.isnan(of_alibi).all())
    (about,) = [text for text in texts(page) if "no vectors to move" in text]
    assert "ALiBi" in about
    rows = blocks(page, Matrices)
    assert "ALiBi" not in {panel.title for row in rows for panel in row.panels}
    check_lines(claims, small)
    check_cards(page, maps, claims)
    exact = small["precision"] == "float32"
    for kind in ("sinusoidal", "rope"):
        first: Any = "cos" if kind == "rope" else "sin"
        angles = frequencies(kind, small) * OFFSET
        shift: Any = pair_matrix(angles.cos(), angles.sin(), "interleaved", first, 0)
        assert np.allclose(pictures[LABELS[kind]], shift.to_dense()[:32, :32], atol=1e-7)
        angles = frequencies(kind, small) * (OFFSET + 3)
        both: Any = pair_matrix(angles.cos(), angles.sin(), "interleaved", first, 0)
        assert np.allclose(composed[LABELS[kind]], both.to_dense()[:32, :32], atol=1e-7)
        (own,) = of(maps, kind).to_dict("records")
        error = analysis.verify_map(tensor(by_hand.entries(kind, small)), shift, OFFSET)
        assert own["closed form"] == pytest.approx(error, rel=1e-6, abs=1e-14)
        assert own["closed form"] < (1e-13 if exact else 2**-7)
        assert own["M_a M_b against M_(a+b)"] < 1e-14
        assert 0.7 < own["closed form, random table"] < 2.1
        assert 0.5 < own["fit per pair, random table"] < 1.5
    (own,) = of(maps, "alibi").to_dict("records")
    if exact:
        assert own["closed form"] < 1e-13
    else:  # the exponential of a rounded bias is no inner product
        assert np.isnan(own["closed form"])
    (own,) = of(maps, "learned").to_dict("records")
    few = by_hand.known_positions("learned", small) < OFFSET + 4
    assert ("too few positions" in own["verdict"]) == few
    assert np.isnan(own["closed form"])
    assert np.isnan(of(maps, "none")["closed form"][0])


def composed_maps(page: Page) -> dict[str, np.ndarray]:
    """Return the product of two matrices of every scheme, which a closed drawer holds."""
    drawer: Drawer = block_of(page, Drawer, "composition")
    assert drawer.title == "Two moves in a row: M\u2086M\u2083"
    (row,) = [block for block in drawer.make() if isinstance(block, Matrices)]
    return {panel.title: panel.values.dense() for panel in row.panels}


def check_cards(page: Page, maps: pd.DataFrame, claims: pd.DataFrame) -> None:
    """Compare the three cards with the tables: a row per scheme, its number and its control."""
    shown = [block.frame.set_index("").T for block in page.all_blocks if isinstance(block, Table)]
    closed = maps["closed form"].fillna(maps["fitted matrix"])
    controls = maps["closed form, random table"].where(
        maps["closed form"].notna(), maps["fitted matrix, random table"]
    )
    expected = {
        ("error", "random table"): zip(maps["scheme"], closed, controls, strict=True),
        ("spread", "random table"): claims[
            ["scheme", "spread along diagonals / overall", "random table"]
        ].itertuples(index=False),
        ("R²", "random noise"): claims[["scheme", "R squared", "R squared of noise"]].itertuples(
            index=False
        ),
    }
    for (names, rows), of_card in zip(expected.items(), shown, strict=True):
        assert (*of_card.columns,) == ("answer", *names)
        for (scheme, *own), (label, row) in zip(rows, of_card.iterrows(), strict=True):
            assert label == scheme
            if pd.isna(own[0]) or "no vectors" in row.iloc[0]:
                assert {*row[1:]} == {"–"}
                continue
            assert [*row[1:]] == ["–" if pd.isna(value) else number(value) for value in own]
            assert row.iloc[0].startswith((":green-badge[", ":red-badge[", ":gray-badge["))


def test_wide_vectors_are_checked_at_every_third_offset() -> None:
    setting = Setting(schemes=("sinusoidal", "rope"), dim=4096, heads=32, train_length=24)
    page = relative_offsets.page(setting, relative_offsets.Options())
    drawer: Drawer = block_of(page, Drawer, "map_errors_open")
    chart, *captions = drawer.make()
    assert isinstance(chart, Chart)
    assert [text.text for text in captions if isinstance(text, Text)][-1] == (
        "Every third offset for the wide vectors of Sinusoidal."
    )
    for kind, offsets in (("sinusoidal", [1, 8, 64]), ("rope", [1, 2, 4, 8, 16, 32, 64])):
        rows = of(chart.numbers(), kind)
        assert rows["offset"].tolist() == offsets
        assert rows["error"].max() < 1e-12
        assert rows["control"].between(0.7, 2.1).all()  # of two random tables, about the root of 2


def check_lines(claims: pd.DataFrame, small: Small) -> None:
    """Compare spreads along diagonals and fits of a straight line with the kernel's own."""
    for kind in KINDS:
        (line,) = of(claims, kind).to_dict("records")
        spread = line["spread along diagonals / overall"]
        if kind == "none":
            assert np.isnan([spread, line["R squared"]]).all()
        elif kind == "alibi":  # a line of logits; those of the kernel are exponentials
            slope = -np.mean(by_hand.in_precision(by_hand.slopes_shown(small), small["precision"]))
            assert line["R squared"] == pytest.approx(1, abs=1e-12)
            assert line["slope per position"] == pytest.approx(slope, rel=1e-9)
        else:
            matrix = kernel(kind, small)
            expected, _ = analysis.diagonal_spread(tensor(matrix))
            # Of a stationary scheme nothing but rounding is left, of about the entries' last bit.
            assert spread == pytest.approx(expected, rel=1e-6, abs=1e-12)
            fit: Any = analysis.linear_in_offset(tensor(mean_by_distance(matrix)))
            assert line["R squared"] == pytest.approx(fit.r_squared, abs=1e-9)
            assert line["slope per position"] == pytest.approx(fit.slope, rel=1e-6, abs=1e-12)


# Extrapolation, from the formula ------------------------------------------------------------------


def test_formula_page_says_which_curves_return_into_the_range_and_which_only_fade() -> None:
    setting = Setting(schemes=("sinusoidal", "rope", "alibi"))
    shown = extrapolation.page(setting, extrapolation.Options(half="formula", reach="4"))
    curves, trained = numbers(shown, "past"), setting.train_length
    for kind, returns in (("sinusoidal", True), ("rope", True), ("alibi", False)):
        values = of(curves, kind)["cosine"].tolist()
        low, high = min(values[:trained]), max(values[:trained])
        inside = [low <= value <= high for value in values[trained:]]
        assert (inside[0], any(inside)) == (False, returns)
    assert all(later < value for value, later in itertools.pairwise(values))  # of ALiBi
    group = "Sinusoidal, RoPE and ALiBi first leave the range of similarity seen in training at distance"
    assert f"{group} {trained}." in shown.headline
    (caption,) = [text for text in texts(shown) if "dashed line" in text]
    assert "Sinusoidal and RoPE later return into the range." in caption
    assert "The similarity of ALiBi falls at every distance" in caption


def test_formula_page_reads_schemes_past_the_training_length(small: Small) -> None:
    trained = small["train_length"]
    views = [
        extrapolation.page(
            small_setting(small), extrapolation.Options(half="formula", reach="2", reason=reason)
        )
        for reason in ("similarity", NEAREST, TURNS)
    ]
    keys = "past", "nearest", "turns"
    curves, nearest, turned = (numbers(view, key) for view, key in zip(views, keys, strict=True))
    summary = data(views[2], "Frequencies")
    read = {**small, "length": 2 * trained, "precision": "float32"}
    assert of(curves, "learned").empty
    assert of(nearest, "learned").empty
    rows = 512 if small["learned_source"] == "minilm" else trained
    told = views[0].headline
    assert told.startswith(f"Past the training length, {trained:,}: ")
    groups = told.removesuffix(".").split(": ", 1)[1].split("; ")
    assert f"Learned ends with its table at {rows:,}" in groups
    for kind in KINDS[1:]:
        cosine = tensor(cosines(kernel(kind, read)))
        values = cosine[:, 0].clone()
        assert np.allclose(of(curves, kind)["cosine"], values, atol=1e-12)
        first = analysis.kernel_past(torch.cat([values.flip(0), values[1:]]), trained).first_outside
        (own,) = [group for group in groups if LABELS[kind] in group]
        end = " within the range of similarity seen in training"
        if first is not None:
            end = f" the range of similarity seen in training at distance {first}"
        assert own.endswith(end)
        assert ("stay" in own, "leave" in own) == (first is None, first is not None)
        expected = analysis.nearest_trained_distance(trained, kernel=cosine).distance
        assert np.allclose(of(nearest, kind)["distance"], expected, atol=1e-7)
        assert f"{float(expected.max()):.3g} ({LABELS[kind]})" in views[1].headline  # of norm 1
    for kind in ("sinusoidal", "rope"):
        thetas = frequencies(kind, small)
        turns = trained * thetas / (2 * math.pi)
        assert np.allclose(of(turned, kind)["turns"], turns, rtol=1e-12)
        (row,) = of(summary, kind).to_dict("records")
        full, pairs = int((turns >= 1).sum()), len(thetas)
        assert row["pairs with a full turn"] == f"{full} of {pairs}"
        assert f"{full} of {pairs} ({LABELS[kind]})" in views[2].headline
        assert row["critical dimension"] == f"{2 * full} of {2 * pairs}"
        if (negative := analysis.first_negative_offset(thetas, 5_000)) is not None:
            assert row["B(k) first negative at"] == f"{negative:,}"
    assert of(summary, "alibi").empty


@given(st.floats(-15, 14.9), st.booleans())
def test_numbers_for_reading_have_three_digits_and_no_exponent(
    power: float, negative: bool
) -> None:
    value = 10**power * (-1) ** negative
    texts = [significant(value), figure(value), number(value)]
    for text in texts[: 3 if abs(value) >= 1e-3 else 1]:
        back, _ = value_and_unit(text)
        assert "e" not in text
        assert ("\u00d7" in text) == (float(f"{abs(value):.3g}") < 1e-4)
        if abs(value) >= 1_000:  # whole, its thousands apart
            assert re.fullmatch(r"-?\d{1,3}(,\d{3})+", text)
            assert abs(back - value) <= 0.5 + 1e-9 * abs(value)
        else:
            assert abs(back - value) <= 0.0051 * abs(value)
            digits = re.sub(r"\s.*", "", text).replace(".", "").lstrip("-0").replace(",", "")
            assert len(digits) <= 4 if abs(back) == 1_000 else len(digits) <= 3


def test_numbers_at_the_edges_of_their_digits() -> None:
    for value, text in ((999.4, "999"), (999.5, "1,000"), (999.7, "1,000"), (-999.97, "-1,000")):
        assert significant(value) == figure(value) == number(value) == text
    assert [significant(value, 2) for value in (99.6, 523.4, 0.0996)] == ["100", "523", "0.1"]
    assert [significant(value, 4) for value in (9_999.6, 1_234.5, 2e6)] == [
        "10,000", "1,234", "2,000,000",
    ]  # fmt: skip
    assert [number(value, 2) for value in (523.0, 1e-9)] == ["523", "1.0\u00a0×\u00a010⁻⁹"]
    assert as_factor(12_345.6) == "x12,346"
    assert [significant(value) for value in (math.inf, math.nan, 0.0)] == ["inf", "nan", "0"]
    assert significant(9.9996e-5) == "0.0001"
    assert significant(5.9e-8, 2) == "5.9 × 10⁻⁸"
    assert significant(-2.04e15) == "-2.04 × 10¹⁵"
